"""Run the tests again that failed last: at most three of them, three times, with nothing beside.

    python -m tests.support.failed_again        (`just test-again`; `.ci/run` after failed tests)

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


def main() -> int:
    """The exit status: 0 where all tests that failed pass now."""
    try:
        failed = list(json.loads(_RECORD.read_text()))
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
    sys.exit(main())
