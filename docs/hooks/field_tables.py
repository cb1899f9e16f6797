"""Tables of settings, and of the fields of JSON and log records, made from the structs themselves.

Settings are read from the imported struct: key, flag, allowed values, default, description. The
fields of other structs are read from the source, where a comment beside a field says what it is;
so the packages that a module imports (torch, for instance) need not be installed.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import inspect

from rehearsal_room.harness.settings.fields import Field, fields_of
from rehearsal_room.scenarios.validation import describe_bounds


def settings_table(target: str, *, flags: bool = True) -> str:
    """The Markdown tables of a settings struct, one for each table of its TOML file.

    Example: "harness.settings.run.Settings" -> "| key | flag | value | default | meaning | …"
    """
    module, _, name = target.rpartition(".")
    kind = getattr(import_module(module), name)
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    required = {field.encode_name for field in info.fields if field.required}
    groups: dict[str, list[Field]] = {}
    for field in fields_of(kind):
        groups.setdefault(field.table, []).append(field)
    parts = []
    for table, fields in groups.items():
        head = ["key", *(["flag"] if flags else []), "value", "default", "meaning"]
        rows = [_setting_row(field, flags, field.path[0] in required) for field in fields]
        heading = f"**`[{table}]`**\n\n" if table else ""
        parts.append(heading + _markdown([head, *rows]))
    return "\n\n".join(parts)


def fields_table(target: str) -> str:
    """The Markdown table of a struct's fields, with those of the structs inside it.

    Example: "harness.reports.summary.RunReport" -> "| field | value | meaning | …"
    """
    rows = [[f"`{row.path}`", row.kind, row.meaning] for row in struct_fields(target)]
    return _markdown([["field", "value", "meaning"], *rows])


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


# Settings ---------------------------------------------------------------------------------------

_KINDS = (
    (inspect.BoolType, "`true`, `false`"),
    (inspect.IntType, "whole number"),
    (inspect.FloatType, "number"),
    (inspect.StrType, "text"),
    (inspect.DictType, "table"),
)


def _setting_row(field: Field, has_flags: bool, is_required: bool) -> list[str]:
    keys = dict.fromkeys([field.name, field.key])
    flags = [field.extra["short"]] if "short" in field.extra else []
    flags += [f"--{field.flag}"] if field.flag else []
    return [
        "<br>".join(f"`{key}`" for key in keys),
        *([" ".join(f"`{flag}`" for flag in flags)] if has_flags else []),
        _value(field),
        "required" if is_required else _default(field),
        f"{field.description}{' ↻' if field.may_change else ''}",
    ]


def _value(field: Field) -> str:
    if field.words:
        return ", ".join(f"`{word}`" for word in field.words if word)
    if field.is_list:
        return "list of texts"
    if isinstance(field.types[0], inspect.TupleType):
        return "list of numbers"
    words = [name for kind, name in _KINDS if isinstance(field.types[0], kind)]
    return ", ".join([*words, *filter(None, map(describe_bounds, field.types))])


def _default(field: Field) -> str:
    if stated := field.extra.get("default"):
        return str(stated)
    if field.default in (None, "", (), {}):
        return ""
    if isinstance(field.default, tuple):
        return f"`{list(field.default)}`"
    shown = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"`{shown:g}`" if isinstance(shown, float) else f"`{shown}`"


# Fields of other structs ------------------------------------------------------------------------


class FieldRow(NamedTuple):
    """One field: its path from the top, its type in words, and what it means."""

    path: str  # "tasks[].episodes"; in a table of any keys "sizes.*.mean"
    kind: str
    meaning: str


class _Source(NamedTuple):
    module: str
    names: dict[str, ast.AST]  # classes, aliases and imports at the top of the module
    comments: dict[int, str]  # by line
    whole_lines: frozenset[int]  # lines with nothing but a comment


class _Kind(NamedTuple):
    words: str
    nested: tuple[tuple[str, _Source, ast.ClassDef], ...] = ()  # what follows the path; the struct


_WORDS = {
    "int": "whole number",
    "float": "number",
    "str": "text",
    "bool": "`true`, `false`",
    "bytes": "bytes",
    "None": "`null`",
    "Any": "any value",
    "Path": "text",
    "UnsetType": "",
}
_LISTS = ("tuple", "list", "Sequence", "Collection", "frozenset", "set")
_TABLES = ("dict", "Mapping")


def struct_fields(target: str) -> list[FieldRow]:
    """The fields of the struct with this path, and below each field those of the struct in it."""
    module, _, name = target.rpartition(".")
    source, node = _resolve(_source(module), name)
    if not isinstance(node, ast.ClassDef):
        raise ValueError(f"{target}: there is no such class")
    return list(_rows(source, node, "", {}))


def _rows(
    source: _Source, struct: ast.ClassDef, prefix: str, seen: dict[str, str]
) -> Iterator[FieldRow]:
    """`seen` has the path at which each struct was expanded: it is not expanded again."""
    for keyword in struct.keywords:
        if keyword.arg == "tag" and isinstance(keyword.value, ast.Constant):
            doc = (ast.get_docstring(struct) or "").split("\n")[0]
            yield FieldRow(f"{prefix}type", f"`{keyword.value.value}`", doc)
    for where, field in _own_and_inherited(source, struct):
        assert isinstance(field.target, ast.Name)
        path = prefix + _renamed(struct).get(field.target.id, field.target.id)
        kind = _kind(where, field.annotation)
        meaning = _comment(where, field) or _description(field.annotation)
        below: list[FieldRow] = []
        for suffix, home, inner in kind.nested:
            if len(kind.nested) == 1:
                meaning = meaning or (ast.get_docstring(inner) or "").split("\n")[0]
            if (first := seen.get(inner.name)) is not None:
                meaning = f"{meaning} (fields: see `{first}`)".strip()
                continue
            seen[inner.name] = path
            below += _rows(home, inner, f"{path}{suffix}.", seen)
        yield FieldRow(path, kind.words, _sentence(meaning))
        yield from below


def _renamed(struct: ast.ClassDef) -> dict[str, str]:
    """The names in JSON of fields that the struct's keyword `rename` lists.

    Example: class Missing(Struct, rename={"purpose": "for"}) -> {"purpose": "for"}
    """
    for keyword in struct.keywords:
        if keyword.arg == "rename" and isinstance(keyword.value, ast.Dict):
            names: dict[str, str] = ast.literal_eval(keyword.value)
            return names
    return {}


def _own_and_inherited(
    source: _Source, struct: ast.ClassDef
) -> Iterator[tuple[_Source, ast.AnnAssign]]:
    for base in struct.bases:
        if isinstance(base, ast.Name):
            home, node = _resolve(source, base.id)
            if isinstance(node, ast.ClassDef):
                yield from _own_and_inherited(home, node)
    for statement in struct.body:
        if isinstance(statement, ast.AnnAssign):
            yield source, statement


def _kind(source: _Source, node: ast.AST) -> _Kind:
    """The type of an annotation in words, and the structs in it."""
    match node:
        case ast.Constant(value=None):
            return _Kind("`null`")
        case ast.Constant(value=str(text)):
            return _kind(source, ast.parse(text, mode="eval").body)
        case ast.BinOp(left=left, right=right):
            parts = [_kind(source, left), _kind(source, right)]
            words = dict.fromkeys(part.words for part in parts if part.words)
            return _Kind(" or ".join(words), tuple(one for part in parts for one in part.nested))
        case ast.Attribute(attr=name):
            return _Kind(_WORDS.get(name, name))
        case ast.Subscript(value=ast.Name(id=name), slice=inner):
            return _generic(source, name, inner)
        case ast.Name(id=name):
            return _named(source, name)
    return _Kind(ast.unparse(node))


def _generic(source: _Source, name: str, inner: ast.AST) -> _Kind:
    items: list[Any] = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    if name == "Literal":
        return _Kind(", ".join(f"`{ast.literal_eval(item)}`" for item in items))
    if name == "Annotated":
        return _kind(source, items[0])
    if name in _LISTS:
        if name == "tuple" and not (len(items) == 2 and ast.unparse(items[1]) == "..."):
            return _Kind("list of " + ", ".join(_kind(source, item).words for item in items))
        return _within(_kind(source, items[0]), "list of ", "[]")
    if name in _TABLES:
        return _within(_kind(source, items[1]), "map of ", ".*")
    home, node = _resolve(source, name)
    if not isinstance(node, ast.ClassDef):
        return _Kind(name)
    given = dict(zip(_parameters(node), items, strict=True))
    return _Kind("object", (("", home._replace(names=home.names | given), node),))


def _parameters(struct: ast.ClassDef) -> list[str]:
    """The type variables of a generic struct.

    Example: class Interval(Struct, Generic[Bound]) -> ["Bound"]
    """
    for base in struct.bases:
        match base:
            case ast.Subscript(value=ast.Name(id="Generic"), slice=ast.Tuple(elts=names)):
                return [ast.unparse(name) for name in names]
            case ast.Subscript(value=ast.Name(id="Generic"), slice=name):
                return [ast.unparse(name)]
    return []


def _within(kind: _Kind, words: str, suffix: str) -> _Kind:
    nested = tuple((suffix + rest, home, inner) for rest, home, inner in kind.nested)
    plural = {"object": "objects", "text": "texts", "number": "numbers"}
    plural["whole number"] = "whole numbers"
    return _Kind(words + plural.get(kind.words, kind.words), nested)


def _named(source: _Source, name: str) -> _Kind:
    if name in _WORDS:
        return _Kind(_WORDS[name])
    home, node = _resolve(source, name)
    if not isinstance(node, ast.ClassDef):
        return _Kind(name) if node is None else _kind(home, node)
    bases = {ast.unparse(base) for base in node.bases}
    if "StrEnum" in bases:
        values = (one.value for one in node.body if isinstance(one, ast.Assign))
        return _Kind(", ".join(f"`{ast.literal_eval(value)}`" for value in values))
    return _Kind("object", (("", home, node),))


@cache
def _source(module: str) -> _Source:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"{module}: there is no such module")
    text = Path(spec.origin).read_text(encoding="utf-8")
    names: dict[str, ast.AST] = {}
    for statement in ast.parse(text).body:
        match statement:
            case ast.ClassDef(name=name):
                names[name] = statement
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] = value
            case ast.ImportFrom(names=imported):
                names |= {one.asname or one.name: statement for one in imported}
    comments = {}
    whole = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments[token.start[0]] = token.string.lstrip("# ")
            if token.line.lstrip().startswith("#"):
                whole.add(token.start[0])
    return _Source(module, names, comments, frozenset(whole))


def _resolve(source: _Source, name: str) -> tuple[_Source, ast.AST | None]:
    """The module that defines a name, and the definition; None: it is none of our modules'."""
    node = source.names.get(name)
    if not isinstance(node, ast.ImportFrom):
        return source, node
    module = node.module or ""
    ours = module.split(".")[0] == "rehearsal_room"
    return _resolve(_source(module), name) if ours else (source, None)


def _comment(source: _Source, field: ast.AnnAssign) -> str:
    """The comment beside a field, else the lines of comment above it."""
    last = field.end_lineno or field.lineno
    if beside := source.comments.get(last) or source.comments.get(field.lineno):
        return beside
    above: list[str] = []
    line = field.lineno - 1
    while line in source.whole_lines:
        above.insert(0, source.comments[line])
        line -= 1
    return " ".join(above)


def _description(annotation: ast.AST) -> str:
    """The description in `Annotated[..., Meta(description=...)]`; empty: there is none."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.keyword) and node.arg == "description":
            return str(ast.literal_eval(node.value))
    return ""


def _sentence(text: str) -> str:
    """The comment as a table shows it: JSON's `null` for Python's None."""
    return re.sub(r"\bNone\b", "`null`", text)
