"""Running the verifiers of a package: one function of verify.py for each task.

The code runs in this process: in the judge's where the package is trusted, else in a worker's.
"""

from collections.abc import Callable
from typing import Any

from envpool.core.errors import ToolsetError
from envpool.inprocess.toolset import load_module
from scenarios.api import State
from scenarios.checks import Finding
from scenarios.errors import PackageError
from scenarios.format import Scenario, Task

_KINDS = ("goal", "guard")


class VerifierFault(Exception):
    """A verifier raised, or gave no list of findings; the sentence says which and how."""


class Verifiers:
    """The loaded verify.py of one scenario; `source` is its text where the file is not to be read.

    Raises PackageError, naming file and task, when verify.py cannot be loaded or a task has no
    function there.
    """

    def __init__(self, scenario: Scenario, source: str | None = None) -> None:
        self._scenario = scenario.name
        self._functions = _functions(scenario, source)

    def run(self, task: Task, before: State, after: State, answer: str) -> tuple[Finding, ...]:
        """The task's findings on a state and an answer.

        Raises VerifierFault when the function raises or gives no list of findings. The states
        are read-only, so a verifier that writes fails.
        """
        try:
            given = self._functions[task.id](before, after, answer)
        except Exception as exc:
            raise VerifierFault(f"{self._name(task)} raised {type(exc).__name__}: {exc}") from exc
        if not isinstance(given, list | tuple) or not given:
            found = f"a {type(given).__name__}" if given else repr(given)
            raise VerifierFault(f"{self._name(task)} gave {found}, expected a list of findings")
        for finding in given:
            if not _is_finding(finding):
                raise VerifierFault(
                    f"{self._name(task)} gave {finding!r} in its list, expected a Finding"
                )
        return tuple(given)

    def _name(self, task: Task) -> str:
        return f"verifier {task.verifier!r} of scenario {self._scenario!r}"


def _is_finding(given: Any) -> bool:
    """Whether it is a Finding whose fields have their types (a struct does not check them)."""
    return (
        type(given) is Finding
        and type(given.passed) is bool
        and type(given.name) is str
        and type(given.expected) is str
        and type(given.found) is str
        and given.kind in _KINDS
    )


def _functions(
    scenario: Scenario, source: str | None
) -> dict[str, Callable[[State, State, str], Any]]:
    path = scenario.path / "verify.py"
    name = f"rehearsal_{scenario.name}_{scenario.digest[:12]}_verify"
    try:
        module = load_module(path, name, source)
    except ToolsetError as exc:
        raise PackageError(str(exc)) from exc
    functions = {}
    for task in scenario.tasks:
        function = getattr(module, task.verifier, None)
        if function is None:
            raise PackageError(f"{path}: task {task.id!r}: there is no function {task.verifier!r}")
        if not callable(function):
            raise PackageError(
                f"{path}: task {task.id!r}: {task.verifier!r} is a {type(function).__name__}, "
                "expected a function"
            )
        functions[task.id] = function
    return functions
