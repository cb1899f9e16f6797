"""Watching the event loop: how long it was blocked, and by whom.

A tool, a policy or a subscriber that computes for long, or waits without `await`, stops all
episodes of the process. The meters' task marks the time. A thread sees when the mark is old; then
it looks every 20 ms where the loop's thread is, and names what it finds there most often. Where C
code keeps the interpreter's lock, the thread stands, too: the lag is measured, and its culprit is
"unknown".
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import structlog

_LATE = 0.25  # seconds without a mark after which the thread looks
_SAMPLING = 0.02  # seconds between two looks
_REPORTED = 0.5  # seconds; shorter lags are not logged
# Module -> what code that it called is. The first that matches counts.
_ROLES = (
    ("rehearsal_room.envpool.", "tool"),
    ("rehearsal_room.judge.", "judge"),
    ("rehearsal_room.harness.policies.", "policy"),
    ("rehearsal_room.harness.vllm.", "policy"),
    ("rehearsal_room.harness.chat.", "policy"),
    ("rehearsal_room.harness.tokenization.", "policy"),
    ("rehearsal_room.learner.inference.", "policy"),
    ("rehearsal_room.harness.rollout.episode", "policy"),
    ("rehearsal_room.harness.library", "policy"),
    ("rehearsal_room.harness.agents.", "policy"),
    ("rehearsal_room.harness.model_api.", "policy"),
    ("rehearsal_room.harness.log.", "log"),
    ("rehearsal_room.harness.bus.", "subscriber"),
    ("rehearsal_room.harness.rollout.monitor", "subscriber"),
    ("rehearsal_room.harness.rollout.running", "subscriber"),
    ("rehearsal_room.learner.", "subscriber"),
)
_STAND_INS = (
    "rehearsal_room.envpool.hosting.determinism."  # for functions of the library that tools call
)
_log = structlog.get_logger(__name__)


class Lag:
    """The longest time for which the loop was blocked, in seconds, and what blocked it."""

    __slots__ = ("culprit", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.culprit = ""


class LagMonitor:
    """Watches one event loop, whose task calls `mark` (see harness.rollout.meters)."""

    def __init__(self) -> None:
        self.worst = Lag()  # of the whole run
        self._since = Lag()  # since `take`
        self._mark = time.monotonic()
        self._found: Counter[str] = Counter()  # in the present lag
        self._reported: dict[str, float] = {}  # culprit -> seconds

    def take(self) -> Lag:
        """The worst lag since the last call."""
        taken, self._since = self._since, Lag()
        return taken

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A block in which the loop of this thread is watched: it must call `mark`."""
        self._mark = time.monotonic()
        stop, loop_thread = threading.Event(), threading.get_ident()
        watcher = threading.Thread(
            target=self._look, args=(loop_thread, stop), name="loop-lag", daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()

    def mark(self, lag: float) -> None:
        """The loop runs; the last time that it was asked to, it came so many seconds late."""
        self._mark = time.monotonic()
        if lag >= _LATE:
            self._end_lag(lag)

    def _end_lag(self, seconds: float) -> None:
        found, self._found = self._found, Counter()
        culprit = found.most_common(1)[0][0] if found else "unknown"
        for lag in (self.worst, self._since):
            if seconds > lag.seconds:
                lag.seconds, lag.culprit = seconds, culprit
        # One line for each culprit, and another where it has become twice as bad.
        if seconds >= _REPORTED and seconds >= 2 * self._reported.get(culprit, 0.0):
            self._reported[culprit] = seconds
            _log.warning("event_loop_blocked", seconds=round(seconds, 2), culprit=culprit)

    def _look(self, loop_thread: int, stop: threading.Event) -> None:
        """The thread: sample the loop's stack while its mark is old."""
        hint = _REPORTED * 10
        while not stop.wait(_SAMPLING if time.monotonic() - self._mark > _LATE else _LATE / 2):
            blocked = time.monotonic() - self._mark
            if blocked <= _LATE:
                hint = _REPORTED * 10
                continue
            # Not in a variable: it would keep all objects of that frame alive until the next look.
            culprit = culprit_of(sys._current_frames().get(loop_thread))
            if culprit:
                self._found[culprit] += 1
            if blocked >= hint:  # it may never end: the process may be killed first
                hint *= 2
                _log.warning(
                    "event_loop_is_blocked", so_far=round(blocked, 1), culprit=culprit or "unknown"
                )


def culprit_of(frame: FrameType | None) -> str:
    """What runs in a stack: its role, its function and its line; empty: the loop itself.

    Example: "tool find_orders (tools.py:41)"
    """
    while frame is not None and _module_of(frame).startswith(_STAND_INS):
        frame = frame.f_back
    inner, outer = frame, frame  # the innermost frame of foreign code, and its outermost one
    while outer is not None:
        module = _module_of(outer)
        if module.startswith("rehearsal_room.harness.core.loop_lag"):
            return ""
        role = next((role for prefix, role in _ROLES if module.startswith(prefix)), None)
        if role is not None:
            assert inner is not None
            return _described(role, inner, frame)
        if module.partition(".")[0] not in ("asyncio", "uvloop", "selectors", "anyio"):
            inner = outer
        outer = outer.f_back
    return ""


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _described(role: str, called: FrameType, innermost: FrameType | None) -> str:
    """`called` is the frame that the code of this role called, or that code itself."""
    code = called.f_code
    found = f"{role} {code.co_name} ({Path(code.co_filename).name}:{called.f_lineno}"
    if innermost is not None and innermost is not called:
        inner = innermost.f_code
        found += f", in {inner.co_name}, {Path(inner.co_filename).name}:{innermost.f_lineno}"
    return f"{found})"
