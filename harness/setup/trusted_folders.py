"""Whether this command trusts the run folders that it reads: `--trust-run` (see run_trust).

This module is light: every command begins with it.
"""

_trust: set[bool] = set()  # has True while the folders are trusted


def forget_trust() -> None:
    """Begin a new command."""
    _trust.clear()


def trust_run_folders() -> None:
    """Let everything count that the folders name which this command reads."""
    _trust.add(True)


def trusts_run_folders() -> bool:
    """Whether they are trusted."""
    return bool(_trust)
