"""Calls played on a fresh lease, as an episode that can be judged."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import StoredState, ToolResult
from rehearsal_room.envpool.store.blocking import BlockingLease, BlockingWorld
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, EpisodeStarted, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply, UserTurn
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.rollout.episode import answer_of_steps
from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.core.automaton import START, answer_to
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.format import Call, Task, Utterance

Fact = tuple[str, str | None, str]  # a call's text, error and digest


class Played(msgspec.Struct, frozen=True):
    """Calls and an answer that were played, and their results."""

    lease: BlockingLease
    trajectory: Trajectory
    calls: tuple[Call, ...]
    answer: str
    results: tuple[ToolResult, ...]
    changes: tuple[RowChange, ...]  # net
    state: StoredState
    before: tuple[
        BlockingLease, ...
    ] = ()  # the world before each call; empty: not kept, or a dialogue

    @property
    def facts(self) -> list[Fact]:
        """What must be equal each time the calls are played."""
        return [(result.text, result.error, result.digest) for result in self.results]


def play(
    world: BlockingWorld,
    task: Task,
    calls: Sequence[Call],
    answer: str,
    utterances: Sequence[Utterance] | None = None,
    *,
    keep: bool = False,
    known: Played | None = None,
) -> Played:
    """Play the calls, one for each step, on a fresh lease, then the answer.

    In a dialogue with an automaton the agent says `utterances` between them (None: those of the
    task, as far as there are calls before them), and the answer is all that it said.

    With `keep`, the result has the world before each call. The first calls that are equal to those
    of `known`, which was kept in the same world, are not made again.
    """
    shared = 0 if known is None else _num_equal(calls, known.calls[: len(known.before)])
    lease = world.lease()
    if known is not None and shared:
        lease = known.before[shared].fork() if shared < len(known.before) else known.lease.fork()
    talk = _Talk(lease, task, utterances)
    keep = keep and talk.user is None
    results: list[ToolResult] = []
    if known is not None:
        results += known.results[:shared]
        talk.steps += known.trajectory.steps[:shared]
    before: list[BlockingLease] = []
    for index, call in enumerate(calls[shared:], shared):
        if keep:
            before.append(lease.fork())
        talk.say_after(index)
        result = lease.call(call.name, call.arguments)
        results.append(result)
        act = Act((AgentCall(call.name, call.arguments, f"c{index}-0"),))
        talk.steps.append(StepTaken(Reply(), act, (result,)))
    talk.say_after(len(calls))
    if talk.user is not None:
        talk.say(answer)
        answer = answer_of_steps(talk.steps)
    state = lease.state()
    steps = tuple(talk.steps)
    ended = EpisodeEnded(Ending.ANSWERED, answer, len(steps), state)
    changes = net_changes(result.changes for step in steps for result in step.executed_results)
    trajectory = Trajectory("played", 1, started_event(world, task), steps, ended)
    return Played(
        lease=lease,
        trajectory=trajectory,
        calls=tuple(calls),
        answer=answer,
        results=tuple(results),
        changes=changes,
        state=state,
        before=tuple(before),
    )


def _num_equal(calls: Sequence[Call], others: Sequence[Call]) -> int:
    """How many of the first calls are equal."""
    pairs = zip(calls, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class _Talk:
    """The talk with the automaton of a task, and the steps of the whole play."""

    def __init__(
        self, lease: BlockingLease, task: Task, utterances: Sequence[Utterance] | None
    ) -> None:
        self.user = task.user if isinstance(task.user, UserAutomaton) else None
        self.steps: list[StepTaken] = []
        self._lease = lease
        self._utterances = task.utterances if utterances is None else utterances
        self._state = START

    def say_after(self, num_calls: int) -> None:
        """Say what is said after so many calls."""
        for one in self._utterances if self.user is not None else ():
            if one.after == num_calls:
                self.say(one.text)

    def say(self, text: str) -> None:
        """Say something to the user, who may make calls of its own."""
        assert self.user is not None
        if self._state.ended:
            return
        self._state, heard = answer_to(self.user, self._state, text)
        number = len(self.steps)
        calls = tuple(
            [
                AgentCall(call.name, call.arguments, f"c{number}-{index}")
                for index, call in enumerate(heard.calls)
            ]
        )
        results = tuple([self._lease.call(call.name, call.arguments) for call in calls])
        turn = UserTurn(heard.text, heard.ended, calls, results)
        self.steps.append(StepTaken(Reply(text), Answer(text), (), user=turn))


def started_event(world: States, task: Task) -> EpisodeStarted:
    """The start event of a played episode."""
    awm = world.scenario.awm
    return EpisodeStarted(
        scenario=world.scenario.name,
        task=task.id,
        instruction=task.instruction,
        group="played",
        member=0,
        group_size=1,
        seed=0,
        policy="played",
        dialect="native",
        history="full",
        fingerprint="",
        scenario_digest=world.scenario.digest,
        start_digest=world.start_digest,
        seeding="" if awm is None else awm.seeding,
        is_dialogue=task.is_dialogue,
        tags=task.tags,
    )


def format_call(call: Call) -> str:
    """A call in one line.

    Example: format_call(Call("pay_fine", {"member_id": 2})) -> "pay_fine(member_id=2)"
    """
    arguments: dict[str, Any] = call.arguments
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def difference(one: Played, other: Played) -> str:
    """The first difference between two ends, in words."""
    if one.answer != other.answer:
        return f"the answer is {one.answer!r} where the oracle's is {other.answer!r}"
    expected = {(change.table, change.key): change for change in other.changes}
    for change in one.changes:
        same = expected.pop((change.table, change.key), None)
        if same is None:
            return f"{_row(change)} changed, but not in the oracle"
        if change.after != same.after:
            return f"{_row(change)} {_columns(change.after, same.after)}"
    for change in expected.values():
        return f"{_row(change)} is unchanged, but the oracle changes it"
    return "nothing that is stored differs"


def divergence(first: Played, repeated: Sequence[Fact]) -> str | None:
    """The first call with another result when it was repeated; None: there is none."""
    for index, (one, two) in enumerate(zip(first.facts, repeated, strict=True)):
        if one != two:
            what = f"{one[0]!r} and {two[0]!r}" if one[0] != two[0] else "two different states"
            return f"call {index + 1}, {format_call(first.calls[index])}, gives {what}"
    return None


def _row(change: RowChange) -> str:
    return f"{change.table} {', '.join(map(str, change.key))}"


def _columns(found: Row | None, expected: Row | None) -> str:
    if found is None or expected is None:
        return "does not exist" if found is None else "exists, but not in the oracle's state"
    moves = (
        f"{column}={value!r} where the oracle has {expected.get(column)!r}"
        for column, value in found.items()
        if value != expected.get(column)
    )
    return f"has {', '.join(moves)}"
