"""The Berkeley Function Calling Leaderboard, from the data of the package `bfcl-eval`.

Each entry of the data is a scenario with one task. In a multi-turn entry the world is the entry's
classes with its initial configuration, and the user's later texts are a script; a function that the
entry withholds comes with one of them. A single-turn entry has no world: the calls of the first
reply are the answer. The suite `bfcl_v3` has the categories of the leaderboard's third version
(arXiv:2402.15491 and the project's pages describe them), `bfcl_v4` the agentic ones, too (see
scenarios.suites.bfcl.agentic). Functions keep their names, with `_` in place of a dot, which the
chat API does not allow.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.core.dialogue import ScriptedTurn, UserScript
from rehearsal_room.scenarios.core.suite_record import Said, SuiteRecord
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.files import UNREADABLE, read_text
from rehearsal_room.scenarios.format import Call, Scenario, Task, Utterance
from rehearsal_room.scenarios.suites.bfcl import agentic
from rehearsal_room.scenarios.suites.bfcl.answers import reference_call
from rehearsal_room.scenarios.suites.bfcl.tools import tool_name, tool_of
from rehearsal_room.scenarios.suites.checkouts import digest_of_files, require_release
from rehearsal_room.scenarios.suites.entries import ANSWER, entry_scenario, entry_task, identifier

NAME = "bfcl_v3"
NAME_V4 = "bfcl_v4"
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
LIVE_SIZES = {  # entries of the categories that v4 weighs by them
    "live_simple": 258,
    "live_multiple": 1053,
    "live_parallel": 16,
    "live_parallel_multiple": 24,
}
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
_MORE_TOOLS = "I have updated some more functions you can choose from. What about now?"


RELEASE = "2026.3.23"  # of bfcl-eval
RELEASES = {"4f58f1a2101da8603f1b24c0066b5839": RELEASE}  # by the digest of data and checks
RELEASES_V4 = {"a15d2fbae3320c16ad3df2c420073fbd": RELEASE}  # with what the agentic ones need


def release_of(package: Path, version: str, *, suite: str = NAME) -> str:
    """The release of bfcl-eval in a folder. Raises PackageError for another release, and where the
    data or the checks were changed: their scores would not compare."""
    found = RELEASES.get(digest_of(package))
    if suite == NAME_V4 and found is not None:
        found = RELEASES_V4.get(digest_of_v4(package))
    if found is None:
        named = RELEASE if version == "unknown" else version
        advice = f"pip install --no-deps bfcl-eval=={RELEASE}"
        require_release(package, "bfcl-eval", named, RELEASE, lambda: False, advice)
    return str(found)


def digest_of(package: Path) -> str:
    """The digest of what scores depend on: entries, answers, functions, worlds and checks."""
    entries = [f"BFCL_v4_{category}.json" for category in CATEGORIES]
    files = [
        *(package / "data" / name for name in entries),
        *(package / "data" / "possible_answer" / name for name in entries),
        *sorted((package / "data" / "multi_turn_func_doc").glob("*.json")),
        *sorted((package / "eval_checker").rglob("*.py")),
    ]
    return digest_of_files(package, [file for file in files if file.is_file()])


def digest_of_v4(package: Path) -> str:
    """The digest of what the agentic categories depend on, too."""
    files = [package / name for name in agentic.FILES]
    return digest_of_files(package, [file for file in files if file.is_file()])


class BfclData:
    """The data in the folder of the package `bfcl_eval`. Raises PackageError where it has none."""

    def __init__(
        self, package: Path, version: str, *, suite: str = NAME, keys: Collection[str] = ()
    ) -> None:
        """`keys` are the names of the variables that the user lets the worlds have."""
        self._suite, self._keys = suite, keys
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
        """The entries of a category as scenarios, in the data's order. Raises PackageError for a
        category that cannot be played here."""
        if category in (*agentic.CATEGORIES, *agentic.PRELUDES):
            return self._agentic(category)
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
            except UNREADABLE as exc:
                raise PackageError(f"{path}:{number}: not JSON: {exc}") from exc

    def _scenario(self, category: str, entry: dict[str, Any], truth: Any) -> Scenario:
        is_multi_turn = category in MULTI_TURN
        task, world = (
            self._multi_turn(entry, truth)
            if is_multi_turn
            else _single_turn(category, entry, truth)
        )
        scoring: dict[str, Any] = {"category": category, "truth": truth}
        rules, earlier, _ = opening_of(entry["question"][0])
        record = SuiteRecord(
            self._suite, self.version, category, world, {task.id: scoring}, earlier=earlier
        )
        return entry_scenario(record, task, title=entry["id"], path=self._data, rules=rules)

    def _agentic(self, category: str) -> list[Scenario]:
        agentic.require(category, self._keys)
        read = self._entries
        found = []
        for entry in agentic.entries_of(category, read):
            tools = [tool_of(doc) for doc in read(f"multi_turn_func_doc/{entry.functions}")]
            follows = identifier(entry.task.follows)
            task = msgspec.structs.replace(
                entry.task,
                id=identifier(entry.id),
                follows=follows and f"{follows}:{follows}",  # a scenario is named like its task
            )
            record = SuiteRecord(
                self._suite,
                self.version,
                category,
                {**entry.world, "tools": tools, "any_name": True},
                {task.id: {"category": category, **entry.scoring}},
                renders_rules=entry.renders_rules,
                unscored=category in agentic.PRELUDES,
            )
            found.append(
                entry_scenario(record, task, title=entry.id, path=self._data, rules=entry.rules)
            )
        return found

    def _multi_turn(self, entry: dict[str, Any], truth: Any) -> tuple[Task, dict[str, Any]]:
        named = self.docs(entry["involved_classes"])
        missed = {
            int(turn): tuple(names) for turn, names in entry.get("missed_function", {}).items()
        }
        late = {name for names in missed.values() for name in names}
        tools = [
            tool_of(doc, language="" if name in late else "python") for name, doc in named.items()
        ]
        texts = [opening_of(messages)[2] for messages in entry["question"]]
        later = [
            ScriptedTurn(text or _MORE_TOOLS, missed.get(turn, ()))
            for turn, text in enumerate(texts[1:], 1)
        ]
        calls = [[parsed_call(text, named) for text in turn] for turn in truth]
        task = entry_task(
            *(identifier(entry["id"]), texts[0]),
            oracle=tuple(call for turn in calls for call in turn),
            user=UserScript(
                tuple(later),
                tuple(name for names in missed.values() for name in names),
                executes_withheld=bool(missed),
                ends_at_limit=True,
            ),
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
            "any_name": True,
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
    text = opening_of(entry["question"][0])[2]
    task = entry_task(identifier(entry["id"]), text, oracle=tuple(oracle), single_turn=True)
    tools = [tool_of(function, language=language_of(category)) for function in functions]
    world = {"entry": entry["id"], "classes": [], "functions": functions, "tools": tools}
    return task, world | {"any_name": True}


def language_of(category: str) -> str:
    """The language whose values the arguments of a category are.

    Example: "simple_java" -> "java"; "live_multiple" -> "python"
    """
    language = category.rpartition("_")[2]
    return language if language in ("java", "javascript") else "python"


def opening_of(messages: Sequence[Mapping[str, str]]) -> tuple[str, tuple[Said, ...], str]:
    """The messages of a turn: the system prompt, the talk before the last text, and that text. Each
    may be missing."""
    rules = messages[0]["content"] if messages and messages[0]["role"] == "system" else ""
    said = messages[1:] if rules else messages
    earlier = [Said(one["role"], one["content"]) for one in said[:-1]]  # type: ignore[arg-type]
    return rules, tuple(earlier), said[-1]["content"] if said else ""


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
