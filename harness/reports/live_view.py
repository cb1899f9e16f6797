"""A run shown on a terminal from its records alone: live, or later and from another process.

A Tally folds the records into counts; `watch` shows it, or one line for each record. Speed is
computed from the records' own times, so a watcher that starts late shows the speed of the run and
not the speed at which it reads.
"""

from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress

import anyio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.bus.mqtt_wire import RunStatus
from rehearsal_room.harness.core.events import (
    AgentOutput,
    AgentSpans,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    FaultInjected,
    HistorySummarized,
    Judged,
    ModelAsked,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Answer, FormatError
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.outcomes.scores import tally_of_labels
from rehearsal_room.scenarios.core.short_text import one_line

SPAN = 10.0  # seconds of the run over which speed is measured
_LONGEST = 59  # characters of a text in an event's line


class RunTally:
    """Counts over a run's records; `add` is a handler for a LocalBus.

    An episode that is repeated after a crash counts once. Each step counts as often as it was
    taken, so the copies with which a resumed episode or a fork begins do not count.
    """

    def __init__(self, *, planned: int = 0) -> None:
        self.planned = planned  # episodes; 0: not known
        self.num_steps = 0
        self.num_calls = 0
        self.num_failed_calls = 0
        self.endings: Counter[str] = Counter()
        self.labels: dict[str, Counter[str]] = {}  # judge -> label, or `unjudged`
        self.num_started = 0  # episodes
        self._live: set[str] = set()
        self._copies: dict[str, int] = {}  # kept replies that still follow, of those that have some
        self._buckets: deque[tuple[int, int]] = deque()  # (second, calls), the last SPAN of them

    @property
    def num_ended(self) -> int:
        """Episodes that are over."""
        return self.endings.total()

    @property
    def num_live(self) -> int:
        """Episodes that have begun and are not over."""
        return len(self._live)

    @property
    def num_judged(self) -> int:
        """The number of verdicts of the judge with the most verdicts."""
        return max((labels.total() for labels in self.labels.values()), default=0)

    @property
    def pass_rate(self) -> float | None:
        """The share of `completed` among the verdicts of the judge with the most of them; None:
        there is none."""
        if not self.labels:
            return None
        labels = max(self.labels.values(), key=Counter.total)
        given = {label: count for label, count in labels.items() if label != "unjudged"}
        return tally_of_labels(given, 0).rate

    @property
    def calls_per_s(self) -> float:
        """Tool calls per second, over the last whole seconds of the run, at most SPAN."""
        if len(self._buckets) < 2:
            return 0.0
        first, last = self._buckets[0][0], self._buckets[-1][0]
        return sum(calls for second, calls in self._buckets if second < last) / (last - first)

    def add(self, record: Record) -> None:
        """Count one record."""
        event = record.event
        if isinstance(event, StepTaken | HistorySummarized):
            if self._is_copy(record.episode) or isinstance(event, HistorySummarized):
                return
            self.num_steps += 1
            self._add_calls(record.at, event)
        elif isinstance(event, EpisodeStarted):
            self.num_started += record.episode not in self._live  # it may begin again
            self._live.add(record.episode)
            if event.kept:
                self._copies[record.episode] = event.kept
            else:
                self._copies.pop(record.episode, None)
        elif isinstance(event, EpisodeEnded):
            self._live.discard(record.episode)
            self._copies.pop(record.episode, None)
            self.endings[event.ending] += 1
        elif isinstance(event, Judged):
            labels = self.labels.setdefault(event.judge, Counter())
            labels[event.label or "unjudged"] += 1

    def _is_copy(self, episode: str) -> bool:
        left = self._copies.get(episode, 0)
        if left:
            self._copies[episode] = left - 1
        return left > 0

    def _add_calls(self, at: float, event: StepTaken) -> None:
        calls = len(event.results)
        self.num_calls += calls
        self.num_failed_calls += sum(result.is_error for result in event.results)
        second = int(at)
        buckets = self._buckets
        if buckets and second <= buckets[-1][0]:  # records of a second may come in any order
            buckets[-1] = (buckets[-1][0], buckets[-1][1] + calls)
        else:
            buckets.append((second, calls))
            while second - buckets[0][0] > SPAN:
                buckets.popleft()

    def line(self, *, state: str = "live") -> str:
        """The run as one line of text.

        Example: live · 1,240 of 2,000 started, 1,100 ended, 1,090 judged · 8,812 calls/s ·
        pass rate 0.713 · answered 1,020, step_limit 80
        """
        of = f" of {self.planned:,}" if self.planned else ""
        parts = [
            state,
            f"{self.num_started:,}{of} started, {self.num_ended:,} ended, "
            f"{self.num_judged:,} judged",
            f"{self.calls_per_s:,.0f} calls/s",
            "pass rate -" if self.pass_rate is None else f"pass rate {self.pass_rate:.3f}",
        ]
        if self.endings:
            parts.append(
                ", ".join(f"{word} {count:,}" for word, count in self.endings.most_common())
            )
        return " · ".join(parts)

    def statistics(self) -> dict[str, object]:
        """All counts, under the names that JSON results use."""
        return {
            "planned": self.planned,
            "started": self.num_started,
            "ended": self.num_ended,
            "judged": self.num_judged,
            "steps": self.num_steps,
            "tool_calls": self.num_calls,
            "failed_calls": self.num_failed_calls,
            "pass_rate": self.pass_rate,
            "endings": {str(word): count for word, count in self.endings.items()},
            "labels": {
                judge: {str(word): count for word, count in labels.items()}
                for judge, labels in self.labels.items()
            },
        }


def event_line(record: Record) -> str:
    """A record as one line of text, without characters that a terminal would act on.

    Example: shop-0007 #3 step get_order(order_id=1042) -> ok
    """
    attempt = f" (attempt {record.attempt})" if record.attempt else ""
    line = f"{record.episode}{attempt} #{record.seq} {_event_text(record.event)}"
    return printable(line, one_line=True)


def _event_text(event: Event) -> str:
    if isinstance(event, StepTaken):
        return f"step {_step(event)}"
    if isinstance(event, EpisodeStarted):
        text = f"started {event.scenario}/{event.task} with {event.policy}"
        if (source := event.forked_from) is None:
            return text
        return f"{text} after turn {source.turn} of {source.where}"
    if isinstance(event, EpisodeEnded):
        why = f": {_short(event.error)}" if event.error else ""
        return f"ended {event.ending} after {event.num_steps} steps{why}"
    if isinstance(event, Judged):
        if event.label is None:
            return f"unjudged by {event.judge}: {_short(event.unjudged or '')}"
        return f"judged {event.label} by {event.judge}, reward {event.reward}"
    if isinstance(event, HistorySummarized):
        return f"summary: {_short(event.reply.text)}"
    if isinstance(event, FaultInjected):
        return f"fault {fault_text(event)}"
    if isinstance(event, ModelAsked):
        said = _short(event.reply.text) if event.reply is not None else _short(event.error)
        return f"model: {said}"
    if isinstance(event, AgentOutput):
        return f"output: {_short(event.stderr or event.stdout)}"
    if isinstance(event, AgentSpans):
        return f"spans: {len(event.spans):,}"
    return f"weights {event.version}"


def fault_text(event: FaultInjected) -> str:
    """A fault on purpose in a few words.

    Example: "tools.lost_reply in e000003, turn 2, call c2-0 (retried)"
    """
    text = event.fault
    if event.episode:
        text += f" in {event.episode}, turn {event.turn}"
    if event.call:
        text += f", call {event.call}"
    if event.target:
        text += f" at {event.target}"
    if not event.landed:
        return f"{text} (did not land)"
    return f"{text} (retried)" if event.retried else text


def _step(event: StepTaken) -> str:
    decision = event.decision
    if isinstance(decision, FormatError):
        return f"format error: {_short(decision.reason)}"
    if isinstance(decision, Answer):
        if event.user is not None and not event.user.ended:
            return f"agent: {_short(decision.text)}; user: {_short(event.user.text)}"
        return f"answer: {_short(decision.text)}"
    outcomes: list[str] = [result.error or "ok" for result in event.results]
    outcomes += ["not called"] * (len(decision.calls) - len(outcomes))
    return "; ".join(
        f"{call.name}({_short(_arguments(call.arguments))}) -> {outcome}"
        for call, outcome in zip(decision.calls, outcomes, strict=False)
    )


def _arguments(arguments: object) -> str:
    if isinstance(arguments, dict):
        return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return repr(arguments)


def _short(text: str) -> str:
    return one_line(text, _LONGEST)


async def watch(
    subscription: Subscription,
    console: Console,
    *,
    events: bool = False,
    status: Callable[[], RunStatus | None] = lambda: None,
    every_s: float = 1.0,
) -> RunTally:
    """Show a run until its bus has ended; return the counts.

    On a terminal one line changes in place; elsewhere a line is written every `every_s` seconds.
    With `events` each record gets a line. The last line stays. `status` returns the latest status
    of the run's publisher, as `lambda: follower.status` does. Raises BusError when the run cannot
    be followed further.
    """
    tally = RunTally()

    def line() -> str:
        latest = status()
        if latest is not None:
            tally.planned = latest.episodes
        state = "live" if latest is None else f"{latest.run} {latest.state}"
        return printable(tally.line(state=state), one_line=True)

    if events:
        await _count(subscription, tally, console)
    elif console.is_terminal:
        with Live(get_renderable=lambda: Text(line()), console=console, transient=True):
            await _count(subscription, tally)
    else:
        async with OwnedTasks() as tasks:
            tasks.start_soon(_repeat, line, console, every_s)
            await _count(subscription, tally)
    console.out(line(), highlight=False)
    return tally


async def _count(
    subscription: Subscription, tally: RunTally, console: Console | None = None
) -> None:
    """Count all records; with a console, write a line for each."""
    with suppress(anyio.EndOfStream):
        while True:
            records = await subscription.receive()
            for record in records:
                tally.add(record)
            if console is not None:
                console.out("\n".join(map(event_line, records)), highlight=False)
            await anyio.lowlevel.checkpoint()


async def _repeat(line: Callable[[], str], console: Console, every_s: float) -> None:
    while True:
        await anyio.sleep(every_s)
        console.out(line(), highlight=False)
