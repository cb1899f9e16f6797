"""Defects of a package's tasks: texts that name things that do not exist, oracles that do not solve
their task, wrong declarations, and target states that hold from the start."""

import re
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

import msgspec

from rehearsal_room.scenarios.format import Call, Task
from tests.devtools.defects.seed_data import satisfy_from_start
from tests.devtools.defects.target import (
    InjectedDefect,
    PlayedOracle,
    TargetPackage,
    defect,
    toml_of,
)

_EMAIL = re.compile(r"\b([\w.+-]+)@([\w-]+(?:\.[\w-]+)+)\b")
_CODE = re.compile(r"\b[A-Z]{1,4}-?\d{2,6}\b")
_NUMBER = re.compile(r"(?<=[a-z] )\d{2,9}\b(?=[.,:;?!)]|$|'s)")
_NAME = re.compile(r"(?<=[a-z,“] )[A-Z][a-z]+(?: [A-Z][a-z]+)+\b")
_DAY = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_AMOUNT = re.compile(r"(?<= )\d{1,3}\b(?= (?:days|people|persons?|pieces|units|hours|more)\b)")


@defect()
def task_names_no_email(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """An instruction names an e-mail address that no row has."""
    return _named(target, rng, _EMAIL, lambda found: f"{found[1]}.jr@{found[2]}")


@defect()
def task_names_no_code(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """An instruction names a reference that no row has."""
    return _named(target, rng, _CODE, lambda found: f"{found[0]}7")


@defect()
def task_names_no_number(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """An instruction names the number of a row that does not exist."""
    keys = {
        value
        for task in target.scenario.tasks
        for call in task.oracle
        for name, value in call.arguments.items()
        if name.endswith("_id")
    }

    def other(found: re.Match[str]) -> str | None:
        return f"{found[0]}93" if int(found[0]) in keys else None

    return _named(target, rng, _NUMBER, other)


@defect()
def task_names_no_person(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """An instruction names a person who is not in the data."""
    names = {
        value
        for rows in target.rows.values()
        for row in rows
        for value in row.values()
        if isinstance(value, str)
    }

    def other(found: re.Match[str]) -> str | None:
        return "Balthasar Quillfeather" if found[0] in names else None

    return _named(target, rng, _NAME, other)


@defect(beyond="only the author knows whether 12 or 14 days are meant")
def task_asks_for_another_amount(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """An instruction asks for another amount than the oracle and the verifier mean."""
    return _named(target, rng, _AMOUNT, lambda found: str(int(found[0]) + 2))


@defect()
def task_is_there_twice(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """Two tasks differ only in their ids."""
    task = rng.choice(target.scenario.tasks)
    copy = msgspec.structs.replace(task, id=f"{task.id}-again", verify=task.verifier)
    return InjectedDefect({"tasks.toml": toml_of([*target.scenario.tasks, copy])}, copy.id)


@defect()
def task_id_twice(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """Two tasks have the same id."""
    task = rng.choice(target.scenario.tasks)
    return InjectedDefect({"tasks.toml": toml_of([*target.scenario.tasks, task])}, task.id)


@defect()
def task_asks_for_nothing(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A task's instruction is empty."""
    task = rng.choice(target.scenario.tasks)
    return target.with_task(msgspec.structs.replace(task, instruction=" "))


@defect()
def task_is_done_from_the_start(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """The target state holds from the start, and the verifier checks only the end."""
    found = [
        (one.task, change)
        for one in target.oracles
        for change in one.changes
        if change.before and change.after and target.keys[change.table]
    ]
    if not found:
        return None
    task, change = rng.choice(found)
    assert change.after is not None and change.before is not None
    moved = {name: new for name, new in change.after.items() if change.before[name] != new}
    return satisfy_from_start(target, task, change.table, change.before, moved)


@defect()
def oracle_lacks_a_write(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """An oracle lacks one of the changes that its task asks for."""
    found = [
        (one, index)
        for one in target.oracles
        for index, (_, result) in enumerate(one.steps)
        if result.changes
    ]
    if not found:
        return None
    one, index = rng.choice(found)
    calls = one.task.oracle
    return _oracle(target, one.task, (*calls[:index], *calls[index + 1 :]))


@defect()
def oracle_lacks_a_lookup(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """An oracle passes a key that no earlier text contains: the call that finds it is missing."""
    found = [
        (one, index)
        for one in target.oracles
        if one.changes
        for index, (call, result) in enumerate(one.steps)
        if not result.changes and _needed(target, one, index)
    ]
    if not found:
        return None
    one, index = rng.choice(found)
    calls = one.task.oracle
    return _oracle(target, one.task, (*calls[:index], *calls[index + 1 :]))


@defect()
def oracle_passes_a_wrong_value(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """An oracle makes a change with a number that is one too high."""
    found = [
        (one, index, name, value)
        for one in target.oracles
        for index, (call, result) in enumerate(one.steps)
        if result.changes
        for name, value in call.arguments.items()
        if type(value) is int
    ]
    if not found:
        return None
    one, index, name, value = rng.choice(found)
    return _oracle(target, one.task, _altered(one.task, index, {name: value + 1}))


@defect()
def oracle_is_refused(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A call of an oracle names a row that does not exist."""
    found = [
        (one, index, name)
        for one in target.oracles
        for index, (call, _) in enumerate(one.steps)
        for name, value in call.arguments.items()
        if name.endswith("_id") and type(value) is int
    ]
    if not found:  # a world whose keys are codes
        return None
    one, index, name = rng.choice(found)
    return _oracle(target, one.task, _altered(one.task, index, {name: 987_654}))


@defect()
def oracle_calls_no_tool(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """An oracle calls a tool that has been renamed."""
    one = rng.choice([one for one in target.oracles if one.task.oracle])
    index = rng.randrange(len(one.task.oracle))
    call = one.task.oracle[index]
    renamed = Call(f"{call.name}_v1", call.arguments)
    calls = one.task.oracle
    return _oracle(target, one.task, (*calls[:index], renamed, *calls[index + 1 :]))


@defect()
def oracle_passes_an_invalid_value(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """An oracle passes a value of another type than the tool accepts."""
    found = [
        (one, index, name)
        for one in target.oracles
        for index, (call, _) in enumerate(one.steps)
        for name, value in call.arguments.items()
        if type(value) is int
    ]
    if not found:
        return None
    one, index, name = rng.choice(found)
    return _oracle(target, one.task, _altered(one.task, index, {name: "the first one"}))


@defect()
def oracle_does_more(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """An oracle makes a change that belongs to another task."""
    found = [
        (one, call)
        for one in target.oracles
        for other in target.oracles
        if one is not other
        for call, result in other.steps
        if result.changes and call not in one.task.oracle
    ]
    if not found:
        return None
    one, call = rng.choice(found)
    calls = (*one.task.oracle, call)
    if target.answers({}, calls)[-1].error is not None:
        return None
    return _oracle(target, one.task, calls)


@defect()
def answer_contradicts_the_verifier(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """The answer of a question has another number than its verifier demands."""
    found = [one.task for one in target.oracles if one.task.kind == "question"]
    found = [task for task in found if re.search(r"\d", task.answer)]
    if not found:
        return None
    task = rng.choice(found)
    answer = re.sub(r"\d+", lambda number: str(int(number[0]) + 1), task.answer)
    return target.with_task(msgspec.structs.replace(task, answer=answer))


@defect()
def answer_names_what_is_not_there(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """The answer of a question and its verifier have a name or a code that no row has."""
    return _misled(target, rng, (_NAME, _CODE, _EMAIL))


@defect(beyond="numbers and days may be computed, so one that no call shows may still be right")
def answer_contradicts_the_data(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """The answer of a question and its verifier have a number or a day that the rows contradict."""
    return _misled(target, rng, (_DAY, re.compile(r"\b\d{2,}\b")))


def _misled(
    target: TargetPackage, rng: Random, patterns: Sequence[re.Pattern[str]]
) -> InjectedDefect | None:
    found = []
    for one in target.oracles:
        facts = [fact for fact in _facts(one.task.answer, patterns) if _shown(one, fact)]
        if one.task.kind == "question" and facts:
            found.append((one.task, rng.choice(facts)))
    if not found:
        return None
    task, fact = rng.choice(found)
    other = re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 3) % 10), fact)
    if other == fact:
        other = " ".join(f"{word}ov" for word in fact.split())
    answer = task.answer.replace(fact, other)
    changed = target.with_task(msgspec.structs.replace(task, answer=answer)).files
    verify = re.sub(
        rf"(def {task.verifier}\(.*?)(?=\ndef |\Z)",
        lambda body: body[0].replace(fact, other),
        target.texts["verify.py"],
        flags=re.DOTALL,
    )
    return InjectedDefect({**changed, "verify.py": verify}, task.id)


@defect()
def kind_is_wrong(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A task that changes rows is declared a question, or vice versa."""
    one = rng.choice(target.oracles)
    kind = "question" if one.changes else "change"
    return target.with_task(msgspec.structs.replace(one.task, kind=kind))


@defect()
def kind_question_called_decline(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A task that should be answered is declared one to decline, or vice versa."""
    found = [one.task for one in target.oracles if not one.changes]
    if not found:
        return None
    task = rng.choice(found)
    kind = "question" if task.kind == "decline" else "decline"
    return target.with_task(msgspec.structs.replace(task, kind=kind))


@defect()
def difficulty_is_wrong(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A task is declared easier or harder than it is measured."""
    task = rng.choice(target.scenario.tasks)
    words = [word for word in ("simple", "medium", "hard") if word != task.difficulty]
    return target.with_task(msgspec.structs.replace(task, difficulty=rng.choice(words)))


def _named(
    target: TargetPackage, rng: Random, pattern: re.Pattern[str], other: Any
) -> InjectedDefect | None:
    """An instruction in which one name is replaced; `other` returns the new one, or None for a name
    that must stay."""
    found = [
        (task, match, new)
        for task in target.scenario.tasks
        for match in pattern.finditer(task.instruction)
        if (new := other(match)) is not None
    ]
    if not found:
        return None
    task, match, new = rng.choice(found)
    text = task.instruction
    changed = f"{text[: match.start()]}{new}{text[match.end() :]}"
    return target.with_task(msgspec.structs.replace(task, instruction=changed))


def _oracle(target: TargetPackage, task: Task, calls: tuple[Call, ...]) -> InjectedDefect:
    return target.with_task(msgspec.structs.replace(task, oracle=calls))


def _altered(task: Task, index: int, values: dict[str, Any]) -> tuple[Call, ...]:
    call = task.oracle[index]
    other = Call(call.name, {**call.arguments, **values})
    return (*task.oracle[:index], other, *task.oracle[index + 1 :])


def _needed(target: TargetPackage, one: PlayedOracle, index: int) -> bool:
    """Whether only this call's result contains a key that a later call passes."""
    texts = [one.task.instruction, target.scenario.rules]
    texts += [result.text for other, result in enumerate(one.results) if other != index]
    read = " ".join(texts)
    return any(
        name.endswith("_id")
        and re.search(rf"\b{re.escape(str(value))}\b", one.results[index].text) is not None
        and re.search(rf"\b{re.escape(str(value))}\b", read) is None
        for call in one.task.oracle[index + 1 :]
        for name, value in call.arguments.items()
    )


def _facts(answer: str, patterns: Iterable[re.Pattern[str]]) -> Iterator[str]:
    """The parts of an answer that may occur in the rows."""
    for pattern in patterns:
        yield from (found[0] for found in pattern.finditer(answer))


def _shown(one: PlayedOracle, fact: str) -> bool:
    """Whether the result of an oracle's call contains it."""
    return any(re.search(rf"\b{re.escape(fact)}\b", result.text) for result in one.results)
