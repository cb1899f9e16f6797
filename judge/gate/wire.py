"""The requests to a process that checks worlds, and its replies (see judge.gate.worker)."""

import marshal
from collections.abc import Mapping

import msgspec

from rehearsal_room.judge.gate.core.task_runner import GateSettings
from rehearsal_room.judge.gate.package import CheckResult, facts_of, inspect
from rehearsal_room.judge.playback.playback import Fact
from rehearsal_room.scenarios.files import compiled, keep_compiled, python_fault
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.near_misses import NearMiss


class CheckRequest(msgspec.Struct, frozen=True):
    """A world to be checked, or whose oracles are to be played only (`settings` None)."""

    scenario: Scenario
    sources: dict[str, str]
    settings: GateSettings | None
    near_misses: tuple[NearMiss, ...] = ()
    code: dict[str, bytes] = {}  # of the sources, compiled once for both processes (marshal)


def code_of(scenario: Scenario, sources: Mapping[str, str]) -> dict[str, bytes]:
    """The code of a package's sources, as a request carries it; of a text that is not valid Python
    there is none."""
    paths = {name: str(scenario.path / name) for name in sources}
    return {
        name: marshal.dumps(compiled(text, paths[name]))
        for name, text in sources.items()
        if python_fault(text, paths[name]) is None
    }


class CheckReply(msgspec.Struct, frozen=True):
    """The result of a request."""

    checked: CheckResult | None = None
    facts: dict[str, list[Fact]] = {}
    fault: str = ""  # why there is no result; empty: there is one


def handle(request: CheckRequest) -> CheckReply:
    """Handle one request. An error of the gate itself is a fault too."""
    try:
        for name, code in request.code.items():
            path = str(request.scenario.path / name)
            # It comes from the process that started this one.
            keep_compiled(request.sources[name], path, marshal.loads(code))  # nosec B302
        if request.settings is None:
            return CheckReply(facts=facts_of(request.scenario, request.sources))
        return CheckReply(
            inspect(request.scenario, request.settings, request.sources, request.near_misses)
        )
    except Exception as exc:
        return CheckReply(fault=f"{type(exc).__name__}: {exc}")
