"""What went wrong in an episode, by kinds: the words, and what a verdict alone shows of them.

Every report counts failed episodes by these kinds. Here they follow from the ending, the label and
the findings of the verdict, without reading a step. `rehearse failures` (judge.failures) reads the
steps and compares them with the task's solution; it names more, and the turn.
"""

import re
from collections.abc import Iterable
from enum import StrEnum

from rehearsal_room.harness.core.events import Ending, EpisodeEnded, Judged, Label
from rehearsal_room.harness.dialects.imitation import call_as_text
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.scenarios.checks import DECLINES, Finding, failed


class FailureKind(StrEnum):
    """A kind of failure."""

    WRONG_RECORD = "wrong_record"  # the right change, of another record
    WRONG_VALUE = "wrong_value"  # the right record, with a wrong field or value
    MISSING_WRITE = "missing_write"
    UNASKED_CHANGE = "unasked_change"
    DUPLICATE_WRITE = "duplicate_write"
    WRITE_WITHOUT_LOOKUP = "write_without_lookup"
    TOOL_OVERUSE = "tool_overuse"
    WRONG_REFUSAL = "wrong_refusal"
    MISSING_REFUSAL = "missing_refusal"
    WRONG_ANSWER = "wrong_answer"  # it lacks what was asked, or says something else
    CONTRADICTING_ANSWER = "contradicting_answer"  # it states what the rows do not have
    CALL_AS_TEXT = "call_as_text"  # the answer contains a call, which was not made
    CUT_OFF = "cut_off"
    FORMAT_ERROR = "format_error"
    WORLD_FAILURE = "world_failure"
    MODEL_FAILURE = "model_failure"
    AGENT_FAILURE = "agent_failure"  # the user's own program raised
    MODEL_REFUSAL = "model_refusal"  # the model's provider withheld a reply
    UNJUDGED = "unjudged"
    GOAL_NOT_MET = "goal_not_met"  # a check of the task failed, and nothing tells more


# Habits that can end well: they are counted in completed episodes, too.
HABITS = frozenset({FailureKind.WRITE_WITHOUT_LOOKUP, FailureKind.TOOL_OVERUSE})
_SEVERAL = re.compile(r"(\d+) such;")


def kinds_in(reader: LogReader, rows: Iterable[EpisodeRow]) -> dict[str, int]:
    """The number of episodes of each kind, the most frequent first. An episode can have several
    kinds; one that is completed, or not over, has none. Raises LogError."""
    failing = {
        row.episode: row
        for row in rows
        if row.ending is not None and row.label is not Label.COMPLETED
    }
    if not failing:
        return {}
    verdicts: dict[tuple[str, int], Judged] = {}
    answers: dict[tuple[str, int], str] = {}
    for record in reader.milestones():
        if record.episode in failing:
            key = (record.episode, record.attempt)
            if isinstance(record.event, Judged):
                verdicts[key] = record.event
            elif isinstance(record.event, EpisodeEnded):
                answers[key] = record.event.answer
    counts: dict[str, int] = {}
    for row in failing.values():
        key = (row.episode, row.attempt)
        verdict = verdicts.get(key)
        findings = () if verdict is None else verdict.findings
        assert row.ending is not None
        for kind in kinds_of_verdict(row.ending, row.label, findings, answers.get(key, "")):
            counts[str(kind)] = counts.get(str(kind), 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def kinds_of_verdict(
    ending: Ending, label: Label | None, findings: Iterable[Finding], answer: str = ""
) -> tuple[FailureKind, ...]:
    """The kinds that a verdict shows, each once; none for an episode that is completed."""
    if label is Label.COMPLETED:
        return ()
    if ending is Ending.ANSWERED and call_as_text(answer) is not None:
        return (FailureKind.CALL_AS_TEXT,)
    if (outside := kind_of_ending(ending, label)) is not None:
        return (outside,)
    kinds = [kind_of_finding(finding) for finding in failed(findings)]
    if not _OF_WRITES.isdisjoint(kinds):  # the change of other rows may be the other half of it
        kinds = [kind for kind in kinds if kind is not FailureKind.UNASKED_CHANGE]
    if ending.is_truncation:
        kinds = [FailureKind.CUT_OFF, *(kind for kind in kinds if kind not in _LEFT_UNDONE)]
    return tuple(dict.fromkeys(kinds)) or (FailureKind.GOAL_NOT_MET,)


_OF_WRITES = frozenset(
    {
        FailureKind.WRONG_RECORD,
        FailureKind.WRONG_VALUE,
        FailureKind.MISSING_WRITE,
        FailureKind.DUPLICATE_WRITE,
    }
)
# What follows from being cut off.
_LEFT_UNDONE = frozenset(
    {
        FailureKind.MISSING_WRITE,
        FailureKind.WRONG_ANSWER,
        FailureKind.MISSING_REFUSAL,
        FailureKind.GOAL_NOT_MET,
    }
)


def kind_of_ending(ending: Ending, label: Label | None) -> FailureKind | None:
    """The kind of an episode whose ending and label say it all; None: its steps matter."""
    if ending is Ending.WORLD_ERROR or label is Label.ENVIRONMENT_ERROR:
        return FailureKind.WORLD_FAILURE
    if ending is Ending.POLICY_ERROR:
        return FailureKind.MODEL_FAILURE
    if ending is Ending.AGENT_FAILED:
        return FailureKind.AGENT_FAILURE
    if ending is Ending.MODEL_REFUSED:
        return FailureKind.MODEL_REFUSAL
    if label is None:
        return FailureKind.UNJUDGED
    if ending is Ending.FORMAT_ERROR:
        return FailureKind.FORMAT_ERROR
    return None


def kind_of_finding(finding: Finding) -> FailureKind:
    """The kind that a failed finding shows. It knows those of `scenarios.checks.Check`; one that a
    task's author named otherwise shows only that a check failed.

    Example: "orders 1042 updated", found "the row was not updated" -> missing_write
    """
    name, found = finding.name, finding.found
    if name == DECLINES:
        return FailureKind.MISSING_REFUSAL
    if name.startswith("answer "):
        return FailureKind.WRONG_ANSWER
    if finding.kind == "guard":
        return (
            FailureKind.WRONG_RECORD if name.endswith(" untouched") else FailureKind.UNASKED_CHANGE
        )
    if name.endswith(" updated"):
        missing = found == "the row was not updated"
        return FailureKind.MISSING_WRITE if missing else FailureKind.WRONG_VALUE
    if name.endswith(" deleted"):
        return FailureKind.MISSING_WRITE
    if (several := _SEVERAL.match(found)) is not None:
        if int(several[1]):
            return FailureKind.DUPLICATE_WRITE
        return (
            FailureKind.MISSING_WRITE
            if found.endswith("new rows: none")
            else FailureKind.WRONG_VALUE
        )
    return FailureKind.GOAL_NOT_MET
