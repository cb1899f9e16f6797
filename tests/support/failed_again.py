"""Run the tests again that failed last: at most three of them, three times, with nothing beside.

    python -m tests.support.failed_again [FOLDER]   (`just test-again`)

Those of FOLDER alone, where it is given: the record may have others of another environment.

Among thousands of tests on busy processors one can fail by the moment in which something happened.
One that passes three times alone is named at the end, to be mended, and does not fail the whole;
one that fails again does.
"""

import json
import subprocess
import sys
from pathlib import Path

import click

MOST, TIMES = 3, 3
_RECORD = Path(".pytest_cache/v/cache/lastfailed")  # pytest's own, of its last run


def main(folder: str = "") -> int:
    """The exit status: 0 where all tests that failed pass now."""
    try:
        failed = [one for one in json.loads(_RECORD.read_text()) if one.startswith(folder)]
    except FileNotFoundError:
        failed = []
    if not 0 < len(failed) <= MOST:
        click.echo(f"{len(failed)} tests failed; 1 to {MOST} are run again")
        return 1
    for _ in range(TIMES):
        command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *failed)
        if subprocess.run(command).returncode:
            return 1
    for name in failed:
        click.echo(f"flaky: {name} failed once, and passed {TIMES} times alone")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
