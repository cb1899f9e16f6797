"""The figures of one world, read from its files.

A world's code is never executed: tools are found in the source, and SQL is executed in a database
in memory, without ATTACH and with a limited number of instructions. So a world that a model wrote,
or an AWM record, is measured like any other.

Some figures can be measured only by executing an oracle (changed tables, look-ups, lookalikes).
They are known for procedural worlds, because their generated.json has them; for others they are
None.
"""

import ast
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Literal

import msgspec

from rehearsal_room.authoring.plays import PlayerResult, plays_of
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.judge.gate.core.near_duplicates import features_of
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import AwmRecord, Difficulty, Scenario, Task, TaskKind
from rehearsal_room.scenarios.generate.output_folder import WorldRecord, record_of
from rehearsal_room.scenarios.generate.tasks.features import TaskFeatures

WorldOrigin = Literal["procedural", "written", "synthesised", "AWM"]
_METHODS = frozenset({"get", "post", "put", "patch", "delete"})
_INSTRUCTIONS = 50_000_000  # of SQLite; the seed of a large world takes a hundredth of them
_TABLES = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)
_ALLOWED, _DENIED = sqlite3.SQLITE_OK, sqlite3.SQLITE_DENY


class TaskFigures(msgspec.Struct, frozen=True, gc=False):
    """The figures of one task. None: not known."""

    kind: TaskKind
    difficulty: Difficulty
    calls: int | None  # of the oracle
    tools: int | None  # distinct, in the oracle
    tables: int | None = None  # with changed rows
    lookups: int | None = None  # calls before the first that writes
    distance: int | None = None  # the most turns between seeing a value and writing it
    window: int | None = None  # number of turns; with more, the task counts as one of long memory
    lookalikes: int | None = None  # rows that look right and are not
    parts: int | None = None  # requests in it that do not depend on each other
    forbidden: bool | None = False  # whether the task, or a part of it, must be declined
    situation: str | None = None  # the template of a procedural world's task
    voice: str | None = None  # who speaks: email, colleague, chat or note
    id: str = ""
    instruction: str = ""
    answer: str = ""


class WorldFigures(msgspec.Struct, frozen=True):
    """The figures of one world."""

    name: str
    source: WorldOrigin
    tables: int
    rows: int  # of the seed
    tools: tuple[str, ...]
    tasks: tuple[TaskFigures, ...]
    features: tuple[int, ...]  # see judge.gate.core.near_duplicates
    title: str = ""
    folder: str = ""  # empty: it is not known
    trade: str | None = None  # None: the world is not procedural
    modules: tuple[str, ...] = ()
    plays: tuple[PlayerResult, ...] = ()


def world_figures(scenario: Scenario) -> WorldFigures:
    """Measure a world. Raises PackageError for SQL or code that cannot be read."""
    sizes, columns = _database_of(scenario)
    tools = tuple(_tools_of(scenario))
    record = record_of(scenario.path) if scenario.awm is None else None
    return WorldFigures(
        name=scenario.name,
        title=scenario.title,
        folder=str(scenario.path),
        source=_source_of(scenario, record),
        tables=len(sizes),
        rows=sum(sizes.values()),
        tools=tuple(tool.name for tool in tools),
        tasks=_tasks_of(scenario, record),
        features=features_of(scenario, columns, tools, record.words if record else None),
        trade=None if record is None else record.plan.trade,
        modules=() if record is None else record.plan.modules,
        plays=plays_of(scenario),
    )


def _source_of(scenario: Scenario, record: WorldRecord | None) -> WorldOrigin:
    if scenario.awm is not None:
        return "AWM"
    if scenario.written_by == "model":
        return "synthesised"
    return "written" if record is None else "procedural"


# Tasks ------------------------------------------------------------------------------------------


def _tasks_of(scenario: Scenario, record: WorldRecord | None) -> tuple[TaskFigures, ...]:
    if record is not None:
        window = record.plan.knobs.window
        return tuple(
            _figures_of_record(task, measured, window)
            for task, measured in zip(scenario.tasks, record.tasks, strict=True)
        )
    return tuple(map(_figures_of_task, scenario.tasks))


def _figures_of_record(written: Task, task: TaskFeatures, window: int) -> TaskFigures:
    return TaskFigures(
        id=written.id,
        instruction=written.instruction,
        answer=written.answer,
        situation=task.situation,
        voice=task.voice,
        kind=task.kind,
        difficulty=task.difficulty,
        calls=task.calls,
        tools=task.tools,
        tables=task.tables,
        lookups=task.lookups,
        distance=task.distance,
        window=window,
        lookalikes=task.lookalikes,
        parts=task.purposes,
        forbidden=task.forbidden,
    )


def _figures_of_task(task: Task) -> TaskFigures:
    is_open = task.kind == "open"
    return TaskFigures(
        id=task.id,
        instruction=task.instruction,
        answer=task.answer,
        kind=task.kind,
        difficulty=task.difficulty,
        calls=None if is_open else len(task.oracle),
        tools=None if is_open else len({call.name for call in task.oracle}),
        forbidden=None if is_open else task.kind == "decline",
    )


# The database -----------------------------------------------------------------------------------


def _database_of(scenario: Scenario) -> tuple[dict[str, int], dict[str, list[str]]]:
    """The number of rows and the columns, by table."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.set_authorizer(
            lambda action, *_: _DENIED if action == sqlite3.SQLITE_ATTACH else _ALLOWED
        )
        connection.set_progress_handler(lambda: 1, _INSTRUCTIONS)
        try:
            _seed(connection, scenario)
            tables = [name for (name,) in connection.execute(_TABLES)]
            rows = {name: _count(connection, name) for name in tables}
        except sqlite3.Error as exc:
            raise PackageError(f"{scenario.path}: its seed cannot be executed: {exc}") from exc
        columns = {name: _columns(connection, name) for name in tables}
    return rows, columns


def _seed(connection: sqlite3.Connection, scenario: Scenario) -> None:
    connection.execute("BEGIN")
    if scenario.awm is None:
        connection.executescript(f"{scenario.schema_sql}\n;{scenario.data_sql}")
        return
    if scenario.awm.seeding != "openenv":
        connection.execute("PRAGMA foreign_keys=ON")
    for statement in _statements(scenario.awm):
        with suppress(sqlite3.Error, UnicodeError):  # as AWM's own loaders do
            connection.execute(statement)


def _statements(record: AwmRecord) -> Iterator[str]:
    for table in record.tables:
        yield from (table.ddl, *table.indexes)
        if record.seeding != "openenv":
            yield from table.examples
    for sample in record.samples:
        yield from sample.insert_statements


def _count(connection: sqlite3.Connection, table: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()
    return int(count)


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({_quoted(table)})")]


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


# Tools ------------------------------------------------------------------------------------------


def _tools_of(scenario: Scenario) -> Iterator[ToolSpec]:
    """Yield the tools found in the source: functions whose first parameter is a Db, or the routes
    of an AWM record."""
    path = scenario.path / "tools.py"
    code = path.read_text(encoding="utf-8") if scenario.awm is None else scenario.awm.code
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise PackageError(f"{scenario.path}: its code cannot be read: {exc}") from exc
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if scenario.awm is not None:
            if name := _route(node):
                yield _spec(name, node, node.args.args)
        elif not node.name.startswith("_") and _takes_db(node):
            yield _spec(node.name, node, node.args.args[1:])


def _takes_db(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = [*node.args.posonlyargs, *node.args.args][:1]
    return any(one.annotation is not None and ast.unparse(one.annotation) == "Db" for one in first)


def _route(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    """The name of a route's tool; None: the function is not a route."""
    for one in node.decorator_list:
        if not (isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)):
            continue
        if one.func.attr in _METHODS:
            named = [word.value for word in one.keywords if word.arg == "operation_id"]
            return next(
                (str(name.value) for name in named if isinstance(name, ast.Constant)), node.name
            )
    return None


def _spec(
    name: str, node: ast.FunctionDef | ast.AsyncFunctionDef, arguments: list[ast.arg]
) -> ToolSpec:
    names = [one.arg for one in (*arguments, *node.args.kwonlyargs)]
    return ToolSpec(name, ast.get_docstring(node) or "", {"properties": dict.fromkeys(names)})


def verb_of(tool: str) -> str:
    """The verb in a tool's name.

    Example: "get_order" -> "get"; "listOrders" -> "list"
    """
    found = re.match(r"[A-Z]?[a-z]+|[A-Z]+|[^\W_]+", tool)
    return found.group().lower() if found else tool
