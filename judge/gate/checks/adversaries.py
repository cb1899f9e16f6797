"""The gate's check that no agent is paid without the work, and that right answers are accepted."""

from collections.abc import Sequence

from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.gate.core.report import MutantNote, TaskSoundness
from rehearsal_room.judge.gate.core.task_runner import TaskRunner
from rehearsal_room.judge.playback.adversaries import (
    UNDONE,
    Adversary,
    adversaries_of,
    rewordings_of,
)
from rehearsal_room.judge.playback.playback import Played, format_call
from rehearsal_room.scenarios.checks import Finding, failed, proved_wrong
from rehearsal_room.scenarios.format import Call, Task

_REMEDY = (
    "let the verifier check rows, or the answer by `answer_has`, `declined` or `text_has`, which "
    "prove a statement only inside the task's bounds"
)


def check_adversaries(
    runner: TaskRunner, task: Task, oracle: Played, undoable: Sequence[Call]
) -> None:
    """Play every adversary and every rewording of a task whose oracle is completed."""
    adversaries = list(adversaries_of(runner.world, task, oracle, undoable))
    paid = [one for one in adversaries if _is_paid(runner, task, one, oracle)]
    forms = list(rewordings_of(task))
    rejected = [name for name, text in forms if not _is_completed(runner, task, oracle, name, text)]
    runner.log.soundness.append(
        TaskSoundness(
            world=runner.log.world,
            task=task.id,
            kind=task.kind,
            adversaries=len(adversaries),
            paid=len(paid),
            right=1 + len(forms),
            completed=1 + len(forms) - len(rejected),
        )
    )
    for remedy in dict.fromkeys(map(_remedy, paid)):
        names = ", ".join(one.kind for one in paid if _remedy(one) == remedy)
        runner.log.fail("adversaries", f"paid for no work: {names}; {remedy}", task)


def _remedy(one: Adversary) -> str:
    """What the writer of the world should change."""
    if one.kind != UNDONE:
        return _REMEDY
    write, undo = one.calls[-2:]
    return (
        f"{format_call(write)} and then {format_call(undo)} leave no trace: list the table that "
        "the first one writes as `irreversible` in scenario.toml"
    )


def _is_paid(runner: TaskRunner, task: Task, one: Adversary, oracle: Played) -> bool:
    played = runner.play(
        task, one.calls, one.answer, () if not one.does_the_work else None, oracle=oracle
    )
    judged = runner.verdict(task, played, f"an adversary ({one.kind})")
    if one.does_the_work:
        return judged.label is Label.COMPLETED and (judged.share or 1.0) == 1.0
    return bool(judged.reward) or bool(judged.share)


def _is_completed(runner: TaskRunner, task: Task, oracle: Played, name: str, answer: str) -> bool:
    """Whether a right answer in another form is completed; where a finding proves it wrong, the
    log has a note."""
    played = runner.play(task, task.oracle, answer, oracle=oracle)
    judged = runner.verdict(task, played, f"a rewording ({name})")
    if judged.label is Label.COMPLETED:
        return True
    wrong = proved_wrong(judged.findings) or failed(judged.findings)
    runner.log.rejected.append(
        MutantNote(runner.log.world, task.id, "rewording", name, _why(wrong, judged.unjudged))
    )
    return False


def _why(findings: Sequence[Finding], unjudged: str | None) -> str:
    if not findings:
        return unjudged or "it is not completed"
    first = findings[0]
    state = "left open" if first.is_open else "failed"
    return f"{first.name} ({state}): {first.found}"
