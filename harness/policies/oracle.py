"""The oracle: solves each task as its author would."""

from collections.abc import Callable, Sequence

from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import (
    FixedRepliesAgent,
    num_moves_in,
    solution_replies,
)
from rehearsal_room.harness.policies.solution_left import Made, calls_left
from rehearsal_room.scenarios.format import Call, Scenario, Task

WritesOf = Callable[[Scenario, Task], Sequence[bool]]  # of each call: whether it changes rows


class OraclePolicy:
    """Makes the task's oracle calls, one a turn, says what it says, and gives its answer.

    An episode that it takes over it ends with those calls that were not made yet; it puts nothing
    right that was done wrong (see `finds_its_place`). `writes_of`: see `calls_left`; None: it is
    not known.
    """

    name = "oracle"

    def __init__(self, dialect: Dialect, writes_of: WritesOf | None = None) -> None:
        self._dialect = dialect
        self._writes_of = writes_of
        self._replies: dict[tuple[str, str], tuple[Reply, ...]] = {}  # shared by a task's episodes

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that plays the task's oracle."""
        task = assignment.task
        steps = [event for event in assignment.kept if isinstance(event, StepTaken)]
        if steps and finds_its_place(assignment.scenario, task):
            return FixedRepliesAgent(self._rest(assignment, steps))
        key = (assignment.scenario.digest, task.id)
        replies = self._replies.get(key)
        if replies is None:
            replies = self._replies[key] = solution_replies(
                self._dialect, task, task.oracle, task.answer, task.utterances
            )
        return FixedRepliesAgent(replies, num_moves_in(assignment))

    def _rest(self, assignment: Assignment, steps: Sequence[StepTaken]) -> tuple[Reply, ...]:
        task = assignment.task
        writes = None if self._writes_of is None else self._writes_of(assignment.scenario, task)
        left = calls_left(task.oracle, made_in(steps), writes)
        calls = [task.oracle[index] for index in left]
        return rest_replies(self._dialect, calls, task.answer, first=len(steps))


def finds_its_place(scenario: Scenario, task: Task) -> bool:
    """Whether the oracle goes on with the calls that were not made. In dialogues and benchmarks it
    goes on after as many moves as there were: what it says stands between certain calls."""
    return scenario.suite is None and not (task.is_dialogue or task.utterances)


def made_in(steps: Sequence[StepTaken]) -> list[Made]:
    """The calls of an agent's turns, in order; one whose result is not known yet succeeds."""
    return [
        Made(call.name, call.arguments, number < len(results) and results[number].is_error)
        for step, results in ((step, step.executed_results) for step in steps)
        for number, call in enumerate(step.executed_calls)
        if step.user is None
    ]


def rest_replies(
    dialect: Dialect, calls: Sequence[Call], answer: str, *, first: int
) -> tuple[Reply, ...]:
    """The replies of an agent that makes these calls from turn `first` on, one a turn, and then
    answers. Raises ValueError for an answer that the dialect cannot express."""
    last = first + len(calls)
    made = [dialect.write((call,), "", turn=turn) for turn, call in enumerate(calls, first)]
    return (*made, dialect.write((), answer, turn=last))
