"""A stochastic policy without a model: the oracle that errs at random, turn by turn.

In each turn it makes the oracle's next call, or errs: it makes that call with one argument changed,
makes the call before once more, leaves the call out for later, or answers too early. With its call
it writes down which of the oracle's calls it regards as done, and it goes by the latest note alone.
So what it does depends on the window, even on `last:1`, and on the seed of the turn; and a fork
goes on as the episode itself might have.

Some errors cost nothing (a lookup that is repeated), some can be repaired (a call that is left
out), some cannot (a refund of the wrong amount, an early answer): credit must tell them apart.
"""

import re
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Self

import msgspec

from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Message, Reply, Window
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import FIXED_SUMMARY
from rehearsal_room.harness.policies.mutations import changed_calls
from rehearsal_room.scenarios.format import Call, Task

_NOTE = re.compile(r"Done so far: ([\d ]*)\.")


class Errors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The chances of the errors in one turn; otherwise the oracle's next call is made."""

    changed: float = 0.1  # one argument of the call is slightly wrong; it is taken for done
    repeated: float = 0.08  # the call before is made again
    left_out: float = 0.08  # the call after it is made first
    answered: float = 0.04  # the answer, whatever is left to do

    def __post_init__(self) -> None:
        chances = [self.changed, self.repeated, self.left_out, self.answered]
        if min(chances) < 0 or sum(chances) > 1:
            raise ValueError(f"errors: chances must be from 0 to 1 in sum, found {chances}")


class ErringOracle(AbstractAsyncContextManager["ErringOracle"]):
    """The policy. It holds nothing open."""

    name = "erring-oracle"

    def __init__(self, dialect: Dialect, errors: Errors) -> None:
        self._dialect = dialect
        self._errors = errors

    def agent(self, assignment: Assignment) -> Agent:
        """An agent whose choices follow from the seed, the turn and the window."""
        turns = sum(isinstance(event, StepTaken) for event in assignment.kept)
        return _ErringAgent(self._dialect, self._errors, assignment, turns)

    def statistics(self) -> dict[str, float]:
        """It counts nothing."""
        return {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None


class _ErringAgent:
    def __init__(self, dialect: Dialect, errors: Errors, assignment: Assignment, turn: int) -> None:
        self._dialect = dialect
        self._errors = errors
        self._assignment = assignment
        self._turn = turn

    async def reply(self, window: Window) -> Reply:
        """The next call or the answer; a fixed summary where one is asked for."""
        if window.asks_for_summary:
            return FIXED_SUMMARY
        turn, self._turn = self._turn, self._turn + 1
        chance = Random(f"{self._assignment.seed} {turn}")
        task = self._assignment.task
        done = done_so_far(window.messages)
        call, after = self._chosen(chance.random(), task, done)
        if call is None:
            return self._dialect.write((), task.answer, turn=turn)
        return self._dialect.write((call,), note_of(after), turn=turn)

    def _chosen(
        self, chance: float, task: Task, done: frozenset[int]
    ) -> tuple[Call | None, frozenset[int]]:
        """The call that is made (None: the answer is given), and the calls that are done then."""
        left = [number for number in range(len(task.oracle)) if number not in done]
        if not left:
            return None, done
        errors, first = self._errors, left[0]
        call = task.oracle[first]
        if (chance := chance - errors.answered) < 0:
            return None, done
        if (chance := chance - errors.repeated) < 0 and first:
            return task.oracle[first - 1], done
        if (chance := chance - errors.left_out) < 0 and len(left) > 1:
            return task.oracle[left[1]], done | {left[1]}
        if (chance - errors.changed) < 0:
            wrong = next((one for one, _ in changed_calls(call, self._schema_of(call))), call)
            return wrong, done | {first}
        return call, done | {first}

    def _schema_of(self, call: Call) -> dict[str, object]:
        tools = self._assignment.briefing.tools
        return next((dict(tool.schema) for tool in tools if tool.name == call.name), {})


def note_of(done: frozenset[int]) -> str:
    """Example: {0, 2} -> "Done so far: 0 2." """
    return f"Done so far: {' '.join(map(str, sorted(done)))}."


def done_so_far(messages: tuple[Message, ...]) -> frozenset[int]:
    """The calls in the latest note; none: there is no note."""
    for message in reversed(messages):
        found = _NOTE.search(message.content) if message.role == "assistant" else None
        if found is not None:
            return frozenset(map(int, found[1].split()))
    return frozenset()
