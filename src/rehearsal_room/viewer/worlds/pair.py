"""Two episodes side by side: their turns aligned by what was called, and where they part.

Turns are aligned as the longest common sequence of equal calls; turns between two equal ones are
put side by side. The episodes part at the first line whose calls or whose states differ.

They may be of two runs. Worlds can be compared when both began in the same state; else the turns
are aligned by calls alone, and `why_calls_alone` says why.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from rehearsal_room.harness.core.messages import Answer
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.viewer.reading.lines import EpisodeTableLine
from rehearsal_room.viewer.reading.plain import plain
from rehearsal_room.viewer.worlds.logged_world import changes_until, digest_at

_MOST = 400  # turns that are aligned by their calls; longer episodes are aligned by number
Same = Literal["call", "digest", "both", "none"]


class Aligned(msgspec.Struct, frozen=True):
    """One line: a turn of each episode (None: there is none beside the other), and what of them is
    the same."""

    a: int | None
    b: int | None
    same: Same  # "call": where worlds are not compared, the calls are the same


class RowDifference(msgspec.Struct, frozen=True):
    """A row that differs between the two worlds (None: the world does not have it)."""

    table: str
    key: list[Any]
    a: dict[str, Any] | None
    b: dict[str, Any] | None


class EpisodePair(msgspec.Struct, frozen=True):
    """Two episodes compared."""

    a: EpisodeTableLine
    b: EpisodeTableLine
    aligned: list[Aligned]
    parts_at: dict[str, int] | None  # the turns in which they part; None: they do not
    world_difference: list[RowDifference]  # after those turns
    end_difference: list[RowDifference]
    why_calls_alone: str | None = None  # None: the worlds are compared, too
    remarks: tuple[str, ...] = ()  # what else differs between the two


def pair_of(
    lines: tuple[EpisodeTableLine, EpisodeTableLine], a: Trajectory, b: Trajectory
) -> EpisodePair:
    """Compare two episodes, mostly of one task."""
    why = why_calls_alone(a, b)
    aligned = _aligned(a, b, with_states=why is None)
    parting = next((one for one in aligned if _parts(one, with_states=why is None)), None)
    ends = len(a.steps), len(b.steps)
    at = None
    if parting is not None:
        at = {
            "a": ends[0] if parting.a is None else parting.a,
            "b": ends[1] if parting.b is None else parting.b,
        }
    is_shown = at is not None and why is None
    return EpisodePair(
        *lines,
        aligned,
        at,
        _difference(a, b, at["a"] + 1, at["b"] + 1) if at is not None and is_shown else [],
        _difference(a, b, *ends) if why is None else [],
        why,
        tuple(_remarks(a, b)),
    )


def why_calls_alone(a: Trajectory, b: Trajectory) -> str | None:
    """Why the worlds of two episodes cannot be compared; None: they can."""
    first, second = a.started, b.started
    if not first.start_digest or not second.start_digest:
        return "The state of a world is not known, so the turns are aligned by their calls alone."
    if first.start_digest == second.start_digest:
        return None
    if first.scenario_digest != second.scenario_digest:
        return (
            "The packages of the two worlds differ, and so do the states in which the episodes "
            "began: the turns are aligned by their calls alone."
        )
    return (
        "The two episodes began in different states of the world: the turns are aligned by their "
        "calls alone."
    )


def _remarks(a: Trajectory, b: Trajectory) -> Iterator[str]:
    first, second = a.started, b.started
    if (first.scenario, first.task) != (second.scenario, second.task):
        yield (
            f"These are different tasks: {first.scenario}:{first.task} and "
            f"{second.scenario}:{second.task}."
        )
    elif first.instruction != second.instruction:
        yield "The task is worded differently in the two episodes."
    is_same_start = first.start_digest == second.start_digest
    if is_same_start and first.scenario_digest != second.scenario_digest:
        yield "The packages of the two worlds differ; the episodes began in the same state."


def _parts(line: Aligned, *, with_states: bool) -> bool:
    """Whether two episodes part at a line."""
    return line.same != "both" if with_states else line.same != "call"


def _aligned(a: Trajectory, b: Trajectory, *, with_states: bool) -> list[Aligned]:
    first, second = _calls(a), _calls(b)
    return [
        Aligned(one, other, _sameness(a, b, one, other, first, second, with_states))
        for one, other in align(first, second)
    ]


def align(a: Sequence[Any], b: Sequence[Any]) -> list[tuple[int | None, int | None]]:
    """Align two sequences; indices into both, None where nothing is beside the other.

    Example: "abcd", "abxcd" -> (0, 0) (1, 1) (None, 2) (2, 3) (3, 4)
    """
    if max(len(a), len(b)) > _MOST:
        return _beside(0, len(a), 0, len(b))
    best = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            if a[i] == b[j]:
                best[i][j] = best[i + 1][j + 1] + 1
            else:
                best[i][j] = max(best[i + 1][j], best[i][j + 1])
    lines: list[tuple[int | None, int | None]] = []
    i = j = from_a = from_b = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            lines += [*_beside(from_a, i, from_b, j), (i, j)]
            i, j = i + 1, j + 1
            from_a, from_b = i, j
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return lines + _beside(from_a, len(a), from_b, len(b))


def _beside(from_a: int, to_a: int, from_b: int, to_b: int) -> list[tuple[int | None, int | None]]:
    return [
        (
            from_a + index if from_a + index < to_a else None,
            from_b + index if from_b + index < to_b else None,
        )
        for index in range(max(to_a - from_a, to_b - from_b))
    ]


def _calls(trajectory: Trajectory) -> list[str]:
    """What each turn did, as text."""
    found = []
    for step in trajectory.steps:
        calls = [(call.name, plain(call.arguments)) for call in step.executed_calls]
        answer = step.decision.text if isinstance(step.decision, Answer) else ""
        found.append(msgspec.json.encode([calls, answer], order="deterministic").decode())
    return found


def _sameness(
    a: Trajectory,
    b: Trajectory,
    one: int | None,
    other: int | None,
    first: Sequence[str],
    second: Sequence[str],
    with_states: bool,
) -> Same:
    if one is None or other is None:
        return "none"
    if not with_states:
        return "call" if first[one] == second[other] else "none"
    has_digest = digest_at(a, one + 1) == digest_at(b, other + 1)
    if first[one] == second[other]:
        return "both" if has_digest else "call"
    return "digest" if has_digest else "none"


def _difference(a: Trajectory, b: Trajectory, turn_a: int, turn_b: int) -> list[RowDifference]:
    """The rows that differ after so many turns of each; both began in the same state."""
    changes_a = _by_row(changes_until(a, turn_a))
    changes_b = _by_row(changes_until(b, turn_b))
    found = []
    for row in changes_a | changes_b:
        in_a, in_b = changes_a.get(row), changes_b.get(row)
        known = in_a or in_b
        assert known is not None
        rows = [known.before if one is None else one.after for one in (in_a, in_b)]
        if repr(rows[0]) != repr(rows[1]):
            found.append(
                RowDifference(known.table, plain(known.key), plain(rows[0]), plain(rows[1]))
            )
    return sorted(found, key=lambda one: (one.table, repr(one.key)))


def _by_row(changes: Sequence[RowChange]) -> dict[tuple[str, Any], RowChange]:
    return {(change.table, change.key): change for change in changes}
