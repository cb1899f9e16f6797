"""How a run stands: a plain subscriber of the bus, so it counts only what the log has on disk.

What it shows as finished has survived whatever happens next.
"""

import time
from collections import Counter
from collections.abc import Iterable

import anyio
import structlog
from rich.console import Console

from harness.bus.local import Subscription
from harness.core.events import EpisodeEnded, EpisodeStarted, Judged, Label, Record, StepTaken
from harness.log.schema import EpisodeRow
from harness.rollout.progress_display import ProgressDisplay

_BAR_EVERY = 0.2  # seconds between two drawings of the bar
_LINE_EVERY = 2.0  # seconds between two plain lines
_log = structlog.get_logger(__name__)


class Monitor:
    """Counts the facts of one run. `finished` counts verdicts where there is a judge, and ends
    where there is none."""

    def __init__(self, *, total: int, judged: bool) -> None:
        self.total = total
        self.num_started = 0
        self.num_ended = 0
        self.num_judged = 0
        self.num_steps = 0
        self.num_calls = 0
        self.endings: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self._judged = judged
        self._done = anyio.Event()

    def __repr__(self) -> str:
        return f"<Monitor [{self.finished} of {self.total} finished, {self.num_started} started]>"

    @property
    def finished(self) -> int:
        """Episodes to which nothing more will happen."""
        return self.num_judged if self._judged else self.num_ended

    @property
    def pass_rate(self) -> float:
        """The share of `completed` among the episodes with a verdict; 0 where there is none."""
        verdicts = sum(self.labels.values())
        return self.labels[Label.COMPLETED] / verdicts if verdicts else 0.0

    def restore(self, rows: Iterable[EpisodeRow], *, judged: bool) -> None:
        """Count episodes that the log has already."""
        for row in rows:
            self.num_started += 1
            self.num_ended += 1
            self.num_judged += judged
            self.num_steps += row.num_steps
            self.endings[str(row.ending)] += 1
            if row.label is not None:
                self.labels[str(row.label)] += 1
        self._look()

    def expect(self, total: int) -> None:
        """So many episodes there will be, after all."""
        self.total = total
        self._look()

    async def serve(self, subscription: Subscription) -> None:
        """Count until the bus is closed."""
        while True:
            try:
                records = await subscription.receive()
            except anyio.EndOfStream:
                return
            for record in records:
                self._count(record)
            self._look()

    async def complete(self) -> None:
        """Wait until every episode of the plan is finished."""
        await self._done.wait()

    def _count(self, record: Record) -> None:
        event = record.event
        if isinstance(event, StepTaken):
            self.num_steps += 1
            self.num_calls += len(event.results)
        elif isinstance(event, EpisodeStarted):
            self.num_started += 1
        elif isinstance(event, EpisodeEnded):
            self.num_ended += 1
            self.endings[event.ending] += 1
            if not self._judged:
                _log.info("episode_finished", episode=record.episode, ending=event.ending.value)
        elif isinstance(event, Judged):
            self.num_judged += 1
            if event.label is not None:
                self.labels[event.label] += 1
            _log.info("episode_finished", episode=record.episode, label=event.label)

    def _look(self) -> None:
        if self.finished >= self.total:
            self._done.set()


async def show_progress(monitor: Monitor, console: Console) -> None:
    """Show how the run stands until cancelled: a bar on a terminal, plain lines elsewhere."""
    began, first = time.monotonic(), monitor.num_calls
    with ProgressDisplay("episodes", total=monitor.total, console=console, every=0.0) as display:
        wait = 0.0 if display.is_bar else _LINE_EVERY
        while True:
            await anyio.sleep(wait)
            rate = (monitor.num_calls - first) / max(1e-9, time.monotonic() - began)
            note = f"{rate:,.0f} calls/s, pass rate {monitor.pass_rate:.1%}"
            display.show(monitor.finished, monitor.total, note)
            wait = _BAR_EVERY if display.is_bar else _LINE_EVERY
