"""The faults of one process of a run: what decides, what records, and how long it is active.

Each wrapper of this package asks the `Injector` whether a fault hits, and reports what came of it.
Faults that come by the clock are injected by tasks of `run`. Nothing is injected before `run` has
begun and after it has ended, so hosting, resumed turns and the end of a run are undisturbed.
"""

import secrets
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import anyio
import structlog

from rehearsal_room.harness.chaos.settings import ChaosFile, Fault
from rehearsal_room.harness.chaos.triggers import Trigger, times_of
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import FAULTS_EPISODE, FaultInjected
from rehearsal_room.harness.log.recorder import Recorder

Strike = Callable[[int], Coroutine[Any, Any, None]]  # injects the fault with this number, from 0
_log = structlog.get_logger(__name__)


class Injector:
    """Decides which faults hit, and records them."""

    def __init__(self, file: ChaosFile, faults: Mapping[str, Fault] | None = None) -> None:
        """`faults`: those of the file that this process injects; None: all."""
        self.seed = file.seed
        self._faults = file.faults() if faults is None else faults
        self._triggers = {
            name: Trigger(name, fault, file.seed, lasts=getattr(fault, "lasts", 0.0))
            for name, fault in self._faults.items()
        }
        self._strikes: dict[str, Strike] = {}
        self._recorder: Recorder | None = None  # None: `run` has not begun
        # Unique, so that several processes and a resumed run need not agree on numbers.
        self._episode = f"{FAULTS_EPISODE}-{secrets.token_hex(6)}"
        self._began = 0.0

    def __repr__(self) -> str:
        state = "off" if self._recorder is None else "on"
        return f"<Injector {state} [{', '.join(self._faults)}]>"

    def fault(self, name: str) -> Fault | None:
        """The fault of this name; None: the file does not have it."""
        return self._faults.get(name)

    def has(self, *tables: str) -> bool:
        """Whether the file has a fault of one of these tables."""
        return any(name.partition(".")[0] in tables for name in self._faults)

    def hits(self, name: str, *key: object) -> bool:
        """Whether a fault hits what the key names."""
        trigger = self._triggers.get(name)
        if trigger is None or self._recorder is None:
            return False
        if name in self._strikes and self._faults[name].share is None:
            return False  # its strikes come by the clock
        return trigger.hits(anyio.current_time() - self._began, *key)

    def on_time(self, name: str, strike: Strike) -> None:
        """Call `strike` whenever the fault comes by the clock, while `run` runs. Does nothing where
        the file does not have the fault, or has a share of it."""
        if name in self._faults:
            self._strikes[name] = strike

    def report(self, event: FaultInjected) -> None:
        """Record a fault. It is dropped when the log takes nothing any more."""
        _log.debug("fault_injected", **_shown(event))
        if self._recorder is not None:
            with suppress(LogError):
                self._recorder.stamp(self._episode, 1, event)

    async def run(self, recorder: Recorder) -> None:
        """Inject and record faults, until cancelled."""
        recorder.open(self._episode)
        self._recorder, self._began = recorder, anyio.current_time()
        try:
            async with anyio.create_task_group() as tasks:
                for name, strike in self._strikes.items():
                    tasks.start_soon(self._strike_on_time, name, strike)
                await anyio.sleep_forever()
        finally:
            self._recorder = None
            recorder.close(self._episode)

    async def _strike_on_time(self, name: str, strike: Strike) -> None:
        async with anyio.create_task_group() as tasks:
            for number, time in enumerate(times_of(self._faults[name])):
                await anyio.sleep_until(self._began + time)
                tasks.start_soon(strike, number)  # it may last longer than until the next one


def _shown(event: FaultInjected) -> dict[str, object]:
    return {name: value for name in event.__struct_fields__ if (value := getattr(event, name))}
