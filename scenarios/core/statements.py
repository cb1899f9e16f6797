"""Read the typed values of a text: numbers, amounts, dates, times, phone numbers and codes.

A value is read once, by the longest form that fits: "2026-03-14" is a date and not three numbers,
"CS-03" is a code and not 3, "18:05" is a time. The forms are those of English texts with European
and American amounts: 1,042.50, 1.042,50, 42,50 €, "three", "an hour and ten minutes".

Where a form has two meanings ("1.200", "3/4/2026", "3,4"), the reading has both as options.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

Kind = Literal["number", "date", "time", "phone", "code"]
Value = float | str | tuple[int, ...]

_MAX = 20_000  # characters that are read; no answer is longer


class Reading(NamedTuple):
    """One value in a text."""

    kind: Kind
    options: frozenset[Value]  # its meanings; dates are (year or 0, month, day), times (h, min)
    is_loose: bool  # a word such as "one" or "no", which often is not meant as a number
    start: int
    end: int


_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)
_MONTH_OF = {name[:length]: n for n, name in enumerate(_MONTHS, 1) for length in (3, len(name))}
_MONTH_OF["sept"] = 9
_UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS = dict(zip(_UNITS, range(20), strict=True)) | {
    word: 10 * n for n, word in enumerate(_TENS, 2)
}
_SPELLED_DAYS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"),
    *("tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth"),
    *("seventeenth", "eighteenth", "nineteenth", "twentieth"),
)
_NTH = {word: n for n, word in enumerate(_SPELLED_DAYS, 1)}
_NTH |= {f"twenty-{word}": 20 + n for n, word in enumerate(_SPELLED_DAYS[:9], 1)}
_NTH |= {"thirtieth": 30, "thirty-first": 31}
_PHRASES = {
    "no": 0,
    "none": 0,
    "nothing": 0,
    "neither": 0,
    "a single": 1,
    "once": 1,
    "both": 2,
    "twice": 2,
    "a couple": 2,
    "a pair": 2,
    "half a dozen": 6,
    "a dozen": 12,
    "half an hour": 30,
}
_LOOSE = {"no", "none", "nothing", "neither", "one", "once", "a single", "zero"}


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


def _beginning(*words: str) -> str:
    """The same with each first letter once, for a quick decision."""
    letters = sorted({word[0] for word in words})
    return "|".join(
        f"{one}(?:{_any_of(word[1:] for word in words if word[0] == one)})" for one in letters
    )


_MONTH = f"(?:{_any_of(_MONTH_OF)})"
_DAY = r"(?<!\d)\d{1,2}(?:st|nd|rd|th)?"
_YEAR = r"(?:,? \d{4}(?!\d))?"
_TO_99 = f"(?:(?:{_any_of(_TENS)})(?:[- ](?:{_any_of(_UNITS[1:10])}))?|{_any_of(_UNITS[1:])})"
_TO_999 = f"(?:(?:{_TO_99}|a) hundred(?: (?:and )?{_TO_99})?|{_TO_99}|zero)"
_SPELLED = rf"(?:{_TO_999} thousand(?:,? (?:and )?{_TO_999})?|{_TO_999}(?: dozen)?)"
_HOUR = rf"(?:{_any_of(_UNITS[1:13])}|\d{{1,2}})"
_OF_DAY = r"(?: in the (?:morning|afternoon|evening))"
_COINS = r"(?:cents?|pence)"
_NOTES = r"(?:dollars?|euros?|pounds?|usd|eur|gbp)"
_HALF = r"(?:am|pm|a\.m\.|p\.m\.)"
_CURRENCY = r"(?:us\$|[$€£]|usd|eur|gbp)"
_OF_MONEY = r"(?: ?(?:[$€£%]|usd|eur|gbp|euros?|dollars?|pounds?|cents?|per ?cent)(?![a-z]))"
_OF_UNITS = r"(?: ?(?:kg|km|cm|mm|ml|g|m|l|h|min|mins|x)(?!\w))"
# Kind of form -> its pattern, over a text made by `plain`. The first that fits is taken.
_FORMS = {
    # From its first character only: else each letter of a long word would be a beginning.
    "address": r"(?<![\w.+-])[\w.+-]{1,200}@[\w-]+\.[\w.-]*\w|https?://\S+",
    "iso": (
        r"(?<!\d)(?P<day>\d{4}-\d{2}-\d{2})"
        r"(?:[t ](?P<hour>\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?z?)?(?!\d)"
    ),
    "slashed": r"(?<![\d/])\d{1,2}/\d{1,2}/(?:\d{4}|\d{2})(?![\d/])",
    "dotted": r"(?<![\d.])\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})(?![\d.]\d)",
    # "on 4.11" is a date; "4.11." elsewhere may be one.
    "dotted_day": (
        r"(?P<surely>(?:(?<=\bon )|(?<=\buntil )|(?<=\btill )|(?<=\bsince ))\d{1,2}\.\d{1,2}\.?"
        rf"(?!\w)(?!{_OF_MONEY})(?! (?:hours?|kg|km|stars?|points?)\b))"
        r"|(?<![\d.,$€£+-])\d{1,2}\.\d{1,2}\.(?!\w)"
    ),
    "spelled_day": rf"\b(?:{_any_of(_NTH)}) (?:of )?{_MONTH}\b\.?{_YEAR}",
    "spoken_hour": (
        rf"\b(?:(?P<first>{_HOUR}) ?(?:-|to|till|until) ?)?(?P<last>{_HOUR})"
        rf"(?: ?o'clock{_OF_DAY}?|{_OF_DAY})\b"
    ),
    "range": rf"{_DAY}(?= ?(?:-|to|and|or|until|,) ?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}\b)",
    "day_first": rf"{_DAY}(?: of)? {_MONTH}\b\.?{_YEAR}",
    "month_first": (
        rf"\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?(?!\d|[.,]\d)"
        rf"(?: ?(?:-|to|until) ?(?P<until>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:.]))?{_YEAR}"
    ),
    "month": rf"\b{_MONTH}\.?,? \d{{4}}(?!\d)",
    "clock": (
        rf"(?<![\d:])\d{{1,2}}[:.]\d{{2}} ?{_HALF}"
        r"|(?<![\d:])\d{1,2}:\d{2}(?::\d{2})?(?![\d:])"
        rf"|(?<![\d.,])\d{{1,2}} ?{_HALF}(?![a-z])"
    ),
    "spoken_clock": (
        rf"\b(?:(?P<minutes>half|(?:a )?quarter|{_TO_99}) (?P<side>past|to))"
        rf" (?P<hours>{_any_of(_UNITS[1:13])}|\d{{1,2}})\b"
    ),
    "duration": (
        rf"(?<![\w.,])(?:\d{{1,3}}|an?|{_TO_99}) ?(?:hours?|hrs?|h)"
        rf"(?:,| and)? ?(?:\d{{1,2}}|{_TO_99}) ?(?:minutes?|mins?|min|m)?(?!\w)"
    ),
    "phone": (
        r"(?<![\w+])(?:\+\d[\d ()./-]{6,30}\d|\(\d{2,5}\) ?[\d ./-]{5,30}\d|00\d[\d ./-]{7,30}\d"
        r"|0\d{1,4}[ /-][\d ./-]{5,30}\d|\d{3}[-. ]\d{3}[-. ]\d{4}|\d{3}-\d{4}"
        r"|\d{2,4}(?:-\d{2,4}){3,8})(?![\w-])"
    ),
    "spelled_amount": (
        rf"\b(?P<notes>{_SPELLED}|\d+) {_NOTES}(?:,? (?:and )?(?P<coins>{_TO_99}|\d{{2}})"
        rf"(?: {_COINS})?(?!\w))"
    ),
    "short_day": r"(?<![\d/])\d{1,2}/\d{1,2}(?![\d/])",
    "ordinal": r"(?<![\w.,-])\d{1,4}(?:st|nd|rd|th)\b",
    "plural": r"(?<!\w)\d+s\b",
    "number": (
        rf"(?:{_CURRENCY} ?)?(?<![\w.])[-+]?(?:\d{{1,3}}(?:[,']\d{{3}})+(?:\.\d+)?"
        r"|\d{1,3}(?:\.\d{3})+(?:,\d{1,2})?|\d{1,3}(?: \d{3})+(?:[.,]\d{1,2})?"
        rf"|\d+\.\d+|\d+,\d{{1,2}}(?={_OF_MONEY})|\d+,\d\d(?![\d,])|\d+)(?:{_OF_MONEY}|{_OF_UNITS})?(?!\w)"
    ),
    "code": r"(?<!\w)(?=[\w-]{0,80}\d)(?=[\w-]{0,80}[a-z_])\w+(?:-\w+)*",
    "spelled": rf"\b(?:half an hour|{_any_of(_PHRASES)}|{_SPELLED})\b",
}
_UNBOUNDED = {"number", "plural", "spelled_amount"}  # forms of any number of digits
_LONGEST = 100  # characters of a number; a float holds none that is longer
# Where a value can begin; elsewhere no form is tried, which makes reading a long text three times
# as fast.
_SPOKEN = _beginning(*_MONTH_OF, *_WORDS, *_PHRASES, *_NTH, "half", "quarter")
_BEGIN = (
    r"(?=[\d$€£+(.-]|us\$|usd|eur|gbp)"
    rf"|(?<!\w)(?=an? ?(?:h|quarter)|{_SPOKEN}"
    r"|https?://|[\w-]{0,80}\d|[\w.+-]{1,200}@)"
)
_EITHER = "|".join(f"(?P<{name}>{form})" for name, form in _FORMS.items())
_PATTERN = re.compile(f"(?:{_BEGIN})(?:{_EITHER})")


# Characters that show nothing: soft hyphens, joiners, marks of direction and of byte order.
_INVISIBLE = dict.fromkeys(
    (0xAD, 0x180E, 0xFEFF, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070))
)


@lru_cache(maxsize=1024)
def plain(text: str) -> str:
    """The text in one case, with one form of quotes, dashes and spaces, and without characters that
    show nothing."""
    folded = text[:_MAX]
    if not folded.isascii():
        folded = unicodedata.normalize("NFKC", folded.translate(_INVISIBLE))
    folded = folded.casefold()
    folded = (
        folded.replace("’", "'")
        .replace("‐", "-")
        .replace("–", "-")
        .replace("—", " - ")
        .replace("−", "-")
    )
    # Cut again: a single character can become eighteen.
    return " ".join(folded[:_MAX].replace("*", "").replace("`", "").split())


@lru_cache(maxsize=4096)
def readings(text: str) -> tuple[Reading, ...]:
    """The values of a text, in its order."""
    return tuple(_readings(plain(text)))


def _readings(text: str) -> Iterator[Reading]:
    for found in _PATTERN.finditer(text):
        form = str(found.lastgroup)  # it was closed last: the others are inside of it
        if form in _UNBOUNDED and found.end() - found.start() > _LONGEST:
            yield Reading("code", frozenset({found[0]}), False, found.start(), found.end())
            continue
        for made, options, is_loose in _READ[form](found):
            if options:
                yield Reading(made, frozenset(options), is_loose, found.start(), found.end())


_Made = Iterator[tuple[Kind, set[Value], bool]]


def _address(found: re.Match[str]) -> _Made:
    yield "code", {found[0].rstrip(".,;)")}, False


def _iso(found: re.Match[str]) -> _Made:
    year, month, day = map(int, found["day"].split("-"))
    yield "date", {(year, month, day)}, False
    yield "number", {float(year)}, True
    if found["hour"]:
        yield "time", {_clock_of(found["hour"])}, True


def _slashed(found: re.Match[str]) -> _Made:
    one, two, year = map(int, found[0].split("/"))
    year += 2000 if year < 100 else 0
    yield "date", {(year, m, d) for m, d in ((one, two), (two, one)) if m <= 12 and d <= 31}, False
    yield "number", {float(year)}, True


def _dotted(found: re.Match[str]) -> _Made:
    day, month, year = map(int, found[0].split("."))
    yield "date", {(year + (2000 if year < 100 else 0), month, day)}, False


def _dotted_day(found: re.Match[str]) -> _Made:
    day, month = map(int, found[0].rstrip(".").split("."))
    is_day = 0 < day <= 31 and 0 < month <= 12
    is_sure = is_day and found["surely"] is not None
    if is_day:
        yield "date", {(0, month, day)}, not is_sure
    if not is_sure:
        yield "number", {float(found[0].rstrip("."))}, False


def _spelled_day(found: re.Match[str]) -> _Made:
    nth, *rest = found[0].split()
    month = next(_MONTH_OF[word.strip(".,")] for word in rest if word.strip(".,") in _MONTH_OF)
    year = int(rest[-1]) if rest[-1].isdecimal() else 0
    yield "date", {(year, month, _NTH[nth])}, False


def _spoken_hour(found: re.Match[str]) -> _Made:
    is_later = "noon" in found[0] or "evening" in found[0]
    for text in (found["first"], found["last"]):
        if text is not None:
            hour = _number_of(text)
            yield "time", {(hour + 12 * (is_later and hour < 12), 0)}, False


def _named(found: re.Match[str]) -> _Made:
    text = found[0]
    month = next(_MONTH_OF[word] for word in re.findall(r"[a-z]+", text) if word in _MONTH_OF)
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    until = numbers.pop(1) if found["until"] is not None else None
    year = numbers[1] if len(numbers) > 1 else 0
    yield "date", {(year, month, numbers[0])}, False
    if until is not None:
        yield "date", {(year, month, until)}, False
    if year:
        yield "number", {float(year)}, True


def _range(found: re.Match[str]) -> _Made:
    following = re.search(rf"\b(?:{_MONTH})\b", found.string[found.end() :])
    assert following is not None
    yield "date", {(0, _MONTH_OF[following[0]], int(re.sub(r"\D", "", found[0])))}, False


def _month(found: re.Match[str]) -> _Made:
    yield "number", {float(found[0][-4:])}, True


def _clock(found: re.Match[str]) -> _Made:
    yield "time", {_clock_of(found[0])}, False


def _spoken_clock(found: re.Match[str]) -> _Made:
    words = found["minutes"]
    minutes = 30 if words == "half" else 15 if "quarter" in words else _number_of(words)
    hour = _number_of(found["hours"])
    at = (hour, minutes) if found["side"] == "past" else ((hour - 1) % 12, 60 - minutes)
    yield "time", {at}, False


def _clock_of(text: str) -> tuple[int, int]:
    hour, *rest = map(int, re.findall(r"\d+", text))
    if "p" in text and hour < 12:
        hour += 12
    if "a" in text and hour == 12:
        hour = 0
    return hour, rest[0] if rest else 0


def _duration(found: re.Match[str]) -> _Made:
    parts = re.findall(rf"\d+|\ban?\b|{_TO_99}", found[0])
    hours, *rest = [1 if part in ("a", "an") else _number_of(part) for part in parts]
    yield "number", {60 * hours + (rest[0] if rest else 0)}, False
    yield "number", {hours}, True
    if rest:
        yield "number", {rest[0]}, True


def _phone(found: re.Match[str]) -> _Made:
    yield "phone", {_digits(found[0])}, False


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text).lstrip("0")


def _ordinal(found: re.Match[str]) -> _Made:
    number = int(re.sub(r"\D", "", found[0]))
    yield ("date", {(0, 0, number)}, False) if number <= 31 else ("number", {float(number)}, False)


def _plural(found: re.Match[str]) -> _Made:
    yield "number", {float(found[0][:-1])}, True


def _short_day(found: re.Match[str]) -> _Made:
    one, two = map(int, found[0].split("/"))
    days = {(0, m, d) for m, d in ((one, two), (two, one)) if 0 < m <= 12 and 0 < d <= 31}
    yield "date", set(days), not days
    yield "number", {float(one)}, True
    yield "number", {float(two)}, True


def _spelled_amount(found: re.Match[str]) -> _Made:
    yield "number", {_number_of(found["notes"]) + _number_of(found["coins"]) / 100}, False


_NO_NUMBER = re.compile(r"[^\d.,'+-]")
_WITH_COMMAS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")  # between thousands
_WITH_POINTS = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d{1,2})?")


def _number(found: re.Match[str]) -> _Made:
    text = found[0]
    if not text.isdecimal():
        text = _NO_NUMBER.sub("", text.replace("’", "'")).strip("'").rstrip(".,")
    yield "number", {float(text)} if text.isdecimal() else set(_amounts(text)), False


def _amounts(text: str) -> Iterator[float]:
    sign = -1.0 if text.startswith("-") else 1.0
    bare = text.lstrip("+-").replace("'", "").replace(" ", "")
    if _WITH_COMMAS.fullmatch(bare):
        yield sign * float(bare.replace(",", ""))
    elif _WITH_POINTS.fullmatch(bare):
        yield sign * float(bare.replace(".", "").replace(",", "."))
        if bare.count(".") == 1 and "," not in bare:
            yield sign * float(bare)  # "1.200" may be 1.2 too
    elif "," in bare:
        yield sign * float(bare.replace(",", "."))
    else:
        yield sign * float(bare)


def _code(found: re.Match[str]) -> _Made:
    yield "code", {found[0]}, False


def _spelled(found: re.Match[str]) -> _Made:
    yield "number", {float(_number_of(found[0]))}, found[0] in _LOOSE


def _number_of(text: str) -> int:
    """Example: "two hundred and twenty-one" -> 221"""
    if text.isdecimal():
        return int(text)
    if text in _PHRASES:
        return _PHRASES[text]
    total = thousands = 0
    for word in re.split(r"[-, ]+", text):
        if word == "hundred":
            total = 100 * (total or 1)
        elif word == "dozen":
            total *= 12
        elif word == "thousand":
            thousands, total = 1000 * (total or 1), 0
        else:
            total += _WORDS.get(word, 0)
    return thousands + total


_READ: dict[str, Callable[[re.Match[str]], _Made]] = {
    "address": _address,
    "iso": _iso,
    "slashed": _slashed,
    "dotted": _dotted,
    "dotted_day": _dotted_day,
    "spelled_day": _spelled_day,
    "spoken_hour": _spoken_hour,
    "range": _range,
    "day_first": _named,
    "month_first": _named,
    "month": _month,
    "clock": _clock,
    "spoken_clock": _spoken_clock,
    "duration": _duration,
    "phone": _phone,
    "spelled_amount": _spelled_amount,
    "short_day": _short_day,
    "ordinal": _ordinal,
    "plural": _plural,
    "number": _number,
    "code": _code,
    "spelled": _spelled,
}


def are_equal(one: Reading, other: Reading) -> bool:
    """Whether two readings can mean the same value. A date without a year, or without a month,
    equals that of any; a time without "am" or "pm" equals that of either half of the day."""
    if one.kind != other.kind:
        if "number" not in (one.kind, other.kind):
            return False
        return _are_same_digits(one, other) or _are_same_time(one, other)
    if one.kind == "date":
        return any(
            all(x == y or 0 in (x, y) for x, y in zip(a, b, strict=True))
            for a in one.options
            for b in other.options
            if isinstance(a, tuple) and isinstance(b, tuple)
        )
    if one.kind == "time":
        return any(
            a[1] == b[1] and a[0] % 12 == b[0] % 12
            for a in one.options
            for b in other.options
            if isinstance(a, tuple) and isinstance(b, tuple)
        )
    if one.kind == "phone":
        return any(_same_phone(str(a), str(b)) for a in one.options for b in other.options)
    return not one.options.isdisjoint(other.options)


def are_alike(one: Reading, other: Reading) -> bool:
    """Whether two readings are equal but for the sign (a fee of 70.00 is listed as -70.00), or are
    an hour: "at three" is 15:00."""
    if one.kind == other.kind == "number":  # the signs do not matter, so equal sizes are enough
        return not sizes_of(one).isdisjoint(sizes_of(other))
    return are_equal(one, other) or _are_same_hour(one, other)


def sizes_of(reading: Reading) -> frozenset[float]:
    """The numbers that a reading can mean, without their signs."""
    return _sizes(reading.options)


@lru_cache(maxsize=4096)
def _sizes(options: frozenset[Value]) -> frozenset[float]:
    return frozenset(abs(value) for value in options if isinstance(value, float | int))


def _are_same_time(one: Reading, other: Reading) -> bool:
    """Whether a number such as 18.05 is a time that is written with a point."""
    if {one.kind, other.kind} != {"time", "number"}:
        return False
    time, number = (one, other) if one.kind == "time" else (other, one)
    return any(
        isinstance(at, tuple) and abs(at[0] + at[1] / 100 - size) < 0.001
        for at in time.options
        for size in sizes_of(number)
    )


def _are_same_hour(one: Reading, other: Reading) -> bool:
    if {one.kind, other.kind} != {"time", "number"}:
        return False
    time, number = (one, other) if one.kind == "time" else (other, one)
    return any(
        isinstance(at, tuple) and at[1] == 0 and 1 <= size <= 12 and at[0] % 12 == size % 12
        for at in time.options
        for size in sizes_of(number)
    )


def _same_phone(one: str, other: str) -> bool:
    """Whether two numbers are equal but for a country's code in front."""
    short, long = sorted((one, other), key=len)
    return long.endswith(short) and len(short) >= 7


def _are_same_digits(one: Reading, other: Reading) -> bool:
    """A phone number without spaces is read as a number."""
    kinds = {one.kind, other.kind}
    if kinds != {"phone", "number"}:
        return False
    phone, number = (one, other) if one.kind == "phone" else (other, one)
    values = [str(int(value)) for value in number.options if isinstance(value, float | int)]
    return any(_same_phone(str(a), b) for a in phone.options for b in values if len(b) >= 7)


@lru_cache(maxsize=4096)
def only_value(phrase: str) -> Reading | None:
    """The value that a phrase is as a whole; None: it has words."""
    text = plain(phrase).strip(" .,")
    found = tuple(_readings(text))
    if not found or found[0].start > 0 or found[0].end < len(text):
        return None
    return found[0]
