"""copied.json: of which run a folder has a copy, and how far it has got (see run_copy).

This module is light, for commands that read a copy and need no broker.
"""

from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.bus.local import KINDS
from rehearsal_room.harness.bus.mqtt_wire import Heads
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.log.schema import write_atomically
from rehearsal_room.scenarios.files import UNREADABLE, own_fault

_NAME = "copied.json"
_LATER = KINDS.index("model"), KINDS.index("output")


class Copied(msgspec.Struct, frozen=True):
    """What copied.json has."""

    run: str  # the run's name on its broker
    log: str  # the id of the run's log
    have: Heads  # up to where each kind of it is on disk here
    episodes: int = 0  # that the run planned; 0: not known
    copy: str = ""  # the id of this copy (harness.bus.mqtt_wire.Presence); empty: it has none yet
    lives: int = 0  # how many followers it has had


def read_copied(folder: Path) -> Copied | None:
    """What a folder's copied.json has; None: there is none. Raises LogError."""
    path = folder / _NAME
    if not path.is_file():
        return None
    if fault := own_fault(path):
        raise LogError(f"{path}: {fault}")
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        have = found.get("have")
        if isinstance(have, list) and len(have) == len(KINDS) - len(_LATER):
            for index in _LATER:  # an older version wrote it
                have.insert(index, 0)
        return msgspec.convert(found, Copied)
    except (OSError, *UNREADABLE) as exc:
        raise LogError(f"{path}: cannot be read: {exc}") from exc


def write_copied(folder: Path, copied: Copied) -> None:
    """Write copied.json. Raises LogError."""
    try:
        write_atomically(folder / _NAME, msgspec.json.encode(copied))
    except OSError as exc:
        raise LogError(f"{folder}: the copy cannot be written: {exc}") from exc
