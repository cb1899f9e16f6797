"""The two package formats: a scenario on disk, and the same scenario in memory.

    <name>/
      scenario.toml   name, title, version, description, clock, [user] id, name, role
                      [, written_by = "model": the code runs in workers only]
                      [, proofs: calls with which the gate proves tools]
                      [, row_rules: rules that the gate checks by SQL]
                      [, never_touch: records that no call may write]
                      [, irreversible: tables whose writes no call can take back]
                      [, act_logs: tables whose rows only say what was done]
      schema.sql      tables, indexes, triggers
      data.sql        the seed rows; a failing statement is an error
      tools.py        the tools (see scenarios.api)
      policy.md       the rules that the agent must follow; may be empty
      tasks.toml      [[task]] id, instruction, difficulty, kind, oracle, answer[, trap, verify,
                      user, utterances, criteria_threshold, criterion: parts with
                      weights (docs/criteria.md)]
      verify.py       one function per task (see scenarios.checks)
      near_misses.toml  optional: plausible wrong turns, for the gate (see scenarios.near_misses)
      plays.toml      optional: who played its tasks, and how they did (docs/worlds.md)

A package with `format = "awm"` in its scenario.toml is an imported AWM record, written by
scenarios.awm.package. A model wrote its code, so it runs in workers only:

    <name>/
      scenario.toml   format, name, title, version, description, clock, seeding, [user]
      server.py       FastAPI and SQLAlchemy, one file
      schema.json     [{name, ddl, indexes, examples}]
      data.json       [{table_name, insert_statements}]
      tasks.json      [instruction], the ids are "0", "1", …
      verify/         <task>_sql.py and <task>_code.py, where the task has them
      source.toml     where it came from; never read

A package with `format = "mcp"` is a world of an MCP server (scenarios.core.server_record), which
has the tools and makes the rows:

    <name>/
      scenario.toml   format, name, title, version, description, clock, [user], [server], [state],
                      [start][, never_touch, irreversible, act_logs]
      policy.md, tasks.toml, verify.py, near_misses.toml   as above
      seed/           the files with which the server starts, if [start] names the folder

Reading a package runs none of its code and opens no database. Every fault raises PackageError with
a sentence that names the file and the field, and in tasks.toml the line and id of the task.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from rehearsal_room.scenarios.api import Row, RowChange, User
from rehearsal_room.scenarios.call_checks import McpRecord
from rehearsal_room.scenarios.core.criteria import Criterion, criteria_faults
from rehearsal_room.scenarios.core.dialogue import (
    ModelUser,
    ModelUserWithTool,
    UserAutomaton,
    UserScript,
)
from rehearsal_room.scenarios.core.server_record import (
    ServerCommand,
    ServerRecord,
    ServerStart,
    ServerState,
)
from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.errors import PackageError, UnknownScenario
from rehearsal_room.scenarios.files import convert, parse_json, parse_toml, python_fault, read_text
from rehearsal_room.scenarios.nearest import did_you_mean
from rehearsal_room.scenarios.task_tables import TaskTables
from rehearsal_room.scenarios.value_checks import NAME, NOT_A_CLOCK, is_clock, json_fault

BUNDLED = Path(__file__).parent / "bundled"  # the scenarios that ship with the project
FILES = (
    "scenario.toml",
    "schema.sql",
    "data.sql",
    "tools.py",
    "policy.md",
    "tasks.toml",
    "verify.py",
)
NEAR_MISSES = "near_misses.toml"  # optional; only the gate reads it
_encode = msgspec.msgpack.Encoder(order="deterministic").encode

T = TypeVar("T")
Difficulty = Literal["simple", "medium", "hard", "unrated"]  # unrated: AWM records
TaskKind = Literal["change", "question", "decline", "open"]  # open: its author has no solution
Seeding = Literal["awm", "openenv", "strict"]
CodeAuthor = Literal["people", "model"]


def difficulty_of(points: int) -> Difficulty:
    """The difficulty of a task; `points`: calls of the oracle + tables with changed rows."""
    if points <= 3:
        return "simple"
    return "medium" if points <= 7 else "hard"


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A tool call: the tool's name and its arguments (JSON values).

    Example: Call("get_order", {"order_id": 1042})
    """

    name: str
    arguments: dict[str, Any] = {}


class Utterance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an oracle says to the user of a dialogue, once it has made `after` of its calls."""

    after: int
    text: str


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task of a scenario, with its author's solution."""

    id: str
    instruction: str
    difficulty: Difficulty
    kind: TaskKind  # change: the world must change; question: an answer in words; decline: refuse
    answer: str  # the oracle's final answer
    oracle: tuple[Call, ...] = ()  # the calls that solve the task
    trap: str | None = None  # what could mislead the agent; None: nothing in particular
    verify: str = ""  # the function in verify.py; empty: the id with `-` written `_`
    # With whom the agent talks; None: nobody answers it.
    user: UserScript | ModelUser | ModelUserWithTool | UserAutomaton | None = None
    utterances: tuple[Utterance, ...] = ()  # of the oracle to the user, before its answer
    single_turn: bool = False  # the first reply ends the episode: its calls are the answer
    criterion: tuple[Criterion, ...] = ()  # none: the findings of its function decide alone
    criteria_threshold: float = 1.0  # the share of the criteria from which it is completed
    # Words with which the agent ends a dialogue: none of the calls beside them is made, and the
    # user does not answer.
    stops: tuple[str, ...] = ()
    # The task in whose final state this one begins, as `task` of the same scenario or as
    # `scenario:task` of another one with the same world; empty: it begins at the world's start.
    follows: str = ""

    @property
    def is_dialogue(self) -> bool:
        """Whether a reply without a call is said to a user, who answers."""
        return self.user is not None

    @property
    def opening(self) -> str:
        """What opens the talk in the agent's name; empty: the agent speaks first, or to nobody."""
        return self.user.opening if isinstance(self.user, ModelUser) else ""

    @property
    def must_be_chosen(self) -> bool:
        """Whether it is played by name or with --dialogue only: our own worlds got dialogues later,
        and figures over their other tasks stay comparable."""
        return isinstance(self.user, UserAutomaton)

    @property
    def tags(self) -> tuple[str, ...]:
        """What tables of results are made by: the difficulty first, then the kind, and whether it
        has a trap or is a dialogue.

        Example: ("hard", "change", "trap")
        """
        found = [
            *((self.difficulty,) if self.difficulty != "unrated" else ()),
            *((self.kind,) if self.kind != "open" else ()),
            *(("trap",) if self.trap else ()),
            *(("dialogue",) if self.is_dialogue else ()),
        ]
        return tuple(found)

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
    """The verifiers of one AWM task. None: the record has no such verifier, or it has no code."""

    sql: str | None = None  # Python with verify_task(initial_db_path, final_db_path)
    code: str | None = None  # Python with verify_task_completion(…, …, final_answer)


class AwmRecord(msgspec.Struct, frozen=True):
    """The part of an AWM record that takes the place of schema.sql, data.sql, tools.py and
    verify.py. A model wrote the code, so it runs in workers only (see envpool.workers)."""

    code: str  # FastAPI and SQLAlchemy, one file
    tables: tuple[AwmTable, ...]
    samples: tuple[AwmSample, ...]
    seeding: Seeding = "awm"
    verifiers: dict[str, AwmVerifier] = {}  # by task id


class RowRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of the world as data: no row may be like these."""

    rule: str  # in words, as policy.md has it
    broken_by: str  # SQL: the rows that break it, or the keys of what they belong to


class NeverTouch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule about writes as data: no call may write these records, not even to write them back.

    Examples: a settled payment; a status that is not changed back (`columns`); a row that is never
    deleted (`writes`).
    """

    rule: str  # in words, as policy.md has it
    table: str
    where: dict[str, tuple[str | int | None, ...]] = {}  # column -> its values; none: every row
    columns: tuple[str, ...] = ()  # those that an update may not change; none: all
    writes: tuple[Literal["update", "delete"], ...] = ("update", "delete")

    def covers(self, row: Row) -> bool:
        """Whether a row of the table is one of these records."""
        return all(row.get(column) in values for column, values in self.where.items())

    def forbids(self, change: RowChange) -> bool:
        """Whether a change of a row breaks the rule. New rows break none."""
        before, after = change.before, change.after
        if change.table != self.table or before is None or not self.covers(before):
            return False
        if after is None:
            return "delete" in self.writes
        changed = not self.columns or any(before[one] != after[one] for one in self.columns)
        return changed and "update" in self.writes


class Scenario(msgspec.Struct, frozen=True):
    """A package as it was read from its folder."""

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
    awm: AwmRecord | None = None  # None: a package in our format; set: the two SQL texts are empty
    foreign: McpRecord | None = None  # set: tasks for an MCP server, without SQL
    written_by: CodeAuthor = "people"  # code that a model wrote never runs in this process
    suite: SuiteRecord | None = None  # set: its worlds and scoring are those of a benchmark
    server: ServerRecord | None = None  # set: an MCP server has the tools, its files the rows
    proofs: dict[str, tuple[Call, ...]] = {}  # see PackageHead
    row_rules: tuple[RowRule, ...] = ()  # see PackageHead
    never_touch: tuple[NeverTouch, ...] = ()  # see PackageHead
    irreversible: tuple[str, ...] = ()  # see PackageHead
    act_logs: tuple[str, ...] | None = None  # see PackageHead

    @property
    def has_code(self) -> bool:
        """Whether it has tools and verifiers of its own: an MCP server or a suite has them
        elsewhere."""
        return self.foreign is None and self.suite is None

    @property
    def default_tasks(self) -> tuple[Task, ...]:
        """The tasks that are played where the scenario is named and no task of it."""
        return tuple([task for task in self.tasks if not task.must_be_chosen])

    def task(self, task_id: str) -> Task:
        """The task of this id. Raises UnknownScenario."""
        for task in self.tasks:
            if task.id == task_id:
                return task
        hint = did_you_mean(task_id, [task.id for task in self.tasks])
        count = "1 task" if len(self.tasks) == 1 else f"{len(self.tasks)} tasks"
        raise UnknownScenario(
            f"scenario {self.name!r} has no task {task_id!r}{hint + ' It' if hint else '; it'} "
            f"has {count}, {self._where_tasks_are_listed()}"
        )

    def _where_tasks_are_listed(self) -> str:
        if self.foreign is not None:
            return f"listed in {self.path}"
        name = self.name if self.path.parent == BUNDLED else self.path
        return f"listed by `rehearse worlds show {name}`"


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    title: str
    version: str
    description: str
    clock: str
    user: User


class PackageHead(_Head, forbid_unknown_fields=True):
    """The scenario.toml of a package in our format."""

    written_by: CodeAuthor = "people"
    # By tool: calls from the start state, one of which is of this tool and succeeds. Only the gate
    # makes them: for tools that its own calls do not reach.
    proofs: dict[str, tuple[Call, ...]] = {}
    # Only the gate reads them: at the start and after each oracle no row may break one.
    row_rules: tuple[RowRule, ...] = ()
    # The code judge fails an episode in which a call wrote one of them, and the gate a task whose
    # oracle does.
    never_touch: tuple[NeverTouch, ...] = ()
    # Tables that stand for something outside of the rows: messages that were sent, payments. The
    # code judge fails an episode that wrote such a row and wrote it back.
    irreversible: tuple[str, ...] = ()
    # Tables in which tools write what was done, such as an audit log: what a pair of writes leaves
    # there that cancel out does no harm. None: tables with such names (see judge.core.put_right).
    act_logs: tuple[str, ...] | None = None


class AwmHead(_Head, forbid_unknown_fields=True):
    """The scenario.toml of an AWM package."""

    seeding: Seeding
    format: Literal["awm"] = "awm"


class ServerHead(_Head, forbid_unknown_fields=True, kw_only=True):
    """The scenario.toml of a world of an MCP server."""

    server: ServerCommand | tuple[ServerCommand, ...]
    state: ServerState = ServerState()
    start: ServerStart = ServerStart()
    format: Literal["mcp"] = "mcp"
    never_touch: tuple[NeverTouch, ...] = ()  # see PackageHead
    irreversible: tuple[str, ...] = ()  # see PackageHead
    act_logs: tuple[str, ...] | None = None  # see PackageHead


class PackageTasks(msgspec.Struct, forbid_unknown_fields=True):
    """The tasks.toml of a package in our format."""

    task: tuple[Task, ...]


def read(folder: Path, *, check_code: bool = True) -> Scenario:
    """A package of either format as a scenario. Raises PackageError.

    `check_code` False: the syntax of an AWM package's server.py is not checked, which is faster
    for lists of many packages; the worker that hosts it checks it.
    """
    path = folder / "scenario.toml"
    head = parse_toml(path, read_text(path))
    match head.get("format"):
        case None:
            return _read_package(folder, head)
        case "awm":
            return _read_awm(folder, head, check_code)
        case "mcp":
            return _read_server(folder, head)
    raise PackageError(
        f"{path}: format: expected 'awm', 'mcp' or no such key, got {head['format']!r}"
    )


def read_identity(folder: Path) -> Scenario:
    """A package in our format without its tasks, and without a check of its files: who it
    is and who wrote it, in a twentieth of the time. Raises PackageError."""
    path = folder / "scenario.toml"
    head = convert(path, parse_toml(path, read_text(path)), PackageHead)
    return _scenario(folder, head, _texts(folder), ())


def _texts(folder: Path) -> dict[str, str]:
    """The files of a package in our format, by name."""
    names = (*FILES, NEAR_MISSES) if (folder / NEAR_MISSES).exists() else FILES
    return {name: read_text(folder / name) for name in names}


def _read_package(folder: Path, toml: dict[str, Any]) -> Scenario:
    head = convert(folder / "scenario.toml", toml, PackageHead)
    texts = _texts(folder)
    tables = TaskTables(folder / "tasks.toml", texts["tasks.toml"])
    tasks = tables.convert(PackageTasks).task
    _check_head(folder, head)
    for name in ("schema.sql", "data.sql"):
        if "\0" in texts[name]:
            raise PackageError(f"{folder / name}: the file contains a zero byte")
    for name in ("tools.py", "verify.py"):
        _check_python(folder / name, texts[name])
    _check_tasks(tables, tasks, texts["verify.py"])
    return _scenario(folder, head, texts, tasks)


def _scenario(
    folder: Path, head: PackageHead, texts: Mapping[str, str], tasks: tuple[Task, ...]
) -> Scenario:
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
        proofs=head.proofs,
        row_rules=head.row_rules,
        never_touch=head.never_touch,
        irreversible=head.irreversible,
        act_logs=head.act_logs,
    )


def _read_server(folder: Path, toml: dict[str, Any]) -> Scenario:
    path = folder / "scenario.toml"
    head = convert(path, toml, ServerHead)
    _check_head(folder, head)
    servers = head.server if isinstance(head.server, tuple) else (head.server,)
    record = ServerRecord(servers, head.state, head.start)
    if fault := record.fault(folder):
        raise PackageError(f"{path}: {fault}")
    names = ("scenario.toml", "policy.md", "tasks.toml", "verify.py")
    optional = (NEAR_MISSES,) if (folder / NEAR_MISSES).exists() else ()
    texts = {name: read_text(folder / name) for name in (*names, *optional)}
    _check_python(folder / "verify.py", texts["verify.py"])
    tables = TaskTables(folder / "tasks.toml", texts["tasks.toml"])
    tasks = tables.convert(PackageTasks).task
    _check_tasks(tables, tasks, texts["verify.py"])
    return Scenario(
        name=head.name,
        title=head.title,
        version=head.version,
        description=head.description,
        clock=head.clock,
        user=head.user,
        schema_sql="",
        data_sql="",
        rules=texts["policy.md"].strip(),
        tasks=tasks,
        path=folder,
        digest=_digest(texts, _start_files(folder, record.start)),
        server=record,
        never_touch=head.never_touch,
        irreversible=head.irreversible,
        act_logs=head.act_logs,
    )


def _start_files(folder: Path, start: ServerStart) -> dict[str, bytes]:
    """The files with which a server starts. Raises PackageError."""
    found = _files_below(folder / start.copy, start.copy)
    if start.postgres:
        try:
            found[f"/{start.postgres}"] = (folder / start.postgres).read_bytes()
        except OSError as exc:
            raise PackageError(f"{folder / start.postgres}: it cannot be read: {exc}") from exc
    return found


def _files_below(folder: Path, given: str) -> dict[str, bytes]:
    """The files with which a server starts, by their path in the folder. Raises PackageError."""
    if not given:
        return {}
    try:
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
    except OSError as exc:
        raise PackageError(f"{folder}: its files cannot be read: {exc}") from exc


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
    """The verifiers in verify/. A file that belongs to no task is an error: it may be misnamed."""
    existing = {path.name for path in folder.glob("*.py")}
    ids = [str(index) for index in range(num_tasks)]
    known = {verifier_file(task_id, kind) for task_id in ids for kind in ("sql", "code")}
    if stray := min(existing - known, default=None):
        raise PackageError(
            f"{folder / stray}: the file belongs to no task (the package has {num_tasks} tasks)"
        )

    def text(name: str) -> str | None:
        return read_text(folder / name, exact=True) if name in existing else None

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
    """The scenario of an AWM record, the same whether the record was imported or not.

    The digest covers the content of the record, not its location.
    """
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
        raise PackageError(f"{path}: clock: {head.clock!r} {NOT_A_CLOCK}")


def _check_tasks(tables: TaskTables, tasks: tuple[Task, ...], verify: str) -> None:
    if not tasks:
        raise PackageError(f"{tables.path}: task: the package has no task")
    tables.check_ids([task.id for task in tasks])
    for index, task in enumerate(tasks):
        for field in ("instruction", "answer"):
            if not getattr(task, field).strip():
                raise tables.fault(index, f"{field}: must not be empty")
        if task.follows:
            raise tables.fault(
                index,
                "follows: a task of a package begins at the world's start; only entries of a suite "
                "begin where others ended",
            )
        for number, call in enumerate(task.oracle):
            if fault := json_fault(call.arguments):
                raise tables.fault(index, f"oracle[{number}].arguments{fault}")
        for part, fault in criteria_faults(task.criterion, task.criteria_threshold, verify):
            raise tables.fault(index, fault, part=part)


def _check_python(path: Path, text: str) -> None:
    if fault := python_fault(text, str(path)):
        raise PackageError(f"{path}: {fault}")


def _digest(texts: Mapping[str, str], files: Mapping[str, bytes] | None = None) -> str:
    total = hashlib.blake2b(digest_size=16)
    for name, text in texts.items():
        total.update(f"{name}\0{len(text)}\0{text}".encode())
    for name, data in (files or {}).items():
        total.update(f"{name}\0{len(data)}\0".encode() + data)
    return total.hexdigest()
