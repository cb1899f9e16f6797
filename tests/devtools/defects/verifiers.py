"""Defects of a package's verifiers: they accept too much, break, or give other findings when they
run a second time."""

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

from rehearsal_room.scenarios.format import Task
from tests.devtools.defects.ast_edits import (
    Function,
    at_start,
    call_of_statement,
    calls_in,
    edit_function,
    functions_of,
    instead,
    method,
    remove_statements,
    replace_node,
)
from tests.devtools.defects.target import InjectedDefect, PlayedOracle, TargetPackage, defect

_GOALS = ("updated", "created", "deleted", "answer_has", "declined")
_TRIES = 6
_ANSWERS = ("answer_has", "answer_lacks", "declined")
_PASSED = "return [Finding('all well', True, 'all well', 'all well', 'goal')]"


@defect()
def verifier_is_not_there(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A task's verifier has another name than the task."""
    task = rng.choice(target.scenario.tasks)

    def change(function: Function) -> None:
        function.name = f"verify_{function.name}"

    return _with_change(target, task, change)


@defect()
def verifier_accepts_all(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier passes for every state."""
    return _with_change(target, rng.choice(target.scenario.tasks), instead(_PASSED))


@defect()
def verifier_accepts_doing_nothing(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier checks only that nothing was harmed."""
    return _lacking(target, rng, target.oracles, _GOALS, rest="return check.findings")


@defect()
def verifier_accepts_a_claim(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier accepts the claim that it was done."""
    task = rng.choice([one.task for one in target.oracles if one.changes])
    word = task.answer.split()[-1].strip(".,!")
    body = (
        f"check = Check(before, after, answer)\ncheck.answer_has({word!r})\nreturn check.findings"
    )
    return _with_change(target, task, instead(body))


@defect()
def verifier_ignores_the_answer(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """The verifier of a question or of a refusal does not read the answer."""
    oracles = [one for one in target.oracles if not one.changes]
    return _lacking(target, rng, oracles, _ANSWERS)


@defect()
def verifier_ignores_the_answer_of_a_change(
    target: TargetPackage, rng: Random
) -> InjectedDefect | None:
    """The verifier of a change that also asks for something does not read the answer."""
    oracles = [one for one in target.oracles if one.changes and "?" in one.task.instruction]
    return _lacking(target, rng, oracles, _ANSWERS)


@defect()
def verifier_ignores_what_else_changed(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier does not check for unwanted changes."""
    oracles = [one for one in target.oracles if one.changes]
    return _lacking(
        target, rng, oracles, ("nothing_else", "untouched"), rest="return check.findings"
    )


@defect()
def verifier_allows_too_much(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier allows any change in a table that the task changes."""
    found = [
        (one.task, table)
        for one in target.oracles
        for table in sorted({change.table for change in one.changes})
    ]

    def make(task: Task, table: str) -> InjectedDefect:
        columns = [repr(name) for row in target.rows[table][:1] for name in row]
        allowed = f"check.allow({', '.join([repr(table), *columns, 'new=99'])})"

        def change(function: Function) -> None:
            start = next(i for i, node in enumerate(function.body) if isinstance(node, ast.Assign))
            function.body[start + 1 : start + 1] = ast.parse(allowed).body

        return _with_change(target, task, change)

    return _harmful(target, rng, [partial(make, *one) for one in found])


@defect()
def verifier_ignores_values(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier checks that a row changed, but not its new values."""
    found = [
        (one.task, call)
        for one, call in _checks(target, ("updated", "created"))
        if len([word for word in call.keywords if word.arg not in (None, "count")])
    ]

    def make(task: Task, call: ast.Call) -> InjectedDefect:
        relaxed = ast.parse(ast.unparse(call), mode="eval").body
        assert isinstance(relaxed, ast.Call)
        for word in relaxed.keywords:
            if word.arg not in (None, "count"):
                word.value = ast.Name("_ANYTHING", ast.Load())
        head = "from scenarios.checks import ANY as _ANYTHING"
        return _with_change(target, task, replace_node(call, lambda _: relaxed), head=head)

    return _harmful(target, rng, [partial(make, *one) for one in found])


@defect()
def verifier_forgets_a_goal(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier permits one of the changes, but does not demand it."""
    found = []
    for one, call in _checks(target, ("updated", "created")):
        names = [repr(word.arg) for word in call.keywords if word.arg not in (None, "count")]
        if isinstance(call.args[0], ast.Constant) and names:
            table = ast.unparse(call.args[0])
            new = ["new=1"] if method(call) == "created" else names
            found.append((one.task, call, f"check.allow({', '.join([table, *new])})"))

    def make(task: Task, call: ast.Call, allowed: str) -> InjectedDefect:
        other = ast.parse(allowed, mode="eval").body
        return _with_change(target, task, replace_node(call, lambda _: other))

    return _harmful(target, rng, [partial(make, *one) for one in found])


@defect()
def verifier_checks_another_row(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier checks another row than the task means."""
    found = []
    for one, call in _checks(target, ("updated",)):
        table, key = call.args[0], call.args[1]
        if isinstance(table, ast.Constant) and isinstance(key, ast.Constant):
            name = str(table.value)
            keys = [row[target.keys[name][0]] for row in target.rows[name]]
            others = [other for other in keys if other != key.value]
            found += [(one.task, call, rng.choice(others))] if others else []
    if not found:
        return None
    task, call, other = rng.choice(found)
    return _with_change(target, task, replace_node(call, lambda _: _with_key(call, other)))


@defect()
def verifier_wants_another_value(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier demands a value that the task does not ask for."""
    found = [
        (one.task, word.value)
        for one, call in _checks(target, ("updated", "created"))
        for word in call.keywords
        if isinstance(word.value, ast.Constant)
        and type(word.value.value) is int
        and word.arg != "count"
    ]
    if not found:
        return None
    task, value = rng.choice(found)
    assert isinstance(value.value, int)
    more = ast.Constant(value.value + 1)

    def change(function: Function) -> None:
        for call in calls_in(function, on="check"):
            for word in call.keywords:
                if ast.dump(word.value) == ast.dump(value):
                    word.value = more

    return _with_change(target, task, change)


@defect()
def verifier_takes_the_first_row(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier reads a row that exists only when the task was done, and breaks without it."""
    found = [one for one in target.oracles if one.changes]
    one = rng.choice(found)
    table = one.changes[0].table
    statement = f"_row = [c for c in after.changes if c.table == {table!r}][0].after['rowid_of']"
    statement = statement.replace("rowid_of", next(iter(one.changes[0].after or {"id": 0})))
    return _with_change(target, one.task, at_start(statement))


@defect()
def verifier_breaks_on_another_state(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier handles only the tables that its task changes, and breaks on others."""
    one = rng.choice(target.oracles)
    known = dict.fromkeys(sorted({change.table for change in one.changes}), 1)
    statement = f"_known = [{known!r}[change.table] for change in after.changes]"
    return _with_change(target, one.task, at_start(statement))


@defect()
def verifier_breaks_on_an_empty_answer(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier takes the answer's first word."""
    task = rng.choice(target.scenario.tasks)
    return _with_change(target, task, at_start("_first = answer.split()[0]"))


@defect()
def verifier_is_random(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier passes at random half of the time, in a hidden way."""
    statement = f"if __import__('random').random() < 0.5:\n    {_PASSED}"
    return _with_change(target, rng.choice(target.scenario.tasks), at_start(statement))


@defect()
def verifier_reads_the_wall_clock(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier reads the computer's clock."""
    task = rng.choice(target.scenario.tasks)
    return _with_change(
        target,
        task,
        at_start("_today = datetime.now().date()"),
        head="from datetime import datetime",
    )


@defect()
def verifier_writes(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier writes to the state before it checks it."""
    table = rng.choice([table for table, rows in target.rows.items() if rows])
    column = next(iter(target.rows[table][0]))
    statement = f"after.all('UPDATE {table} SET {column} = {column} RETURNING {column}')"
    return _with_change(target, rng.choice(target.scenario.tasks), at_start(statement))


@defect()
def verifier_alters_what_it_is_shown(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier removes values from the changes that it is given."""
    task = rng.choice([one.task for one in target.oracles if one.changes])
    statement = "for change in after.changes:\n    (change.after or {}).popitem()"
    return _with_change(target, task, _before_return(statement))


@defect()
def verifier_depends_on_the_order(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier always passes once its task was completed."""
    task = rng.choice(target.scenario.tasks)
    lenient = f"if _SEEN:\n    {_PASSED}"

    def change(function: Function) -> None:
        at_start(lenient)(function)
        last = function.body[-1]
        assert isinstance(last, ast.Return) and last.value is not None
        found = ast.parse(f"_found = {ast.unparse(last.value)}").body
        noted = ast.parse("if all(one.passed for one in _found):\n    _SEEN.append(1)").body
        function.body[-1:] = [*found, *noted, *ast.parse("return _found", mode="exec").body]

    return _with_change(target, task, change, head="_SEEN: list[int] = []")


@defect()
def verifier_rejects_after_many_calls(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier rejects everything after many runs."""
    task = rng.choice(target.scenario.tasks)
    rejection = f"_ASKED.append(1)\nif len(_ASKED) > 10:\n    {_PASSED.replace('True', 'False')}"
    return _with_change(target, task, at_start(rejection), head="_ASKED: list[int] = []")


@defect()
def verifier_gives_no_findings(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A verifier returns "complete", as AWM's do, instead of findings."""
    task = rng.choice(target.scenario.tasks)
    return _with_change(target, task, instead("return {'result': 'complete'}"))


def _harmful(
    target: TargetPackage, rng: Random, injections: Sequence[Callable[[], InjectedDefect]]
) -> InjectedDefect | None:
    """The first of a few, in random order, with which a wrong attempt is completed."""
    for make in rng.sample(injections, min(_TRIES, len(injections))):
        if target.is_fooled(injected := make()):
            return injected
    return None


def _with_change(
    target: TargetPackage, task: Task, change: Callable[[Function], None], *, head: str = ""
) -> InjectedDefect:
    text = edit_function(target.texts["verify.py"], task.verifier, change, head=head)
    return InjectedDefect({"verify.py": text}, task.id)


def _function(target: TargetPackage, task: Task) -> Function:
    return functions_of(target.texts["verify.py"])[task.verifier]


def _checks(target: TargetPackage, methods: Iterable[str]) -> list[tuple[PlayedOracle, ast.Call]]:
    """The calls of these methods of a Check, with the oracle of the verifier's task."""
    names = set(methods)
    return [
        (one, call)
        for one in target.oracles
        for call in calls_in(_function(target, one.task), on="check")
        if method(call) in names
    ]


def _lacking(
    target: TargetPackage,
    rng: Random,
    oracles: Iterable[PlayedOracle],
    methods: Iterable[str],
    *,
    rest: str = "",
) -> InjectedDefect | None:
    """A verifier without the checks of these methods; `rest` replaces its `return` where that
    returns the check."""
    names = set(methods)
    found = []
    for one in oracles:
        function = _function(target, one.task)
        statements = [
            call_of_statement(node) for node in ast.walk(function) if isinstance(node, ast.stmt)
        ]
        there = [call for call in calls_in(function, on="check") if method(call) in names]
        if all(any(call is one for one in statements) for call in there) and (there or rest):
            found.append(one.task)
    if not found:
        return None

    def is_one(statement: ast.stmt) -> bool:
        call = call_of_statement(statement)
        return call is not None and ast.unparse(call.func) in {f"check.{name}" for name in names}

    def change(function: Function) -> None:
        remove_statements(is_one)(function)
        if rest:
            function.body[-1:] = ast.parse(rest).body

    return _with_change(target, rng.choice(found), change)


def _with_key(call: ast.Call, key: object) -> ast.Call:
    args = [call.args[0], ast.Constant(key), *call.args[2:]]  # type: ignore[arg-type]  # a key
    return ast.Call(call.func, args, call.keywords)


def _before_return(source: str) -> Callable[[Function], None]:
    """A change that makes a verifier do something after its last check."""

    def change(function: Function) -> None:
        last = function.body[-1]
        assert isinstance(last, ast.Return) and last.value is not None
        body = f"_found = {ast.unparse(last.value)}\n{source}\nreturn _found"
        function.body[-1:] = ast.parse(body).body

    return change
