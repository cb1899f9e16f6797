"""Pieces of code that a style changes: functions become private, calls follow."""

import ast
import re
from functools import lru_cache

import msgspec

from rehearsal_room.scenarios.generate.plan.business_modules import CodePiece


def function_of(piece: CodePiece) -> ast.FunctionDef:
    """The function that a piece is."""
    node = _parsed(piece.text).body[-1]
    assert isinstance(node, ast.FunctionDef), piece.name
    return node


def private_piece(piece: CodePiece, node: ast.FunctionDef) -> CodePiece:
    """The piece as a function that is not a tool: with `_` before its name, without docstring."""
    lines = piece.text.split("\n")
    if ast.get_docstring(node) is not None and len(node.body) > 1:
        doc = node.body[0]
        del lines[doc.lineno - 1 : doc.end_lineno]
    text = re.sub(rf"\bdef {piece.name}\(", f"def _{piece.name}(", "\n".join(lines), count=1)
    return piece_of(f"_{piece.name}", text, is_tool=False)


def calling_piece(piece: CodePiece, hidden: set[str]) -> CodePiece:
    """The piece, where it calls tools that are functions with `_` before their name now."""
    called = sorted(hidden & piece.uses)
    text = piece.text
    for name in called:
        text = re.sub(rf"(?<![\w.]){name}\(", f"_{name}(", text)
    return piece_of(piece.name, text, is_tool=piece.is_tool) if called else piece


def piece_of(name: str, text: str, *, is_tool: bool) -> CodePiece:
    """A block of code as a piece."""
    return CodePiece(name, text, _names(text), is_tool, True)


def with_text(piece: CodePiece, text: str) -> CodePiece:
    """The piece with another text."""
    if text == piece.text:
        return piece
    return msgspec.structs.replace(piece, text=text, uses=_names(text))


@lru_cache(8_192)  # the same pieces come again in worlds of the same style
def _names(text: str) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name))


@lru_cache(2_048)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)
