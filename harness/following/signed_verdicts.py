"""Verdicts that come over a broker carry a MAC, so that nobody else who writes there can judge.

The MAC is a keyed BLAKE2b (RFC 7693) over the run's log, the episode, the attempt and the verdict:
so it holds for one attempt in one run. Run and judge have the same key: that of the user
(`verdicts.key`, see harness.core.user_state), or the file that REHEARSE_VERDICT_KEY names. For a
judge on another machine, copy the file there.
"""

import hmac
import os
from hashlib import blake2b
from pathlib import Path

import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.server.signed_states import key_of
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Judged, Record
from rehearsal_room.harness.core.user_state import state_folder, user_key
from rehearsal_room.harness.log.schema import record_of, row_of

VARIABLE = "REHEARSE_VERDICT_KEY"
_FILE = "verdicts.key"
_pack = msgspec.msgpack.Encoder().encode


def key_file() -> Path:
    """The file with the key of the verdicts."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else state_folder() / _FILE


def verdict_key() -> bytes:
    """The key of the verdicts; the user's own is made where there is none. Raises SettingsError."""
    if named := os.environ.get(VARIABLE):
        if not Path(named).is_file():
            raise SettingsError(f"{VARIABLE}: there is no file {named}")
        try:
            return key_of(named)
        except PoolError as exc:
            raise SettingsError(f"{VARIABLE}: {exc}") from exc
    key = user_key(_FILE)
    if key is None:
        raise SettingsError(
            f"bus: verdicts over a broker need a key, and {key_file()} cannot be made or read; "
            f"name another file with {VARIABLE}"
        )
    return key


class VerdictSeal:
    """Seals the verdicts on one run, and tells those that have its seal. `log` is the id of the
    run's log."""

    def __init__(self, key: bytes, log: str) -> None:
        self._key, self._log = key, log

    def sealed(self, episode: str, attempt: int, judged: Judged) -> Judged:
        """The verdict with its MAC."""
        return msgspec.structs.replace(judged, mac=self._mac(episode, attempt, judged))

    def is_genuine(self, record: Record) -> bool:
        """Whether this is a verdict of somebody who has the key."""
        if not isinstance(record.event, Judged):
            return False
        mac = self._mac(record.episode, record.attempt, record.event)
        return hmac.compare_digest(mac.encode(), record.event.mac.encode("utf-8", "replace"))

    def _mac(self, episode: str, attempt: int, judged: Judged) -> str:
        plain = Record(episode, attempt, 0, 0.0, msgspec.structs.replace(judged, mac=""))
        stored = record_of(row_of(0, plain)).event  # with what a log can hold of it
        content = _pack((self._log, episode, attempt, stored))
        return blake2b(content, digest_size=32, key=self._key, person=b"verdict").hexdigest()
