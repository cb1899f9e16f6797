"""Every command block of README and docs runs, in order, page by page.

A block is a fence marked `sh`. It runs in the page's own folder, with the commands before it on the
page already done. The model servers of the examples are scripted ones on loopback:

    http://localhost:8000/v1   an agent that answers "Done."
    http://localhost:8001/v1   a judge that always answers `completed`
    http://localhost:8002/v1   an author of worlds (tests.support.synth_server)

The gate tries a few mutants of each task here; `just gate` tries all. Three pages that make and
check worlds, or play hundreds of episodes, run in `just test-long` only: see `NIGHTLY`.

A block that cannot run here has a comment before it that says why: `<!-- not run: … -->`. The MCP
server that docs/mcp-worlds.md takes from PyPI is our help desk here
(tests.support.mcp_servers.desk); the real one is played by `just mcp-servers`.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rehearsal_room.harness.core.events import Label
from tests.support.budgets import only_long
from tests.support.cli import Rehearse
from tests.support.desk_worlds import DESK
from tests.support.judge_server import Speaks, biased
from tests.support.judged_runs import served
from tests.support.model_server import Behaviour, Completes
from tests.support.paths import ROOT
from tests.support.synth_server import Writes

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SERVERS: dict[str, Callable[[], Behaviour]] = {
    "http://localhost:8000": lambda: Completes("Done."),
    "http://localhost:8001": lambda: Speaks(biased(Label.COMPLETED)),
    "http://localhost:8002": Writes,
}
_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+?) -->\s*)?^```sh\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL
)
_HEREDOC = re.compile(r"<<'(\w+)'")


def blocks_of(page: Path) -> list[tuple[str, str | None]]:
    """The command blocks of a page, and why each is not run (None: it is)."""
    text = page.read_text(encoding="utf-8")
    return [(found["text"], found["why"]) for found in _BLOCK.finditer(text)]


def lines_of(block: str) -> Iterator[str]:
    """The commands of a block: continued lines are joined, here-documents stay with theirs."""
    lines = iter(block.replace("\\\n", " ").splitlines())
    for line in lines:
        if heredoc := _HEREDOC.search(line):
            body = []
            for more in lines:
                body.append(more)
                if more == heredoc[1]:
                    break
            yield "\n".join([line, *body])
        elif line.strip() and not line.lstrip().startswith("#"):
            yield line


# Half of the CPU time of all pages. The tests of their commands (tests/cli/judging: generate,
# synthesize, promote) are in `just test`.
NIGHTLY = {f"docs/{name}.md" for name in ("generating", "synthesis", "promotion")}
RUNNABLE = [page for page in PAGES if any(why is None for _, why in blocks_of(page))]


@pytest.mark.slow
@pytest.mark.timeout(180)  # a page has up to ten commands, each of a second or two
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name, marks=[only_long] if name in NIGHTLY else [])
        for page in RUNNABLE
        for name in [page.relative_to(ROOT).as_posix()]
    ],
)
@pytest.mark.usefixtures("quick_gate")
def test_the_commands_of_a_page_run(
    page: Path, tmp_path: Path, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command of the page ends well, after those before it. (Those of `NIGHTLY`: in `just
    test-long`.)"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    _install_desk(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with ExitStack() as stack:
        urls: dict[str, str] = {}
        for block, why in blocks_of(page):
            if why is not None:
                continue
            for line in lines_of(block):
                for address, behaviour in SERVERS.items():
                    if address in line:
                        if address not in urls:
                            server = stack.enter_context(served(behaviour()))
                            urls[address] = server.url.removesuffix("/v1")
                        line = line.replace(address, urls[address])
                _run(line, rehearse)


def _install_desk(folder: Path) -> None:
    """The program `finamatik-ops-mcp`, with our own server in it."""
    folder.mkdir()
    program = folder / "finamatik-ops-mcp"
    program.write_text(f'#!/bin/sh\nexec {DESK} "$HOME/desk.db"\n')
    program.chmod(0o755)


def _run(line: str, rehearse: Rehearse) -> None:
    if re.match(r"rehearse\s", line) and not re.search(r"[|>&$]", line.split(" #")[0]):
        status, _, err = rehearse(*shlex.split(line, comments=True)[1:])
        assert status == 0, f"{line}\n{err}"
        return
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_blocks_are_marked() -> None:
    """Commands stand in fences that are marked `sh`, or in a sentence; none is merely indented."""
    bare = [
        f"{page.relative_to(ROOT)}: {line.strip()}"
        for page in PAGES
        for line in re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL).splitlines()
        if re.match(r"(?: {4}|\t)(?:rehearse|just|python|pip) ", line)
    ]

    assert bare == []
    assert sum(len(blocks_of(page)) for page in PAGES) >= 20
