"""How sound the verifiers of worlds are: what they pay for no work, and which right answers they
accept, as Youden's J with its interval (docs/soundness.md)."""

from collections.abc import Iterator, Sequence

from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.judge.gate.core.report import TaskSoundness
from rehearsal_room.judge.statistics.youden import MANY_WORLDS, Youden, youden


def soundness_of(tasks: Sequence[TaskSoundness]) -> Youden | None:
    """J over all tasks; None: no right answer, or no adversary, was played."""
    worlds = {task.world for task in tasks}
    by_world = len(worlds) >= MANY_WORLDS
    right: dict[str, list[float]] = {}
    wrong: dict[str, list[float]] = {}
    for task in tasks:
        unit = task.world if by_world else f"{task.world}/{task.task}"
        right.setdefault(unit, []).extend(_tries(task.completed, task.right))
        wrong.setdefault(unit, []).extend(_tries(task.paid, task.adversaries))
    return youden(right, wrong, unit="world" if by_world else "task")


def _tries(accepted: int, total: int) -> list[float]:
    return [1.0] * accepted + [0.0] * (total - accepted)


def soundness_lines(tasks: Sequence[TaskSoundness]) -> Iterator[str]:
    """A line for each kind of task, for each of a few worlds, and for all."""
    groups: list[tuple[str, list[TaskSoundness]]] = []
    kinds = dict.fromkeys(task.kind for task in tasks)
    groups += [(f"{kind} tasks", [one for one in tasks if one.kind == kind]) for kind in kinds]
    worlds = dict.fromkeys(task.world for task in tasks)
    if 1 < len(worlds) < MANY_WORLDS:
        groups += [(name, [one for one in tasks if one.world == name]) for name in worlds]
    for name, chosen in (*groups, ("all", list(tasks))):
        if chosen:
            yield _line(name, chosen, soundness_of(chosen))


def _line(name: str, tasks: Sequence[TaskSoundness], found: Youden | None) -> str:
    paid, adversaries = sum(one.paid for one in tasks), sum(one.adversaries for one in tasks)
    begin = f"soundness of {name}: {paid:,} of {adversaries:,} adversaries paid"
    if found is None:  # AWM records: no right answer is known
        return f"{begin}; no right answer is known, so there is no J"
    completed, right = sum(one.completed for one in tasks), sum(one.right for one in tasks)
    return (
        f"{begin}, {completed:,} of {right:,} right answers completed; TPR {_shown(found.tpr)}, "
        f"FPR {_shown(found.fpr)}, J {_shown(found.j)} (unit: {found.unit})"
    )


def _shown(found: Interval[float]) -> str:
    """Example: "0.998 [0.991, 1.000]" """
    return f"{found.value:.3f} [{found.lower:.3f}, {found.upper:.3f}]"
