"""What users do with the table of episodes: tasks 3, 10, 12, 13, 16, 17, 18, 19, 28 and 29 of the
walk, each in at most three presses, with the answer of the log or of the command line.

The runs are real, of the mutant policy, which needs no model.
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Browser, Page, expect

from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.failures.diagnose import Mistake
from rehearsal_room.judge.failures.reading import read_failures
from rehearsal_room.scenarios.checks import proved_wrong
from tests.support.paths import ROOT
from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.logs import in_thread
from tests.viewer_web.samples import rehearse
from tests.viewer_web.served import Served, serving
from tests.viewer_web.walked import Walk, episodes_of, rows_of

RUN = ("shop_support", "flight_desk", "-p", "mutant", "-n", "160", "-g", "4", "--seed", "5")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the tasks."""
    folder = tmp_path_factory.mktemp("walk") / "walked"
    rehearse("run", *RUN, "-o", folder)
    return folder


@pytest.fixture(scope="module")
def viewer(run: Path) -> Iterator[Served]:
    """The viewer of that run."""
    with serving(run, cwd=run.parent) as one:
        yield one


@pytest.fixture(scope="module")
def episodes(run: Path) -> dict[str, Trajectory]:
    """What the log says."""
    return episodes_of(run)


@pytest.fixture
def walk(open_page: OpenPage, viewer: Served) -> Walk:
    """Begins at the run's page."""
    found = Walk(open_page(viewer.at(f"#/run/{viewer.run_id('walked')}"), width=1440))
    to_episodes(found)
    return found


def to_episodes(walk: Walk) -> None:
    """From the page of a run, which opens on its tasks, to its episodes."""
    walk.click(walk.page.get_by_role("link", name="Episodes", exact=True))
    walk.page.wait_for_selector(".facet")


def facet(page: Page, title: str, value: str) -> object:
    return page.get_by_label(title, exact=True).get_by_role("button", name=re.compile(f"^{value}"))


def failures_of(run: Path) -> dict[str, list[Mistake]]:
    """What `rehearse failures` finds, by episode."""
    found: dict[str, list[Mistake]] = {}

    async def read() -> None:
        reading = await read_failures(run)
        found.update({one.episode: list(one.mistakes) for one in reading.episodes})

    in_thread(read)
    return found


def test_3_episodes_that_did_harm(walk: Walk, run: Path, episodes: dict[str, Trajectory]) -> None:
    """One facet has those with a broken rule or an unasked change."""
    unasked = {
        name
        for name, mistakes in failures_of(run).items()
        if any(one.kind == "unasked_change" for one in mistakes)
    }
    broken = {
        name
        for name, one in episodes.items()
        if any(found.kind == "guard" for found in proved_wrong(one.judged[-1].findings))
    }
    walk.click(facet(walk.page, "Did harm", "Broken guard"))
    expect(walk.page.locator(".chip.on")).to_have_count(1)
    if unasked:
        walk.click(facet(walk.page, "Did harm", "Unasked change"))
        expect(walk.page.locator(".chip.on")).to_have_count(2)

    assert set(rows_of(walk.page)) == broken | unasked
    assert walk.presses <= 3


def test_10_only_those_that_still_play(open_page: OpenPage, tmp_path: Path) -> None:
    """A filter of a live run. The run is halted by a signal, so that the log stands still."""
    folder = tmp_path / "live"
    command = (sys.executable, "-m", "rehearsal_room", "run", *RUN[:4], "-n", "4000", "-c", "24")
    with subprocess.Popen(
        (*command, "-o", str(folder)), cwd=ROOT, stdout=subprocess.DEVNULL
    ) as one:
        try:
            playing = halted(one, folder)
            with serving(folder, cwd=tmp_path) as served:
                walk = Walk(open_page(served.at(f"#/run/{served.run_id('live')}"), width=1440))
                to_episodes(walk)
                walk.click(facet(walk.page, "Ending", "Unfinished"))
                expect(walk.page.locator(".chip.on")).to_have_count(1)

                assert set(rows_of(walk.page)) == playing
                assert walk.presses <= 3
                walk.page.context.close()
        finally:
            one.kill()


def halted(process: subprocess.Popen[bytes], folder: Path) -> set[str]:
    """Halt a run while some of its episodes play; returns those."""
    for _ in range(600):
        time.sleep(0.1)
        if not (folder / "episodes.sqlite").exists():
            continue
        process.send_signal(signal.SIGSTOP)
        try:
            found = episodes_of(folder)
        except Exception:  # its tables are not there yet
            found = {}
        playing = {name for name, one in found.items() if one.ended is None}
        if playing and len(playing) < len(found):
            return playing
        process.send_signal(signal.SIGCONT)
    raise AssertionError("no episode was seen playing")


def test_12_and_13_a_label_with_a_note(
    walk: Walk, viewer: Served, run: Path, episodes: dict[str, Trajectory]
) -> None:
    """Keys label an episode on its page, a note is kept with it in labels.jsonl, and filters find
    what was labelled and where the judge disagrees."""
    page, base = walk.page, f"#/run/{viewer.run_id('walked')}"
    said = {"e000002": Label.COMPLETED, "e000003": Label.AGENT_ERROR, "e000012": Label.COMPLETED}
    for episode, label in said.items():
        page.goto(viewer.at(f"{base}/episode/{episode}"))
        page.wait_for_selector(".hand-label")
        walk.presses = 0
        walk.press("m")
        page.keyboard.type(f"because of <b>{episode}</b>")
        page.get_by_label("Note").blur()
        walk.press("1" if label is Label.COMPLETED else "3")
        expect(page.locator(".hand-label [role=status]")).to_contain_text("Kept")
        assert walk.presses <= 3
    lines = [json.loads(line) for line in (run / "labels.jsonl").read_text().splitlines()]
    assert {one["episode"]: (one["label"], one["note"]) for one in lines} == {
        episode: (label, f"because of <b>{episode}</b>") for episode, label in said.items()
    }
    page.goto(viewer.at(base))
    page.reload()
    walk.presses = 0
    to_episodes(walk)
    walk.click(facet(page, "Labels by hand", "I labelled"))
    expect(page.locator(".chip.on")).to_have_count(1)
    assert set(rows_of(page)) == set(said)
    assert walk.presses <= 3
    walk.presses = 0
    walk.click(facet(page, "Labels by hand", "I disagree"))
    walk.click(facet(page, "Labels by hand", "I labelled"))
    expect(page.locator(".chip.on")).to_have_count(1)
    judged = {episode: episodes[episode].judged[-1].label for episode in said}
    assert set(rows_of(page)) == {one for one in said if judged[one] != said[one]}
    assert walk.presses <= 3


def test_16_and_17_what_a_tool_said(
    walk: Walk, viewer: Served, episodes: dict[str, Trajectory]
) -> None:
    """A search in tools' results finds the episodes that the log has, with snippets; one press on a
    snippet leads to the turn, where the word is marked."""
    said = {
        name: {turn for turn, step in enumerate(one.steps) for result in step.results
               if re.search(r"(?<![^\W_])refund", result.text, re.IGNORECASE)}
        for name, one in episodes.items()
    }  # fmt: skip
    page = walk.page
    walk.write(page.get_by_label("Search the text of the episodes"), "tool:refund")
    page.wait_for_selector(".hit mark")
    first = page.locator(".grid-row", has=page.locator(".hit mark")).first
    assert "refund" in first.locator(".hit mark").first.inner_text().lower()
    assert set(rows_of(page)) == {name for name, turns in said.items() if turns}
    page.locator(".grid-scroll").evaluate("one => (one.scrollTop = 0)")
    expect(first).to_be_visible()
    episode = first.locator("a.mono").inner_text()
    walk.click(first.locator(".hit"))
    page.wait_for_function("() => CSS.highlights.get('found-now')?.size === 1")
    turn = int(parse_qs(page.url.split("?")[-1])["turn"][0]) - 1

    assert f"/episode/{episode}?" in page.url and turn in said[episode]
    marked = "[...CSS.highlights.get('found-now')][0]"
    assert page.evaluate(f"{marked}.toString().toLowerCase()").startswith("refund")
    assert (
        page.evaluate(f"{marked}.startContainer.parentElement.closest('.turn').ariaLabel")
        == f"Turn {turn + 1}"
    )
    assert page.evaluate(
        f"(({{top}}) => top > 0 && top < innerHeight)({marked}.getBoundingClientRect())"
    )
    assert walk.presses <= 3


def test_18_the_next_one_of_the_list(
    walk: Walk, viewer: Served, run: Path, episodes: dict[str, Trajectory]
) -> None:
    """From an episode of a filtered list a key leads to the next one, where it went wrong."""
    page = walk.page
    page.goto(
        viewer.at(f"#/run/{viewer.run_id('walked')}?label=agent_error&error=refused&sort=-turns")
    )
    page.wait_for_selector(".chip.on")
    listed = rows_of(page)
    page.locator(".grid-scroll").evaluate("one => (one.scrollTop = 0)")
    page.locator('[data-row="0"]').click()
    expect(page.get_by_role("navigation", name="List")).to_contain_text(f"1 of {len(listed)}")
    walk.press("n")
    expect(page.get_by_role("navigation", name="List")).to_contain_text(f"2 of {len(listed)}")
    turn = int(parse_qs(page.url.split("?")[-1])["turn"][0]) - 1
    mistakes = failures_of(run).get(listed[1], [])
    errors = (
        turn for turn, step in enumerate(episodes[listed[1]].steps)
        if any(result.error for result in step.results)
    )  # fmt: skip

    assert f"/episode/{listed[1]}?" in page.url
    assert turn in {next(errors), *(one.turn for one in mistakes[:1])}
    assert walk.presses <= 3
    page.get_by_role("navigation", name="List").get_by_role(
        "link", name=re.compile("Agent error")
    ).click()
    assert rows_of(page) == listed


def test_19_back_undoes_the_last_filter(walk: Walk, episodes: dict[str, Trajectory]) -> None:
    """Of two filters the first stays, with its rows."""
    page = walk.page
    walk.click(facet(page, "Label", "Agent error"))
    walk.click(facet(page, "Did harm", "Broken guard"))
    expect(page.locator(".chip.on")).to_have_count(2)
    walk.presses = 0
    walk.presses += 1
    page.go_back()
    expect(page.locator(".chip.on")).to_have_count(1)
    failed = {name for name, one in episodes.items() if one.judged[-1].label is Label.AGENT_ERROR}

    assert set(rows_of(page)) == failed
    page.go_back()
    expect(page.locator(".chip.on")).to_have_count(0)
    assert walk.presses <= 3


def test_28_a_file_of_the_failures(
    walk: Walk, browser: Browser, episodes: dict[str, Trajectory], tmp_path: Path
) -> None:
    """The file has the failures and says, on each of its pages, which part of the run they are; its
    counts are theirs."""
    page, path = walk.page, tmp_path / "failures.html"
    walk.click(facet(page, "Label", "Agent error"))
    expect(page.locator(".chip.on")).to_have_count(1)
    with walk.download(page.get_by_role("button", name="HTML file")) as files:
        pass
    files[0].save_as(path)
    failed = [name for name, one in episodes.items() if one.judged[-1].label is Label.AGENT_ERROR]
    words = f"part: {len(failed)} of {len(episodes)} episodes"
    context = browser.new_context(offline=True, viewport={"width": 1440, "height": 900})
    other = context.new_page()
    other.goto(f"file://{path}")
    expect(other.get_by_role("row").nth(1)).to_contain_text(f"part of {len(episodes)}")
    other.get_by_role("row").nth(1).locator("a").click()
    expect(other.get_by_role("note")).to_contain_text(words)
    expect(other.get_by_role("note")).to_contain_text("Label: Agent error")
    to_episodes(Walk(other))
    counts = other.locator(".facet[aria-label='Label'] li").all_inner_texts()

    assert walk.presses <= 3
    assert [text.split() for text in counts] == [["Agent", "error", str(len(failed))]]
    assert rows_of(other) == failed
    expect(other.locator(".figures")).to_contain_text(f"Episodes{len(failed)}")
    other.locator(".grid-row").first.click()
    expect(other.get_by_role("note")).to_contain_text(words)
    context.close()


def test_29_an_episode_by_its_id(walk: Walk) -> None:
    """An id in the search finds its episode."""
    walk.write(walk.page.get_by_label("Search the text of the episodes"), "e000010")
    expect(walk.page.locator(".bar [role=status]").first).to_have_text("1 episode")

    assert rows_of(walk.page) == ["e000010"]
    assert walk.presses <= 3
