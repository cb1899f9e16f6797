"""The gate's checks of one task: its oracle, its declarations, doing nothing, and mistakes."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import msgspec

from rehearsal_room.envpool.core.types import StoredState
from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.policies.mutants import Mutant
from rehearsal_room.judge.core.errors import VerifierError
from rehearsal_room.judge.core.verifier import Verifier
from rehearsal_room.judge.gate.checks.adversaries import check_adversaries
from rehearsal_room.judge.gate.checks.dialogues import check_talk
from rehearsal_room.judge.gate.core.report import MutantNote
from rehearsal_room.judge.gate.core.task_runner import GateLog, GateSettings, TaskRunner
from rehearsal_room.judge.playback.attempts import Writes, mutants_on
from rehearsal_room.judge.playback.playback import Played, format_call
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import DECLINES, declines, failed
from rehearsal_room.scenarios.format import Call, Task, difficulty_of

MIN_CAUGHT = 0.98  # of a world's mutants
OTHER_FINDINGS = "it gives other findings"  # how the fault of a verifier begins that is random
_ODD_ANSWERS = ("", "…", "0", "Done.\n\n" * 50, "{}", "\u202eенod ä😀")
_ASKED = re.compile(r"\b(?:what|which|who|whom|whose|when|where|how (?:much|many|long|old))\b")
_REPORT_REQUEST = re.compile(r"\btell me (?:the|how|which|when|who|where|whether)\b")
_REQUEST = re.compile(
    r"\b(?:can|could|would|will) you\b|\bplease\b|\bcan (?:anything|everything|all|these|they|it)\b"
)
_encode = msgspec.msgpack.Encoder().encode
# Kinds of which none may survive: then the verifier does not check a write, or misses one too many.
_NEVER = frozenset({"dropped", "added", "disturbed"})
_MAX_SURVIVORS = 0.25  # of a task's mutants, where there are more than two survivors


def check_task(
    runner: TaskRunner,
    task: Task,
    oracle: Played,
    writes: Writes,
    undoable: Sequence[Call],
    settings: GateSettings,
) -> Judged:
    """Every check of one task that needs no other task; returns the verdict on the oracle."""
    judged = _check_oracle(runner, task, oracle)
    _check_declared(runner.log, task, oracle)
    _check_noop(runner, task)
    _check_criteria(runner, task, judged)
    if judged.label is not Label.COMPLETED:
        return judged  # mistakes in calls that do not solve the task prove nothing
    _check_asked(runner, task)
    check_talk(runner, task)
    mutants, left_out = mutants_on(
        runner.world, task, oracle, writes, seed=settings.seed, most=settings.max_mutants
    )
    runner.log.left_out += left_out
    for mutant in mutants:
        runner.try_mutant(task, oracle, mutant)
    check_adversaries(runner, task, oracle, undoable)
    return judged


def check_disturbed(
    runner: TaskRunner, task: Task, oracle: Played, calls: Sequence[Call], settings: GateSettings
) -> None:
    """Try the oracle followed by an unwanted write that probing found, as many times as the limit
    on the task's mutants allows."""
    tried = sum(count for (name, _), count in runner.log.tried.items() if name == task.id)
    tried += sum(note.task == task.id for note in runner.log.equivalents)
    for call in calls[: max(0, settings.max_mutants - tried)]:
        note = f"an unwanted {format_call(call)} before the answer, found by probing"
        calls = (*task.oracle, call)
        mutant = Mutant("disturbed", calls, task.answer, note, task.utterances)
        runner.try_mutant(task, oracle, mutant)


def check_again(runner: TaskRunner, task: Task, played: Played, judged: Judged) -> None:
    """At the end, the verifier must give the same findings on the oracle as at first."""
    if runner.judge.verdict_at_once(played.trajectory).findings != judged.findings:
        runner.log.fail("verifier", f"{OTHER_FINDINGS} after other episodes were verified", task)


def check_total(
    runner: TaskRunner,
    verifier: Verifier,
    task: Task,
    states: Sequence[tuple[StoredState, tuple[RowChange, ...]]],
) -> None:
    """The verifier must accept any state that an agent can reach, and any answer.

    `states` come with their changes since the start.
    """
    answers = [(state, changes, task.answer) for state, changes in states]
    odd = [(runner.world.start, (), answer) for answer in _ODD_ANSWERS]
    for state, changes, answer in (*answers, *odd):
        before, after = runner.world.states(state, [_copied(change) for change in changes])
        try:
            verifier.run(task, before, after, answer)
        except VerifierError as exc:
            after_what = "a random call" if changes else f"the answer {answer[:40]!r}"
            runner.log.fail("verifier", f"after {after_what}: {exc}", task)
            return


def _copied(change: RowChange) -> RowChange:
    """A copy for each verifier, so that one that modifies its input harms no other."""
    before, after = change.before, change.after
    return RowChange(change.table, change.key, before and {**before}, after and {**after})


def _check_oracle(runner: TaskRunner, task: Task, played: Played) -> Judged:
    """The oracle must succeed and complete the task. Its first failing call is the only fault: what
    follows from it is not repeated."""
    fail = runner.log.fail
    shown = _encode(played.changes)
    judged = runner.verdict(task, played, "the oracle")
    if (failing := first_failure(played)) is not None:
        call, result = played.calls[failing], played.results[failing]
        if result.error != "unknown_tool":  # see check_missing_tools
            why = f"call {failing + 1}, {format_call(call)}, fails ({result.error}): {result.text}"
            fail("oracle", why, task)
        return judged
    if judged.label is None:
        return judged
    if judged.label is not Label.COMPLETED:
        missed = "; ".join(
            f"{finding.name}: expected {finding.expected}, found {finding.found}"
            for finding in failed(judged.findings)
        )
        fail("oracle", f"it is judged {judged.label}: {missed}", task)
    if task.kind == "question" and any(one.name == DECLINES for one in judged.findings):
        fail("kind", "a task of kind 'question', but its verifier demands a refusal", task)
    _check_pure(runner, task, played, judged, shown)
    return judged


def _check_pure(
    runner: TaskRunner, task: Task, played: Played, judged: Judged, shown: bytes
) -> None:
    """The verifier must not modify its input, and must give the same findings when repeated."""
    fail = runner.log.fail
    if runner.judge.verdict_at_once(played.trajectory).findings != judged.findings:
        fail("verifier", f"{OTHER_FINDINGS} when it runs again", task)
    if _encode(played.changes) != shown:
        fail("verifier", "it modifies the changes that it is given", task)
        return
    _, after = runner.world.states(played.state)
    if _encode(after.changes) != shown:
        fail("verifier", "it modifies the state that it is given", task)


def check_missing_tools(
    log: GateLog, tasks: Sequence[Task], oracles: Mapping[str, Played], tools: Sequence[str]
) -> set[str]:
    """The tools that oracles call and that do not exist; one fault for each, whatever the number of
    its calls and tasks. Only the first failing call of an oracle counts."""
    missing: dict[str, list[Task]] = {}
    for task in tasks:
        failing = first_failure(oracles[task.id])
        if failing is not None and oracles[task.id].results[failing].error == "unknown_tool":
            missing.setdefault(task.oracle[failing].name, []).append(task)
    for name, callers in missing.items():
        similar = get_close_matches(name, tools, n=1)
        hint = f"; did you mean {similar[0]!r}?" if similar else ""
        log.fail_all("oracle", f"it calls {name!r}, but there is no such tool{hint}", callers)
    return set(missing)


def first_failure(played: Played) -> int | None:
    """The index of the first call that failed; None: all succeeded."""
    errors = (index for index, result in enumerate(played.results) if result.error is not None)
    return next(errors, None)


def _check_declared(log: GateLog, task: Task, played: Played) -> None:
    """The task's kind and difficulty must be those of its oracle, where the oracle works."""
    if task.kind == "decline" and not declines(task.answer):
        log.fail("kind", "a task of kind 'decline', but its answer declines nothing", task)
    if first_failure(played) is not None:
        return
    tables = sorted({change.table for change in played.changes})
    if task.kind == "change" and not tables:
        log.fail("kind", "a task of kind 'change', but its oracle changes no row", task)
    if task.kind != "change" and tables:
        why = f"a task of kind {task.kind!r}, but its oracle changes rows of {', '.join(tables)}"
        log.fail("kind", why, task)
    points = len(task.oracle) + len(tables)
    if task.difficulty != difficulty_of(points):
        why = (
            f"declared {task.difficulty}, but {len(task.oracle)} calls and {len(tables)} "
            f"changed tables are {points} points, which is {difficulty_of(points)}"
        )
        log.fail("difficulty", why, task)


def _check_asked(runner: TaskRunner, task: Task) -> None:
    """For a change that also asks a question, the verifier must check the answer."""
    if task.kind == "change" and asks(task.instruction):
        silent = runner.verdict(task, runner.play(task, task.oracle, ""), "an empty answer")
        if silent.label is Label.COMPLETED:
            why = "its instruction asks a question, but an empty answer completes it"
            runner.log.fail("noop", why, task)


def asks(instruction: str) -> bool:
    """Whether an instruction asks for information: what, which, who, when, how many.

    Example: asks("Lend it. When is it due?") -> True; asks("Could you lend it, please?") -> False
    """
    text = instruction.casefold()
    questions = re.findall(r"[^.!?\n]*\?", text)
    asked = (_ASKED.search(one) and not _REQUEST.search(one) for one in questions)
    return _REPORT_REQUEST.search(text) is not None or any(asked)


def _check_noop(runner: TaskRunner, task: Task) -> None:
    fail = runner.log.fail
    idle = runner.verdict(task, runner.play(task, (), "", ()), "doing nothing")
    if idle.label is Label.COMPLETED:
        fail("noop", "doing nothing and saying nothing completes it", task)
    elif task.kind == "change":
        claim = runner.verdict(task, runner.play(task, (), task.answer, ()), "doing nothing")
        if claim.label is Label.COMPLETED:
            fail("noop", "saying that it is done, without doing it, completes it", task)


def _check_criteria(runner: TaskRunner, task: Task, oracle: Judged) -> None:
    """Nothing is paid that was not done, and all that was is."""
    if not task.criterion and task.criteria_threshold == 1.0:
        return
    fail = runner.log.fail
    if task.criteria_threshold <= 0:
        why = (
            "a model that always agrees completes it: let criteria by code weigh more, or raise "
            "criteria_threshold"
        )
        fail("criteria", why, task)
    idle = runner.verdict(task, runner.play(task, (), "", ()), "doing nothing")
    criteria = [one for one in idle.findings if one.kind == "criterion"]
    if met := ", ".join(repr(one.name) for one in criteria if one.share):
        fail("criteria", f"doing nothing meets {met}: make it a guard of {task.verifier}()", task)
    if oracle.label is Label.COMPLETED and oracle.share is not None and oracle.share < 1:
        missed = [one for one in oracle.findings if one.kind == "criterion" and not one.passed]
        why = f"its oracle does not meet {', '.join(repr(one.name) for one in missed)}"
        fail("criteria", why, task)


def check_share(log: GateLog, tasks: Sequence[Task]) -> None:
    """Report the tasks whose mutants survive: where too many of the world's or of the task's do, or
    one of a grave kind does."""
    too_many = log.caught < MIN_CAUGHT * log.mutants
    for task in tasks:
        found = [note for note in log.survivors if note.task == task.id]
        grave = [note for note in found if _is_grave(log, task, note, found)]
        tried = sum(count for (name, _), count in log.tried.items() if name == task.id)
        if found and (too_many or grave or len(found) > max(2, _MAX_SURVIVORS * tried)):
            first = (found if too_many else grave or found)[0]
            count = "one mutant is" if len(found) == 1 else f"{len(found)} mutants are"
            why = f"{count} completed, as this: {first.mutation}; {first.why}"
            log.fail("mutants", why, task)


def _is_grave(log: GateLog, task: Task, note: MutantNote, found: Sequence[MutantNote]) -> bool:
    """Whether a survivor alone proves that the verifier misses something: by its kind, by what it
    changes, or because most wrong answers survive too."""
    if note.kind in _NEVER or note in log.named:
        return True
    survived = sum(other.kind == note.kind for other in found)
    return note.kind == "answered" and survived > log.tried[task.id, note.kind] / 2
