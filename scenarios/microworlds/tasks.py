"""The tasks of a micro-world: several goals in a row, and tasks that need a long memory.

    goals-1-a, goals-1-b, … goals-4-a, …   as many goals as the number, each with up to two
                                           look-ups
    memory-a, memory-b, …                  a number is copied between two subjects that are given
                                           by name: "Give client vera the price of client otto."

An agent that finds the target of a copy first needs the target's id three calls later, after it
has found and read the source; a window of two turns no longer shows the id by then. An agent that
finds the target last needs nothing that it saw more than two turns ago.
"""

from random import Random
from string import ascii_lowercase

import msgspec

from rehearsal_room.scenarios.format import Call, Task, difficulty_of
from rehearsal_room.scenarios.microworlds.goals import Goal, Rows, draw_goal, set_subject_to
from rehearsal_room.scenarios.microworlds.world import MicroWorld

DONE = "Done."
MOST_GOALS = 4
TARGET_LAST = 0.25  # share of the memory tasks whose oracle finds the target last
_JOINS = (". Then ", ". ", ". After that, ")


class TaskWithChecks(msgspec.Struct, frozen=True):
    """A task, and the lines of its verifier."""

    task: Task
    checks: tuple[str, ...]


def draw_tasks(world: MicroWorld, rng: Random, *, each: int) -> list[TaskWithChecks]:
    """`each` tasks of every length (1 to MOST_GOALS) and `each` memory tasks.

    Tasks of one kind differ in the letter at the end of their ids.
    """
    letters = ascii_lowercase[:each]
    tasks = [
        _goals_task(world, rng, number, letter)
        for number in range(1, MOST_GOALS + 1)
        for letter in letters
    ]
    return tasks + [_memory_task(world, rng, letter) for letter in letters]


def _goals_task(world: MicroWorld, rng: Random, number: int, letter: str) -> TaskWithChecks:
    rows = Rows(world, rng)
    kinds = _kinds(world, rng, number)
    goals = [draw_goal(rows, kind, rng.randint(0, 2)) for kind in kinds]
    return _task(
        f"goals-{number}-{letter}", goals, _join_sentences(rng, [one.text for one in goals])
    )


def _memory_task(world: MicroWorld, rng: Random, letter: str) -> TaskWithChecks:
    """Most oracles find the target first: an oracle remembers everything that it has seen."""
    rows = Rows(world, rng)
    noun = world.subject[0]
    target, source = rows.subject(), rows.subject()
    while target.number == source.number:
        source = rows.subject()
    find_target, find_source = (Call(f"find_{noun}", {noun: one.name}) for one in (target, source))
    read_source = Call(f"get_{noun}", {noun: source.id})
    use = set_subject_to(rows, target, source.number)
    lookups = (find_target, find_source, read_source)
    if rng.random() < TARGET_LAST:
        lookups = (find_source, read_source, find_target)
    copy = msgspec.structs.replace(
        use,
        text=f"Give {noun} {target.name} the {world.subject_field} of {noun} {source.name}",
        calls=(*lookups, *use.calls),
    )
    return _task(f"memory-{letter}", [copy], f"{copy.text}.")


def _kinds(world: MicroWorld, rng: Random, number: int) -> list[str]:
    changing = [kind for kind in world.tools if kind not in ("find", "get_subject", "get_object")]
    return [rng.choice(changing) for _ in range(number)]


def _join_sentences(rng: Random, texts: list[str]) -> str:
    """Join texts to sentences.

    Example: "Close order 52. Then give client 37 the name vera."
    """
    whole = texts[0]
    for text in texts[1:]:
        join = rng.choice(_JOINS)
        whole += join + (text if join == ". " else text[0].lower() + text[1:])
    return whole + "."


def _task(name: str, goals: list[Goal], instruction: str) -> TaskWithChecks:
    calls = tuple(call for one in goals for call in one.calls)
    task = Task(
        id=name,
        instruction=instruction,
        difficulty=difficulty_of(len(calls) + len({one.table for one in goals} - {""})),
        kind="change",
        answer=DONE,
        oracle=calls,
    )
    return TaskWithChecks(task, tuple(line for one in goals for line in one.checks))
