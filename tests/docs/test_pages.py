"""Pages are short, and a reader finds each of them from README or the first page."""

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
MOST_WORDS = 1500
# To look things up, and records of what was done.
LONG = ("reference", "experiments", "decisions")
SHORT = [page for page in PAGES if page.relative_to(DOCS).parts[0] not in LONG]


@pytest.mark.parametrize("page", SHORT, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_page_is_read_in_one_sitting(page: Path) -> None:
    """A page that is not reference has at most 1,500 words, its code and tables included."""
    assert len(page.read_text(encoding="utf-8").split()) <= MOST_WORDS


def links_of(page: Path) -> set[Path]:
    """The Markdown files to which a page links, outside of code."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", text)
    return {(page.parent / target).resolve() for target in targets}


@pytest.mark.parametrize(
    "start", [ROOT / "README.md", DOCS / "index.md"], ids=lambda page: page.name
)
def test_every_page_is_reached_by_links(start: Path) -> None:
    """Links lead from README, and from the site's first page, to every page of docs."""
    found: set[Path] = set()
    ahead = {start.resolve()}
    while ahead:
        page = ahead.pop()
        found.add(page)
        ahead |= {link for link in links_of(page) if link.is_file()} - found

    assert [page for page in PAGES if page.resolve() not in found] == []
