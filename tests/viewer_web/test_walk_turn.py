"""What people come to an episode for, in at most three clicks, compared with the log.

The mutants' run and the model's are real runs. The model's endpoint (tests.support.recording_model)
has no model: it says by a plan what a model might, so that each case occurs, and it keeps the bytes
that it received, which are what the pages are compared with.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from tests.support.recording_model import RecordingModel, call_of, recording_model
from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.served import Served, serving
from tests.viewer_web.test_accessibility import AXE, violations

_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
_SVG = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoMSkiLz4="
HOSTILE = f"""# Plan <script>window.pwned = 1</script>

1. **Look** it up
2. [click](javascript:window.pwned=2) <img src=x onerror="window.pwned=3">

![remote](https://evil.example/x.png) ![vector](data:image/svg+xml;base64,{_SVG})
![raster](data:image/png;base64,{_PNG})

| a | b |
|---|---|
| 1 | `x` |
"""
_TASK = "shop_support:ask-which-size"
_LOOK = call_of("get_order", '{"order_id": 4123}')
_REPLIES = (
    {**_LOOK, "content": HOSTILE},
    {"content": "Which size would Marcus like, and does the colour stay?"},
    call_of("get_order", '{"order_id": 4123', "call_2"),
    call_of("check_stock", '{"sku": "CIR-R-L-BLU"}', "call_3"),
    {"content": f"# {'Very long. ' * 90_000}"},
)


class Clicks:
    """Counts the clicks of a walk."""

    def __init__(self, page: Page) -> None:
        self.page, self.number = page, 0

    def on(self, what: Locator) -> None:
        """Click."""
        what.click()
        self.number += 1


@pytest.fixture(scope="module")
def model() -> Iterator[RecordingModel]:
    """The endpoint, which goes on when tries are played."""
    with recording_model(replies=_REPLIES) as one:
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: RecordingModel) -> Path:
    """Runs `mutant` (as the walk has it, fewer), `talk`, of the model under `last:2`, and
    `pictured`, whose tool returned pictures."""
    base = tmp_path_factory.mktemp("walk")
    _rehearse(
        base,
        *[
            "run",
            "shop_support",
            "flight_desk",
            "-p",
            "mutant",
            "-n",
            "48",
            "-g",
            "4",
            "--seed",
            "5",
            "-o",
            "mutant",
        ],
    )
    _rehearse(
        base,
        *f"run {_TASK} -m m --base-url {model.url} --history last:2 --max-steps 6".split(),
        *["--no-format-stop", "--seed", "7", "-o", "talk"],
    )
    blocks = [
        {"type": "image", "data": _PNG, "mimeType": "image/png"},
        {"type": "image", "data": _SVG, "mimeType": "image/svg+xml"},
        {"type": "text", "text": "https://evil.example/y.png"},
    ]
    call = {"name": "get_order", "arguments": {"order_id": 1}, "result": json.dumps(blocks)}
    edit = json.dumps({"turns": [{"calls": [call]}]})
    fork = ["run", "--from", "talk/e000000@1", "-p", "noop", "-o", "pictured", "--edit"]
    _rehearse(base, *fork, edit)
    return base


@pytest.fixture(scope="module")
def viewer(folder: Path) -> Iterator[Served]:
    """The viewer of these runs."""
    with serving(Path("mutant"), Path("talk"), Path("pictured"), cwd=folder) as one:
        yield one


def _rehearse(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "rehearsal_room", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def _logged(folder: Path, run: str, episode: str) -> Trajectory:
    with open_reader(folder / run) as reader:
        return reader.trajectory(episode)


def _open(open_page: OpenPage, viewer: Served, run: str, episode: str, **more: Any) -> Clicks:
    context = {"permissions": ["clipboard-read", "clipboard-write"], **more}
    page = open_page(viewer.at(f"#/run/{viewer.run_id(run)}/episode/{episode}"), **context)
    page.wait_for_selector(".turn")
    return Clicks(page)


def _turn(page: Page, number: int) -> Locator:
    return page.get_by_role("article", name=f"Turn {number}", exact=True)


def _copied(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def _harmful(folder: Path) -> Trajectory:
    """An episode of the mutants that broke a guard by writing."""
    with open_reader(folder / "mutant") as reader:
        for row in reader.episodes():
            found = reader.trajectory(row.episode)
            guards = [one for one in found.judged[-1].findings if one.kind == "guard"]
            writes = [one for step in found.steps for one in step.results if one.changes]
            if writes and any(not one.passed for one in guards):
                return found
    raise AssertionError("no mutant did harm")


def test_4_the_rule_that_was_broken_with_turn_and_row(
    open_page: OpenPage, viewer: Served, folder: Path
) -> None:
    """No click: the rule's text, the turn and the row that the finding names, in one place."""
    episode = _harmful(folder)
    rule = next(
        one for one in episode.judged[-1].findings if one.kind == "guard" and not one.passed
    )
    walk = _open(open_page, viewer, "mutant", episode.episode)
    card = walk.page.get_by_role("region", name="Harm")
    expect(card).to_contain_text(rule.name)
    expect(card).to_contain_text(rule.expected)
    table, key = rule.found.split(" ")[:2]
    turn = next(
        number
        for number, step in enumerate(episode.steps, 1)
        for result in step.results
        for change in result.changes
        if change.table == table and str(change.key[0]) == key
    )
    row = card.locator(".changed-row", has=walk.page.get_by_text(table, exact=True)).first
    expect(row).to_contain_text(f"Turn {turn}")
    expect(row.locator(".change-head")).to_contain_text(key)
    assert walk.number == 0


def test_5_and_6_what_the_model_saw_and_what_the_window_left_out(
    open_page: OpenPage, viewer: Served, model: RecordingModel
) -> None:
    """One click: at turn 4 the messages and tool schemas of the bytes that the endpoint got, to be
    copied as JSON and as curl without the key, and in grey the messages that are missing."""
    walk = _open(open_page, viewer, "talk", "e000000")
    turn = _turn(walk.page, 4)
    walk.on(turn.get_by_role("button", name="What the model saw"))
    assert walk.number == 1
    request = turn.get_by_role("region", name="Request for this turn")
    sent = json.loads(model.answered[3])
    shown = request.locator(".messages > .message")
    expect(shown).to_have_count(len(sent["messages"]))
    for number, message in enumerate(sent["messages"]):
        expect(shown.nth(number)).to_contain_text(message["role"])
        if message["role"] == "user":
            expect(shown.nth(number)).to_contain_text(message["content"].split("\n")[0][:60])
    expect(request).to_contain_text(f"{len(sent['tools'])} tool schemas, as sent")
    missing = request.locator(".left-out")
    expect(missing).to_have_count(1)
    expect(missing).to_contain_text("Turn 1: left out by the window")
    expect(missing).to_contain_text('get_order({"order_id":4123})')
    request.get_by_role("button", name="Copy as JSON").click()
    assert json.loads(_copied(walk.page)) == sent
    request.get_by_role("button", name="Copy as curl").click()
    assert "$OPENAI_API_KEY" in _copied(walk.page)
    assert model.answered[3].decode() in _copied(walk.page)


def test_11_a_button_copies_the_link_to_a_turn(open_page: OpenPage, viewer: Served) -> None:
    """One click; in another window the link leads to the turn."""
    walk = _open(open_page, viewer, "talk", "e000000")
    walk.on(walk.page.get_by_role("button", name="Copy the link to turn 5"))
    assert walk.number == 1
    other = open_page(_copied(walk.page))
    expect(other.locator(".turn.current")).to_have_attribute("aria-label", "Turn 5")


def test_15_a_changed_reply_is_played_on_five_times(
    open_page: OpenPage, viewer: Served, folder: Path, model: RecordingModel
) -> None:
    """Two clicks and the text: five tries beside the original, with the share before and after, as
    the log of their run has it; the model read the changed reply; and the command that is shown is
    taken by the command line."""
    walk = _open(open_page, viewer, "talk", "e000000")
    walk.on(walk.page.get_by_role("link", name="Fork before turn 2", exact=True))
    page = walk.page
    reply = page.get_by_label("Reply of turn 2")
    reply.fill("What size, and <b>which</b> colour\u202e?")
    command = page.locator(".go-on .command code")
    expect(command).to_contain_text("--edit")
    walk.on(page.get_by_role("button", name="Play 5 tries"))
    assert walk.number == 2
    expect(page.get_by_text("5 tries played")).to_be_visible(timeout=120_000)
    expect(page.locator(".tries tbody tr")).to_have_count(6)
    runs = sorted(folder.glob("runs/*tries*"))
    with open_reader(runs[-1]) as reader:
        rows = reader.episodes()
        tries = [reader.trajectory(row.episode) for row in rows]
    assert [one.steps[1].reply.text for one in tries] == [tries[0].steps[1].reply.text] * 5
    assert tries[0].steps[1].reply.text == "What size, and <b>which</b> colour\u202e?"
    assert {one.first_own_turn for one in tries} == {2}
    completed = sum(str(row.label) == "completed" for row in rows)
    after = page.locator(".shares > div").nth(1)
    expect(after).to_contain_text(f"{completed} of 5 completed")
    assert any(b"which</b> colour" in data for data in model.answered)
    words = command.inner_text().removeprefix("rehearse ")
    dry = ["bash", "-c", f'"$0" -m rehearsal_room {words} -o again', sys.executable]
    done = subprocess.run(dry, cwd=folder, capture_output=True, text=True, check=False)
    assert (
        _logged(folder, "again", "e000004").steps[1].reply.text == tries[0].steps[1].reply.text
    ), done.stderr


def test_14_another_call_and_the_verdict_and_it_is_played_on(
    open_page: OpenPage, viewer: Served, folder: Path
) -> None:
    """A call that the tool refuses, made by hand, is shown with its error and played on as a turn
    of the tries; where the episode is over, no command is offered."""
    episode = _harmful(folder)
    walk = _open(open_page, viewer, "mutant", episode.episode)
    walk.on(walk.page.get_by_role("link", name="Fork before turn 2", exact=True))
    page = walk.page
    tool = episode.steps[0].executed_calls[0].name
    page.get_by_role("combobox", name="Tool", exact=True).select_option(tool)
    for field in page.locator(".tool-form input[required]").all():
        field.fill("999999")
    walk.on(page.locator(".tool-form button[type=submit]").first)
    expect(page.get_by_role("button", name="Calls (1)")).to_be_visible()
    expect(page.locator(".go-on .command code")).to_contain_text("999999")
    assert walk.number == 2
    page.get_by_role("button", name="Play 5 tries").click()
    expect(page.get_by_text("5 tries played")).to_be_visible(timeout=120_000)
    with open_reader(max(folder.glob("runs/*tries*"), key=os.path.getmtime)) as reader:
        made = reader.trajectory("e000004")
    assert made.steps[1].results[0].is_error
    over = open_page(
        viewer.at(
            f"#/run/{viewer.run_id('mutant')}/episode/{episode.episode}/fork?turn={len(episode.steps)}"
        )
    )
    expect(over.locator(".go-on .notice")).to_contain_text("ends the episode")
    expect(over.locator(".go-on .command")).to_have_count(0)
    expect(over.get_by_role("button", name="Play 5 tries")).to_be_disabled()


def test_a_model_that_is_not_there_is_said_on_the_page(open_page: OpenPage, viewer: Served) -> None:
    """A server that nobody runs: a sentence, and the edit is still in the form."""
    walk = _open(open_page, viewer, "talk", "e000000")
    walk.on(walk.page.get_by_role("link", name="Fork before turn 2", exact=True))
    page = walk.page
    page.get_by_label("Reply of turn 2").fill("Kept.")
    page.get_by_label("Who goes on").select_option("openai")
    page.get_by_label("Model", exact=True).fill("m")
    page.get_by_label(re.compile("URL of its server")).fill("http://127.0.0.1:9/v1")
    page.get_by_role("button", name="Play 5 tries").click()
    expect(page.locator(".tries .notice.bad")).to_contain_text("no server answers", timeout=60_000)
    expect(page.get_by_label("Reply of turn 2")).to_have_value("Kept.")


def test_22_23_24_25_rows_sql_and_replay(open_page: OpenPage, viewer: Served, folder: Path) -> None:
    """The rows of a turn stand at its call; all of the episode open with one click and are the net
    changes of the log; SQL at a turn and a replay take two clicks and one."""
    episode = _harmful(folder)
    walk = _open(open_page, viewer, "mutant", episode.episode)
    page = walk.page
    written = next(
        n for n, step in enumerate(episode.steps) if any(r.changes for r in step.results)
    )
    rows = [change for result in episode.steps[written].results for change in result.changes]
    expect(_turn(page, written + 1).locator(".change")).to_have_count(len(rows))
    net = net_changes(result.changes for step in episode.steps for result in step.results)
    walk.on(page.get_by_text(re.compile("rows? changed in the episode")))
    assert walk.number == 1
    listed = page.get_by_role("group", name="All changed rows").locator(".change-head")
    expect(listed).to_have_count(len(net))
    heads = "\n".join(listed.all_inner_texts())
    for change in net:
        assert change.table in heads
    walk.on(page.get_by_role("button", name="Replay"))
    expect(page.get_by_text(re.compile("everything is equal to the log"))).to_be_visible()
    page.get_by_role("link", name=f"World after turn {written + 1}", exact=True).click()
    page.get_by_role("textbox", name="Query").fill("SELECT 41 + 1 AS answer")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("42", exact=True)).to_be_visible()


def test_26_a_result_and_a_call_are_copied(
    open_page: OpenPage, viewer: Served, folder: Path
) -> None:
    """A button each; a call folds where its icon is."""
    logged = _logged(folder, "talk", "e000000").steps[0]
    walk = _open(open_page, viewer, "talk", "e000000")
    call = _turn(walk.page, 1).locator(".call").first
    walk.on(call.get_by_role("button", name="Copy the call as JSON"))
    made = logged.executed_calls[0]
    assert json.loads(_copied(walk.page)) == {"name": made.name, "arguments": made.arguments}
    walk.on(call.get_by_role("button", name="Copy the result"))
    assert _copied(walk.page) == logged.results[0].text
    assert walk.number == 2
    fold = call.get_by_role("button", name="get_order", expanded=True)
    fold.click()
    expect(call.locator(".result")).to_have_count(0)


def test_hostile_markdown_is_harmless(open_page: OpenPage, viewer: Served) -> None:
    """It is laid out without its HTML; its links lead nowhere, nothing is loaded from elsewhere, a
    picture in the text is shown and an SVG is not; the text as it is, is one click away; a reply of
    a megabyte is cut."""
    asked: list[str] = []
    walk = _open(open_page, viewer, "talk", "e000000")
    page = walk.page
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    reply = _turn(page, 1).locator(".reply")
    expect(reply.locator("strong")).to_have_text("Look")
    expect(reply.locator("td").first).to_have_text("1")
    expect(reply.locator("img")).to_have_count(1)
    assert page.evaluate("document.querySelector('.reply img').naturalWidth") == 1
    expect(reply.locator("a")).to_have_count(0)
    expect(reply).to_contain_text("<img src=x onerror=")
    expect(reply).to_contain_text("https://evil.example/x.png")
    assert page.evaluate("window.pwned") is None
    assert not [
        url for url in asked if "evil.example" in url or url.startswith("http://127.0.0.1/x")
    ]
    reply.get_by_role("button", name="Show as text").click()
    expect(reply).to_contain_text("# Plan <script>")
    assert len(_turn(page, 5).inner_text()) < 40_000


def test_a_picture_in_a_result_is_shown(open_page: OpenPage, viewer: Served) -> None:
    """A block with a PNG is a picture, one with an SVG stays text, and no address is loaded; the
    turn that somebody wrote is marked."""
    page = _open(open_page, viewer, "pictured", "e000000").page
    turn = _turn(page, 2)
    expect(turn).to_contain_text("Written by hand")
    expect(turn.locator("img")).to_have_count(1)
    assert page.evaluate("document.querySelector('.result img').naturalWidth") == 1
    expect(turn).to_contain_text("image/svg+xml")
    expect(turn).to_contain_text("https://evil.example/y.png")


def test_the_timeline_names_the_slow_call(
    open_page: OpenPage, viewer: Served, folder: Path
) -> None:
    """Without a click the longest span; opened, a bar for each turn with its clock time."""
    with open_reader(folder / "talk") as reader:
        times = reader.turn_times("e000000", 1)
    steps = _logged(folder, "talk", "e000000").steps
    walk = _open(open_page, viewer, "talk", "e000000", timezone_id="UTC")
    page = walk.page
    slowest = max(range(len(steps)), key=lambda turn: steps[turn].policy_s)
    summary = page.get_by_text(re.compile("^Timeline:"))
    expect(summary).to_contain_text(
        re.compile(f"longest: (model|waiting) at turn ({slowest + 1}|1)")
    )
    summary.click()
    expect(page.locator(".timeline li")).to_have_count(len(steps))
    import datetime

    clock = datetime.datetime.fromtimestamp(times[2], datetime.UTC).strftime("%H:%M:%S")
    expect(page.locator(".timeline li").nth(2)).to_contain_text(clock)


@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_where_everything_is_open(
    browser: Browser, open_page: OpenPage, viewer: Served, width: int, theme: str
) -> None:
    """Request, timeline, changed rows and editor open, at three widths and in both themes; and
    nothing scrolls sideways."""
    walk = _open(
        open_page, viewer, "talk", "e000000", width=width, color_scheme=theme, bypass_csp=True
    )
    page = walk.page
    for summary in page.locator("details > summary").all():
        summary.click()
    page.get_by_role("button", name="What the model saw").nth(3).click()
    page.wait_for_selector(".request")
    page.add_script_tag(path=AXE)
    found = violations(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(viewer.at(f"#/run/{viewer.run_id('talk')}/episode/e000000/fork?turn=0"))
    page.wait_for_selector(".go-on .command")
    page.get_by_text("Edit the instruction").click()
    found += violations(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not found, "\n".join(found)
