"""Small mutations: a call with one value changed, an answer with one fact changed.

Free text (a string with spaces, or a plain lower-case word outside of an enumeration) is not
changed, because many other wordings would be right, too.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
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
_UNITS = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_MONTH = f"(?:{'|'.join(_MONTHS)})"
_LONG_MONTHS = (1, 3, 5, 7, 8, 10, 12)  # with 31 days
_FACT = re.compile(
    rf"\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}(?:,? \d{{4}})?"  # 14 March 2026
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?"  # March 14, 2026
    r"|\w+(?:[-./:,]\w+)*"  # words, numbers, codes, dates, times
)
DONE = "Done: I have carried out everything that was asked for."


def wrong_answers(task: Task, named: str = "") -> Iterator[tuple[str, str]]:
    """Wrong answers, each with a note of what is wrong.

    A question's facts are the dates, numbers and codes of its answer that the instruction does
    not contain; where there are none, the names. Numbers may be words ("three"), and of a date each
    part is changed by itself. Half an answer is wrong when it lacks a fact. Where the right answer
    declines, one that claims success or is empty is wrong. Where the text `named`, such as a
    verifier's values, has some of the facts, the others are details beyond the task: they
    stay.
    """
    answer = task.answer
    if task.kind == "decline":
        yield DONE, "the answer claims success"
        yield "", "the answer is empty"
        return
    facts, numbers = _facts(task), _number_words(task)
    known = {_key(word) for word in _FACT.findall(named)}
    if any(_key(same[0]) in known for same in (*facts, *numbers)):
        facts = [same for same in facts if _key(same[0]) in known]
        numbers = [same for same in numbers if _key(same[0]) in known]
    wrongs = [{fact: _wrong(fact) for fact in same} for same in facts]
    wrongs += [wrong for same in facts for wrong in _wrong_parts(same)]
    taken = {_meaning(word) for word in _FACT.findall(answer)}
    wrongs += [{word: _other_word(word, taken) for word in same} for same in numbers]
    for wrong in wrongs:
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
    for word in dict.fromkeys(_FACT.findall(task.answer)):
        if _number_of(word) is not None and (forms := found.get(_meaning(word))):
            forms.append(word)
    return list(found.values()) or [[name] for name in _names(task)]


def _number_words(task: Task) -> list[list[str]]:
    """The numbers from two on that the answer has in words, and the instruction and the facts do
    not have, each in all its forms."""
    known = {_meaning(word) for word in _FACT.findall(task.instruction)}
    known |= {_meaning(word) for word in _FACT.findall(task.answer) if _DIGIT.search(word)}
    found: dict[object, list[str]] = {}
    for word in dict.fromkeys(_FACT.findall(task.answer)):
        if _number_of(word) is not None and (meaning := _meaning(word)) not in known:
            found.setdefault(meaning, []).append(word)
    return list(found.values())


def _number_of(word: str) -> int | None:
    """The number that a word is; None: it is none, or one that often is not meant as a number.

    Example: "Three" -> 3; "twenty-one" -> 21; "one" -> None
    """
    parts = word.casefold().split("-")
    if parts[-1] in _TENS and len(parts) == 1:
        return 10 * _TENS.index(parts[0]) + 20
    if parts[-1] not in _UNITS:
        return None
    unit = _UNITS.index(parts[-1]) + 1
    if len(parts) == 1:
        return unit if unit > 1 else None
    return unit + 10 * _TENS.index(parts[0]) + 20 if parts[0] in _TENS and unit < 10 else None


def _other_word(word: str, taken: Collection[object] = ()) -> str:
    """The next number in words, else the one before. Meanings that are taken are passed over: they
    are other values of the same answer, and to exchange two of these is another mistake.

    Example: "Three" -> "Four"; "twenty-nine" -> "twenty-eight"; "two", 3.0 taken -> "four"
    """
    *tens, last = re.split("(-)", word)
    kind = _TENS if last.casefold() in _TENS else _UNITS[:9] if tens else _UNITS
    index = kind.index(last.casefold())
    others = ["".join(tens) + other for other in (*kind[index + 1 :], *reversed(kind[:index]))]
    other = next((one for one in others if _meaning(one.casefold()) not in taken), others[0])
    return other.capitalize() if word[0].isupper() else other


def _meaning(word: str) -> object:
    """A key that is equal for two ways to write one date or number: month and day, or the
    number."""
    if (number := _number_of(word)) is not None:
        return float(number)
    if found := re.fullmatch(r"\d{4}-(\d{2})-(\d{2})(?:T.*)?", word):
        return int(found[1]), int(found[2])
    if found := re.search(_MONTH, word):
        day = re.search(r"(?<!\d)\d{1,2}(?!\d)", word)
        return _MONTHS.index(found[0]) + 1, int(day[0]) if day else 0
    if re.fullmatch(r"\d[\d,]*(\.\d+)?", word):
        return float(word.replace(",", ""))
    return word


def _key(word: str) -> object:
    """The meaning of a word, equal in upper and lower case."""
    meaning = _meaning(word)
    return meaning.casefold() if isinstance(meaning, str) else meaning


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
    if _number_of(fact) is not None:
        return _other_word(fact)
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


def _wrong_parts(forms: Sequence[str]) -> Iterator[dict[str, str]]:
    """A date with another month, and with another year, in all forms that have it.

    Example: ["14 March 2026"] -> {"14 March 2026": "14 April 2026"}, {…: "14 March 2027"}
    """
    for change in (_other_month, _other_year):
        wrong = {form: other for form in forms if (other := change(form)) is not None}
        if wrong:
            yield wrong


def _other_month(fact: str) -> str | None:
    """The date in another month, which has the day too; None: the text has no date.

    Example: "2026-12-31" -> "2026-10-31"
    """
    meaning = _meaning(fact)
    if not isinstance(meaning, tuple) or not 1 <= meaning[0] <= 12:
        return None
    month, day = meaning
    fitting = _LONG_MONTHS if day > 28 else tuple(range(1, 13))
    later = [other for other in fitting if other > month]
    other = later[0] if later else [one for one in fitting if one < month][-1]
    if _ISO_DATE.fullmatch(fact):
        return f"{fact[:5]}{other:02}{fact[7:]}"
    return re.sub(_MONTH, _MONTHS[other - 1], fact)


def _other_year(fact: str) -> str | None:
    """The date a year later; None: the text has no date, or no year."""
    if not isinstance(_meaning(fact), tuple):
        return None
    found = re.search(r"(?<!\d)\d{4}(?!\d)", fact)
    return found and fact[: found.start()] + str(int(found[0]) + 1) + fact[found.end() :]


def _replace_facts(text: str, others: Mapping[str, str]) -> str:
    """The text with facts replaced by other words, wherever they occur as whole words."""
    return _FACT.sub(lambda found: others.get(found[0], found[0]), text)
