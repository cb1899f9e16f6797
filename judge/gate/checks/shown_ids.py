"""The gate's check that tools show the ids that other tools need.

A tool that cancels an absence by its id is of no use where no tool says which id an absence has: an
agent can only guess. The check looks at arguments that name a table's key (`absence_id` for the
table `absences`) and must be given, and at the results of calls that changed nothing: those of the
oracles and of the probes. A key counts as shown under the argument's name, under `id` of a record
of that table (which is named so, or has another text of the key's row), and under any name where no
other table has it. Keys that an instruction names are known, and so are those that an oracle
passes, because a check of its own says that an agent can know these.

Does not cover: keys of several columns, arguments that are called otherwise, and tables without a
row at the start.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.judge.playback.tool_fuzzing import Prober, values_of
from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.files import UNREADABLE

Tables = Mapping[str, Sequence[Row]]  # the rows at the start, by table
_SHORT = 2  # characters of keys that occur in so many texts that nothing follows from it
_SEARCHED_ROWS = 4  # of a table whose key nothing has shown
_LISTED = 100  # records, for each of which a tool lists what belongs to it
_SEARCHED_TEXTS = 3  # of one row
_NAMING = 6  # characters of a text that names a row
_OWN = ("id", "key", "number", "ref", "reference", "code")  # of a record, for its key


class ShownResult(NamedTuple):
    """The result of a successful call that changed nothing."""

    tool: str
    text: str


class _Wanted(msgspec.Struct):
    """A key that tools need."""

    name: str  # of the argument
    table: str
    tools: list[str]
    texts: dict[str, frozenset[str]]  # key -> the texts of its row
    alone: frozenset[str]  # the keys that no other table has

    def is_shown_at(self, path: tuple[str, ...], value: str, record: Mapping[str, Any]) -> bool:
        """Whether a field of a record in a result is a key of the table."""
        if value not in self.texts:
            return False
        one = self.name.removesuffix("_id")
        of_table = any(one in part or self.table in part for part in path[:-1])
        if path[-1] in _OWN and not of_table:
            others = (text for name, text in record.items() if name != path[-1])
            of_table = any(text in self.texts[value] for text in others if isinstance(text, str))
        named = path[-1] in (self.name, one) or (path[-1] in _OWN and of_table)
        return value in self.alone or named


def hidden_ids(world: BlockingWorld, rows: Tables, results: Iterable[ShownResult]) -> Iterator[str]:
    """A sentence for each tool that needs a key which no result shows."""
    tasks = world.scenario.tasks
    known = " ".join(task.instruction for task in tasks)
    passed = {name for task in tasks for call in task.oracle for name in call.arguments}
    wanted = [
        one
        for one in _wanted_in(world, rows)
        if one.name not in passed
        and not any(len(key) > _SHORT and key in known for key in one.texts)
    ]
    left = _not_shown(wanted, results)
    left = _not_shown(left, _searched(world, rows, left)) if left else []
    for one in left:
        for tool in one.tools:
            yield (
                f"{tool} needs {one.name!r}, and no result of a tool shows the key of one of the "
                f"{one.table}: let a tool show it, or leave {tool} out"
            )


def _wanted_in(world: BlockingWorld, rows: Tables) -> list[_Wanted]:
    columns = {name: tuple(table.columns) for name, table in world.template.tables.items()}
    tables = _tables_of(columns)
    found: dict[str, _Wanted] = {}
    for tool in world.tools:
        for name in tool.schema.get("required", ()):
            table = tables.get(name, "")
            if not name.endswith("_id") or not rows.get(table):
                continue
            if name not in found:
                texts = {str(next(iter(row.values()))): _texts_of(row) for row in rows[table]}
                alone = frozenset(texts) - _others(rows, table, tables)
                found[name] = _Wanted(name, table, [], texts, alone)
            found[name].tools.append(tool.name)
    return list(found.values())


def _not_shown(wanted: Sequence[_Wanted], results: Iterable[ShownResult]) -> list[_Wanted]:
    left = list(wanted)
    seen: set[ShownResult] = set()
    for result in results:
        if not left:
            break
        if result in seen or not result.text.startswith(("{", "[")):
            continue
        seen.add(result)
        for path, value, record in _leaves(_decoded(result.text), (result.tool,), {}):
            shown = [one for one in left if one.is_shown_at(path, value, record)]
            if shown:
                left = [one for one in left if one not in shown]
    return left


def _searched(
    world: BlockingWorld, rows: Tables, wanted: Sequence[_Wanted]
) -> Iterator[ShownResult]:
    """The results of searching for the texts of some of the tables' rows, and of what they refer
    to, and of listing what belongs to every record: random texts and keys find none."""
    prober = Prober(world, 0)
    yield from _listed(world, prober) if wanted else ()
    for one in wanted:
        for row in rows.get(one.table, ())[:_SEARCHED_ROWS]:
            texts = [value for value in row.values() if isinstance(value, str)][:_SEARCHED_TEXTS]
            for tool in world.tools:
                properties = tool.schema.get("properties", {})
                base = prober.call(tool).arguments
                base = {name: row.get(name, value) for name, value in base.items()}
                free = [name for name in base if _is_free_text(name, properties[name])]
                for text in texts if free else texts[:1]:
                    arguments = {**base, **dict.fromkeys(free, text)}
                    for given in (arguments, _required_of(tool, arguments)):
                        result = world.lease().call(tool.name, given)
                        if result.error is None and not result.changes:
                            yield ShownResult(tool.name, result.text)


def _listed(world: BlockingWorld, prober: Prober) -> Iterator[ShownResult]:
    """The results of the tools that need nothing but the key of one record, for many records."""
    for tool in world.tools:
        required = tool.schema.get("required", ())
        if len(required) == 1 and required[0].endswith("_id"):
            for key in prober.pool.get(required[0], ())[:_LISTED]:
                result = world.lease().call(tool.name, {required[0]: key})
                if result.error is None and not result.changes:
                    yield ShownResult(tool.name, result.text)


def _required_of(tool: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without the optional ones, but for one free text where none is required."""
    required = tool.schema.get("required", ())
    properties = tool.schema.get("properties", {})
    kept = {name: value for name, value in arguments.items() if name in required}
    free = [name for name in arguments if _is_free_text(name, properties[name])]
    return kept or {name: arguments[name] for name in free[:1]}


def _is_free_text(name: str, schema: Mapping[str, Any]) -> bool:
    branches = schema.get("anyOf") or [schema]
    return not name.endswith("_id") and any(
        branch.get("type") == "string" and not branch.keys() & {"enum", "pattern", "format"}
        for branch in branches
    )


def _tables_of(columns: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Argument -> the table whose key it is.

    Example: {"absences": ("id", "kind")} -> {"absence_id": "absences"}
    """
    found: dict[str, str] = {}
    for table, names in columns.items():
        if names[:1] == ("id",):
            row: Row = {"id": 0}
            found |= {name: table for name in values_of({table: [row]}) if name != "id"}
        elif names and names[0].endswith("_id"):
            found[names[0]] = table
    return found


def _others(rows: Tables, table: str, tables: Mapping[str, str]) -> frozenset[str]:
    """The values of all other tables, but for columns that refer to this one."""
    own = {name for name, one in tables.items() if one == table}
    return frozenset(
        str(value)
        for other, of_other in rows.items()
        if other != table
        for row in of_other
        for column, value in row.items()
        if column not in own
    )


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return None


def _texts_of(row: Row) -> frozenset[str]:
    """The texts of a row that name it: codes of its state ("open") are in other tables, too."""
    values = list(row.values())[1:]
    return frozenset(text for text in values if isinstance(text, str) and len(text) >= _NAMING)


def _leaves(
    value: Any, path: tuple[str, ...], record: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], str, Mapping[str, Any]]]:
    """The fields of a result: path, value, and the record that has it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name), value)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path, record)
    elif value is not None and not isinstance(value, bool):
        yield path, str(value), record
