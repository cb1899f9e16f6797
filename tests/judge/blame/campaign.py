"""Mutants, each with one wrong turn that is known, and clean episodes: which turn is blamed.

`python -m tests.judge.blame.campaign [MUTANTS] [CLEAN] [CHANCES] [SEED]` prints the table of
docs/blame.md (`just blame`).

What is right does not come from what is tested. The wrong turns are those whose calls are not the
solution's: a call that was changed into one of its other calls is none, but the next one of that
kind is. Of a call that was left out, the last place where it can be made is found by putting it
into the mutant's own calls, place after place, played by judge.playback and judged by the code
judge: no fork and no search takes part.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple, Self

import msgspec
from anyio import AsyncContextManagerMixin

from rehearsal_room.authoring.world_host import host_in_process
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.core.messages import Briefing, Reply
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.launch import launch
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import FixedRepliesAgent
from rehearsal_room.harness.policies.mutants import Mutant, MutantPolicy
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.rollout.process import run, warnings_only
from rehearsal_room.harness.settings.model import ModelSettings
from rehearsal_room.harness.settings.policy import PolicySettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.judge.blame.asking import blame_many
from rehearsal_room.judge.blame.forks import Origin
from rehearsal_room.judge.blame.report import Blame
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import InProcessRunner
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.judge.verdicts.opener import judge_opener
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Call, Scenario, Task
from rehearsal_room.scenarios.generate.compose import generate
from rehearsal_room.scenarios.generate.plan.world_plans import plan_worlds
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.support.generated_worlds import folder_of

BUNDLED = ("shop_support", "flight_desk", "claims_desk")
_CHUNK = 400  # episodes whose forks go into one log


class FlakyOracle(AsyncContextManagerMixin):
    """Plays the oracle on, but in so many of its episodes it gives up at once. So the chance of
    success is known in every state from which the oracle completes the task."""

    name = "flaky"
    CHANCE = 0.7

    def __init__(self) -> None:
        self._oracle = OraclePolicy(dialect_of("native"))

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        yield self

    def statistics(self) -> dict[str, float]:
        """Nothing is counted."""
        return {}

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that gives up, or plays on."""
        if Random(f"flaky {assignment.seed}").random() < self.CHANCE:
            return self._oracle.agent(assignment)
        return FixedRepliesAgent((Reply("I give up."),))


class Case(NamedTuple):
    """An episode, the mutation in it, and what is said of it."""

    mutation: str  # empty: it is the oracle's
    altered: frozenset[int]  # turns, from 0
    blame: Blame


class World(NamedTuple):
    """A world of the campaign, and what it judges its episodes with."""

    name: str
    scenario: Scenario
    world: BlockingWorld
    judge: CodeJudge

    def completes(self, task: Task, calls: Sequence[Call]) -> bool:
        """Whether these calls and the solution's answer complete the task."""
        played = play(self.world, task, calls, task.answer)
        return self.judge.verdict_at_once(played.trajectory).label is Label.COMPLETED

    def altered(self, task: Task, mutant: Mutant) -> frozenset[int]:
        """The turns in which the mutant does what is wrong."""
        if mutant.kind == "answered":
            return frozenset((len(mutant.calls),))
        left, wrong = [*task.oracle], list[int]()
        for turn, call in enumerate(mutant.calls):
            if call in left:
                left.remove(call)
            else:
                wrong.append(turn)
        if wrong:
            return frozenset(wrong)
        calls, (left_out,) = mutant.calls, left
        first = task.oracle.index(left_out)
        places = [
            place
            for place in range(first, len(calls) + 1)
            if self.completes(task, (*calls[:place], left_out, *calls[place:]))
        ]
        return frozenset((max(places),))


def blamed(
    name: str, world: World, policy: str, count: int, seed: int, *, tries: int = 0
) -> Iterator[Case]:
    """Play episodes of a world, and blame those that failed; of clean ones all. `tries` forks of
    each state are played by a FlakyOracle."""
    if count < 1:
        return
    with tempfile.TemporaryDirectory() as there:
        folder = Path(there) / "run"
        settings = Settings(
            scenarios=(name,), episodes=count, seed=seed, policy=PolicySettings(name=policy)
        )
        launch(settings, folder, resume=False, open_judge=judge_opener(settings), progress=False)
        with open_reader(folder) as reader:
            rows = {row.episode: row for row in reader.episodes()}
            trajectories = list(reader.trajectories())
        chosen = [
            one
            for one in trajectories
            if policy == "oracle" or rows[one.episode].label is not Label.COMPLETED
        ]
        writes = {
            task.id: [
                bool(r.changes) for r in play(world.world, task, task.oracle, task.answer).results
            ]
            for task in world.scenario.tasks
        }
        mutants = MutantPolicy(dialect_of("native"), lambda _, task: writes[task.id])
        for start in range(0, len(chosen), _CHUNK):
            part = chosen[start : start + _CHUNK]
            origins = [
                Origin(str(folder), one, world.scenario, world.scenario.task(one.started.task))
                for one in part
            ]
            playing = settings
            if tries:
                acting, model = PolicySettings(name="local"), ModelSettings(name="flaky")
                playing = msgspec.structs.replace(settings, policy=acting, model=model)
            ask = partial(blame_many, tries=tries, local_policy=lambda _: FlakyOracle())
            found = run(ask, origins, playing, Path(there) / f"forks-{start}")
            for origin, blame in zip(origins, found, strict=True):
                mutation, altered = "", frozenset[int]()
                if policy == "mutant":
                    started = origin.trajectory.started
                    briefing = Briefing("", "", tuple(world.world.tools), "", "", False)
                    assigned = Assignment("", world.scenario, origin.task, started.seed, briefing)
                    mutant = mutants.mutant(assigned)
                    assert mutant is not None
                    mutation, altered = mutant.kind, world.altered(origin.task, mutant)
                yield Case(mutation, altered, blame)


def opened(name: str) -> World:
    """A world by name or path, without its dialogues."""
    scenario = find(name)
    scenario = msgspec.structs.replace(scenario, tasks=scenario.default_tasks)
    world = HostedScenario(scenario)
    return World(name, scenario, world, CodeJudge(scenario, InProcessRunner(world)))


def worlds_in(folder: Path, *, generated: int, micro: int, seed: int) -> list[str]:
    """The bundled worlds, and generated ones and microworlds that are written below a folder."""
    plans = plan_worlds(generated, seed) if generated else ()
    made = [folder_of(generate(plan, host_in_process), folder) for plan in plans]
    small = write_microworlds(folder, count=micro, seed=seed, split="train") if micro else ()
    return [*BUNDLED, *map(str, made), *map(str, small)]


class Table:
    """How often the wrong turn was named."""

    def __init__(self) -> None:
        self.total, self.named, self.first, self.rescued = (Counter[str]() for _ in range(4))
        self.clean = self.clean_blamed = 0
        self.with_chances = self.chances = self.covered = self.completed = self.graded = 0
        self.missed: list[str] = []

    def add(self, case: Case) -> None:
        """Count one episode."""
        blame = case.blame
        if not case.mutation:
            self.clean += 1
            lost = [state for state in blame.states if state.oracle != "goes_on"]
            self.clean_blamed += blame.blamed is not None or bool(lost)
            return
        self.total[case.mutation] += 1
        self.named[case.mutation] += blame.blamed in case.altered
        self.first[case.mutation] += blame.blamed == min(case.altered)
        self.rescued[case.mutation] += blame.rescue is not None
        if blame.policy:
            self.with_chances += 1
            for state in blame.states[: min(case.altered) + 1]:
                assert state.chance is not None
                self.chances += 1
                self.covered += state.chance.lower <= FlakyOracle.CHANCE <= state.chance.upper
                self.completed += state.completed
                self.graded += state.graded
        if blame.blamed not in case.altered:
            self.missed.append(
                f"{blame.scenario}:{blame.task} {case.mutation}: blamed {blame.blamed}, altered"
                f" {sorted(case.altered)}, lost at {blame.lost_at}, wrong since"
                f" {blame.wrong_since}: {' | '.join(blame.actions)}"
            )

    def lines(self) -> list[str]:
        """The table in Markdown."""
        rows = [
            "| mutation | episodes | wrong turn named | first one | rescued |",
            "|---|---:|---:|---:|---:|",
        ]
        kinds = [*sorted(self.total), "all"]
        for one in (self.total, self.named, self.first, self.rescued):
            one["all"] = sum(count for kind, count in one.items() if kind != "all")
        for kind in kinds:
            cells = (self.total, self.named, self.first, self.rescued)
            rows.append(f"| {kind} | " + " | ".join(f"{one[kind]:,}" for one in cells) + " |")
        rows.append("")
        rows.append(
            f"clean episodes: {self.clean:,}, blamed or with a lost state: {self.clean_blamed}"
        )
        if self.chances:
            rows.append(
                f"chances of {self.with_chances} episodes: {self.completed / self.graded:.3f},"
                f" where it is {FlakyOracle.CHANCE}; the interval has it in"
                f" {self.covered / self.chances:.1%} of {self.chances:,} states"
            )
        return rows


def main() -> None:
    """Play the campaign and print the table."""
    given = [int(word) for word in sys.argv[1:]]
    mutants, clean, chances, seed = (*given, *(3_070, 1_000, 310, 13)[len(given) :])
    table = Table()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as there, warnings_only():
        names = worlds_in(Path(there), generated=12, micro=9, seed=seed)
        for number, name in enumerate(names):
            world = opened(name)
            left = len(names) - number
            wanted = -(-(mutants - table.total.total()) // left)
            measured = min(wanted, -(-(chances - table.with_chances) // left))
            for case in blamed(name, world, "mutant", wanted - measured, seed + number):
                table.add(case)
            for case in blamed(name, world, "mutant", measured, seed + number + 1_000, tries=8):
                table.add(case)
            for case in blamed(name, world, "oracle", -(-(clean - table.clean) // left), seed):
                table.add(case)
            sys.stderr.write(f"{name}: {table.total.total()} mutants, {table.clean} clean\n")
    for line in table.lines():
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{time.perf_counter() - began:.0f} s\n")
    for line in table.missed:
        sys.stderr.write(f"missed: {line}\n")


if __name__ == "__main__":
    main()
