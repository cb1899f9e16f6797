"""The program of a suite: it keeps the worlds of a benchmark, whose state is Python objects.

It is started with an interpreter that the user names, so it uses the standard library alone and
imports nothing of this project but the adapters beside it, as a package of another name. Requests
and answers are lines of JSON:

    {"op": "describe", "spec": {...}}                    -> {"tools": [...], "records": [...]}
    {"op": "open", "world": 3, "spec": {...}}            -> {}
    {"op": "call", "world": 3, "name": "cd", "arguments": {...}}
                                                         -> {"text": "...", "writes": [...]}
    {"op": "calls", "world": 3, "calls": [{"name", "arguments", "id"}]}
                                             -> {"answers": [{"text", "error", "place"}], "writes"}
    {"op": "check", "world": 3, "spec": {...}}           -> {"findings": [...]}
    {"op": "rules", "world": 3, "scoring": {...}}        -> {"rules": "..."}
    {"op": "close", "worlds": [3]}                       -> {}
    {"op": "questions", "spec": {...}, "scoring": {...}, "talk": [...]}
                                                         -> {"questions": [[{"role", "content"}]]}
    {"op": "score", "spec": {...}, "scoring": {...}, "talk": [...]}  -> {"findings": [...]}

Requests are answered in their order. A record is [kind, key, value]: kind and key are texts, value
is JSON as text, or null in a write that removes the record. An answer {"fault": "..."} says why a
request failed; `fatal` in it means that the program cannot go on.

An adapter module has a class under the name `adapter`, made with the options; it has `version`, and
`world(spec)`, which makes a world that can be pickled, `tools(spec)`, `call(world, name,
arguments)`, `records(world)` and `score(spec, scoring, talk)`. Where a score
depends on what a model says, it has `questions(spec, scoring, talk)`, and its answers come in
`scoring` under `answers`; it is asked again with the answers so far until it has no more, so a
question may follow on an answer. Where an episode did not end by its talk, nobody is asked, and
`scoring` has `broken_off`. Where all calls of a reply are made together, it has `calls(world,
calls)`. A world that holds something outside has `close(world)`; where findings need the world
itself, `check(world)` makes them at its end. Where the rules of an episode depend on the state in
which it begins, it has `rules(world, scoring)`. A world with many records may have
a method `changes()`, which returns the writes since it was asked last; otherwise all records are
compared after each call.

A world is made once for each spec and then unpickled for each lease, which takes some 50 µs for the
worlds of the BFCL.
"""

import importlib
import json
import os
import pickle
import sys
import traceback
import types
from typing import Any

_REMEMBERED = 1_024  # starts of worlds
_ADAPTERS = "rehearsal_adapters"


class ProgramWorlds:
    """The live worlds, and the start of each kind."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.live: dict[int, Any] = {}
        self.records: dict[int, dict[tuple[str, str], str]] = {}
        self.starts: dict[str, tuple[bytes, dict[tuple[str, str], str]]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out a request."""
        match request["op"]:
            case "describe":
                return self.describe(request["spec"])
            case "open":
                self.open(request["world"], request["spec"])
            case "call":
                return self.call(request["world"], request["name"], request["arguments"])
            case "calls":
                return self.calls(request["world"], request["calls"])
            case "check":
                if request["world"] not in self.live:
                    self.open(request["world"], request["spec"])
                return {"findings": self.adapter.check(self.live[request["world"]])}
            case "rules":
                world = self.live[request["world"]]
                return {"rules": self.adapter.rules(world, request["scoring"])}
            case "close":
                for world in request["worlds"]:
                    self.close(world)
            case "questions":
                asks = getattr(self.adapter, "questions", _no_questions)
                asked = asks(request["spec"], request["scoring"], request["talk"])
                return {"questions": asked}
            case "score":
                found = self.adapter.score(request["spec"], request["scoring"], request["talk"])
                return {"findings": found}
        return {}

    def describe(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The tools of a world and its records at the start."""
        _, records = self.start_of(spec)
        return {
            "tools": self.adapter.tools(spec),
            "records": [[kind, key, value] for (kind, key), value in records.items()],
        }

    def open(self, world: int, spec: dict[str, Any]) -> None:
        """Make a world, in place of one that has its number."""
        self.close(world)
        blob, records = self.start_of(spec)
        self.live[world] = pickle.loads(blob)  # nosec B301: it is our own pickle
        self.records[world] = {} if hasattr(self.live[world], "changes") else dict(records)

    def close(self, world: int) -> None:
        """End a world; there may be none."""
        self.records.pop(world, None)
        self._end(self.live.pop(world, None))

    def _end(self, made: Any) -> None:
        if made is not None and hasattr(self.adapter, "close"):
            self.adapter.close(made)

    def start_of(self, spec: dict[str, Any]) -> tuple[bytes, dict[tuple[str, str], str]]:
        """A pickled world at its start, and its records."""
        name = json.dumps(spec, sort_keys=True)
        start = self.starts.get(name)
        if start is None:
            made = self.adapter.world(spec)
            blob = pickle.dumps(made)
            try:
                start = self.starts[name] = blob, self.records_of(made)
            finally:
                self._end(made)
            if len(self.starts) > _REMEMBERED:
                self.starts.pop(next(iter(self.starts)))
        return start

    def call(self, world: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Execute a call: its text, what kind of failure it is, and the records that changed."""
        text, error = self.adapter.call(self.live[world], name, arguments)
        return {"text": text, "error": error, "writes": self.writes(world)}

    def calls(self, world: int, calls: list[dict[str, Any]]) -> dict[str, Any]:
        """Execute the calls of one reply together: the answer of each, and the records that
        changed."""
        answers = self.adapter.calls(self.live[world], calls)
        return {"answers": answers, "writes": self.writes(world)}

    def writes(self, world: int) -> list[list[Any]]:
        """The records of a world that changed since it was asked last."""
        one = self.live[world]
        if hasattr(one, "changes"):
            changed: list[list[Any]] = one.changes()
            return changed
        before, after = self.records[world], self.records_of(one)
        writes: list[list[Any]] = [
            [*key, value] for key, value in after.items() if before.get(key) != value
        ]
        writes += [[*key, None] for key in before if key not in after]
        if writes:
            self.records[world] = after
        return writes

    def records_of(self, world: Any) -> dict[tuple[str, str], str]:
        """The records of a world, each value as JSON text."""
        return {(kind, key): _text_of(value) for kind, key, value in self.adapter.records(world)}


def _no_questions(*given: Any) -> list[Any]:
    return []


def _text_of(value: Any) -> str:
    """A value as JSON, with sorted keys where they are all texts."""
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except TypeError:
        return json.dumps(value, default=str)


def main() -> None:
    """Answer requests until the input ends."""
    # What the suite's code prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    del sys.path[0]  # this folder, whose modules the suite's code must not find
    package = sys.modules[_ADAPTERS] = types.ModuleType(_ADAPTERS)
    package.__path__ = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "adapters")]
    try:
        module = importlib.import_module(f"{_ADAPTERS}.{sys.argv[1]}")
        adapter = module.adapter(**json.loads(sys.argv[2]))
    except Exception as exc:
        answers.write(json.dumps({"fault": _sentence(exc), "fatal": True}) + "\n")
        answers.flush()
        return
    answers.write(json.dumps({"version": adapter.version, "pid": os.getpid()}) + "\n")
    answers.flush()
    worlds = ProgramWorlds(adapter)
    for line in sys.stdin:
        try:
            answer = worlds.answer(json.loads(line))
        except Exception as exc:
            if not isinstance(exc, ModuleNotFoundError):  # whose text says all that there is
                traceback.print_exc()
            answer = {"fault": _sentence(exc)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    for world in list(worlds.live):
        worlds.close(world)


def _sentence(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}"


if __name__ == "__main__":
    main()
