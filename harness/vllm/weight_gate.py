"""Coordinating the requests to a vLLM server with the loading of new weights.

A server has one set of weights. So all policies of this process that use it share one gate: while
one of them loads new weights, none sends requests, and all stamp the same version afterwards. (A
training run has two policies: its rollouts continue while its evaluations load a version.)
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from weakref import WeakSet, WeakValueDictionary

import anyio

from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.vllm.routes import VllmRoutes, root_of
from rehearsal_room.harness.vllm.weight_sync import PauseMode, ServerPausedError, VllmWeights

_POLL_S = 0.02  # interval of the checks whether agents and requests have ended


class AgentSlot:
    """One agent's slot at a server: it exists as long as the agent does."""


class VllmGate:
    """One server's gate, see `gate_of`."""

    def __init__(self, weights: VllmWeights) -> None:
        self.weights = weights
        self.version = ""  # of the weights that the server has now; empty: not known
        self._num_policies = 0
        self._last: tuple[str, Path] | None = None  # version and folder loaded last; None: none
        self._in_flight = 0
        self._slots: WeakSet[AgentSlot] = WeakSet()  # keep their weights until they end
        self._staying: WeakSet[AgentSlot] = WeakSet()  # may send while the next weights wait
        self._loaded: anyio.Event | None = None  # None: no weights are being loaded
        self._fault = ""  # why no request can be sent until weights are loaded; empty: it can

    @contextmanager
    def open(self, version: str) -> Iterator[None]:
        """Count a policy as a user of the server; `version` is what it found there. Without any
        policy the gate discards its state: another server may be there the next time."""
        self._num_policies += 1
        self.version = self.version or version
        try:
            yield
        finally:
            self._num_policies -= 1
            if self._num_policies == 0:
                self.version, self._last, self._fault = "", None, ""

    @asynccontextmanager
    async def pass_through(self, slot: AgentSlot, *, stays: bool) -> AsyncIterator[None]:
        """Open a block in which a slot may send a request, after the weights that it must use are
        loaded. `stays`: the slot keeps the weights that it began with, and the next ones wait until
        it has ended.

        Raises PolicyError where no request can be sent until weights are loaded again.
        """
        while (loaded := self._loaded) is not None and slot not in self._staying:
            await loaded.wait()
        if self._fault:
            raise PolicyError(self._fault)
        if stays and slot not in self._staying:
            self._slots.add(slot)
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    async def take(self, version: str, folder: Path) -> None:
        """Load weights into the server, once no agent needs the present ones. Nothing is loaded
        where another policy has just loaded them. Raises as VllmWeights.take."""
        while self._loaded is not None:
            await self._loaded.wait()
        self._loaded = anyio.Event()
        self._staying, self._slots = self._slots, WeakSet()
        try:
            if not await self._has(version, folder):
                await self._wait_until_unused()
                await self.weights.take(version, folder)
                self.version, self._last, self._fault = version, (version, folder), ""
        except ServerPausedError as exc:
            self._fault = str(exc)
            raise
        finally:
            self._slots |= self._staying  # after a failure they continue as before
            self._staying = WeakSet()
            self._loaded.set()
            self._loaded = None

    async def _has(self, version: str, folder: Path) -> bool:
        if self._fault or self._last != (version, folder):
            return False
        return await self.weights.version() == version  # the server may have been restarted

    async def require_same(self) -> None:
        """Check that the server still has the weights that were loaded: a restarted server has
        those of its start. Otherwise raise PolicyError, also for all other requests until weights
        are loaded."""
        if self._last is None:
            return
        version = self.version
        label = await self.weights.version()
        if self._loaded is None and self.version == version and label != version:
            self._fault = (
                f"{self.weights.url}: the server's weights are {label!r}, not {version!r}: it was"
                " restarted, or another process loads weights into it"
            )
            raise PolicyError(self._fault)

    async def _wait_until_unused(self) -> None:
        # An agent ends when nothing refers to it any more, which raises no event.
        while self._staying or (self._in_flight and self.weights.pause == "wait"):  # noqa: ASYNC110
            await anyio.sleep(_POLL_S)


_gates: WeakValueDictionary[str, VllmGate] = WeakValueDictionary()  # by the server's root


def gate_of(routes: VllmRoutes, pause: PauseMode, *, base: Path | None = None) -> VllmGate:
    """The gate of a server. Raises SettingsError where another policy uses another mode of
    pausing it, or loads adapters into it where this one does not."""
    root = root_of(routes.base_url)
    gate = _gates.get(root)
    if gate is None:
        gate = _gates[root] = VllmGate(VllmWeights(routes, pause=pause, base=base))
    if gate.weights.pause != pause:
        raise SettingsError(
            f"pause: another policy of {root} has {gate.weights.pause!r}, not {pause!r}"
        )
    if gate.weights.base != (base and base.absolute()):
        raise SettingsError(f"lora.rank: another policy of {root} has other weights to load")
    return gate
