"""What the result of a tool call is expected to say: checks for worlds whose state nobody can read.

A server of somebody else's tells its state through its tools only, so a task's verifier calls them
once the agent is done, and compares what they say:

    [[task.check]]
    name = "get_note"
    arguments = { id = 3 }
    expect = { path = "tags[0]", value = "urgent" }
    kind = "guard"
"""

import re
from typing import Any, Literal

import msgspec

from scenarios.checks import Finding

_STEP = re.compile(r"\[(-?\d+)\]|([^.\[\]]+)")
_SHOWN = 200  # characters of a text that a finding shows
Rule = Literal["contains", "lacks", "equals", "matches", "value", "fails"]
_RULES: tuple[Rule, ...] = ("contains", "lacks", "equals", "matches", "value", "fails")


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One rule on the text of a result; a call that failed keeps no rule but `fails`.

    Example: {"contains": "milk"}   the text holds this; `lacks`: it does not
    Example: {"equals": "3 notes"}  it is this, spaces around aside; `matches`: a regular expression
    Example: {"path": "notes[0].id", "value": 7}   the text is JSON and holds this value there
    Example: {"fails": true}        the call fails
    """

    contains: str | None = None
    lacks: str | None = None
    equals: str | None = None
    matches: str | None = None
    path: str = ""  # where `value` is: names after dots, positions in brackets; empty: the whole
    value: Any = msgspec.UNSET
    fails: Literal[True] | None = None

    @property
    def rule(self) -> Rule:
        """Which rule it is."""
        return self._given()[0]

    def fault(self) -> str:
        """What is wrong with it, in words; empty: nothing."""
        given = self._given()
        if len(given) != 1:
            found = " and ".join(given) or "none"
            return f"expected one of {', '.join(_RULES)}, found {found}"
        if self.path and self.rule != "value":
            return "path: goes with value only"
        if self.path and steps_of(self.path) is None:
            return f"path: {self.path!r} is not like notes[0].text"
        return _regex_fault(self.matches) if self.matches is not None else ""

    def said(self) -> str:
        """It in words, as a finding shows it."""
        if self.rule == "value":
            return f"{self.path or 'the whole'} = {_json(self.value)}"
        if self.rule == "fails":
            return "an error"
        return f"{self.rule} {getattr(self, self.rule)!r}"

    def met_by(self, text: str, *, failed: bool) -> tuple[bool, str]:
        """Whether a result keeps the rule, and what was found instead."""
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
        except msgspec.DecodeError:
            return False, f"no JSON: {_short(text)}"
        for step in steps_of(self.path) or ():
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return False, f"nothing there: {_short(text)}"
        return _equal(value, self.value), _short(_json(value))

    def _given(self) -> list[Rule]:
        return [rule for rule in _RULES if getattr(self, rule) not in (None, msgspec.UNSET)]


class CallCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call to make after an episode, and what it must say."""

    name: str  # the tool
    expect: Expectation
    arguments: dict[str, Any] = {}
    kind: Literal["goal", "guard"] = "goal"

    def finding(self, text: str, *, failed: bool) -> Finding:
        """What the call's result means for the task."""
        passed, found = self.expect.met_by(text, failed=failed)
        asked = f"{self.name}({_json(self.arguments) if self.arguments else ''})"
        said = self.expect.said()
        return Finding(f"{asked}: {said}", passed, said, found, self.kind)


class ForeignRecord(msgspec.Struct, frozen=True):
    """What a scenario has whose world is somebody else's MCP server, instead of SQL and code."""

    target: str  # the server's URL, or the command that starts it
    checks: dict[str, tuple[CallCheck, ...]]  # by task id


def steps_of(path: str) -> tuple[str | int, ...] | None:
    """The steps of a path, None where it is none.

    Example: "notes[0].text" -> ("notes", 0, "text")
    """
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        dotted = path[at] == "." and at > 0
        found = _STEP.match(path, at + dotted)
        if found is None or (found[2] is not None and at > 0 and not dotted):
            return None
        if found[1] is not None and dotted:
            return None
        steps.append(found[2] if found[1] is None else int(found[1]))
        at = found.end()
    return tuple(steps)


def _equal(value: Any, wanted: Any) -> bool:
    """Equal as JSON: 1 is not true, 1.0 is 1."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(_equal(value[k], wanted[k]) for k in value)
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(_equal, value, wanted))
    return bool(value == wanted)


def _regex_fault(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as exc:
        return f"matches: {pattern!r} is not a regular expression: {exc}"
    return ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _SHOWN else plain[:_SHOWN] + "…"
