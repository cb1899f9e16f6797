"""Small mutations: a call with one value changed, an answer with one fact changed.

Free text (a string with spaces, or a plain lower-case word outside of an enumeration) is not
changed, because many other wordings would be right, too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from rehearsal_room.scenarios.format import Call, Task

Path = tuple[str | int, ...]


def changed_calls(call: Call, schema: Mapping[str, Any]) -> Iterator[tuple[Call, str]]:
    """Every variant of the call with one value changed, each with a note of the change."""
    for path, value in _leaves(call.arguments, ()):
        for other in _others(value, _at(schema, path), str(path[-1])):
            field = ".".join(map(str, path))
            changed = Call(call.name, _replaced(call.arguments, path, other))
            yield changed, f"{call.name}: {field} {value!r} becomes {other!r}"


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, index))
    elif path:
        yield path, value


def _replaced(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replaced(copy[path[0]], path[1:], new)
    return copy


def _at(schema: Mapping[str, Any], path: Path) -> list[Any]:
    """The values that a schema enumerates at a path; empty where it enumerates none.

    Looks through anyOf and array items; schemas here have no `$ref`.
    """
    branches = [schema]
    for name in path:
        branches = [branch for top in branches for branch in _step(top, name)]
    return [value for branch in _flat(branches) for value in branch.get("enum", ())]


def _flat(branches: Sequence[Any]) -> list[Mapping[str, Any]]:
    flat: list[Mapping[str, Any]] = []
    for branch in branches:
        if isinstance(branch, dict):
            inner = [*branch.get("anyOf", ()), *branch.get("oneOf", ())]
            flat.extend(_flat(inner) if inner else [branch])
    return flat


def _step(schema: Mapping[str, Any], name: str | int) -> list[Any]:
    key = "items" if isinstance(name, int) else "properties"
    inner = [branch.get(key) for branch in _flat([schema])]
    if isinstance(name, int):
        return inner
    return [properties.get(name) for properties in inner if isinstance(properties, dict)]


def _others(value: Any, enumerated: Sequence[Any], name: str) -> list[Any]:
    """Values that are slightly wrong, by the type of the value."""
    if enumerated:
        return [other for other in enumerated if other != value and other is not None]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        near = [value + 1, value - 1] if value > 0 else [value + 1]
        return near if is_id(name) or value == 0 else [*near, value * 10]
    if isinstance(value, float):
        return [value + 1, value * 10] if value else [value + 1]
    if isinstance(value, str) and (other := _other_text(value)) is not None:
        return [other]
    return []


def is_id(name: str) -> bool:
    """Whether an argument's name marks it as an identifier, as `order_id` and `ref` do."""
    return re.search(r"(^|_)(ids?|no|number|code|ref|reference|sku)$", name) is not None


_DIGIT = re.compile(r"[0-9]")
_ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})([T ].*)?")


def _other_text(text: str) -> str | None:
    """A date one day later, or a code with one character changed; None for free text.

    Example: _other_text("ORD-1042") -> "ORD-1043"
    """
    if found := _ISO_DATE.fullmatch(text):
        try:
            later = date.fromisoformat(found[1]) + timedelta(days=1)
        except (ValueError, OverflowError):
            return None
        return later.isoformat() + (found[2] or "")
    if not text or any(char.isspace() for char in text):
        return None
    if _DIGIT.search(text):
        return _other_digit(text)
    if text.isupper() or re.search(r"[@_/-]", text):
        return _other_letter(text)
    return None


def _other_digit(text: str) -> str:
    """The text with its last digit one higher (9 becomes 8)."""
    index = max(found.start() for found in _DIGIT.finditer(text))
    digit = "8" if text[index] == "9" else str(int(text[index]) + 1)
    return text[:index] + digit + text[index + 1 :]


def _other_letter(text: str) -> str | None:
    """The text with its last ASCII letter changed; None where it has none."""
    for index in range(len(text) - 1, -1, -1):
        if text[index].isascii() and text[index].isalpha():
            other = "A" if text[index].isupper() else "a"
            other = chr(ord(other) + 1) if text[index] == other else other
            return text[:index] + other + text[index + 1 :]
    return None


_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_MONTH = f"(?:{'|'.join(_MONTHS)})"
_FACT = re.compile(
    rf"\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}(?:,? \d{{4}})?"  # 14 March 2026
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?"  # March 14, 2026
    r"|\w+(?:[-./:,]\w+)*"  # words, numbers, codes, dates, times
)
DONE = "Done: I have carried out everything that was asked for."


def wrong_answers(task: Task) -> Iterator[tuple[str, str]]:
    """Wrong answers, each with a note of what is wrong.

    A question's facts are the dates, numbers and codes of its answer that the instruction does
    not contain; where there are none, the names. Half an answer is wrong when it lacks a fact.
    Where the right answer declines, one that claims success or is empty is wrong.
    """
    answer = task.answer
    if task.kind == "decline":
        yield DONE, "the answer claims success"
        yield "", "the answer is empty"
        return
    facts = _facts(task)
    for same in facts:
        wrong = {fact: _wrong(fact) for fact in same}
        note = " and ".join(f"{other!r} for {fact!r}" for fact, other in wrong.items())
        yield _replace_facts(answer, wrong), f"the answer says {note}"
    yield "", "the answer is empty"
    words = answer.split()
    middle = len(words) // 2
    for half, which in ((words[:middle], "first"), (words[middle:], "second")):
        text = " ".join(half)
        in_half = {_meaning(word) for word in _FACT.findall(text)}
        if text and any(_meaning(same[0]) not in in_half for same in facts):
            yield text, f"the answer is only its {which} half"


def _facts(task: Task) -> list[list[str]]:
    """The facts of the answer, each in all the forms in which the answer has it.

    Example: "due 14 March 2026 (2026-03-14), 2 parcels" -> [["14 March 2026", "2026-03-14"], ["2"]]
    """
    known = {_meaning(word) for word in _FACT.findall(task.instruction)}
    found: dict[object, list[str]] = {}
    for word in dict.fromkeys(_FACT.findall(task.answer)):
        if _DIGIT.search(word) and (meaning := _meaning(word)) not in known:
            found.setdefault(meaning, []).append(word)
    return list(found.values()) or [[name] for name in _names(task)]


def _meaning(word: str) -> object:
    """A key that is equal for two ways to write one date or number: month and day, or the
    number."""
    if found := re.fullmatch(r"\d{4}-(\d{2})-(\d{2})(?:T.*)?", word):
        return int(found[1]), int(found[2])
    if found := re.search(_MONTH, word):
        day = re.search(r"(?<!\d)\d{1,2}(?!\d)", word)
        return _MONTHS.index(found[0]) + 1, int(day[0]) if day else 0
    if re.fullmatch(r"\d[\d,]*(\.\d+)?", word):
        return float(word.replace(",", ""))
    return word


def _names(task: Task) -> list[str]:
    """Capitalised words inside of sentences that the instruction does not contain."""
    known = set(_FACT.findall(task.instruction))
    found = []
    for match in _FACT.finditer(task.answer):
        begins = task.answer[: match.start()].rstrip().endswith((".", "!", "?", ":"))
        inside = match.start() > 0 and not begins
        if inside and len(match[0]) > 2 and match[0][0].isupper() and match[0] not in known:
            found.append(match[0])
    return list(dict.fromkeys(found))


def _wrong(fact: str) -> str:
    if not _DIGIT.search(fact):
        return fact[::-1].capitalize() if fact[::-1].casefold() != fact.casefold() else fact + "x"
    if _ISO_DATE.fullmatch(fact):
        return _other_text(fact) or _other_digit(fact)
    if found := re.search(_MONTH, fact):  # change the day, which is before or after the month
        day = re.search(r"(?<!\d)\d{1,2}(?!\d)", fact)
        if found and day:
            other = str(int(day[0]) + 1 if int(day[0]) < 28 else int(day[0]) - 1)
            return fact[: day.start()] + other + fact[day.end() :]
    return _other_digit(fact)


def _replace_facts(text: str, others: Mapping[str, str]) -> str:
    """The text with facts replaced by other words, wherever they occur as whole words."""
    return _FACT.sub(lambda found: others.get(found[0], found[0]), text)
