"""Measure what judging costs: during a run, for one episode, and over a log.

    python -m benchmarks.judging --episodes 1024 --logged 4096 --runs 5

What is measured:

    live       whole runs of the oracle with the code judge and without, in turns: added CPU
    evidence   the work to prepare one episode for a model, from its events to the prompt's bytes,
               as the CPU time of this thread: every episode of the bundled worlds, and a large one
    hybrid     a log judged in mode hybrid by an instant model over HTTP, 1,024 verdicts at once.
               The server is a separate process and is not counted. The oracle signs its answers,
               so that no two episodes are equal and nothing comes from the cache
    again      the same log judged again: by code, under other rewards, and from the cache
"""

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

import anyio
import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.http_step import model_server, raise_file_limit
from benchmarks.model_server import Script
from benchmarks.options import benchmark, count_option, runs_option
from benchmarks.rollout import RolloutBench
from benchmarks.worlds import tasks
from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Reply, Window
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.judge.code.proof import code_verdict_of
from rehearsal_room.judge.code.runners import run_at_once
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.evidence import Verification, gather
from rehearsal_room.judge.core.rewards import GRADED
from rehearsal_room.judge.llm.prompt import prompt_of
from rehearsal_room.judge.llm.rubric import read_rubric
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.judge.verdicts.factory import open_judge
from rehearsal_room.judge.verdicts.rejudge import (
    Rejudging,
    judge_again,
    reward_again,
    start_rejudging,
)
from rehearsal_room.judge.verdicts.summary import JudgingSummary

EVIDENCE_TOKENS = 12_000
TURNS = 5  # runs with the judge and without; their medians are one value: a run takes 0.5 s
LARGE_STEPS = 40
LARGE_TEXT = 20_000  # characters of each result; the text of a reply has 2,000
ROW = '{"id": 1042, "name": "Kettle “Brouwer”", "price_cents": 4250, "open": true}, '
_VERDICT = {
    "reasoning": "The task asked for one change. The rows show it, and nothing else differs.",
    "label": "completed",
    "confidence": 0.95,
    "leaned_on": ["F1", "D1", "A"],
}


T = TypeVar("T")


class Workload(msgspec.Struct, frozen=True):
    """How much is measured."""

    episodes: int = 1024  # of a run that is judged live
    logged: int = 4096  # episodes of the log that is judged again
    concurrency: int = 1024
    runs: int = 5


class Spent(NamedTuple):
    """The seconds that some work took."""

    cpu: float
    wall: float


class SignedPolicy:
    """Answers as `inner` does, and adds the episode's name to each reply."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """The inner policy's name."""
        return self._inner.name

    def agent(self, assignment: Assignment) -> Agent:
        """The inner policy's agent, with signed replies."""
        return _SigningAgent(self._inner.agent(assignment), assignment.episode)


class _SigningAgent:
    def __init__(self, inner: Agent, episode: str) -> None:
        self._inner = inner
        self._signature = f"\n({episode})"

    async def reply(self, window: Window) -> Reply:
        reply = await self._inner.reply(window)
        return msgspec.structs.replace(reply, text=reply.text + self._signature)


def live(bench: RolloutBench, load: Workload) -> list[Figure]:
    """The CPU that the code judge adds to a run."""
    policy = OraclePolicy(bench.dialect)
    spent: dict[bool, list[float]] = {False: [], True: []}
    for run in range(load.runs + 1):
        turns: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(TURNS):
            seed = run * TURNS + turn
            plans = list(plan_of(tasks(), episodes=load.episodes, group_size=1, seed=seed))
            for judged in (False, True) if turn % 2 else (True, False):
                gc.collect()
                cpu = bench.session_cpu(policy, plans, load.concurrency, judged=judged)
                turns[judged].append(cpu)
        if run:
            for judged, values in turns.items():
                spent[judged].append(median(values))
    pairs = list(zip(spent[False], spent[True], strict=True))
    shares = [100 * (judged / plain - 1) for plain, judged in pairs]
    verdicts = [(judged - plain) / load.episodes * 1e6 for plain, judged in pairs]
    return [
        figure("CPU that the code judge adds to a run", "%", shares, reach=35),
        figure("the same for each verdict", "µs", verdicts),
    ]


def evidence(bench: RolloutBench, trajectories: list[Trajectory], runs: int) -> list[Figure]:
    """The CPU of one episode's evidence. The first run only warms up caches."""
    judges = ScenarioJudges(bench.pool, [world.scenario for world in bench.worlds.values()])
    large = [extend(trajectories, ROW), extend(trajectories, "\u200b")]
    medians, worst, verified = [], [], []
    largest: tuple[list[float], list[float]] = ([], [])
    for run in range(runs + 1):
        gc.collect()
        cases = [_timed(_case, judges, one) for one in trajectories]
        times = [
            _timed(build_prompt, case, one)[1]
            for one, (case, _) in zip(trajectories, cases, strict=True)
        ]
        of_large = [_timed(build_prompt, _case(judges, one), one)[1] for one in large]
        if run:
            medians.append(median(times) * 1e3)
            worst.append(max(times) * 1e3)
            for found, seconds in zip(largest, of_large, strict=True):
                found.append(seconds * 1e3)
            verified.append(median(seconds for _, seconds in cases) * 1e3)
    return [
        figure("evidence of an episode, median", "ms", medians, reach=5),
        figure("evidence of an episode, worst", "ms", worst, reach=5),
        figure("evidence of a large episode", "ms", largest[0], reach=5),
        figure("the same, of hidden characters only", "ms", largest[1], reach=5),
        figure("verifier and code verdict, median", "ms", verified),
    ]


def build_prompt(case: Case, trajectory: Trajectory) -> None:
    """Do all the work between an episode's findings and the request's text."""
    found = Verification(case.evidence.findings)
    fresh = msgspec.structs.replace(case, evidence=gather(trajectory, found, case.evidence.info))
    code_verdict_of(fresh)
    prompt_of(fresh, _RUBRIC, mode="hybrid", max_tokens=EVIDENCE_TOKENS)


_RUBRIC = read_rubric()


def extend(trajectories: list[Trajectory], row: str) -> Trajectory:
    """The longest of these episodes, extended to LARGE_STEPS steps by reading steps whose results
    repeat `row`."""
    longest = max(trajectories, key=lambda one: len(one.steps))
    text = (row * (LARGE_TEXT // len(row) + 1))[:LARGE_TEXT]
    thought = ("I look at the next page of them. " * 80)[:2000]
    digest = longest.steps[0].results[0].digest
    reads = []
    for number in range(LARGE_STEPS - len(longest.steps)):
        call = AgentCall("list_orders", {"page": number}, f"more{number}-0")
        reads.append(
            StepTaken(Reply(thought, (call,)), Act((call,)), (ToolResult(text, digest=digest),))
        )
    return msgspec.structs.replace(longest, steps=(*reads, *longest.steps))


def over_a_log(bench: RolloutBench, made: Path, load: Workload) -> list[Figure]:
    """CPU and rate of judging a log again: by code, by an instant model, and from the cache."""
    found: dict[str, list[Spent]] = {}

    def note(name: str, spent: Spent, run: int) -> None:
        if run:  # run 0 warmed up statements and caches
            found.setdefault(name, []).append(spent)

    with model_server([Script(answer=msgspec.json.encode(_VERDICT).decode())]) as url:
        hybrid = JudgeSettings(
            mode="hybrid", models=("instant",), base_url=url, concurrency=load.concurrency
        )
        for run in range(load.runs + 1):
            with _copy(made) as folder:
                note("code", _work(folder, _judging(bench, folder, JudgeSettings())), run)
                note("rewards", _work(folder, lambda work: reward_again(work, GRADED)), run)
            with _copy(made) as folder:
                note("hybrid", _work(folder, _judging(bench, folder, hybrid)), run)
                note("cached", _work(folder, _judging(bench, folder, hybrid)), run)
    rates = {name: [load.logged / one.wall for one in spent] for name, spent in found.items()}
    cpu = {name: [one.cpu / load.logged for one in spent] for name, spent in found.items()}
    return [
        figure("CPU of a hybrid verdict over HTTP", "ms", (one * 1e3 for one in cpu["hybrid"])),
        figure("hybrid verdicts per second over HTTP", "", rates["hybrid"]),
        figure("episodes judged again per second, code", "", rates["code"]),
        figure("episodes rewarded again per second", "", rates["rewards"]),
        figure("episodes judged again per second, hybrid from the cache", "", rates["cached"]),
    ]


Work = Callable[[Rejudging], Awaitable[JudgingSummary]]


def _judging(bench: RolloutBench, folder: Path, settings: JudgeSettings) -> Work:
    async def work(log: Rejudging) -> JudgingSummary:
        opened = open_judge(
            settings,
            pool=bench.pool,
            scenarios=[world.scenario for world in bench.worlds.values()],
            folder=folder,
        )
        async with opened as judge:
            return await judge_again(
                log, judge, name=judge.name, rewards="awm", concurrency=settings.concurrency
            )

    return work


def _work(folder: Path, work: Work) -> Spent:
    """The time that some work on a log takes. Raises RuntimeError when a verdict is missing."""

    async def measured() -> tuple[Spent, JudgingSummary]:
        async with open_log(folder, resume=True) as log:
            with open_reader(folder) as reader:
                cpu, wall = time.process_time(), time.perf_counter()
                summary = await work(start_rejudging(reader, log))
                return Spent(time.process_time() - cpu, time.perf_counter() - wall), summary

    gc.collect()
    spent, summary = anyio.run(measured, backend_options={"use_uvloop": True})
    if summary.unjudged:
        first = summary.unjudged_episodes[0].why
        raise RuntimeError(f"{summary.unjudged} episodes were not judged; the first: {first}")
    return spent


def _timed(work: Callable[..., T], *arguments: object) -> tuple[T, float]:
    began = time.thread_time()
    result = work(*arguments)
    return result, time.thread_time() - began


def _case(judges: ScenarioJudges, trajectory: Trajectory) -> Case:
    """The case of an episode whose world is in this process, so that nothing has to be awaited."""
    case = run_at_once(judges.case(trajectory))
    assert isinstance(case, Case)
    return case


@contextmanager
def _copy(made: Path) -> Iterator[Path]:
    """Yield a copy of a run's folder, deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(shutil.copytree(made, Path(folder) / "run"))


def figures(load: Workload) -> list[Figure]:
    """All figures of the judges."""
    bench = RolloutBench()
    found = live(bench, load)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "run"
        plans = list(plan_of(tasks(), episodes=load.logged, group_size=1, seed=0))
        policy = SignedPolicy(OraclePolicy(bench.dialect))
        bench.session(made, bench.parts(policy), plans, load.concurrency)
        with open_reader(made) as reader:
            names = [row.episode for row in reader.episodes()][: len(tasks())]
            trajectories = [reader.trajectory(name) for name in names]
        found += evidence(bench, trajectories, load.runs)
        found += over_a_log(bench, made, load)
    bench.pool.close()
    return found


@benchmark(__doc__)
@count_option("--episodes", 1024, "Episodes of a run that is judged live.")
@count_option("--logged", 4096, "Episodes of the log that is judged again.")
@count_option("--concurrency", 1024, "Episodes live at once, and verdicts at once.")
@runs_option(5)
def main(episodes: int, logged: int, concurrency: int, runs: int) -> list[Figure]:
    """The command line."""
    raise_file_limit()
    os.environ.setdefault("OPENAI_API_KEY", "none")
    return figures(Workload(episodes, logged, concurrency, runs))


if __name__ == "__main__":
    main()
