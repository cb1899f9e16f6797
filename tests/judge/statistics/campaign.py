"""python -m tests.judge.statistics.campaign: false verdicts, power, speed (1 minute).

The tries are real: an agent of known, differing success rates plays 40
generated tasks 300 times through the harness and is judged; comparisons draw from these tries.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import anyio

from rehearsal_room.harness.agents.agent_env import AgentEnv, TaskView
from rehearsal_room.harness.library import rehearse
from rehearsal_room.judge.promotion.criteria import RunFacts
from rehearsal_room.judge.promotion.criteria_file import PromotionCriteria
from rehearsal_room.judge.promotion.decision import decide
from rehearsal_room.judge.promotion.looks import Looked, look_until
from rehearsal_room.judge.statistics.comparison import compare
from rehearsal_room.judge.statistics.intervals import share_interval
from rehearsal_room.judge.statistics.outcomes import Outcome, read_outcomes
from rehearsal_room.judge.statistics.planning import noise_of, plan
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.scenarios.format import read
from tests.judge.promotion.drawn import criteria_of, facts_of

_TRIES = 300
_COMPARISONS = 2_000
_MOST_FALSE = 123  # the 99 % bound of a true 5 % in 2,000


def main() -> int:
    """Run the campaign; returns the exit status."""
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        outcomes = anyio.run(_play, Path(name))
    wrong += _false_verdicts(outcomes)
    wrong += _power(outcomes)
    wrong += _gates(outcomes)
    _speed()
    return int(wrong > 0)


async def _play(folder: Path) -> list[Outcome]:
    """The outcomes of an agent that plays each task's oracle in a share of its tries."""
    worlds = folder / "worlds"
    command = [
        sys.executable,
        "-m",
        "rehearsal_room",
        "worlds",
        "generate",
        "--count",
        "4",
        "--seed",
        "21",
    ]
    await anyio.run_process([*command, "-o", str(worlds)])
    packages = sorted(path.parent for path in worlds.glob("*/tasks.toml"))
    scenarios = {str(path): read(path) for path in packages}
    oracles = {task.instruction: task for scenario in scenarios.values() for task in scenario.tasks}

    async def agent(task: TaskView, env: AgentEnv) -> str:
        solution = oracles[task.instruction]
        rate = Random(task.instruction).uniform(0.2, 0.8)
        if Random(task.seed).random() >= rate:
            return ""
        for call in solution.oracle:
            await env.call(call.name, call.arguments)
        return solution.answer

    await rehearse(
        *(agent, list(scenarios), folder / "run"),
        episodes=_TRIES * len(oracles),
        group_size=_TRIES,
        judge=ScenarioJudges,
    )
    return read_outcomes(folder / "run")


def _drawn(
    tries: dict[tuple[str, str], list[Outcome]], random: Random, count: int, gain: float = 0.0
) -> tuple[list[Outcome], list[Outcome]]:
    """Two runs of so many tries at each task, drawn without replacement; in the second each failed
    try becomes a completed one so often that the share rises by `gain`."""
    first: list[Outcome] = []
    second: list[Outcome] = []
    for (scenario, task), found in tries.items():
        chosen = random.sample(found, 2 * count)
        failed = sum(one.score == 0 for one in found) / len(found)
        for number, one in enumerate(chosen):
            score = one.score or 0.0
            if number >= count and score == 0 and random.random() < gain / max(failed, gain):
                score = 1.0
            run = first if number < count else second
            run.append(Outcome(scenario, task, number, score))
    return first, second


def _by_key(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], list[Outcome]]:
    found: dict[tuple[str, str], list[Outcome]] = {}
    for one in outcomes:
        found.setdefault(one.key, []).append(one)
    return found


def _false_verdicts(outcomes: Sequence[Outcome]) -> int:
    tries, random, false = _by_key(outcomes), Random(1), 0
    for _ in range(_COMPARISONS):
        found = compare(*_drawn(tries, random, 2))
        false += found is not None and found.verdict != "no difference is shown"
    _say(f"false differences in A/A comparisons: {false} of {_COMPARISONS}, at most {_MOST_FALSE}")
    return int(false > _MOST_FALSE)


def _power(outcomes: Sequence[Outcome]) -> int:
    """Power at the difference for which the planner asks for these 40 tasks."""
    tries, random, found = _by_key(outcomes), Random(2), 0
    noise = noise_of(outcomes)
    gain = next(
        d / 1000 for d in range(10, 500) if plan(d / 1000, tries=4, noise=noise).tasks <= 40
    )
    for _ in range(_COMPARISONS):
        result = compare(*_drawn(tries, random, 4, gain))
        found += result is not None and result.p < 0.05
    planned = plan(gain, tries=4, noise=noise).power
    reached = found / _COMPARISONS
    _say(f"power at {100 * gain:.1f} points: {reached:.3f}, planned {planned:.3f}")
    return int(abs(reached - planned) > 0.03)


def _gates(outcomes: Sequence[Outcome]) -> int:
    """Verdicts of gates: of equal agents at one look and at ten, and of a better one at ten."""
    tries, random, wrong = _by_key(outcomes), Random(4), 0
    gate = criteria_of("regression.vs(base) >= -0.02", "completed.lower >= 0.35")
    false = 0
    for _ in range(_COMPARISONS):
        base, run = _drawn(tries, random, 4)
        false += decide(gate, facts_of(run), facts_of(base))[-1].verdict == "fail"
    _say(f"false failures at one look: {false} of {_COMPARISONS}, at most {_MOST_FALSE}")
    wrong += false > _MOST_FALSE
    noise = noise_of(outcomes)
    gain = next(
        d / 1000 for d in range(10, 500) if plan(d / 1000, tries=4, noise=noise).tasks <= 40
    )
    better = criteria_of("regression.vs(base) >= 0.0")
    for name, factor, most in (("none", 0.0, 1.0), ("planned", 1.0, 0.85), ("twice", 2.0, 0.6)):
        verdicts, played = Counter[str](), 0.0
        for _ in range(_COMPARISONS):
            looked = _looked(better, *_drawn(tries, random, 4, factor * gain))
            verdicts[looked.results[-1].verdict] += 1
            played += looked.looks[-1].episodes / (4 * len(tries)) / _COMPARISONS
        shares = {verdict: count / _COMPARISONS for verdict, count in verdicts.items()}
        _say(f"ten looks, difference {name}: {played:.3f} of the episodes, verdicts {shares}")
        wrong += played > most
        wrong += factor == 0 and verdicts["pass"] + verdicts["fail"] > _MOST_FALSE
    return wrong


def _looked(gate: PromotionCriteria, base: Sequence[Outcome], run: Sequence[Outcome]) -> Looked:
    """Ten looks at two runs that grow task by task, round by round."""
    runs = [sorted(one, key=lambda outcome: outcome.seed % 4) for one in (run, base)]
    facts = [facts_of(one) for one in runs]
    played = [len(run) // 10]

    def read() -> tuple[RunFacts, RunFacts]:
        return facts[0][: played[-1]], facts[1][: played[-1]]

    return look_until(gate, len(run), read, played.append)


def _speed() -> None:
    random = Random(3)
    runs = [
        [
            Outcome("w", f"t{number // 20}", number % 20, float(random.random() < 0.6))
            for number in range(50_000)
        ]
        for _ in range(2)
    ]
    began = time.perf_counter()
    compare(*runs)
    clusters: dict[str, list[float]] = {}
    for one in (*runs[0], *runs[1]):
        clusters.setdefault(one.task, []).append(one.score or 0.0)
    share_interval(clusters)
    _say(f"100,000 episodes compared and estimated in {time.perf_counter() - began:.2f} s")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
