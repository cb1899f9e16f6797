"""What went wrong in the episodes of a log: the diagnoses that are stored with the verdicts, and
how many episodes have each kind of failure.

Every place that shows or counts kinds reads them here, so that all say the same. A log of an
earlier version has none; `rehearsal_room.judge.failures.reading` finds them then.
"""

import re
from collections.abc import Iterable, Mapping

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.core.mistakes import Diagnosis, FailureKind, Mistake
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.scenarios.checks import DECLINES, Finding

Diagnoses = Mapping[str, Diagnosis | None]  # by episode that is over; None: not found yet
_SEVERAL = re.compile(r"(\d+) such;")


def diagnoses_in(rows: Iterable[EpisodeRow]) -> dict[str, Diagnosis | None]:
    """The diagnoses that a log has of its episodes that are over."""
    return {row.episode: logged_diagnosis(row) for row in rows if row.ending is not None}


def logged_diagnosis(row: EpisodeRow) -> Diagnosis | None:
    """The diagnosis of an episode that is over; None: it is to be found in its steps. Without a
    verdict the ending says it all, except where a world failed: a call of the agent may show it."""
    if row.judge is not None:
        return row.diagnosis
    assert row.ending is not None
    kind = kind_of_ending(row.ending, None)
    if kind is None or kind is FailureKind.WORLD_FAILURE:
        return None
    return Diagnosis((mistake_of_ending(kind, row.error, row.num_steps),))


def count_kinds(diagnoses: Iterable[Diagnosis | None]) -> dict[str, int]:
    """The number of episodes of each kind, the most frequent first. An episode can have several
    kinds; a completed one can have habits only."""
    counts: dict[str, int] = {}
    for one in diagnoses:
        for kind in () if one is None else one.kinds:
            counts[str(kind)] = counts.get(str(kind), 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def mistake_of_ending(
    kind: FailureKind, error: str | None, num_steps: int, unjudged: str = ""
) -> Mistake:
    """The one mistake of an episode whose ending or label says it all (see `kind_of_ending`).
    `error` is the logged reason of the ending, `unjudged` why the judge could not judge."""
    why = error or ""
    if kind is FailureKind.UNJUDGED:
        why = unjudged or why
    return Mistake(kind, max(0, num_steps - 1), why or _WHY[kind])


_WHY = {
    FailureKind.WORLD_FAILURE: "the world failed",
    FailureKind.MODEL_FAILURE: "the model could not answer",
    FailureKind.MODEL_REFUSAL: "the model's provider withheld a reply",
    FailureKind.AGENT_FAILURE: "the agent's program failed",
    FailureKind.UNJUDGED: "there is no verdict",
    FailureKind.FORMAT_ERROR: "the reply broke the format",
}


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
