"""The gate's checks of the tools: random calls, calls at the edge of their schemas, and beyond it.

A tool must not break on any call that fits its schema; a call that does not fit must be refused
before the tool sees it; and a call that changes rows must not accept a key that no row has, or a
quantity below zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import StoredState, ToolResult, ToolSpec
from rehearsal_room.envpool.store.blocking import BlockingLease, BlockingWorld
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.judge.gate.checks.shown_ids import ShownResult
from rehearsal_room.judge.gate.core.task_runner import GateLog, GateSettings
from rehearsal_room.judge.playback.playback import Fact, Played, format_call
from rehearsal_room.judge.playback.tool_fuzzing import (
    Prober,
    absent_calls,
    bad_arguments,
    edge_calls,
    negative_calls,
)
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import Call

_STATES = 12  # states left by probes on which every verifier is tried
_ENOUGH = 10  # successes in the first half of a tool's probes after which there is no second half
_REPEATED = 12  # probes of a tool that are repeated on the second host
_DISTURBING = 3  # writes found by probing that are tried after each oracle
_MANY = 3  # successes after which a tool that never changes a row counts as one without effect
_BOUNDS = frozenset({"limit", "offset", "page", "max", "most", "size"})
_READS = frozenset({"get", "list", "search", "find", "show", "view", "count", "look", "lookup"})
EFFECT_VERBS = frozenset(  # without those that are also nouns
    {
        *("add", "apply", "approve", "archive", "assign", "cancel", "close", "complete"),
        *("confirm", "create", "delete", "mark", "merge", "pay", "register", "reject"),
        *("activate", "deactivate", "disable", "enable", "enlarge", "extend", "grant", "lend"),
        *("move", "renew", "restore", "start", "stop", "unblock", "withdraw"),
        *("remove", "rename", "reopen", "replace", "reschedule", "resolve", "send", "set"),
        *("settle", "submit", "update", "waive", "write"),
    }
)


class _StartPoint(msgspec.Struct, frozen=True):
    """A state from which calls are tried, each on a fork of the lease."""

    lease: BlockingLease
    task: str = ""  # whose oracle led here; empty: none
    changes: tuple[RowChange, ...] = ()  # net, since the start


_IDEMPOTENT = frozenset(
    {"set", "update", "mark", "assign", "confirm"}
)  # may find nothing to change


class _Probe(msgspec.Struct, frozen=True):
    """One call, the state it was made in, and its result."""

    call: Call
    lease: BlockingLease
    fact: Fact


class _Base(msgspec.Struct, frozen=True):
    """A call that succeeds."""

    call: Call
    start: _StartPoint
    wrote: bool


class ToolChecks:
    """Probes the tools of one world, in the start state and in those that the oracles left."""

    def __init__(
        self,
        world: BlockingWorld,
        log: GateLog,
        settings: GateSettings,
        oracles: Mapping[str, Played],
    ) -> None:
        self._world = world
        self._log = log
        self._settings = settings
        self._start = _StartPoint(world.lease())
        self._oracles = [
            _StartPoint(played.lease, task, played.changes) for task, played in oracles.items()
        ]
        self._calls = [call for played in oracles.values() for call in played.calls]
        self._rng = Random(settings.seed)
        self._prober = Prober(world, settings.seed)
        self._probes: list[_Probe] = []
        self._tried: set[tuple[str, int]] = set()  # calls, and the states they were made in
        self._false: set[str] = set()  # tools that returned a refusal as a success
        self._bases: dict[str, _Base] = {}  # by tool
        self._left: dict[str, _StartPoint] = {}  # states that probes left, by digest
        self._writes: dict[str, dict[str, Call]] = {}  # task -> tool -> a write after its oracle

    def check(self) -> None:
        """Probe all tools; those that refused every call a second time, in states that others
        left."""
        self._find_bases()
        self._make_proofs()
        self._try_all()
        left = list(self._left.values())
        for tool in self._world.tools:
            if left and tool.name not in self._log.succeeded:
                self._try_some(tool, left)
        for tool in self._world.tools:
            if self._is_stuck(tool.name):
                continue
            if (base := self._bases.get(tool.name)) is not None:
                self._check_edges(tool, base)
                self._check_keys(tool, base)
            self._check_bad(tool, base.call if base else self._prober.call(tool))
            self._check_name(tool.name)
        for call, result in self._log.broken.values():
            self._log.fail("tool", f"{format_call(call)} breaks it: {result.text}")

    def probe(self) -> None:
        """Make some calls of each tool, at the start and where the oracles ended."""
        self._find_bases()
        self._try_all()

    def _try_all(self) -> None:
        for tool in self._world.tools:
            self._try_some(tool, [self._start, *self._oracles])

    def states(self) -> list[tuple[StoredState, tuple[RowChange, ...]]]:
        """Some states that probes left, with their changes since the start."""
        found = list(self._left.values())
        chosen = self._rng.sample(found, min(_STATES, len(found)))
        return [(start.lease.state(), start.changes) for start in chosen]

    def results(self) -> list[ShownResult]:
        """The results of successful probes that changed nothing."""
        return [
            ShownResult(probe.call.name, text)
            for probe in self._probes
            for text, error, digest in (probe.fact,)
            if error is None and digest == probe.lease.digest
        ]

    def disturbing(self, task_id: str) -> list[Call]:
        """Writes of different tools that the world accepts after a task's oracle."""
        found = list(self._writes.get(task_id, {}).values())
        return self._rng.sample(found, min(_DISTURBING, len(found)))

    def check_again(self, second: BlockingWorld) -> None:
        """Repeat each tool's first probe after everything else, and then some of its probes, in
        reverse order, on a second host of the same world, whose tools may remember other calls. The
        results must be the same."""
        reported = {name for name, (_, result) in self._log.broken.items() if _is_slow(result)}
        first = {probe.call.name: probe for probe in reversed(self._probes)}
        again = [(probe, probe.lease) for probe in first.values()]
        again += [(probe, second.lease_at(probe.lease)) for probe in self._repeated()]
        for probe, lease in again:
            name = probe.call.name
            if name not in reported and _fact(_made(probe.call, lease)) != probe.fact:
                reported.add(name)
                why = f"{format_call(probe.call)} gives another result when it is repeated"
                self._log.fail("determinism", why)

    def _repeated(self) -> list[_Probe]:
        """The probes that are repeated, the latest first: of each tool those that succeeded, as
        far as there are some, since a refusal runs only a part of its code."""
        by_tool: dict[str, list[_Probe]] = {}
        for probe in sorted(self._probes, key=lambda probe: probe.fact[1] is not None):
            by_tool.setdefault(probe.call.name, []).append(probe)
        chosen = {id(probe) for found in by_tool.values() for probe in found[:_REPEATED]}
        return [probe for probe in reversed(self._probes) if id(probe) in chosen]

    def _try_some(self, tool: ToolSpec, starts: Sequence[_StartPoint]) -> None:
        succeeded = 0
        for number in range(self._settings.probes):
            if self._is_stuck(tool.name):
                return
            if succeeded >= _ENOUGH and 2 * number >= self._settings.probes:
                return
            call, start = self._prober.call(tool), self._rng.choice(starts)
            one = (repr(call), id(start))
            if one not in self._tried:
                self._tried.add(one)
                succeeded += self._try(call, start)[1] is None

    def _is_stuck(self, name: str) -> bool:
        """Whether a call of the tool timed out: each further one would cost a second."""
        known = self._log.broken.get(name)
        return known is not None and _is_slow(known[1])

    def _try(self, call: Call, start: _StartPoint) -> Fact:
        fork = start.lease.fork()
        result = fork.call(call.name, call.arguments)
        self._log.probes += 1
        self._log.record_call(call, result)
        fact = _fact(result)
        self._probes.append(_Probe(call, start.lease, fact))
        self._check_refusal(call, result)
        if result.error is None:
            self._add_base(_Base(call, start, bool(result.changes)))
        if result.changes:
            net = net_changes([start.changes, result.changes])
            self._left.setdefault(fork.digest, _StartPoint(fork, changes=net))
            if start.task:
                self._writes.setdefault(start.task, {}).setdefault(call.name, call)
        return fact

    def _check_refusal(self, call: Call, result: ToolResult) -> None:
        """A refusal must be an error, not a result that describes one."""
        if result.error is not None or result.changes or call.name in self._false:
            return
        if _describes_an_error(result.text):
            self._false.add(call.name)
            why = f"{format_call(call)} is refused, but the result is not an error"
            self._log.fail("tool", f"{why}: {result.text[:200]}")

    def _add_base(self, base: _Base) -> None:
        known = self._bases.get(base.call.name)
        if known is None or (base.wrote and not known.wrote):
            self._bases[base.call.name] = base

    def _find_bases(self) -> None:
        """Take the oracles' calls that succeed from the start: their arguments are meaningful."""
        for call in self._calls:
            result = _made(call, self._start.lease)
            if result.error is None:
                self._add_base(_Base(call, self._start, bool(result.changes)))

    def _make_proofs(self) -> None:
        """Make the calls with which the author proved tools: the last successful one of each tool
        is a base, with the state before it."""
        for name, calls in self._world.scenario.proofs.items():
            lease = self._start.lease.fork()
            came: list[Sequence[RowChange]] = []
            found: _Base | None = None
            for call in calls:
                before = _StartPoint(lease.fork(), changes=net_changes(came))
                result = lease.call(call.name, call.arguments)
                self._log.record_call(call, result)
                came.append(result.changes)
                if call.name == name and result.error is None:
                    found = _Base(call, before, bool(result.changes))
            if found is not None:
                self._add_base(found)
            else:
                self._log.fail("tool", f"{name}: no call of its proof in scenario.toml succeeds")

    def _check_edges(self, tool: ToolSpec, base: _Base) -> None:
        found: dict[str, list[Fact]] = {}  # by argument
        for call, name in edge_calls(tool, base.call):
            found.setdefault(name, []).append(self._try(call, base.start))
        plain = _fact(_made(base.call, base.start.lease))
        for name, facts in found.items():
            came = [fact for fact in facts if fact[1] is None]
            if len(came) >= _MANY and set(came) == {plain} and _matters(name, plain):
                self._fail_unused(base.call, name)
        if base.wrote:  # a second time, for rows that may exist only once
            after, call = base.start.lease.fork(), base.call
            after.call(call.name, call.arguments)
            self._log.record_call(call, after.call(call.name, call.arguments))
            self._log.probes += 1

    def _fail_unused(self, call: Call, name: str) -> None:
        why = f"{call.name} does the same whatever its argument {name!r} is"
        self._log.fail("tool", f"{why}: {format_call(call)}")

    def _check_keys(self, tool: ToolSpec, base: _Base) -> None:
        """Check what a call that changes rows must refuse."""
        plain = _fact(_made(base.call, base.start.lease))
        for calls, fault in (
            (absent_calls(tool, base.call), "accepts {name}={value}, which no row has, and writes"),
            (negative_calls(tool, base.call), "accepts {name}={value}, and writes"),
        ):
            for call, name in calls:
                result = _made(call, base.start.lease)
                if _fact(result) == plain and _matters(name, plain):
                    self._fail_unused(base.call, name)
                self._log.record_call(call, result)
                self._log.probes += 1
                if base.wrote and result.changes:
                    value = call.arguments[name]
                    why = f"{tool.name} {fault.format(name=name, value=value)}: {format_call(call)}"
                    self._log.fail("constraint", why)

    def _check_bad(self, tool: ToolSpec, base: Call) -> None:
        for arguments, what in bad_arguments(tool, base):
            result = self._start.lease.fork().call(tool.name, arguments)
            self._log.probes += 1
            if result.error != "arguments":
                came = "succeeds" if result.error is None else f"gives {result.error}"
                why = f"{tool.name} with {what} {came}; its schema does not allow it"
                self._log.fail("constraint", why)

    def _check_name(self, name: str) -> None:
        """A tool that is named like a query must change nothing; one named like an effect must."""
        verb = name.split("_")[0]
        if verb in _READS and name in self._log.wrote:
            self._log.fail("tool", f"{name} is named like a query, but changes rows")
        if verb not in EFFECT_VERBS or name in self._log.wrote:
            return
        if self._successes(name) >= (_MANY if verb in _IDEMPOTENT else 1):
            self._log.fail("tool", f"{name} is named like an effect, but changes nothing")

    def _successes(self, name: str) -> int:
        return sum(probe.call.name == name and probe.fact[1] is None for probe in self._probes)


def unused(tools: Iterable[ToolSpec], oracles: Iterable[Sequence[Call]]) -> list[str]:
    """The tools that no oracle calls."""
    used = {call.name for calls in oracles for call in calls}
    return [tool.name for tool in tools if tool.name not in used]


def _made(call: Call, lease: BlockingLease) -> ToolResult:
    return lease.fork().call(call.name, call.arguments)


def _is_slow(result: ToolResult) -> bool:
    return result.error == "timeout"


def _describes_an_error(text: str) -> bool:
    """Example: '{"error":"There is no order 7."}', '{"success":false}' -> True"""
    if not text.startswith("{") or not ('"error"' in text or "false" in text):
        return False
    found = _read(text)
    return bool(found.get("error")) or found.get("success") is False or found.get("ok") is False


def _matters(name: str, fact: Fact) -> bool:
    """Whether an argument should make a difference: a limit on a list makes none where the list is
    short."""
    return not set(name.split("_")) & _BOUNDS and not _is_empty(fact[0])


def _is_empty(text: str) -> bool:
    """Whether a result has no rows. Example: '[]', '{"items":[],"total":0}' -> True"""
    if text in ("[]", "{}", "null"):
        return True
    if not text.startswith("{") or "[]" not in text:
        return False
    lists = [value for value in _read(text).values() if isinstance(value, list)]
    return bool(lists) and not any(lists)


def _read(text: str) -> dict[str, Any]:
    """The object in a result; empty: it has none that can be read."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE:
        return {}


def _fact(result: ToolResult) -> Fact:
    return result.text, result.error, result.digest
