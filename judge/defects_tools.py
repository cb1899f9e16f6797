"""Defects of a package's tools: they break, do something else, or do not repeat themselves."""

import ast
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from judge.defects_code import (
    Function,
    at_end,
    at_start,
    edited,
    functions_of,
    reached,
    replaced,
    retold,
    sql_word,
    stated,
    texts_in,
    without,
)
from judge.defects_subject import Planted, Subject, defect
from scenarios.format import Call

_UPDATE = re.compile(r"UPDATE (\w+) SET .* WHERE (id) = (\?\d*)$", re.DOTALL)


@defect()
def tool_breaks_on_unknown_id(subject: Subject, rng: Random) -> Planted | None:
    """A helper does not look whether the row is there, and takes a value out of nothing."""
    found = []
    for name, function in functions_of(_code(subject)).items():
        for node in ast.walk(function):
            guarded = _guarded(node)
            if guarded and _subscripted(function, guarded):
                found.append((name, ast.dump(node)))
    if not found:
        return None
    name, guard = rng.choice(sorted(found))
    return _planted(subject, name, without(lambda statement: ast.dump(statement) == guard))


@defect()
def tool_breaks_on_blank_text(subject: Subject, rng: Random) -> Planted | None:
    """A tool takes the first word of a text that may have none."""
    return _on_argument(subject, rng, "string", "_first = {0}.split()[0]")


@defect()
def tool_breaks_on_a_quote(subject: Subject, rng: Random) -> Planted | None:
    """A tool puts a text between quotes into its SQL."""
    return _on_argument(subject, rng, "string", "db.value(f\"SELECT '{{{0}}}' <> ''\")")


@defect()
def tool_breaks_on_what_was_left_out(subject: Subject, rng: Random) -> Planted | None:
    """A tool measures an optional argument that was not given."""
    found = [
        (tool, name)
        for tool in sorted(subject.tools)
        for name, schema in subject.properties(tool).items()
        if {"null", "string"} <= {branch.get("type") for branch in _branches(schema)}
    ]
    if not found:
        return None
    tool, name = rng.choice(found)
    return _planted(subject, tool, at_start(f"_length = len({name})"))


@defect()
def tool_breaks_on_an_empty_list(subject: Subject, rng: Random) -> Planted | None:
    """A tool takes the first item of a list that may be empty."""
    found = [
        (tool, name)
        for tool in sorted(subject.tools)
        for name, schema in subject.properties(tool).items()
        if schema.get("type") == "array" and not schema.get("minItems")
    ]
    if not found:
        return None
    tool, name = rng.choice(found)
    return _planted(subject, tool, at_start(f"_first = {name}[0]"))


@defect()
def tool_breaks_on_no_day(subject: Subject, rng: Random) -> Planted | None:
    """A tool takes any text of the pattern 0000-00-00 for a day of the calendar."""
    found = [
        (tool, name)
        for tool in sorted(subject.tools)
        for name, schema in subject.properties(tool).items()
        if r"\d{4}-\d{2}-\d{2}$" in schema.get("pattern", "")
    ]
    if not found:
        return None
    tool, name = rng.choice(found)
    day = f"_day_of = __import__('datetime').date.fromisoformat({name})"
    return _planted(subject, tool, at_start(day))


@defect()
def tool_breaks_on_a_word(subject: Subject, rng: Random) -> Planted | None:
    """A tool forgets one of the words that it lists for an argument."""
    found = [
        (tool, name, schema["enum"])
        for tool in sorted(subject.tools)
        for name, schema in subject.properties(tool).items()
        if len(schema.get("enum", ())) > 1
    ]
    if not found:
        return None
    tool, name, words = rng.choice(found)
    lost = rng.choice(words)
    left = [word for word in words if word != lost]
    return _planted(subject, tool, at_start(f"_place = {left!r}.index({name})"))


@defect()
def tool_names_no_column(subject: Subject, rng: Random) -> Planted | None:
    """A tool's SQL names a column that the schema has not."""
    found = [
        (name, text)
        for name, function in _functions(subject, subject.tools).items()
        for text in texts_in(function)
        if sql_word(text) == "SELECT" and " FROM " in text
    ]
    name, text = rng.choice(found)
    sql = text.replace("SELECT ", "SELECT no_such_column, ", 1)
    return _planted(subject, name, retold(text, sql))


@defect()
def tool_never_ends(subject: Subject, rng: Random) -> Planted | None:
    """A tool's SQL recurses without an end."""
    sql = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    return _planted(subject, rng.choice(sorted(subject.tools)), at_start(f"db.value({sql!r})"))


@defect()
def tool_gives_no_json(subject: Subject, rng: Random) -> Planted | None:
    """A tool gives something that JSON cannot say."""
    tool = rng.choice(sorted(subject.tools))
    return _planted(subject, tool, _returning(lambda value: f"{{'result': {value}, 'db': db}}"))


@defect()
def tool_ends_the_transaction(subject: Subject, rng: Random) -> Planted | None:
    """A tool commits by itself, half-way."""
    tool = rng.choice(subject.writers())
    return _planted(subject, tool, at_end("db.execute('COMMIT')"))


@defect()
def tool_ignores_an_argument(subject: Subject, rng: Random) -> Planted | None:
    """A tool puts a value of its own in an argument's place."""
    if (found := _ignorable(subject, rng)) is None:
        return None
    tool, name, value = found
    return _planted(subject, tool, at_start(f"{name} = {value!r}"))


@defect()
def tool_looks_at_an_argument_in_vain(subject: Subject, rng: Random) -> Planted | None:
    """A tool reads an argument, and then goes on without it."""
    if (found := _ignorable(subject, rng)) is None:
        return None
    tool, name, value = found
    return _planted(subject, tool, at_start(f"_given = str({name})\n{name} = {value!r}"))


@defect()
def tool_writes_another_row(subject: Subject, rng: Random) -> Planted | None:
    """A tool changes another row than the one it was told."""
    other = "(SELECT id FROM {0} WHERE id <> {2} ORDER BY id LIMIT 1)"
    return _updating(subject, rng, "{1} = " + other)


@defect()
def tool_writes_every_row(subject: Subject, rng: Random) -> Planted | None:
    """A tool's UPDATE has a condition that every row fulfils."""
    return _updating(subject, rng, "{2} IS NOT NULL")


@defect()
def tool_has_no_effect(subject: Subject, rng: Random) -> Planted | None:
    """A tool says that it has done what it has not."""
    found = [
        name
        for name, function in _functions(subject, subject.tools).items()
        if len(list(_writes(function)))
    ]
    if not found:
        return None
    return _planted(subject, rng.choice(sorted(found)), without(_is_write))


@defect()
def tool_forgets_a_write(subject: Subject, rng: Random) -> Planted | None:
    """A tool does the one thing and not the other: it ships the order, and leaves the stock."""
    found = [
        (name, ast.dump(statement))
        for name, function in _functions(subject, subject.writers()).items()
        if len(writes := list(_writes(function))) > 1
        for statement in writes
    ]
    if not found:
        return None
    name, write = rng.choice(sorted(found))
    return _planted(subject, name, without(lambda statement: ast.dump(statement) == write))


@defect()
def tool_question_writes(subject: Subject, rng: Random) -> Planted | None:
    """A tool that only asks leaves a trace in the rows."""
    writers = {call.name for one in subject.told for call, result in one.steps if result.changes}
    found = sorted(set(subject.used()) - writers)
    tables = [
        (table, column)
        for table, rows in sorted(subject.rows.items())
        for column, value in (rows[0].items() if rows else ())
        if isinstance(value, str) and column in ("name", "title", "body", "note", "description")
    ]
    if not found or not tables:
        return None
    table, column = rng.choice(tables)
    sql = f"UPDATE {table} SET {column} = {column} || '.'"
    return _planted(subject, rng.choice(found), at_end(f"db.run({sql!r})"))


@defect(listed=True)
def tool_refuses_always(subject: Subject, rng: Random) -> Planted | None:
    """A tool can be reached by nobody: it refuses whatever it is asked."""
    tool = rng.choice(sorted(subject.tools))
    return _planted(subject, tool, at_start("raise ToolError('This is not possible today.')"))


@defect()
def tool_tells_a_refusal_as_success(subject: Subject, rng: Random) -> Planted | None:
    """A tool catches its own refusals, and gives them as results."""

    def change(function: Function) -> None:
        place = 1 if ast.get_docstring(function) is not None else 0
        caught = ast.parse(
            "try:\n    pass\nexcept ToolError as exc:\n    return {'error': str(exc)}"
        )
        inner = caught.body[0]
        assert isinstance(inner, ast.Try)
        inner.body = function.body[place:]
        function.body[place:] = [inner]

    found = [
        name
        for name in sorted(subject.tools)
        if "integer" in str([subject.properties(name)[key] for key in _ids(subject, name)])
    ]
    return _planted(subject, rng.choice(found), change) if found else None


@defect()
def tool_takes_a_key_of_nobody(subject: Subject, rng: Random) -> Planted | None:
    """A tool that writes does not look whether the row is there that it is told of."""
    found = [
        (name, ast.dump(statement))
        for name, function in _functions(subject, subject.writers()).items()
        for statement in function.body
        if (call := stated(statement)) is not None
        and isinstance(call.func, ast.Name)
        and call.func.id.startswith("_")
        and len(call.args) == 2
        and ast.unparse(call.args[1]).endswith("_id")
    ]
    if not found:
        return None
    name, look = rng.choice(found)
    planted = _planted(subject, name, without(lambda statement: ast.dump(statement) == look))
    return planted if _takes(subject, planted, name) else None


@defect(beyond="which states a tool must refuse stands in prose only, where no oracle runs into it")
def tool_allows_a_wrong_status(subject: Subject, rng: Random) -> Planted | None:
    """A tool that must refuse rows in some states takes them."""
    found = [
        (name, ast.dump(node))
        for name, function in _functions(subject, subject.writers()).items()
        for node in ast.walk(function)
        if isinstance(node, ast.If)
        and "status" in ast.unparse(node.test)
        and isinstance(node.body[0], ast.Raise)
    ]
    if not found:
        return None
    name, rule = rng.choice(sorted(found))
    return _planted(subject, name, without(lambda statement: ast.dump(statement) == rule))


@defect()
def tool_reads_the_wall_clock(subject: Subject, rng: Random) -> Planted | None:
    """A tool asks the computer's clock instead of the world's."""
    text = "from datetime import datetime as _clock\n"
    now = ast.parse("_clock.now().isoformat(timespec='microseconds')", mode="eval").body
    old = ast.parse("db.now", mode="eval").body
    found = [
        name
        for name, function in _functions(subject, subject.tools).items()
        if "db.now" in ast.unparse(function)
    ]
    if not found:
        return None
    return _planted(subject, rng.choice(sorted(found)), replaced(old, lambda _: now), head=text)


@defect()
def tool_hides_the_wall_clock(subject: Subject, rng: Random) -> Planted | None:
    """A tool's result has a moment of the computer's clock, asked for in a roundabout way."""
    stamp = "{{'result': {0}, 'asked_at': __import__('time').perf_counter_ns()}}"
    tool = rng.choice(sorted(subject.tools))
    return _planted(subject, tool, _returning(stamp.format))


@defect()
def tool_draws_lots(subject: Subject, rng: Random) -> Planted | None:
    """A tool gives its new rows random codes."""
    tool = rng.choice(sorted(subject.tools))
    drawn = _returning("{{'result': {0}, 'code': random.randint(1000, 9999)}}".format)
    return _planted(subject, tool, drawn, head="import random")


@defect()
def tool_goes_by_the_order_of_a_set(subject: Subject, rng: Random) -> Planted | None:
    """A tool lists texts in the order of a set, which differs from process to process."""
    tool = rng.choice(subject.used())
    words = "list({'north', 'south', 'east', 'west'})"
    return _planted(
        subject, tool, _returning(lambda value: f"{{'result': {value}, 'areas': {words}}}")
    )


@defect()
def tool_goes_by_hashes(subject: Subject, rng: Random) -> Planted | None:
    """A tool picks the greatest of some texts by their hashes, out of sight of who reads it."""
    tool = rng.choice(subject.used())
    word = "max('north south east west centre'.split(), key=str.__hash__)"
    return _planted(
        subject, tool, _returning(lambda value: f"{{'result': {value}, 'area': {word}}}")
    )


@defect()
def tool_counts_its_calls(subject: Subject, rng: Random) -> Planted | None:
    """A tool numbers its results by all calls that were ever made, in whatever episode."""
    tool = rng.choice(sorted(subject.tools))
    numbered = _returning("{{'result': {0}, 'number': _NUMBERS.append(1) or len(_NUMBERS)}}".format)
    return _planted(subject, tool, numbered, head="_NUMBERS: list[int] = []")


@defect()
def tool_remembers_rows(subject: Subject, rng: Random) -> Planted | None:
    """A helper keeps the rows that it has read, and gives them to other episodes, too."""
    found = [
        (name, function.args.args[1].arg)
        for name, function in functions_of(_code(subject)).items()
        if name.startswith("_")
        and len(function.args.args) == 2
        and function.args.args[0].arg == "db"
        and isinstance(function.body[-1], ast.Return)
        and "db.one" in ast.unparse(function)
        and name in reached(functions_of(_code(subject)), subject.writers())
    ]
    if not found:
        return None
    name, key = rng.choice(sorted(found))

    def change(function: Function) -> None:
        at_start(f"if {key} in _ROWS_OF{name}:\n    return dict(_ROWS_OF{name}[{key}])")(function)
        _returning(lambda value: f"_ROWS_OF{name}.setdefault({key}, {value})")(function)

    return _planted(subject, name, change, head=f"_ROWS_OF{name}: dict[object, Row] = {{}}")


@defect()
def tool_tells_of_no_argument(subject: Subject, rng: Random) -> Planted | None:
    """A tool's description has a parameter that the tool does not take."""
    tool = rng.choice(sorted(subject.tools))
    more = rng.choice(
        (
            "\n\nArgs:\n    supervisor_code: The code of whoever allowed it.",
            " Give `supervisor_code` when a supervisor allowed it.",
        )
    )

    def change(function: Function) -> None:
        text = (ast.get_docstring(function) or "") + more
        function.body[0] = ast.Expr(ast.Constant(text))

    return _planted(subject, tool, change)


@defect()
def tool_argument_has_no_type(subject: Subject, rng: Random) -> Planted | None:
    """A tool does not say of which type an argument is."""
    found = [tool for tool in sorted(subject.tools) if subject.properties(tool)]

    def change(function: Function) -> None:
        function.args.args[1].annotation = None

    return _planted(subject, rng.choice(found), change)


def _code(subject: Subject) -> str:
    return subject.texts["tools.py"]


def _planted(subject: Subject, name: str, change: Any, *, head: str = "") -> Planted:
    return Planted({"tools.py": edited(_code(subject), name, change, head=head)}, name)


def _takes(subject: Subject, planted: Planted, tool: str) -> bool:
    """Whether a tool does not refuse a key that no row has any more."""
    calls = [
        Call(call.name, {**call.arguments, name: 999_999_937})
        for one in subject.told
        for call, result in one.steps
        if call.name == tool and result.changes
        for name in _ids(subject, tool)
    ]
    return any(one.error != "refused" for one in subject.answers(planted.files, calls))


def _functions(subject: Subject, names: Any) -> dict[str, Function]:
    functions = functions_of(_code(subject))
    return {name: functions[name] for name in sorted(names) if name in functions}


def _branches(schema: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = schema.get("anyOf") or [schema]
    return found


def _ids(subject: Subject, tool: str) -> list[str]:
    return [name for name in subject.properties(tool) if name.endswith("_id")]


def _on_argument(subject: Subject, rng: Random, kind: str, statement: str) -> Planted | None:
    """A statement before all else, about an argument that may be any text."""
    found = [
        (tool, name)
        for tool in sorted(subject.tools)
        for name, schema in subject.properties(tool).items()
        if schema.get("type") == kind
        and not schema.keys() & {"enum", "pattern", "format"}
        and schema.get("minLength", 0) <= 1
    ]
    if not found:
        return None
    tool, name = rng.choice(found)
    return _planted(subject, tool, at_start(statement.format(name)))


def _guarded(node: ast.AST) -> str | None:
    """The name of which a statement refuses that it is None."""
    if not isinstance(node, ast.If) or not isinstance(node.body[0], ast.Raise):
        return None
    found = re.fullmatch(r"(\w+) is None", ast.unparse(node.test))
    return found[1] if found else None


def _subscripted(function: Function, name: str) -> bool:
    """Whether a function takes a value out of a variable."""
    return any(
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in ast.walk(function)
    )


def _is_write(statement: ast.stmt) -> bool:
    call = stated(statement)
    return call is not None and ast.unparse(call.func) in ("db.run", "db.insert")


def _writes(function: Function) -> Iterator[ast.stmt]:
    for node in ast.walk(function):
        if isinstance(node, ast.stmt) and _is_write(node):
            yield node


def _returning(told: Any) -> Any:
    """A change of what a function's last `return` gives: `told` makes the one of the other."""

    def change(function: Function) -> None:
        last = [node for node in ast.walk(function) if isinstance(node, ast.Return)][-1]
        value = ast.unparse(last.value) if last.value is not None else "None"
        last.value = ast.parse(told(value), mode="eval").body

    return change


def _ignorable(subject: Subject, rng: Random) -> tuple[str, str, Any] | None:
    """A tool, an argument that an oracle gives it, and another value that is given elsewhere or
    that is the default."""
    found = []
    for one in subject.told:
        for call, result in one.steps:
            for name, value in call.arguments.items():
                others = [
                    other.arguments[name]
                    for told in subject.told
                    for other, _ in told.steps
                    if other.name == call.name and name in other.arguments
                ]
                found += [
                    (call.name, name, other)
                    for other in others
                    if other != value and result.error is None
                ]
    return rng.choice(found) if found else None


def _updating(subject: Subject, rng: Random, condition: str) -> Planted | None:
    """An UPDATE by key that an oracle makes, with another condition."""
    functions = functions_of(_code(subject))
    found = []
    for one in subject.told:
        moved = {change.table for change in one.changes if change.before and change.after}
        names = {call.name for call, result in one.steps if result.changes}
        for name in reached(functions, names):
            for text in texts_in(functions[name]):
                place = _UPDATE.match(text)
                if place and place[1] in moved and len(subject.rows[place[1]]) > 1:
                    found.append((name, text, place))
    if not found:
        return None
    name, sql, place = rng.choice(found)
    start = place.start(2)
    told = sql[:start] + condition.format(place[1], place[2], place[3])
    return _planted(subject, name, retold(sql, told))
