"""Which tools show the ids that other tools need, read from their code.

A world leaves out tools that no task needs, at random. So the tool that shows the absences could be
left out, and the one that cancels an absence by its id be kept: nobody can use that. Such a tool is
left out, too; where a task needs it, the tool that shows the ids stays.

What a tool shows is read from its SQL: a tool that writes nothing shows the ids of a table when it
selects them (`*`, `id`) outside of subqueries, unless it needs such an id itself. That is a guess;
the gate finds what it misses (judge.gate.checks.shown_ids).
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from rehearsal_room.scenarios.generate.content.drawn_world import DrawnWorld
from rehearsal_room.scenarios.generate.plan.business_modules import CodePiece, needed_pieces

_SELECT = re.compile(r"\bSELECT\b(?P<list>.*?)\bFROM\b(?P<rest>.*)", re.DOTALL)
_NESTED = re.compile(r"\([^()]*\)")
_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)(?:\s+AS\s+(\w+)|\s+(?!WHERE|ORDER|JOIN|ON)(\w+))?")
_IDS = re.compile(r"(?:\b(\w+)\.)?(\*|\bid\b)")  # in a list of columns, with the table's alias
_PARTIAL = {"my", "overdue"}  # in the name of a tool that may show none of a table's rows
_SHOWING = ("get", "show", "view")
_WRITES = re.compile(r"\bdb\.(?:run|insert)\(|\b_insert\w*\(")


def with_usable(world: DrawnWorld, tools: Collection[str], needed: Collection[str]) -> list[str]:
    """The tools (canonical names) in whose world an agent can know every id that they need.

    Those in `needed` stay, with other tools of the world that show their ids; the others are left
    out where no tool shows theirs.
    """
    pieces = {piece.name: piece for one in world.modules for piece in one.code.pieces}
    tables = [name for one in world.modules for name in one.tables]
    owners = {f"{one}_id": name for name in tables for one in _singulars(name)}
    every = [name for one in world.modules for name in one.tools]
    wanted = {name: _ids_needed(pieces[name]) & owners.keys() for name in every}
    shown = {name: set(_ids_shown(name, pieces, owners)) - wanted[name] for name in every}
    kept = {*tools, *_showing(needed, tools, wanted, shown)}
    while True:
        known = set[str]().union(*(shown[name] for name in kept))
        useless = {name for name in kept if name not in needed and not wanted[name] <= known}
        if not useless:
            return [name for name in every if name in kept]
        kept -= useless


def _showing(
    needed: Collection[str],
    tools: Collection[str],
    wanted: Mapping[str, set[str]],
    shown: Mapping[str, set[str]],
) -> set[str]:
    """The tools to add, so that ids that the needed ones need are shown: of several that show an
    id, the one that needs the fewest others."""
    added: set[str] = set()
    while True:
        known = set[str]().union(*(shown[name] for name in (*tools, *added)))
        missing = sorted(set[str]().union(*(wanted[name] for name in (*needed, *added))) - known)
        able = [
            min(candidates, key=lambda name: (len(wanted[name]), name))
            for one in missing
            if (candidates := [name for name in shown if one in shown[name]])
        ]
        if not able:
            return added
        added.update(able)


def _singulars(table: str) -> Iterator[str]:
    """Example: "categories" -> "category" """
    yield f"{table[:-3]}y" if table.endswith("ies") else table.removesuffix("s")
    if table.endswith("es"):
        yield table.removesuffix("es")


def _ids_needed(piece: CodePiece) -> set[str]:
    """The ids that a tool's caller must give."""
    [function] = [node for node in ast.parse(piece.text).body if isinstance(node, ast.FunctionDef)]
    required = function.args.args[: len(function.args.args) - len(function.args.defaults)]
    return {one.arg for one in required if one.arg.endswith("_id")}


def _ids_shown(
    tool: str, pieces: Mapping[str, CodePiece], owners: Mapping[str, str]
) -> Iterator[str]:
    """The ids of the tables from which a tool selects rows; none for a tool that writes, or that
    shows only who asks (get_my_profile) or what is overdue. Helpers that look a row up, to check
    it, count only for a tool that shows one."""
    names = needed_pieces(list(pieces.values()), [tool])
    if any(_WRITES.search(pieces[name].text) for name in names) or _PARTIAL & set(tool.split("_")):
        return
    if tool.split("_")[0] not in _SHOWING:
        names = names & {tool, f"_{tool}"}
    for name in names:
        for tables_text, selected in _selections(pieces[name].text):
            tables = _TABLE.findall(f"FROM {tables_text}")
            for alias, _ in _IDS.findall(selected):
                of = [one for one, *others in tables if not alias or alias in (one, *others)]
                name = of[0].removeprefix("current_") if of else ""  # a view of rows that are there
                yield from (key for key, table in owners.items() if table == name)


@lru_cache(maxsize=4096)
def _selections(code: str) -> tuple[tuple[str, str], ...]:
    """What each SELECT in code selects from, and its list of columns; subqueries are left out.

    Example: "SELECT id, (SELECT count(*) FROM b) FROM a ORDER BY id" -> ("a ORDER BY id", " id,  ")
    """
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            sql, count = node.value, 1
            while count:
                sql, count = _NESTED.subn("", sql)
            if select := _SELECT.search(sql):
                found.append((select["rest"], select["list"]))
    return tuple(found)
