"""The progress of a run, from a subscription to its bus.

The bus carries only what the log has on disk: an episode that is shown as finished is never lost.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable

import anyio
import msgspec
import structlog
from rich.console import Console

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    Judged,
    Label,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.log.schema import EncodedRecord, EpisodeRow
from rehearsal_room.harness.log.writer import Entry
from rehearsal_room.harness.outcomes.scores import tally_of_labels
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay

_BAR_INTERVAL = 0.2  # seconds between two drawings of the bar
_LINE_INTERVAL = 2.0  # seconds between two plain lines
_LONG_WAIT = 30.0  # seconds for a first reply, from which on the wait is shown
_log = structlog.get_logger(__name__)


class _Step(msgspec.Struct, tag="step"):
    """What is counted of an encoded StepTaken; decoding the rest takes ten times as long."""

    results: list[msgspec.Raw] = []


class _Ended(msgspec.Struct, tag="ended"):
    """What is counted of an encoded EpisodeEnded."""

    ending: Ending


class _Judged(msgspec.Struct, tag="judged"):
    """What is counted of an encoded Judged."""

    label: Label | None = None


_counted_of = msgspec.msgpack.Decoder(_Step | _Ended | _Judged).decode


class Monitor:
    """Counts the events of one run. An episode is `finished` when it is judged, in a run without a
    judge when it has ended."""

    def __init__(self, *, total: int | None, judged: bool) -> None:
        self.total = total  # None: not known yet, see `set_total`
        self.num_started = 0
        self.num_ended = 0
        self.num_judged = 0
        self.num_steps = 0
        self.num_calls = 0
        self.endings: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self._judged = judged
        self._done = anyio.Event()
        # Episodes without a reply -> when they began; they are in the order of these times.
        self._without_reply: dict[str, float] = {}

    def __repr__(self) -> str:
        total = "?" if self.total is None else self.total
        return f"<Monitor [{self.finished} of {total} finished, {self.num_started} started]>"

    @property
    def finished(self) -> int:
        """Episodes that get no further events."""
        return self.num_judged if self._judged else self.num_ended

    @property
    def pass_rate(self) -> float | None:
        """The share of `completed` among the episodes with a verdict; None: there is none."""
        return tally_of_labels(self.labels, self.num_ended).rate

    @property
    def outcome(self) -> str:
        """The pass rate, or "-" while there is no label; beside it the episodes whose model failed,
        or whose provider withheld a reply, if there are some.

        Example: "pass rate 0.750 of 4, 116 model failures"
        """
        text = "pass rate -" if self.pass_rate is None else f"pass rate {self.pass_rate:.3f}"
        failures, refusals = (
            self.endings[Ending.POLICY_ERROR],
            self.endings[Ending.MODEL_REFUSED],
        )
        if not failures and not refusals:
            return text
        text += f" of {sum(self.labels.values()):,}"
        if failures:
            text += f", {plural(failures, 'model failure')}"
        return text + f", {refusals:,} refused by the provider" * (refusals > 0)

    @property
    def first_replies(self) -> str:
        """The episodes that have waited long for their first reply; empty: there are none.

        Example: "1 waiting for its first reply, 2 min"
        """
        if not self._without_reply:
            return ""
        longest = time.monotonic() - next(iter(self._without_reply.values()))
        if longest < _LONG_WAIT:
            return ""
        number, which = len(self._without_reply), "their"
        if number == 1:
            which = "its"
        took = f"{longest:.0f} s" if longest < 60 else f"{longest / 60:.0f} min"
        return f"{number:,} waiting for {which} first reply, {took}"

    def restore(self, rows: Iterable[EpisodeRow], *, judged: bool) -> None:
        """Count episodes that are already in the log."""
        for row in rows:
            self.num_started += 1
            self.num_ended += 1
            self.num_judged += judged
            self.num_steps += row.num_steps
            self.endings[str(row.ending)] += 1
            if row.label is not None:
                self.labels[str(row.label)] += 1
        self._check_finished()

    def set_total(self, total: int) -> None:
        """Correct the number of episodes: fewer may begin than the plan has."""
        self.total = total
        self._check_finished()

    async def serve(self, subscription: Subscription) -> None:
        """Count until the bus is closed."""
        while True:
            try:
                records = await subscription.receive()
            except anyio.EndOfStream:
                return
            for record in records:
                self._count(record)
            self._check_finished()

    def count_entries(self, entries: Iterable[Entry]) -> None:
        """Count what a log has committed, some of it encoded by another process."""
        for entry in entries:
            if isinstance(entry, tuple):
                self._count_encoded(entry)
            else:
                self._count(entry)
        self._check_finished()

    async def wait_until_finished(self) -> None:
        """Wait until every episode of the plan is finished."""
        await self._done.wait()

    def _count_encoded(self, record: EncodedRecord) -> None:
        episode, _, _, kind, _, data, _ = record
        if kind == "started":
            self._count_start(episode)
        elif self._without_reply:
            self._without_reply.pop(episode, None)
        if kind not in ("step", "ended", "judged"):
            return
        event = _counted_of(data)
        if isinstance(event, _Step):
            self.num_steps += 1
            self.num_calls += len(event.results)
        elif isinstance(event, _Ended):
            self._count_end(episode, event.ending)
        else:
            self._count_verdict(episode, event.label)

    def _count(self, record: Record) -> None:
        event = record.event
        if isinstance(event, EpisodeStarted):
            self._count_start(record.episode)
            return
        if self._without_reply:
            self._without_reply.pop(record.episode, None)
        if isinstance(event, StepTaken):
            self.num_steps += 1
            self.num_calls += len(event.results)
        elif isinstance(event, EpisodeEnded):
            self._count_end(record.episode, event.ending)
        elif isinstance(event, Judged):
            self._count_verdict(record.episode, event.label)

    def _count_start(self, episode: str) -> None:
        self.num_started += 1
        self._without_reply[episode] = time.monotonic()

    def _count_end(self, episode: str, ending: Ending) -> None:
        self.num_ended += 1
        self.endings[ending] += 1
        if not self._judged:
            _log.info("episode_finished", episode=episode, ending=ending.value)

    def _count_verdict(self, episode: str, label: Label | None) -> None:
        self.num_judged += 1
        if label is not None:
            self.labels[label] += 1
        _log.info("episode_finished", episode=episode, label=label)

    def _check_finished(self) -> None:
        if self.total is not None and self.finished >= self.total:
            self._done.set()


async def show_progress(
    monitor: Monitor, console: Console, limit: Callable[[], int] | None = None
) -> None:
    """Show the run's progress until cancelled: a bar on a terminal, plain lines elsewhere. `limit`
    returns the number of episodes that may run at once (None: it does not change)."""
    began, first = time.monotonic(), monitor.num_calls
    shown, finished = began, -1
    with ProgressDisplay("episodes", total=monitor.total, console=console, every=0.0) as display:
        wait = 0.0 if display.is_bar else _LINE_INTERVAL
        while True:
            await anyio.sleep(wait)
            rate = (monitor.num_calls - first) / max(1e-9, time.monotonic() - began)
            note = f"{rate:,.0f} calls/s, {monitor.outcome}"
            if limit is not None:
                note += f", {limit():,} at once"
            if waiting := monitor.first_replies:
                note += f", {waiting}"
            repeats = bool(waiting) and time.monotonic() - shown >= _LONG_WAIT
            if repeats or monitor.finished != finished:
                shown, finished = time.monotonic(), monitor.finished
            display.show(monitor.finished, monitor.total, note, repeats=repeats)
            wait = _BAR_INTERVAL if display.is_bar else _LINE_INTERVAL
