"""The gate's checks of the tools: called at random, at the edge of their schemas, and beyond.

A tool must not break, whatever fits its schema; what does not fit must be refused before the tool
sees it; and a call that changes rows must not take a key that no row has, or a quantity below zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from random import Random

import msgspec

from envpool.core.types import StoredState, ToolResult, ToolSpec
from envpool.inprocess.world import HostedScenario, Lease
from envpool.store.changes import net_changes
from judge.gate.context import GateSettings, Notes
from judge.playback.playback import Fact, Played, told
from judge.playback.tool_fuzzing import (
    Prober,
    absent_calls,
    bad_arguments,
    edge_calls,
    negative_calls,
)
from scenarios.api import RowChange
from scenarios.format import Call

_STATES = 12  # states left by probes on which every verifier is tried
_DISTURBING = 3  # writes found by probing that are tried on top of each oracle
_MANY = 3  # successes after which a tool that never changes a row is thought to do nothing
_BOUNDS = frozenset({"limit", "offset", "page", "max", "most", "size"})
_READS = frozenset({"get", "list", "search", "find", "show", "view", "count", "look", "lookup"})
DEEDS = frozenset(  # without those that are nouns as well
    {
        *("add", "apply", "approve", "archive", "assign", "cancel", "close", "complete"),
        *("confirm", "create", "delete", "mark", "merge", "pay", "register", "reject"),
        *("activate", "deactivate", "disable", "enable", "enlarge", "extend", "grant", "lend"),
        *("move", "renew", "restore", "start", "stop", "unblock", "withdraw"),
        *("remove", "rename", "reopen", "replace", "reschedule", "resolve", "send", "set"),
        *("settle", "submit", "update", "waive", "write"),
    }
)


class _Place(msgspec.Struct, frozen=True):
    """A state on which calls are tried; each on a fork of the lease."""

    lease: Lease
    task: str = ""  # whose oracle led here; empty: nobody's
    changes: tuple[RowChange, ...] = ()  # net, since the start


_MAY_BE_SO = frozenset({"set", "update", "mark", "assign", "confirm"})  # what is so already


class _Probe(msgspec.Struct, frozen=True):
    """One call, where it was made, and what came of it."""

    call: Call
    lease: Lease
    fact: Fact


class _Base(msgspec.Struct, frozen=True):
    """A call that succeeds."""

    call: Call
    place: _Place
    wrote: bool


class ToolChecks:
    """Probes the tools of one world, on the start state and on those that the oracles left."""

    def __init__(
        self,
        world: HostedScenario,
        notes: Notes,
        settings: GateSettings,
        oracles: Mapping[str, Played],
    ) -> None:
        self._world = world
        self._notes = notes
        self._settings = settings
        self._start = _Place(world.lease())
        self._oracles = [
            _Place(played.lease, task, played.changes) for task, played in oracles.items()
        ]
        self._calls = [call for played in oracles.values() for call in played.calls]
        self._rng = Random(settings.seed)
        self._prober = Prober(world, settings.seed)
        self._probes: list[_Probe] = []
        self._false: set[str] = set()  # tools that told a refusal as a success
        self._bases: dict[str, _Base] = {}  # by tool
        self._left: dict[str, _Place] = {}  # what probes left, by digest
        self._writes: dict[str, dict[str, Call]] = {}  # task -> tool -> a write after its oracle

    def check(self) -> None:
        """Probe them all; those that refused every call once more, on what the others left."""
        self._find_bases()
        for tool in self._world.tools:
            self._try_some(tool, [self._start, *self._oracles])
        left = list(self._left.values())
        for tool in self._world.tools:
            if left and tool.name not in self._notes.succeeded:
                self._try_some(tool, left)
        for tool in self._world.tools:
            if self._is_stuck(tool.name):
                continue
            if (base := self._bases.get(tool.name)) is not None:
                self._check_edges(tool, base)
                self._check_keys(tool, base)
            self._check_bad(tool, base.call if base else self._prober.call(tool))
            self._check_name(tool.name)
        for call, result in self._notes.broken.values():
            self._notes.fail("tool", f"{told(call)} breaks it: {result.text}")

    def states(self) -> list[tuple[StoredState, tuple[RowChange, ...]]]:
        """Some states that probes left, with what differs from the start."""
        found = list(self._left.values())
        chosen = self._rng.sample(found, min(_STATES, len(found)))
        return [(place.lease.state(), place.changes) for place in chosen]

    def disturbing(self, task_id: str) -> list[Call]:
        """Writes of different tools that the world accepts after a task's oracle."""
        found = list(self._writes.get(task_id, {}).values())
        return self._rng.sample(found, min(_DISTURBING, len(found)))

    def check_again(self, twin: HostedScenario) -> None:
        """Make every probe once more, after all that was done meanwhile; and then, the last one
        first, on another host of the same world, whose tools remember something else. It must give
        the same."""
        told_of = {name for name, (_, result) in self._notes.broken.items() if _is_slow(result)}
        again = [(probe, probe.lease) for probe in self._probes]
        again += [(probe, Lease(twin, probe.lease.overlay)) for probe in reversed(self._probes)]
        for probe, lease in again:
            name = probe.call.name
            if name not in told_of and _fact(_made(probe.call, lease)) != probe.fact:
                told_of.add(name)
                why = f"{told(probe.call)} gives something else when it is made again"
                self._notes.fail("determinism", why)

    def _try_some(self, tool: ToolSpec, places: Sequence[_Place]) -> None:
        for _ in range(self._settings.probes):
            if self._is_stuck(tool.name):
                return
            self._try(self._prober.call(tool), self._rng.choice(places))

    def _is_stuck(self, name: str) -> bool:
        """Whether a call of the tool had to be stopped: each further one would cost a second."""
        known = self._notes.broken.get(name)
        return known is not None and _is_slow(known[1])

    def _try(self, call: Call, place: _Place) -> Fact:
        fork = place.lease.fork()
        result = fork.call(call.name, call.arguments)
        self._notes.probes += 1
        self._notes.called(call, result)
        fact = _fact(result)
        self._probes.append(_Probe(call, place.lease, fact))
        self._check_words(call, result)
        if result.error is None:
            self._keep_base(_Base(call, place, bool(result.changes)))
        if result.changes:
            net = net_changes([place.changes, result.changes])
            self._left.setdefault(fork.digest, _Place(fork, changes=net))
            if place.task:
                self._writes.setdefault(place.task, {}).setdefault(call.name, call)
        return fact

    def _check_words(self, call: Call, result: ToolResult) -> None:
        """A refusal must be an error, not a result that speaks of one."""
        if result.error is not None or result.changes or call.name in self._false:
            return
        if _speaks_of_an_error(result.text):
            self._false.add(call.name)
            why = f"{told(call)} is refused, and told as a success: {result.text[:200]}"
            self._notes.fail("tool", why)

    def _keep_base(self, base: _Base) -> None:
        known = self._bases.get(base.call.name)
        if known is None or (base.wrote and not known.wrote):
            self._bases[base.call.name] = base

    def _find_bases(self) -> None:
        """The oracles' own calls, where they succeed from the start: they make sense."""
        for call in self._calls:
            result = _made(call, self._start.lease)
            if result.error is None:
                self._keep_base(_Base(call, self._start, bool(result.changes)))

    def _check_edges(self, tool: ToolSpec, base: _Base) -> None:
        found: dict[str, list[Fact]] = {}  # by argument
        for call, name in edge_calls(tool, base.call):
            found.setdefault(name, []).append(self._try(call, base.place))
        plain = _fact(_made(base.call, base.place.lease))
        for name, facts in found.items():
            came = [fact for fact in facts if fact[1] is None]
            if len(came) >= _MANY and set(came) == {plain} and _matters(name, plain):
                self._fail_idle(base.call, name)
        if base.wrote:  # once more, for what may be there once only
            after, call = base.place.lease.fork(), base.call
            after.call(call.name, call.arguments)
            self._notes.called(call, after.call(call.name, call.arguments))
            self._notes.probes += 1

    def _fail_idle(self, call: Call, name: str) -> None:
        why = f"{call.name} does the same whatever its argument {name!r} is"
        self._notes.fail("tool", f"{why}: {told(call)}")

    def _check_keys(self, tool: ToolSpec, base: _Base) -> None:
        """What a call that changes rows must refuse."""
        plain = _fact(_made(base.call, base.place.lease))
        for calls, fault in (
            (absent_calls(tool, base.call), "takes {name}={value}, which no row has, and writes"),
            (negative_calls(tool, base.call), "takes {name}={value}, and writes"),
        ):
            for call, name in calls:
                result = _made(call, base.place.lease)
                if _fact(result) == plain and _matters(name, plain):
                    self._fail_idle(base.call, name)
                self._notes.called(call, result)
                self._notes.probes += 1
                if base.wrote and result.changes:
                    value = call.arguments[name]
                    why = f"{tool.name} {fault.format(name=name, value=value)}: {told(call)}"
                    self._notes.fail("constraint", why)

    def _check_bad(self, tool: ToolSpec, base: Call) -> None:
        for arguments, what in bad_arguments(tool, base):
            result = self._start.lease.fork().call(tool.name, arguments)
            self._notes.probes += 1
            if result.error != "arguments":
                came = "succeeds" if result.error is None else f"gives {result.error}"
                why = f"{tool.name} with {what} {came}; its schema does not allow that"
                self._notes.fail("constraint", why)

    def _check_name(self, name: str) -> None:
        """What is called like a question must only ask, and what is called like a deed must do."""
        verb = name.split("_")[0]
        if verb in _READS and name in self._notes.wrote:
            self._notes.fail("tool", f"{name} is named like a question, and changes rows")
        many = self._successes(name) >= (_MANY if verb in _MAY_BE_SO else 1)
        if verb in DEEDS and name not in self._notes.wrote and many:
            self._notes.fail("tool", f"{name} succeeds and changes nothing")

    def _successes(self, name: str) -> int:
        return sum(probe.call.name == name and probe.fact[1] is None for probe in self._probes)


def unused(tools: Iterable[ToolSpec], oracles: Iterable[Sequence[Call]]) -> list[str]:
    """The tools that no oracle calls."""
    used = {call.name for calls in oracles for call in calls}
    return [tool.name for tool in tools if tool.name not in used]


def _made(call: Call, lease: Lease) -> ToolResult:
    return lease.fork().call(call.name, call.arguments)


def _is_slow(result: ToolResult) -> bool:
    return result.error == "timeout"


def _speaks_of_an_error(text: str) -> bool:
    """Example: '{"error":"There is no order 7."}', '{"success":false}' -> True"""
    if not text.startswith("{") or not ('"error"' in text or "false" in text):
        return False
    found = msgspec.json.decode(text)
    return bool(found.get("error")) or found.get("success") is False or found.get("ok") is False


def _matters(name: str, fact: Fact) -> bool:
    """Whether an argument ought to make a difference: how much is shown at most makes none where
    there is little to show."""
    return not set(name.split("_")) & _BOUNDS and fact[0] not in ("[]", "{}", "null")


def _fact(result: ToolResult) -> Fact:
    return result.text, result.error, result.digest
