"""The gate's check that a task names things that exist: names, codes, addresses and numbers.

The parts of an instruction, and where they must occur:

    e-mail    ann@example.com                     somewhere in the data
    code      ORD-1042, QF2071X                   somewhere in the data
    number    order 1042, member no. 7, #1042     a value of the data
    name      Anna Soll, "The Waves"              the words of one row

The oracle's arguments, the policy, the tools' descriptions, and the world's time and user count as
data too. Names are two or more capitalised words in a row, or a short text in quotes. Single names
and words in lower case are not checked.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.judge.playback.tool_fuzzing import singular
from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Scenario, Task

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
_SMALL = 10  # smaller numbers are mostly counts: "order 2 lamps"
_CALENDAR = frozenset(
    {
        *("january", "february", "march", "april", "may", "june", "july", "august"),
        *("september", "october", "november", "december", "monday", "tuesday", "wednesday"),
        *("thursday", "friday", "saturday", "sunday", "am", "pm", "utc", "gmt", "usd", "eur"),
    }
)


class Known:
    """The words and values in a world's rows and texts."""

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
        """Whether a text occurs anywhere in the data."""
        return text.casefold() in self._text

    def has_number(self, number: int) -> bool:
        """Whether an integer is a value, or occurs in a text as a word."""
        return number in self._numbers or str(number) in self._rows_of

    def has_name(self, words: Collection[str]) -> bool:
        """Whether one row, or one text, has all of the words; a plural counts as its singular, as
        in "the Marshalls"."""
        found = [
            self._rows_of.get(word) or self._rows_of.get(word.removesuffix("s"), set())
            for word in words
        ]
        return bool(set.intersection(*found)) if found else True

    def has_names(self, words: Sequence[str]) -> bool:
        """The same for one name, or for two in a row, as in "leave Ben Roth Emma"."""
        cuts = range(1, len(words) if len(words) > 2 else 1)
        return self.has_name(words) or any(
            self.has_name(words[:cut]) and self.has_name(words[cut:]) for cut in cuts
        )

    def is_entity(self, word: str) -> bool:
        """Whether a table's rows have this name."""
        return word.casefold() in self._entities


def known_of(scenario: Scenario, tables: Mapping[str, Iterable[Row]], more: Iterable[str]) -> Known:
    """The words and values of a scenario. `more` are the texts of its tools."""
    user = f"{scenario.user.name} {scenario.user.role} {scenario.user.id}"
    head = (scenario.title, scenario.description, scenario.rules, user, scenario.clock)
    return Known(tables, (*head, *more))


def missing_in(task: Task, known: Known) -> Iterator[str]:
    """A sentence for each thing that the instruction names and that does not exist.

    A task without an oracle may want new things, which are not known: only its numbers are checked.
    """
    own = Known({}, _own_texts(task))
    for kind, text in dict.fromkeys(_mentions(task.instruction, known)):
        if kind != "number" and task.kind == "open" and not task.oracle:
            continue
        words = _words(text)
        if task.kind == "decline" and kind == "quoted name":
            continue  # a new thing that must not be made
        if task.kind == "decline" and kind == "name":  # it may name a person who must be refused
            words = [word for word in words if known.has_name([word])] or words
        exists = (
            known.has_names(words) or own.has_name(words)
            if kind.endswith("name")
            else known.has_text(text) or own.has_text(text)
            if kind in ("e-mail", "code")
            else known.has_number(int(text)) or own.has_number(int(text))
        )
        if not exists:
            yield f"it names the {kind} {text!r}, which is not in the world's data"


def unfounded_in(task: Task, results: Iterable[ToolResult], known: Known) -> Iterator[str]:
    """A sentence for each name and code in a question's answer that neither the results of its
    oracle nor the data contain. Numbers may be computed, and are not checked."""
    shown = Known({}, [task.instruction, *(result.text for result in results)])
    for kind, text in dict.fromkeys(_mentions(task.answer, known)):
        if kind in ("e-mail", "code") and not (shown.has_text(text) or known.has_text(text)):
            yield f"its answer has the {kind} {text!r}, which no call of its oracle shows"
        if kind == "name" and not any(one.has_name(_words(text)) for one in (shown, known)):
            yield f"its answer names {text!r}, who is not in the world's data"


def duplicate_tasks(tasks: Sequence[Task]) -> Iterator[tuple[Task, Task]]:
    """Tasks with the same words, calls and answer as an earlier one, each with that one."""
    seen: dict[str, Task] = {}
    for task in tasks:
        first = seen.setdefault(" ".join(_words(task.instruction)), task)
        if first is not task and (first.oracle, first.answer) == (task.oracle, task.answer):
            yield task, first


def _mentions(text: str, known: Known) -> Iterator[tuple[str, str]]:
    """The kind and text of each thing that an instruction names."""
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
    """Whether a number is a count and the word before it a verb: "Order 83 of them"."""
    begins = _SENTENCE.search(text[: found.start()]) is not None
    return begins and text[found.end() :].startswith(" of ")


def _is_title(quoted: str) -> bool:
    """Whether a quoted text is a name, and not speech: a few words, all but the short ones with
    capitals."""
    words = [word for word in quoted.split() if len(word) > _SHORT]
    return 0 < len(words) <= _FEW and all(word[0].isupper() for word in words)


def _names(text: str, known: Known) -> Iterator[str]:
    """Capitalised words in a row. The first word of a sentence may not be part of a name, so it is
    left out where it makes no name that is known."""
    for found in _NAME.finditer(text):
        whole = re.sub(r"['’]s?\b", "", found[0])
        if known.has_names(_words(whole)) or _are_known(whole.split(" of "), known):
            continue
        begins = _SENTENCE.search(text[: found.start()]) is not None
        words = [re.sub(r"['’]s?$", "", word) for word in found[0].split()[begins:]]
        kept = [word for word in words if word.casefold() not in _CALENDAR and word != "I"]
        while kept and not kept[0][0].isupper():
            del kept[0]
        if len(kept) >= 2 - begins:
            yield " ".join(kept)


def _are_known(parts: Sequence[str], known: Known) -> bool:
    """Whether several names in a row, as in "the Cleaning W of Ana Lopez", are known one by one."""
    return len(parts) > 1 and all(known.has_names(_words(part)) for part in parts)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _own_texts(task: Task) -> Iterator[str]:
    """The texts of the task itself: its oracle's arguments, each alone, and the answer of a
    refusal."""
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
