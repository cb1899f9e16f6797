"""The worlds and the scoring of ToolSandbox (see scenarios.suites.toolsandbox), in its own process.

A world is upstream's `ExecutionContext`, and its `ExecutionEnvironment` executes the calls: those
of one reply in all orders, as upstream does it. An episode's worth is upstream's own evaluation of
a context in which the talk was played again, message by message. Its search for the best match
tries some millions of ways where a long talk meets five milestones; here it leaves those out that
cannot be better than the best so far, which changes no result.
"""

import heapq
import importlib
import importlib.util
import math
import re
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any

from .shared import Json, Talk, acts_of, finding

_KEYS = {
    "SETTING": "device_id",
    "CONTACT": "person_id",
    "MESSAGING": "message_id",
    "REMINDER": "reminder_id",
}
# Upstream makes the id of a call a part of a program. These characters cannot make it do anything.
_PLAIN_ID = re.compile(r"[\w.:-]*", re.ASCII).fullmatch
# Errors show objects of this process; a replay has others.
_ADDRESS = re.compile(r"\bat 0x[0-9A-Fa-f]+")
_MAX_MESSAGES = 30
_END = "end_conversation"  # the user's only tool


class World:
    """A context of upstream's, which only dill can copy."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __getstate__(self) -> bytes:
        dumped: bytes = importlib.import_module("dill").dumps(self.context)
        return dumped

    def __setstate__(self, state: bytes) -> None:
        self.context = importlib.import_module("dill").loads(state)


class Sandbox:
    """The suite."""

    def __init__(self, folder: str, listing: str, version: str) -> None:
        """`folder`: of the checkout; `listing`: the program that loads its scenarios."""
        self.version = version
        spec = importlib.util.spec_from_file_location("toolsandbox_tasks", listing)
        assert spec is not None and spec.loader is not None
        tasks = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tasks)
        self.scenarios: dict[str, Any] = tasks.load(folder)
        self._contexts = importlib.import_module("tool_sandbox.common.execution_context")
        self._messages = importlib.import_module("tool_sandbox.common.message_conversion")
        self._conversion = importlib.import_module("tool_sandbox.common.tool_conversion")
        roles = importlib.import_module("tool_sandbox.roles.execution_environment")
        self._executes: Any = roles.ExecutionEnvironment()
        self._evaluation = importlib.import_module("tool_sandbox.common.evaluation")
        self._evaluation.MilestoneMatcher._dfs = self._best_match

    def world(self, spec: dict[str, Any]) -> World:
        """A world at its start, with the tools imported, as `Scenario.play` begins."""
        copy = importlib.import_module("copy")
        context = copy.deepcopy(self.scenarios[spec["scenario"]].starting_context)
        self._contexts.set_current_context(context)
        for row in self._rows():
            if (row["sender"], row["recipient"]) == ("SYSTEM", "EXECUTION_ENVIRONMENT"):
                self._executes.respond(ending_index=row["sandbox_message_index"])
        return World(context)

    def tools(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        """The agent's tools, and then the user's."""
        context = self.scenarios[spec["scenario"]].starting_context
        self._contexts.set_current_context(context)
        found = []
        for role, scrambled in (("AGENT", True), ("USER", False)):
            for name, tool in context.get_available_tools(scrambling_allowed=scrambled).items():
                if role in tool.visible_to:
                    made = self._conversion.convert_to_openai_tool(tool, name)["function"]
                    made["schema"] = made.pop("parameters")
                    found.append(made)
        return found

    def records(self, world: World) -> Iterator[tuple[str, str, Any]]:
        """The rows of the tables. Ids are not unique upstream: a second row has `#2` after its."""
        for table, key in _KEYS.items():
            seen = Counter[str]()
            for row in world.context.get_database(table).to_dicts():
                seen[row[key]] += 1
                number = f"#{seen[row[key]]}" if seen[row[key]] > 1 else ""
                yield table.lower(), f"{row[key]}{number}", row

    def call(self, world: World, name: str, arguments: Any) -> tuple[str, str | None]:
        """Execute a call that nobody announced."""
        (answer,) = self.calls(world, [{"name": name, "arguments": arguments, "id": "call"}])
        return answer["text"], answer["error"]

    def calls(self, world: World, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Execute the calls of one reply together: for each its text, what kind of failure it is,
        and the place of its answer among theirs."""
        self._contexts.set_current_context(world.context)
        calls = _with_plain_ids(calls)
        sender = "USER" if calls[0]["name"] == _END else "AGENT"
        before = world.context.max_sandbox_message_index
        self._say_calls(sender, calls)
        self._executes.respond()
        world.context = self._contexts.get_current_context()  # maybe of another order of the calls
        answers = [row for row in self._rows() if row["sandbox_message_index"] > before]
        return _in_order(calls, answers[len(calls) :])

    def score(self, spec: Json, scoring: Json, talk: Talk) -> list[Json]:
        """Upstream's similarity. A talk with which upstream's runner cannot go on is worth nothing,
        as there."""
        scenario = self.scenarios[spec["scenario"]]
        self._contexts.set_current_context(self.world(spec).context)
        try:
            self._play(talk)
            found = scenario.evaluation.evaluate(
                execution_context=self._contexts.get_current_context(),
                max_turn_count=scenario.max_messages,
            )
        except Exception as exc:
            return [_finding(0.0, f"turns {scenario.max_messages}; {type(exc).__name__}: {exc}")]
        parts = [f"turns {found.turn_count}"]
        for kind in ("milestone", "minefield"):
            for number, (at, similarity) in getattr(found, f"{kind}_mapping").items():
                parts.append(f"{kind} {number} at message {at}: {similarity:.6g}")
        return [_finding(float(found.similarity), "; ".join(parts))]

    def _best_match(
        self,
        assigned_mapping: "OrderedDict[int, tuple[int, float]]",
        similarity_calculators: list[Any],
        assigned_similarity_sum: float,
        remaining_graph: Any,
        current_best_similarity_sum: float,
        min_snapshot_index: int,
        max_snapshot_index: int,
    ) -> "tuple[OrderedDict[int, tuple[int, float]], float]":
        """In place of `MilestoneMatcher._dfs`, with the same order of candidates. What is left is
        worth at most what the milestones are worth wherever those before them are: adding these
        bounds in the order of a chain rounds as adding the values would."""
        last = max_snapshot_index + 1
        bounds: list[list[float]] = []  # by milestone and message: the most from there on
        for calculator in similarity_calculators:
            most = [0.0] * (last + 1)
            for at in reversed(range(min_snapshot_index, last)):
                most[at] = max(most[at + 1], self._most(calculator, at))
            bounds.append(most)

        def search(mapping: Any, total: float, left: Any) -> tuple[Any, float]:
            if not len(left):
                return mapping, total
            start = mapping[next(reversed(mapping))][0] if mapping else min_snapshot_index
            free = [one for one, degree in left.in_degree() if degree == 0]
            heap = [
                (-similarity_calculators[one].calculate_similarity(at, mapping), one, at)
                for one in free
                for at in range(start, last)
            ]
            heapq.heapify(heap)
            best, best_total = OrderedDict[int, tuple[int, float]](), -1.0
            while heap:
                negative, one, at = heapq.heappop(heap)
                rest = left.copy()
                rest.remove_node(one)
                if self._is_no_better(total - negative, best_total, rest, bounds, at):
                    continue
                longer = OrderedDict(mapping)
                longer[one] = (at, -negative)
                found, found_total = search(longer, total - negative, rest)
                if found_total > best_total:
                    best, best_total = found, found_total
            return best, best_total

        return search(assigned_mapping, assigned_similarity_sum, remaining_graph)

    def _is_no_better(
        self, total: float, best: float, rest: Any, bounds: list[list[float]], at: int
    ) -> bool:
        is_chain = len(rest) < 2 or all(degree < 2 for _, degree in rest.out_degree())
        is_chain = is_chain and rest.number_of_edges() == max(0, len(rest) - 1)
        most = total
        for one in self._ordered(rest):
            most += bounds[one][at]
        exact = is_chain or most == total
        return most <= best if exact else most < best - 1e-9

    def _ordered(self, graph: Any) -> list[int]:
        found: list[int] = list(importlib.import_module("networkx").topological_sort(graph))
        return found

    def _most(self, calculator: Any, at: int) -> float:
        """The similarity of a milestone with a message, without what depends on other matches."""
        similarity, count = 1.0, 0
        caches = calculator.snapshot_constraint_similarity_cache
        for constraint, cache in zip(
            calculator.milestone.snapshot_constraints, caches, strict=True
        ):
            count += constraint.snapshot_constraint is not self._evaluation.guardrail_similarity
            if constraint.reference_milestone_node_index is None:
                if (at, None) not in cache:
                    cache[at, None] = constraint.snapshot_constraint(
                        snapshot=calculator.execution_context.get_database(
                            namespace=constraint.database_namespace, sandbox_message_index=at
                        ),
                        target_dataframe=constraint.target_dataframe,
                        column_similarities=constraint.column_similarity_measure,
                        reference_snapshot=None,
                    )
                similarity *= cache[at, None]
        return math.pow(similarity, 1 / count)

    def _play(self, talk: list[dict[str, Any]]) -> None:
        """Play a talk in the current context, up to upstream's limit. Raises what upstream's runner
        would."""
        most = self._contexts.get_current_context().max_sandbox_message_index + _MAX_MESSAGES
        for number, turn in enumerate(talk):
            if self._is_over(most):
                return
            if turn["calls"]:
                self._say_calls("AGENT", _with_plain_ids(turn["calls"]))
                if not self._is_over(most):
                    self._executes.respond()
                continue
            if turn["text"] is None:
                raise ValueError("a reply that upstream's runner cannot use")
            self._say("AGENT", "USER", turn["text"])
            if turn["user"] is not None and not self._is_over(most):
                self._hear(turn["user"], number, most)

    def _hear(self, user: dict[str, Any], number: int, most: int) -> None:
        for place, (_, calls) in enumerate(acts_of(user)):
            ids = [f"user_{number}_{place}_{at}" for at in range(len(calls))]
            made = [{**one, "id": id} for one, id in zip(calls, ids, strict=True)]
            self._say_calls("USER", made)
            if self._is_over(most):
                return
            self._executes.respond()
        if not self._is_over(most) and not user["ended"]:
            self._say("USER", "AGENT", user["text"])

    def _is_over(self, most: int) -> bool:
        last = self._rows()[-1]
        return not last["conversation_active"] or last["sandbox_message_index"] >= most

    def _rows(self) -> list[dict[str, Any]]:
        database = self._contexts.get_current_context().get_database(
            "SANDBOX", get_all_history_snapshots=True, drop_sandbox_message_index=False
        )
        rows: list[dict[str, Any]] = database.to_dicts()
        return rows

    def _say_calls(self, sender: str, calls: list[dict[str, Any]]) -> None:
        """Add a message for each call. Raises KeyError for a tool that its caller does not have."""
        context = self._contexts.get_current_context()
        tools = context.get_available_tools(scrambling_allowed=sender == "AGENT")
        messages = []
        for call in calls:
            id, tool = call["id"], tools.get(call["name"])
            if tool is None or sender not in tool.visible_to:
                raise KeyError(f"there is no tool {call['name']!r}")
            name = tool.__name__
            code = (
                f"{id}_parameters = {call['arguments']}\n"
                f"{id}_response = {name}(**{id}_parameters)\nprint(repr({id}_response))"
            )
            beside = {"openai_tool_call_id": id, "openai_function_name": call["name"]}
            messages.append(
                self._messages.Message(
                    sender=sender,
                    recipient="EXECUTION_ENVIRONMENT",
                    content=code,
                    **(beside if sender == "AGENT" else {}),
                )
            )
        self._executes.add_messages(messages)

    def _say(self, sender: str, recipient: str, text: str) -> None:
        message = self._messages.Message(sender=sender, recipient=recipient, content=text)
        self._executes.add_messages([message])


def _with_plain_ids(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one if _PLAIN_ID(one["id"]) else {**one, "id": "call"} for one in calls]


def _in_order(calls: list[dict[str, Any]], answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answer of each call. Where an order of the calls failed, they came in that order; calls
    with one id have the answers in the order in which they came."""
    left = list(enumerate(answers))
    found = []
    for call in calls:
        id = call["id"]
        one = next((each for each in left if each[1]["openai_tool_call_id"] == id), left[0])
        left.remove(one)
        place, row = one
        error = None if row["tool_call_exception"] is None else "refused"
        text = _ADDRESS.sub("at 0x0", row["content"])
        found.append({"text": text, "error": error, "place": place})
    return found


def _finding(similarity: float, found: str) -> dict[str, Any]:
    text = f"{similarity:.6g}; {found}"[:2000]
    return finding("similarity", similarity >= 1.0, "1", text, share=similarity)


adapter = Sandbox
