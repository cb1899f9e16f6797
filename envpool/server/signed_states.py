"""Which states a server made: each state that it gives to a client has a MAC.

A client that holds the states of its worlds sends one where the server lacks it. Its pages are then
read by SQLite, and its module state is unpickled in a worker. So the server accepts a state only
with the MAC that it gave out, or if it is the start state, which it knows.

The MAC is keyed BLAKE2b (RFC 7693) over the package, the number of pages and calls, the digest, the
module state and the pages. The pages count as the sum of their own keyed hashes (modulo 2^256), so
that a call costs the hashes of the pages that it changed: an incremental multiset hash (Clarke et
al., ASIACRYPT 2003, MSet-Add-Hash; the clients never see the sum).

The key lives as long as the server, or in a file (`--state-key`), for servers that are restarted or
share their clients.
"""

import hmac
import os
import secrets
from hashlib import blake2b
from pathlib import Path

import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.remote_states import Snapshot

_KEY = 32  # bytes
_MODULUS = 2**256
_pack = msgspec.msgpack.Encoder().encode


class SignedState:
    """A state of a world, with its MAC.

    Its pages are hashed once: `after` hashes only those that changed.
    """

    __slots__ = ("_key", "_module_hash", "_page_sum", "_scenario", "snapshot")

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        key: bytes,
        scenario: str,
        page_sum: int | None = None,
        module_hash: bytes | None = None,
    ) -> None:
        """`scenario` is the digest of the package; `page_sum` and `module_hash` None: computed."""
        self.snapshot = snapshot
        self._key = key
        self._scenario = scenario
        self._page_sum = self._sum_of(snapshot.pages) if page_sum is None else page_sum
        self._module_hash = module_hash or self._hash(b"module", snapshot.module_state)

    @property
    def mac(self) -> bytes:
        """What the server adds to the state."""
        state = self.snapshot
        content = (
            self._scenario,
            state.num_pages,
            state.digest,
            state.num_calls,
            self._module_hash,
            self._page_sum.to_bytes(32),
        )
        return self._hash(b"state", _pack(content))

    def is_genuine(self) -> bool:
        """Whether the state came with its MAC."""
        return hmac.compare_digest(self.mac, self.snapshot.mac)

    def after(self, snapshot: Snapshot) -> tuple["SignedState", dict[int, bytes]]:
        """The state after a call, and the pages that differ."""
        before, after = self.snapshot.pages, snapshot.pages
        changed = {n: page for n, page in after.items() if before.get(n) is not page}
        replaced = {n: before[n] for n in changed if n in before}
        if len(before) + len(changed) - len(replaced) != len(after):
            replaced |= {n: page for n, page in before.items() if n not in after}
        page_sum = (self._page_sum + self._sum_of(changed) - self._sum_of(replaced)) % _MODULUS
        is_same_module = snapshot.module_state == self.snapshot.module_state
        state = SignedState(
            snapshot,
            key=self._key,
            scenario=self._scenario,
            page_sum=page_sum,
            module_hash=self._module_hash if is_same_module else None,
        )
        return state, changed

    def _sum_of(self, pages: dict[int, bytes]) -> int:
        total = 0
        for number, page in pages.items():
            total += int.from_bytes(self._hash(b"page", page, number))
        return total % _MODULUS

    def _hash(self, kind: bytes, content: bytes, number: int = 0) -> bytes:
        salt = number.to_bytes(16, signed=True)
        hashed = blake2b(content, digest_size=32, key=self._key, salt=salt, person=kind)
        return hashed.digest()


def key_of(file: str) -> bytes:
    """The key in a file, which is made where it does not exist; a new key where `file` is empty.

    Raises PoolError for a file that cannot be read or made, or is not a key.
    """
    if not file:
        return secrets.token_bytes(_KEY)
    path = Path(file)
    try:
        if not path.exists():
            _write_new(path)
        text = path.read_bytes().strip()
    except OSError as exc:
        raise PoolError(f"{file}: cannot read the key of the states: {exc.strerror}") from exc
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != _KEY:
        raise PoolError(
            f"{file}: this is not a key of states (expected {2 * _KEY} hexadecimal digits); "
            "remove the file to have a new one made"
        )
    return key


def _write_new(path: Path) -> None:
    """Write a new key that only this user can read. A complete file appears or none."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(secrets.token_hex(_KEY).encode() + b"\n")
        os.link(draft, path)
    except FileExistsError:
        pass  # another server made it first, and both use that one
    finally:
        draft.unlink()
