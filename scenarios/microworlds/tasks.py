"""The tasks of a drill: some goals in a row, and tasks that need a long memory.

    goals-1-a, goals-1-b, … goals-4-a, …   as many goals as the number says, each with up to two
                                           look-ups
    memory-a, memory-b, …                  a number is copied between two subjects that are told by
                                           name: "Give client vera the price of client otto."

Who finds the target of a copy first needs its id three calls later, when the source has been found
and looked at; a window of two turns has lost it by then. Whoever finds the target last needs
nothing that was seen more than two turns ago.
"""

from random import Random
from string import ascii_lowercase

import msgspec

from scenarios.difficulty import difficulty_of
from scenarios.format import Call, Task
from scenarios.microworlds.goals import Goal, Rows, goal, set_subject_to
from scenarios.microworlds.world import Drill

DONE = "Done."
MOST_GOALS = 4
TARGET_LAST = 0.25  # of the oracles of memory tasks
_JOINS = (". Then ", ". ", ". After that, ")


class Drawn(msgspec.Struct, frozen=True):
    """A task and the lines of its verifier."""

    task: Task
    checks: tuple[str, ...]


def tasks_of(drill: Drill, rng: Random, *, each: int) -> list[Drawn]:
    """So many tasks of each length, and so many of memory; their letters tell them apart."""
    letters = ascii_lowercase[:each]
    drawn = [
        _of_goals(drill, rng, number, letter)
        for number in range(1, MOST_GOALS + 1)
        for letter in letters
    ]
    return drawn + [_of_memory(drill, rng, letter) for letter in letters]


def _of_goals(drill: Drill, rng: Random, number: int, letter: str) -> Drawn:
    rows = Rows(drill, rng)
    kinds = _kinds(drill, rng, number)
    goals = [goal(rows, kind, rng.randint(0, 2)) for kind in kinds]
    return _task(f"goals-{number}-{letter}", goals, _joined(rng, [one.text for one in goals]))


def _of_memory(drill: Drill, rng: Random, letter: str) -> Drawn:
    """Most oracles find the target first, for they remember it."""
    rows = Rows(drill, rng)
    noun = drill.subject[0]
    target, source = rows.subject(), rows.subject()
    while target.number == source.number:
        source = rows.subject()
    find_target, find_source = (Call(f"find_{noun}", {noun: one.name}) for one in (target, source))
    look = Call(f"get_{noun}", {noun: source.id})
    use = set_subject_to(rows, target, source.number)
    looks = (find_target, find_source, look)
    if rng.random() < TARGET_LAST:
        looks = (find_source, look, find_target)
    copy = msgspec.structs.replace(
        use,
        text=f"Give {noun} {target.name} the {drill.subject_field} of {noun} {source.name}",
        calls=(*looks, *use.calls),
    )
    return _task(f"memory-{letter}", [copy], f"{copy.text}.")


def _kinds(drill: Drill, rng: Random, number: int) -> list[str]:
    acts = [kind for kind in drill.tools if kind not in ("find", "get_subject", "get_object")]
    return [rng.choice(acts) for _ in range(number)]


def _joined(rng: Random, texts: list[str]) -> str:
    """Sentences in a row.

    Example: "Close order 52. Then give client 37 the name vera."
    """
    whole = texts[0]
    for text in texts[1:]:
        join = rng.choice(_JOINS)
        whole += join + (text if join == ". " else text[0].lower() + text[1:])
    return whole + "."


def _task(name: str, goals: list[Goal], instruction: str) -> Drawn:
    calls = tuple(call for one in goals for call in one.calls)
    task = Task(
        id=name,
        instruction=instruction,
        difficulty=difficulty_of(len(calls) + len({one.table for one in goals} - {""})),
        kind="change",
        answer=DONE,
        oracle=calls,
    )
    return Drawn(task, tuple(line for one in goals for line in one.checks))
