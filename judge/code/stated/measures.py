"""Words beside a right value that make it another one: "twice 40.00", "40.00 a month", "the day
after 14 March", "40.00 €" for "$40.00".

A value is read without the words around it, so a right one is found in all of these. A word that
the accepted answer or the instruction has too changes nothing.
"""

import re
from collections.abc import Iterator, Set
from functools import lru_cache

from rehearsal_room.judge.code.stated.sentences import kind_of
from rehearsal_room.scenarios.core.statements import Reading, are_alike, plain, readings

_TO_WHAT = r"(?:(?<=[$€£])|(?: (?:eur|usd|gbp|us\$|[$€£])))?$"
_COMPARED = re.compile(
    r"\b(?:(?:less|fewer|more|other) than|(?<!add )(?<!adds )up to|at least|at most|almost|nearly"
    rf"|short of|close to|an? (?:maximum|minimum) of){_TO_WHAT}"
)
_GOES_UP_TO = re.compile(r"\b(?:go|goes|went|gone|going|rises?|rose|is|are) up to")
# Before an amount; elsewhere these words tell where or when.
_ABOUT = re.compile(rf"\b(?:about|around|roughly|approximately|over|under|above|below){_TO_WHAT}")
_COMPARES = re.compile(
    r"\b(?:less|fewer|more than|over|up to|least|most|above|below|exceed\w*|beyond|limit|maximum"
    r"|minimum|almost|nearly|longer|older|minus|excess|fee|under|about)\b"
)
_MULTIPLE = re.compile(
    r"\b(?:twice|double|triple|thrice|half(?: of)?|a (?:third|quarter|fraction|tenth) of|minus"
    r"|(?:two|three|four|ten) times)(?: (?:the|eur|usd|gbp|[$€£]))?$"
)
_NOT = re.compile(r"\bnot (?:on |until |the |for |from )?$")
_BUT = re.compile(r"[^.!?;]{0,25}?,? but\b")
_SHIFTED = re.compile(
    r"\b(?:days?|weeks?|months?|years?|hours?|morning|evening|night) (?:after|before|from|past"
    r"|following|preceding)(?: the)?$"
)
_SHIFTS = re.compile(
    r"\b(?:later|earlier|ago)\b|\b(?:days?|weeks?|months?|years?|hours?) (?:after|before|from"
    r"|since)\b"
)
_SUM = re.compile(r"\d\)?(?: ?(?:eur|usd|gbp|€|euros?|dollars?|pounds?))?,? minus\b")
_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_SPELLED_KEY = re.compile(rf"\b(?:(?:{'|'.join(_DIGITS)}) ){{2,}}(?:{'|'.join(_DIGITS)})\b")
_UNIT = re.compile(
    r" ?(?:(?:k|thousand|million|billion|mn)\b|%|per ?cent\b"
    r"|(?:per|an?|each|every) (?:day|week|month|quarter|year|night|hour|minute|person|head|piece)\b"
    r"|(?:each|apiece)\b|-?odd\b|-ish\b|and a half\b|(?<!both) times\b|-?fold\b"
    r"|or (?:more|so|less|an?|later|earlier|even|thereabouts)\b)"
)
_EACH = re.compile(r"\b(?:each|apiece)\b")
_NEXT = re.compile(
    r"\band (?:the|its) (?:next|following|previous|other|second) (?:one|two|few|ones)\b"
)
_DIGIT = re.compile(r"\d")
_OF_A_LIMIT = re.compile(r" (?:\w+ )?(?:limit|maximum|minimum|excess|fee)\b")
_SIGNS = ("$", "€", "£", " eur", " usd", " gbp")
_MONEY = re.compile(r"us\$|[$€£¥]|\b(?:usd|eur|gbp|chf|jpy|euros?|dollars?|yen|francs?)\b")
_SAME = {"us$": "$", "usd": "$", "dollar": "$", "eur": "€", "euro": "€", "gbp": "£"}
# How words end that `_before` looks for: most values have none in front.
_CAN_CHANGE = re.compile(
    r"\b(?:than|up to|least|most|almost|nearly|of|minus|twice|double|triple|thrice|half|times"
    r"|close to"
    r"|about|around|roughly|approximately|over|under|above|below|after|before"
    r"|from|past|following|preceding|not(?: (?:on|until|the|for|from))?)"
    r"(?: the)?(?: (?:eur|usd|gbp|[$€£]))?$"
)
_NEAR = 24  # characters before a value
_IN_FRONT = 40  # characters before a value where a word may compare it


def misstated(accepted: str, answer: str, context: str, years: Set[int]) -> Iterator[str]:
    """Where an answer makes another value of an accepted one, as phrases. `context` is the
    accepted answer and the instruction as plain text, `years` those of the dates of the case."""
    due = [one for one in readings(accepted) if not one.is_loose]
    read = plain(answer)
    for value in readings(answer):
        if not value.is_loose and any(are_alike(value, one) for one in due):
            yield from _beside(read, value, context)
        if years and value.kind == "date" and years.isdisjoint(_years(value) or years):
            yield f"names another year: {read[value.start : value.end]!r}"
    known_money, money = _currencies(context), _currencies(read)
    if known_money and (other := money - known_money):
        yield f"states another currency: {min(other)}"
    for spelled in _SPELLED_KEY.finditer(read):
        key = "".join(str(_DIGITS.index(word)) for word in spelled[0].split())
        if key not in context:
            yield f"names another record: {spelled[0]!r}"
    found = _NEXT.search(read)
    if found and found[0] not in context:
        yield f"adds to what is accepted: {found[0]!r}"


def years_of(dates: tuple[Reading, ...]) -> frozenset[int]:
    """The years of dates that have one."""
    return frozenset(year for one in dates for year in _years(one))


def _years(value: Reading) -> frozenset[int]:
    return frozenset(one[0] for one in value.options if isinstance(one, tuple) and one[0])


def _beside(read: str, value: Reading, context: str) -> Iterator[str]:
    before = read[max(0, value.start - _NEAR) : value.start].rstrip()
    words = read[value.start : value.end]
    if _CAN_CHANGE.search(before):
        yield from _before(read, value, before, context)
    found = _UNIT.match(read, value.end)
    if found and found[0].strip() == "apiece" and _EACH.search(context):
        return
    if found and not re.search(rf"(?<!\w){re.escape(found[0].strip(' -'))}(?!\w)", context):
        yield f"states {words} in another unit: {found[0].strip()!r}"
    elif words.endswith(("%", "cent")) and not re.search(r"%|per ?cent|percent", context):
        yield f"states {words} in place of a number"


def _before(read: str, value: Reading, before: str, context: str) -> Iterator[str]:
    words = read[value.start : value.end]
    is_amount = kind_of(value, words) == "amount" or before.endswith(_SIGNS)
    found = _COMPARED.search(before) or (_ABOUT.search(before) if is_amount else None)
    if found and _GOES_UP_TO.search(before):
        found = None
    if found and not (_is_compared(context, value) if is_amount else _COMPARES.search(context)):
        yield f"compares the value {words}: {found[0]!r}"
    found = _MULTIPLE.search(before)
    is_less = found and found[0].startswith("minus")
    if found and not (
        _is_compared(context, value) or _SUM.search(before)
        if is_less
        else found[0].split()[0] in context
    ):
        yield f"states a multiple of {words}: {found[0]!r}"
    if _NOT.search(f"{before} ") and _BUT.match(read, value.end) and f"not {words}" not in context:
        yield f"denies the value {words}"
    found = _SHIFTED.search(before)
    if found and value.kind == "date" and not _SHIFTS.search(context):
        yield f"shifts the date {words}: {found[0]!r}"


def _is_compared(context: str, value: Reading) -> bool:
    """Whether a word compares a value where a text, as `plain` writes it, has it: "my limit is
    150.00"."""
    return any(
        _COMPARES.search(_DIGIT.split(context[max(0, one.start - _IN_FRONT) : one.start])[-1])
        or _OF_A_LIMIT.match(context, one.end)
        for one in readings(context)
        if are_alike(one, value)
    )


@lru_cache(maxsize=256)
def _currencies(text: str) -> frozenset[str]:
    return frozenset(_SAME.get(one.rstrip("s"), one) for one in _MONEY.findall(text))
