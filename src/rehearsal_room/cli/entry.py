"""The console script `rehearse`. It imports the command line when it runs: where a dependency is
missing or too old, that is one sentence instead of a traceback."""

import sys


def main() -> None:
    """The command `rehearse`."""
    try:
        from rehearsal_room.cli.main import main as run_command_line
    except (ImportError, AttributeError) as exc:
        sys.stderr.write(
            f"error: rehearsal-room cannot start: {exc}: install rehearsal-room in a clean virtual "
            "environment\n"
        )
        sys.exit(1 if sys.argv[1:2] == ["doctor"] else 2)  # for doctor that is the answer
    run_command_line()
