"""Recorded calls as the makings of tasks, and which values of an answer the server made new.

A task is the calls of a session between two pauses, up to the last write among them.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from rehearsal_room.authoring.recordings.lines import RecordedCall, Recording
from rehearsal_room.scenarios.api import RowChange

PAUSE_S = 60.0  # seconds without a call after which a new task begins
_TOKEN = re.compile(r"[\w-]+")
_MIN_INNER = 4  # characters of an id that is replaced inside of a longer text
_ID_NAME = re.compile(r"(?:^|_|[a-z])(?:id|Id|ID|key|Key|number|Number)s?$")


class Group(msgspec.Struct, frozen=True):
    """The calls of a session between two pauses."""

    earlier: tuple[RecordedCall, ...]  # of the session, before these
    calls: tuple[RecordedCall, ...]
    later: tuple[RecordedCall, ...]  # of the session, after these


def groups_of(recording: Recording, pause_s: float = PAUSE_S) -> list[Group]:
    """The groups of all sessions, without those whose calls another group has as well."""
    found: list[Group] = []
    seen: list[list[tuple[str, dict[str, Any]]]] = []
    for calls in recording.sessions:
        starts = [
            index
            for index, call in enumerate(calls)
            if index == 0 or call.at - calls[index - 1].at >= pause_s
        ]
        for start, end in pairwise([*starts, len(calls)]):
            key = [(call.name, call.arguments) for call in calls[start:end]]
            if key not in seen:
                seen.append(key)
                found.append(Group(calls[:start], calls[start:end], calls[end:]))
    return found


class NewIds:
    """New values, such as ids, that the server made: each of the recording has another one when the
    call is made again.

    Example: recorded {"id": "T-7"}, now {"id": "T-9"}: an argument "T-7" of a later call is "T-9".
    """

    def __init__(self) -> None:
        self._renamed: dict[str, Any] = {}
        self._seen: set[str] = set()  # values of the recording so far
        self._made: set[str] = set()  # values of now that earlier answers gave

    def learn(self, recorded: str, now: str, written: set[str] | None = None) -> None:
        """Compare the answer to a write, or to a call after one. `written`: the values of the rows
        that were written; None: unknown, and any new value counts."""
        for before, after in _pairs(recorded, now):
            text = str(after)
            is_new = str(before) not in self._seen and (written is None or text in written)
            if is_new and not isinstance(after, bool | float):
                self._made.add(text)
                if before != after:
                    self._renamed[str(before)] = after
        self.see(recorded)

    def see(self, recorded: Any) -> None:
        """Remember the values of a recorded answer, or of arguments."""
        self._seen.update(tokens_of(recorded))

    def renamed(self, value: Any, name: str = "") -> Any:
        """An argument with the values of now; `name` is its own. A number is an id where the name
        is that of one."""
        match value:
            case dict():
                return {key: self.renamed(one, key) for key, one in value.items()}
            case list():
                return [self.renamed(one, name) for one in value]
            case bool() | float() | None:
                return value
            case str() if not value.isdecimal():
                if value in self._renamed:
                    return str(self._renamed[value])
                return _TOKEN.sub(self._inner, value)
        now = self._renamed.get(str(value), value) if _ID_NAME.search(name) else value
        return str(now) if isinstance(value, str) else now

    def from_answers(self, value: Any, name: str = "") -> bool:
        """Whether an argument of now holds a value that an earlier answer gave."""
        match value:
            case dict():
                return any(self.from_answers(one, key) for key, one in value.items())
            case list():
                return any(self.from_answers(one, name) for one in value)
            case bool() | float() | None:
                return False
            case str() if not value.isdecimal():
                return value in self._made or any(
                    len(token) >= _MIN_INNER and token in self._made
                    for token in _TOKEN.findall(value)
                )
        return _ID_NAME.search(name) is not None and str(value) in self._made

    def _inner(self, found: re.Match[str]) -> str:
        token = found[0]
        return str(self._renamed.get(token, token)) if len(token) >= _MIN_INNER else token


def values_of(changes: Sequence[RowChange]) -> set[str]:
    """The texts and keys of the rows that were written."""
    found: set[str] = set()
    for change in changes:
        found.update(map(str, change.key))
        found.update(value for value in (change.after or {}).values() if isinstance(value, str))
    return found


def leaves(value: Any) -> Iterator[Any]:
    """Every value inside of JSON."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from leaves(one)
    elif value is not None:
        yield value


def tokens_of(value: Any) -> set[str]:
    """The values of JSON, or of a text that may be JSON, and the words in them."""
    found: set[str] = set()
    for leaf in leaves(parsed(value) if isinstance(value, str) else value):
        text = str(leaf)
        found.add(text)
        found.update(_TOKEN.findall(text))
    return found


def parsed(text: str) -> Any:
    """A text's JSON; the text itself where it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _pairs(recorded: str, now: str) -> Iterator[tuple[Any, Any]]:
    yield from _walked(parsed(recorded), parsed(now))


def _walked(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """The values at the same places; lists of different lengths have none."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() & other.keys():
            yield from _walked(one[key], other[key])
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) == len(other):
            for first, second in zip(one, other, strict=True):
                yield from _walked(first, second)
    elif isinstance(one, str) and isinstance(other, str):
        yield one, other
        words, others = _TOKEN.findall(one), _TOKEN.findall(other)
        if len(words) == len(others) > 1:
            yield from zip(words, others, strict=True)
    elif isinstance(one, int | float | str) and isinstance(other, int | float | str):
        yield one, other
