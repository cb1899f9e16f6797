"""The address stays, a lost server is said at once and found again, runs come and go.

The server is the command itself, ended and started again under an open page.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.paths import ROOT
from tests.viewer_web.served import serving

PYTHON = str(ROOT / ".venv" / "bin" / "python")


def rehearse(*words: object, cwd: Path) -> subprocess.Popen[bytes]:
    """Start a command."""
    command = [PYTHON, "-m", "rehearsal_room", *map(str, words)]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A folder with `runs/one`, a finished run."""
    (tmp_path / "runs").mkdir()
    ended = rehearse("run", "shop_support", "-p", "mutant", "-n", 4, "-o", "runs/one", cwd=tmp_path)
    assert ended.wait() == 0
    return tmp_path


@pytest.fixture
def quiet_page(browser: object) -> object:
    """A page whose console may say that the server is gone, as it is here."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})  # type: ignore[attr-defined]
    yield context.new_page()
    context.close()


def test_a_tab_outlives_its_server(two: Path, quiet_page: Page) -> None:
    """While the server is away the page says so and keeps what it shows; when the command runs
    again, the same tab goes on, and so does a link of before."""
    state = two / "state"
    with serving(Path("runs/one"), cwd=two, state=state) as first:
        episode = first.episodes("one")[0]["episode"]
        link = first.at(f"#/run/{first.run_id('one')}/episode/{episode}?turn=1")
        quiet_page.goto(link)
        expect(quiet_page.get_by_role("heading", level=1)).to_be_visible()
        heading = quiet_page.get_by_role("heading", level=1).inner_text()
    expect(quiet_page.get_by_role("alert")).to_contain_text("does not answer", timeout=6_000)
    assert quiet_page.get_by_role("heading", level=1).inner_text() == heading
    with serving(Path("runs/one"), cwd=two, state=state) as second:
        assert second.url == first.url
        expect(quiet_page.get_by_role("alert")).to_have_count(0, timeout=8_000)
        quiet_page.reload()
        expect(quiet_page.get_by_role("heading", level=1)).to_have_text(heading)


def test_runs_come_and_go(two: Path, quiet_page: Page) -> None:
    """A run that begins in the folder appears by itself and its counts move to its end; a folder
    that is deleted is marked; a new run in its place is shown, not the old one."""
    with serving(Path("runs"), cwd=two, state=two / "state") as served:
        quiet_page.goto(served.url)
        grid = quiet_page.get_by_role("grid", name="Runs")
        expect(grid.get_by_text("one", exact=True)).to_be_visible()
        began = rehearse(
            *("run", "shop_support", "-p", "oracle", "-n", 400, "-c", 4, "-o", "runs/later"),
            cwd=two,
        )
        expect(grid.get_by_text("later", exact=True)).to_be_visible(timeout=20_000)
        assert began.wait() == 0
        row = grid.get_by_role("row").filter(has_text="later")
        expect(row).to_contain_text("Finished", timeout=10_000)
        expect(row).to_contain_text("400")
        shutil.rmtree(two / "runs" / "later")
        expect(row).to_contain_text("Gone", timeout=10_000)
        again = rehearse("run", "flight_desk", "-p", "oracle", "-n", 3, "-o", "runs/later", cwd=two)
        assert again.wait() == 0
        expect(row).to_contain_text("flight_desk", timeout=10_000)
        expect(row).to_contain_text("Finished", timeout=10_000)


def test_a_second_command_hands_over(two: Path, quiet_page: Page) -> None:
    """`rehearse view OTHER` beside a viewer that runs adds its run there, prints the same address
    and ends."""
    state = two / "state"
    ended = rehearse("run", "flight_desk", "-p", "oracle", "-n", 2, "-o", "other", cwd=two)
    assert ended.wait() == 0
    with serving(Path("runs/one"), cwd=two, state=state) as served:
        quiet_page.goto(served.url)
        grid = quiet_page.get_by_role("grid", name="Runs")
        expect(grid.get_by_text("one", exact=True)).to_be_visible()
        second = subprocess.run(
            [sys.executable, "-m", "rehearsal_room", "view", "other#e000001", "--no-open"],
            cwd=two,
            env={"XDG_STATE_HOME": str(state), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert second.returncode == 0, second.stderr
        assert second.stderr.startswith(served.url)
        assert re.search(r"#/run/other-\w+/episode/e000001\n", second.stderr)
        expect(grid.get_by_text("other", exact=True)).to_be_visible(timeout=8_000)
