"""Tasks for any MCP server, read from one TOML file.

    name = "notebook"
    description = "Notes of one person"
    policy = "Never delete a note."       # the rules that the agent must follow; may be left out
    [user]                                # for whom the agent acts; may be left out
    id = "u1"
    name = "Ada"
    role = "owner"

    [[task]]
    id = "milk"
    instruction = "Add a note that says milk, then tell me how many notes there are."
    answer = "3"                          # what the final answer must contain; may be left out
    oracle = [{ name = "add_note", arguments = { text = "milk" } }]     # may be left out
    [[task.check]]                        # see scenarios.call_checks
    name = "list_notes"
    expect = { contains = "milk" }

A task needs an answer or a check; without either, its episodes could not be judged.
"""

import hashlib
from pathlib import Path

import msgspec

from scenarios.api import User
from scenarios.call_checks import CallCheck, McpRecord
from scenarios.checks import Finding, says
from scenarios.errors import PackageError
from scenarios.files import read_text
from scenarios.format import Call, Difficulty, Scenario, Task
from scenarios.task_tables import TaskTables
from scenarios.value_checks import NAME, NOT_A_CLOCK, is_clock, json_fault

NO_USER = User("", "", "")  # the file names no user


class _McpTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    instruction: str
    answer: str = ""
    difficulty: Difficulty = "unrated"
    oracle: tuple[Call, ...] = ()
    check: tuple[CallCheck, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str
    task: tuple[_McpTask, ...]
    title: str = ""
    version: str = "0"
    policy: str = ""
    clock: str = ""  # empty: the agent does not learn the time
    user: User = NO_USER


def read_mcp_tasks(path: Path, target: str) -> Scenario:
    """Return a task file as a scenario for the MCP server `target` (a URL or a command).

    The digest covers the file and the target. Raises PackageError naming the file, the line and id
    of the task, and the field.
    """
    text = read_text(path)
    tables = TaskTables(path, text)
    file = tables.convert(_File)
    _check_head(path, file)
    tables.check_ids([task.id for task in file.task])
    for index, task in enumerate(file.task):
        if fault := _fault(task):
            raise tables.fault(index, fault)
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
        foreign=McpRecord(target, {task.id: task.check for task in file.task}),
    )


def answer_findings(task: Task, answer: str) -> tuple[Finding, ...]:
    """Return the finding on the final answer; empty where the task demands no answer."""
    if not task.answer:
        return ()
    found = " ".join(answer.split())[:200]
    name = f"answer says {task.answer!r}"
    return (Finding(name, says(answer, task.answer), repr(task.answer), found, "goal"),)


def _task(task: _McpTask) -> Task:
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
        raise PackageError(f"{path}: clock: {file.clock!r} {NOT_A_CLOCK}")
    if not file.task:
        raise PackageError(f"{path}: task: the file has no task")


def _fault(task: _McpTask) -> str:
    """The fault of a task; empty: it has none."""
    if not task.instruction.strip():
        return "instruction: must not be empty"
    if not task.answer.strip() and not task.check:
        return "it has neither answer nor check, so its episodes could not be judged"
    for index, call in enumerate(task.oracle):
        if fault := json_fault(call.arguments):
            return f"oracle[{index}].arguments{fault}"
    for index, check in enumerate(task.check):
        if fault := json_fault(check.arguments):
            return f"check[{index}].arguments{fault}"
        if fault := check.expect.fault():
            return f"check[{index}].expect: {fault}"
        if check.expect.rule == "value" and (fault := json_fault(check.expect.value)):
            return f"check[{index}].expect.value{fault}"
    return ""
