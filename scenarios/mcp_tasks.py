"""Tasks for any MCP server or OpenEnv environment, read from one TOML file.

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

A task needs an answer or a check; without either, its episodes could not be judged. An OpenEnv
environment gives rewards itself, so its tasks need neither, and may have two keys more:

    reset = { seed = 3 }                  # the options of the environment's reset
    reward = 1.0                          # done where its rewards add up to this (default: 1.0)
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.call_checks import CallCheck, McpRecord
from rehearsal_room.scenarios.checks import Finding, says
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.core.statements import readings
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.files import read_text
from rehearsal_room.scenarios.format import Call, Difficulty, Scenario, Task
from rehearsal_room.scenarios.task_tables import TaskTables
from rehearsal_room.scenarios.value_checks import NAME, NOT_A_CLOCK, is_clock, json_fault

_MOST_WORDS, _MOST_VALUES = 150, 25  # of an answer that is still one

NO_USER = User("", "", "")  # the file names no user


class _McpTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    instruction: str
    answer: str = ""
    difficulty: Difficulty = "unrated"
    oracle: tuple[Call, ...] = ()
    check: tuple[CallCheck, ...] = ()
    user: UserAutomaton | None = None  # with whom the agent talks; None: nobody answers it


class _OpenEnvTask(_McpTask, frozen=True, forbid_unknown_fields=True):
    reset: dict[str, Any] = {}
    reward: float = 1.0


T = TypeVar("T", bound=_McpTask)


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    description: str
    title: str = ""
    version: str = "0"
    policy: str = ""
    clock: str = ""  # empty: the agent does not learn the time
    user: User = NO_USER


class _McpFile(_Head, frozen=True, forbid_unknown_fields=True, kw_only=True):
    task: tuple[_McpTask, ...]


class _OpenEnvFile(_Head, frozen=True, forbid_unknown_fields=True, kw_only=True):
    task: tuple[_OpenEnvTask, ...]


def read_mcp_tasks(path: Path, target: str) -> Scenario:
    """A task file as a scenario for the MCP server `target` (a URL or a command).

    The digest covers the file and the target. Raises PackageError naming the file, the line and id
    of the task, and the field.
    """
    text = read_text(path)
    tables = TaskTables(path, text)
    file = tables.convert(_McpFile)
    record = McpRecord(target, {task.id: task.check for task in file.task})
    return _scenario(path, text, tables, file, file.task, record, _unjudged_fault)


def read_openenv_tasks(path: Path, target: str) -> Scenario:
    """A task file as a scenario for the OpenEnv environment at the URL `target`.

    The digest covers the file and the URL. Raises PackageError as `read_mcp_tasks` does.
    """
    text = read_text(path)
    tables = TaskTables(path, text)
    file = tables.convert(_OpenEnvFile)
    record = McpRecord(
        target,
        {task.id: task.check for task in file.task},
        resets={task.id: task.reset for task in file.task},
        rewards={task.id: task.reward for task in file.task},
    )
    return _scenario(path, text, tables, file, file.task, record, _reset_fault)


def _scenario(
    path: Path,
    text: str,
    tables: TaskTables,
    file: _Head,
    tasks: Sequence[T],
    record: McpRecord,
    own_fault: Callable[[T], str],
) -> Scenario:
    """The scenario of a file; `own_fault` finds the faults of its kind of task. Raises
    PackageError."""
    _check_head(path, file)
    if not tasks:
        raise PackageError(f"{path}: task: the file has no task")
    tables.check_ids([task.id for task in tasks])
    for index, task in enumerate(tasks):
        if fault := own_fault(task) or _fault(task):
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
        tasks=tuple(map(_task, tasks)),
        path=path,
        digest=hashlib.blake2b(f"{record.target}\0{text}".encode(), digest_size=16).hexdigest(),
        foreign=record,
    )


def answer_findings(task: Task, answer: str) -> tuple[Finding, ...]:
    """The finding on the final answer; empty where the task demands no answer.

    A text that holds everything holds the answer, too: an answer of too many words or values leaves
    the finding open.
    """
    if not task.answer:
        return ()
    found = " ".join(answer.split())[:200]
    name = f"answer says {task.answer!r}"
    is_said = says(answer, task.answer)
    num_words = len(answer.split())
    num_values = len({one.options for one in readings(answer) if not one.is_loose})
    most = _MOST_WORDS + 2 * len(task.answer.split())
    is_heap = num_words > most or num_values > _MOST_VALUES
    if is_said and is_heap:
        found = (
            f"{num_words} words (of {most} allowed) with {num_values} values (of {_MOST_VALUES} "
            f"allowed): {found}"
        )
    return (
        Finding(
            name,
            is_said and not is_heap,
            repr(task.answer),
            found,
            "goal",
            is_open=is_said and is_heap,
            is_of_words=is_heap,
        ),
    )


def _task(task: _McpTask) -> Task:
    return Task(
        id=task.id,
        instruction=task.instruction,
        difficulty=task.difficulty,
        kind="open",
        answer=task.answer,
        oracle=task.oracle,
        user=task.user,
    )


def _check_head(path: Path, file: _Head) -> None:
    if not NAME.fullmatch(file.name):
        raise PackageError(f"{path}: name: {file.name!r} is not a lower-case identifier")
    if not file.description.strip():
        raise PackageError(f"{path}: description: must not be empty")
    if file.clock and not is_clock(file.clock):
        raise PackageError(f"{path}: clock: {file.clock!r} {NOT_A_CLOCK}")


def _unjudged_fault(task: _McpTask) -> str:
    """Why the episodes of a task for an MCP server could not be judged; empty: they can be."""
    if not task.instruction.strip() or task.answer.strip() or task.check:
        return ""
    return "it has neither answer nor check, so its episodes could not be judged"


def _reset_fault(task: _OpenEnvTask) -> str:
    """What is wrong with the options of an environment's reset; empty: nothing."""
    fault = json_fault(task.reset)
    return f"reset{fault}" if fault else ""


def _fault(task: _McpTask) -> str:
    """The fault of a task of either kind; empty: it has none."""
    if not task.instruction.strip():
        return "instruction: must not be empty"
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
