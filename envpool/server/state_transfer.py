"""Read the state of a leased world, and replace it by another one.

A client that holds the states of its worlds sends a state where the server does not have it. It has
been found to be one that the server made (envpool.server.signed_states) before it comes here; its
form is checked all the same.
"""

import re
from typing import Protocol

from rehearsal_room.envpool.core.errors import StateError
from rehearsal_room.envpool.core.remote_states import Snapshot
from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.inprocess.pool import LocalEnv
from rehearsal_room.envpool.remote_execution.env import (
    MAX_MODULE_STATE,
    MAX_PAGES,
    RemoteExecutionEnv,
)
from rehearsal_room.envpool.store.overlay import PAGE, Overlay

_DIGEST = re.compile("[0-9a-f]{32}")


class StateTransfer(Protocol):
    """Access to the state of one leased world."""

    def snapshot(self) -> Snapshot:
        """The state now. The caller owns its dict of pages."""

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from this state. Raises StateError for an invalid state, WorldError where the
        world is broken."""


def transfer_of(env: Env) -> StateTransfer | None:
    """Access to the state of a world; None: its state cannot be transferred."""
    if isinstance(env, LocalEnv):
        return _LocalTransfer(env)
    return _RemoteExecutionTransfer(env) if isinstance(env, RemoteExecutionEnv) else None


class _LocalTransfer:
    def __init__(self, env: LocalEnv) -> None:
        self._lease = env.lease

    def snapshot(self) -> Snapshot:
        overlay = self._lease.overlay
        return Snapshot(overlay.pages.copy(), overlay.num_pages, self._lease.digest)

    def restore(self, snapshot: Snapshot) -> None:
        overlay = _overlay_of(snapshot)
        self._lease.reset()
        self._lease.overlay = overlay


class _RemoteExecutionTransfer:
    def __init__(self, env: RemoteExecutionEnv) -> None:
        self._env = env

    def snapshot(self) -> Snapshot:
        env = self._env
        overlay = env.overlay
        return Snapshot(
            overlay.pages.copy(), overlay.num_pages, env.digest, env.num_calls, env.module_state
        )

    def restore(self, snapshot: Snapshot) -> None:
        overlay = _overlay_of(snapshot)
        self._env.reset()
        self._env.overlay = overlay
        self._env.num_calls = snapshot.num_calls
        self._env.module_state = snapshot.module_state


def _overlay_of(snapshot: Snapshot) -> Overlay:
    """The overlay of a state that a client sent. Raises StateError."""
    if not 0 < snapshot.num_pages <= MAX_PAGES:
        raise StateError(f"a state has {snapshot.num_pages} pages; expected 1 to {MAX_PAGES}")
    for number, page in snapshot.pages.items():
        if len(page) != PAGE or not 0 <= number < snapshot.num_pages:
            raise StateError(
                f"a state has page {number} of {len(page)} bytes among {snapshot.num_pages} pages"
            )
    if len(snapshot.module_state) > MAX_MODULE_STATE:
        size = len(snapshot.module_state)
        raise StateError(
            f"a state has {size} bytes of module state; the limit is {MAX_MODULE_STATE}"
        )
    if _DIGEST.fullmatch(snapshot.digest) is None:
        digest = snapshot.digest[:40]
        raise StateError(f"the digest {digest!r} of a state is not 32 hexadecimal digits")
    return Overlay(dict(snapshot.pages), snapshot.num_pages, int(snapshot.digest, 16))
