"""What judging costs: beside a run, of one episode, and over a log.

python -m benchmarks.judging --episodes 1024 --logged 4096 --runs 5

live       whole runs of the oracle with the code judge and without, in turns: added CPU
evidence   one episode made ready for a model, from its facts to the question's bytes, as the
           CPU time of this thread: for every episode of the bundled worlds, and for a large one
asked      a log judged in mode hybrid by an instant model over HTTP, 1,024 verdicts at once.
           The server is a process of its own and is not counted. The oracle signs its answers,
           so that no two episodes are equal and nothing comes from the cache
again      the same log judged again: by code, under other rewards, and from the cache
"""

import argparse
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

from benchmarks.figures import Figure, figure, quiet, tell
from benchmarks.http_step import allow_many_files, model_server
from benchmarks.model_server import Part
from benchmarks.rollout import Theatre
from benchmarks.worlds import tasks
from envpool.core.types import ToolResult
from harness.core.events import StepTaken
from harness.core.messages import Act, AgentCall, Reply, Window
from harness.core.trajectory import Trajectory
from harness.log.reader import open_reader
from harness.log.writer import open_log
from harness.policies.base import Agent, Assignment, Policy
from harness.policies.oracle import OraclePolicy
from harness.rollout.plan import plan_of
from harness.settings.judge import JudgeSettings
from judge.code.proof import code_verdict_of
from judge.code.runners import run_at_once
from judge.core.case import Case
from judge.core.evidence import Verification, gather
from judge.core.rewards import GRADED
from judge.llm.prompt import prompt_of
from judge.llm.rubric import read_rubric
from judge.verdicts.code_judges import ScenarioJudges
from judge.verdicts.factory import open_judge
from judge.verdicts.rejudge import Rejudging, judge_again, reward_again, start_rejudging
from judge.verdicts.summary import Summary

EVIDENCE_TOKENS = 12_000
TURNS = 5  # with the judge and without, whose medians make one figure: a run takes half a second
LARGE_STEPS = 40
LARGE_TEXT = 20_000  # characters of each result; 2,000 of each saying
ROW = '{"id": 1042, "name": "Kettle “Brouwer”", "price_cents": 4250, "open": true}, '
_VERDICT = {
    "reasoning": "The task asked for one change. The rows show it, and nothing else differs.",
    "label": "completed",
    "confidence": 0.95,
    "leaned_on": ["F1", "D1", "A"],
}


T = TypeVar("T")


class Shape(msgspec.Struct, frozen=True):
    """How much is measured."""

    episodes: int = 1024  # of a run that is judged live
    logged: int = 4096  # of the log that is judged again
    concurrency: int = 1024
    runs: int = 5


class Spent(NamedTuple):
    """What something took, in seconds."""

    cpu: float
    wall: float


class SignedPolicy:
    """Answers as `inner` does, and signs each reply with the episode's name."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """The inner policy's."""
        return self._inner.name

    def agent(self, assignment: Assignment) -> Agent:
        """The inner policy's agent, who signs."""
        return _SigningAgent(self._inner.agent(assignment), assignment.episode)


class _SigningAgent:
    def __init__(self, inner: Agent, episode: str) -> None:
        self._inner = inner
        self._signature = f"\n({episode})"

    async def reply(self, window: Window) -> Reply:
        reply = await self._inner.reply(window)
        return msgspec.structs.replace(reply, text=reply.text + self._signature)


def live(theatre: Theatre, shape: Shape) -> list[Figure]:
    """What the code judge adds to a run."""
    policy = OraclePolicy(theatre.dialect)
    spent: dict[bool, list[float]] = {False: [], True: []}
    for run in range(shape.runs + 1):
        turns: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(TURNS):
            seed = run * TURNS + turn
            plans = list(plan_of(tasks(), episodes=shape.episodes, group_size=1, seed=seed))
            for judged in (False, True) if turn % 2 else (True, False):
                gc.collect()
                cpu = theatre.session_cpu(policy, plans, shape.concurrency, judged=judged)
                turns[judged].append(cpu)
        if run:
            for judged, values in turns.items():
                spent[judged].append(median(values))
    pairs = list(zip(spent[False], spent[True], strict=True))
    shares = [100 * (judged / plain - 1) for plain, judged in pairs]
    verdicts = [(judged - plain) / shape.episodes * 1e6 for plain, judged in pairs]
    return [
        figure("CPU that the code judge adds to a run", "%", shares, reach=35),
        figure("the same a verdict", "µs", verdicts),
    ]


def evidence(theatre: Theatre, trajectories: list[Trajectory], runs: int) -> list[Figure]:
    """What one episode's evidence takes; the first pass prepared what is prepared once."""
    court = ScenarioJudges(theatre.pool, [world.scenario for world in theatre.worlds.values()])
    large = [grown(trajectories, ROW), grown(trajectories, "\u200b")]
    medians, worst, verified = [], [], []
    largest: tuple[list[float], list[float]] = ([], [])
    for run in range(runs + 1):
        gc.collect()
        cases = [_timed(_case, court, one) for one in trajectories]
        times = [
            _timed(question, case, one)[1]
            for one, (case, _) in zip(trajectories, cases, strict=True)
        ]
        grand = [_timed(question, _case(court, one), one)[1] for one in large]
        if run:
            medians.append(median(times) * 1e3)
            worst.append(max(times) * 1e3)
            for found, seconds in zip(largest, grand, strict=True):
                found.append(seconds * 1e3)
            verified.append(median(seconds for _, seconds in cases) * 1e3)
    return [
        figure("evidence of an episode, median", "ms", medians, reach=5),
        figure("evidence of an episode, worst", "ms", worst, reach=5),
        figure("evidence of a large episode", "ms", largest[0], reach=5),
        figure("the same, of hidden characters alone", "ms", largest[1], reach=5),
        figure("verifier and verdict of the code, median", "ms", verified),
    ]


def question(case: Case, trajectory: Trajectory) -> None:
    """All that happens between an episode's findings and a request's text."""
    found = Verification(case.evidence.findings)
    fresh = msgspec.structs.replace(case, evidence=gather(trajectory, found, case.evidence.info))
    code_verdict_of(fresh)
    prompt_of(fresh, _RUBRIC, mode="hybrid", max_tokens=EVIDENCE_TOKENS)


_RUBRIC = read_rubric()


def grown(trajectories: list[Trajectory], row: str) -> Trajectory:
    """The longest of these episodes with so many reading steps more that it is large; what they
    read is `row` over and over."""
    longest = max(trajectories, key=lambda one: len(one.steps))
    text = (row * (LARGE_TEXT // len(row) + 1))[:LARGE_TEXT]
    said = ("I look at the next page of them. " * 80)[:2000]
    digest = longest.steps[0].results[0].digest
    reads = []
    for number in range(LARGE_STEPS - len(longest.steps)):
        call = AgentCall("list_orders", {"page": number}, f"more{number}-0")
        reads.append(
            StepTaken(Reply(said, (call,)), Act((call,)), (ToolResult(text, digest=digest),))
        )
    return msgspec.structs.replace(longest, steps=(*reads, *longest.steps))


def over_a_log(theatre: Theatre, made: Path, shape: Shape) -> list[Figure]:
    """A log judged again, by code and by an instant model; then what the log holds is used."""
    found: dict[str, list[Spent]] = {}

    def note(name: str, spent: Spent, run: int) -> None:
        if run:  # the first pass prepared what is prepared once
            found.setdefault(name, []).append(spent)

    with model_server([Part(answer=msgspec.json.encode(_VERDICT).decode())]) as url:
        hybrid = JudgeSettings(
            mode="hybrid", models=("instant",), base_url=url, concurrency=shape.concurrency
        )
        for run in range(shape.runs + 1):
            with _copy(made) as folder:
                note("code", _work(folder, _judging(theatre, folder, JudgeSettings())), run)
                note("rewards", _work(folder, lambda work: reward_again(work, GRADED)), run)
            with _copy(made) as folder:
                note("asked", _work(folder, _judging(theatre, folder, hybrid)), run)
                note("cached", _work(folder, _judging(theatre, folder, hybrid)), run)
    rates = {name: [shape.logged / one.wall for one in spent] for name, spent in found.items()}
    cpu = {name: [one.cpu / shape.logged for one in spent] for name, spent in found.items()}
    return [
        figure("CPU of a hybrid verdict over HTTP", "ms", (one * 1e3 for one in cpu["asked"])),
        figure("hybrid verdicts a second over HTTP", "", rates["asked"]),
        figure("episodes judged again a second, code", "", rates["code"]),
        figure("episodes rewarded again a second", "", rates["rewards"]),
        figure("episodes judged again a second, hybrid from the cache", "", rates["cached"]),
    ]


Work = Callable[[Rejudging], Awaitable[Summary]]


def _judging(theatre: Theatre, folder: Path, settings: JudgeSettings) -> Work:
    async def work(log: Rejudging) -> Summary:
        opened = open_judge(
            settings,
            pool=theatre.pool,
            scenarios=[world.scenario for world in theatre.worlds.values()],
            folder=folder,
        )
        async with opened as judge:
            return await judge_again(
                log, judge, name=judge.name, rewards="awm", concurrency=settings.concurrency
            )

    return work


def _work(folder: Path, work: Work) -> Spent:
    """What some work on a log takes. A verdict that is missing is a broken benchmark."""

    async def worked() -> tuple[Spent, Summary]:
        async with open_log(folder, resume=True) as log:
            with open_reader(folder) as reader:
                cpu, wall = time.process_time(), time.perf_counter()
                summary = await work(start_rejudging(reader, log))
                return Spent(time.process_time() - cpu, time.perf_counter() - wall), summary

    gc.collect()
    spent, summary = anyio.run(worked, backend_options={"use_uvloop": True})
    if summary.unjudged:
        raise RuntimeError(f"{summary.unjudged} unjudged: {summary.unjudged_episodes[0].why}")
    return spent


def _timed(work: Callable[..., T], *arguments: object) -> tuple[T, float]:
    began = time.thread_time()
    result = work(*arguments)
    return result, time.thread_time() - began


def _case(judge: ScenarioJudges, trajectory: Trajectory) -> Case:
    """The case of an episode whose world is in this process."""
    case = run_at_once(judge.case(trajectory))
    assert isinstance(case, Case)
    return case


@contextmanager
def _copy(made: Path) -> Iterator[Path]:
    """A run's folder that may be written to."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(shutil.copytree(made, Path(folder) / "run"))


def figures(shape: Shape) -> list[Figure]:
    """All figures of the judge."""
    theatre = Theatre()
    found = live(theatre, shape)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "run"
        plans = list(plan_of(tasks(), episodes=shape.logged, group_size=1, seed=0))
        policy = SignedPolicy(OraclePolicy(theatre.dialect))
        theatre.session(made, theatre.parts(policy), plans, shape.concurrency)
        with open_reader(made) as reader:
            names = [row.episode for row in reader.episodes()][: len(tasks())]
            trajectories = [reader.trajectory(name) for name in names]
        found += evidence(theatre, trajectories, shape.runs)
        found += over_a_log(theatre, made, shape)
    theatre.pool.close()
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--logged", type=int, default=4096)
    parser.add_argument("--concurrency", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    quiet()
    allow_many_files()
    os.environ.setdefault("OPENAI_API_KEY", "none")
    shape = Shape(options.episodes, options.logged, options.concurrency, options.runs)
    tell(figures(shape), options.json)


if __name__ == "__main__":
    main()
