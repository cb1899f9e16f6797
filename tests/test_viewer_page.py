"""The viewer's page, read without a browser; `just test-viewer` has the rest."""

import gzip
import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

WEB = ROOT / "src" / "rehearsal_room" / "viewer" / "web"
SOURCES = sorted((WEB / "src").rglob("*.js"))
# What would make markup or code of a text.
_DANGEROUS = re.compile(
    r"dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment"
    r"|document\.write|DOMParser|srcdoc|\beval\(|new Function|javascript:|style=\"|setAttribute\("
)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(WEB).as_posix())
def test_no_source_makes_markup_of_a_text(source: Path) -> None:
    """No HTML is set, no code is made of a text, and no style stands in markup (the content
    security policy forbids it)."""
    assert _DANGEROUS.findall(source.read_text(encoding="utf-8")) == []


def test_the_committed_page_is_whole() -> None:
    """Script and style are there, the script is small, and the page names each once, where the
    export replaces them."""
    page = (WEB / "dist" / "index.html").read_text(encoding="utf-8")

    assert page.count('<link rel="stylesheet" href="/app.css">') == 1
    assert page.count('<script src="/app.js"></script>') == 1
    assert page.count("<!-- csp -->") == 1
    assert (WEB / "dist" / "app.css").stat().st_size > 0
    script = (WEB / "dist" / "app.js").read_bytes()
    assert len(gzip.compress(script, 9)) <= 120_000
    assert b"</script" not in script


def test_licences_are_kept() -> None:
    """The script names each library with its licence, and has the text that MIT demands."""
    script = (WEB / "dist" / "app.js").read_text(encoding="utf-8")

    for name in ("preact: Copyright", "uplot: Copyright", "@preact/signals: Copyright", "htm ("):
        assert name in script
    assert "The above copyright notice and this permission notice shall be included" in script
