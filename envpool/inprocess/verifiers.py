"""Run the verifiers of a package: one function of verify.py for each task.

The code runs in the calling process: the judge's for trusted packages, otherwise a worker.
"""

import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, cast

import msgspec

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.core.remote_states import Verified
from rehearsal_room.envpool.core.types import StoredState
from rehearsal_room.envpool.inprocess.toolset import load_module
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.api import State
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.core.criteria import Criterion
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Scenario, Task

T = TypeVar("T")
Function = Callable[[State, State, str], Any]
_KINDS = ("goal", "guard")
_FIELDS = {"name": str, "passed": bool, "expected": str, "found": str}  # of a Finding
_values_of, _TYPES = attrgetter(*_FIELDS), tuple(_FIELDS.values())


class VerifierFault(Exception):
    """A verifier raised, or did not return a list of findings; the message names the verifier and
    the fault."""


class Verifiers:
    """The loaded verify.py of one scenario. With `source`, that text is executed, not the file.

    Raises PackageError, naming file and task, when verify.py cannot be loaded or lacks the function
    of a task.
    """

    def __init__(self, scenario: Scenario, source: str | None = None) -> None:
        self._scenario = scenario.name
        self._functions, self._criteria = _functions(scenario, source)

    def run(self, task: Task, before: State, after: State, answer: str) -> tuple[Finding, ...]:
        """The task's findings on a state and an answer, and one for each of its criteria (see
        criterion_findings).

        Raises VerifierFault when a function raises or does not return what it should. The states
        are read-only, so a verifier that writes fails. KeyboardInterrupt, by which a user or a
        timer ends a verifier, passes.
        """

        def made(function: Function, read: Callable[[Any], tuple[str, T]], name: str) -> T:
            try:
                fault, found = read(function(before, after, answer))
            except KeyboardInterrupt:
                raise
            except BaseException as exc:  # a program may end with sys.exit
                raise VerifierFault(f"{self._name(name)} raised {_described(exc)}") from exc
            if fault:
                raise VerifierFault(f"{self._name(name)} returned {fault}")
            return found

        findings = made(self._functions[task.id], _findings_in, task.verifier)
        for one in task.criterion:
            share = made(self._criteria[one.check], _share_in, one.check) if one.check else None
            findings = (*findings, *criterion_findings(one, share))
        return findings

    def _name(self, function: str) -> str:
        return f"verifier {function!r} of scenario {self._scenario!r}"


class PackageVerifiers:
    """Runs verifiers of trusted packages for a pool; each verify.py is loaded once."""

    def __init__(self) -> None:
        self._loaded: dict[str, Verifiers] = {}  # package digest -> its verifiers

    def verify(self, states: States, task: Task, state: StoredState, answer: str) -> Verified:
        """The result of the task's verifier. Raises StateError for a state of another scenario."""
        scenario = states.scenario
        before, after = states.states(state)
        try:
            verifiers = self._loaded.get(scenario.digest)
            if verifiers is None:
                verifiers = self._loaded[scenario.digest] = Verifiers(scenario)
            findings = verifiers.run(task, before, after, answer)
        except (VerifierFault, PackageError) as exc:
            return Verified(0, fault=str(exc))
        return Verified(0, findings=findings)


def _findings_in(returned: Any) -> tuple[str, tuple[Finding, ...]]:
    """What is wrong with a returned value (empty: nothing), and the findings in it. Raises what
    methods of the value raise."""
    if not isinstance(returned, list | tuple) or not returned:
        found = f"a {type(returned).__name__}" if returned else repr(returned)
        return f"{found}, expected a list of findings", ()
    for finding in returned:
        if fault := _finding_fault(finding):
            return f"{finding!r} in its list, {fault}", ()
    return "", tuple(returned)


def _described(exc: BaseException) -> str:
    """The kind and the text of an exception; its own methods may raise."""
    try:
        name, text = type(exc).__name__, str(exc)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return next(base.__name__ for base in type(exc).__mro__ if base.__module__ == "builtins")
    return f"{name}: {text}" if text else name


def _finding_fault(value: Any) -> str:
    """Why a value is not a Finding with fields of the right types, which a struct does not check;
    empty: it is one."""
    if type(value) is not Finding:
        return "expected a Finding"
    types = tuple(map(type, _values_of(value)))
    for (field, kind), found in zip(_FIELDS.items(), types, strict=True) if types != _TYPES else ():
        if found is not kind:
            return (
                f"expected a Finding whose {field!r} is a {kind.__name__}, "
                f"found the type {found.__name__}"
            )
    if value.kind not in _KINDS:
        return f"expected a Finding whose 'kind' is one of {', '.join(map(repr, _KINDS))}"
    if value.share is not None and not (_is_number(value.share) and 0 <= value.share <= 1):
        return "expected a Finding whose 'share' is a number from 0 to 1, or None"
    if not (_is_number(value.weight) and 0 <= value.weight < math.inf):
        return "expected a Finding whose 'weight' is a number that is not below 0"
    return ""


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _share_in(returned: Any) -> tuple[str, float | tuple[Finding, ...]]:
    """What is wrong with what the function of a criterion returned (empty: nothing), and the share
    or the findings in it."""
    if type(returned) in (bool, int, float):
        if 0 <= returned <= 1:
            return "", float(returned)
        return f"{returned!r}, expected a share from 0 to 1", 0.0
    if type(returned) in (list, tuple):
        fault, found = _findings_in(returned)
        if not fault and all(one.kind == "guard" for one in found):
            fault = "guards alone, expected a goal among its findings"
        return fault, found
    return f"a {type(returned).__name__}, expected true or false, 0 to 1, or findings", 0.0


def criterion_findings(
    criterion: Criterion, share: float | tuple[Finding, ...] | None
) -> tuple[Finding, ...]:
    """The finding on a criterion, after the guards among the findings of its function. Where a
    model is asked (`share` None), it is open and has no share until then."""
    made = Finding(criterion.name, False, criterion.ask, "", "criterion", weight=criterion.weight)
    replace = msgspec.structs.replace
    if share is None:
        return (replace(made, found="not judged: it asks a model", is_open=True),)
    if isinstance(share, float):
        return (replace(made, passed=share == 1, expected="1", found=f"{share:.4g}", share=share),)
    parts = [one for one in share if one.kind != "guard"]
    missing = [one for one in parts if not one.passed] or parts
    met = math.fsum(one.passed for one in parts) / len(parts)
    return (
        *(one for one in share if one.kind == "guard"),
        replace(
            made,
            passed=met == 1,
            expected="; ".join(f"{one.name}: {one.expected}" for one in missing),
            found="; ".join(one.found for one in missing),
            share=met,
            is_open=met < 1 and all(one.is_open for one in missing),
            is_of_words=any(one.is_of_words for one in parts),
        ),
    )


def _functions(
    scenario: Scenario, source: str | None
) -> tuple[dict[str, Function], dict[str, Function]]:
    """The functions of the tasks, by id, and those of their criteria, by name."""
    path = scenario.path / "verify.py"
    name = f"rehearsal_{scenario.name}_{scenario.digest[:12]}_verify"
    try:
        module = load_module(path, name, source)
    except ToolsetError as exc:
        raise PackageError(str(exc)) from exc

    def named(task: Task, name: str) -> Function:
        function = getattr(module, name, None)
        if function is None:
            raise PackageError(f"{path}: task {task.id!r}: there is no function {name!r}")
        if not callable(function):
            raise PackageError(
                f"{path}: task {task.id!r}: {name!r} is a {type(function).__name__}, "
                "expected a function"
            )
        return cast(Function, function)

    tasks = scenario.tasks
    return {task.id: named(task, task.verifier) for task in tasks}, {
        one.check: named(task, one.check) for task in tasks for one in task.criterion if one.check
    }
