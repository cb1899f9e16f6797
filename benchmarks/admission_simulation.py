"""Episodes of a simulated server in virtual time, admitted by a control or by a fixed limit."""

import heapq
import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from functools import cache
from random import Random
from typing import NamedTuple, Protocol

from benchmarks.admission_cases import TURNS, Case
from benchmarks.simulated_servers import Refusal
from rehearsal_room.harness.admission.signals import ServerMetrics
from rehearsal_room.harness.chat.retry import AttemptFailure, Backoff, wait_before_retry

POLL = 1.0  # seconds between two readings of the metrics
_BACKOFF = Backoff()
_TICKS = 400  # of a run, in the trace


class Control(Protocol):
    """What decides how many episodes are admitted."""

    @property
    def limit(self) -> int: ...

    def asked(self, now: float) -> None: ...

    def replied(self, now: float, latency: float) -> None: ...

    def refused(self, now: float, attempt: int) -> None: ...

    def metrics(self, now: float, metrics: ServerMetrics | None) -> None: ...


class FixedLimit:
    """A number that a user guessed."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def asked(self, now: float) -> None: ...

    def replied(self, now: float, latency: float) -> None: ...

    def refused(self, now: float, attempt: int) -> None: ...

    def metrics(self, now: float, metrics: ServerMetrics | None) -> None: ...


class Outcome(NamedTuple):
    """One run."""

    replies: list[float]  # when each came
    lost: int  # episodes that ended because a request was refused too often
    trace: list[tuple[float, int]]  # time, limit

    @property
    def value(self) -> float:
        """The replies, without those of the episodes that are lost."""
        return len(self.replies) - TURNS * self.lost

    def rate(self, start: float, end: float) -> float:
        """Replies per second in a part of the run."""
        first, last = bisect_left(self.replies, start), bisect_left(self.replies, end)
        return (last - first) / (end - start)


class _Episode:
    __slots__ = ("attempt", "began", "turns")

    def __init__(self, turns: int) -> None:
        self.turns, self.attempt, self.began = turns, 0, 0.0


@cache
def _failures(refusal: Refusal) -> AttemptFailure:
    """The refusal as the client sees it."""
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    return AttemptFailure("status", "refused", refusal.status, headers=headers)


def simulate(case: Case, control: Control, seed: int, duration: float | None = None) -> Outcome:
    """Play episodes until the time is over. A reply of an episode that is lost does not count."""
    rng = Random(f"{case.name}-{seed}")
    server, until = case.make(rng), duration or case.duration
    events: list[tuple[float, int, _Episode]] = []  # requests to send
    paused: deque[_Episode] = deque()
    replies: list[float] = []
    trace: list[tuple[float, int]] = []
    now, number, active, lost = 0.0, 0, 0, 0
    next_poll = next_trace = 0.0

    def send_at(at: float, episode: _Episode) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (at, number, episode))

    def send(episode: _Episode) -> bool:
        control.asked(now)
        refusal = server.submit(now, episode)
        if refusal is None:
            episode.began = now
            return True
        episode.attempt += 1
        control.refused(now, episode.attempt)
        failure = _failures(refusal)
        wait = wait_before_retry(failure, episode.attempt, backoff=_BACKOFF, rng=rng, now=now)
        if wait is None:
            return False
        send_at(now + max(wait, 1e-3), episode)
        return True

    def fill() -> None:
        nonlocal active
        while active < control.limit:
            active += 1
            waiting = paused.popleft() if paused else _Episode(rng.randint(2, 2 * TURNS - 2))
            send_at(now, waiting)

    while True:
        due, done = (events[0][0] if events else math.inf), server.next_done()
        now = min(due, done, next_poll)
        if now >= until:
            return Outcome(replies, lost, trace)
        if now == next_poll:
            control.metrics(now, server.metrics(now))
            if now >= next_trace:
                trace.append((now, control.limit))
                next_trace = now + until / _TICKS
            next_poll = now + POLL
        elif done <= due:
            episode = server.pop(now)
            assert isinstance(episode, _Episode)
            replies.append(now)
            control.replied(now, now - episode.began)
            episode.turns -= 1
            episode.attempt = 0
            if episode.turns:
                send_at(now + (rng.expovariate(1 / case.tool_s) if case.tool_s else 0.0), episode)
            else:
                active -= 1
        else:
            episode = heapq.heappop(events)[2]
            if active > control.limit and not episode.attempt:
                active -= 1
                paused.append(episode)
            elif not send(episode):
                active -= 1
                lost += 1
        if active < control.limit:
            fill()


def sweep(case: Case, seed: int, value: Callable[[Outcome], float]) -> list[tuple[float, int]]:
    """The value of each fixed limit that was tried, and the limit: a grid, then finer about the
    best ones."""
    found: dict[int, float] = {}

    def measure(limit: float) -> float:
        tried = max(1, round(limit))
        if tried not in found:
            found[tried] = value(simulate(case, FixedLimit(tried), seed))
        return found[tried]

    limit, falls, best = 2.0, 0, 0.0
    while limit <= 1024 and falls < 5:
        now = measure(limit)
        falls = falls + 1 if now < 1.01 * best else 0
        best = max(best, now)
        limit *= 1.3
    for factor in (0.88, 0.94, 0.97, 1.03, 1.06, 1.13):
        top = max(found, key=lambda one: found[one])
        measure(top * factor)
    return sorted(((value, limit) for limit, value in found.items()), reverse=True)
