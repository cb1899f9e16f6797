"""`python -m tests.fuzz`: the whole campaign with a table, or one input again."""

import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.campaign import campaign, play
from tests.fuzz.targets import finished_run, targets
from tests.support.warm_process import open_warm_process

_INPUTS = 3_000


def main() -> int:
    """Play and print; the exit status is 1 where an input did what none may do."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_warm_process("tests.support.loaded_commands") as warm,
    ):
        folder = Path(scratch)
        every = {target.name: target for target in targets(finished_run(warm, folder))}
        if len(sys.argv) == 3:
            status, text, fault = play(every[sys.argv[1]], int(sys.argv[2]), warm, folder / "one")
            sys.stdout.write(f"{text}\nexit status {status}; {fault or 'no fault'}\n")
            return bool(fault)
        total = int(sys.argv[1]) if len(sys.argv) == 2 else _INPUTS
        numbers = range(-(-total // len(every)))
        faults = []
        _row("target", "inputs", "exit 0", "1", "2", "faults", "seconds")
        for name, target in every.items():
            began = time.monotonic()
            tally = campaign([target], numbers, warm, folder)[name]
            counts = [tally.inputs, *(tally.statuses[status] for status in range(3))]
            _row(name, *counts, len(tally.faults), round(time.monotonic() - began))
            faults += tally.faults
        sys.stdout.write("\n".join([*faults, f"{len(faults)} faults"]) + "\n")
        return bool(faults)


def _row(name: str, *cells: object) -> None:
    sys.stdout.write(f"{name:28}{''.join(f'{cell!s:>8}' for cell in cells)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
