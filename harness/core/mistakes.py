"""What went wrong in an episode: the kinds of mistakes, and what is stored of them with a verdict.

`rehearsal_room.judge.failures` finds them, from the episode's steps and the task's solution.
"""

from enum import StrEnum
from typing import Annotated

import msgspec


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

Turn = Annotated[int, msgspec.Meta(ge=0, le=2**31)]


class Mistake(msgspec.Struct, frozen=True, gc=False):
    """One thing that went wrong."""

    kind: FailureKind
    turn: Turn  # from 0: the step that made it; where something is missing, the last one
    why: str  # a sentence
    tool: str = ""  # the tool that was called, or should have been; empty: none


class Diagnosis(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The mistakes of an episode that is over."""

    mistakes: tuple[Mistake, ...] = ()  # by turn, the first of each kind and tool
    has_solution: bool = True  # False: the solution is not known, so findings alone were read

    @property
    def kinds(self) -> tuple[FailureKind, ...]:
        """The kinds of its mistakes, each once."""
        return tuple(dict.fromkeys([one.kind for one in self.mistakes]))
