"""The gate's checks of one task: its oracle, what it declares, doing nothing, and mistakes."""

import re
from collections.abc import Sequence

import msgspec

from envpool.core.types import StoredState
from harness.core.events import Judged, Label
from harness.policies.mutants import Mutant
from judge.core.errors import VerifierError
from judge.core.verifier import Verifier
from judge.gate.context import GateSettings, Notes, Stage
from judge.gate.report import MutantNote
from judge.playback.attempts import Writes, mutants_on
from judge.playback.playback import Played, told
from scenarios.api import RowChange
from scenarios.checks import DECLINES, declines, failed
from scenarios.difficulty import difficulty_of
from scenarios.format import Call, Task

MIN_CAUGHT = 0.98  # of a world's mutants
_ODD_ANSWERS = ("", "…", "0", "Done.\n\n" * 50, "{}", "\u202eенod ä😀")
_ASKED = re.compile(r"\b(?:what|which|who|whom|whose|when|where|how (?:much|many|long|old))\b")
_TOLD = re.compile(r"\btell me (?:the|how|which|when|who|where|whether)\b")
_REQUEST = re.compile(r"\b(?:can|could|would|will) you\b|\bplease\b")
_encode = msgspec.msgpack.Encoder().encode
# Of these, none: then the verifier does not ask for a write, or does not see one of another task.
_NEVER = frozenset({"dropped", "added", "disturbed"})
_MAX_SURVIVORS = 0.25  # of a task's mutants, where there are more than two survivors


def check_task(
    stage: Stage, task: Task, oracle: Played, writes: Writes, settings: GateSettings
) -> Judged:
    """Every check of one task that needs no other's; gives the verdict on the oracle."""
    judged = _check_oracle(stage, task, oracle)
    _check_words(stage.notes, task, oracle)
    _check_noop(stage, task)
    if judged.label is not Label.COMPLETED:
        return judged  # of what does not solve the task, mistakes say nothing
    _check_asked(stage, task)
    mutants, left_out = mutants_on(
        stage.world, task, oracle, writes, seed=settings.seed, most=settings.max_mutants
    )
    stage.notes.left_out += left_out
    for mutant in mutants:
        stage.try_mutant(task, oracle, mutant)
    return judged


def check_disturbed(
    stage: Stage, task: Task, oracle: Played, calls: Sequence[Call], settings: GateSettings
) -> None:
    """The oracle, then a write that nobody asked for, found by probing; as many as there is room
    for among the task's mutants."""
    tried = sum(count for (name, _), count in stage.notes.tried.items() if name == task.id)
    tried += sum(note.task == task.id for note in stage.notes.equivalents)
    for call in calls[: max(0, settings.max_mutants - tried)]:
        note = f"an unwanted {told(call)} before the answer, found by probing"
        mutant = Mutant("disturbed", (*task.oracle, call), task.answer, note)
        stage.try_mutant(task, oracle, mutant)


def check_again(stage: Stage, task: Task, played: Played, judged: Judged) -> None:
    """After all else, the verifier must say of the oracle what it said first."""
    if stage.judge.verdict_at_once(played.trajectory).findings != judged.findings:
        stage.notes.fail("verifier", "it gives other findings after it has judged others", task)


def check_total(
    stage: Stage,
    verifier: Verifier,
    task: Task,
    states: Sequence[tuple[StoredState, tuple[RowChange, ...]]],
) -> None:
    """The verifier must take any state, however the agent got there, and any answer.

    `states` come with what differs from the start.
    """
    answers = [(state, changes, task.answer) for state, changes in states]
    odd = [(stage.world.start, (), answer) for answer in _ODD_ANSWERS]
    for state, changes, answer in (*answers, *odd):
        before, after = stage.world.states(state, [_copied(change) for change in changes])
        try:
            verifier.run(task, before, after, answer)
        except VerifierError as exc:
            after_what = "a random call" if changes else f"the answer {answer[:40]!r}"
            stage.notes.fail("verifier", f"after {after_what}: {exc}", task)
            return


def _copied(change: RowChange) -> RowChange:
    """A change of its own for each verifier: one that alters what it is shown harms no other."""
    before, after = change.before, change.after
    return RowChange(change.table, change.key, before and {**before}, after and {**after})


def _check_oracle(stage: Stage, task: Task, played: Played) -> Judged:
    fail = stage.notes.fail
    for index, (call, result) in enumerate(zip(task.oracle, played.results, strict=True)):
        if result.error is not None:
            why = f"call {index + 1}, {told(call)}, fails ({result.error}): {result.text}"
            fail("oracle", why, task)
    shown = _encode(played.changes)
    judged = stage.verdict(task, played, "the oracle")
    if judged.label is None:
        return judged
    if judged.label is not Label.COMPLETED:
        missed = "; ".join(
            f"{finding.name}: expected {finding.expected}, found {finding.found}"
            for finding in failed(judged.findings)
        )
        fail("oracle", f"it is judged {judged.label}: {missed}", task)
    if task.kind == "question" and any(one.name == DECLINES for one in judged.findings):
        fail("kind", "a task of kind 'question' whose verifier demands a refusal", task)
    _check_pure(stage, task, played, judged, shown)
    return judged


def _check_pure(stage: Stage, task: Task, played: Played, judged: Judged, shown: bytes) -> None:
    """The verifier must leave alone what it is shown, and say the same when asked again."""
    fail = stage.notes.fail
    if stage.judge.verdict_at_once(played.trajectory).findings != judged.findings:
        fail("verifier", "it gives other findings when it is asked again", task)
    if _encode(played.changes) != shown:
        fail("verifier", "it alters the changes that it is shown", task)
        return
    _, after = stage.world.states(played.state)
    if _encode(after.changes) != shown:
        fail("verifier", "it alters the state that it is shown", task)


def _check_words(notes: Notes, task: Task, played: Played) -> None:
    """What a task says of itself: its kind and its difficulty."""
    tables = sorted({change.table for change in played.changes})
    if task.kind == "change" and not tables:
        notes.fail("kind", "a task of kind 'change' whose oracle changes no row", task)
    if task.kind != "change" and tables:
        why = f"a task of kind {task.kind!r} whose oracle changes rows of {', '.join(tables)}"
        notes.fail("kind", why, task)
    if task.kind == "decline" and not declines(task.answer):
        notes.fail("kind", "a task of kind 'decline' whose answer declines nothing", task)
    points = len(task.oracle) + len(tables)
    if task.difficulty != difficulty_of(points):
        why = (
            f"declared {task.difficulty}, but {len(task.oracle)} calls and {len(tables)} "
            f"changed tables are {points} points, which is {difficulty_of(points)}"
        )
        notes.fail("difficulty", why, task)


def _check_asked(stage: Stage, task: Task) -> None:
    """Of a change that also asks for something, the verifier must read the answer."""
    if task.kind == "change" and asks(task.instruction):
        silent = stage.verdict(task, stage.play(task, task.oracle, ""), "an empty answer")
        if silent.label is Label.COMPLETED:
            why = "its instruction asks a question, and an empty answer completes it"
            stage.notes.fail("noop", why, task)


def asks(instruction: str) -> bool:
    """Whether an instruction asks for something to be told: what, which, who, when, how many.

    Example: asks("Lend it. When is it due?") -> True; asks("Could you lend it, please?") -> False
    """
    text = instruction.casefold()
    questions = re.findall(r"[^.!?\n]*\?", text)
    asked = (_ASKED.search(one) and not _REQUEST.search(one) for one in questions)
    return _TOLD.search(text) is not None or any(asked)


def _check_noop(stage: Stage, task: Task) -> None:
    fail = stage.notes.fail
    idle = stage.verdict(task, stage.play(task, (), ""), "doing nothing")
    if idle.label is Label.COMPLETED:
        fail("noop", "doing nothing and saying nothing completes it", task)
    elif task.kind == "change":
        boast = stage.verdict(task, stage.play(task, (), task.answer), "doing nothing")
        if boast.label is Label.COMPLETED:
            fail("noop", "saying that it is done, without doing it, completes it", task)


def check_share(notes: Notes, tasks: Sequence[Task]) -> None:
    """Name the tasks whose mutants survive: where too many of the world's or of the task's do, or
    most of one grave kind."""
    too_many = notes.caught < MIN_CAUGHT * notes.mutants
    for task in tasks:
        found = [note for note in notes.survivors if note.task == task.id]
        grave = [note for note in found if _is_grave(notes, task, note, found)]
        tried = sum(count for (name, _), count in notes.tried.items() if name == task.id)
        if found and (too_many or grave or len(found) > max(2, _MAX_SURVIVORS * tried)):
            first = (found if too_many else grave or found)[0]
            count = "one mutant is" if len(found) == 1 else f"{len(found)} mutants are"
            why = f"{count} completed, as this: {first.mutation}; {first.why}"
            notes.fail("mutants", why, task)


def _is_grave(notes: Notes, task: Task, note: MutantNote, found: Sequence[MutantNote]) -> bool:
    """Whether a survivor alone shows that the verifier is blind: by its kind, by what it changes,
    or because most of the wrong answers survive with it."""
    if note.kind in _NEVER or note in notes.named:
        return True
    survived = sum(other.kind == note.kind for other in found)
    return note.kind == "answered" and survived > notes.tried[task.id, note.kind] / 2
