"""Proves the dialogues of many generated worlds: oracles, agents that never ask, disclosures.

    python -m tests.support.dialogue_campaign 1000

An agent that never asks makes the oracle's calls, and where an argument has a value that only the
user says it guesses: a value that the world's rows have for such an argument, a day of the next
thirty, or a number within a fifth of the right one. It tries each task once.
"""

import re
import sys
import tempfile
from collections import Counter
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

from rehearsal_room.authoring.world_host import host_in_process
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import InProcessRunner
from rehearsal_room.judge.core.verifier import Verifier
from rehearsal_room.judge.gate.checks.dialogues import talk_faults
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.judge.playback.tool_fuzzing import plausible
from rehearsal_room.scenarios.core.automaton import reachable
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.format import Call, Scenario, Task, read
from rehearsal_room.scenarios.generate.compose import generate
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.world_plans import plan_worlds
from tests.support.generated_worlds import folder_of

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def without_asking(
    task: Task, known: dict[str, list[Any]], clock: str, rng: Random
) -> tuple[Call, ...]:
    """The oracle's calls, with a guess for each argument that neither the instruction names nor an
    id is."""
    return tuple(
        Call(
            call.name,
            {
                name: value
                if _is_known(name, value, task.instruction)
                else _guess(name, value, known, clock, rng)
                for name, value in call.arguments.items()
            },
        )
        for call in task.oracle
    )


def _is_known(name: str, value: Any, instruction: str) -> bool:
    if name.endswith("_id") or name in ("query", "status", "employee_id") or value is None:
        return True
    return isinstance(value, bool) or str(value).casefold() in instruction.casefold()


def _guess(name: str, value: Any, known: dict[str, list[Any]], clock: str, rng: Random) -> Any:
    if isinstance(value, int):
        return round(value * rng.uniform(0.8, 1.2))
    text = str(value)
    if _DAY.match(text):
        day = date.fromisoformat(clock[:10]) + timedelta(days=rng.randrange(1, 31))
        return f"{day}{text[10:]}"
    offered = [one for one in known.get(name, []) if isinstance(one, str)]
    return rng.choice(offered) if offered else f"{text[:-1]}0"


def check_world(scenario: Scenario, counts: Counter[str]) -> None:
    """Count what the dialogues of one world do."""
    rng = Random(scenario.name)
    with closing(HostedScenario(scenario)) as world:
        judge = CodeJudge(scenario, InProcessRunner(world, Verifier(scenario)))
        known = plausible(world)
        for task in scenario.tasks:
            if not isinstance(task.user, UserAutomaton):
                continue
            counts["dialogues"] += 1
            counts["states"] += len({after for _, _, _, after in reachable(task.user)})
            counts["faults"] += len(list(talk_faults(task, task.user)))
            played = play(world, task, task.oracle, task.answer)
            counts["oracle"] += judge.verdict_at_once(played.trajectory).label is Label.COMPLETED
            if task.kind != "change":
                continue
            counts["changes"] += 1
            guessed = play(
                world, task, without_asking(task, known, scenario.clock, rng), task.answer, ()
            )
            label = judge.verdict_at_once(guessed.trajectory).label
            counts["unasked"] += label is Label.COMPLETED


def main(num_worlds: int) -> int:
    """Generate worlds with two dialogues each, check them, and print the counts."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for plan in plan_worlds(num_worlds, 5, Knobs(tasks=2, dialogue=1.0)):
            made = generate(plan, host_in_process)
            check_world(read(folder_of(made, Path(folder))), counts)
            counts["worlds"] += 1
    sys.stdout.write(
        f"{counts['worlds']:,} worlds, {counts['dialogues']:,} dialogues, {counts['states']:,} "
        f"states of automata, {counts['faults']} faults\n"
        f"oracle completes {counts['oracle']:,} of {counts['dialogues']:,}\n"
        f"an agent that never asks: {counts['unasked']:,} of {counts['changes']:,} changes\n"
    )
    sound = counts["oracle"] == counts["dialogues"] and not counts["faults"]
    return 0 if sound and counts["unasked"] <= 0.02 * counts["changes"] else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000))
