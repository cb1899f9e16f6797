"""What `@pytest.mark.rehearse` states: the tasks, how many episodes are played, and what is claimed
of the agent."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from rehearsal_room.harness.core.errors import SettingsError

_MARK = "@pytest.mark.rehearse"


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The marks of one test, taken together."""

    scenarios: tuple[str, ...] = ()  # `name`, `path` or `name:task`
    runs: int | None = None  # episodes in all; None: one of each task
    at_least: float | None = None  # the share of episodes that the agent completes
    no_worse_than: str = ""  # a run folder, or the name of a saved run; empty: no comparison
    margin: float = 0.0  # the share by which it may be worse

    @property
    def count(self) -> int:
        """How many claims there are."""
        return (self.at_least is not None) + bool(self.no_worse_than)


class _Rule(NamedTuple):
    types: tuple[type, ...]
    holds: Callable[[Any], bool]
    expected: str


_RULES = {
    "runs": _Rule((int,), lambda runs: runs >= 1, "a number of episodes, at least 1"),
    "at_least": _Rule((int, float), lambda share: 0 < share < 1, "a share between 0 and 1"),
    "no_worse_than": _Rule((str,), bool, "a run folder or the name of a saved run"),
    "margin": _Rule((int, float), lambda share: 0 <= share < 1, "a share from 0 to below 1"),
}


def claim_of(marks: Iterable[pytest.Mark]) -> Claim:
    """The claim of a test's marks, the nearest first: what a nearer one has prevails.

    Raises SettingsError with the argument that cannot be used.
    """
    scenarios: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    for mark in marks:
        scenarios = scenarios or mark.args
        named = {**mark.kwargs, **named}
    for name in named.keys() - _RULES.keys():
        raise SettingsError(f"{_MARK} has no argument {name!r}; it has {', '.join(_RULES)}")
    for scenario in scenarios:
        if not isinstance(scenario, str):
            raise SettingsError(f"{_MARK}: a scenario is named by a text, not by {scenario!r}")
    named = {name: value for name, value in named.items() if value is not None}
    if isinstance(base := named.get("no_worse_than"), Path):
        named["no_worse_than"] = str(base)
    _check(named)
    return Claim(scenarios=scenarios, **named)


def _check(named: dict[str, Any]) -> None:
    """Raise SettingsError for a value that cannot be used, by name."""
    for name, value in named.items():
        rule = _RULES[name]
        is_of_type = isinstance(value, rule.types) and not isinstance(value, bool)
        if not is_of_type or not rule.holds(value):
            raise SettingsError(f"{_MARK}: {name}={value!r}: expected {rule.expected}")
    if "margin" in named and "no_worse_than" not in named:
        raise SettingsError(f"{_MARK}: margin belongs to no_worse_than, which is not there")
