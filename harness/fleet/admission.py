"""Adaptive admission of a run in several processes: one control, in the coordinator.

Each worker reports what happened to its requests, many in one message, by how long ago it was: no
clocks are compared. The coordinator's control decides one limit, which is divided evenly among
those that have something to play. A control in each worker would measure the others' changes with
its own: two of them settled at twice the best limit (docs/performance.md).
"""

import time
from collections import Counter
from collections.abc import Callable

from rehearsal_room.harness.admission.adaptive import (
    ASKED,
    FAILED,
    REFUSED,
    REPLIED,
    AdaptiveAdmission,
)
from rehearsal_room.harness.fleet.messages import Requests

REPORT_S = 0.05  # seconds between two reports of a worker


class RequestLog:
    """A worker's requests since its last report; a RequestObserver."""

    def __init__(self) -> None:
        self._events: list[tuple[float, int, float]] = []

    def asked(self) -> None:
        """A request is sent."""
        self._events.append((time.perf_counter(), ASKED, 0.0))

    def replied(self, seconds: float) -> None:
        """It was answered after so many seconds."""
        self._events.append((time.perf_counter(), REPLIED, seconds))

    def refused(self, attempt: int) -> None:
        """The server had no room for it."""
        self._events.append((time.perf_counter(), REFUSED, attempt))

    def failed(self) -> None:
        """It failed otherwise, or was cancelled."""
        self._events.append((time.perf_counter(), FAILED, 0.0))

    def report(self, *, has_free: bool) -> Requests | None:
        """What happened since the last report; None: nothing. `has_free`: the worker has slots that
        no episode wants."""
        if not self._events:
            return None
        now, events = time.perf_counter(), self._events
        self._events = []
        return Requests([(now - at, kind, value) for at, kind, value in events], has_free)


class FleetAdmission:
    """The admission of all workers, and its slots: `send` gives a worker its share. The limit is
    divided among the workers that want to play (`wants`). A share may be 0: then the worker's live
    episodes are paused, until the limit grows or the others have no episode left."""

    def __init__(
        self,
        admission: AdaptiveAdmission,
        num_workers: int,
        send: Callable[[int, int], None],
        wants: Callable[[int], bool],
    ) -> None:
        self._admission = admission
        self._num_workers = num_workers
        self._send = send
        self._wants = wants
        self._in_flight: Counter[int] = Counter()  # worker -> requests
        self._with_free: set[int] = set()  # workers that have slots which no episode wants
        self.limit = admission.attach(self)
        self.shares = self._divided()  # of each worker: the episodes that it may run at once

    @property
    def has_free(self) -> bool:
        """Whether a worker has slots that no episode wants."""
        return bool(self._with_free)

    def resize(self, by: int) -> None:
        """The limit has changed by so much: give every worker its share."""
        self.limit += by
        self.share_out()

    def share_out(self) -> None:
        """Give every worker its share, where another number of them wants to play than before. A
        worker that gets a share may take the last episodes of the plan, so this is repeated until
        nothing changes."""
        while (shares := self._divided()) != self.shares:
            changed = [
                worker for worker, share in enumerate(shares) if share != self.shares[worker]
            ]
            self.shares = shares
            for worker in changed:
                self._send(worker, shares[worker])

    def _divided(self) -> list[int]:
        wanting = [worker for worker in range(self._num_workers) if self._wants(worker)]
        shares = [0] * self._num_workers
        for index, worker in enumerate(wanting):
            shares[worker] = self.limit // len(wanting) + (index < self.limit % len(wanting))
        return shares

    def take(self, worker: int, requests: Requests) -> None:
        """Take what happened to a worker's requests."""
        (self._with_free.add if requests.has_free else self._with_free.discard)(worker)
        now = time.perf_counter()
        for age, kind, value in requests.events:
            self._in_flight[worker] += 1 if kind == ASKED else -1
            self._admission.take(now - age, kind, value)

    def lose(self, worker: int) -> None:
        """A worker died: nothing more will be known of its requests."""
        for _ in range(self._in_flight.pop(worker, 0)):
            self._admission.take(time.perf_counter(), FAILED)
        self._with_free.discard(worker)
