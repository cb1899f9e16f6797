"""The errors for a logged scenario whose package is not available as it was during the run."""

from collections.abc import Sequence
from pathlib import Path

from rehearsal_room.harness.core.errors import LogError


def missing_package(
    folder: Path, scenario: str, digest: str, searched: Sequence[str | Path]
) -> LogError:
    """The error for a package that was not found. `searched` are the folders and names that were
    tried, in order; the first is where the package was when the run began."""
    tried = " and ".join(str(source) for source in dict.fromkeys(map(str, searched)))
    return LogError(
        f"{folder}: the package of scenario {scenario!r} (digest {digest}) was not found; searched "
        f"{tried}. Put it back there, or name another version of it: "
        f"rehearse replay {folder} --world FOLDER"
    )


def changed_package(
    folder: Path, scenario: str, digest: str, *, found: str, source: str | Path
) -> LogError:
    """The error for a package that is no longer the one of the run. `digest` is the logged digest,
    `found` the digest of the package that is now at `source`."""
    return LogError(
        f"{folder}: scenario {scenario!r} has changed since the run: its digest was {digest} and "
        f"is {found} now in {source}. To see what the change makes different: "
        f"rehearse replay {folder} --world {source}"
    )
