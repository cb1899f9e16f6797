"""Checks on the result of a tool call, for MCP servers whose state can only be read by their tools.

After the agent is done, the verifier of such a task calls tools of the server and compares their
results with what the task expects:

    [[task.check]]
    name = "get_note"
    arguments = { id = 3 }
    expect = { path = "tags[0]", value = "urgent" }
    kind = "guard"
"""

import re
from typing import Any, Literal

import msgspec

from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.core.short_text import one_line
from rehearsal_room.scenarios.files import UNREADABLE

_STEP = re.compile(r"\[(-?\d+)\]|([^.\[\]]+)")
_SHOWN = 200  # characters; a finding shows at most the beginning of a longer text
Rule = Literal["contains", "lacks", "equals", "matches", "value", "fails"]
_RULES: tuple[Rule, ...] = ("contains", "lacks", "equals", "matches", "value", "fails")


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One rule on the text of a result; a failed call satisfies only the rule `fails`.

    Example: {"contains": "milk"}   the text contains this; `lacks`: it does not
    Example: {"equals": "3 notes"}  the text is this, ignoring outer spaces; `matches`: a regular
                                    expression matches
    Example: {"path": "notes[0].id", "value": 7}   the text is JSON and has this value at this path
    Example: {"fails": true}        the call fails
    """

    contains: str | None = None
    lacks: str | None = None
    equals: str | None = None
    matches: str | None = None
    path: str = ""  # of `value`: names after dots, positions in brackets; empty: the whole JSON
    value: Any = msgspec.UNSET
    fails: Literal[True] | None = None

    @property
    def rule(self) -> Rule:
        """The name of the rule."""
        return self._rules()[0]

    def fault(self) -> str:
        """What is wrong with the expectation; empty: nothing."""
        rules = self._rules()
        if len(rules) != 1:
            found = " and ".join(rules) or "none"
            return f"expected one of {', '.join(_RULES)}, found {found}"
        if self.path and self.rule != "value":
            return "path: only allowed together with value"
        if self.path and parse_path(self.path) is None:
            return f"path: {self.path!r} is not a path such as notes[0].text"
        return _regex_fault(self.matches) if self.matches is not None else ""

    def describe(self) -> str:
        """The rule in words, as a finding shows it."""
        if self.rule == "value":
            return f"{self.path or 'the whole result'} = {_json(self.value)}"
        if self.rule == "fails":
            return "an error"
        return f"{self.rule} {getattr(self, self.rule)!r}"

    def check(self, text: str, *, failed: bool) -> tuple[bool, str]:
        """Whether a result satisfies the rule, and what was found."""
        if self.rule == "fails" or failed:
            return failed and self.rule == "fails", f"{'error: ' if failed else ''}{_short(text)}"
        if self.rule == "value":
            return self._at_path(text)
        return self._by_text(text), _short(text)

    def _by_text(self, text: str) -> bool:
        if self.contains is not None:
            return self.contains in text
        if self.lacks is not None:
            return self.lacks not in text
        if self.equals is not None:
            return self.equals.strip() == text.strip()
        assert self.matches is not None
        return re.search(self.matches, text) is not None

    def _at_path(self, text: str) -> tuple[bool, str]:
        try:
            value = msgspec.json.decode(text)
        except UNREADABLE:
            return False, f"not JSON: {_short(text)}"
        for step in parse_path(self.path) or ():
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return False, f"nothing at this path: {_short(text)}"
        return _equal(value, self.value), _short(_json(value))

    def _rules(self) -> list[Rule]:
        return [rule for rule in _RULES if getattr(self, rule) not in (None, msgspec.UNSET)]


class CallCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call that the verifier makes after an episode, and what its result must be."""

    name: str  # the tool
    expect: Expectation
    arguments: dict[str, Any] = {}
    kind: Literal["goal", "guard"] = "goal"

    def finding(self, text: str, *, failed: bool) -> Finding:
        """The finding for the result of the call."""
        passed, found = self.expect.check(text, failed=failed)
        call = f"{self.name}({_json(self.arguments) if self.arguments else ''})"
        expected = self.expect.describe()
        return Finding(f"{call}: {expected}", passed, expected, found, self.kind)


class McpRecord(msgspec.Struct, frozen=True):
    """The part of a scenario that takes the place of SQL and code where another server has the
    world: an MCP server, or an OpenEnv environment."""

    # The server's URL, or the command that starts it; empty: nothing reaches the world any more,
    # since its episodes were imported.
    target: str
    checks: dict[str, tuple[CallCheck, ...]]  # by task id
    # Of an OpenEnv environment, by task id: the options of its reset, and the sum of its rewards at
    # which the task is done. None: it is an MCP server, which has neither.
    resets: dict[str, dict[str, Any]] | None = None
    rewards: dict[str, float] | None = None


def parse_path(path: str) -> tuple[str | int, ...] | None:
    """The steps of a path; None: it is not a valid path.

    Example: "notes[0].text" -> ("notes", 0, "text")
    """
    steps: list[str | int] = []
    offset = 0
    while offset < len(path):
        dotted = path[offset] == "." and offset > 0
        found = _STEP.match(path, offset + dotted)
        if found is None or (found[2] is not None and offset > 0 and not dotted):
            return None
        if found[1] is not None and dotted:
            return None
        steps.append(found[2] if found[1] is None else int(found[1]))
        offset = found.end()
    return tuple(steps)


def _equal(value: Any, expected: Any) -> bool:
    """Equal as JSON: 1 is not true, 1.0 is 1."""
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, dict) and isinstance(expected, dict):
        return value.keys() == expected.keys() and all(_equal(value[k], expected[k]) for k in value)
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(_equal, value, expected))
    return bool(value == expected)


def _regex_fault(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as exc:
        return f"matches: {pattern!r} is not a regular expression: {exc}"
    return ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _short(text: str) -> str:
    return one_line(text, _SHOWN)
