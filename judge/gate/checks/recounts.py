"""What the gate recounts of a generated world: the purposes of its tasks, from their oracles."""

from collections.abc import Iterator, Mapping

from rehearsal_room.judge.playback.playback import Played
from rehearsal_room.scenarios.format import Task
from rehearsal_room.scenarios.generate.core.world_host import HostedOutcome
from rehearsal_room.scenarios.generate.output_folder import WorldRecord
from rehearsal_room.scenarios.generate.tasks.purposes import Purposes, purposes_of


def purposes_in(task: Task, oracle: Played) -> Purposes:
    """The requests of a task that do not depend on each other."""
    outcomes = [
        HostedOutcome(result.text, result.error is not None, bool(result.changes))
        for result in oracle.results
    ]
    return purposes_of(task.instruction, oracle.calls, outcomes)


def recount_faults(record: WorldRecord, tasks: Mapping[str, Purposes]) -> Iterator[tuple[str, str]]:
    """The id of each task whose purposes are not those that its world declares, with a sentence."""
    for declared in record.tasks:
        found = tasks.get(declared.task)
        if found is not None and found.count != declared.purposes:
            yield (
                declared.task,
                f"its oracle has {found.count} purposes, generated.json says {declared.purposes}",
            )
