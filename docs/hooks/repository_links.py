"""MkDocs hook: show files of the repository's root in the site, and mend links that leave docs/.

ARCHITECTURE.md, CHANGELOG.md and CONTRIBUTING.md become pages. In every page, a link to one of
them leads to its page, and a link to another file of the repository becomes the file's path,
because the site does not contain the file.
"""

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)  # they are at the top of the site, too

_CODE = r"^```.*?^```|`[^`\n]+`"
_LINK = re.compile(
    rf"(?P<code>{_CODE})|(?P<start>!?\[(?P<text>[^\]]*)\]\()(?P<path>[^)\s#:]+)(?P<rest>[^)\n]*\))",
    re.MULTILINE | re.DOTALL,
)


def mend_links(markdown: str, page: str) -> str:
    """The Markdown of a page of the site, with links that lead to files in the site.

    Examples, on page "explanation/judge.md":
        [map](../../ARCHITECTURE.md) -> [map](../ARCHITECTURE.md)
        [worlds](../../scenarios/microworlds) -> worlds (`scenarios/microworlds`)
    """
    folder = "" if page in PAGES else join("docs", dirname(page))

    def mend(link: re.Match[str]) -> str:
        if link["code"]:
            return link[0]
        target = normpath(join(folder, link["path"]))
        if target in PAGES:
            there = target
        elif target.startswith("docs/"):
            there = target.removeprefix("docs/")
        else:
            return f"{link['text']} (`{target}`)"
        return f"{link['start']}{relpath(there, dirname(page) or '.')}{link['rest']}"

    return _LINK.sub(mend, markdown)


def on_files(files: Any, *, config: Any) -> Any:
    """The files of the site with the pages of the repository's root."""
    from mkdocs.structure.files import File

    for name in PAGES:
        files.append(File.generated(config, name, content=(ROOT / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page with links that lead to files in the site."""
    return mend_links(markdown, page.file.src_uri)
