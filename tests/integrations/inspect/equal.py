"""Two logs of the same run read back equal, but for what the second writer of `.eval` files knew
more about: `completed` of a summary, and the reason of a limit.

    python tests/integrations/inspect/equal.py OLD.eval NEW.eval
"""

import sys
from pathlib import Path
from typing import Any

from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries


def main(old_file: Path, new_file: Path) -> None:
    """Compare; raises AssertionError at the first difference."""
    old, new = (
        read_eval_log(str(file), resolve_attachments="full").model_dump()
        for file in (old_file, new_file)
    )
    _compare(old, new, "log")
    summaries = [
        [one.model_dump() for one in read_eval_log_sample_summaries(str(file))]
        for file in (old_file, new_file)
    ]
    for one in (*summaries[0], *summaries[1]):
        del one["completed"], one["limit_reason"]
    _compare(*summaries, "summaries")
    sys.stdout.write(f"{new_file}: {len(new['samples'])} samples equal those of {old_file}\n")


def _compare(old: Any, new: Any, where: str) -> None:
    """Raises AssertionError at the first place where they differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        assert old.keys() == new.keys(), (where, old.keys() ^ new.keys())
        for name in old:
            _compare(old[name], new[name], f"{where}.{name}")
    elif isinstance(old, list) and isinstance(new, list):
        assert len(old) == len(new), (where, len(old), len(new))
        for index, pair in enumerate(zip(old, new, strict=True)):
            _compare(*pair, f"{where}[{index}]")
    else:
        assert old == new, (where, str(old)[:200], str(new)[:200])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
