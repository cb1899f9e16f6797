"""What faults on purpose did to a run, counted from its log.

A fault is *injected* when it was to come, and has *landed* when it hit something. Of those that
landed, one is *lost* when something ended with it: the episode, as a failure of the model server
or of the world, in the turn that it hit; or, where it hit no episode, the run itself. All others
have *survived*. *Retried* are those after which something was done again: a request, a call, an
episode from its last logged turn.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from rehearsal_room.harness.core.events import Ending, FaultInjected
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.log.schema import EpisodeRow

# Endings in which a fault of the model server, or of the world, may have resulted.
_OF_POLICY = {Ending.POLICY_ERROR, Ending.TIME_LIMIT}
_OF_WORLD = {Ending.WORLD_ERROR, Ending.TIME_LIMIT}


class FaultCounts(msgspec.Struct, frozen=True):
    """How many faults of one kind there were, by what came of them."""

    injected: int = 0
    landed: int = 0
    survived: int = 0
    retried: int = 0
    lost: int = 0


def faults_in(reader: LogReader) -> dict[str, FaultCounts]:
    """The faults of a run by their kind, such as `tools.lost_reply`; empty: none was injected.

    In a run that was interrupted, faults of episodes that have not ended are neither survived nor
    lost.
    """
    faults = reader.faults()
    if not faults:
        return {}
    rows = {row.episode: row for row in reader.episodes()}
    is_whole = all(row.ending is not None for row in rows.values())
    last = reader.last_position()
    counts: dict[str, FaultCounts] = {}
    for position, fault in sorted(faults, key=lambda one: one[1].fault):
        if fault.episode:
            was_lost = _was_lost(fault, rows.get(fault.episode))
        else:
            was_lost = position > last and not is_whole
        counts[fault.fault] = _plus(counts.get(fault.fault, FaultCounts()), fault, was_lost)
    return counts


def _was_lost(fault: FaultInjected, row: EpisodeRow | None) -> bool | None:
    """Whether the episode ended with the fault; None: it has not ended."""
    if row is None or row.ending is None or row.ending is Ending.CANCELLED:
        return None
    if fault.fault.startswith("policy."):
        return row.ending in _OF_POLICY and row.num_steps <= fault.turn
    return row.ending in _OF_WORLD and row.num_steps <= fault.turn + 1


def _plus(counts: FaultCounts, fault: FaultInjected, was_lost: bool | None) -> FaultCounts:
    landed = fault.landed
    return FaultCounts(
        counts.injected + 1,
        counts.landed + landed,
        counts.survived + (landed and was_lost is False),
        counts.retried + (landed and fault.retried),
        counts.lost + (landed and was_lost is True),
    )


def fault_lines(faults: Mapping[str, FaultCounts]) -> Iterator[str]:
    """A line for each kind of fault; none where there was none.

    Example: "tools.lost_reply: 12 injected, 12 landed, 12 survived, 12 retried, 0 lost"
    """
    for name, counts in faults.items():
        fields: Sequence[str] = counts.__struct_fields__
        yield f"{name}: " + ", ".join(f"{getattr(counts, field):,} {field}" for field in fields)
