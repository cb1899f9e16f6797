"""The gate's check that a task speaks of what is there: names, codes, addresses and numbers.

Looked for in a task's instruction:

    e-mail    ann@example.com                     somewhere in the data
    code      ORD-1042, QF2071X                   somewhere in the data
    number    order 1042, member no. 7, #1042     a value of the data
    name      Anna Soll, "The Waves"              the words of one row

What the oracle passes to a tool or looks for, what the policy and the tools say, and the moment
and the user of the world are there, too. Names are two or more capitalised words in a row, or a
short text in quotes. Single names, and what stands in lower case, are not checked.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from envpool.core.types import ToolResult
from judge.playback.tool_fuzzing import singular
from scenarios.api import Row
from scenarios.format import Scenario, Task

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_CODE = re.compile(r"(?<![\w@./-])(?=[\w-]*\d)(?=[\w-]*[A-Z])[A-Z0-9]+(?:-[A-Z0-9]+)*(?![\w@])")
_NUMBERED = re.compile(
    r"\b([A-Za-z]+)(?: (?:no\.|number|id|ID))? #?(\d{1,9})"
    r"(?![\w:%]|[.,/-]\d| ?%| (?!(?:is|was|has|does|goes|says)\b)[a-z]+s\b)"  # order 20 lamps
)
_HASHED = re.compile(r"#(\d{1,9})\b")
_QUOTED = re.compile(r"[“\"]([^”\"\n]{2,60})[”\"]|(?<!\w)['‘]([A-Z][^'’\n]{1,60})['’](?!\w)")
_CAPITAL = r"[A-Z][^\W\d_]*(?:[’'-][^\W\d_]+)*"
_NAME = re.compile(
    rf"\b{_CAPITAL}(?: (?:(?:de|del|da|van|von|der|la|le|al|bin|of) )*{_CAPITAL})+\b"
)
_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?:^|[.!?:;]['\"”’)]*\s+|\n\s*)$")
_SHORT, _FEW = 3, 6  # letters of a word that needs no capital, words of a name
_SMALL = 10  # numbers below are mostly counts: "order 2 lamps"
_CALENDAR = frozenset(
    {
        *("january", "february", "march", "april", "may", "june", "july", "august"),
        *("september", "october", "november", "december", "monday", "tuesday", "wednesday"),
        *("thursday", "friday", "saturday", "sunday", "am", "pm", "utc", "gmt", "usd", "eur"),
    }
)


class Known:
    """What a world knows: the words of its rows and texts, and their values."""

    def __init__(self, tables: Mapping[str, Iterable[Row]], texts: Iterable[str]) -> None:
        self._rows_of: dict[str, set[int]] = {}  # word -> numbers of the rows that have it
        self._numbers: set[int] = set()
        self._entities: set[str] = set()
        self._num_rows = 0
        self._text = ""
        parts: list[str] = []
        for table, rows in tables.items():
            self._entities.update(_WORD.findall(singular(table).replace("_", " ")))
            for row in rows:
                values = [str(value) for value in row.values() if isinstance(value, str)]
                self._numbers.update(v for v in row.values() if isinstance(v, int))
                self._add(" ".join(values))
                parts.extend(values)
        for text in texts:
            self._add(text)
            parts.append(text)
        self._text = "\n".join(parts).casefold()

    def _add(self, text: str) -> None:
        self._num_rows += 1
        for word in set(_words(text)):
            self._rows_of.setdefault(word, set()).add(self._num_rows)

    def has_text(self, text: str) -> bool:
        """Whether a text stands anywhere in the data."""
        return text.casefold() in self._text

    def has_number(self, number: int) -> bool:
        """Whether a whole number is a value, or stands in a text as a word."""
        return number in self._numbers or str(number) in self._rows_of

    def has_name(self, words: Collection[str]) -> bool:
        """Whether one row, or one text, has all of the words."""
        found = [self._rows_of.get(word, set()) for word in words]
        return bool(set.intersection(*found)) if found else True

    def has_names(self, words: Sequence[str]) -> bool:
        """The same, or two names one after the other: "leave Ben Roth Emma"."""
        cuts = range(1, len(words) if len(words) > 2 else 1)
        return self.has_name(words) or any(
            self.has_name(words[:cut]) and self.has_name(words[cut:]) for cut in cuts
        )

    def is_entity(self, word: str) -> bool:
        """Whether the rows of some table are called so."""
        return word.casefold() in self._entities


def known_of(scenario: Scenario, tables: Mapping[str, Iterable[Row]], said: Iterable[str]) -> Known:
    """What a scenario knows. `said` are the texts of its tools."""
    user = f"{scenario.user.name} {scenario.user.role} {scenario.user.id}"
    head = (scenario.title, scenario.description, scenario.rules, user, scenario.clock)
    return Known(tables, (*head, *said))


def missing_in(task: Task, known: Known) -> Iterator[str]:
    """A sentence for each thing that the instruction names and that is not there.

    Of a task without an oracle nobody knows what it wants made: only its numbers are looked for.
    """
    own = Known({}, _own_texts(task))
    for kind, text in dict.fromkeys(_mentions(task.instruction, known)):
        if kind != "number" and task.kind == "open" and not task.oracle:
            continue
        words = _words(text)
        if task.kind == "decline" and kind == "quoted name":
            continue  # what shall not be made
        if task.kind == "decline" and kind == "name":  # it may name who shall not be let in
            words = [word for word in words if known.has_name([word])] or words
        there = (
            known.has_names(words) or own.has_name(words)
            if kind.endswith("name")
            else known.has_text(text) or own.has_text(text)
            if kind in ("e-mail", "code")
            else known.has_number(int(text)) or own.has_number(int(text))
        )
        if not there:
            yield f"it names the {kind} {text!r}, which is nowhere in the world's data"


def unfounded_in(task: Task, results: Iterable[ToolResult], known: Known) -> Iterator[str]:
    """A sentence for each name and code in a question's answer that no call of its oracle shows,
    and nothing else does. Numbers may be worked out, and are not looked for."""
    shown = Known({}, [task.instruction, *(result.text for result in results)])
    for kind, text in dict.fromkeys(_mentions(task.answer, known)):
        if kind in ("e-mail", "code") and not (shown.has_text(text) or known.has_text(text)):
            yield f"its answer has the {kind} {text!r}, which no call of its oracle shows"
        if kind == "name" and not any(one.has_name(_words(text)) for one in (shown, known)):
            yield f"its answer names {text!r}, who is nowhere in the world's data"


def asked_twice(tasks: Sequence[Task]) -> Iterator[tuple[Task, Task]]:
    """Tasks that are another one again, with that one: the same words, calls and answer."""
    seen: dict[str, Task] = {}
    for task in tasks:
        first = seen.setdefault(" ".join(_words(task.instruction)), task)
        if first is not task and (first.oracle, first.answer) == (task.oracle, task.answer):
            yield task, first


def _mentions(text: str, known: Known) -> Iterator[tuple[str, str]]:
    """Kind and text of what an instruction names."""
    emails = _EMAIL.findall(text)
    yield from (("e-mail", email.rstrip(".")) for email in emails)
    rest = _EMAIL.sub(" ", text)
    for code in _CODE.findall(rest):
        if len(code) >= 4 and re.search(r"[A-Z]", code):
            yield "code", code
    numbers = [
        found[2]
        for found in _NUMBERED.finditer(rest)
        if known.is_entity(found[1]) and not _is_count(rest, found)
    ]
    numbers += _HASHED.findall(rest)
    yield from (("number", number) for number in numbers if int(number) >= _SMALL)
    for double, single in _QUOTED.findall(rest):
        quoted = (double or single).strip(" .,!?")
        if _is_title(quoted):
            yield "quoted name", quoted
    yield from (("name", name) for name in _names(_QUOTED.sub(" … ", rest), known))


def _is_count(text: str, found: re.Match[str]) -> bool:
    """Whether a number tells how many, and the word before it what to do: "Order 83 of them"."""
    begins = _SENTENCE.search(text[: found.start()]) is not None
    return begins and text[found.end() :].startswith(" of ")


def _is_title(quoted: str) -> bool:
    """Whether a quoted text is a name, and no speech: a few words, all but the short ones with
    capitals."""
    words = [word for word in quoted.split() if len(word) > _SHORT]
    return 0 < len(words) <= _FEW and all(word[0].isupper() for word in words)


def _names(text: str, known: Known) -> Iterator[str]:
    """Capitalised words in a row. The first word of a sentence may be no part of a name, so it is
    left out where it makes no name that is known."""
    for found in _NAME.finditer(text):
        if known.has_names(_words(re.sub(r"['’]s?\b", "", found[0]))):
            continue
        begins = _SENTENCE.search(text[: found.start()]) is not None
        words = [re.sub(r"['’]s?$", "", word) for word in found[0].split()[begins:]]
        kept = [word for word in words if word.casefold() not in _CALENDAR]
        while kept and not kept[0][0].isupper():
            del kept[0]
        if len(kept) >= 2 - begins:
            yield " ".join(kept)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _own_texts(task: Task) -> Iterator[str]:
    """What the task itself brings: its oracle's arguments, each alone, and what it should say."""
    for call in task.oracle:
        for value in call.arguments.values():
            yield from _leaves(value)
    if task.kind == "decline":
        yield task.answer


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield str(value)
