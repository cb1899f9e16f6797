"""The two package formats: what a world is, on disk and in memory.

    <name>/
      scenario.toml   name, title, version, description, clock, [user] id, name, role
                      [, written_by = "model": the code runs in workers only]
      schema.sql      tables, indexes, triggers
      data.sql        the seed rows; a statement that fails is an error
      tools.py        the tools (see scenarios.api)
      policy.md       the rules that the agent must follow; may be empty
      tasks.toml      [[task]] id, instruction, difficulty, kind, oracle, answer[, trap, verify]
      verify.py       one function per task (see scenarios.checks)

A package with `format = "awm"` in its scenario.toml is an imported AWM record (written by
scenarios.awm.package); its code was written by a model and runs in workers only:

    <name>/
      scenario.toml   format, name, title, version, description, clock, seeding, [user]
      server.py       FastAPI and SQLAlchemy, one file
      schema.json     [{name, ddl, indexes, examples}]
      data.json       [{table_name, insert_statements}]
      tasks.json      [instruction], the ids are "0", "1", …
      verify/         <task>_sql.py and <task>_code.py, where the task has them
      source.toml     where it came from; not read

Reading a package runs none of its code and opens no database. Whatever is wrong raises
PackageError with a sentence that names the file and the field.
"""

import hashlib
import math
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from scenarios.api import User
from scenarios.call_checks import ForeignRecord
from scenarios.errors import PackageError, UnknownScenario
from scenarios.files import convert, parse_json, parse_toml, python_fault, read_text

FILES = (
    "scenario.toml",
    "schema.sql",
    "data.sql",
    "tools.py",
    "policy.md",
    "tasks.toml",
    "verify.py",
)
NAME = re.compile(r"[a-z][a-z0-9_]*")
TASK_ID = re.compile(r"[a-z0-9][a-z0-9_-]*")
NO_CLOCK = "is not a moment in UTC such as '2026-03-14T09:30:00Z'"
_encode = msgspec.msgpack.Encoder(order="deterministic").encode

T = TypeVar("T")
Difficulty = Literal["simple", "medium", "hard", "unrated"]  # unrated: AWM records
TaskKind = Literal["change", "question", "decline", "open"]  # open: unsolved by its author
Seeding = Literal["awm", "openenv", "strict"]
Author = Literal["people", "model"]


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A tool call: which tool, with what arguments (JSON values).

    Example: Call("get_order", {"order_id": 1042})
    """

    name: str
    arguments: dict[str, Any] = {}


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task of a world, with the way to solve it that its author knows."""

    id: str
    instruction: str
    difficulty: Difficulty
    kind: TaskKind  # change: the world must change; question: an answer in words; decline: refuse
    answer: str  # the oracle's final answer
    oracle: tuple[Call, ...] = ()
    trap: str | None = None  # what could mislead here; None: nothing in particular
    verify: str = ""  # the function in verify.py; empty: the id with `-` written `_`

    @property
    def verifier(self) -> str:
        """The name of the task's function in verify.py."""
        return self.verify or self.id.replace("-", "_")


class AwmTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of an AWM record: its DDL, and the statements that gen_db and gen_sample run."""

    name: str
    ddl: str
    indexes: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class AwmSample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The seed rows of one table of an AWM record, in the record's order."""

    table_name: str
    insert_statements: tuple[str, ...]


class AwmVerifier(msgspec.Struct, frozen=True):
    """The verifiers of one AWM task. None: the record has none, or one without code."""

    sql: str | None = None  # Python with verify_task(initial_db_path, final_db_path)
    code: str | None = None  # Python with verify_task_completion(…, …, final_answer)


class AwmRecord(msgspec.Struct, frozen=True):
    """What an AWM record has instead of schema.sql, data.sql, tools.py and verify.py: code that a
    model wrote, so it runs in workers only (see envpool.workers)."""

    code: str  # FastAPI and SQLAlchemy, one file
    tables: tuple[AwmTable, ...]
    samples: tuple[AwmSample, ...]
    seeding: Seeding = "awm"
    verifiers: dict[str, AwmVerifier] = {}  # by task id


class Scenario(msgspec.Struct, frozen=True):
    """A package as read from its folder."""

    name: str
    title: str
    version: str
    description: str
    clock: str  # ISO 8601 in UTC
    user: User
    schema_sql: str
    data_sql: str
    rules: str  # policy.md, Markdown; empty: no rules
    tasks: tuple[Task, ...]
    path: Path
    digest: str  # of all files of the package, 32 hexadecimal digits
    awm: AwmRecord | None = None  # None: a package of ours; set: the two SQL texts are empty
    foreign: ForeignRecord | None = None  # set: an MCP server's; SQL empty, clock and user too
    written_by: Author = "people"  # of the code: a model's is never executed in this process

    def task(self, task_id: str) -> Task:
        """The task of this id. Raises UnknownScenario."""
        for task in self.tasks:
            if task.id == task_id:
                return task
        known = ", ".join(task.id for task in self.tasks)
        raise UnknownScenario(f"scenario {self.name!r} has no task {task_id!r}; it has {known}")


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    title: str
    version: str
    description: str
    clock: str
    user: User


class _OurHead(_Head, forbid_unknown_fields=True):
    written_by: Author = "people"


class AwmHead(_Head, forbid_unknown_fields=True):
    """The scenario.toml of an AWM package."""

    seeding: Seeding
    format: Literal["awm"] = "awm"


class _Tasks(msgspec.Struct, forbid_unknown_fields=True):
    task: tuple[Task, ...]


def read(folder: Path, *, check_code: bool = True) -> Scenario:
    """Read one package, of either format. Raises PackageError.

    `check_code` False: the server.py of an AWM package is not looked at (a worker will do it);
    for lists of many.
    """
    path = folder / "scenario.toml"
    head = parse_toml(path, read_text(path))
    match head.get("format"):
        case None:
            return _read_ours(folder, head)
        case "awm":
            return _read_awm(folder, head, check_code)
    raise PackageError(f"{path}: format: expected 'awm' or no such key, got {head['format']!r}")


def _read_ours(folder: Path, toml: dict[str, Any]) -> Scenario:
    head = convert(folder / "scenario.toml", toml, _OurHead)
    texts = {name: read_text(folder / name) for name in FILES}
    path = folder / "tasks.toml"
    tasks = convert(path, parse_toml(path, texts["tasks.toml"]), _Tasks).task
    _check_head(folder, head)
    _check_tasks(path, tasks)
    for name in ("tools.py", "verify.py"):
        _check_python(folder / name, texts[name])
    return Scenario(
        name=head.name,
        title=head.title,
        version=head.version,
        description=head.description,
        clock=head.clock,
        user=head.user,
        schema_sql=texts["schema.sql"],
        data_sql=texts["data.sql"],
        rules=texts["policy.md"].strip(),
        tasks=tasks,
        path=folder,
        digest=_digest(texts),
        written_by=head.written_by,
    )


def _read_awm(folder: Path, toml: dict[str, Any], check_code: bool) -> Scenario:
    head = convert(folder / "scenario.toml", toml, AwmHead)
    _check_head(folder, head)
    path = folder / "tasks.json"
    instructions = convert(path, parse_json(path, read_text(path)), tuple[str, ...])
    if fault := instructions_fault(instructions):
        raise PackageError(f"{path}: {fault}")
    code = read_text(folder / "server.py", exact=True)
    if check_code:
        _check_python(folder / "server.py", code)
    record = AwmRecord(
        code=code,
        tables=_json_of(folder / "schema.json", tuple[AwmTable, ...]),
        samples=_json_of(folder / "data.json", tuple[AwmSample, ...]),
        seeding=head.seeding,
        verifiers=_verifiers(folder / "verify", len(instructions)),
    )
    return awm_scenario(head, instructions, record, folder)


def _json_of(path: Path, kind: type[T]) -> T:
    return convert(path, parse_json(path, read_text(path)), kind)


def verifier_file(task_id: str, kind: Literal["sql", "code"]) -> str:
    """The name of a verifier's file in an AWM package, below verify/."""
    return f"{task_id}_{kind}.py"


def _verifiers(folder: Path, num_tasks: int) -> dict[str, AwmVerifier]:
    """What verify/ holds; a file that no task asks for is an error: its name may be a slip."""
    there = {path.name for path in folder.glob("*.py")}
    ids = [str(index) for index in range(num_tasks)]
    known = {verifier_file(task_id, kind) for task_id in ids for kind in ("sql", "code")}
    if stray := min(there - known, default=None):
        raise PackageError(f"{folder / stray}: there is no task for it; there are {num_tasks}")

    def text(name: str) -> str | None:
        return read_text(folder / name, exact=True) if name in there else None

    return {
        task_id: AwmVerifier(
            sql=text(verifier_file(task_id, "sql")), code=text(verifier_file(task_id, "code"))
        )
        for task_id in ids
    }


def instructions_fault(instructions: tuple[str, ...]) -> str | None:
    """What is wrong with the tasks of an AWM record; None: nothing."""
    if not instructions:
        return "there is no task"
    for index, instruction in enumerate(instructions):
        if not instruction.strip():
            return f"[{index}]: must not be empty"
    return None


def awm_scenario(
    head: AwmHead, instructions: tuple[str, ...], record: AwmRecord, path: Path
) -> Scenario:
    """The scenario of an AWM record, the same whether it was imported or not: the digest is of
    what the record says, not of where it stands."""
    content = (msgspec.structs.astuple(head), instructions, record)
    return Scenario(
        name=head.name,
        title=head.title,
        version=head.version,
        description=head.description,
        clock=head.clock,
        user=head.user,
        schema_sql="",
        data_sql="",
        rules="",
        tasks=tuple(
            Task(id=str(index), instruction=text, difficulty="unrated", kind="open", answer="")
            for index, text in enumerate(instructions)
        ),
        path=path,
        digest=hashlib.blake2b(_encode(content), digest_size=16).hexdigest(),
        awm=record,
    )


def _check_head(folder: Path, head: _Head) -> None:
    path = folder / "scenario.toml"
    if not NAME.fullmatch(head.name):
        raise PackageError(f"{path}: name: {head.name!r} is not a lower-case identifier")
    for field in ("title", "version", "description"):
        if not getattr(head, field).strip():
            raise PackageError(f"{path}: {field}: must not be empty")
    if not is_clock(head.clock):
        raise PackageError(
            f"{path}: clock: {head.clock!r} is not a moment in UTC such as '2026-03-14T09:30:00Z'"
        )


def is_clock(text: str) -> bool:
    """Whether a text is a moment in UTC as scenarios write it."""
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")  # noqa: DTZ007 - the Z is in the pattern
    except ValueError:
        return False
    return True


def _check_tasks(path: Path, tasks: tuple[Task, ...]) -> None:
    if not tasks:
        raise PackageError(f"{path}: task: the package has no task")
    seen: set[str] = set()
    for index, task in enumerate(tasks):
        if not TASK_ID.fullmatch(task.id):
            raise PackageError(f"{path}: task[{index}].id: {task.id!r} is not a lower-case word")
        if task.id in seen:
            raise PackageError(f"{path}: task[{index}].id: {task.id!r} is there twice")
        seen.add(task.id)
        for field in ("instruction", "answer"):
            if not getattr(task, field).strip():
                raise PackageError(f"{path}: task {task.id!r}: {field}: must not be empty")
        for number, call in enumerate(task.oracle):
            if fault := not_json(call.arguments):
                raise PackageError(
                    f"{path}: task {task.id!r}: oracle[{number}].arguments{fault} in JSON"
                )


def not_json(value: Any) -> str | None:
    """Where in a TOML value something is that JSON cannot say, and what; None: nowhere.

    Example: {"days": [datetime.date(2026, 3, 14)]} -> ".days[0]: 2026-03-14 has no like"
    """
    if isinstance(value, dict):
        inner = ((f".{name}", item) for name, item in value.items())
    elif isinstance(value, list):
        inner = ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, str | bool):
        return None
    elif isinstance(value, float):
        return None if math.isfinite(value) else f": {value} has no like"
    elif isinstance(value, int):
        fits = -(2**63) <= value < 2**63
        return None if fits else f": {value} has more than 64 bits and no like"
    else:
        return f": {value} has no like"
    return next((place + fault for place, item in inner if (fault := not_json(item))), None)


def _check_python(path: Path, text: str) -> None:
    if fault := python_fault(text):
        raise PackageError(f"{path}: {fault}")


def _digest(texts: dict[str, str]) -> str:
    total = hashlib.blake2b(digest_size=16)
    for name in FILES:
        total.update(f"{name}\0{len(texts[name])}\0{texts[name]}".encode())
    return total.hexdigest()
