"""The domains of τ²-bench from a checkout (see scenarios.suites.tau2), in the suite's own process.

Databases, tools, assertions and the checks of texts and actions are those of the package `tau2`,
unchanged. Its `__init__` is not executed: it imports every model client.

A database of retail or airline has thousands of records, of which an episode touches a few. So a
world keeps the records of large tables pickled one by one: reading one unpickles it, and after each
call those that did not change go back. Small tables are pickled whole and unpickled when they are
read, and only those that were read are compared.

An episode is scored by playing its calls and the reference actions on fresh worlds; the two
databases are equal exactly when the records that changed are.

`banking_knowledge` has one database for both sides, whose tables are {data, notes}, and an index of
documents, which all worlds share. Which tools the agent has unlocked is part of a world.
"""

import contextlib
import importlib
import itertools
import json
import pickle
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from .shared import (
    Json,
    NextQuestion,
    Question,
    Talk,
    acts_of,
    answering,
    finding,
    rows_of,
    silence,
    tool_specs,
)

_FEW = 20  # records; a table with fewer is kept as it is
_OPEN = "(not judged)"  # scenarios.checks.OPEN: a model decides on it, if one is asked
_PENDING = object()  # in place of a record that is still pickled
_BASES: dict[str, dict[Any, bytes]] = {}  # large table -> its records, pickled
_SMALL: dict[str, bytes] = {}  # small table -> the table, pickled
_TEXTS: dict[str, dict[str, str]] = {}  # small table -> its records as JSON
_LAZY: dict[str, Any] = {}  # database -> its class, whose small tables are unpickled when read


_SHARED: list[Any] = []  # indices of documents, which no call changes


class Records(dict[Any, Any]):
    """A table whose records are unpickled when they are read."""

    def __init__(self, table: str, own: dict[Any, Any], removed: list[Any]) -> None:
        super().__init__(dict.fromkeys(_BASES[table], _PENDING))
        for key in removed:
            super().__delitem__(key)
        super().update(own)
        self.table = table

    def __reduce__(self) -> Any:
        own = {key: value for key, value in super().items() if value is not _PENDING}
        removed = [key for key in _BASES[self.table] if key not in self]
        return Records, (self.table, own, removed)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if found is _PENDING:
            found = pickle.loads(_BASES[self.table][key])  # nosec B301: it is our own pickle
            super().__setitem__(key, found)
        return found

    def get(self, key: Any, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def pop(self, key: Any, *default: Any) -> Any:
        if key in self:
            self[key]
        return super().pop(key, *default)

    def values(self) -> Any:
        return [self[key] for key in self]

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    def original(self, key: Any) -> str | None:
        """The record as it is in the base, as JSON; None: it is not there."""
        base = _BASES[self.table]
        return _text_of(pickle.loads(base[key])) if key in base else None  # nosec B301

    def changes(self) -> dict[Any, Any]:
        """The records that differ from the base, those that were removed as None. Equal ones are
        pickled again."""
        found: dict[Any, Any] = {key: None for key in _BASES[self.table] if key not in self}
        for key, value in list(super().items()):
            if value is _PENDING:
                continue
            text = _text_of(value)
            if text == self.original(key):
                super().__setitem__(key, _PENDING)
            else:
                found[key] = text
        return found


class World:
    """One world: the environment, and the records that its last call left changed."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        # Table and key -> the record as JSON; None: it was removed.
        self.changed: dict[tuple[str, str], str | None] = {}

    def databases(self) -> Iterator[tuple[str, Any]]:
        """The agent's database, and the user's where it has one of its own."""
        yield "", self.environment.tools.db
        user = self.environment.user_tools
        if user is not None and user.db is not self.environment.tools.db:
            yield "user.", user.db

    def read(self) -> Iterator[tuple[str, str, Any]]:
        """The fields that were read since the start: name, name of the table, value."""
        for prefix, database in self.databases():
            for name, value in ({} if database is None else vars(database)).items():
                yield prefix + name, f"{type(database).table_title}.{name}", value

    def changes(self) -> list[list[Any]]:
        """The writes since the last call, as [kind, key, JSON or None]."""
        now = {
            (name, key): text
            for name, title, table in self.read()
            for key, text in _changes_of(title, table)
        }
        before, self.changed = self.changed, now
        writes: list[list[Any]] = [
            [*key, text] for key, text in now.items() if before.get(key, "") != text
        ]
        return writes + [[*key, self._original(*key)] for key in before if key not in now]

    def _original(self, name: str, key: str) -> str | None:
        """A record that is again as it was at the start; None: there was none."""
        for field, title, table in self.read():
            if field == name:
                is_large = isinstance(table, Records)
                return table.original(key) if is_large else _TEXTS[title].get(key)
        return None


def _changes_of(title: str, table: Any) -> Iterator[tuple[str, str | None]]:
    """The records of a table that differ from the start; None: it was removed."""
    if isinstance(table, Records):
        yield from ((str(key), text) for key, text in table.changes().items())
        return
    if pickle.dumps(table) == _SMALL[title]:  # other bytes may be the same records, too
        return
    base, now = _TEXTS[title], {key: _text_of(value) for key, value in _rows_of(table)}
    yield from ((key, text) for key, text in now.items() if base.get(key) != text)
    yield from ((key, None) for key in base if key not in now)


def _rows_of(table: Any) -> Iterator[tuple[str, Any]]:
    fields = getattr(type(table), "model_fields", None)
    if fields is None:
        return rows_of(table)
    if set(fields) != {"data", "notes"}:
        return rows_of({name: getattr(table, name) for name in fields})
    notes = {"(notes)": table.notes} if table.notes else {}
    return rows_of({**table.data, **notes})


def _text_of(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return value.model_dump() if hasattr(value, "model_dump") else value


class Tau:
    """One domain of the suite."""

    def __init__(self, folder: str, domain: str, version: str, variant: str = "") -> None:
        """`folder`: of the checkout. `variant`: how the agent of `banking_knowledge` searches;
        empty: the domain has no such choice."""
        self.version = version
        package = types.ModuleType("tau2")
        package.__path__ = [f"{folder}/src/tau2"]
        sys.modules["tau2"] = package
        silence()
        self._make = importlib.import_module(f"tau2.domains.{domain}.environment").get_environment
        self._tasks = importlib.import_module("tau2.data_model.tasks")
        self._messages = importlib.import_module("tau2.data_model.message")
        self._words = _judge_of_words()
        self._texts = importlib.import_module("tau2.evaluator.evaluator_communicate")
        self._actions = importlib.import_module("tau2.evaluator.evaluator_action")
        types_of = importlib.import_module("tau2.environment.toolkit").get_tool_types
        if variant:
            _share_indices()
        made = self._make(**({"retrieval_variant": variant} if variant else {}))
        tools = {} if made.user_tools is None else made.user_tools.get_tools()
        self._user_names = set(tools) - set(made.tools.get_tools())
        if variant:
            self._user_names |= set(made.user_tools.get_discoverable_tools())
        sides = [made.tools] if made.user_tools is None else [made.tools, made.user_tools]
        self._types = {name: kind for one in sides for name, kind in types_of(one).items()}
        listed = [tool for one in sides for tool in one.get_tools().values()]
        self._specs = tool_specs(tool.openai_schema["function"] for tool in listed)
        made.policy = ""  # the agent has it from the scenario, and a world need not carry it
        _keep_pickled(World(made), domain)
        self._start = pickle.dumps(made)

    def world(self, spec: dict[str, Any]) -> World:
        """A world at the start of a task."""
        environment = pickle.loads(self._start)  # nosec B301: it is our own pickle
        if "reads" in spec:
            environment.tools.set_read_log_allowlist(set(spec["reads"]))
        if spec.get("initial") is not None:
            state = self._tasks.InitialState.model_validate(spec["initial"])
            history = state.message_history or []
            environment.set_state(state.initialization_data, state.initialization_actions, history)
        world = World(environment)
        world.changes()  # from here on
        return world

    def tools(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        """The agent's tools and then the user's, of which a task may have some only."""
        own = spec.get("user_tools")
        hidden = set() if own is None else self._user_names - set(own)
        return [one for one in self._specs if one["name"] not in hidden]

    def records(self, world: World) -> Iterator[tuple[str, str, Any]]:
        """Every record of a world."""
        for prefix, database in world.databases():
            for name in () if database is None else type(database).model_fields:
                for key, value in _rows_of(getattr(database, name)):
                    yield prefix + name, key, json.loads(_text_of(value))

    def call(self, world: World, name: str, arguments: dict[str, Any]) -> tuple[str, str | None]:
        """Execute a call of the agent or the user, each with its own tools: its text, and `refused`
        where it raised."""
        requestor = "user" if name in self._user_names else "assistant"
        made = world.environment.get_response(self._tool_call(name, arguments, requestor))
        world.environment.sync_tools()
        return made.content, "refused" if made.error else None

    def _tool_call(self, name: str, arguments: Any, requestor: str, identifier: str = "0") -> Any:
        given = arguments if isinstance(arguments, dict) else {}
        make = self._messages.ToolCall
        return make(id=identifier, name=name, arguments=given, requestor=requestor)

    def score(self, spec: Json, scoring: Json, talk: Talk) -> list[Json]:
        """The parts of the reward on which the task is based, each as a finding."""
        task, criteria, basis = self._task(scoring)
        found = []
        played = self._played(spec, talk)
        if "DB" in basis and criteria.actions is None and criteria.env_assertions is None:
            found.append(finding("database", True, "anything", "not compared"))
        elif "DB" in basis:
            found.append(self._compare(played, self._solved(spec, criteria.actions or [])))
        if "ENV_ASSERTION" in basis:
            found += self._assertions(played, criteria.env_assertions or [])
        messages = self._conversation(talk)
        if "COMMUNICATE" in basis:
            checks = self._texts.CommunicateEvaluator.calculate_reward(task, messages)
            missing = [one.info for one in checks.communicate_checks or [] if not one.met]
            texts = ", ".join(criteria.communicate_info or []), f"missing: {missing}"
            found.append(finding("communicate", checks.reward == 1, *texts))
        if "ACTION" in basis:
            checks = self._actions.ActionEvaluator.calculate_reward(task, messages, self._types)
            made = checks.action_checks or []
            missing = [one.action.name for one in made if not one.action_match]
            found.append(finding("actions", checks.reward == 1, "", f"missing: {missing}"))
        if "NL_ASSERTION" in basis and criteria.nl_assertions:
            found.append(self._in_words(task, messages, scoring.get("answers")))
        return found or [finding("no criteria", True, "", "")]

    def _task(self, scoring: dict[str, Any]) -> tuple[Any, Any, list[str]]:
        """Upstream's task, its criteria, and which of them count."""
        task = self._tasks.Task.model_validate(scoring["task"])
        criteria = task.evaluation_criteria
        basis = () if criteria is None else criteria.reward_basis
        return task, criteria, [str(one.value) for one in basis]

    def questions(self, spec: Json, scoring: Json, talk: Talk) -> list[Question]:
        """What the score asks a model, each as messages."""
        task, criteria, basis = self._task(scoring)
        if scoring.get("answers") or "NL_ASSERTION" not in basis or not criteria.nl_assertions:
            return []
        try:
            self._in_words(task, self._conversation(talk), [])
        except NextQuestion as exc:
            return [exc.messages]
        return []

    def _in_words(self, task: Any, messages: list[Any], answers: list[str] | None) -> Json:
        """The assertions on which a model decides, if one was asked."""
        expected = "; ".join(task.evaluation_criteria.nl_assertions)
        if answers is None:
            return finding(f"nl assertions {_OPEN}", True, expected, "not checked by code")
        self._words.generate = answering(answers, self._messages.AssistantMessage)
        checks = self._words.NLAssertionsEvaluator.calculate_reward(task, messages)
        missing = [one.nl_assertion for one in checks.nl_assertions if not one.met]
        return finding("nl assertions", checks.reward == 1, expected, f"not met: {missing}")

    def _played(self, spec: dict[str, Any], talk: list[dict[str, Any]]) -> World:
        """A world in which the calls of an episode were made, each by the one who made it: a call
        of the other's tool does nothing. Reading changes nothing."""
        world = self.world(spec)
        environment = world.environment
        for requestor, call in _calls_of(talk):
            name = call["name"]
            if environment._has_tool(name) and environment._is_mutating_tool(name):
                environment.get_response(self._tool_call(name, call["arguments"], requestor))
        environment.sync_tools()
        return world

    def _solved(self, spec: dict[str, Any], actions: Iterable[Any]) -> World:
        """A world in which the reference actions were made, as upstream makes them: a call that
        raises changes nothing, and tools are not synchronised."""
        world = self.world(spec)
        for action in actions:
            with contextlib.suppress(Exception):
                world.environment.make_tool_call(
                    tool_name=action.name, requestor=action.requestor, **action.arguments
                )
        return world

    def _compare(self, one: World, other: World) -> dict[str, Any]:
        one.changes()
        other.changes()
        wrong = sorted({key for key, _ in one.changed.items() ^ other.changed.items()})
        names = ", ".join(" ".join(key) for key in wrong[:5])
        return finding("database", not wrong, "as after the reference actions", names or "equal")

    def _assertions(self, world: World, assertions: Iterable[Any]) -> list[dict[str, Any]]:
        found = []
        for one in assertions:
            name = f"{one.func_name}({json.dumps(one.arguments, default=str)})"
            why = "as expected"
            try:
                met = world.environment.run_env_assertion(one, raise_assertion_error=False)
            except ValueError as exc:  # it asks for a record that does not exist
                met, why = False, str(exc)
            why = why if met else f"not so ({why})"
            found.append(finding(name, met, str(one.assert_value), why))
        return found

    def _conversation(self, talk: list[dict[str, Any]]) -> list[Any]:
        """The episode as messages."""
        made: list[Any] = []
        messages = self._messages
        for number, turn in enumerate(talk):
            if turn["calls"]:
                made += self._acted("assistant", turn["beside"], turn["calls"], f"{number}")
            if turn["text"]:
                made.append(messages.AssistantMessage(role="assistant", content=turn["text"]))
            if (user := turn["user"]) is not None:
                for at, (text, calls) in enumerate(acts_of(user)):
                    made += self._acted("user", text, calls, f"{number}-{at}")
                if user["text"]:
                    made.append(messages.UserMessage(role="user", content=user["text"]))
        return made

    def _acted(self, role: str, text: str, calls: list[Json], identifier: str) -> Iterator[Any]:
        """A message with calls, and their results."""
        messages = self._messages
        kind = messages.UserMessage if role == "user" else messages.AssistantMessage
        made = [
            self._tool_call(call["name"], call["arguments"], role, f"{identifier}-{index}")
            for index, call in enumerate(calls)
        ]
        yield kind(role=role, content=text or None, tool_calls=made)
        for one, call in zip(made, calls, strict=True):
            yield messages.ToolMessage(
                id=one.id,
                role="tool",
                content=call["text"],
                requestor=role,
                error=call["error"] is not None,
            )


def _calls_of(talk: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every call with who made it."""
    for turn in talk:
        yield from (("assistant", call) for call in turn["calls"])
        if turn["user"] is not None:
            yield from (("user", call) for call in turn["user"]["calls"])


def _judge_of_words() -> Any:
    """Upstream's evaluator of assertions in words, whose model we ask: what it would import for
    that, and for spoken talks, is not needed."""
    client = types.ModuleType("tau2.utils.llm_utils")
    client.generate = None  # type: ignore[attr-defined]
    streams = types.ModuleType("tau2.agent.base.streaming")
    for name in ("LinearizationStrategy", "ParticipantTick", "linearize_ticks"):
        setattr(streams, name, None)
    sys.modules |= {client.__name__: client, streams.__name__: streams}
    return importlib.import_module("tau2.evaluator.evaluator_nl_assertions")


def _share_indices() -> None:
    """Let the worlds share the indices of documents. A search's text says how long it took: always
    0 ms here, so that a replay has the same texts."""
    pipeline: Any = importlib.import_module("tau2.knowledge.pipeline")
    ticks = itertools.count()  # above 0, which upstream does not print, and below 1 ms
    pipeline.time = types.SimpleNamespace(perf_counter=lambda: next(ticks) * 1e-9)
    pipeline.RetrievalPipeline.__reduce__ = _as_shared


def _as_shared(index: Any) -> Any:
    if not any(one is index for one in _SHARED):
        _SHARED.append(index)
    return _shared, (next(at for at, one in enumerate(_SHARED) if one is index),)


def _shared(number: int) -> Any:
    return _SHARED[number]


def _keep_pickled(world: World, domain: str) -> None:
    """Pickle the records of large tables one by one, and small tables whole."""
    for prefix, database in world.databases():
        if database is None:
            continue
        title = f"{domain}.{prefix}db"
        fields = vars(database)
        for name in type(database).model_fields:
            table, table_title = fields[name], f"{title}.{name}"
            if isinstance(table, dict) and len(table) > _FEW:
                _BASES[table_title] = {key: pickle.dumps(value) for key, value in table.items()}
                fields[name] = Records(table_title, {}, [])
            else:
                again = pickle.loads(pickle.dumps(table))  # nosec B301: it is our own pickle
                _SMALL[table_title] = pickle.dumps(again)  # as a table has it that was unpickled
                _TEXTS[table_title] = {key: _text_of(value) for key, value in _rows_of(table)}
                del fields[name]
        _LAZY[title] = _lazy(type(database), title)
        database.__class__ = _LAZY[title]


def _lazy(model: Any, title: str) -> Any:
    """A database class whose small tables are unpickled when they are read, and go into a pickle
    only where they changed."""
    names = tuple(model.model_fields)

    def read(self: Any, name: str) -> Any:
        small = _SMALL.get(f"{title}.{name}")
        if small is None:
            return super(made, self).__getattr__(name)
        value = vars(self)[name] = pickle.loads(small)  # nosec B301: it is our own pickle
        return value

    def dump(self: Any, **how: Any) -> Any:
        for name in names:  # the library reads the fields past `read`
            getattr(self, name)
        return model.model_dump(self, **how)

    def reduced(self: Any) -> Any:
        own = {
            name: table
            for name, table in vars(self).items()
            if isinstance(table, Records) or any(_changes_of(f"{title}.{name}", table))
        }
        return _restored, (title, own)

    body = {"__getattr__": read, "model_dump": dump, "__reduce__": reduced}
    made = type(model)(model.__name__, (model,), {"__module__": model.__module__, **body})
    made.table_title = title  # in `body` it would be a field
    return made


def _restored(title: str, fields: dict[str, Any]) -> Any:
    """A database with these fields; the others are as at the start."""
    database = _LAZY[title].__new__(_LAZY[title])
    database.__setstate__(
        {
            "__dict__": fields,
            "__pydantic_extra__": None,
            "__pydantic_fields_set__": set(fields),
            "__pydantic_private__": None,
        }
    )
    return database


adapter = Tau
