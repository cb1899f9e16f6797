"""Whether another wording of an instruction says the same: facts, names, numbers, conditions.

The check is strict: it refuses wordings that may be right. A refused one costs another answer of
the model, an accepted wrong one costs a task.
"""

import re
from collections.abc import Iterator

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_VALUE = re.compile(r"\S*\d\S*")
_CAPITAL = re.compile(r"(?<![\w’'-])[A-Z][\w’'-]*")
_BEGIN = re.compile(r"(?:^|[.!?:]['\"”’)]*\s+|\n\s*|[“\"‘(]\s*)$")
_SPEAKER = frozenset({"I", "I'm", "I’m", "I’ve", "I've", "I'd", "I’d", "I’ll", "I'll"})
_LONGEST = 1.8  # times the words of the original
_SHORTEST = 0.4
# Words of one condition; a wording that has one of a group has another one of it.
_CONDITIONS: dict[str, tuple[str, ...]] = {
    "if": ("if", "unless", "otherwise", "in case", "provided", "whether", "should", "when"),
    "not": (
        *("not", "no", "never", "none", "nothing", "without", "n't", "neither", "nor", "leave"),
        *("except", "but", "only", "don't", "dont"),
    ),
    "only": ("only", "just", "alone", "nothing else", "no more", "except", "but", "solely"),
    "all": ("all", "every", "each", "any", "both", "everything", "whatever", "anything"),
    "least": (
        "least",
        "lowest",
        "fewest",
        "cheapest",
        "smallest",
        "earliest",
        "shortest",
        "oldest",
    ),
    "most": ("most", "highest", "largest", "dearest", "latest", "longest", "newest", "biggest"),
    "before": ("before", "until", "till", "by", "earlier", "no later", "ahead", "prior", "older"),
    "after": ("after", "since", "from", "later", "past", "once", "following", "newer"),
    "over": ("over", "above", "more than", "exceed", "higher than", "beyond", "longer than"),
    "under": ("under", "below", "less than", "fewer than", "lower than", "short of"),
    "instead": ("instead", "rather", "replace", "swap", "in place"),
}
# Words that add a condition where the original has none of the group.
_ADDED: dict[str, tuple[str, ...]] = {
    "if": ("if", "unless", "otherwise", "in case", "provided", "as long as"),
    "not": ("not", "no", "never", "without", "n't", "except", "neither"),
    "only": ("only", "solely", "nothing else", "alone"),
    "all": ("all", "every", "everything"),
    "least": _CONDITIONS["least"],
    "most": ("most", "highest", "largest", "dearest", "longest", "newest", "biggest"),
    "before": ("before", "until", "till", "no later", "prior"),
    "after": ("after", "since", "once", "newer"),
    "over": ("over", "above", "more than", "exceed", "higher than", "beyond", "longer than"),
    "under": ("under", "below", "less than", "fewer than", "lower than", "short of"),
    "instead": ("instead", "replace", "swap", "in place"),
}
_QUOTED = 4  # words in a row that quote somebody
_STRONG = ("if", "not", "only", "all", "least", "most", "over", "under", "instead")


def rewording_fault(original: str, wording: str, said: str = "") -> str:
    """Why a wording does not say the same as the original, as a sentence; empty: it does. `said` is
    what its author has read beside the original: a wording that quotes it is not a request."""
    if not wording.strip():
        return "the wording is empty"
    if quoted := sorted(_runs(wording) & _runs(said) - _runs(original)):
        return f"it quotes what was said about an earlier wording: {' '.join(quoted[0])!r}"
    lost = sorted(set(_facts(original)) - _tokens(wording))
    new = sorted(set(_facts(wording)) - _tokens(original))
    if lost:
        return f"it leaves out {', '.join(map(repr, lost[:4]))}"
    if new:
        return f"it adds {', '.join(map(repr, new[:4]))}"
    for name in _STRONG:
        before, after = _has(original, name), _has(wording, name)
        if before and not after:
            return f"the original says {before!r}, and the wording says nothing like it"
    for name, words in _ADDED.items():
        if (added := _first(wording, words)) and not _has(original, name):
            return f"it says {added!r}, and the original says nothing like it"
    share = len(wording.split()) / len(original.split())
    if not _SHORTEST <= share <= _LONGEST:
        return f"it has {share:.1f} times the words of the original"
    return ""


def _facts(text: str) -> Iterator[str]:
    """The facts of a text: e-mail addresses, everything with a digit, names."""
    yield from _values(text)
    rest = _VALUE.sub(_ending, _EMAIL.sub(_ending, text))
    for found in _CAPITAL.finditer(rest):
        word = _word(found[0])
        if word in _SPEAKER:
            continue
        if not _begins(rest, found.start()) or _CAPITAL.match(rest, found.end() + 1):
            yield word


def _values(text: str) -> Iterator[str]:
    yield from (email.rstrip(".") for email in _EMAIL.findall(text))
    for value in _VALUE.findall(_EMAIL.sub(" ", text)):
        yield value.strip(".,;:!?()“”\"'‘’")


def _ending(value: re.Match[str]) -> str:
    """What stays of a value: the end of the sentence that it closes."""
    end = re.search(r"[.!?:]['\"”’)]*$", value[0])
    return end[0] if end else " "


def _tokens(text: str) -> set[str]:
    """Everything that a fact of the other text may be: values, and words as they stand and with a
    capital."""
    words = {_word(one) for one in re.findall(r"[^\W\d_][\w’'-]*", text)}
    return {*_values(text), *words, *(word.capitalize() for word in words)}


def _word(text: str) -> str:
    return re.sub(r"['’]s?$", "", text)


def _begins(text: str, start: int) -> bool:
    """Whether a sentence begins there, so that a capital says nothing."""
    return _BEGIN.search(text[:start]) is not None


def _has(text: str, name: str) -> str:
    """The first word of a condition that the text has; empty: none."""
    return _first(text, _CONDITIONS[name])


def _runs(text: str) -> set[tuple[str, ...]]:
    """All runs of a few words in a row."""
    words = re.findall(r"[^\W_]+", text.casefold())
    return {tuple(words[start : start + _QUOTED]) for start in range(len(words) - _QUOTED + 1)}


def _first(text: str, words: tuple[str, ...]) -> str:
    """The first of some words that the text has; empty: none."""
    low = text.casefold().replace("’", "'")
    for word in words:
        if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", low) or (word == "n't" and word in low):
            return word
    return ""
