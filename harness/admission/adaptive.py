"""Adaptive admission of a run: what the control decides, applied to the run's slots.

The control is fed by the requests of this process and by the server's metrics; it has no clock and
waits for nothing. Its limit is that of the slots: episodes begin, go on or pause.
"""

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

import anyio

from rehearsal_room.harness.admission.control import AdmissionControl
from rehearsal_room.harness.admission.signals import ServerMetrics

ASKED, REPLIED, REFUSED, FAILED = range(4)  # what happened to a request


class Settled(NamedTuple):
    """What an admission control settled at."""

    limit: int  # episodes at once
    reason: str  # a sentence


class MetricsReader(Protocol):
    """Reads the server's metrics (see harness.admission.poller)."""

    @property
    def every_s(self) -> float:
        """Seconds until the next reading."""

    def read(self) -> Awaitable[ServerMetrics | None]:
        """The metrics now; None: there are none that can be read."""


class ResizableSlots(Protocol):
    """The slots of a run (harness.rollout.slots)."""

    @property
    def has_free(self) -> bool:
        """Whether there are slots that no episode wants."""

    def resize(self, by: int) -> None:
        """Make so many more slots, or take so many away."""


class AdaptiveAdmission:
    """The admission of one process to one model server; a RequestObserver. `now` returns
    seconds."""

    def __init__(
        self,
        control: AdmissionControl,
        reader: MetricsReader | None = None,
        *,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._control = control
        self._reader = reader
        self._now = now
        self._slots: ResizableSlots | None = None  # None: no episode runs yet
        self._applied = control.limit
        self._began = self._last = now()
        self._changes: list[tuple[float, int]] = [(self._began, control.limit)]

    @property
    def limit(self) -> int:
        """Episodes that may run at once, now."""
        return self._control.limit

    @property
    def settled(self) -> Settled:
        """The limit that half of the second half of the run was below, and what bounds it."""
        end = self._now()
        middle = (self._began + end) / 2
        spans = zip(self._changes, [*self._changes[1:], (end, 0)], strict=True)
        held = sorted((limit, until - max(at, middle)) for (at, limit), (until, _) in spans)
        left = (end - middle) / 2
        for limit, seconds in held:
            left -= max(0.0, seconds)
            if left <= 0:
                return Settled(limit, self._control.reason)
        return Settled(self.limit, self._control.reason)

    def attach(self, slots: ResizableSlots) -> int:
        """The number of slots to begin with; they follow every change of the limit."""
        self._slots, self._applied = slots, self._control.limit
        self._began = self._last = self._now()
        self._changes = [(self._began, self._applied)]
        return self._applied

    async def run(self) -> None:
        """Read the server's metrics regularly until cancelled."""
        while self._reader is not None:
            await anyio.sleep(self._reader.every_s)
            metrics = await self._reader.read()
            self._last = max(self._last, self._now())
            self._control.metrics(self._last, metrics)
            self._apply()

    def asked(self) -> None:
        self.take(self._now(), ASKED)

    def replied(self, seconds: float) -> None:
        self.take(self._now(), REPLIED, seconds)

    def refused(self, attempt: int) -> None:
        self.take(self._now(), REFUSED, attempt)

    def failed(self) -> None:
        self.take(self._now(), FAILED)

    def take(self, now: float, kind: int, value: float = 0.0) -> None:
        """Take what happened to a request at a time of this admission's clock; of several
        processes, the times may be out of order by a little."""
        now = self._last = max(now, self._last)
        control = self._control
        if kind == ASKED:
            control.asked(now)
            return
        if kind == REPLIED:
            if self._slots is not None and self._slots.has_free:
                control.underused(now)
            control.replied(now, value)
        elif kind == REFUSED:
            control.refused(now, int(value))
        else:
            control.failed(now)
        self._apply()

    def _apply(self) -> None:
        limit = self._control.limit
        if limit != self._applied and self._slots is not None:
            change, self._applied = limit - self._applied, limit
            self._changes.append((self._now(), limit))
            self._slots.resize(change)
