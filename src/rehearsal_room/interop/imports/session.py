"""Conversations as a run: a log that can be shown, judged, replayed and exported.

Each conversation becomes an episode of the ordinary loop, whose driver takes the replies from the
file (`retelling`). Where its calls give the file's results in a fresh world, the episode is one of
that world, with states, row changes and a verdict. Where they do not, and where no world is named,
its world is unknown, as that of an MCP server is (`conversation_pool`): the results are the file's.

Conversations are first played without a log, to find out which it is. Then those that share world,
dialect, agent, history and resumed turns are one session each; all go into one log.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import anyio.lowlevel
import msgspec

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.core.events import (
    EpisodeStarted,
    ForkedFrom,
    HistorySummarized,
    Judged,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.rollout.deadlines import Watchdog
from rehearsal_room.harness.rollout.episode import RunContext, run_episode
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.running import Judge, RecordVerdict
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.setup.parts import OpenJudge
from rehearsal_room.interop.imports.conversation_pool import ConversationPool
from rehearsal_room.interop.imports.conversations import ImportedConversation
from rehearsal_room.interop.imports.plans import (
    Planned,
    SessionKind,
    episode_names,
    imported_plan,
    kind_of,
    unknown_plans,
    with_distinct_seeds,
)
from rehearsal_room.interop.imports.retelling import ImportedPolicy, Retelling, RetoldUsers
from rehearsal_room.interop.imports.worlds import WorldFinder
from rehearsal_room.judge.core import live_judging
from rehearsal_room.judge.failures.diagnoser import Diagnoser
from rehearsal_room.scenarios.format import Scenario

_LIMITS = Limits(max_steps=1_000_000, max_calls=1_000_000, reply_timeout=None, world_stop=False)
_CONCURRENCY = 16
_UNKNOWN = "the world of this conversation is unknown"


class UnknownWorld(msgspec.Struct, frozen=True):
    """An imported episode whose world is unknown."""

    episode: str
    source: str  # file and line
    why: str


class ImportedRun(msgspec.Struct, frozen=True):
    """The output of `rehearse import atif --json` and `import chat --json`."""

    folder: str
    episodes: int
    replayed: int  # in a world that gave the results of the file
    unknown: tuple[UnknownWorld, ...]  # the other episodes
    labels: dict[str, int]
    unjudged: int


async def import_conversations(
    folder: Path,
    conversations: Sequence[ImportedConversation],
    finder: WorldFinder,
    pool: RoutingPool,
    open_judge: OpenJudge | None,
) -> ImportedRun:
    """Make a run of conversations. The caller made sure that the folder has no log.

    Raises LogError, PoolError, ScenarioError and SettingsError.
    """
    importing = _Importing(folder, pool, open_judge)
    planned = await importing.plan(conversations, finder)
    await importing.log(planned)
    return _report(folder, planned)


class _Importing:
    """The work on one import."""

    def __init__(self, folder: Path, pool: RoutingPool, open_judge: OpenJudge | None) -> None:
        self._folder = folder
        self._pool = pool
        self._open_judge = open_judge
        self._kept: dict[str, Beginning] = {}  # of forks, by episode

    async def plan(
        self, conversations: Sequence[ImportedConversation], finder: WorldFinder
    ) -> list[Planned]:
        """Each conversation as an episode of a world, or of an unknown one."""
        names = episode_names(conversations)
        known: list[Planned] = []
        unknown: list[tuple[int, str]] = []
        for index, conversation in enumerate(conversations):
            found = finder.candidate(conversation)
            if found.scenario is None or found.task is None:
                unknown.append((index, found.why))
                continue
            plan = imported_plan(conversation, names[index], index, found.scenario, found.task)
            known.append(Planned(plan, conversation, ""))
        known = with_distinct_seeds(known)
        mismatches = await self._mismatches(known)
        indexes = {name: index for index, name in enumerate(names)}
        unknown += [(indexes[name], why) for name, why in mismatches.items()]
        found_here = [one for one in known if one.plan.episode not in mismatches]
        elsewhere = with_distinct_seeds(unknown_plans(conversations, names, sorted(unknown)))
        await self._mismatches([one for one in elsewhere if one.conversation.num_context])
        return [*found_here, *elsewhere]

    async def log(self, planned: Sequence[Planned]) -> None:
        """Play the episodes into the log, one session for each kind."""
        kinds: dict[SessionKind, list[Planned]] = defaultdict(list)
        for one in planned:
            kinds[kind_of(one)].append(one)
        for number, (kind, members) in enumerate(kinds.items()):
            await self._session(kind, members, resume=number > 0)

    async def _session(self, kind: SessionKind, members: list[Planned], *, resume: bool) -> None:
        async with AsyncExitStack() as stack:
            judge: Judge | None = None
            if not kind.is_known:
                judge = _FileVerdicts({one.plan.episode: one.conversation for one in members})
            elif self._open_judge is not None:
                scenarios = _scenarios(members)
                opened = self._open_judge(
                    pool=self._pool, scenarios=scenarios, folder=self._folder, spent=0.0
                )
                judge = await stack.enter_async_context(opened)
            parts = RunParts(
                pool=self._pool_of(kind, members),
                policy=ImportedPolicy(kind.agent),
                dialect=dialect_of(kind.dialect),
                history=parse_history(kind.history),
                format=FormatSettings(),
                limits=_LIMITS,
                judge=judge,
                driver=_retelling(members).drive,
                beginning=self._kept.get(members[0].plan.episode),
                users=_users(members),
            )
            plans = [one.plan for one in members]
            await run_session(
                self._folder,
                plans,
                parts,
                concurrency=_CONCURRENCY,
                meters=Meters(),
                resume=resume,
            )

    async def _mismatches(self, planned: Sequence[Planned]) -> dict[str, str]:
        """Play episodes without a log; return where results differ from the file's, by episode."""
        await self._pool.host_all(one.plan.scenario for one in planned if not one.why)
        found: dict[str, str] = {}
        for one in planned:
            retelling = _retelling([one])
            sink = _MemorySink()
            context = self._context(one, sink)
            await run_episode(one.plan, context, retelling.drive)
            found |= retelling.mismatches
            if (source := one.conversation.forked_from) is not None:
                self._kept[one.plan.episode] = _beginning(sink.records, one.conversation, source)
        return found

    def _context(self, one: Planned, sink: "_MemorySink") -> RunContext:
        kind = kind_of(one)
        return RunContext(
            pool=self._pool_of(kind, [one]),
            policy=ImportedPolicy(kind.agent),
            dialect=dialect_of(kind.dialect),
            history=parse_history(kind.history),
            format=FormatSettings(),
            limits=_LIMITS,
            recorder=Recorder(sink),
            watchdog=Watchdog(),
            meters=Meters(),
            users=_users([one]),
        )

    def _pool_of(self, kind: SessionKind, members: Sequence[Planned]) -> Pool:
        if kind.is_known:
            return self._pool
        return ConversationPool(
            {one.plan.scenario.digest: one.conversation.tools for one in members}
        )


class _MemorySink:
    """Keeps the records of an episode that is not logged (harness.log.recorder.RecordSink)."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def append(self, record: Record) -> None:
        self.records.append(record)

    async def wait_for_room(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def flush(self) -> int:
        return len(self.records)


class _FileVerdicts:
    """The verdicts that the files themselves have; without one an episode stays unjudged."""

    def __init__(self, conversations: dict[str, ImportedConversation]) -> None:
        self._conversations = conversations
        self._diagnoser = Diagnoser(None, ())

    async def serve(self, subscription: Subscription, record: RecordVerdict) -> None:
        """Record the verdict of each episode that ends, until the bus is closed."""
        await live_judging.serve(subscription, self, record)

    def suspends(self, trajectory: Trajectory) -> bool:
        """False: nothing is waited for."""
        return False

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The verdict of the episode's file, with what its findings show."""
        verdict = self._conversations[trajectory.episode].verdict
        verdict = verdict or Judged("imported", None, None, unjudged=_UNKNOWN)
        return await self._diagnoser.add_to(trajectory, verdict)


def _retelling(members: Iterable[Planned]) -> Retelling:
    return Retelling({one.plan.episode: one.conversation for one in members})


def _users(members: Iterable[Planned]) -> RetoldUsers:
    return RetoldUsers(
        {
            (one.plan.scenario.digest, one.plan.task.id, one.plan.seed): one.conversation
            for one in members
        }
    )


def _scenarios(members: Iterable[Planned]) -> list[Scenario]:
    return list({one.plan.scenario.digest: one.plan.scenario for one in members}.values())


def _beginning(
    records: list[Record], conversation: ImportedConversation, source: ForkedFrom
) -> Beginning:
    """The turns that a fork keeps, as they were just played."""
    events = [record.event for record in records]
    replies = [one for one in events if isinstance(one, StepTaken | HistorySummarized)]
    started = next(one for one in events if isinstance(one, EpisodeStarted))
    kept = tuple(replies[: conversation.num_context])
    return Beginning(kept, started.start_digest, source)


def _report(folder: Path, planned: Sequence[Planned]) -> ImportedRun:
    with open_reader(folder) as reader:
        rows = reader.episodes()
    labels = Counter(str(row.label) for row in rows if row.label is not None)
    return ImportedRun(
        folder=str(folder),
        episodes=len(rows),
        replayed=sum(not one.why for one in planned),
        unknown=tuple(
            UnknownWorld(one.plan.episode, one.conversation.source, one.why)
            for one in planned
            if one.why
        ),
        labels=dict(sorted(labels.items())),
        unjudged=len(rows) - sum(labels.values()),
    )
