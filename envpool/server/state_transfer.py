"""Taking the state out of a leased world and putting another one in.

A client that holds the truth of its worlds sends a state along where the server does not have it.
Its pages are read as they are, so leasing is for clients that are trusted with that: tools of our
own packages then run on them in this process, AWM records in a sandboxed worker.
"""

from typing import Protocol

from envpool.core.errors import StateError
from envpool.core.host_answers import Snapshot
from envpool.core.types import Env
from envpool.inprocess.pool import LocalEnv
from envpool.offloaded.env import MAX_MEMORY, MAX_PAGES, OffloadedEnv
from envpool.store.overlay import PAGE, Overlay


class Mover(Protocol):
    """The state of one leased world."""

    def snapshot(self) -> Snapshot:
        """The state now. Its dict of pages is the caller's."""

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from this state. Raises StateError for what is none, WorldError of the world."""


def mover_of(env: Env) -> Mover | None:
    """The mover of a world; None: its state cannot be moved."""
    if isinstance(env, LocalEnv):
        return _LocalMover(env)
    return _HeldMover(env) if isinstance(env, OffloadedEnv) else None


class _LocalMover:
    def __init__(self, env: LocalEnv) -> None:
        self._lease = env.lease

    def snapshot(self) -> Snapshot:
        overlay = self._lease.overlay
        return Snapshot(overlay.pages.copy(), overlay.num_pages, self._lease.digest)

    def restore(self, snapshot: Snapshot) -> None:
        overlay = _overlay_of(snapshot)
        self._lease.reset()
        self._lease.overlay = overlay


class _HeldMover:
    def __init__(self, env: OffloadedEnv) -> None:
        self._env = env

    def snapshot(self) -> Snapshot:
        env = self._env
        overlay = env.overlay
        return Snapshot(
            overlay.pages.copy(), overlay.num_pages, env.digest, env.num_calls, env.memory
        )

    def restore(self, snapshot: Snapshot) -> None:
        overlay = _overlay_of(snapshot)
        self._env.reset()
        self._env.overlay = overlay
        self._env.num_calls = snapshot.num_calls
        self._env.memory = snapshot.memory


def _overlay_of(snapshot: Snapshot) -> Overlay:
    """The pages of a state that somebody sent. Raises StateError."""
    if not 0 < snapshot.num_pages <= MAX_PAGES:
        raise StateError(f"a state has {snapshot.num_pages} pages, and may have 1 to {MAX_PAGES}")
    for number, page in snapshot.pages.items():
        if len(page) != PAGE or not 0 <= number < snapshot.num_pages:
            raise StateError(
                f"a state has a page {number} of {len(page)} bytes among {snapshot.num_pages} pages"
            )
    if len(snapshot.memory) > MAX_MEMORY:
        raise StateError(f"a state's module memory has {len(snapshot.memory)} bytes")
    try:
        total = int.from_bytes(bytes.fromhex(snapshot.digest), "big")
    except ValueError:
        total = -1
    if total < 0 or len(snapshot.digest) != 32:
        raise StateError(f"a state has the digest {snapshot.digest[:40]!r}")
    return Overlay(dict(snapshot.pages), snapshot.num_pages, total)
