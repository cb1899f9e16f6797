"""Business modules: the building blocks of a generated world.

A module is a folder below scenarios/generate/modules/. It uses canonical words, which a trade
renames. scenarios/generate/README.md explains how to write one; `staff`, `parties`, `catalogue`
and `orders` are the examples.

    <name>/
      module.toml   title, about, needs, [words] with plurals, [parameters] with ranges
      schema.sql    its tables
      tools.py      its tools, ordinary code that mypy checks
      policy.md     its rules, with {NAME} for a parameter
      make.py       `rows(maker)` makes the seed rows; helpers with which situations add rows

Loading a module executes its make.py and none of its tools.
"""

import ast
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.files import convert, parse_toml, read_text
from rehearsal_room.scenarios.format import NeverTouch
from rehearsal_room.scenarios.generate.core.errors import ModuleError

FOLDER = Path(__file__).parent.parent / "modules"
BASE = ("staff", "parties", "catalogue")  # in every world
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SHARED = "common"  # the file of types and helpers that all tools.py share
_PACKAGE = "rehearsal_room.scenarios.generate.modules"


class Column(msgspec.Struct, frozen=True):
    """One column of a table."""

    name: str
    default: Any  # the value of a row that sets none; None: NULL, or there is no default
    refers: str | None  # the table whose id it contains


class Table(msgspec.Struct, frozen=True):
    """One table of a module, in canonical words."""

    name: str
    columns: dict[str, Column]
    has_id: bool  # its key is an integer column `id`


class CodePiece(msgspec.Struct, frozen=True):
    """A top-level statement of a tools.py."""

    name: str  # the name that it defines
    text: str  # with the comments above it
    uses: frozenset[str]  # the names that it mentions
    is_tool: bool
    is_block: bool  # a function or a class, with two empty lines around it


class ToolsCode(msgspec.Struct, frozen=True):
    """A tools.py, cut into pieces that can be left out."""

    imports: dict[str, tuple[str, str]]  # name -> (module or "" for `import x`, what is imported)
    pieces: tuple[CodePiece, ...]


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    about: str  # its phrase in a world's description, such as "orders and their lines"
    needs: tuple[str, ...] = ()
    words: dict[str, str] = {}  # singular -> plural
    parameters: dict[str, tuple[int, ...]] = {}  # least, most[, step]
    # Parameter -> SQL for the rows that break the rule about it, with {n} for its value, {now} and
    # {today} for the world's time.
    row_rules: dict[str, str] = {}
    never_touch: tuple[NeverTouch, ...] = ()  # in canonical words; each rule is in policy.md
    irreversible: tuple[str, ...] = ()  # tables (see scenarios.format.PackageHead)
    promises: dict[str, tuple[str, ...]] = {}  # tool -> tools that its description promises


class Module(msgspec.Struct, frozen=True):
    """One business module, as it was read."""

    name: str
    head: _Head
    needs: tuple[
        str, ...
    ]  # all modules that must come before it, in order, including indirect ones
    schema: str
    tables: dict[str, Table]
    code: ToolsCode
    policy: str
    rows: Callable[[Any], None]  # of a Maker
    forms: frozenset[str]  # the canonical words in its files: its own and those of its needs
    identifiers: frozenset[str]  # every name in its schema and its tools

    @property
    def tools(self) -> list[str]:
        """The names of its tools, in order."""
        return [piece.name for piece in self.code.pieces if piece.is_tool]


@cache
def module(name: str) -> Module:
    """The module of this name. Raises ModuleError."""
    folder = FOLDER / name
    try:
        path = folder / "module.toml"
        head = convert(path, parse_toml(path, read_text(path)), _Head)
        schema = read_text(folder / "schema.sql")
        tools = read_text(folder / "tools.py")
        policy = read_text(folder / "policy.md").strip()
    except PackageError as exc:
        raise ModuleError(str(exc)) from exc
    make = import_module(f"{_PACKAGE}.{name}.make")
    needs = _needs(name, head.needs)
    _check_parameters(path, head)
    return Module(
        name=name,
        head=head,
        needs=needs,
        schema=schema.strip(),
        tables=_tables(folder / "schema.sql", schema),
        code=code_of(tools),
        policy=policy,
        rows=make.rows,
        forms=frozenset(
            form
            for words in (head.words, *(module(need).head.words for need in needs))
            for pair in words.items()
            for form in pair
        ),
        identifiers=identifiers_of(schema, tools),
    )


def _check_parameters(path: Path, head: _Head) -> None:
    for name, values in head.parameters.items():
        if len(values) not in (2, 3) or values[0] > values[1]:
            raise ModuleError(
                f"{path}: parameters.{name}: expected [least, most] or [least, most, step], "
                f"found {list(values)}"
            )


def _needs(name: str, needs: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    before = BASE[: BASE.index(name)] if name in BASE else BASE
    for need in (*before, *needs):
        found |= dict.fromkeys((*module(need).needs, need))
    return tuple(found)


@cache
def shared_code() -> ToolsCode:
    """The code that all modules' tools share: modules/common.py."""
    return code_of(read_text(FOLDER / f"{SHARED}.py"))


@cache
def shared_function(name: str) -> Callable[..., Any]:
    """A function of modules/common.py, as the tools of a world call it."""
    found: Callable[..., Any] = getattr(import_module(f"{_PACKAGE}.{SHARED}"), name)
    return found


@cache
def module_names() -> tuple[str, ...]:
    """The names of all modules: the base, then the others by name."""
    found = sorted(path.parent.name for path in FOLDER.glob("*/make.py"))
    return (*BASE, *(name for name in found if name not in BASE))


def with_needs(names: Sequence[str]) -> tuple[str, ...]:
    """These modules with all modules that they need, each after those that it needs."""
    found: dict[str, None] = {}
    for name in (*BASE, *names):
        found |= dict.fromkeys((*module(name).needs, name))
    return tuple(found)


# tools.py ---------------------------------------------------------------------------------------


def code_of(text: str) -> ToolsCode:
    """A tools.py cut into its statements.

    Its docstring and its imports of scenarios.generate are left out: in a world, the imported code
    is in the same file.
    """
    lines = text.splitlines()
    imports: dict[str, tuple[str, str]] = {}
    pieces: list[CodePiece] = []
    done = 0
    for node in ast.parse(text).body:
        end = node.end_lineno or node.lineno
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _bound(node)
        elif name := _defines(node):
            source = "\n".join(lines[done:end]).strip("\n")
            uses = frozenset(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
            block = isinstance(node, ast.FunctionDef | ast.ClassDef)
            pieces.append(CodePiece(name, _without_rule(source), uses, _is_tool(node), block))
        done = end
    return ToolsCode(imports, tuple(pieces))


def _without_rule(text: str) -> str:
    """The text without section headings: the sections of a world's tools.py are its modules."""
    return re.sub(r"(?m)^# --- .*\n+", "", text)


def _bound(node: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str]]:
    source = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    source = source.removeprefix("rehearsal_room.")  # worlds write `from scenarios.api import …`
    if source.startswith("scenarios.generate"):
        return {}
    return {alias.asname or alias.name: (source, ast.unparse(alias)) for alias in node.names}


def _defines(node: ast.stmt) -> str:
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return node.name
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def _is_tool(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and not node.name.startswith("_")


def needed_pieces(pieces: Sequence[CodePiece], tools: Sequence[str]) -> set[str]:
    """The names of the pieces that these tools need, including their own."""
    by_name = {piece.name: piece for piece in pieces}
    found: set[str] = set()
    left = [name for name in tools if name in by_name]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [used for used in sorted(by_name[name].uses) if used in by_name]
    return found


def identifiers_of(schema: str, tools: str) -> frozenset[str]:
    """The names of tables, columns, functions, arguments and variables, those in the SQL of
    the tools included; the words of docstrings are not among them."""
    found = set(_NAME.findall(re.sub(r"--.*", "", schema)))
    tree = ast.parse(tools)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.Constant(value=str(text)) if id(node) not in prose and _is_sql(text):
                found.update(_NAME.findall(text))
    return frozenset(found)


def _is_sql(text: str) -> bool:
    return text.isidentifier() or re.search(r"[A-Z]{3}", text) is not None


# schema.sql -------------------------------------------------------------------------------------


def _tables(path: Path, schema: str) -> dict[str, Table]:
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.executescript(schema)
            return {table.name: table for table in _read_tables(connection)}
        except sqlite3.Error as exc:
            raise ModuleError(f"{path}: {exc}") from exc


def _read_tables(connection: sqlite3.Connection) -> Iterator[Table]:
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        " ORDER BY rowid"
    ).fetchall()
    for (name,) in names:
        refers = {
            row[3]: row[2] for row in connection.execute(f'PRAGMA foreign_key_list("{name}")')
        }
        columns = {}
        keys = []
        for _, column, kind, _, default, pk in connection.execute(f'PRAGMA table_info("{name}")'):
            value = None if default is None else _literal(connection, default)
            columns[column] = Column(column, value, refers.get(column))
            keys += [(column, kind)] if pk else []
        yield Table(name, columns, keys == [("id", "INTEGER")])


def _literal(connection: sqlite3.Connection, sql: str) -> Any:
    return connection.execute(f"SELECT {sql}").fetchone()[0]
