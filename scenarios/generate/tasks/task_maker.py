"""Making the tasks of a world from the situations that were staged in it."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from rehearsal_room.scenarios.format import Task
from rehearsal_room.scenarios.generate.content.drawn_world import DrawnWorld
from rehearsal_room.scenarios.generate.core.errors import ModuleError
from rehearsal_room.scenarios.generate.core.world_host import SeededWorld
from rehearsal_room.scenarios.generate.tasks.derived_verifiers import VerifierDemands
from rehearsal_room.scenarios.generate.tasks.dressed_drafts import (
    DressedDraft,
    PlayedCalls,
    dress_draft,
    play_draft,
)
from rehearsal_room.scenarios.generate.tasks.features import TaskFeatures, measure_task
from rehearsal_room.scenarios.generate.tasks.world_rules import WorldRules


class MadeTask(msgspec.Struct, frozen=True):
    """A task with its verifier's demands and its measures."""

    task: Task
    demands: VerifierDemands
    features: TaskFeatures
    tools: frozenset[str]  # canonical names: those that the world must have for it


class TaskMaker:
    """Makes the tasks of one world.

    `dropped` counts the unusable drafts by "situation: why".
    """

    def __init__(self, world: DrawnWorld, seeded: SeededWorld, rules: WorldRules) -> None:
        self._world = world
        self._seeded = seeded
        self._rules = rules
        self.dropped: Counter[str] = Counter()

    def make_tasks(self) -> list[MadeTask]:
        """As many tasks as the knob requires, or fewer where the drafts give no more.

        Raises ModuleError for a draft with a text that cannot be dressed.
        """
        made: list[MadeTask] = []
        for staged in self._world.staged:
            if len(made) == self._world.plan.knobs.tasks:
                break
            try:
                dressed = dress_draft(self._world, staged, self._world.maker.rng)
            except KeyError as exc:
                raise ModuleError(f"situation {staged.situation.id}: {exc} is unknown") from exc
            played = play_draft(self._seeded, dressed)
            fault = played if isinstance(played, str) else self._rules.broken_by(played.changes)
            if isinstance(played, str) or fault:
                self.dropped[f"{dressed.situation}: {fault}"] += 1
            else:
                made.append(_made(dressed, played, len(made) + 1))
        return made


def _made(dressed: DressedDraft, played: PlayedCalls, number: int) -> MadeTask:
    name = f"{dressed.situation.rpartition('.')[2]}_{number}"
    features = measure_task(name.replace("_", "-"), dressed, played)
    task = Task(
        id=features.task,
        instruction=dressed.ask,
        difficulty=features.difficulty,
        kind=features.kind,
        answer=dressed.answer,
        oracle=played.calls,
        trap=dressed.trap or None,
        user=dressed.user,
        utterances=dressed.utterances,
    )
    return MadeTask(task, _demands(name, dressed, played), features, dressed.tools)


def _demands(name: str, dressed: DressedDraft, played: PlayedCalls) -> VerifierDemands:
    about = dressed.situation.rpartition(".")[2].replace("_", " ")
    return VerifierDemands(
        name=name,
        about=f"{about[:1].upper()}{about[1:]}.",
        changes=played.changes,
        facts=tuple(dict.fromkeys(dressed.facts)) if dressed.draft.kind == "question" else (),
        reasons=(dressed.reasons,) if dressed.reasons else (),
        free={column: (phrases,) for column, phrases in dressed.free.items()},
        spare=tuple(dict.fromkeys(dressed.spare)),
    )


def surplus_tools(world: DrawnWorld, made: Sequence[MadeTask], num_tools: int) -> frozenset[str]:
    """The tools (canonical names) to leave out so that `num_tools` are left: some of those
    that no task needs, at random."""
    needed = frozenset[str]().union(*(one.tools for one in made))
    tools = [name for one in world.modules for name in one.tools]
    idle = [name for name in tools if name not in needed]
    world.maker.rng.shuffle(idle)
    return frozenset(idle[: max(0, len(tools) - num_tools)])
