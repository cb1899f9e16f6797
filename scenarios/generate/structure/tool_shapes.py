"""Shaping the tools of a module in a world's style: lists, actions, refusals.

- A tool with a `limit` returns an object: its rows, their total, whether some are left out.
- Actions with the same arguments on the same record may become one tool with an `action`.
- A refusal may begin with a code.

A situation's calls name the tools as their modules have them; `shape_call` gives the call as the
world has it.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random

import msgspec

from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.plan.business_modules import CodePiece, Module, ToolsCode
from rehearsal_room.scenarios.generate.structure.code_pieces import (
    calling_piece,
    function_of,
    piece_of,
    private_piece,
)
from rehearsal_room.scenarios.generate.structure.world_style import WorldStyle

_LIMIT = re.compile(r"limit: Limit = (\d+)")
_RAISED = re.compile(r"ToolError\((\s*)(f?)\"([^\"]*)")
# The helper in modules/common.py for each style of lists; no name has a word that trades replace.
_RESULT = {"items": "_with_total", "results": "_with_more", "rows": "_with_counts"}
_READING = ("get", "list", "search", "find", "count", "check")


class ShapedTool(msgspec.Struct, frozen=True):
    """What became of a tool."""

    name: str  # of the world's tool
    action: str | None = None  # the value of its argument `action`; None: it has none
    renamed: dict[str, str] = {}  # arguments


Shapes = Mapping[str, ShapedTool]  # by the module's name of the tool


def shape_call(one: Call, shapes: Shapes) -> Call:
    """A situation's call as the world has it."""
    shape = shapes.get(one.name)
    if shape is None:
        return one
    arguments = {shape.renamed.get(name, name): value for name, value in one.arguments.items()}
    if shape.action is not None:
        arguments = _after_first(arguments, "action", shape.action)
    return Call(shape.name, arguments)


def _after_first(arguments: dict[str, object], name: str, value: object) -> dict[str, object]:
    first = dict(list(arguments.items())[:1])
    return first | {name: value} | dict(list(arguments.items())[1:])


def shape_tools(
    module: Module, style: WorldStyle, rng: Random
) -> tuple[Module, dict[str, ShapedTool]]:
    """A module with its tools in a style, and what became of the tools that changed."""
    shapes: dict[str, ShapedTool] = {}
    pieces = list(module.code.pieces)
    for group in _groups(pieces):
        if rng.random() < style.merged:
            pieces = _merged(pieces, group, shapes)
    pieces = _listed(pieces, style, shapes)
    if style.errors == "coded":
        pieces = [_coded(piece) for piece in pieces]
    imports = {"Literal": ("typing", "Literal"), **module.code.imports}
    code = ToolsCode(imports, tuple(pieces))
    return msgspec.structs.replace(module, code=code), shapes


# Lists ------------------------------------------------------------------------------------------


def _listed(
    pieces: Sequence[CodePiece], style: WorldStyle, shapes: dict[str, ShapedTool]
) -> list[CodePiece]:
    found: list[CodePiece] = []
    hidden = {piece.name for piece in pieces if piece.is_tool and _LIMIT.search(piece.text)}
    for piece in pieces:
        if piece.name not in hidden:
            found.append(calling_piece(piece, hidden))
            continue
        inner, outer = _list_tool(calling_piece(piece, hidden - {piece.name}), style)
        found += [inner, outer]
        if style.lists == "pages":
            shapes[piece.name] = ShapedTool(piece.name, None, {"limit": "page_size"})
    return found


def _list_tool(piece: CodePiece, style: WorldStyle) -> tuple[CodePiece, CodePiece]:
    """The function that finds the rows, without a limit of its own, and the tool that cuts them."""
    node = function_of(piece)
    doc = ast.get_docstring(node) or ""
    names = [argument.arg for argument in node.args.args]
    inner = private_piece(piece, node)
    values = ", ".join("limit=_ALL" if name == "limit" else name for name in names)
    arguments = ast.unparse(node.args).replace("=", " = ")
    rows = f"_{piece.name}({values})"
    if style.lists == "pages":
        arguments = _LIMIT.sub(r"page: Page = 1, page_size: Limit = \1", arguments)
        body = f"return _with_pages({rows}, page, page_size)"
        more = "One page of them, with the number of pages and of all."
    else:
        body = f"return {_RESULT[style.lists]}({rows}, limit)"
        more = "At most `limit` of them, with the number of all."
    text = f"def {piece.name}({arguments}) -> Row:\n{_docstring(f'{doc} {more}')}\n    {body}"
    return inner, piece_of(piece.name, text, is_tool=True)


# Actions ----------------------------------------------------------------------------------------


def _groups(pieces: Sequence[CodePiece]) -> list[list[CodePiece]]:
    """The actions that can be one tool: the same arguments, the same noun at the end."""
    groups: dict[tuple[str, str], list[CodePiece]] = defaultdict(list)
    for piece in pieces:
        verb, _, noun = piece.name.partition("_")
        if piece.is_tool and noun and verb not in _READING:
            groups[noun, ast.unparse(function_of(piece).args)].append(piece)
    return [group for group in groups.values() if len(group) > 1]


def _merged(
    pieces: Sequence[CodePiece], group: Sequence[CodePiece], shapes: dict[str, ShapedTool]
) -> list[CodePiece]:
    noun = group[0].name.partition("_")[2]
    name = f"update_{noun}"
    if any(piece.name == name for piece in pieces):
        return list(pieces)
    merged = {piece.name for piece in group}
    found = []
    for piece in pieces:
        changed = calling_piece(piece, merged - {piece.name})
        if piece.name in merged:
            changed = private_piece(changed, function_of(changed))
        found.append(changed)
    at = max(index for index, piece in enumerate(found) if piece.name.lstrip("_") in merged)
    found.insert(at + 1, piece_of(name, _action_tool(name, group), is_tool=True))
    for piece in group:
        shapes[piece.name] = ShapedTool(name, piece.name.partition("_")[0])
    return found


def _action_tool(name: str, group: Sequence[CodePiece]) -> str:
    node = function_of(group[0])
    verbs = [piece.name.partition("_")[0] for piece in group]
    docs = [" ".join((ast.get_docstring(function_of(piece)) or "").split()) for piece in group]
    first, *rest = [ast.unparse(argument) for argument in _arguments(node)[1:]]
    literal = ", ".join(f'"{verb}"' for verb in verbs)
    arguments = ", ".join(["db: Db", first, f"action: Literal[{literal}]", *rest])
    doc = " ".join(f"`{verb}`: {doc}" for verb, doc in zip(verbs, docs, strict=True))
    values = ", ".join(argument.arg for argument in node.args.args)
    lines = [f"def {name}({arguments}) -> Row:", _docstring(doc)]
    for verb, piece in list(zip(verbs, group, strict=True))[:-1]:
        lines += [f'    if action == "{verb}":', f"        return _{piece.name}({values})"]
    return "\n".join([*lines, f"    return _{group[-1].name}({values})"])


def _arguments(node: ast.FunctionDef) -> list[ast.arg]:
    return list(node.args.args)


# Refusals ---------------------------------------------------------------------------------------


def _coded(piece: CodePiece) -> CodePiece:
    def code(found: re.Match[str]) -> str:
        space, formatted, text = found.groups()
        kind = "conflict"
        if text.startswith(("There is no", "No ", "There are no")):
            kind = "not_found"
        elif text.startswith(("Only ", "Your ")):
            kind = "forbidden"
        return f'ToolError({space}{formatted}"{kind}: {text}'

    return msgspec.structs.replace(piece, text=_RAISED.sub(code, piece.text))


def _docstring(text: str) -> str:
    """A docstring in lines of at most 100 characters."""
    words, lines, line = " ".join(text.split()).split(" "), [], '    """'
    for word in words:
        if len(line) + len(word) > 96:
            lines.append(line.rstrip())
            line = "    "
        line += f"{word} "
    return "\n".join([*lines, line.rstrip() + '"""'])
