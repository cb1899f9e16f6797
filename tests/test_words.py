"""Words that were retired do not come back (docs/glossary.md has the words in use).

Identifiers are split into their words: `told_of`, `numTold` and `TOLD` all have `told`. In
docstrings, comments and messages only phrases are refused that are wrong in every context.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

# Retired word: what to write.
RETIRED = {
    "told": "reported, rendered, broadcast, messages …",
    "tell": "report, format, broadcast",
    "tells": "reports, states",
    "said": "text, answered, reported",
    "says": "states, contains",
    "places": "indices, offsets, paths, slots",
    "court": "judge",
    "opinion": "model judgement",
    "opinions": "model judgements",
    "ruling": "code verdict",
    "exhibit": "evidence item",
    "exhibits": "evidence items",
    "fence": "quoting",
    "leaned": "cited",
    "purse": "budget",
    "bill": "reservation",
    "paying": "reserve",
    "lineup": "batch queue",
    "star": "prefix group",
    "leaf": "suffix",
    "zygote": "fork server client",
    "witness": "audit hook",
    "bury": "reap",
    "desk": "connection",
    "desks": "connections",
    "chairs": "backlog",
    "deed": "effect",
    "deeds": "effects",
    "planted": "injected",
    "drill": "micro-world",
    "drills": "micro-worlds",
    "twin": "second host",
    "keeper": "history state",
    "mending": "repair",
    "hasten": "compile routes",
    "scene": "scenario info",
    "scenes": "scenario infos",
    "courts": "judges",
    "rulings": "code verdicts",
    "distrust": "report violation",
    "fences": "quoting",
    "witnesses": "audit hooks",
    "nobody": "name the actor",
    "somebody": "name the actor",
    "whoever": "name the actor",
}
# Phrase of docstrings, comments and messages: what to write.
PHRASES = {
    r"\b(?:told|whoever)\b": "name the actor; write report, print, state",
    r"(?<!there )\b(?:is|are) no (?!longer\b|more\b|less\b)\w+": "is not a …",
    r"\b(?:to be|cannot be|can be|could be) had\b": "is not available; cannot be read",
    r"\bof (?:ours|one's own)\b": "say whose it is",
    r"\bthat (?:is|are) wanted\b": "that was requested",
    r"\bin its midst\b": "in the middle of",
    r"\b(?:save for|anew)\b": "except for; again",
    r"\bthe (?:court|purse|zygote)\b": "judge, budget …",
    r"\bnobody (?:asked|waits|needs)\b": "name the actor",
}
# Prompts, code that the gate's study injects, and the tests of this and of other lists of words.
QUOTING = {
    "judge/llm/prompt.py",
    "tests/devtools/defects/tools.py",
    "tests/test_words.py",
    "tests/docs/test_english.py",
}
# An identifier of torch, and a function of scenarios.checks, which packages in our format import.
ALLOWED = {"is_leaf", "says"}
PACKAGES = (
    "scenarios",
    "envpool",
    "harness",
    "judge",
    "learner",
    "benchmarks",
    "examples",
    "tests",
)
CONTENT = (
    "scenarios/bundled/",
    "scenarios/scaffold/world/",
    "scenarios/generate/modules/",
    "scenarios/generate/situations/",
    "tests/fixtures/",
)


def modules() -> Iterator[Path]:
    """Every module but the code inside of worlds, which has the words of its business."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.relative_to(ROOT).as_posix().startswith(CONTENT):
                yield path


@cache
def words_of(identifier: str) -> frozenset[str]:
    """The words of an identifier, in lower case.

    Example: "numTold_of" -> {"num", "told", "of"}
    """
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", identifier)
    return frozenset(word.lower() for word in words)


def may_have_retired(text: str) -> bool:
    """Whether anything in a module's text looks like an identifier with a retired word. To split
    all modules into tokens takes eight seconds."""
    return any(words_of(name) & RETIRED.keys() for name in set(re.findall(r"\w+", text)) - ALLOWED)


def may_have_phrase(text: str) -> bool:
    """Whether a phrase is anywhere in a module's text."""
    plain = " ".join(text.lower().split())
    return any(re.search(phrase, plain) for phrase in PHRASES)


def retired_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, identifier and retired word of each find in a module's text."""
    if not may_have_retired(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string not in ALLOWED:
            for word in words_of(token.string) & RETIRED.keys():
                yield token.start[0], token.string, word


def phrases_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, phrase and advice of each find in the strings and comments of a module's text."""
    if not may_have_phrase(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            plain = " ".join(token.string.split())
            for phrase, advice in PHRASES.items():
                for found in re.finditer(phrase, plain, re.IGNORECASE):
                    yield token.start[0], found[0], advice


def test_retired_words_do_not_come_back() -> None:
    """No identifier of the project has a retired word."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {identifier}: write {RETIRED[word]}"
        for path in modules()
        for line, identifier, word in retired_in(path.read_text(encoding="utf-8"))
    ]

    assert found == []


def test_module_names_have_no_retired_word() -> None:
    """Nor has the name of a module or folder."""
    names = {part for path in modules() for part in path.relative_to(ROOT).with_suffix("").parts}

    assert {name for name in names if words_of(name) & RETIRED.keys()} == set()


def test_docstrings_comments_and_messages_are_in_plain_english() -> None:
    """None of them has a phrase of PHRASES."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {phrase}: write {advice}"
        for path in modules()
        if path.relative_to(ROOT).as_posix() not in QUOTING
        for line, phrase, advice in phrases_in(path.read_text(encoding="utf-8"))
    ]

    assert found == []


@pytest.mark.parametrize(
    "text", ["told_of = 1", "def f(numTold): ...", "x.PLACES", "class Court: ..."]
)
def test_the_check_sees_what_it_checks(text: str) -> None:
    """A retired word is seen in whatever form."""
    assert list(retired_in(text)) != []


def test_the_check_of_phrases_sees_what_it_checks() -> None:
    """Each of these is found; plain sentences are not."""
    for text in ('"""It is told."""', "# this is no list", 'f"cannot be had: {x}"'):
        assert list(phrases_in(text)) != [], text
    assert list(phrases_in('"There is no episode. It is no longer used. There are no rows."')) == []
