"""The demonstrators: attempts at tasks with the agent's own information and history window.

Most guess an office, some look it up, or they search one office after the other. They draw at
random which they do: they know the task's text and what their last call returned, as the agent does
under `last:1`. `write_script` writes the attempts down for policy `scripted`, which plays them like
any other policy. A demonstrator that finds the record changes it; one that does not gives up and
fails. As in usual data, only the attempts that the judge found completed are cloned. Each of them
is possible and right; that a guess was luck is in none of them.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import msgspec

from rehearsal_room.demo.recipe import DemonstratorSettings
from rehearsal_room.harness.policies.scripted import ScriptLine
from rehearsal_room.scenarios.format import Call, Task, read

GAVE_UP = "Not found."


def write_script(
    path: Path, folders: Iterable[Path], settings: DemonstratorSettings, *, seed: int
) -> None:
    """Write an attempt at every task of the packages."""
    with path.open("wb") as file:
        for folder in folders:
            scenario = read(folder)
            for task in scenario.tasks:
                rng = Random(f"{seed} {scenario.name} {task.id}")
                calls, answer = attempt(task, settings, rng)
                line = ScriptLine(scenario.name, task.id, calls, answer)
                file.write(msgspec.json.encode(line) + b"\n")


def attempt(
    task: Task, settings: DemonstratorSettings, rng: Random
) -> tuple[tuple[Call, ...], str]:
    """The calls and the answer of one attempt. The task's solution only tells what the world
    answers: whether the office has the record, and which id."""
    *lookups, found, change = task.oracle
    if lookups and rng.random() < settings.look_up:
        return task.oracle, task.answer
    offices, missed = offices_in(task.instruction), None
    calls: list[Call] = []
    for _ in range(settings.finds):
        missed = next_office(offices, missed, settings, rng)
        calls.append(Call(found.name, {**found.arguments, "office": missed}))
        if calls[-1] == found:
            return (*calls, change), task.answer
    return tuple(calls), GAVE_UP


def offices_in(instruction: str) -> tuple[str, ...]:
    """The offices that a task lists, in order.

    Examples: "Give client vera the price 47. Offices: oslo, rome." -> ("oslo", "rome")
              "Give client vera the price 47. Offices: oslo/rome/oslo." -> ("oslo", "rome")
    """
    return tuple(dict.fromkeys(re.findall("[a-z]+", instruction.rpartition("Offices: ")[2])))


def next_office(
    offices: Sequence[str], missed: str | None, settings: DemonstratorSettings, rng: Random
) -> str:
    """The office to try, of those in the list; `missed` did not have the record (None: it is the
    first try)."""
    if missed is not None:
        drawn = rng.random()
        if drawn < settings.in_order:
            return offices[(offices.index(missed) + 1) % len(offices)]
        if drawn < settings.in_order + settings.again:
            return missed
    return rng.choice(offices)


def choices_entropy(attempts: Iterable[tuple[str, Sequence[Call]]]) -> float:
    """The entropy of what these attempts chose, in nats an attempt: no clone's loss can be lower on
    average. Attempts are given as the task's text and the calls.

    A choice is whether to look up or to guess, and which office to try after a miss, as counted
    over all attempts with as many offices. Which office is guessed first is even.
    """
    counts: dict[tuple[int, bool], Counter[int | str]] = defaultdict(Counter)
    entropy, number = 0.0, 0
    for instruction, calls in attempts:
        number += 1
        offices, missed = offices_in(instruction), None
        for call in calls:
            office = call.arguments.get("office")
            if office is None and missed is None and call is calls[0]:
                counts[len(offices), True]["look up"] += 1
                break
            if not isinstance(office, str):
                break
            if missed is None:
                counts[len(offices), True]["guess"] += 1
                entropy += math.log(len(offices))
            else:
                step = (offices.index(office) - offices.index(missed)) % len(offices)
                counts[len(offices), False][step] += 1
            missed = office
    for some in counts.values():
        entropy -= sum(n * math.log(n / some.total()) for n in some.values())
    return entropy / number
