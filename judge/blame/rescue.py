"""The smallest replaced action of a turn after which the oracle completes the task.

An edit is played as `rehearse run --from RUN/EPISODE@TURN --edit … -p oracle` plays it, and counts
when the judge says that the task was completed. Smaller ones come first: one argument, one call
that is left out or comes before, several arguments, another answer, the calls that put right what
earlier turns did.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from rehearsal_room.harness.continuation.edits import Edit, EditedCall, EditedTurn
from rehearsal_room.harness.core.messages import Act, AgentCall
from rehearsal_room.harness.policies.solution_left import differing_arguments
from rehearsal_room.judge.blame.forks import Fork, Origin, Outcome
from rehearsal_room.judge.blame.report import Rescue, RescueKind
from rehearsal_room.judge.failures.calls import call_text
from rehearsal_room.scenarios.core.short_text import one_line
from rehearsal_room.scenarios.format import Call

_ORDER: tuple[RescueKind, ...] = (
    *("argument", "drop", "insert", "arguments", "answer", "put_right"),
)
_LONGEST = 300  # characters of a text
_MISSING = object()


class Candidate(NamedTuple):
    """An edit of a turn."""

    fork: Fork
    kind: RescueKind
    size: int
    found: str
    instead: str


def candidates_at(
    origin: Origin, turn: int, *, left: Sequence[Call], way: Sequence[Call]
) -> list[Candidate]:
    """Edits of a turn, the smallest first. `left` are the calls of the solution that are not made
    before it; `way` are calls that lead from the state before it to the solution's rows."""
    step = origin.trajectory.steps[turn]
    calls = step.decision.calls if isinstance(step.decision, Act) else ()
    found = [
        *_of_calls(origin, turn, calls, left),
        *_instead_of_turn(origin, turn, calls, way),
    ]
    return sorted(found, key=_rank)


def _rank(one: Candidate) -> tuple[int, int]:
    return one.size, _ORDER.index(one.kind)


def rescue_of(tried: Sequence[tuple[Candidate, Outcome]]) -> Rescue | None:
    """The smallest edit that completed the task; None: none did."""
    worked = [candidate for candidate, outcome in tried if outcome.succeeds]
    if not worked:
        return None
    best = min(worked, key=_rank)
    edit = "" if best.fork.edit == Edit() else msgspec.json.encode(best.fork.edit).decode()
    return Rescue(
        turn=best.fork.turn,
        kind=best.kind,
        size=best.size,
        found=one_line(best.found, _LONGEST),
        instead=one_line(best.instead, _LONGEST),
        edit=edit,
        command=_command(best.fork, edit),
        tried=len(tried),
    )


def _command(fork: Fork, edit: str) -> str:
    words = ["rehearse", "run", "--from", f"{fork.origin.name}@{fork.turn}"]
    words += ["--edit", edit] if edit else []
    return shlex.join([*words, "-p", "oracle"])


def _of_calls(
    origin: Origin, turn: int, calls: Sequence[AgentCall], left: Sequence[Call]
) -> Iterator[Candidate]:
    for index, call in enumerate(calls):
        own = call_text(call.name, call.arguments)

        def edited(*others: Call, at: int = index) -> Fork:
            kept = [EditedCall(one.name, one.arguments) for one in calls]
            kept[at : at + 1] = [EditedCall(one.name, one.arguments) for one in others]
            turns = (EditedTurn(calls=tuple(kept)),) if kept else ()
            return Fork(origin, turn, Edit(turns=turns))

        given = call.arguments if isinstance(call.arguments, dict) else {}
        if Call(call.name, given) in left:
            first = left[0]
            if (first.name, first.arguments) != (call.name, given):
                before = call_text(first.name, first.arguments)
                yield Candidate(edited(first, Call(call.name, given)), "insert", 1, own, before)
            continue
        yield Candidate(edited(), "drop", 1, own, "the call is left out")
        alike = [one for one in left if one.name == call.name]
        for other in alike[:4]:
            names = differing_arguments(given, other.arguments)
            for chosen in [[name] for name in names] + ([names] if len(names) > 1 else []):
                changed = Call(call.name, _with(given, other.arguments, chosen))
                kind: RescueKind = "argument" if len(chosen) == 1 else "arguments"
                text = call_text(changed.name, changed.arguments)
                yield Candidate(edited(changed), kind, len(chosen), own, text)


def _with(given: dict[str, Any], other: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Arguments in which these are the other's."""
    taken = {name: other.get(name, _MISSING) for name in names}
    merged = {**given, **taken}
    return {name: value for name, value in merged.items() if value is not _MISSING}


def _instead_of_turn(
    origin: Origin, turn: int, calls: Sequence[AgentCall], way: Sequence[Call]
) -> Iterator[Candidate]:
    found = "; ".join(call_text(one.name, one.arguments) for one in calls) or "the reply"
    if way:
        turns = tuple([EditedTurn(calls=(EditedCall(one.name, one.arguments),)) for one in way])
        together = EditedTurn(calls=tuple([EditedCall(one.name, one.arguments) for one in way]))
        text = "; ".join(call_text(one.name, one.arguments) for one in way)
        kind: RescueKind = "put_right" if calls else "insert"
        yield Candidate(Fork(origin, turn, Edit(turns=turns)), kind, len(way), found, text)
        if len(way) > 1:
            packed = Fork(origin, turn, Edit(turns=(together,)))
            yield Candidate(packed, kind, len(way), found, text)
    elif not calls:
        yield Candidate(Fork(origin, turn), "answer", 1, found, f"answer: {origin.task.answer}")
