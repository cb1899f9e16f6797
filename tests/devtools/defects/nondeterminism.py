"""Defects that make a package's tools nondeterministic: clocks, randomness, state."""

import ast
from random import Random

from tests.devtools.defects.ast_edits import (
    Function,
    at_start,
    functions_of,
    reachable_functions,
    replace_node,
)
from tests.devtools.defects.target import InjectedDefect, TargetPackage, defect
from tests.devtools.defects.tool_edits import code_of, in_tools, returning, tools_of


@defect()
def tool_reads_the_wall_clock(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool reads the computer's clock instead of the world's."""
    text = "from datetime import datetime as _clock\n"
    now = ast.parse("_clock.now().isoformat(timespec='microseconds')", mode="eval").body
    old = ast.parse("db.now", mode="eval").body
    found = [
        name
        for name, function in tools_of(target, target.tools).items()
        if "db.now" in ast.unparse(function)
    ]
    if not found:
        return None
    return in_tools(target, rng.choice(sorted(found)), replace_node(old, lambda _: now), head=text)


@defect()
def tool_hides_the_wall_clock(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool's result has a time of the computer's clock, which is read in a hidden way."""
    stamp = "{{'result': {0}, 'asked_at': __import__('time').perf_counter_ns()}}"
    tool = rng.choice(sorted(target.tools))
    return in_tools(target, tool, returning(stamp.format))


@defect()
def tool_is_random(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool gives its new rows random codes."""
    tool = rng.choice(sorted(target.tools))
    drawn = returning("{{'result': {0}, 'code': random.randint(1000, 9999)}}".format)
    return in_tools(target, tool, drawn, head="import random")


@defect()
def tool_depends_on_set_order(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool lists texts in the order of a set, which differs from process to process."""
    tool = rng.choice(target.used())
    words = "list({'north', 'south', 'east', 'west'})"
    return in_tools(
        target, tool, returning(lambda value: f"{{'result': {value}, 'areas': {words}}}")
    )


@defect()
def tool_depends_on_hashes(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool chooses the text with the greatest hash, in a way that its code hides."""
    tool = rng.choice(target.used())
    word = "max('north south east west centre'.split(), key=str.__hash__)"
    return in_tools(target, tool, returning(lambda value: f"{{'result': {value}, 'area': {word}}}"))


@defect()
def tool_counts_its_calls(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool numbers its results by the calls of all episodes."""
    tool = rng.choice(sorted(target.tools))
    numbered = returning("{{'result': {0}, 'number': _NUMBERS.append(1) or len(_NUMBERS)}}".format)
    return in_tools(target, tool, numbered, head="_NUMBERS: list[int] = []")


@defect()
def tool_remembers_rows(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A helper caches the rows that it has read, also for other episodes."""
    found = [
        (name, function.args.args[1].arg)
        for name, function in functions_of(code_of(target)).items()
        if name.startswith("_")
        and len(function.args.args) == 2
        and function.args.args[0].arg == "db"
        and isinstance(function.body[-1], ast.Return)
        and "db.one" in ast.unparse(function)
        and name in reachable_functions(functions_of(code_of(target)), target.writers())
    ]
    if not found:
        return None
    name, key = rng.choice(sorted(found))

    def change(function: Function) -> None:
        at_start(f"if {key} in _ROWS_OF{name}:\n    return dict(_ROWS_OF{name}[{key}])")(function)
        returning(lambda value: f"_ROWS_OF{name}.setdefault({key}, {value})")(function)

    return in_tools(target, name, change, head=f"_ROWS_OF{name}: dict[object, Row] = {{}}")
