"""The world of an MCP server, as the gate plays tasks on it: calls block, and forks cost nothing.

The same calls from the start give the same results (the gate checks that, too), so each call is
made once in each state: the world keeps a tree of the calls that were made, with their results and
the states after them. A lease is a place in the tree. A call that is not in it is made in a server
that is brought there: the last one, if it is there already, else one that is reset and makes the
calls on the way again.
"""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import anyio.to_thread
import msgspec
from anyio import from_thread

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.types import Env, StoredState, ToolResult
from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.envpool.store.digest import hex_digest
from rehearsal_room.envpool.store.overlay import Overlay
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.envpool.store.states import States
from rehearsal_room.judge.core.criteria import without_asking
from rehearsal_room.judge.gate.core.report import failed_report
from rehearsal_room.judge.gate.core.task_runner import DEFAULT_SETTINGS, GateSettings
from rehearsal_room.judge.gate.package import CheckResult, inspect_server
from rehearsal_room.scenarios.format import Scenario

_PROBES = 8  # random calls a tool: each is a call of the server
_encode = msgspec.json.Encoder(order="sorted").encode
MakeCall = Callable[[str, Any, str], ToolResult]  # of a name, with arguments and an id; blocks


class _Place:
    """A place in the tree: the state after some calls."""

    __slots__ = ("after", "call", "is_lost", "origin", "overlay", "result")

    def __init__(self, overlay: Overlay, origin: "_Place | None" = None) -> None:
        self.overlay = overlay
        self.origin = origin  # the place before the call; None: the start
        self.call: tuple[str, Any] = "", None
        self.result = ToolResult("")
        self.is_lost = False  # the call ended the server, and each one after it fails like it
        self.after: dict[bytes, _Place] = {}  # by call

    def way(self) -> "list[_Place]":
        """The places from the start to here, without the start."""
        found: list[_Place] = []
        place: _Place | None = self
        while place is not None and place.origin is not None:
            found.append(place)
            place = place.origin
        return found[::-1]


class ServerLease:
    """One world. It implements envpool.store.blocking.BlockingLease."""

    def __init__(self, world: "ServerWorld", place: _Place) -> None:
        self.world = world
        self.place = place

    @property
    def overlay(self) -> Overlay:
        """The pages that differ from the template."""
        return self.place.overlay

    @overlay.setter
    def overlay(self, value: Overlay) -> None:
        raise AttributeError("a place in the tree has its state")

    @property
    def digest(self) -> str:
        """The state's digest now."""
        return hex_digest(self.place.overlay.total)

    def call(self, name: str, arguments: Any, call_id: str = "") -> ToolResult:
        """Make one call, or remember it. Raises WorldError."""
        self.place = self.world.after(self.place, name, arguments)
        return self.place.result

    def state(self) -> StoredState:
        """The state now, as changed pages."""
        return self.world.stored(self.place.overlay)

    def fork(self) -> "ServerLease":
        """A second world that continues from here."""
        return ServerLease(self.world, self.place)


class ServerWorld(BlockingWorld):
    """The world of a server, which `env` leases; `call` makes its calls and blocks until their
    results are there. `close()` closes its connections, not the lease."""

    def __init__(self, states: States, env: Env, call: MakeCall) -> None:
        super().__init__(without_asking(states.scenario), states.template, states.tools)
        self._env = env
        self._call = call
        self._root = _Place(self.template.overlay())
        self._here: _Place | None = self._root  # where the server is; None: it has to be reset
        self.num_made = 0

    def lease(self) -> ServerLease:
        """The world of a new episode."""
        return ServerLease(self, self._root)

    def lease_at(self, lease: ServerLease) -> ServerLease:
        """A world of this host in the state of a lease, whose calls are made again here."""
        own = self.lease()
        for place in lease.place.way():
            own.call(*place.call)
        return own

    def after(self, place: _Place, name: str, arguments: Any) -> _Place:
        """The place that a call leads to. Raises WorldError."""
        if place.is_lost:
            return place
        key = _encode((name, arguments))
        if key not in place.after:
            if self._here is not place:
                self._go(place)
            place.after[key] = self._made(place, name, arguments)
        return place.after[key]

    def _go(self, place: _Place) -> None:
        """Bring the server to a place."""
        self._env.reset()
        self._here = self._root
        for step in place.way():
            self._make(*step.call)
        self._here = place

    def _made(self, place: _Place, name: str, arguments: Any) -> _Place:
        is_lost = False
        try:
            result = self._make(name, arguments)
            overlay = self.restored(self._env.state()) if result.changes else place.overlay
        except WorldError as exc:  # the call ended the server, and nothing that it did counts
            result, overlay = ToolResult(str(exc), "internal"), place.overlay
            is_lost = True
        found = _Place(overlay, place)
        found.is_lost = is_lost
        found.call, found.result = (name, arguments), result
        self._here = found if result.error != "internal" else None
        return found

    def _make(self, name: str, arguments: Any) -> ToolResult:
        self.num_made += 1
        return self._call(name, arguments, "")


async def check_server(
    scenario: Scenario, pool: Pool, settings: GateSettings = DEFAULT_SETTINGS
) -> CheckResult:
    """Check a world of an MCP server, in two processes of it and a thread of this one, where its
    verifiers run too: a world that must be isolated is not checked."""
    if pool.isolates(scenario):
        why = (
            f"{scenario.path}: its verify.py would run in this process, since the gate plays a "
            "world of an MCP server here; read it, and leave out --isolate and --sandbox required"
        )
        return CheckResult(failed_report(scenario.name, "package", why))
    try:
        states = await pool.host(scenario)
        async with pool.lease(scenario, None) as env, pool.lease(scenario, None) as other:
            fewer = msgspec.structs.replace(settings, probes=_PROBES)
            # Where it is interrupted, the thread ends with its next call.
            return await anyio.to_thread.run_sync(
                _inspected, states, env, other, fewer, abandon_on_cancel=True
            )
    except WorldError as exc:
        return CheckResult(failed_report(scenario.name, "crash", str(exc)))
    except PoolError as exc:
        return CheckResult(failed_report(scenario.name, "package", str(exc)))


def _inspected(states: States, env: Env, other: Env, settings: GateSettings) -> CheckResult:
    with (
        closing(ServerWorld(states, env, _blocking(env))) as world,
        closing(ServerWorld(states, other, _blocking(other))) as second,
    ):
        return inspect_server(world, second, settings)


def _blocking(env: Env) -> MakeCall:
    def call(name: str, arguments: Any, call_id: str) -> ToolResult:
        return from_thread.run(env.call, name, arguments, call_id)

    return call
