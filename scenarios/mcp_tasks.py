"""Tasks for somebody else's MCP server, from one TOML file.

    name = "notebook"
    description = "Notes of one person"
    policy = "Never delete a note."       # the rules that the agent must follow; may be left out
    [user]                                # who acts; may be left out
    id = "u1"
    name = "Ada"
    role = "owner"

    [[task]]
    id = "milk"
    instruction = "Add a note that says milk, then tell me how many notes there are."
    answer = "3"                          # what the final answer must say; may be left out
    oracle = [{ name = "add_note", arguments = { text = "milk" } }]     # may be left out
    [[task.check]]                        # see scenarios.call_checks
    name = "list_notes"
    expect = { contains = "milk" }

A task needs an answer or a check, else nothing could be said of its end.
"""

import hashlib
from pathlib import Path

import msgspec

from scenarios.api import User
from scenarios.call_checks import CallCheck, ForeignRecord
from scenarios.checks import Finding, says
from scenarios.errors import PackageError
from scenarios.files import convert, parse_toml, read_text
from scenarios.format import (
    NAME,
    TASK_ID,
    Call,
    Difficulty,
    Scenario,
    Task,
    is_clock,
    not_json,
)

NOBODY = User("", "", "")  # the file does not say who acts


class _ForeignTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    instruction: str
    answer: str = ""
    difficulty: Difficulty = "unrated"
    oracle: tuple[Call, ...] = ()
    check: tuple[CallCheck, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str
    task: tuple[_ForeignTask, ...]
    title: str = ""
    version: str = "0"
    policy: str = ""
    clock: str = ""  # empty: the agent is not told the time
    user: User = NOBODY


def read_foreign(path: Path, target: str) -> Scenario:
    """The scenario of a task file, played on the MCP server `target` (a URL or a command).

    Its digest is that of the file and the target. Raises PackageError naming file and field.
    """
    text = read_text(path)
    file = convert(path, parse_toml(path, text), _File)
    _check_head(path, file)
    seen: set[str] = set()
    for index, task in enumerate(file.task):
        if not TASK_ID.fullmatch(task.id):
            raise PackageError(f"{path}: task[{index}].id: {task.id!r} is not a lower-case word")
        if task.id in seen:
            raise PackageError(f"{path}: task[{index}].id: {task.id!r} is there twice")
        seen.add(task.id)
        if fault := _fault(task):
            raise PackageError(f"{path}: task {task.id!r}: {fault}")
    return Scenario(
        name=file.name,
        title=file.title or file.name,
        version=file.version,
        description=file.description,
        clock=file.clock,
        user=file.user,
        schema_sql="",
        data_sql="",
        rules=file.policy.strip(),
        tasks=tuple(map(_task, file.task)),
        path=path,
        digest=hashlib.blake2b(f"{target}\0{text}".encode(), digest_size=16).hexdigest(),
        foreign=ForeignRecord(target, {task.id: task.check for task in file.task}),
    )


def answer_findings(task: Task, answer: str) -> tuple[Finding, ...]:
    """Whether the final answer says what it must; empty where anything will do."""
    if not task.answer:
        return ()
    found = " ".join(answer.split())[:200]
    name = f"answer says {task.answer!r}"
    return (Finding(name, says(answer, task.answer), repr(task.answer), found, "goal"),)


def _task(task: _ForeignTask) -> Task:
    return Task(
        id=task.id,
        instruction=task.instruction,
        difficulty=task.difficulty,
        kind="open",
        answer=task.answer,
        oracle=task.oracle,
    )


def _check_head(path: Path, file: _File) -> None:
    if not NAME.fullmatch(file.name):
        raise PackageError(f"{path}: name: {file.name!r} is not a lower-case identifier")
    if not file.description.strip():
        raise PackageError(f"{path}: description: must not be empty")
    if file.clock and not is_clock(file.clock):
        raise PackageError(
            f"{path}: clock: {file.clock!r} is not a moment in UTC such as '2026-03-14T09:30:00Z'"
        )
    if not file.task:
        raise PackageError(f"{path}: task: the file has no task")


def _fault(task: _ForeignTask) -> str:
    """What is wrong with a task, in words; empty: nothing."""
    if not task.instruction.strip():
        return "instruction: must not be empty"
    if not task.answer.strip() and not task.check:
        return "it has neither answer nor check, so its end could not be judged"
    for index, call in enumerate(task.oracle):
        if fault := not_json(call.arguments):
            return f"oracle[{index}].arguments{fault} in JSON"
    for index, check in enumerate(task.check):
        if fault := not_json(check.arguments):
            return f"check[{index}].arguments{fault} in JSON"
        if fault := check.expect.fault():
            return f"check[{index}].expect: {fault}"
        if check.expect.rule == "value" and (fault := not_json(check.expect.value)):
            return f"check[{index}].expect.value{fault} in JSON"
    return ""
