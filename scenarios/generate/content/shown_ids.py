"""Which tools show the ids that other tools need, read from their code.

A world leaves out tools that no task needs, at random. So the tool that shows the absences could be
left out, and the one that cancels an absence by its id be kept: nobody can use that.

What a tool shows is read from its SQL: a tool that writes nothing shows the ids of a table when it
selects them (`*`, `id`), unless it needs such an id itself. That is a guess; the gate finds what it
misses (judge.gate.checks.shown_ids).
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from rehearsal_room.scenarios.generate.content.drawn_world import DrawnWorld
from rehearsal_room.scenarios.generate.plan.business_modules import CodePiece, needed_pieces

_SELECT = re.compile(r"\bSELECT\b(?P<list>.*?)\bFROM\b(?P<rest>.*)", re.DOTALL)
_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)(?:\s+AS\s+(\w+)|\s+(?!WHERE|ORDER|JOIN|ON)(\w+))?")
_IDS = re.compile(r"(?:\b(\w+)\.)?(\*|\bid\b)")  # in a list of columns, with the table's alias
_SHOWING = ("get", "show", "view")
_WRITES = re.compile(r"\bdb\.(?:run|insert)\(|\b_insert\w*\(")


def without_unusable(
    world: DrawnWorld, tools: Collection[str], needed: Collection[str]
) -> list[str]:
    """The tools (canonical names), without those that need an id which none of them shows; those in
    `needed` stay."""
    kept = list(tools)
    pieces = {piece.name: piece for one in world.modules for piece in one.code.pieces}
    tables = [name for one in world.modules for name in one.tables]
    owners = {f"{one}_id": name for name in tables for one in _singulars(name)}
    wanted = {name: _ids_needed(pieces[name]) & owners.keys() for name in kept}
    shown = {name: set(_ids_shown(name, pieces, owners)) for name in kept}
    while True:
        known = {one for name in kept for one in shown[name] - wanted[name]}
        useless = [name for name in kept if name not in needed and not wanted[name] <= known]
        if not useless:
            return kept
        kept = [name for name in kept if name not in useless]


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
    shows only who asks (get_my_profile). Helpers that look a row up, to check it, count only for a
    tool that shows one."""
    names = needed_pieces(list(pieces.values()), [tool])
    if any(_WRITES.search(pieces[name].text) for name in names) or "my" in tool.split("_"):
        return
    if tool.split("_")[0] not in _SHOWING:
        names = names & {tool, f"_{tool}"}
    for name in names:
        if (found := _SELECT.search(pieces[name].text)) is None:
            continue
        tables = _TABLE.findall(f"FROM {found['rest']}")
        for alias, _ in _IDS.findall(found["list"]):
            of = [table for table, *others in tables if not alias or alias in (table, *others)]
            name = of[0].removeprefix("current_") if of else ""  # a view of rows that are there
            yield from (key for key, table in owners.items() if table == name)
