"""This user's own files on this machine: keys, which mark what the user has made."""

import os
from hashlib import blake2b
from pathlib import Path

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.server.signed_states import key_of

MARK_KEY = "run.key"


def state_folder() -> Path:
    """The folder of the user's keys: `rehearse` in $XDG_STATE_HOME, or in ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rehearse"


def user_key(name: str) -> bytes | None:
    """The user's key of this name, which is made where there is none; None: none can be kept."""
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return key_of(str(folder / name))
    except (OSError, PoolError):
        return None


def own_mark(data: bytes, kind: str) -> str:
    """What only this user's key makes of some data of a kind: a keyed BLAKE2b (RFC 7693), in
    hexadecimal digits. Empty: no key can be kept."""
    key = user_key(MARK_KEY)
    if key is None:
        return ""
    return blake2b(data, digest_size=32, key=key, person=kind.encode()).hexdigest()
