"""Who may ask a vLLM server when it is given new weights.

A server has one set of weights. So all policies of this process that ask it share one gate: while
one of them has it take new weights, none asks, and all stamp the same version afterwards. (A
training run has two of them: its rollouts go on while its evaluations take a version.)
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import WeakSet, WeakValueDictionary

import anyio

from harness.core.errors import PolicyError, SettingsError
from harness.vllm.routes import VllmRoutes, root_of
from harness.vllm.weight_sync import Halted, Pause, VllmWeights

_LOOK_S = 0.02  # seconds between two looks whether what is waited for has ended


class Seat:
    """One agent's place at a server: it lives as long as the agent does."""


class VllmGate:
    """One server's gate, see `gate_of`.

    `stays` says whether a seat keeps the weights that it began with: new ones then wait until it
    is gone.
    """

    def __init__(self, weights: VllmWeights) -> None:
        self.weights = weights
        self.version = ""  # of the weights that answer now; empty: not known
        self._num_open = 0  # policies
        self._last: tuple[str, Path] | None = None  # what was taken; None: nothing was
        self._in_flight = 0
        self._seats: WeakSet[Seat] = WeakSet()  # that have asked, and stay
        self._staying: WeakSet[Seat] = WeakSet()  # may ask although new weights are being taken
        self._taken: anyio.Event | None = None  # None: no weights are being taken
        self._fault = ""  # why nothing can be asked until weights are taken; empty: it can

    def opened(self, version: str) -> None:
        """A policy begins to ask; `version` is what it has found."""
        self._num_open += 1
        self.version = self.version or version

    def closed(self) -> None:
        """A policy asks no more. What nobody asks may be another server afterwards."""
        self._num_open -= 1
        if self._num_open == 0:
            self.version, self._last, self._fault = "", None, ""

    @asynccontextmanager
    async def passed(self, seat: Seat, *, stays: bool) -> AsyncIterator[None]:
        """A block in which a seat may ask, after the new weights are taken that it is to use.

        Raises PolicyError where the server cannot be asked until weights are taken again.
        """
        while (taken := self._taken) is not None and seat not in self._staying:
            await taken.wait()
        if self._fault:
            raise PolicyError(self._fault)
        if stays and seat not in self._staying:
            self._seats.add(seat)
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    async def take(self, version: str, folder: Path) -> None:
        """Have the server take weights, when nobody asks any more who needs those that it has.
        Those that another policy has just had it take are there. Raises as VllmWeights.take."""
        while self._taken is not None:
            await self._taken.wait()
        self._taken = anyio.Event()
        self._staying, self._seats = self._seats, WeakSet()
        try:
            if not await self._has(version, folder):
                await self._alone()
                await self.weights.take(version, folder)
                self.version, self._last, self._fault = version, (version, folder), ""
        except Halted as exc:
            self._fault = str(exc)
            raise
        finally:
            self._seats |= self._staying  # where it failed, they go on as before
            self._staying = WeakSet()
            self._taken.set()
            self._taken = None

    async def _has(self, version: str, folder: Path) -> bool:
        if self._fault or self._last != (version, folder):
            return False
        return await self.weights.version() == version  # it may have been started anew

    async def require_same(self) -> None:
        """See that the server is still the one that was given weights: one that was started anew
        has those of its beginning. Raises PolicyError, for all who ask until weights are taken."""
        if self._last is None:
            return
        version = self.version
        label = await self.weights.version()
        if self._taken is None and self.version == version and label != version:
            self._fault = (
                f"{self.weights.url}: the server's weights are {label!r}, not {version!r}: it was"
                " started anew, or somebody else gives it weights"
            )
            raise PolicyError(self._fault)

    async def _alone(self) -> None:
        # Agents leave when they are no longer referred to, which nothing announces.
        while self._staying or (self._in_flight and self.weights.pause == "wait"):  # noqa: ASYNC110
            await anyio.sleep(_LOOK_S)


_gates: WeakValueDictionary[str, VllmGate] = WeakValueDictionary()  # by the server's root


def gate_of(routes: VllmRoutes, pause: Pause) -> VllmGate:
    """The gate of a server. Raises SettingsError where another policy pauses it otherwise."""
    root = root_of(routes.base_url)
    gate = _gates.get(root)
    if gate is None:
        gate = _gates[root] = VllmGate(VllmWeights(routes, pause=pause))
    if gate.weights.pause != pause:
        raise SettingsError(
            f"pause: another policy of {root} has {gate.weights.pause!r}, not {pause!r}"
        )
    return gate
