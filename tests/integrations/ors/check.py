"""The official client of ORS (`openreward`) on /ors: oracle 1, no-op less, tasks, tools, errors."""

import sys

from tests.integrations.serving import client, report, served

WORLDS = ("shop_support", "claims_desk")

if __name__ == "__main__":
    with served(*WORLDS) as url:
        client(sys.argv[1], "tests/integrations/ors/client.py", url, *WORLDS)
    report("openreward: no world and no session is left")
