"""The last client of the old package, `openenv-core` 0.3.0, on /openenv: it plays episodes by step.
Its calls over /mcp lead to another session than its reset, and are refused by a sentence."""

import sys

from tests.integrations.serving import client, report, served

if __name__ == "__main__":
    with served("shop_support") as url:
        client(
            sys.argv[1], "tests/integrations/openenv_old/client.py", f"{url}/openenv/shop_support"
        )
    report("openenv-core 0.3.0: no world and no session is left")
