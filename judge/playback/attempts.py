"""Wrong attempts at a task, which a verifier must distinguish from the oracle.

An attempt that ends in the oracle's state with the oracle's answer is *equivalent*: its mistake
cannot be seen.
"""

from collections.abc import Mapping, Sequence
from random import Random

from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.harness.policies.mutants import Mutant, mutants_of
from rehearsal_room.judge.playback.playback import Played
from rehearsal_room.scenarios.format import Call, Task

MAX_MUTANTS = 400  # a task; beyond that a seeded sample
_UNWANTED = 3  # writes of other tasks that are tried after each oracle

Writes = Sequence[tuple[str, Call]]  # calls that change rows, each with the id of its task


def writes_of(oracles: Mapping[str, Played]) -> list[tuple[str, Call]]:
    """Every call of an oracle that changed the world; the oracles are by task id."""
    return [
        (task_id, call)
        for task_id, played in oracles.items()
        for call, result in zip(played.calls, played.results, strict=True)
        if result.changes
    ]


def unwanted_on(task: Task, played: Played, writes: Writes, rng: Random) -> list[Call]:
    """A few writes of other tasks that the world accepts in the state where the play ended."""
    others = [call for task_id, call in writes if task_id != task.id]
    found: list[Call] = []
    for call in rng.sample(others, len(others)):
        if len(found) == _UNWANTED:
            break
        if played.lease.fork().call(call.name, call.arguments).changes:
            found.append(call)
    return found


def mutants_on(
    world: BlockingWorld,
    task: Task,
    oracle: Played,
    writes: Writes,
    *,
    seed: int,
    most: int = MAX_MUTANTS,
) -> tuple[list[Mutant], int]:
    """At most `most` mutants of the task, and the number of those left out. Equal seeds give equal
    mutants."""
    rng = Random(f"{seed} {task.id}")
    mutants = mutants_of(
        task,
        [bool(result.changes) for result in oracle.results],
        world.tools,
        unwanted=unwanted_on(task, oracle, writes, rng),
    )
    surplus = len(mutants) - most
    if surplus <= 0:
        return mutants, 0
    chosen = sorted(rng.sample(range(len(mutants)), most))
    return [mutants[index] for index in chosen], surplus


def is_equivalent(played: Played, oracle: Played) -> bool:
    """Whether an attempt has the oracle's final state and answer."""
    return played.state.digest == oracle.state.digest and played.answer == oracle.answer


def why_equivalent(played: Played, oracle: Played) -> str:
    """Why an attempt has the oracle's end, in words: mostly because one of its calls was
    refused."""
    same = "it ends in the oracle's state with the oracle's answer"
    known_refusals = [result.text for result in oracle.results if result.error]
    for result in played.results:
        if result.error and result.text not in known_refusals:
            return f"{same}: {result.text}"
    return same
