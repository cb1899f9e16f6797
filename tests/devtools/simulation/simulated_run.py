"""A whole run in simulation: episodes, log, bus, judge, killed and resumed until all is done.

Everything is the harness's own but for the event loop, the disk, the model, the processes of
sandbox workers, and what carries the messages of several rollout processes. Each seed draws another
order of tasks, other delays, failures of the model, faults on purpose and deaths of processes.
"""

import re
import tempfile
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.workers.pool import WorkerPool
from rehearsal_room.harness.admission.adaptive import AdaptiveAdmission
from rehearsal_room.harness.admission.control import AdmissionControl
from rehearsal_room.harness.chaos.chaos import Chaos
from rehearsal_room.harness.chaos.settings import ChaosFile
from rehearsal_room.harness.core.errors import BusError, LogError, ProcessError
from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of
from rehearsal_room.harness.rollout.session import RunParts, run_session, sole_exception
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.settings.policy import PolicySettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.judge.verdicts.factory import open_judge
from rehearsal_room.scenarios.format import Task, read
from tests.devtools.simulation.broker import simulated_mqtt
from tests.devtools.simulation.drawn_faults import PATIENCE_S, drawn_faults, faults_of
from tests.devtools.simulation.fleet import FleetPools, fleet_life, stand_ins
from tests.devtools.simulation.follower import FollowedRun
from tests.devtools.simulation.ledger import CONCURRENCY, Ledger, Observer
from tests.devtools.simulation.model import SimulatedModel
from tests.devtools.simulation.parts.choices import Choices, Deviation
from tests.devtools.simulation.parts.simulated_process import SimulatedProcess, draw_doom
from tests.devtools.simulation.parts.virtual_loop import Stuck
from tests.devtools.simulation.workers import simulated_workers

MOST_LIVES = 5  # after that nothing ends the process any more
_MOST_LIVES_AT_ALL = 60
_MOST_CALLS = 6  # of the oracle of a task that is played
_OTHER_LIMIT = 0.1  # share of the replies after which admission has another limit
_WORKERS_DIED = re.compile("died|before its first episode")
_DOOM = 0.6  # share of the lives that end early


class Subject(msgspec.Struct, frozen=True):
    """What is simulated."""

    package: Path  # of the world
    episodes: int = 50
    # What the learner trains of a run's log, as a value that can be compared; None: nothing.
    trained: Callable[[Path], Any] | None = None


class Shape(msgspec.Struct, frozen=True):
    """What a seed decides beside its choices: they cannot take it back."""

    processes: int  # that play the episodes
    is_sandboxed: bool  # whether the tools run in sandbox workers
    is_followed: bool  # whether the run is published on a broker and followed there
    is_adaptive: bool  # whether admission adapts to the model server
    has_faults: bool  # whether there are faults on purpose


def shape_of(seed: int) -> Shape:
    """The shape of a seed's runs. The first seed has the plainest."""
    return Shape(
        processes=2 + seed % 2 if seed % 3 == 1 else 1,
        is_sandboxed=seed % 6 == 2,
        is_followed=seed % 6 == 5,
        is_adaptive=seed % 5 == 4,
        has_faults=seed % 4 != 0,
    )


@cache
def _plans(subject: Subject) -> list[EpisodePlan]:
    scenario = read(subject.package)
    tasks = [(scenario, task) for task in scenario.tasks if _is_short(task)]
    return list(plan_of(tasks, episodes=subject.episodes, group_size=5, seed=7))


def _is_short(task: Task) -> bool:
    """Whether a task can be played in some turns."""
    return task.kind != "open" and len(task.oracle) <= _MOST_CALLS


class Outcome(msgspec.Struct):
    """What came of one simulation."""

    records: list[Record]  # the log
    trained: Any  # what the learner trains of it
    followed: FollowedRun | None  # None: nobody followed it
    ledger: Ledger
    deviations: list[Deviation]
    lives: int
    steps: int  # turns of the event loop, over all lives
    pool_leases: int


def simulate(
    seed: int,
    subject: Subject,
    *,
    allowed: Collection[Deviation] | None = None,
    taken: list[Deviation] | None = None,
) -> Outcome:
    """Run a simulation to its end; `taken` gets its deviations. Raises what the run raises when
    nobody killed it, and Stuck."""
    choices = Choices(seed, allowed)
    if taken is not None:
        choices.deviations = taken
    with (
        tempfile.TemporaryDirectory(prefix="simulation-", dir=_memory()) as name,
        drawn_faults(choices),
    ):
        run = _Run(Path(name), seed, choices, subject)
        while not run.live_once():
            if run.num_lives > _MOST_LIVES_AT_ALL:
                raise Stuck("the run does not end")
        with open_reader(run.folder) as reader:
            records = [record for _, record in reader.records_after(0, limit=1_000_000)]
        trained = None if subject.trained is None else subject.trained(run.folder)
    return Outcome(
        records,
        trained,
        run.followed if shape_of(seed).is_followed else None,
        run.ledger,
        choices.deviations,
        run.num_lives,
        run.num_steps,
        run.num_live(),
    )


class _Run:
    """One simulation: the lives of its process, one after the other."""

    def __init__(self, folder: Path, seed: int, choices: Choices, subject: Subject) -> None:
        self.folder, self.choices = folder, choices
        self.ledger = Ledger()
        self.num_lives = self.num_steps = 0
        self.followed = FollowedRun(choices)
        self._plans = _plans(subject)
        self._shape = shape_of(seed)
        self._chaos = faults_of(seed) if self._shape.has_faults else ChaosFile(seed)
        self._pool: LocalPool | WorkerPool = _new_pool(
            subject.package
        )  # of a process that plays alone
        self._pools = FleetPools(partial(_new_pool, subject.package))  # of several processes
        concurrency: int | Literal["auto"] = "auto" if self._shape.is_adaptive else CONCURRENCY
        self._settings = Settings(
            concurrency=concurrency,
            processes=self._shape.processes,
            policy=PolicySettings(name="openai"),
            judge=JudgeSettings(mode="code"),
            history="last:2",
        )

    def num_live(self) -> int:
        """Worlds that are leased."""
        return self._pool.num_live + self._pools.num_live()

    def live_once(self) -> bool:
        """One life of the process; returns whether everything is done."""
        self.num_lives += 1
        rate = _DOOM if self.num_lives < MOST_LIVES else 0.0
        doom = draw_doom(self.choices, rate=rate, most_turns=1_500, most_writes=400)
        process = SimulatedProcess(self.folder, self.choices, doom)
        end = process.live(partial(self._live, process), may_raise=self._may_end)
        self.num_steps += process.loop.num_turns
        return end == "done" and not _has_failures(self.folder)

    def _may_end(self, exc: BaseException) -> bool:
        """Whether a run may end with this, so that it is resumed."""
        exc, full = sole_exception(exc), self._chaos.disk.full
        if isinstance(exc, LogError):
            return full is not None and full.seconds > PATIENCE_S and "is full" in str(exc)
        if isinstance(exc, BusError):
            return self._shape.is_followed and "cannot be reached" in str(exc)
        return isinstance(exc, ProcessError) and _WORKERS_DIED.search(str(exc)) is not None

    async def _live(self, process: SimulatedProcess) -> None:
        with stand_ins(self._pools):
            if self._shape.processes > 1:
                await self._play_in_several(process)
            elif self._shape.is_sandboxed:
                async with simulated_workers(self.choices) as self._pool:
                    await self._play_alone(process)
            elif self._shape.is_followed:
                with simulated_mqtt(self.followed.broker, self._chaos.seed):
                    async with self.followed.following():
                        await self._play_alone(process)
            else:
                await self._play_alone(process)

    async def _play_alone(self, process: SimulatedProcess) -> None:
        scenarios = [self._plans[0].scenario]
        pool, chaos = self._pool, Chaos(self._chaos, self._settings.model)
        await pool.host(scenarios[0])
        judged = _JudgesPool(pool)
        model = SimulatedModel(
            *(process, self.choices, self.ledger, self.num_lives),
            num_live=lambda: pool.num_live - judged.num_live,
        )
        opened = open_judge(
            self._settings.judge, pool=judged, scenarios=scenarios, folder=self.folder
        )
        admission = self._admission()
        if admission is not None:
            model.observe(admission)
        async with opened as judge:
            parts = RunParts(
                pool=chaos.pool(pool),
                policy=chaos.policy(model),
                dialect=Native(),
                history=parse_history(self._settings.history),
                format=FormatSettings(),
                limits=Limits(),
                judge=judge,
                listeners=(Observer(process, self.ledger),),
                open_database=chaos.database(process.open_database),
                faults=chaos if self._shape.has_faults else None,
                admission=admission,
                link=self.followed.link(process) if self._shape.is_followed else None,
            )
            await run_session(
                *(self.folder, self._plans, parts),
                concurrency=CONCURRENCY,
                meters=Meters(),
                resume=True,
            )

    async def _play_in_several(self, process: SimulatedProcess) -> None:
        await fleet_life(
            *(self.folder, self._plans, self._settings, process),
            choices=self.choices,
            ledger=self.ledger,
            life=self.num_lives,
            pools=self._pools,
            chaos=self._chaos,
            admission=self._admission(),
        )

    def _admission(self) -> AdaptiveAdmission | None:
        if not self._shape.is_adaptive:
            return None
        return AdaptiveAdmission(DrawnControl(self.choices))


class _JudgesPool:
    """The pool as the judge has it, which plays oracles in worlds that are no episode's."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.num_live = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    @asynccontextmanager
    async def lease(self, scenario: Any, task: Any = None) -> AsyncIterator[Any]:
        self.num_live += 1
        try:
            async with self._pool.lease(scenario, task) as env:
                yield env
        finally:
            self.num_live -= 1


class DrawnControl(AdmissionControl):
    """An admission control whose limit is drawn: a run has too few replies to find one."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(first=CONCURRENCY // 2, most=CONCURRENCY)
        self._choices = choices

    def asked(self, now: float) -> None:
        """See AdmissionControl."""

    def replied(self, now: float, seconds: float) -> None:
        if drawn := self._choices.option("limit", CONCURRENCY + 1, rate=_OTHER_LIMIT):
            self.limit = drawn

    def underused(self, now: float) -> None:
        """See AdmissionControl."""

    def refused(self, now: float, attempt: int) -> None:
        """See AdmissionControl."""

    def failed(self, now: float) -> None:
        """See AdmissionControl."""


def _has_failures(folder: Path) -> bool:
    with open_reader(folder) as reader:
        return any(row.ending == "policy_error" for row in reader.episodes())


@cache
def _hosted(package: Path) -> LocalPool:
    """A pool that has hosted the world: later ones share it."""
    pool = LocalPool()
    pool.world(read(package))
    return pool


def _new_pool(package: Path) -> LocalPool:
    pool = LocalPool()
    pool._worlds = dict(_hosted(package)._worlds)
    return pool


def _memory() -> str | None:
    """A folder in memory, where the system has one: a folder of a random name is made in it."""
    shared = Path("/dev/shm")  # nosec B108
    return str(shared) if shared.is_dir() else None
