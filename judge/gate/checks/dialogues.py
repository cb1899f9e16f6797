"""The gate's checks of a dialogue with an automaton: what the user says, and when.

automaton   ids are unique; every line can be said; the talk ends; over all states no answer has
            a value of a line that was not said yet, nor has the instruction
oracle      it hears every line, passes no value of a line before it has heard it, and the user
            ends the talk at its answer and not before
silent      an oracle that stops at any of its questions does not complete a change; of a
            question, some call needs a value that the user says
"""

from collections.abc import Iterator
from typing import Any

from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.gate.core.task_runner import TaskRunner
from rehearsal_room.scenarios.checks import says
from rehearsal_room.scenarios.core.automaton import START, Heard, TalkState, answer_to, reachable
from rehearsal_room.scenarios.core.dialogue import UserAutomaton, UserLine
from rehearsal_room.scenarios.format import Task


def check_talk(runner: TaskRunner, task: Task) -> None:
    """Check the dialogue of a task, if it has an automaton."""
    if not isinstance(task.user, UserAutomaton):
        return
    for fault in talk_faults(task, task.user):
        runner.log.fail("dialogue", fault, task)
    if task.kind != "change":
        return  # to decline at once is right; that a question needs the user is seen in its calls
    for number, one in enumerate(task.utterances):
        calls, spoken = task.oracle[: one.after], task.utterances[:number]
        stopped = runner.play(task, calls, task.answer, spoken)
        label = runner.verdict(task, stopped, "stopping before a question").label
        if label is Label.COMPLETED:
            why = f"an agent that does not say {one.text!r} completes it: the user is not needed"
            runner.log.fail("dialogue", why, task)


def talk_faults(task: Task, user: UserAutomaton) -> Iterator[str]:
    """A sentence for each fault of an automaton, and of the oracle's talk with it."""
    yield from _faults_of_ids(user)
    yield from early_disclosures(task.instruction, user)
    yield from _faults_of_states(user)
    yield from _faults_of_oracle(task, user)


def early_disclosures(instruction: str, user: UserAutomaton) -> Iterator[str]:
    """A sentence for each value that is known before the line that has it is spoken: in the
    instruction, or in any answer over all states of the automaton."""
    for line in user.lines:
        for value in line.values:
            if not says(line.text, value):
                yield f"line {line.id!r} does not say its value {value!r}"
            if says(instruction, value):
                yield f"the instruction has the value {value!r} of line {line.id!r}"
    found: dict[str, None] = {}
    for _, _, heard, after in reachable(user):
        for one, value in _unsaid_values(user, after):
            if says(heard.text, value):
                found[f"the answer {heard.text!r} has the value {value!r} of line {one!r}"] = None
    yield from found


def _unsaid_values(user: UserAutomaton, state: TalkState) -> Iterator[tuple[str, str]]:
    for line in user.lines:
        if line.id not in state.used:
            yield from [(line.id, value) for value in line.values]


def _faults_of_ids(user: UserAutomaton) -> Iterator[str]:
    ids = [line.id for line in user.lines]
    if not ids:
        yield "its user has no line"
    for name in ids:
        if ids.count(name) > 1:
            yield f"two lines have the id {name!r}"
    for line in user.lines:
        for name in line.after:
            if name not in ids:
                yield f"line {line.id!r} comes after {name!r}, which is not a line"


def _faults_of_states(user: UserAutomaton) -> Iterator[str]:
    spoken = frozenset[str]().union(*(after.used for _, _, _, after in reachable(user)))
    for line in user.lines:
        if line.id not in spoken:
            yield f"line {line.id!r} can never be said"
    state = START
    for _ in range(len(user.lines) + 1):
        state, _ = answer_to(user, state, "…")
    if not state.ended:
        yield "its user never ends the talk"


def _faults_of_oracle(task: Task, user: UserAutomaton) -> Iterator[str]:
    state, missing = START, [line for line in user.lines if line.values]
    spoken: list[tuple[TalkState, Heard]] = []
    for index in range(len(task.oracle) + 1):
        for one in [one for one in task.utterances if one.after == index]:
            state, heard = answer_to(user, state, one.text)
            spoken.append((state, heard))
            if heard.ended:
                yield f"the user ends the talk when the oracle says {one.text!r}"
                return
        if index == len(task.oracle):
            break
        missing = [line for line in missing if line.id not in state.used]
        texts = [str(value) for value in _leaves(task.oracle[index].arguments)]
        for line, value in _used(missing, texts, task.instruction):
            name = task.oracle[index].name
            yield f"call {index + 1}, {name}, has {value!r} before line {line.id!r} is said"
    values = [value for line in user.lines for value in line.values]
    texts = [str(value) for call in task.oracle for value in _leaves(call.arguments)]
    if task.kind == "question" and not any(says(one, value) for value in values for one in texts):
        yield "no call of the oracle has a value of a line: the question can be answered unasked"
    for line in user.lines:
        if line.id not in state.used:
            yield f"the oracle never hears line {line.id!r}"
    _, heard = answer_to(user, state, task.answer)
    if not heard.ended:
        yield f"the user does not end the talk at the oracle's answer, but says {heard.text!r}"


def _used(
    lines: list[UserLine], texts: list[str], instruction: str
) -> Iterator[tuple[UserLine, str]]:
    for line in lines:
        for value in line.values:
            if any(says(text, value) for text in texts) and not says(instruction, value):
                yield line, value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value
