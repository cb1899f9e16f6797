"""The exported file, opened from disk with the network blocked."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.viewer_web.samples import rehearse
from tests.viewer_web.served import Served


@pytest.fixture(scope="module")
def exported(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of 200 episodes."""
    path = tmp_path_factory.mktemp("export") / "run.html"
    rehearse("view", runs / "mutant", "--export", path)
    return path


def test_an_exported_file_needs_no_server(browser: Browser, served: Served, exported: Path) -> None:
    """The file has at most 10 MB. Without network it shows runs, episodes with filters and search,
    the world at a turn as the server does, a group and two members; and it sends no request."""
    assert exported.stat().st_size <= 10_000_000
    context = browser.new_context(offline=True)
    page = context.new_page()
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda one: requests.append(one.url))
    page.on("pageerror", lambda one: errors.append(str(one)))
    page.on("console", lambda one: errors.append(one.text) if one.type == "error" else None)
    page.goto(f"file://{exported}")
    page.get_by_role("row", name=re.compile("mutant")).locator("a").click()
    expect(page.get_by_role("status").filter(has_text="tasks")).to_be_visible()
    page.get_by_role("button", name="Worlds", exact=True).click()
    expect(page.get_by_role("grid", name="Worlds").get_by_role("row")).to_have_count(3)
    expect(page.get_by_label("What failed most").get_by_role("row").nth(1)).to_be_visible()
    page.get_by_role("link", name="Task grid").click()
    expect(page.locator(".square").first).to_be_visible()
    page.get_by_role("link", name="Episodes", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="200 episodes")).to_be_visible()
    page.get_by_role("button", name=re.compile("Agent error")).first.click()
    page.get_by_label("Search the text of the episodes").fill("refund")
    expect(page.locator(".chip.on")).to_have_count(2)
    expect(page.locator(".grid-row").first).to_contain_text("Agent error")

    row = page.locator(".grid-row").first
    episode = row.locator("a.mono").inner_text()
    row.click()
    expect(page.locator(".turn").first).to_be_visible()
    page.get_by_role("link", name="World", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("World"))).to_be_visible()
    page.wait_for_selector(".tables button .figure")
    same_world(page.locator(".tables li button").all_inner_texts(), served, episode)
    page.go_back()
    page.get_by_role("link", name="Group", exact=True).click()
    expect(page.locator(".node").first).to_be_visible()
    page.get_by_role("button", name=re.compile("Side by side")).click()
    expect(page.get_by_label("Where they part")).to_be_visible()
    context.close()

    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []


def same_world(shown: list[str], served: Served, episode: str) -> None:
    """The tables of a world and their numbers of rows are those of the server."""
    run = served.run_id("mutant")
    turns = len(served.get(f"/api/runs/{run}/episodes/{episode}")["turns"])
    world = served.get(f"/api/runs/{run}/episodes/{episode}/world?turn={turns}")
    found = [tuple(text.split()[:2]) for text in shown]
    assert found == [(one["name"], f"{one['rows']:,}") for one in world["tables"]]


def test_the_pair_of_an_exported_file_is_that_of_the_server(
    browser: Browser, served: Served, exported: Path
) -> None:
    """Where two members part, and the rows that differ there, are computed alike."""
    run, group = served.run_id("mutant"), "g000003"
    one, two = (row["episode"] for row in served.episodes("mutant", f"group={group}&limit=2"))
    wanted = served.get(f"/api/runs/{run}/pair?a={one}&b={two}")
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(f"file://{exported}#/run/{run}/pair?a={one}&b={two}")
    page.wait_for_selector(".sides")

    parting = wanted["parts_at"]
    if parting is not None:
        head = page.get_by_label("Where they part").locator(".turn-head h2").first
        expect(head).to_have_text(f"Turn {parting['a'] + 1}")
    context.close()
