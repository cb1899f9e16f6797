"""The tasks of a drill: some goals in a row, and tasks that need a long memory.

goals-1-a, goals-1-b, … goals-4-a, …   as many goals as the number says, each with up to two
                                       look-ups
memory-a, memory-b, …                  a number is looked up first, other goals come between,
                                       then it is used
"""

from random import Random
from string import ascii_lowercase

import msgspec

from scenarios.difficulty import difficulty_of
from scenarios.drills.goals import Goal, Rows, goal, set_subject_to
from scenarios.drills.world import Drill
from scenarios.format import Call, Task

DONE = "Done."
MOST_GOALS = 4
BETWEEN = 2  # goals between the look-up and the use of a memory task
LOOKS_AGAIN = 0.25  # of the oracles of memory tasks
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
    """The number of one subject for another, with work between. Most oracles remember what they
    saw; some look it up once more before they use it, as an agent must whose window has lost it."""
    rows = Rows(drill, rng)
    noun, field = drill.subject[0], drill.subject_field
    source, target = rows.subject(), rows.subject()
    while target.number == source.number:
        target = rows.subject()
    between = [goal(rows, kind, 0) for kind in _kinds(drill, rng, BETWEEN)]
    last = set_subject_to(rows, target, source.number)
    look = Call(f"get_{noun}", {noun: source.id})
    texts = [
        f"Look up the {field} of {noun} {source.id}",
        *(one.text for one in between),
        f"Give {noun} {target.id} the {field} of {noun} {source.id}",
    ]
    first = Goal("", "", (look,), ())
    use = msgspec.structs.replace(
        last, calls=(look, *last.calls) if rng.random() < LOOKS_AGAIN else last.calls
    )
    return _task(f"memory-{letter}", [first, *between, use], _joined(rng, texts))


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
