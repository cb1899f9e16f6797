"""VitaBench's domains from a checkout (see scenarios.suites.vitabench), in the suite's own process.

Databases, tools, prompts and the evaluation by windows are those of the package `vita`, unchanged;
what a model is asked there is asked by us. Its products, stores and addresses register themselves
in tables of the process, from which its tools read: a world has tables of its own, which are put in
their place before each call. Ids of orders contain a count of the world in place of the time.

A task's orders are compared with what was ordered, beside the score: upstream has them in its data
and never looks at them.
"""

import contextlib
import importlib
import io
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .shared import (
    Json,
    NextQuestion,
    Question,
    Talk,
    answering,
    finding,
    rows_of,
    silence,
    tool_specs,
)

_TABLES = ("_global_instances", "_polymorphic_instances")
_BOOKED = ("order_id", "reservation_id", "book_id")
_LONGEST = 500  # characters of a justification in a finding
BESIDE = "orders (beside the score)"


class World:
    """One world: its database, the package's tables of it, and how many ids it gave."""

    def __init__(self, domain: str, database: Any, tables: list[dict[str, Any]]) -> None:
        self.domain = domain
        self.database = database
        self.tables = tables
        self.ids = 0


class Clock:
    """In place of `datetime` where ids of orders are made: it counts."""

    def __init__(self) -> None:
        self.world: World | None = None

    def now(self) -> "Clock":
        return self

    def timestamp(self) -> int:
        assert self.world is not None
        self.world.ids += 1
        return self.world.ids


class Vita:
    """The tasks of one language."""

    def __init__(self, folder: str, language: str, version: str) -> None:
        """`folder`: of the checkout."""
        self.version = version
        self._folder, self._language = folder, language
        sys.path.insert(0, f"{folder}/src")
        silence()
        with contextlib.redirect_stdout(io.StringIO()):
            self._environment = importlib.import_module("vita.environment.environment")
            self._messages = importlib.import_module("vita.data_model.message")
            self._tasks = importlib.import_module("vita.data_model.tasks")
            self._evaluation: Any = importlib.import_module("vita.evaluator.evaluator_traj")
            self._registry = importlib.import_module("vita.registry").registry
        self._clock = Clock()
        databases: Any = importlib.import_module("vita.environment.db")
        databases.datetime = self._clock
        tasks = self._tasks
        self._registering = (tasks.Location, tasks.StoreBaseModel, tasks.ProductBaseModel)
        self._known: dict[str, dict[str, Any]] = {}  # domain -> its tasks by id
        self._toolkits: dict[str, Any] = {}  # domain -> an environment, whose database is replaced

    def _task(self, spec: dict[str, Any]) -> dict[str, Any]:
        domain = spec["domain"]
        if domain not in self._known:
            name = "tasks_en.json" if self._language == "english" else "tasks.json"
            folder = "cross_domain" if "," in domain else domain
            path = f"{self._folder}/data/vita/domains/{folder}/{name}"
            with open(path, encoding="utf-8") as file:
                self._known[domain] = {task["id"]: task for task in json.load(file)}
        task: dict[str, Any] = self._known[domain][spec["task"]]
        return task

    def world(self, spec: dict[str, Any]) -> World:
        """A world at the start of a task."""
        domain = spec["domain"]
        for one in self._registering:
            one.clear_thread_data()
        made = self._made(domain, self._task(spec)["environment"])
        self._toolkits.setdefault(domain, made)
        return World(domain, made.tools.db, self._tables())

    def _made(self, domain: str, environment: dict[str, Any]) -> Any:
        if "," in domain:
            return self._environment.get_cross_environment(domain, environment, self._language)
        return self._registry.get_env_constructor(domain)(environment, self._language)

    def _tables(self) -> list[dict[str, Any]]:
        thread = threading.get_ident()
        return [getattr(one, table)[thread] for one in self._registering for table in _TABLES]

    def tools(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        """The agent's tools; the customer has none."""
        if spec["domain"] not in self._toolkits:
            self.world(spec)
        tools = self._toolkits[spec["domain"]].get_tools()
        return tool_specs(tool.openai_schema["function"] for tool in tools)

    def records(self, world: World) -> Iterator[tuple[str, str, Any]]:
        """Every record of a world, and what its tools know besides: products and addresses, which
        an order may change."""
        database = world.database
        parts = (database, *vars(database).get("_dbs", ()))
        for name in dict.fromkeys(name for one in parts for name in type(one).model_fields):
            for key, value in rows_of(getattr(database, name)):
                yield name, key, _plain(value)
        addresses, _, _, _, _, products = world.tables
        for kind, table in (("known address", addresses), ("known product", products)):
            for key, value in table.items():
                yield kind, str(key), _plain(value)
        yield "ids", "given", world.ids

    def call(self, world: World, name: str, arguments: dict[str, Any]) -> tuple[str, str | None]:
        """Execute a call of the agent: its text, and `refused` where it raised."""
        thread = threading.get_ident()
        places = [(one, table) for one in self._registering for table in _TABLES]
        for (one, table), own in zip(places, world.tables, strict=True):
            getattr(one, table)[thread] = own
        toolkit = self._toolkits[world.domain]
        toolkit.tools.db, self._clock.world = world.database, world
        call = self._messages.ToolCall(id="0", name=name, arguments=arguments)
        with contextlib.redirect_stderr(io.StringIO()):  # it prints what tools raise
            made = toolkit.get_response(call)
        return made.content, "refused" if made.error else None

    def questions(self, spec: Json, scoring: Json, talk: Talk) -> list[Question]:
        """The question that follows on the answers so far: one for each window of the talk."""
        try:
            self._reward(spec, talk, scoring.get("answers", ()))
        except NextQuestion as exc:
            return [exc.messages]
        return []

    def score(self, spec: Json, scoring: Json, talk: Talk) -> list[Json]:
        """Whether each rubric is met, by the answers of a model, and the orders beside it."""
        orders = self._orders(spec, talk)
        if scoring.get("broken_off") or not talk:
            criteria = self._tasks.Task.model_validate(self._task(spec)).evaluation_criteria
            states = self._evaluation.TrajectoryEvaluator._initialize_rubric_states(criteria)
            why = "not asked: the talk has no end"
            return [*_rubrics((one["rubric"], False, why) for one in states.values()), orders]
        try:
            reward = self._reward(spec, talk, scoring.get("answers", ()))
        except NextQuestion:
            raise ValueError(
                "a model decides on the rubrics: name it with --judge hybrid --judge-model NAME"
            ) from None
        rubrics = reward.nl_rubrics or []
        found = _rubrics((one.nl_rubric, one.met, one.justification) for one in rubrics)
        return [*(found or [finding("no rubrics", bool(reward.reward), "", "")]), orders]

    def _reward(self, spec: dict[str, Any], talk: list[Any], answers: Iterable[str]) -> Any:
        """Upstream's evaluation with these answers of its model. Raises NextQuestion where it asks
        for more."""
        self._evaluation.generate = answering(answers, self._messages.AssistantMessage)
        with contextlib.redirect_stdout(io.StringIO()):
            return self._evaluation.TrajectoryEvaluator.calculate_reward(
                task=self._tasks.Task.model_validate(self._task(spec)),
                full_trajectory=list(self._conversation(talk)),
                final_state={},
                llm_evaluator="judge",
                llm_args_evaluator={},
                language=self._language,
            )

    def _conversation(self, talk: list[dict[str, Any]]) -> Iterator[Any]:
        """The episode as upstream's messages."""
        said, tools = self._messages.AssistantMessage, self._messages
        for turn in talk:
            calls = turn["calls"] or turn["unmade"]
            if calls:
                made = [tools.ToolCall(name=c["name"], arguments=c["arguments"]) for c in calls]
                yield said(role="assistant", content=turn["said"], tool_calls=made)
                yield from self._results(turn["calls"], "assistant")
            elif turn["text"]:
                yield said(role="assistant", content=turn["text"])
            if (user := turn["user"]) is None:
                continue
            at = 0
            for act in user["acts"]:
                calls = user["calls"][at : at + act["calls"]]
                at += act["calls"]
                yield tools.UserMessage(role="user", content=act["text"])
                yield from self._results(calls, "user")
            if user["text"]:
                yield tools.UserMessage(role="user", content=user["text"])

    def _results(self, calls: list[dict[str, Any]], who: str) -> Iterator[Any]:
        for call in calls:
            yield self._messages.ToolMessage(
                id="", name=call["name"], role="tool", content=call["text"], requestor=who
            )

    def _orders(self, spec: dict[str, Any], talk: list[dict[str, Any]]) -> dict[str, Any]:
        """How much of what had to be ordered was ordered, and nothing else: the orders, bookings
        and reservations in both, by the larger number of them."""
        states = (self._task(spec)["evaluation_criteria"] or {}).get("expected_states") or []
        listed = (one for state in states for one in state.get("required_orders") or ())
        required = {json.dumps(one, sort_keys=True) for row in listed for one in _flat(row)}
        world = self.world(spec)
        start = {one: row.get("status") for one, row in _booked(world.database)}
        for call in (call for turn in talk for call in turn["calls"]):
            self.call(world, call["name"], call["arguments"])
        named = [json.loads(one) for one in sorted(required)]
        named = [one for one in named if _id_of(one) in start or not _is_off(one)]
        due = {_id_of(one) for one in named}
        end = [
            (one, row)
            for one, row in _booked(world.database)
            if (one in start and (one in due or _is_off(row) != (start[one] == "cancelled")))
            or (one not in start and not _is_off(row))
        ]
        wanted = Counter(part for one in named for part in _parts(_id_of(one), one, start))
        made = Counter(part for one, row in end for part in _parts(one, row, start))
        most = max(wanted.total(), made.total())
        share = (wanted & made).total() / most if most else 1.0
        texts = ["; ".join(sorted(one.elements())) or "nothing" for one in (wanted, made)]
        # It passes whatever it found, and weighs nothing: upstream's score does not depend on it.
        return finding(BESIDE, True, *texts, kind="guard", share=share, weight=0.0)


def _rubrics(found: Iterable[tuple[str, bool, str]]) -> list[dict[str, Any]]:
    return [
        finding(f"rubric {number}", met, text, why[:_LONGEST], share=float(met))
        for number, (text, met, why) in enumerate(found, 1)
    ]


def _booked(database: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Orders, bookings and reservations by their ids."""
    for name in ("orders", "books", "reservations"):
        for key, value in (getattr(database, name, None) or {}).items():
            yield key, _plain(value)


def _flat(order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A required order, and those that the data has among its products."""
    products = order.get("products")
    for one in products or ():
        if "products" in one:
            yield from _flat(one)
    if products is not None:
        order = {**order, "products": [one for one in products if "products" not in one]}
    yield order


def _id_of(row: dict[str, Any]) -> str:
    return str(next((row[name] for name in _BOOKED if row.get(name)), ""))


def _is_off(row: dict[str, Any]) -> bool:
    return bool(row.get("status") == "cancelled")


def _parts(identifier: str, row: dict[str, Any], start: dict[str, Any]) -> Iterator[str]:
    """What is compared of an order: each product apart where the tools order one at a time."""
    products = row.get("products") or ()
    if identifier in start or row.get("order_type") == "delivery" or len(products) < 2:
        yield _shown(identifier, row, start)
        return
    for product in products:
        yield _shown(identifier, {**row, "products": [product]}, start)


def _shown(identifier: str, row: dict[str, Any], start: dict[str, Any]) -> str:
    """What an order, a booking or a reservation is; of one that was there at the start, whether it
    is cancelled."""
    if identifier in start:
        return f"{identifier} {'cancelled' if _is_off(row) else 'kept'}"
    if "products" not in row:
        kind = "reservation" if "reservation_time" in row else "booking"
        time = str(row.get("reservation_time") or row.get("book_time"))
        return f"{kind} {row.get('shop_id')} {time.strip()} for {row.get('customer_count')}"
    counts: Counter[str] = Counter()
    for product in row["products"]:
        counts[str(product.get("product_id"))] += product.get("quantity") or 1
    products = ", ".join(f"{count} x {one}" for one, count in sorted(counts.items()))
    return f"{row.get('order_type')} of {products}"


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


adapter = Vita
