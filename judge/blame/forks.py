"""Playing many forks in one log: of several turns, several episodes, several policies.

The worlds, the episode loop, the judge and the log are those of every run. A fork is an episode of
`rehearse run --from RUN/EPISODE@TURN --edit …`; all of them stand in one log, each with where it is
from.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.bus.mqtt_settings import BusSettings
from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.continuation.edits import Edit
from rehearsal_room.harness.continuation.forks import beginning_after, parse_fork, shares_tokens
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Label, StepTaken
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.outcomes.scores import score_of
from rehearsal_room.harness.policies.base import Agent, Assignment, OpenPolicy, Policy
from rehearsal_room.harness.policies.fixed_replies import FixedRepliesAgent
from rehearsal_room.harness.policies.oracle import (
    OraclePolicy,
    finds_its_place,
    rest_replies,
)
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan, episode_seed
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.parts import OpenJudge, open_run_parts, preflight
from rehearsal_room.harness.setup.policies import OpenLocalPolicy, open_policy, writes_in
from rehearsal_room.harness.setup.rehearsal import find_server
from rehearsal_room.harness.setup.run_folder import keep_plan
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.scenarios.format import Call, Scenario, Task

MAX_FORKS = 1_000_000  # in one log


class Origin(msgspec.Struct, frozen=True):
    """An episode that is forked."""

    run: str  # its folder, as forks name it
    trajectory: Trajectory
    scenario: Scenario
    task: Task

    @property
    def name(self) -> str:
        """Example: runs/mine/e000003"""
        return f"{self.run}/{self.trajectory.episode}"

    @property
    def turns(self) -> int:
        """How many turns it has."""
        return len(self.trajectory.steps)


class Fork(msgspec.Struct, frozen=True):
    """One state of an episode, from which episodes go on."""

    origin: Origin
    turn: int  # turns that are kept
    edit: Edit = Edit()  # what comes first
    plan: tuple[Call, ...] | None = None  # policy `solution`: what it calls before it answers
    at_once: bool = False  # it makes these calls in one turn
    tries: int = 1


class Outcome(NamedTuple):
    """How the episodes of a fork ended."""

    completed: int
    graded: int  # that have a verdict
    ungraded: int
    why: str  # why the first one without a verdict has none; empty: each has one
    episodes: tuple[str, ...]  # in the forks' own log

    @property
    def succeeds(self) -> bool:
        """Whether one completed the task: from this state a solution is left."""
        return self.completed > 0


class SolutionPolicy:
    """Makes given calls, then gives the task's answer: one plan for each episode."""

    name = "oracle"

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.plans: dict[str, tuple[tuple[Call, ...], bool]] = {}  # by episode; True: in one turn

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that plays the plan of its episode."""
        calls, at_once = self.plans[assignment.episode]
        first = sum(isinstance(event, StepTaken) for event in assignment.kept)
        answer = assignment.task.answer
        if not first:
            openers = self._dialect.opening_calls()
            calls = calls if calls[: len(openers)] == openers else (*openers, *calls)
        if at_once and calls:
            together = self._dialect.write(calls, "", turn=first)
            last = self._dialect.write((), answer, turn=first + 1)
            return FixedRepliesAgent((together, last))
        return FixedRepliesAgent(rest_replies(self._dialect, calls, answer, first=first))


class ForkPlayer:
    """Plays forks in a log. `open_player` makes it."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        parts: RunParts,
        policies: Mapping[str, Policy],
        pool: RoutingPool,
        console: Console | None,
    ) -> None:
        self.settings, self.pool = settings, pool
        self._console = console
        self._folder, self._parts, self._policies = folder, parts, policies
        self._count = self._groups = 0

    @property
    def dialect(self) -> Dialect:
        """The dialect of all forks."""
        return self._parts.dialect

    @property
    def own_name(self) -> str:
        """The name of the policy `own` in the log."""
        return self._policies["own"].name

    def packs(self, calls: Sequence[Call]) -> bool:
        """Whether the dialect can make these calls in one turn."""
        try:
            self.dialect.write(tuple(calls), "", turn=0)
        except ValueError:
            return False
        return True

    def fault_of(self, fork: Fork) -> str:
        """Why a fork cannot be played, in a sentence: its turns end the episode, it needs more of
        them than are left, or a form that the dialect lacks; empty: it can."""
        try:
            self._begin(fork, "oracle")
        except SettingsError as exc:
            return str(exc)
        return ""

    def steps_for(self, task: Task) -> int:
        """The maximum number of turns of an episode."""
        return self._parts.limits.steps_for(task)

    async def play(self, forks: Sequence[Fork], policy: str) -> list[Outcome]:
        """Play forks by one of the policies `own`, `oracle` and `solution`. Raises SettingsError
        for a fork that cannot be played, LogError for turns that cannot be repeated, and what a
        run raises."""
        if not forks:
            return []
        plans: list[EpisodePlan] = []
        members: list[list[str]] = []
        beginnings: dict[str, Beginning] = {}
        acting = self._policies[policy]
        for fork in forks:
            begun = self._begin(fork, policy)
            made = self._plans_of(fork)
            plans += made
            members.append([one.episode for one in made])
            beginnings |= {one.episode: begun for one in made}
            if isinstance(acting, SolutionPolicy):
                assert fork.plan is not None
                acting.plans |= {one.episode: (fork.plan, fork.at_once) for one in made}
        parts = msgspec.structs.replace(self._parts, policy=acting, beginnings=beginnings)
        await run_session(
            self._folder,
            plans,
            parts,
            concurrency=self.settings.number_at_once,
            meters=Meters(self.pool),
            resume=self._count > len(plans),
            console=self._console if policy == "own" else None,
        )
        with open_reader(self._folder) as reader:
            return _outcomes(reader, members)

    def keep(self) -> None:
        """Let run.toml say how many episodes the log has."""
        sized = msgspec.structs.replace(self.settings, episodes=self._count, group_size=1)
        keep_plan(self._folder, sized)

    def _begin(self, fork: Fork, policy: str) -> Beginning:
        origin = fork.origin
        edit = "" if fork.edit == Edit() else msgspec.json.encode(fork.edit).decode()
        source = f"{origin.name}@{fork.turn}"
        settings = msgspec.structs.replace(self.settings, forked_from=source, edit=edit)
        return beginning_after(
            origin.trajectory,
            settings,
            [(origin.scenario, origin.task)],
            has_same_tokens=policy == "own" and shares_tokens(settings, parse_fork(source)),
        )

    def _plans_of(self, fork: Fork) -> list[EpisodePlan]:
        group = self._groups
        self._groups += 1
        first, self._count = self._count, self._count + fork.tries
        return [
            EpisodePlan(
                episode=f"e{first + member:06d}",
                scenario=fork.origin.scenario,
                task=fork.origin.task,
                group=f"g{group:06d}",
                member=member,
                group_size=fork.tries,
                seed=episode_seed(self.settings.seed, group, member),
            )
            for member in range(fork.tries)
        ]


def _outcomes(reader: LogReader, members: Sequence[Sequence[str]]) -> list[Outcome]:
    rows = {row.episode: row for row in reader.episodes()}
    found = []
    for names in members:
        own = [rows[name] for name in names]
        scores = [score_of(row.ending, row.label) for row in own]
        without = [row for row, score in zip(own, scores, strict=True) if score is None]
        known = [score for score in scores if score is not None]
        why = ""
        if without:
            row = without[0]
            broken = "the world failed" if row.label is Label.ENVIRONMENT_ERROR else ""
            why = row.error or row.unjudged or broken or str(row.ending).replace("_", " ")
        found.append(Outcome(int(sum(known)), len(known), len(without), why, tuple(names)))
    return found


@asynccontextmanager
async def open_player(
    settings: Settings,
    folder: Path,
    tasks: Sequence[tuple[Scenario, Task]],
    *,
    open_judge: OpenJudge,
    local_policy: OpenLocalPolicy | None = None,
    plays_own: bool = True,
    progress: bool = False,
) -> AsyncIterator[ForkPlayer]:
    """What plays forks of episodes of these tasks into a new folder, which it makes. `plays_own`:
    the policy of the settings is opened, too; else there are the oracle's alone. `progress` of its
    forks goes to standard error. Raises what a run raises that begins."""
    # No broker hears of the forks, and no faults are injected into them.
    settings = msgspec.structs.replace(settings, bus=BusSettings(), chaos="")
    if not plays_own:
        policy = msgspec.structs.replace(settings.policy, name="noop", tokens="", think="")
        settings = msgspec.structs.replace(settings, policy=policy)
    opened: OpenPolicy | None = open_policy(settings, [], local_policy)
    await find_server(settings, opened)
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(pool_of(settings))
        parts = await stack.enter_async_context(
            open_run_parts(
                msgspec.structs.replace(settings, forked_from="", edit=""),
                folder,
                tasks,
                opened,
                pool=pool,
                open_judge=open_judge,
                episodes=MAX_FORKS,
                resume=False,
            )
        )
        await preflight(settings.model, parts.judge)
        if opened is not None:
            await stack.enter_async_context(opened)
        writes_of = await writes_in(pool, [one for one in tasks if finds_its_place(*one)])
        policies: dict[str, Policy] = {
            "own": parts.policy,
            "oracle": OraclePolicy(parts.dialect, writes_of),
            "solution": SolutionPolicy(parts.dialect),
        }
        console = Terminal(stderr=True) if progress else None
        yield ForkPlayer(settings, folder, parts, policies, pool, console)
