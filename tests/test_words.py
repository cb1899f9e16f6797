"""Plain English in docstrings, comments and messages."""

import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.support.english import stumbles
from tests.support.paths import ROOT

FOLDERS = (
    "scenarios",
    "envpool",
    "harness",
    "judge",
    "learner",
    "src/rehearsal_room",
    "benchmarks",
    "examples",
    "tests",
)
# Code inside of worlds has the words of its business; a table has what agents say; the last ones
# quote what others must not say.
LEFT_OUT = (
    "scenarios/bundled/",
    "scenarios/scaffold/world/",
    "scenarios/generate/modules/",
    "scenarios/generate/situations/",
    "tests/fixtures/",
    "judge/code/stated/vocabulary.py",
    "judge/llm/prompt.py",
    "tests/devtools/defects/tools.py",
    "tests/support/english.py",
    "tests/test_words.py",
    "tests/docs/test_english.py",
)


def modules() -> Iterator[Path]:
    """Every module that is not left out; what a link leads to is read once."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.resolve() == path and not str(path.relative_to(ROOT)).startswith(LEFT_OUT):
                yield path


def stumbles_in(source: str) -> Iterator[str]:
    """The line and the phrase of each find in the strings and comments of a module."""
    if not stumbles(source):  # to split all modules into tokens takes eight seconds
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            for found in stumbles(token.string):
                yield f"{token.start[0]}: {found}"


def test_docstrings_comments_and_messages_are_in_plain_english() -> None:
    """None of them has a phrase that is refused."""
    found = [
        f"{path.relative_to(ROOT)}:{phrase}"
        for path in modules()
        for phrase in stumbles_in(path.read_text(encoding="utf-8"))
    ]

    assert found == []


def test_the_check_sees_what_it_checks() -> None:
    """Each of these is found; plain sentences are not."""
    for text in ('"""It is told."""', "# this is no list", 'f"cannot be had: {x}"'):
        assert list(stumbles_in(text)) != [], text
    assert (
        list(stumbles_in('"There is no episode. It is no longer used. There are no rows."')) == []
    )
