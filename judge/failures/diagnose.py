"""What went wrong in one episode: its mistakes, each with its kind and the turn where it was made.

Where the task's solution is known, the agent's writes are paired with the solution's, call by call,
and only writes whose rows end otherwise than the solution's are mistakes: another way to the same
rows is none. Where it is not known (no author's solution, or a world of others), the findings of
the verdict show what they can.
"""

from collections.abc import Iterable, Iterator, Sequence

from rehearsal_room.harness.core.events import Ending, EpisodeEnded, Judged, Label
from rehearsal_room.harness.core.messages import FormatError
from rehearsal_room.harness.core.mistakes import FailureKind, Mistake
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.imitation import call_as_text
from rehearsal_room.harness.log.schema import NO_SCORE
from rehearsal_room.harness.outcomes.failure_kinds import (
    kind_of_ending,
    kind_of_finding,
    mistake_of_ending,
)
from rehearsal_room.judge.core.evidence import changes_of
from rehearsal_room.judge.failures.calls import (
    MadeCall,
    ValueDifference,
    call_text,
    differences,
    has_no_habits,
    made_calls,
    overuse,
    unread,
)
from rehearsal_room.judge.failures.reference import Reference
from rehearsal_room.judge.failures.rows import RowDifferences, RowKey, equal_rows, row_differences
from rehearsal_room.judge.failures.statements import Deed, claim_of, states_instead
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding, declines, failed
from rehearsal_room.scenarios.core.short_text import one_line
from rehearsal_room.scenarios.format import Call, Task

_ANSWERS = frozenset({FailureKind.WRONG_ANSWER, FailureKind.MISSING_REFUSAL})


def diagnose(
    trajectory: Trajectory,
    verdict: Judged | None,
    reference: Reference | None,
    *,
    solution: Sequence[Call] = (),
) -> list[Mistake]:
    """The mistakes of an episode that is over, the first of each kind and tool, by turn. A
    completed episode can only have habits (see `rehearsal_room.harness.core.mistakes`). `solution`
    are the task's calls where they need not be played (see `needs_reference`).
    """
    ended = trajectory.ended
    if ended is None:
        return []
    label = None if verdict is None else verdict.label
    if label is Label.COMPLETED and reference is None and has_no_habits(trajectory, solution):
        return []
    found: list[Mistake] = []
    made = made_calls(trajectory)
    outside = None if label is Label.COMPLETED else kind_of_ending(ended.ending, label)
    if outside is FailureKind.UNJUDGED and verdict is not None and verdict.unjudged == NO_SCORE:
        return []
    if outside is not None:
        return [_outside(outside, trajectory, ended, verdict)]
    pairs = _Pairs(made, reference) if reference is not None else None
    if label is not Label.COMPLETED:
        found += _failures(trajectory, ended, () if verdict is None else verdict.findings, pairs)
    if pairs is not None:
        found += pairs.unread_writes()
    if (too_many := overuse(made, solution if reference is None else reference.calls)) is not None:
        found.append(Mistake(FailureKind.TOOL_OVERUSE, *too_many))
    first: dict[tuple[FailureKind, str], Mistake] = {}
    for mistake in sorted(found, key=lambda one: one.turn):
        first.setdefault((mistake.kind, mistake.tool), mistake)
    return list(first.values())


def needs_reference(trajectory: Trajectory, verdict: Judged | None, task: Task) -> bool:
    """Whether `diagnose` compares the episode with the solution's effects. Most completed episodes
    are not compared: they wrote nothing, or they begin with the solution's own calls.
    """
    ended = trajectory.ended
    if ended is None or verdict is None:
        return False
    if verdict.label is not Label.COMPLETED:
        return kind_of_ending(ended.ending, verdict.label) is None
    steps = [step for step in trajectory.steps if step.user is None]
    made = [
        call
        for step in steps
        for call, _ in zip(step.executed_calls, step.executed_results, strict=False)
    ]
    begins_alike = len(made) >= len(task.oracle) and all(
        call.name == other.name and call.arguments == other.arguments
        for call, other in zip(made, task.oracle, strict=False)
    )
    return not begins_alike and any(one.changes for step in steps for one in step.results)


def _outside(
    kind: FailureKind, trajectory: Trajectory, ended: EpisodeEnded, verdict: Judged | None
) -> Mistake:
    """The one mistake of an episode whose ending or label says it all."""
    if kind is FailureKind.WORLD_FAILURE:
        for call in made_calls(trajectory):
            if call.result.error in ("internal", "timeout"):
                why = f"{call.text}: {_short(call.result.text)}"
                return Mistake(kind, call.turn, why, call.name)
    unjudged = "" if verdict is None else verdict.unjudged or ""
    return mistake_of_ending(kind, ended.error, len(trajectory.steps), unjudged)


def _failures(
    trajectory: Trajectory,
    ended: EpisodeEnded,
    findings: Sequence[Finding],
    pairs: "_Pairs | None",
) -> list[Mistake]:
    """The mistakes of an episode that was not completed; at least one."""
    last = max(0, len(trajectory.steps) - 1)
    wrong = failed(findings)
    found: list[Mistake] = []
    if ended.ending.is_truncation:
        found.append(Mistake(FailureKind.CUT_OFF, last, _cut_off(trajectory, ended)))
    if ended.ending is Ending.ANSWERED and (call := call_as_text(ended.answer)) is not None:
        why = f"the answer contains a call as text, which was not made: {call}"
        found.append(Mistake(FailureKind.CALL_AS_TEXT, last, why))
    if pairs is not None:
        found += pairs.wrong_writes(changes_of(trajectory), wrong)
        if not ended.ending.is_truncation:
            missing = pairs.missing_writes(last)
            found += missing
            found += pairs.contradictions(ended.answer, last, bool(missing))
            if missing and declines(ended.answer) and pairs.should_act():
                why = f"the answer refuses: {_short(ended.answer)}"
                found.append(Mistake(FailureKind.WRONG_REFUSAL, last, why))
    for finding in wrong:
        kind = kind_of_finding(finding)
        about_answer = kind in _ANSWERS and ended.ending is Ending.ANSWERED
        if about_answer or (pairs is None and kind is not FailureKind.GOAL_NOT_MET):
            found.append(_of_finding(finding, kind, last, ended.answer, pairs))
    if found:
        return found
    if wrong:
        return [_of_finding(one, kind_of_finding(one), last, ended.answer, pairs) for one in wrong]
    return [
        Mistake(FailureKind.GOAL_NOT_MET, last, "the judge says so; no check of the task failed")
    ]


def _of_finding(
    finding: Finding, kind: FailureKind, turn: int, answer: str, pairs: "_Pairs | None"
) -> Mistake:
    if kind is FailureKind.WRONG_ANSWER and pairs is not None and pairs.is_question:
        kind = FailureKind.WRONG_REFUSAL if declines(answer) else kind
    why = f"{finding.name}: expected {_short(finding.expected)}, found {_short(finding.found)}"
    return Mistake(kind, turn, why)


def _cut_off(trajectory: Trajectory, ended: EpisodeEnded) -> str:
    """Which limit ended the episode. An agent that breaks the format turn after turn reaches one
    without acting; the log has the reason of each."""
    why = f"the {str(ended.ending).replace('_', ' ')} ended the episode"
    faults = [
        step.decision.reason for step in trajectory.steps if isinstance(step.decision, FormatError)
    ]
    if not faults:
        return why
    replies = f"{len(faults)} of {len(trajectory.steps)} replies were malformed"
    return f"{why}; {replies}, the last one: {one_line(faults[-1], 200)}"


class _Pairs:
    """The agent's writes and the solution's: which belong together."""

    def __init__(self, made: Sequence[MadeCall], reference: Reference) -> None:
        self.reference = reference
        self._made = made
        self._writes = [call for call in made if call.result.changes]
        self._wanted = [index for index, result in enumerate(reference.results) if result.changes]
        self._pair_of: dict[int, int] = {}  # id of an agent's write -> index of the solution's
        self._differing: list[tuple[MadeCall, int, list[ValueDifference]]] = []
        self._rows = RowDifferences(frozenset(), frozenset())
        self._left: list[int] = []
        self._pair_equal()

    @property
    def is_question(self) -> bool:
        """Whether the task asks for an answer and for no change."""
        return self.reference.task.kind != "decline" and not self.reference.changes

    def should_act(self) -> bool:
        """Whether the task asks for changes only, and the agent made none: a refusal is wrong."""
        return not self._writes and not declines(self.reference.task.answer)

    def _pair_equal(self) -> None:
        left = list(self._wanted)
        for write in self._writes:
            for index in left:
                if self._call(index).name == write.name and not self._differences(write, index):
                    self._pair_of[id(write)] = index
                    left.remove(index)
                    break
        self._left = left

    def _call(self, index: int) -> Call:
        return self.reference.calls[index]

    def _differences(self, made: MadeCall, index: int) -> list[ValueDifference]:
        known = [arg for tool, arg in self.reference.enumerated if tool == made.name]
        return differences(made.arguments, self._call(index).arguments, known)

    def wrong_writes(
        self, changes: Iterable[RowChange], wrong: Sequence[Finding]
    ) -> Iterator[Mistake]:
        """The writes that were made and whose rows are wrong."""
        self._rows = row_differences(self.reference, changes)
        guarded = {
            one.name.removesuffix(" untouched") for one in wrong if one.name.endswith(" untouched")
        }
        self._left = [
            index
            for index in self._left
            if _touches(self.reference.results[index].changes, self._rows.expected)
        ]
        for write in self._writes:
            if id(write) in self._pair_of or not _touches(write.result.changes, self._rows.found):
                continue
            yield self._wrong_write(write, guarded)

    def _wrong_write(self, write: MadeCall, guarded: set[str]) -> Mistake:
        if self._repeats(write):
            why = f"{write.text} was made again"
            return Mistake(FailureKind.DUPLICATE_WRITE, write.turn, why, write.name)
        alike = [index for index in self._left if self._call(index).name == write.name]
        if alike:
            index = min(alike, key=lambda one: len(self._differences(write, one)))
            found = self._differences(write, index)
            self._left.remove(index)
            self._pair_of[id(write)] = index
            self._differing.append((write, index, found))
            kind = _kind_of(found)
            return Mistake(kind, write.turn, _why_differs(write, found), write.name)
        for index in self._left:
            if common := _common(write, self.reference.results[index].changes):
                self._left.remove(index)
                self._pair_of[id(write)] = index
                why = (
                    f"{write.text} changed {_row_text(common)}, where the solution has "
                    f"{call_text(self._call(index).name, self._call(index).arguments)}"
                )
                return Mistake(FailureKind.WRONG_VALUE, write.turn, why, write.name)
        rows = [(one.table, one.key) for one in write.result.changes]
        shown = _row_text(next(row for row in rows if row in self._rows.found))
        if any(f"{table} {key[0] if len(key) == 1 else key}" in guarded for table, key in rows):
            why = f"{write.text} changed {shown}, which looks like the right one and is not"
            return Mistake(FailureKind.WRONG_RECORD, write.turn, why, write.name)
        why = f"{write.text} changed {shown}; the task does not ask for it"
        return Mistake(FailureKind.UNASKED_CHANGE, write.turn, why, write.name)

    def _repeats(self, write: MadeCall) -> bool:
        """Whether the agent had made this write before, as it stands or with other free text."""
        for other in self._writes:
            if other is write:
                return False
            if other.name == write.name and not differences(
                write.arguments, other.arguments if isinstance(other.arguments, dict) else {}
            ):
                return True
        return False

    def missing_writes(self, last: int) -> list[Mistake]:
        """The solution's writes that were not made, and what was tried in their place."""
        found: list[Mistake] = []
        for index in self._left:
            call = self._call(index)
            tried = [one for one in self._made if one.name == call.name and one.result.error]
            if not tried:
                why = f"{call_text(call.name, call.arguments)} was not made"
                found.append(Mistake(FailureKind.MISSING_WRITE, last, why, call.name))
                continue
            nearest = min(tried, key=lambda one: len(self._differences(one, index)))
            differing = self._differences(nearest, index)
            refusal = f"{nearest.text} failed: {_short(nearest.result.text)}"
            found.append(Mistake(FailureKind.MISSING_WRITE, nearest.turn, refusal, call.name))
            if differing:
                why = f"{_why_differs(nearest, differing)}; it failed: "
                why += _short(nearest.result.text)
                found.append(Mistake(_kind_of(differing), nearest.turn, why, call.name))
        return found

    def contradictions(self, answer: str, last: int, missing: bool) -> Iterator[Mistake]:
        """Where the answer states what the rows do not have."""
        for write, _, found in self._differing:
            for one in found:
                if stated := states_instead(answer, one.expected, one.found):
                    why = f"the answer says {stated}; {write.name} wrote {one.path} {one.found!r}"
                    yield Mistake(FailureKind.CONTRADICTING_ANSWER, last, why, write.name)
                    return
        if not missing:
            return
        made = [Deed(write.name, write.arguments) for write in self._writes]
        also_declines = declines(self.reference.task.answer)
        for index in self._left:
            call = self._call(index)
            deed = Deed(call.name, call.arguments)
            if claim := claim_of(answer, deed, made, also_declines=also_declines):
                why = f"the answer says {claim!r}, but {call.name} was not done"
                yield Mistake(FailureKind.CONTRADICTING_ANSWER, last, why, call.name)
                return

    def unread_writes(self) -> Iterator[Mistake]:
        """Writes before which the agent had not read what they depend on."""
        for write in self._writes:
            index = self._pair_of.get(id(write))
            if index is None:
                continue
            if lookup := unread(self._made, write, index, self.reference):
                why = f"{write.name} was called, and nothing read before shows what {lookup} shows"
                yield Mistake(FailureKind.WRITE_WITHOUT_LOOKUP, write.turn, why, write.name)


def _kind_of(found: Sequence[ValueDifference]) -> FailureKind:
    return (
        FailureKind.WRONG_RECORD
        if any(one.names_record for one in found)
        else FailureKind.WRONG_VALUE
    )


def _why_differs(write: MadeCall, found: Sequence[ValueDifference]) -> str:
    if not found:
        return f"{write.text} had another effect than in the solution"
    values = ", ".join(f"{one.path} {one.found!r} (right: {one.expected!r})" for one in found[:3])
    return f"{write.name} with {values}"


def _touches(changes: Iterable[RowChange], rows: frozenset[RowKey]) -> bool:
    return any((change.table, change.key) in rows for change in changes)


def _common(write: MadeCall, changes: Iterable[RowChange]) -> RowKey | None:
    """A row that existed before, which both changed, and not alike."""
    expected = {(one.table, one.key): one for one in changes if one.before is not None}
    for one in write.result.changes:
        other = expected.get((one.table, one.key))
        if other is not None and not equal_rows(one.after, other.after):
            return one.table, one.key
    return None


def _row_text(row: RowKey) -> str:
    table, key = row
    return f"{table} {', '.join(map(str, key))}"


def _short(text: str) -> str:
    return one_line(text, 160)
