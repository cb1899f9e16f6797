"""Probing the tools of a world that is being written: which ones break, and which ones work.

Each tool is called in the start state with arguments that fit its schema. A tool of which no call
succeeds is searched further (see authoring.call_search): first in the start state, then in the
states that other tools reach, which may have made the row that it needs. What is left is unproven:
no call of it is known to succeed, which is not proof that none does.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import zip_longest
from random import Random
from typing import Any

import msgspec

from rehearsal_room.authoring.call_search import CallSearch, plain_refusal
from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import Env, ToolResult, ToolSpec
from rehearsal_room.envpool.store.states import States
from rehearsal_room.judge.playback.playback import format_call
from rehearsal_room.judge.playback.tool_fuzzing import (
    Prober,
    absent_calls,
    bad_arguments,
    edge_calls,
    plausible,
    values_of,
)
from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.synth.core.protocols import ProbeResult, UnprovenTool

_PROBES = 15  # calls of one tool with arguments that fit its schema
_SEARCHED = 150  # more such calls in the start state, for a tool of which none succeeded
_EDGE_CALLS = 40  # calls of one tool at the edge of its schema, or beyond it
_KEPT_WRITES = 8  # successful calls of one tool from which states are reached
_STATES = 24  # reached states in each round, in which tools without a success are searched
_LEAST_STATES = 4  # of these for one tool, where many tools have none
_SEARCHED_THERE = 40  # calls of one tool in one reached state
_ROUNDS = 3  # one round reaches states that are one call further from the start

_CODE = re.compile(r"(?=.*[\d_-])[\w./:-]{2,40}|[A-Z]{2,12}")  # a text that is a code
# What a description quotes or gives as an example: 'express', "A-1", such as LC-1001.
_SAID = re.compile(
    r"(?<!\w)['\"`“]([^\s'\"`”]{1,40})['\"`”]|\b((?=[\w-]*\d)(?=[\w-]*[A-Za-z-])[\w-]{2,40})"
)

LeaseWorld = Callable[[], AbstractAsyncContextManager[Env]]


class _Reached(msgspec.Struct, frozen=True):
    """A state: the world after some calls, and the rows that the calls changed."""

    env: Env
    changes: tuple[RowChange, ...] = ()

    @property
    def columns(self) -> set[str]:
        """The columns of the changed rows."""
        return {name for change in self.changes for name in change.after or ()}


class _Refusal(msgspec.Struct, frozen=True):
    """A refused call. `depth` counts the arguments that the tool checked before: with an absurd
    value in place of one of these, the refusal is another one."""

    call: Call
    text: str
    depth: int


class _Tool:
    """What is known about one tool."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec
        self.good: Call | None = None  # the first call that succeeded
        self.broken = ""  # how a call broke it; empty: none did
        self.calls = 0
        self.refusals: dict[str, _Refusal] = {}  # by their texts without numbers
        self.reached: list[_Reached] = []  # by its successful writes

    @property
    def is_open(self) -> bool:
        """Whether no call has succeeded or broken it."""
        return self.good is None and not self.broken


class ToolProbe:
    """Probes all tools of a hosted package. `clean` removes paths from messages."""

    def __init__(
        self, states: States, lease: LeaseWorld, *, seed: int, clean: Callable[[str], str]
    ) -> None:
        self._states = states
        self._lease = lease
        self._rng = Random(seed)
        self._prober = Prober(states, seed)
        self._clean = clean
        self._tools = [_Tool(spec) for spec in states.tools]

    async def run(self) -> ProbeResult:
        """Probe. Raises nothing that a tool does."""
        async with self._lease() as start:
            for tool in self._tools:
                await self._try_in_start_state(tool, _Reached(start))
            frontier: list[_Reached] = []
            for _ in range(_ROUNDS):
                waiting = [tool for tool in self._tools if tool.is_open]
                frontier = await self._reached_from(frontier) if waiting else []
                most = max(_LEAST_STATES, _STATES // max(1, len(waiting)))
                for tool in waiting:
                    await self._search_reached(tool, frontier, most)
        return ProbeResult(
            sum(tool.calls for tool in self._tools),
            tuple(tool.broken for tool in self._tools if tool.broken),
            tuple(_unproven(tool) for tool in self._tools if tool.is_open),
        )

    async def _try_in_start_state(self, tool: _Tool, start: _Reached) -> None:
        for _ in range(_PROBES):
            if not tool.broken:
                await self._try(tool, self._prober.call(tool.spec), start)
        if tool.is_open:
            pool = plausible(self._states)
            pools = (pool, _widened(pool), by_shape(tool.spec, pool))
            await self._search(tool, start, pools, _SEARCHED)
        await self._try_edges(tool, start)

    async def _try_edges(self, tool: _Tool, reached: _Reached) -> None:
        for call in _edges(tool.spec, tool.good) if tool.good is not None else ():
            if not tool.broken:
                await self._try(tool, call, reached)

    async def _reached_from(self, frontier: Sequence[_Reached]) -> list[_Reached]:
        """The states after successful writes, and those one write further than `frontier`."""
        in_turn = zip_longest(*(tool.reached for tool in self._tools))
        found = [reached for group in in_turn for reached in group if reached is not None]
        for before in frontier[:_STATES]:
            pools = self._pools(before)
            for tool in self._tools:
                if tool.good is not None and not tool.broken:
                    search = self._search_for(tool, pools)
                    after = await self._write(tool, search.draw(), before)
                    found += [after] if after is not None else []
        return found

    async def _write(self, tool: _Tool, call: Call, before: _Reached) -> _Reached | None:
        """The state after a call; None: it changed nothing."""
        env = before.env.fork()
        result = await self._call(tool, call, env)
        if result is None or result.error is not None or not result.changes:
            return None
        return _Reached(env, (*before.changes, *result.changes))

    async def _search_reached(self, tool: _Tool, frontier: Sequence[_Reached], most: int) -> None:
        """Search in reached states, first where rows with the tool's own arguments changed."""
        names = set(tool.spec.schema.get("properties", ()))
        ranked = sorted(frontier, key=lambda reached: -len(names & reached.columns))
        for reached in ranked[:most]:
            if tool.is_open:
                pools = self._pools(reached)
                pools = (*pools, by_shape(tool.spec, pools[0]))
                await self._search(tool, reached, pools, _SEARCHED_THERE)
                await self._try_edges(tool, reached)

    def _pools(self, reached: _Reached) -> tuple[dict[str, list[Any]], ...]:
        """The values of a state, and the same where changed rows come first."""
        overlay = self._states.restored(reached.env.state())
        pool = values_of(self._states.dump(overlay))
        changed: dict[str, list[Row]] = {}
        for change in reached.changes:
            changed.setdefault(change.table, []).extend([change.after] if change.after else [])
        return (pool, {**pool, **values_of(changed)}) if changed else (pool,)

    def _search_for(self, tool: _Tool, pools: Sequence[dict[str, list[Any]]]) -> CallSearch:
        now = self._states.scenario.clock
        return CallSearch(tool.spec, pools, now=now, rng=self._rng)

    async def _search(
        self, tool: _Tool, reached: _Reached, pools: Sequence[dict[str, list[Any]]], most: int
    ) -> None:
        search = self._search_for(tool, pools)
        for _ in range(most):
            call = search.draw()
            result = await self._try(tool, call, reached)
            if not tool.is_open or result is None:
                return
            if result.error == "refused":
                search.learn(call, result.text)
        for plain, (call, refusal) in search.refusals.items():
            if plain not in tool.refusals:
                depth = await self._depth(tool, call, refusal, reached)
                tool.refusals[plain] = _Refusal(call, refusal, depth)

    async def _depth(self, tool: _Tool, call: Call, refusal: str, reached: _Reached) -> int:
        """How many arguments are checked before the condition that refuses a call."""
        depth = 0
        for name, value in call.arguments.items():
            absurd = _absurd(value)
            if absurd is None or tool.broken:
                continue
            other = Call(call.name, {**call.arguments, name: absurd})
            result = await self._try(tool, other, reached)
            if result is not None and result.error == "refused":
                depth += plain_refusal(result.text) != plain_refusal(refusal)
        return depth

    async def _try(self, tool: _Tool, call: Call, before: _Reached) -> ToolResult | None:
        """The result of a call in a fork of a world; None: it broke the tool or the world."""
        env = before.env.fork()
        result = await self._call(tool, call, env)
        if result is not None and result.error is None:
            tool.good = tool.good or call
            if result.changes and len(tool.reached) < _KEPT_WRITES:
                tool.reached.append(_Reached(env, (*before.changes, *result.changes)))
        return result

    async def _call(self, tool: _Tool, call: Call, env: Env) -> ToolResult | None:
        """The result of a call; None: it broke the tool or the world."""
        tool.calls += 1
        try:
            result = await env.call(call.name, call.arguments, "")
            if result.changes:
                env.state()  # raises where the code interfered with it
        except WorldError as exc:
            tool.broken = f"{format_call(call)} breaks the world: {exc}"
            return None
        if result.error in ("internal", "timeout"):
            tool.broken = f"{format_call(call)} breaks it: {self._clean(result.text)}"
            return None
        return result


def _unproven(tool: _Tool) -> UnprovenTool:
    if not tool.refusals:
        return UnprovenTool(tool.spec.name, tool.calls, "", "no call fits its schema")
    deepest = max(tool.refusals.values(), key=lambda refusal: refusal.depth)
    return UnprovenTool(tool.spec.name, tool.calls, format_call(deepest.call), deepest.text)


def _absurd(value: object) -> object:
    """A value of the same type that no condition accepts; None: there is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return 999_999_937
    return "\u2603" if isinstance(value, str) else None


def _edges(spec: ToolSpec, base: Call) -> Iterator[Call]:
    """Calls at the edge of the schema, and calls that do not fit it."""
    found = [call for call, _ in edge_calls(spec, base)]
    found += [call for call, _ in absent_calls(spec, base)]
    found += [
        Call(spec.name, arguments)
        for arguments, _ in bad_arguments(spec, base)
        if isinstance(arguments, dict)
    ]
    yield from found[:_EDGE_CALLS]


def by_shape(tool: ToolSpec, pool: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The pool of values, with others for each argument, whatever columns are called: the words
    that its description or the tool's quotes, and the data's codes; for a number its keys.

    Example: card="a library card, such as LC-1001", column code "LC-2040"
        -> {"card": ["LC-1001", "LC-2040"], …}
    """
    texts = {value for values in pool.values() for value in values if isinstance(value, str)}
    codes = sorted(text for text in texts if _CODE.fullmatch(text))
    keys = sorted({value for value in pool.get("id", []) if isinstance(value, int)})
    keys = keys or sorted(
        {
            value
            for name, values in pool.items()
            if name.endswith("_id")
            for value in values
            if type(value) is int
        }
    )
    found = {}
    for name, schema in tool.schema.get("properties", {}).items():
        about = f"{schema.get('description', '')}\n{tool.description}"
        said = [one or other for one, other in _SAID.findall(about)]
        numbers = [int(text) for text in said if text.isdecimal()]
        found[name] = [*dict.fromkeys([*said, *codes, *numbers, *keys])]
    return {**pool, **found}


def _widened(pool: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The pool of values, with every table's keys added to each column that refers to a table: keys
    that are in use already are often those that a tool refuses."""
    keys = pool.get("id", [])
    return {
        name: list(dict.fromkeys([*values, *keys])) if name.endswith("_id") else values
        for name, values in pool.items()
    }
