"""Defects of a package's tools: they break, cannot be reached, or give false information."""

import ast
import re
from random import Random
from typing import Any

from tests.devtools.defects.ast_edits import (
    Function,
    at_end,
    at_start,
    functions_of,
    remove_statements,
    replace_text,
    sql_word,
    texts_in,
)
from tests.devtools.defects.target import InjectedDefect, TargetPackage, defect
from tests.devtools.defects.tool_edits import code_of, ids_of, in_tools, returning, tools_of


@defect()
def tool_breaks_on_unknown_id(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A helper does not check that the row exists, and reads a value of None."""
    found = []
    for name, function in functions_of(code_of(target)).items():
        for node in ast.walk(function):
            guarded = _guarded(node)
            if guarded and _subscripted(function, guarded):
                found.append((name, ast.dump(node)))
    if not found:
        return None
    name, guard = rng.choice(sorted(found))
    return in_tools(target, name, remove_statements(lambda statement: ast.dump(statement) == guard))


@defect()
def tool_breaks_on_blank_text(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool takes the first word of a text that may have none."""
    return _on_argument(target, rng, "string", "_first = {0}.split()[0]")


@defect()
def tool_breaks_on_a_quote(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool puts a text between quotes into its SQL."""
    return _on_argument(target, rng, "string", "db.value(f\"SELECT '{{{0}}}' <> ''\")")


@defect()
def tool_breaks_on_what_was_left_out(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool takes the length of an optional argument that was not given."""
    found = [
        (tool, name)
        for tool in sorted(target.tools)
        for name, schema in target.properties(tool).items()
        if {"null", "string"} <= {branch.get("type") for branch in _branches(schema)}
    ]
    if not found:
        return None
    tool, name = rng.choice(found)
    return in_tools(target, tool, at_start(f"_length = len({name})"))


@defect()
def tool_breaks_on_an_empty_list(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool takes the first item of a list that may be empty."""
    found = [
        (tool, name)
        for tool in sorted(target.tools)
        for name, schema in target.properties(tool).items()
        if schema.get("type") == "array" and not schema.get("minItems")
    ]
    if not found:
        return None
    tool, name = rng.choice(found)
    return in_tools(target, tool, at_start(f"_first = {name}[0]"))


@defect()
def tool_breaks_on_no_day(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool parses any text of the pattern 0000-00-00 as a date."""
    found = [
        (tool, name)
        for tool in sorted(target.tools)
        for name, schema in target.properties(tool).items()
        if r"\d{4}-\d{2}-\d{2}$" in schema.get("pattern", "")
    ]
    if not found:
        return None
    tool, name = rng.choice(found)
    day = f"_day_of = __import__('datetime').date.fromisoformat({name})"
    return in_tools(target, tool, at_start(day))


@defect()
def tool_breaks_on_a_word(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool does not handle one of the words that its schema lists."""
    found = [
        (tool, name, schema["enum"])
        for tool in sorted(target.tools)
        for name, schema in target.properties(tool).items()
        if len(schema.get("enum", ())) > 1
    ]
    if not found:
        return None
    tool, name, words = rng.choice(found)
    lost = rng.choice(words)
    left = [word for word in words if word != lost]
    return in_tools(target, tool, at_start(f"_place = {left!r}.index({name})"))


@defect()
def tool_names_no_column(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool's SQL names a column that the schema does not have."""
    found = [
        (name, text)
        for name, function in tools_of(target, target.tools).items()
        for text in texts_in(function)
        if sql_word(text) == "SELECT" and " FROM " in text
    ]
    name, text = rng.choice(found)
    sql = text.replace("SELECT ", "SELECT no_such_column, ", 1)
    return in_tools(target, name, replace_text(text, sql))


@defect()
def tool_never_ends(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool's SQL recurses without an end."""
    sql = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    return in_tools(target, rng.choice(sorted(target.tools)), at_start(f"db.value({sql!r})"))


@defect()
def tool_gives_no_json(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool returns a value that JSON cannot represent."""
    tool = rng.choice(sorted(target.tools))
    return in_tools(target, tool, returning(lambda value: f"{{'result': {value}, 'db': db}}"))


@defect()
def tool_ends_the_transaction(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool commits its transaction by itself."""
    tool = rng.choice(target.writers())
    return in_tools(target, tool, at_end("db.execute('COMMIT')"))


@defect(listed=True)
def tool_refuses_always(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool is out of reach: it refuses every call."""
    tool = rng.choice(sorted(target.tools))
    return in_tools(target, tool, at_start("raise ToolError('This is not possible today.')"))


@defect()
def tool_returns_a_refusal_as_success(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool catches its own refusals, and returns them as results."""

    def change(function: Function) -> None:
        start = 1 if ast.get_docstring(function) is not None else 0
        caught = ast.parse(
            "try:\n    pass\nexcept ToolError as exc:\n    return {'error': str(exc)}"
        )
        inner = caught.body[0]
        assert isinstance(inner, ast.Try)
        inner.body = function.body[start:]
        function.body[start:] = [inner]

    found = [
        name
        for name in sorted(target.tools)
        if "integer" in str([target.properties(name)[key] for key in ids_of(target, name)])
    ]
    return in_tools(target, rng.choice(found), change) if found else None


@defect()
def tool_describes_no_argument(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool's description has a parameter that the tool does not take."""
    tool = rng.choice(sorted(target.tools))
    more = rng.choice(
        (
            "\n\nArgs:\n    supervisor_code: The code of whoever allowed it.",
            " Give `supervisor_code` when a supervisor allowed it.",
        )
    )

    def change(function: Function) -> None:
        text = (ast.get_docstring(function) or "") + more
        function.body[0] = ast.Expr(ast.Constant(text))

    return in_tools(target, tool, change)


@defect()
def tool_argument_has_no_type(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool does not declare the type of an argument."""
    found = [tool for tool in sorted(target.tools) if target.properties(tool)]

    def change(function: Function) -> None:
        function.args.args[1].annotation = None

    return in_tools(target, rng.choice(found), change)


def _branches(schema: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = schema.get("anyOf") or [schema]
    return found


def _on_argument(
    target: TargetPackage, rng: Random, kind: str, statement: str
) -> InjectedDefect | None:
    """A new first statement, about an argument that may be any text."""
    found = [
        (tool, name)
        for tool in sorted(target.tools)
        for name, schema in target.properties(tool).items()
        if schema.get("type") == kind
        and not schema.keys() & {"enum", "pattern", "format"}
        and schema.get("minLength", 0) <= 1
    ]
    if not found:
        return None
    tool, name = rng.choice(found)
    return in_tools(target, tool, at_start(statement.format(name)))


def _guarded(node: ast.AST) -> str | None:
    """The variable that a statement refuses to be None; None: the statement is another one."""
    if not isinstance(node, ast.If) or not isinstance(node.body[0], ast.Raise):
        return None
    found = re.fullmatch(r"(\w+) is None", ast.unparse(node.test))
    return found[1] if found else None


def _subscripted(function: Function, name: str) -> bool:
    """Whether a function subscripts a variable."""
    return any(
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in ast.walk(function)
    )
