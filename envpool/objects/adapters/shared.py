"""What adapters share: findings, descriptions of tools, and tables as records.

An adapter has it by a relative import: in the suite's own process this folder is a package of its
own name (see envpool.objects.program).
"""

import contextlib
import importlib
from collections.abc import Iterable, Iterator
from typing import Any

Json = dict[str, Any]
Talk = list[Json]  # the turns of an episode (see judge.suites.talk)
Question = list[dict[str, str]]  # to a model: messages, each with role and content


def finding(name: str, passed: bool, expected: str, found: str, **more: Any) -> Json:
    """A part of a score. `more`: other fields of scenarios.checks.Finding."""
    part = {"name": name, "passed": passed, "expected": expected, "found": found}
    return {**part, "kind": "goal", **more}


def tool_specs(functions: Iterable[Json]) -> list[Json]:
    """Tools as the harness describes them, from the chat API's descriptions of functions."""
    names = {"name": "name", "description": "description", "schema": "parameters"}
    return [{ours: one[theirs] for ours, theirs in names.items()} for one in functions]


def rows_of(table: Any) -> Iterator[tuple[str, Any]]:
    """The records of a table by their keys: those of a dict or a list; else the table is one."""
    if isinstance(table, dict):
        yield from ((str(key), value) for key, value in table.items())
    elif isinstance(table, list):
        yield from ((str(index), value) for index, value in enumerate(table))
    else:
        yield "", table


def acts_of(user: Json) -> Iterator[tuple[str, list[Json]]]:
    """The messages of a user's turn in which calls were made: text, and calls."""
    at, calls = 0, user["calls"]
    for act in user["acts"] or [{"text": "", "calls": 1} for _ in calls]:
        yield act["text"], calls[at : at + act["calls"]]
        at += act["calls"]


class NextQuestion(Exception):
    """An evaluation asks a model what has no answer yet."""

    def __init__(self, messages: Question) -> None:
        super().__init__("a question without an answer")
        self.messages = messages


def answering(answers: Iterable[str], message: Any) -> Any:
    """What stands in place of a suite's function that asks a model: it gives these answers as
    messages of a class, one after the other, and then raises NextQuestion."""
    given = iter(answers)

    def generate(*, messages: list[Any], **others: Any) -> Any:
        answer = next(given, None)
        if answer is None:
            raise NextQuestion([{"role": one.role, "content": one.content} for one in messages])
        return message(role="assistant", content=answer)

    return generate


def silence() -> None:
    """Let loguru, where the suite uses it, report no calls."""
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("loguru").logger.remove()
