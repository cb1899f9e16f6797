"""The names of goods as people say them: "the school shoes", "five boxes of menus", “Otto and the
Moon”. A record has the name of the catalogue; an instruction says what a person would.

A template names goods by a placeholder such as {product}; `speak_of_goods` puts the spoken form
there. Only between quotation marks does the name stay as the catalogue has it.
"""

import re
from collections.abc import Mapping

from rehearsal_room.scenarios.generate.vocabulary.dressing import plural_of
from rehearsal_room.scenarios.generate.vocabulary.trades import Goods, Trade

_TIMES = frozenset(
    ("hour", "day", "night", "week", "fortnight", "month", "quarter", "term", "year")
)
_CONTAINERS = frozenset(
    (
        *(
            "bag",
            "bale",
            "block",
            "bolt",
            "bottle",
            "box",
            "bundle",
            "can",
            "coil",
            "crate",
            "glass",
        ),
        *("jar", "jug", "keg", "metre", "pack", "pad", "pail", "pair", "portion", "punnet", "roll"),
        *("sack", "tin", "tonne", "tube"),
    )
)
_NO_PLURAL = re.compile(  # what is counted with "×", since it has no plural
    r"(?:.*(?:[a-z](?<!even)(?<!morn)ing|bookkeeping|payroll|transport|storage|hire|insurance|cover|advice|talks|mix"
    r"|ture|cutlery|sampling|mediation|moving)|.*\d\S*|.*[^a-z]| *)$"
)
_IS_CONTAINER = re.compile(  # "fruit crate": the name says already what one counts
    r"\b(?:bag|box|crate|package|pack|delivery|kit|pair|set|drum|tray|keg|board game)$",
    re.IGNORECASE,
)
_AFTER_HEAD = re.compile(r" (?:of|for|with|on|in|to|under|above|per|after|before|from)\b.*")
_NUMBER = r"(\{\w+\}|\d+|two|three|four|five|six|seven|eight|nine|ten)"
_ANY_NUMBER = (
    r"(?:more|enough|some|any|all(?: of)?|remaining|low on|short of|out of|much|fewer|few)"
)
_DETERMINED = re.compile(  # a word after which no article stands
    r"(?:^|[\s(“‘])(?:the|an?|one|single|another|our|your|my|his|her|their|its|whose|[×x/]|new|broken|damaged|big|same|early|late"
    r"|planned|pending|failed|confirmed|open|draft|wrong|old|\S*(?:'s|s')|\S*\}s?|some|more)\s$",
    re.IGNORECASE,
)
_BEGINS = re.compile(r"(?:^|[.!?]['\"”’)]*\s+|[“‘])$")


class SpokenGoods:
    """How people speak of goods. `titled`: they have a title, as books and plays do."""

    def __init__(self, goods: Goods, *, titled: bool, proper: bool) -> None:
        self._title = goods.name if titled else ""
        self._unit = goods.unit
        self.name = goods.name if titled or proper else _lowered(goods.name)

    def bare(self, quotes: str = "“”") -> str:
        """The name without an article; a title stands in quotation marks."""
        return f"{quotes[0]}{self._title}{quotes[1]}" if self._title else self.name

    def the(self, quotes: str = "“”") -> str:
        """The name with its article, which a title does not have."""
        return self.bare(quotes) if self._title else f"the {self.name}"

    def many(self, quotes: str = "“”") -> str:
        """The plural, as after "more" or "all"."""
        if self._title or self._unit in _CONTAINERS or self._unit in _TIMES:
            return self.bare(quotes)
        return _plural(self.name)

    def counted(self, number: str, quotes: str = "“”") -> str:
        """So many of it.

        Example: "5 boxes of menus", "2 gel saddles", "the jib arm for 3 days"
        """
        name, unit, plural = self.bare(quotes), self._unit, _plural(self.name)
        if self._title:
            return f"{number} {'tickets for' if unit == 'seat' else 'copies of'} {name}"
        if number == "1":
            return f"{number} × {name}"
        if name[0].isdigit():
            return f"{number} of the {plural}"
        if _IS_CONTAINER.search(_head(name)) or unit in _head(name).split():
            return f"{number} {plural}"
        if unit in _TIMES:
            return f"the {name} for {number} {plural_of(unit)}"
        if unit in _CONTAINERS:
            own = _is_plural(name) and _head(name).endswith(plural_of(unit))
            return f"{number} {name}" if own else f"{number} {plural_of(unit)} of {name}"
        return f"{number} {plural}" if plural != name or _is_plural(name) else f"{number} × {name}"


def spoken_goods(trade: Trade) -> dict[str, SpokenGoods]:
    """How people of a trade speak of its goods, by their names in the catalogue."""
    return {
        one.name: SpokenGoods(
            one,
            titled=one.category in trade.titled,
            proper=one.name.split()[0] in trade.proper,
        )
        for one in trade.goods
    }


def speak_of_goods(text: str, goods: Mapping[str, SpokenGoods], values: Mapping[str, str]) -> str:
    """A template in which placeholders of goods have become what a person would say.

    `goods`: by the name of the placeholder; `values`: of all placeholders. A placeholder between
    quotation marks stays.

    Example: "Is {product} here? I want {count} × {product}." -> "Is the bike lock here? I want 5
    bike locks."
    """
    for key, spoken in goods.items():
        text = _speak(text, key, spoken, values)
    return text


def _speak(text: str, key: str, spoken: SpokenGoods, values: Mapping[str, str]) -> str:
    name = rf"\{{{key}\}}"
    quoted = rf"(?<![“‘]){name}|{name}(?![”’])"
    done, rest = "", text
    pattern = re.compile(
        rf"{_NUMBER} (?:×|x|of the|of) {name}|(?:two|three|four|five|six) {name}"
        rf"|{_ANY_NUMBER} (?:of the |of |the )?{name}"
        rf"|the {name}|{quoted}",
        re.IGNORECASE,
    )
    while found := pattern.search(rest):
        before = done + rest[: found.start()]
        quotes = "‘’" if before.count("“") > before.count("”") else "“”"
        done = before + _spoken(found, key, spoken, values, before, quotes)
        rest = rest[found.end() :]
    return done + rest


def _spoken(
    found: re.Match[str],
    key: str,
    spoken: SpokenGoods,
    values: Mapping[str, str],
    before: str,
    quotes: str,
) -> str:
    whole, number = found[0], found[1]
    begins = _BEGINS.search(before) is not None
    if number is None and re.match(r"(?:two|three|four|five|six) ", whole, re.IGNORECASE):
        number = whole.partition(" ")[0]
    if number is not None:
        phrase = number.format_map(values) if number.startswith("{") else number
        text = spoken.counted(phrase, quotes)
    elif whole.lower() == f"the {{{key}}}":
        text = spoken.the(quotes)
    elif not whole.startswith("{"):
        text = f"{whole.partition(' ')[0]} {spoken.many(quotes)}"
        if re.match(r"(?:low on|short of|out of)", whole, re.IGNORECASE):
            text = f"{' '.join(whole.split()[:2])} {spoken.many(quotes)}"
        elif whole.lower().startswith("all"):
            text = f"all the {spoken.many(quotes)}"
    elif _DETERMINED.search(before):
        return spoken.bare(quotes)
    else:
        text = spoken.the(quotes)
    return text[0].upper() + text[1:] if begins else text


def _lowered(name: str) -> str:
    """A common noun as it stands within a sentence: "LED tube kit" stays, "Jib arm" does not."""
    first = re.split(r"[\s-]", name)[0]
    is_common = first[1:].isalpha() and first[1:].islower()
    return name[0].lower() + name[1:] if is_common else name


def _head(name: str) -> str:
    return _AFTER_HEAD.sub("", name)


def _is_plural(name: str) -> bool:
    return re.search(r"[^s]s$", _head(name)) is not None


def _plural(name: str) -> str:
    """The plural of a name, or the name itself where it has none or is one."""
    head = _head(name)
    if _is_plural(name) or _NO_PLURAL.match(head):
        return name
    return plural_of(head) + name[len(head) :]
