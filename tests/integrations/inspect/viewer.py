"""The lists of Inspect's viewer find our logs, by their names and headers.

python tests/integrations/inspect/viewer.py FOLDER
"""

import sys
from pathlib import Path

from inspect_ai.log import list_eval_logs, read_eval_log


def main(folder: Path) -> None:
    """List the logs and read their headers."""
    logs = list_eval_logs(str(folder))
    assert len(logs) == len(list(folder.glob("*/log.eval")))
    for one in logs:
        header = read_eval_log(one, header_only=True)
        assert header.samples is None and header.eval.model and header.eval.task
    sys.stdout.write(f"{len(logs)} logs listed\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
