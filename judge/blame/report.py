"""What is said about the turn that is to blame, as `rehearse failures blame --json` writes it."""

from typing import Literal

import msgspec

from rehearsal_room.harness.outcomes.intervals import Interval

# What the oracle does from a state: it completes the task by going on where the agent is; it
# completes it only if it puts right what was done; no way was found; it has no solution to play.
OracleWord = Literal["goes_on", "puts_right", "lost", "unknown"]
RescueKind = Literal["argument", "drop", "arguments", "insert", "replace", "answer", "put_right"]


class TurnState(msgspec.Struct, frozen=True):
    """The state after some turns, and what came of the episodes that went on from there."""

    turns: int  # that were played: 0 is the start
    chance: Interval[float] | None  # of success, by the policy; None: no fork has a verdict
    completed: int  # of the policy's forks
    graded: int  # of them, with a verdict
    ungraded: int
    oracle: OracleWord
    calls_left: int | None = None  # of the oracle; None: it does not complete the task from here


class Rescue(msgspec.Struct, frozen=True):
    """The smallest replaced action of the blamed turn after which the oracle completes the task."""

    turn: int  # from 0
    kind: RescueKind
    size: int  # arguments, or calls, that are changed; 1 for an answer
    found: str  # what the agent did there
    instead: str  # what is done in its place
    edit: str  # of `--edit`, a JSON object; empty: nothing is written, the oracle goes on
    command: str
    tried: int  # edits that were played to find it


class Blame(msgspec.Struct, frozen=True):
    """Which turn of a failed episode is to blame. Turns count
    from 0, in sentences from 1."""

    run: str
    episode: str
    scenario: str
    task: str
    policy: str  # that played the forks of the chances; empty: none did
    label: str  # of the episode; empty: it has none
    ending: str
    actions: tuple[str, ...]  # what the agent did in each turn, in one line
    states: tuple[TurnState, ...]  # before each turn
    blamed: int | None  # None: it could not be found out
    # The last turn before which a solution was found; None: none was found from any state.
    lost_at: int | None
    # The first turn since which an oracle that puts nothing right does not complete the task; None:
    # there is no solution to play.
    wrong_since: int | None
    why: str  # why this turn, in a sentence
    rescue: Rescue | None  # None: no edit of the blamed turn was found that rescues
    notes: tuple[str, ...] = ()
    kept: str = ""  # the folder with all forks; empty: they were not kept
