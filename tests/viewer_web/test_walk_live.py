"""The walk of the viewer on runs that play: an MCP server's world, an own agent, and a generated
world, each with a model that answers when the test lets it. What the page says is compared with the
log.
"""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.desk_worlds import write_desk
from tests.support.paths import ROOT
from tests.support.recording_model import RecordingModel, call_of, recording_model
from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.served import serving
from tests.viewer_web.test_walk_list import facet
from tests.viewer_web.walked import Walk, episodes_of, rows_of

_PYTHON = ROOT / ".venv" / "bin" / "python"  # it has what the agent imports
_AGENT = ROOT / "examples" / "agents" / "plain_loop.py"
_NUM_EPISODES, _AT_ONCE = 12, 4
_CALLS = 2 * _AT_ONCE  # the first episodes make two calls each, all others say "Done." at once


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an MCP server's world, a generated one, and a finished run."""
    write_desk(tmp_path)
    for words in (
        "worlds generate --count 1 --seed 11 -o worlds",
        "run desk -p oracle -n 2 -o runs/before",
    ):
        command = [str(_PYTHON), "-m", "rehearsal_room", *words.split()]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.fixture
def model() -> Iterator[RecordingModel]:
    """A model that answers nothing before it is let."""
    calls = [call_of("no_such_tool", "{}", f"c{number}") for number in range(_CALLS)]
    replies = [*calls, {"content": "Done."}]
    with recording_model(replies=replies, tickets=threading.Semaphore(0)) as one:
        try:
            yield one
        finally:
            _let(one, 1000)


def _let(model: RecordingModel, number: int) -> None:
    assert model.tickets is not None
    model.tickets.release(number)


@contextmanager
def playing(folder: Path, model: RecordingModel, words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run in `runs/live`; it is ended with the block."""
    asked = f"-m m --base-url {model.url} --history full -n {_NUM_EPISODES} -c {_AT_ONCE}"
    command = [str(_PYTHON), "-m", "rehearsal_room", "run", *words.split(), *asked.split()]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, "-o", "runs/live"], cwd=folder, **quiet) as run:  # type: ignore[call-overload]
        try:
            yield run
        finally:
            run.kill()


def stood(run: Path, ended: int) -> set[str]:
    """Those that play once so many have ended and the next ones have begun, as the log says."""
    for _ in range(600):
        time.sleep(0.1)
        try:
            found = episodes_of(run)
        except Exception:  # its tables are not there yet
            continue
        live = {name for name, one in found.items() if one.ended is None}
        if len(found) - len(live) == ended and len(live) == _AT_ONCE:
            return live
    raise AssertionError(f"{ended} episodes did not end")


def shows(page: Page, wanted: set[str]) -> bool:
    """Whether the list has these episodes and no others, once the page has read them."""
    for _ in range(40):
        if set(rows_of(page)) == wanted:
            return True
        page.wait_for_timeout(250)
    return False


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("desk", id="server"),
        pytest.param(f"shop_support --agent {_AGENT}:agent", id="agent"),
        pytest.param("WORLD", id="generated"),
    ],
)
def test_9_and_10_a_run_is_followed(
    open_page: OpenPage, folder: Path, model: RecordingModel, words: str
) -> None:
    """A run that begins appears by itself. One click later its counts are those of the log and
    move without a reload; two more, and the list has those that play and no others; at the end
    nothing is live."""
    [world] = [one for one in (folder / "worlds").iterdir() if one.is_dir()]
    with serving(Path("runs"), cwd=folder, python=_PYTHON) as viewer:
        walk = Walk(open_page(viewer.at("#/runs"), width=1440))
        page = walk.page
        expect(page.get_by_role("link", name="before", exact=True)).to_be_visible()
        with playing(folder, model, words.replace("WORLD", str(world))) as run:
            walk.click(page.get_by_role("link", name="live", exact=True))
            figures = page.locator(".figures")
            expect(figures).to_contain_text(f"0 of {_NUM_EPISODES}")
            expect(figures).to_contain_text(f"{_AT_ONCE} live")
            _let(model, _CALLS + 2)
            live = stood(folder / "runs" / "live", 2)
            expect(figures).to_contain_text(f"2 of {_NUM_EPISODES}")
            expect(figures).to_contain_text(f"{_AT_ONCE} live")
            assert walk.presses == 1
            walk.click(page.get_by_role("link", name="Episodes", exact=True))
            walk.click(facet(page, "Ending", "Unfinished"))
            expect(page.locator(".chip.on")).to_have_count(1)

            assert shows(page, live)
            assert walk.presses == 3
            _let(model, 1)
            later = stood(folder / "runs" / "live", 3)
            assert later != live and shows(page, later)
            _let(model, 1000)
            assert run.wait(timeout=60) in (0, 1)
            expect(page.locator(".page-head .tag")).to_have_text("Finished", timeout=30_000)
            expect(page.locator(".bar [role=status]")).to_have_text("0 episodes")
            expect(figures).to_contain_text(f"Episodes{_NUM_EPISODES}")
            page.context.close()  # before its server goes
