"""The turn that is to blame, asked on an episode's page and compared with the command line."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect

from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.log.reader import open_reader
from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.served import Served, serving
from tests.viewer_web.test_accessibility import AXE, violations


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of mutants of a task with two refunds."""
    base = tmp_path_factory.mktemp("blame")
    _rehearse(
        base, *["run", "shop_support:cancel-duplicate", "-p", "mutant", "-n", "12", "-o", "mutant"]
    )
    return base


@pytest.fixture(scope="module")
def viewer(folder: Path) -> Iterator[Served]:
    """The viewer of this run."""
    with serving(Path("mutant"), cwd=folder) as one:
        yield one


def _rehearse(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "rehearsal_room", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _episodes(folder: Path, *, completed: bool) -> list[str]:
    with open_reader(folder / "mutant") as reader:
        rows = reader.episodes()
    return [row.episode for row in rows if (row.label is Label.COMPLETED) == completed]


def test_the_turn_to_blame_is_found_and_shown(
    open_page: OpenPage, viewer: Served, folder: Path, tmp_path: Path
) -> None:
    """Two clicks: the curve with an interval for each turn, the blamed turn marked, and a click
    leads to it. It is what the command line finds, whose command is shown; axe finds nothing."""
    found = {
        episode: json.loads(
            _rehearse(folder, *f"failures blame mutant/{episode} -n 0 --json -".split())
        )
        for episode in _episodes(folder, completed=False)[:4]
    }
    episode, known = max(found.items(), key=lambda one: len(one[1]["states"]) - one[1]["blamed"])
    turn = known["blamed"] + 1
    address = f"#/run/{viewer.run_id('mutant')}/episode/{episode}"
    page = open_page(viewer.at(address), bypass_csp=True, height=1180)
    page.get_by_role("button", name="Turn to blame").click()
    card = page.get_by_role("region", name="The turn to blame")
    card.get_by_label("Forks of each turn").fill("24")
    card.get_by_role("button", name="Find the turn").click()
    expect(card.get_by_role("status")).to_contain_text(f"Turn {turn} is to blame", timeout=120_000)
    expect(card.locator(".blame-curve .range")).to_have_count(len(known["states"]))
    expect(card.locator(".blame-curve button.fault")).to_have_text(str(turn))
    words = [one["oracle"] for one in known["states"]]
    shown = card.locator(".blame-curve li button")
    assert [str(one.get_attribute("class")).split()[0] for one in shown.all()] == words
    expect(card).to_contain_text(known["rescue"]["instead"])
    expect(card.get_by_label("Command").last).to_contain_text("rehearse failures blame")
    page.add_script_tag(content=AXE.read_text())
    assert violations(page) == []
    picture = Image.open(io.BytesIO(card.screenshot())).convert("RGB")
    pictures = Path(os.environ.get("PICTURES") or tmp_path)
    picture.quantize(256, dither=Image.Dither.NONE).save(pictures / "blame.png", optimize=True)
    card.get_by_role("button", name=f"Turn {turn} is to blame").click()
    expect(page.get_by_role("article", name=f"Turn {turn}", exact=True)).to_be_in_viewport()
    page.reload()
    expect(card.get_by_role("status")).to_contain_text(f"Turn {turn} is to blame")


def test_what_the_command_refuses_is_said_on_the_page(
    open_page: OpenPage, viewer: Served, folder: Path
) -> None:
    """A model that is not there is named; a completed episode has no such button."""
    episode = _episodes(folder, completed=False)[0]
    page = open_page(viewer.at(f"#/run/{viewer.run_id('mutant')}/episode/{episode}"))
    page.get_by_role("button", name="Turn to blame").click()
    card = page.get_by_role("region", name="The turn to blame")
    card.get_by_label("Who plays the forks").select_option("openai")
    expect(card.get_by_role("button", name="Find the turn")).to_be_disabled()
    card.get_by_role("textbox", name="Model").fill("m")
    card.get_by_label("URL of its server").fill("http://127.0.0.1:9/v1")
    card.get_by_role("button", name="Find the turn").click()
    expect(card.get_by_role("alert")).to_contain_text("no server answers", timeout=60_000)
    for done in _episodes(folder, completed=True)[:1]:
        other = open_page(viewer.at(f"#/run/{viewer.run_id('mutant')}/episode/{done}"))
        other.wait_for_selector(".turn")
        expect(other.get_by_role("button", name="Turn to blame")).to_have_count(0)
