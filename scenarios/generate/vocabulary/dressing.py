"""Dressing: replacing canonical words by a trade's words, in code, SQL, prose and data.

A word is renamed wherever it is a whole part of an identifier or a whole word of a text: with
`order` -> `booking`, `order_lines` becomes `booking_lines`, `OrderStatus` becomes `BookingStatus`
and "an order" becomes "a booking". Upper-case words such as SQL's ORDER are not renamed, unless
they are part of an upper-case identifier (ORDER_LIMIT). Text in the braces of a template is not
renamed either.
"""

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ARTICLE = re.compile(r"\b[Aa]n?\s+\Z")
_BROKEN = re.compile(r"\b[Aa]n?\s*\n")  # an article whose noun stands on the next line
_MARK = re.compile(r"(\b[Aa]n? )?\[((?:[Aa]n? )?([A-Za-z]+))\]")  # an article before it fits, too
_NAME = re.compile(r"[a-z]+(?:_[a-z]+)*")
_SILENT_H = ("hour", "heir", "honest", "honour", "honor")  # an hour
_SPOKEN_AS_CONSONANT = ("uni", "use", "usa", "eu", "one", "ubi", "uti")  # a unit, a user

Words = Mapping[str, str]  # a canonical form, lower case, singular or plural -> its replacement


def plural_of(word: str) -> str:
    """The regular plural of a noun.

    Example: plural_of("category") -> "categories", plural_of("box") -> "boxes"
    """
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    if re.search(r"(s|x|z|ch|sh)$", word):
        return word + "es"
    return word + "s"


def forms_of(text: str) -> tuple[str, str]:
    """Singular and plural of a word in the form that trades use.

    Example: forms_of("guest") -> ("guest", "guests"), forms_of("person/people") -> …
    """
    singular, slash, plural = text.partition("/")
    return singular, plural if slash else plural_of(singular)


def is_free_word(word: str) -> bool:
    """Whether a word may replace a canonical one: a single lower-case word that has no other use
    in Python, in SQL or in the code of the tools."""
    return re.fullmatch(r"[a-z]{2,24}", word) is not None and word not in _RESERVED


# The keywords of SQLite (lang_keywords.html), and the functions that the modules' statements use.
_SQL = """
abort action add after all alter analyze and as asc attach autoincrement before begin between by
cascade case cast check collate column commit conflict constraint create cross current database
default deferred delete desc detach distinct do drop each else end escape except exclude exclusive
exists explain fail filter first following for foreign from full generated glob group groups having
if ignore immediate in index indexed initially inner insert instead intersect into is isnull join
key last left like limit match materialized natural no not nothing notnull null nulls of offset on
or order others outer over partition plan pragma preceding primary query raise range recursive
references regexp reindex release rename replace restrict returning right rollback row rows
savepoint select set table temp temporary then ties to transaction trigger unbounded union unique
update using vacuum values view virtual when where window with without
abs avg count date datetime max min sum total round substr
"""
_TOOLS_CODE = """
db row text now user value run one execute state before after answer check id scenarios msgspec
typing api errors status kind name note cents day
"""
_RESERVED = (
    set(_SQL.split())
    | set(_TOOLS_CODE.split())
    | set(keyword.kwlist)
    | set(keyword.softkwlist)
    | {name for name in dir(builtins) if name.islower()}
)


class Pattern:
    """A text that was cut at the words that may be renamed, so that dressing it is one join."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[str | tuple[str, str, str]]) -> None:
        self._parts = parts  # texts, and (article with its space, word in lower case, original)

    def dress(self, words: Words) -> str:
        """The text in a trade's words."""
        return "".join(
            part if isinstance(part, str) else _replace(*part, words) for part in self._parts
        )


def _replace(article: str, word: str, original: str, words: Words) -> str:
    new = words.get(word)
    if new is None:
        return article + original
    if original.isupper() and len(original) > 1:
        new = new.upper()
    elif original[0].isupper():
        new = new.capitalize()
    return _article(article, new) + new


def _article(article: str, word: str) -> str:
    """The article with its space, in the form that fits the next word."""
    if not article:
        return ""
    low = word.lower()
    is_vowel = low.startswith(_SILENT_H) or (
        low[0] in "aeiou" and not low.startswith(_SPOKEN_AS_CONSONANT)
    )
    letter = article[0]
    return f"{letter}{'n' if is_vowel else ''}{article.lstrip('AaNn')}"


@lru_cache(maxsize=20_000)
def pattern_of(text: str, forms: frozenset[str], *, template: bool = False) -> Pattern:
    """A text cut at these words. `template`: text in braces is not cut."""
    if not template and _BROKEN.search(text):
        return Pattern(_cut(text, forms))
    if not template:
        lines = text.splitlines(keepends=True)
        return Pattern([part for line in lines for part in _cut_line(line, forms)])
    parts: list[str | tuple[str, str, str]] = []
    for piece in re.split(r"(\{[^{}]*\})", text):
        parts += [piece] if piece.startswith("{") else _cut(piece, forms)
    return Pattern(parts)


@lru_cache(maxsize=50_000)
def _cut_line(line: str, forms: frozenset[str]) -> list[str | tuple[str, str, str]]:
    """Cut one line: files of code differ from world to world, most of their lines do not."""
    return _cut(line, forms)


def _cut(text: str, forms: frozenset[str]) -> list[str | tuple[str, str, str]]:
    parts: list[str | tuple[str, str, str]] = []
    done = 0
    for found in _PART.finditer(text):
        original = found[0]
        if original.lower() not in forms or not _is_name(text, found):
            continue
        before = text[done : found.start()]
        article = _ARTICLE.search(before)
        space = article[0] if article else ""
        parts += [before[: len(before) - len(space)], (space, original.lower(), original)]
        done = found.end()
    return [*parts, text[done:]]


def _is_name(text: str, found: re.Match[str]) -> bool:
    """Whether a match is anything but a separate upper-case word, such as SQL's ORDER."""
    if not (found[0].isupper() and len(found[0]) > 1):
        return True
    return "_" in (text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1])


class Dresser:
    """The words of one module in one world: its own and those of the modules that it needs."""

    def __init__(self, words: Words, forms: frozenset[str]) -> None:
        self._words = words
        self._forms = forms  # all canonical forms, renamed or not: texts are cut once per process
        self._names: dict[str, str] = {}

    def text(self, text: str) -> str:
        """Dressed code, SQL or prose."""
        return pattern_of(text, self._forms).dress(self._words)

    def texts(self, texts: Iterable[str]) -> list[str]:
        """Many short dressed texts, in one pass and without keeping how they were cut. They
        have no zero bytes."""
        whole = "\0".join(texts)
        return Pattern(_cut(whole, self._forms)).dress(self._words).split("\0")

    def template(self, text: str, values: Mapping[str, object]) -> str:
        """A text that is dressed and then filled, so that the values are not dressed.

        Raises KeyError for a placeholder without a value.
        """
        dressed = pattern_of(text, self._forms, template=True).dress(self._words)
        return dressed.format_map(values)

    def name(self, name: str) -> str:
        """A dressed identifier."""
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = self.text(name)
        return known

    def value(self, value: object) -> object:
        """A value of a row or an argument, dressed if it is a lower-case identifier (as the
        values of enumerations are); any other value stays unchanged."""
        if isinstance(value, str) and _NAME.fullmatch(value):
            return self.name(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.name(name): self.value(item) for name, item in value.items()}
        return value


# Not where a preposition makes another noun the subject, as in "the request for {subject} has".
_VERB = re.compile(
    r"(?<! for )(?<! of )(?<! to )(?<! about )(?<! on )(?<! in )(?<! with )"
    r"(?<! for the )(?<! of the )(?<! to the )(?<! about the )(?<! on the )(?<! in the )"
    r"(?<! with the )\{(\w+)\} (is|was|has|isn't|wasn't|hasn't|needs|costs)\b"
)
_OF_SEVERAL = {"is": "are", "was": "were", "has": "have", "needs": "need", "costs": "cost"}
_IS_PLURAL = re.compile(r"(?!.* (?:of|for|in|with) ).*\b[a-z]*[a-hj-rtv-z]s")  # goods, no names
_TWO_ARTICLES = re.compile(r"\b[Tt]he (?=(?:The|An?) [A-Z])")


class MarkedDresser:
    """Dresses the words of a text that stand in square brackets, and nothing else.

    Example: MarkedDresser({"order": "booking"}, {"order"}).template("Change an [order].", {})
    -> "Change a booking."
    """

    def __init__(self, words: Words, forms: frozenset[str]) -> None:
        self._words = words
        self._forms = forms  # every canonical word of the world, singular and plural

    def text(self, text: str) -> str:
        """A text with its marked words dressed and without the marks.

        Raises KeyError for a mark that holds no canonical word of this world.
        """
        return _MARK.sub(self._dress, text)

    def template(self, text: str, values: Mapping[str, object]) -> str:
        """A dressed text, filled with values, which are not dressed.

        A title that begins with an article of its own takes no other: "the The Bailiff" becomes
        "The Bailiff". A verb agrees with the value before it: "Trekking poles is" becomes
        "Trekking poles are". Raises KeyError for a placeholder without a value, and as `text`.
        """
        return self.filled(self.agreeing(self.text(text), values), values)

    def agreeing(self, text: str, values: Mapping[str, object]) -> str:
        """A template whose verbs agree with the values before them."""
        return _VERB.sub(lambda verb: _agreeing(verb, values), text)

    def filled(self, text: str, values: Mapping[str, object]) -> str:
        """A template with its values, and without a second article before a title."""
        return _TWO_ARTICLES.sub("", text.format_map(values))

    def _dress(self, mark: re.Match[str]) -> str:
        if mark[3].lower() not in self._forms:
            raise KeyError(mark[0])
        return pattern_of((mark[1] or "") + mark[2], self._forms).dress(self._words)


def _agreeing(verb: re.Match[str], values: Mapping[str, object]) -> str:
    value = values.get(verb[1])
    if not (isinstance(value, str) and _IS_PLURAL.fullmatch(value)):
        return verb[0]
    singular, negation, _ = verb[2].partition("n't")
    return f"{{{verb[1]}}} {_OF_SEVERAL[singular]}{negation}"


def choose_words(
    words: Mapping[str, str], canonical: Mapping[str, str], identifiers: frozenset[str]
) -> dict[str, str]:
    """The replacement of each canonical form that a trade replaces.

    `words` maps a canonical singular to the trade's word, `canonical` singular to plural;
    `identifiers` are all that the code uses. A word keeps its canonical form when its replacement
    is another word of the world, or would give an identifier that there is already.
    """
    used = {form for pair in canonical.items() for form in pair}
    found: dict[str, str] = {}
    for singular, plural in canonical.items():
        if singular not in words:
            continue
        one, many = forms_of(words[singular])
        renamed = {singular: one, plural: many}
        if not {one, many} & used and not _renamed(renamed, identifiers) & identifiers:
            found |= renamed
            used |= {one, many}
    return found


def _renamed(words: Mapping[str, str], identifiers: frozenset[str]) -> set[str]:
    """The identifiers that come from renaming words, without those that stay the same."""
    forms = frozenset(words)
    stems = tuple(form[:-1] for form in forms)
    near = [name for name in identifiers if any(stem in name.lower() for stem in stems)]
    return {pattern_of(name, forms).dress(words) for name in near} - set(near)
