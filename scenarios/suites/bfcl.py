"""The Berkeley Function Calling Leaderboard v3, from the data of the package `bfcl-eval`.

Each entry of the data is a scenario with one task. In a multi-turn entry the world is the entry's
classes with its initial configuration, and the user's later texts are a script; a function that the
entry withholds comes with one of them. A single-turn entry has no world: the calls of the first
reply are the answer. Files that are named v4 hold v3's content (arXiv:2402.15491 and the project's
pages describe the categories). Functions keep their names, with `_` in place of a dot, which the
chat API does not allow.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.core.dialogue import ScriptedTurn, UserScript
from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.files import read_text
from rehearsal_room.scenarios.format import Call, Scenario, Task, Utterance
from rehearsal_room.scenarios.suites.bfcl_answers import reference_call
from rehearsal_room.scenarios.suites.entries import ANSWER, entry_scenario, identifier

NAME = "bfcl_v3"
MULTI_TURN = (
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
)
NON_LIVE = (
    *("simple_python", "simple_java", "simple_javascript", "multiple", "parallel"),
    *("parallel_multiple", "irrelevance"),
)
LIVE = (
    *("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"),
    *("live_irrelevance", "live_relevance"),
)
CATEGORIES = (*MULTI_TURN, *NON_LIVE, *LIVE)
_DOCS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
_MORE_TOOLS = "There are more functions now. Please try again with them."


class BfclData:
    """The data in the folder of the package `bfcl_eval`. Raises PackageError where it has none."""

    def __init__(self, package: Path, version: str) -> None:
        self._data = package / "data"
        self.package = package
        self.version = version
        if not (self._data / "BFCL_v4_multi_turn_base.json").is_file():
            raise PackageError(
                f"{package}: not the folder of the package bfcl_eval: it has no "
                "data/BFCL_v4_multi_turn_base.json"
            )

    def options(self) -> dict[str, Any]:
        """What the suite's adapter needs."""
        return {"package": str(self.package), "version": self.version}

    def scenarios(self, category: str) -> list[Scenario]:
        """The entries of a category as scenarios, in the data's order."""
        answers = self._answers(category)
        return [
            self._scenario(category, entry, answers.get(entry["id"]))
            for entry in self._entries(f"BFCL_v4_{category}.json")
        ]

    def _answers(self, category: str) -> dict[str, Any]:
        name = f"possible_answer/BFCL_v4_{category}.json"
        if not (self._data / name).exists():  # a category about relevance has none
            return {}
        return {entry["id"]: entry["ground_truth"] for entry in self._entries(name)}

    def _entries(self, name: str) -> Iterator[dict[str, Any]]:
        path = self._data / name
        for number, line in enumerate(read_text(path).splitlines(), 1):
            if not line.strip():
                continue
            try:
                yield msgspec.json.decode(line)
            except msgspec.DecodeError as exc:
                raise PackageError(f"{path}:{number}: not JSON: {exc}") from exc

    def _scenario(self, category: str, entry: dict[str, Any], truth: Any) -> Scenario:
        is_multi_turn = category in MULTI_TURN
        task, world = (
            self._multi_turn(entry, truth)
            if is_multi_turn
            else _single_turn(category, entry, truth)
        )
        scoring: dict[str, Any] = {"category": category, "truth": truth}
        record = SuiteRecord(NAME, self.version, category, world, {task.id: scoring})
        first = entry["question"][0]
        rules = "\n\n".join(one["content"] for one in first if one["role"] == "system")
        return entry_scenario(record, task, title=entry["id"], path=self._data, rules=rules)

    def _multi_turn(self, entry: dict[str, Any], truth: Any) -> tuple[Task, dict[str, Any]]:
        named = self.docs(entry["involved_classes"])
        missed = {
            int(turn): tuple(names) for turn, names in entry.get("missed_function", {}).items()
        }
        excluded = set(entry.get("excluded_function", ()))
        tools = [tool_of(doc) for name, doc in named.items() if name not in excluded]
        texts = [_user_text(messages) for messages in entry["question"]]
        later = [
            ScriptedTurn(text or _MORE_TOOLS, missed.get(turn, ()))
            for turn, text in enumerate(texts[1:], 1)
        ]
        calls = [[parsed_call(text, named) for text in turn] for turn in truth]
        task = Task(
            id=identifier(entry["id"]),
            instruction=texts[0],
            difficulty="unrated",
            kind="open",
            answer=ANSWER,
            oracle=tuple(call for turn in calls for call in turn),
            user=UserScript(tuple(later), tuple(n for names in missed.values() for n in names)),
            utterances=tuple(
                Utterance(sum(map(len, calls[: turn + 1])), ANSWER)
                for turn in range(len(calls) - 1)
            ),
        )
        world = {
            "entry": entry["id"],
            "classes": entry["involved_classes"],
            "config": entry["initial_config"],
            "long_context": "long_context" in entry["id"],
            "tools": tools,
        }
        return task, world

    def docs(self, classes: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The descriptions of all functions of some classes, by name."""
        return {doc["name"]: doc for name in classes for doc in self._docs(name)}

    @cache  # noqa: B019  (one object for each run)
    def _docs(self, name: str) -> tuple[dict[str, Any], ...]:
        return tuple(self._entries(f"multi_turn_func_doc/{_DOCS[name]}.json"))


def _single_turn(category: str, entry: dict[str, Any], truth: Any) -> tuple[Task, dict[str, Any]]:
    functions = entry["function"]
    answers = [] if truth is None else truth
    oracle = [reference_call(category, functions, answer) for answer in answers]
    if category == "live_relevance":  # any call is right
        oracle = [Call(tool_name(functions[0]["name"]), {})]
    task = Task(
        id=identifier(entry["id"]),
        instruction=_user_text(entry["question"][0]),
        difficulty="unrated",
        kind="open",
        answer=ANSWER,
        oracle=tuple(oracle),
        single_turn=True,
    )
    tools = [tool_of(function, language=language_of(category)) for function in functions]
    return task, {"entry": entry["id"], "classes": [], "functions": functions, "tools": tools}


def language_of(category: str) -> str:
    """The language whose values the arguments of a category are.

    Example: "simple_java" -> "java"; "live_multiple" -> "python"
    """
    language = category.rpartition("_")[2]
    return language if language in ("java", "javascript") else "python"


def tool_name(name: str) -> str:
    """The name of a function as a tool."""
    return name.replace(".", "_")


def tool_of(doc: Mapping[str, Any], *, language: str = "python") -> dict[str, Any]:
    """A function's description as a tool: name, description and JSON schema."""
    schema = _schema(doc["parameters"])
    if language != "python":
        schema["properties"] = {
            name: _as_text(value, language)
            for name, value in doc["parameters"]["properties"].items()
        }
    return {"name": tool_name(doc["name"]), "description": doc["description"], "schema": schema}


_TYPES = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "any": "string",
    "Any": "string",
    "String": "string",
    "Boolean": "boolean",
    "Integer": "integer",
    "Double": "number",
}


def _schema(part: Any) -> Any:
    """A part of a description as JSON schema: its types have the names of JSON schema."""
    if isinstance(part, list):
        return [_schema(item) for item in part]
    if not isinstance(part, dict):
        return part
    found = {name: _schema(value) for name, value in part.items()}
    if isinstance(kind := part.get("type"), str):
        found["type"] = _TYPES.get(kind, kind)
    return found


def _as_text(value: Mapping[str, Any], language: str) -> dict[str, Any]:
    """An argument that is written in another language: a text in JSON."""
    kind, title = value["type"], {"java": "Java", "javascript": "JavaScript"}[language]
    what = f"a {title} value" if kind == "any" else f"a {title} value of type {kind}"
    text = f"{value.get('description', '')} (Write {what}, as text.)".strip()
    return {"type": "string", "description": text}


def _user_text(messages: Sequence[Mapping[str, str]]) -> str:
    return "\n\n".join(one["content"] for one in messages if one["role"] != "system")


def parsed_call(text: str, docs: Mapping[str, Mapping[str, Any]]) -> Call:
    """A reference call, which the data has as Python text. It is parsed, never evaluated. Raises
    PackageError for another text.

    Example: "mv('a.txt', destination='b')" -> Call("mv", {"source": "a.txt", "destination": "b"})
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        names = list(docs[call.func.id]["parameters"]["properties"])
        arguments = {
            name: ast.literal_eval(value) for name, value in zip(names, call.args, strict=False)
        }
        arguments |= {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except (AssertionError, KeyError, SyntaxError, ValueError) as exc:
        raise PackageError(f"the reference call {text!r} cannot be read: {exc}") from exc
    return Call(call.func.id, arguments)
