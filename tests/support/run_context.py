"""A stage for episodes without a log: the mini world, a sink in memory, agents told what to do."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio

from envpool.inprocess.pool import LocalPool
from envpool.store.pool_protocol import Pool
from harness.core.events import Ending, EpisodeEnded, EpisodeStarted, Event, Record, StepTaken
from harness.core.messages import AgentCall, Reply, Usage, Window
from harness.dialects.format_rules import FormatSettings
from harness.dialects.native import Native
from harness.history.base import HistoryPolicy
from harness.history.windows import HistoryManager, parse_history
from harness.log.recorder import Recorder, Sink
from harness.policies.base import Agent, Assignment, Policy
from harness.rollout.deadlines import Watchdog
from harness.rollout.episode import Limits, RunContext
from harness.rollout.meters import Meters
from harness.rollout.plan import EpisodePlan, plan_of
from scenarios.format import Scenario, read
from tests.support.paths import LIBRARY


class MemorySink:
    """Keeps records in a list. `capacity` None: there is always room; otherwise so many may be
    appended before `take` has taken them."""

    def __init__(self, capacity: int | None = None) -> None:
        self.records: list[Record] = []
        self.capacity = capacity
        self.num_taken = 0
        self.most_waiting = 0
        self._taken = anyio.Event()

    @property
    def num_waiting(self) -> int:
        return len(self.records) - self.num_taken

    def append(self, record: Record) -> None:
        self.records.append(record)
        self.most_waiting = max(self.most_waiting, self.num_waiting)

    async def wait_for_room(self) -> None:
        while self.capacity is not None and self.num_waiting >= self.capacity:
            await self._taken.wait()

    async def flush(self) -> int:
        return len(self.records)

    def take(self, count: int = 1) -> None:
        """Make room."""
        self.num_taken = min(len(self.records), self.num_taken + count)
        taken, self._taken = self._taken, anyio.Event()
        taken.set()

    def events(self, episode: str) -> list[Event]:
        return [record.event for record in self.records if record.episode == episode]

    def ended(self, episode: str) -> EpisodeEnded:
        """The one end of an episode, whose records are in order and whole."""
        facts = self.events(episode)
        assert isinstance(facts[0], EpisodeStarted)
        assert all(isinstance(fact, StepTaken) for fact in facts[1:-1])
        assert isinstance(facts[-1], EpisodeEnded)
        assert facts[-1].num_steps == len(facts) - 2
        records = [record for record in self.records if record.episode == episode]
        assert [record.seq for record in records] == list(range(len(records)))
        return facts[-1]

    def endings(self) -> dict[str, Ending]:
        """How each episode ended; each has one end."""
        return {name: self.ended(name).ending for name in {r.episode for r in self.records}}


Move = Reply | Exception | Callable[[], Awaitable[Reply]]


class MovesAgent:
    """Makes its moves in order and the last one for ever: gives a reply, raises an exception, or
    awaits a function."""

    def __init__(self, moves: Sequence[Move]) -> None:
        self._moves = list(moves)
        self.windows: list[Window] = []

    async def reply(self, window: Window) -> Reply:
        self.windows.append(window)
        move = self._moves.pop(0) if len(self._moves) > 1 else self._moves[0]
        if isinstance(move, Exception):
            raise move
        if isinstance(move, Reply):
            return move
        return await move()


class MovesPolicy:
    """Every episode's agent makes the same moves; `by_episode` has those of some."""

    name = "moves"

    def __init__(self, *moves: Move, by_episode: dict[str, Sequence[Move]] | None = None) -> None:
        self._moves = moves
        self._by_episode = by_episode or {}
        self.agents: dict[str, MovesAgent] = {}
        self.assignments: dict[str, list[Assignment]] = defaultdict(list)

    def agent(self, assignment: Assignment) -> Agent:
        name = assignment.episode
        self.assignments[name].append(assignment)
        self.agents[name] = MovesAgent(self._by_episode.get(name, self._moves))
        return self.agents[name]


def calls(*names: str, tokens: int = 0, **arguments: Any) -> Reply:
    """A reply that calls tools with the same arguments."""
    asked = tuple(AgentCall(name, arguments, f"x{number}") for number, name in enumerate(names))
    return Reply("", asked, "tool_calls", Usage(completion_tokens=tokens))


def pay(cents: int) -> Reply:
    """A reply that books a part of Anna Soll's fine; it changes the world."""
    return calls("pay_fine", member_id=2, amount_cents=cents, method="card")


LOOK = calls("list_overdue")
DONE = Reply("All is done.")
MALFORMED = Reply("", (AgentCall("", {}, "x"),), "tool_calls")


async def never() -> Reply:
    """A model that does not answer."""
    await anyio.sleep_forever()
    raise AssertionError("unreachable")


def after(seconds: float, reply: Reply) -> Callable[[], Awaitable[Reply]]:
    """A model that takes its time."""

    async def answer() -> Reply:
        await anyio.sleep(seconds)
        return reply

    return answer


def make_run_context(
    policy: Policy,
    sink: Sink,
    *,
    limits: Limits | None = None,
    format: FormatSettings | None = None,
    pool: Pool | None = None,
    history: HistoryPolicy | None = None,
    now: Callable[[], float] = lambda: 1000.0,
) -> RunContext:
    windows = HistoryManager()
    return RunContext(
        pool=pool or LocalPool(),
        policy=policy,
        dialect=Native(),
        history=history or parse_history("full"),
        format=format or FormatSettings(),
        limits=limits or Limits(),
        recorder=Recorder(sink, folds=(windows.handle,), now=now),
        windows=windows,
        watchdog=Watchdog(),
        meters=Meters(),
    )


def library() -> Scenario:
    return read(LIBRARY)


def plans(episodes: int = 1, *, group_size: int = 1, task: str = "pay-fine") -> list[EpisodePlan]:
    """Plans of one task of the mini world."""
    scenario = library()
    tasks = [(scenario, scenario.task(task))]
    return list(plan_of(tasks, episodes=episodes, group_size=group_size, seed=7))


def watchdog_running(context: RunContext) -> AbstractAsyncContextManager[None]:
    """A block in which the stage's watchdog runs."""
    return _Watched(context)


class _Watched:
    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> None:
        await self._group.__aenter__()
        self._group.start_soon(self._context.watchdog.run)

    async def __aexit__(self, *exc: Any) -> None:
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)
