"""A whole run in simulation: episodes, log, bus, judge, killed and resumed until all is done.

Everything is the harness's own but for the event loop, the disk and the model. Each seed draws
another order of tasks, other delays, failures of the model and deaths of the process.
"""

import tempfile
from collections import Counter
from collections.abc import Collection
from functools import cache, partial
from pathlib import Path
from typing import Any

import anyio
import msgspec

from envpool.inprocess.pool import LocalPool
from harness.bus.local import Subscription
from harness.core.errors import PolicyError
from harness.core.events import Kind, Record, StepTaken
from harness.core.messages import AgentCall, Reply, Usage, Window
from harness.dialects.format_rules import FormatSettings
from harness.dialects.native import Native
from harness.history.windows import parse_history
from harness.log.reader import open_reader
from harness.policies.base import Agent, Assignment
from harness.rollout.meters import Meters
from harness.rollout.plan import EpisodePlan, plan_of
from harness.rollout.session import RunParts, run_session
from harness.settings.judge import JudgeSettings
from harness.settings.limits import Limits
from harness.simulation.choices import Choices, Deviation
from harness.simulation.simulated_process import SimulatedProcess, draw_doom
from harness.simulation.virtual_loop import Stuck
from judge.verdicts.factory import open_judge
from scenarios.format import read
from tests.support.paths import LIBRARY

CONCURRENCY = 12
MOST_LIVES = 5  # after that nothing goes wrong any more
_SLOW_REPLY = 0.2  # share of the replies that take long
_FAILED_REPLY = 0.01
_DOOM = 0.6  # share of the lives that end early


class Ledger:
    """What the world outside saw; only what a living process did counts."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str, int]] = []  # life, episode, turn of each question
        self.answered: list[tuple[int, str, int]] = []
        self.shown: dict[tuple[str, int, int], Record] = {}  # on the bus
        self.calls: Counter[tuple[int, str]] = Counter()  # number of the world, call id
        self.faults: list[str] = []  # what was found wrong at once

    def saw_live(self, process: SimulatedProcess, num_live: int) -> None:
        """So many worlds are leased."""
        if num_live > CONCURRENCY and not process.is_dead:
            self.faults.append(f"{num_live} episodes at once, of {CONCURRENCY} allowed")


class SimulatedModel:
    """A policy whose agents play the oracle's calls, some not all, with virtual delays."""

    name = "simulated"

    def __init__(
        self,
        process: SimulatedProcess,
        choices: Choices,
        ledger: Ledger,
        life: int,
        pool: LocalPool,
    ) -> None:
        self.process, self.choices, self.ledger = process, choices, ledger
        self.life, self.pool = life, pool

    def agent(self, assignment: Assignment) -> Agent:
        self.ledger.saw_live(self.process, self.pool.num_live)
        return _SimulatedAgent(self, assignment)


class _SimulatedAgent:
    def __init__(self, model: SimulatedModel, assignment: Assignment) -> None:
        self._model = model
        self._episode = assignment.episode
        self._replies = replies_of(assignment)
        self._turn = sum(isinstance(kept, StepTaken) for kept in assignment.kept)

    async def reply(self, window: Window) -> Reply:
        model, turn = self._model, self._turn
        if not model.process.is_dead:
            model.ledger.asked.append((model.life, self._episode, turn))
        await anyio.sleep(0.05 + model.choices.amount("slow_reply", 5.0, rate=_SLOW_REPLY))
        if model.choices.option("failed_reply", 2, rate=_FAILED_REPLY):
            raise PolicyError("the simulated model failed")
        self._turn += 1
        if not model.process.is_dead:
            model.ledger.answered.append((model.life, self._episode, turn))
        return self._replies[min(turn, len(self._replies) - 1)]


def replies_of(assignment: Assignment) -> list[Reply]:
    """The moves of an episode: the oracle's calls, for every third one call fewer."""
    task = assignment.task
    calls = task.oracle[: len(task.oracle) - (int(assignment.episode[1:]) % 3 == 2)]
    replies = [
        Reply("", (AgentCall(call.name, dict(call.arguments), f"c{n}"),), "tool_calls", Usage())
        for n, call in enumerate(calls)
    ]
    return [*replies, Reply(task.answer or "Done.")]


class _Observer:
    """A listener that notes what the bus carries."""

    kinds: Collection[Kind] = ("started", "step", "summary", "ended", "judged")

    def __init__(self, process: SimulatedProcess, ledger: Ledger) -> None:
        self._process, self._ledger = process, ledger

    async def serve(self, subscription: Subscription, record: Any) -> None:
        while True:
            try:
                records = await subscription.receive()
            except anyio.EndOfStream:
                return
            if not self._process.is_dead:
                for one in records:
                    self._ledger.shown[one.episode, one.attempt, one.seq] = one

    async def wait_until_done(self) -> None:
        """Nothing to wait for."""


@cache
def plans(episodes: int) -> list[EpisodePlan]:
    scenario = read(LIBRARY)
    tasks = [(scenario, task) for task in scenario.tasks if task.kind != "open"]
    return list(plan_of(tasks, episodes=episodes, group_size=1, seed=7))


class Outcome(msgspec.Struct):
    """What came of one simulation."""

    records: list[Record]  # the log
    ledger: Ledger
    deviations: list[Deviation]
    lives: int
    pool_leases: int


def simulate(
    seed: int,
    *,
    episodes: int = 50,
    allowed: Collection[Deviation] | None = None,
    taken: list[Deviation] | None = None,
) -> Outcome:
    """Run a simulation to its end; `taken` gets its deviations. Raises what the run raises when
    nobody killed it, and Stuck."""
    choices = Choices(seed, allowed)
    if taken is not None:
        choices.deviations = taken
    ledger = Ledger()
    pool = _new_pool()
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=_memory()) as name:
        folder = Path(name)
        lives = 0
        while True:
            lives += 1
            rate = _DOOM if lives < MOST_LIVES else 0.0
            doom = draw_doom(choices, rate=rate, most_turns=1_500, most_writes=400)
            process = SimulatedProcess(folder, choices, doom)
            main = partial(_life, folder, process, choices, ledger, pool, lives, episodes)
            if process.live(main) == "done" and not _has_failures(folder):
                break
            if lives > 40:
                raise Stuck("the run does not end")
        with open_reader(folder) as reader:
            records = [record for _, record in reader.records_after(0, limit=1_000_000)]
    return Outcome(records, ledger, choices.deviations, lives, pool.num_live)


async def _life(
    folder: Path,
    process: SimulatedProcess,
    choices: Choices,
    ledger: Ledger,
    pool: LocalPool,
    life: int,
    episodes: int,
) -> None:
    planned = plans(episodes)
    scenarios = [planned[0].scenario]
    await pool.host(scenarios[0])
    async with open_judge(
        JudgeSettings(mode="code"), pool=pool, scenarios=scenarios, folder=folder
    ) as judge:
        parts = RunParts(
            pool=pool,
            policy=SimulatedModel(process, choices, ledger, life, pool),
            dialect=Native(),
            history=parse_history("full"),
            format=FormatSettings(),
            limits=Limits(),
            judge=judge,
            listeners=(_Observer(process, ledger),),
            open_database=process.open_database,
        )
        await run_session(
            folder, planned, parts, concurrency=CONCURRENCY, meters=Meters(), resume=True
        )


def _has_failures(folder: Path) -> bool:
    with open_reader(folder) as reader:
        return any(row.ending == "policy_error" for row in reader.episodes())


@cache
def _hosted() -> LocalPool:
    """A pool that has hosted the world: later ones share it."""
    pool = LocalPool()
    pool.world(read(LIBRARY))
    return pool


def _new_pool() -> LocalPool:
    pool = LocalPool()
    pool._worlds = dict(_hosted()._worlds)
    return pool


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
