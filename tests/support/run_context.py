"""The context of episodes without a log: the mini world, a sink in memory, agents with fixed
moves."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import AgentCall, Reply, Usage, Window
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.recorder import Recorder, RecordSink
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy
from rehearsal_room.harness.rollout.deadlines import Watchdog
from rehearsal_room.harness.rollout.episode import RunContext
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.scenarios.format import Scenario, read
from tests.support.paths import LIBRARY


class MemorySink:
    """Keeps records in a list. `capacity` is the number of records that it holds until `take` makes
    room; None: there is always room."""

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
        """The end of an episode, whose records are checked to be in order and whole."""
        facts = self.events(episode)
        assert isinstance(facts[0], EpisodeStarted)
        assert all(isinstance(fact, StepTaken) for fact in facts[1:-1])
        assert isinstance(facts[-1], EpisodeEnded)
        assert facts[-1].num_steps == len(facts) - 2
        records = [record for record in self.records if record.episode == episode]
        assert [record.seq for record in records] == list(range(len(records)))
        return facts[-1]

    def endings(self) -> dict[str, Ending]:
        """The ending of each episode; each is checked to have one end."""
        return {name: self.ended(name).ending for name in {r.episode for r in self.records}}


Move = Reply | Exception | Callable[[], Awaitable[Reply]]


class MovesAgent:
    """Makes its moves in order and repeats the last one: returns a reply, raises an exception, or
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
    """A policy whose agents all make the same moves; `by_episode` has other moves for some
    episodes."""

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
    """A reply that pays a part of Anna Soll's fine; it changes the world."""
    return calls("pay_fine", member_id=2, amount_cents=cents, method="card")


LOOK = calls("list_overdue")
DONE = Reply("All is done.")
MALFORMED = Reply("", (AgentCall("", {}, "x"),), "tool_calls")


async def never() -> Reply:
    """A model that never replies."""
    await anyio.sleep_forever()
    raise AssertionError("unreachable")


def after(seconds: float, reply: Reply) -> Callable[[], Awaitable[Reply]]:
    """A model that replies after so many seconds."""

    async def answer() -> Reply:
        await anyio.sleep(seconds)
        return reply

    return answer


def make_run_context(
    policy: Policy,
    sink: RecordSink,
    *,
    limits: Limits | None = None,
    format: FormatSettings | None = None,
    pool: Pool | None = None,
    history: HistoryWindow | None = None,
    dialect: Dialect | None = None,
    now: Callable[[], float] = lambda: 1000.0,
) -> RunContext:
    return RunContext(
        pool=pool or LocalPool(),
        policy=policy,
        dialect=dialect or Native(),
        history=history or parse_history("full"),
        format=format or FormatSettings(),
        limits=limits or Limits(),
        recorder=Recorder(sink, now=now),
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


@asynccontextmanager
async def watchdog_running(context: RunContext) -> AsyncIterator[None]:
    """A block in which the context's watchdog runs; exceptions are raised without a group."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(context.watchdog.run)
        try:
            yield
        except Exception as exc:
            failure = exc
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
