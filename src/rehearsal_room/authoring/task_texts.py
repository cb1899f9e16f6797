"""How much the instructions of many tasks have in common: sentences, joined requests.

Names and values are masked, so that a sentence of a template is the same in every world.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

_MIN_WORDS = 5  # shorter sentences say nothing of their own
_MAX_LISTED = 10
_SENTENCE = re.compile(r"(?<=[.!?])['\"”’)]*\s+|\n+")
_JOINERS = frozenset({"then", "after", "also", "next", "and", "finally"})
_MASKS = (
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<e-mail>"),
    (re.compile(r"“[^”]*”|\"[^\"]*\""), "<quote>"),
    (re.compile(r"\S*\d\S*"), "<value>"),
    # Capitalised words that do not begin the sentence, with what joins the parts of a name.
    (re.compile(r"(?<=\S )[A-Z][\w’'-]*(?: (?:(?:de|van|von|of|the) )*[A-Z][\w’'-]*)*"), "<name>"),
)


class TextFigures(msgspec.Struct, frozen=True):
    """What the instructions of tasks have in common. Shares are of the tasks."""

    tasks: int
    common_sentences: tuple[tuple[str, float], ...]  # the most frequent, with their shares
    joined: float  # with two sentences or more that begin with Then, After that, Also …


def text_figures(instructions: Sequence[str]) -> TextFigures:
    """The figures of instructions."""
    counts: Counter[str] = Counter()
    joined = 0
    for text in instructions:
        sentences = sentences_of(text)
        counts.update({masked(one) for one in sentences if len(one.split()) >= _MIN_WORDS})
        joined += sum(begins_with_joiner(one) for one in sentences) >= 2
    total = max(1, len(instructions))
    common = counts.most_common(_MAX_LISTED)
    return TextFigures(
        tasks=len(instructions),
        common_sentences=tuple((text, round(count / total, 4)) for text, count in common),
        joined=round(joined / total, 4),
    )


def sentences_of(text: str) -> list[str]:
    """The sentences of a text."""
    return [one.strip(" “”\"'") for one in _SENTENCE.split(text.strip()) if one.strip(" “”\"'")]


def begins_with_joiner(sentence: str) -> bool:
    """Whether a sentence begins with Then, After that, Also, Next, And or Finally."""
    first, _, rest = sentence.casefold().partition(" ")
    word = first.strip(",:;-–—")
    return word in _JOINERS and (word != "after" or rest.startswith("that"))


def masked(sentence: str) -> str:
    """A sentence in lower case with its names and values masked.

    Example: masked("Renew the loan of Ana Lopez until 4 May.") -> "renew the loan of <name> until
    <value> <name>."
    """
    for pattern, mask in _MASKS:
        sentence = pattern.sub(mask, sentence)
    return " ".join(sentence.casefold().split())


def most_frequent(ids: Iterable[str]) -> tuple[str, float]:
    """The most frequent of these words with its share; "" and 0 when there are none."""
    counts = Counter(ids)
    if not counts:
        return "", 0.0
    word, count = counts.most_common(1)[0]
    return word, round(count / counts.total(), 4)
