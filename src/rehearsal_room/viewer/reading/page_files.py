"""The files of the viewer's page, which are built from `src/rehearsal_room/viewer/web`."""

from pathlib import Path

from rehearsal_room.harness.core.errors import SettingsError

_DIST = Path(__file__).parent.parent / "web" / "dist"


def page_file(name: str) -> bytes:
    """One of the files. Raises SettingsError where the page was not built."""
    path = _DIST / name
    try:
        return path.read_bytes()
    except OSError as exc:
        raise SettingsError(
            f"{path}: the viewer's page is missing; in a source tree, `just viewer` builds it"
        ) from exc
