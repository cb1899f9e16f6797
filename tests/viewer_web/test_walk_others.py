"""The walk of the viewer on runs that are unlike those of its other tests: a generated world, the
world of an MCP server, an AWM record, an own agent, dialogues, an imported run, and a log with odd
names. Answers are compared with the command line or the log.

The runs are real ones of the command line. The model behind the agent is an endpoint that says by a
plan what a model might (tests.support.recording_model) and keeps the bytes that it received. The
names of the odd log are ours: no package may have them, and a log may.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.desk_worlds import write_desk
from tests.support.paths import AWM, ROOT
from tests.support.recording_model import RecordingModel, call_of, recording_model
from tests.viewer_web import hostile
from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.logs import in_thread
from tests.viewer_web.served import Served, serving
from tests.viewer_web.walked import Walk, episodes_of, rows_of

_PYTHON = ROOT / ".venv" / "bin" / "python"  # it has what AWM's worlds and the agent import
_AGENT = ROOT / "examples" / "agents" / "plain_loop.py"
_REPLIES = (
    {**call_of("check_stock", '{"sku": "CIR-R-L-BLU"}', "c1"), "content": "Let me **look**."},
    call_of("get_order", '{"order_id": 4123}', "c2"),
    call_of("get_order", '{"order_id": 9}', "c3"),
    {"content": "Done."},
)
_NAMES = ("-x", "+y", "a:b", "a:b:refused", "-", "a&task=b", "a,b", "a b/c?d#e", '"', "%2D", "e1")


@pytest.fixture(scope="module")
def model() -> Iterator[RecordingModel]:
    """The model of the agent."""
    with recording_model(replies=_REPLIES) as one:
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: RecordingModel) -> Path:
    """The folder of the runs."""
    base = tmp_path_factory.mktemp("others")
    write_desk(base)
    rehearse(base, "worlds generate --count 1 --seed 11 -o worlds")
    [world] = [one for one in (base / "worlds").iterdir() if one.is_dir()]
    rehearse(base, f"run {world} -p mutant -n 80 --seed 3 -o runs/wide")
    rehearse(base, "run desk -p mutant -n 24 -g 4 -o runs/desk")
    rehearse(base, "run desk -p oracle -n 8 -o runs/solved")
    rehearse(base, "run claims_desk -p random -n 60 -g 4 --seed 2 -o runs/random")
    rehearse(base, "run claims_desk --dialogue -p oracle -n 47 -o runs/talks")
    rehearse(base, f"run --awm {AWM} e_commerce_lab_1 -p random -n 20 -g 2 -o runs/awm")
    rehearse(base, "export runs/wide --to atif -o atif.jsonl")
    rehearse(base, "import atif atif.jsonl -o runs/imported")
    asked = f"--agent {_AGENT}:agent -m m --base-url {model.url} --history full"
    rehearse(base, f"run shop_support:ask-which-size {asked} -n 1 -o runs/agent")
    hostile_log(base / "runs" / "odd", base / "runs" / "wide" / "run.toml")
    return base


def hostile_log(run: Path, settings: Path) -> None:
    """A log with an episode for each odd name: of its task, its tag, its tool and its table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hostile, "TEXTS", _NAMES)
        in_thread(hostile.write_hostile, run, settings)


@pytest.fixture(scope="module")
def viewer(folder: Path) -> Iterator[Served]:
    """The viewer of these runs."""
    with serving(Path("runs"), cwd=folder, python=_PYTHON) as one:
        yield one


def rehearse(base: Path, words: str) -> str:
    """What the command line writes. Its status 1 only says that episodes failed."""
    command = [str(_PYTHON), "-m", "rehearsal_room", *words.split()]
    done = subprocess.run(command, cwd=base, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def told(base: Path, words: str) -> Any:
    """What the command line writes as JSON."""
    text = rehearse(base, f"{words} --json -")
    return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]


def opened(open_page: OpenPage, viewer: Served, run: str, rest: str = "", **more: Any) -> Walk:
    """A page of a run."""
    page = open_page(viewer.at(f"#/run/{viewer.run_id(run)}{rest}"), **more)
    page.wait_for_selector(".figures, .episode-bar")
    settle(page)
    return Walk(page)


def settle(page: Page) -> None:
    page.wait_for_function("() => !document.querySelector('.loading, .ghost')")


def shown(page: Page) -> int:
    """The number of episodes that the list has."""
    status = page.locator(".bar [role=status]")
    expect(status).to_have_text(re.compile("episodes?$"))
    return int(status.inner_text().split()[0].replace(",", ""))


def turn_of(page: Page, number: int) -> Locator:
    return page.get_by_role("article", name=f"Turn {number}", exact=True)


@pytest.mark.parametrize("run", ["wide", "desk", "random", "talks", "awm", "imported"])
def test_how_good_it_is_and_what_failed(
    open_page: OpenPage, viewer: Served, folder: Path, run: str
) -> None:
    """Without a click: rate and interval of the report, who played, and the kinds of `rehearse
    failures` with their numbers; the first kind's number leads to as many episodes."""
    report = json.loads((folder / "runs" / run / "report.json").read_bytes())
    kinds = {kind: one["episodes"] for kind, one in failures_of(folder, run).items()}
    page = opened(open_page, viewer, run).page
    played = next(iter(episodes_of(folder / "runs" / run).values())).started.policy
    expect(page.locator("p.lead").first).to_contain_text(played.partition(" ")[0])
    if rate := (report.get("statistics") or {}).get("completed"):
        figures = page.locator(".figures")
        expect(figures).to_contain_text(f"{100 * rate['value']:.1f}%")
        expect(figures).to_contain_text(f"{100 * rate['lower']:.1f}% to {100 * rate['upper']:.1f}%")
    card = page.get_by_label("What failed most")
    rows = [row.split("\t")[:2] for row in card.locator("tbody tr").all_inner_texts()]
    found = {name.strip().lower().replace(" ", "_"): int(number) for name, number in rows}

    assert found == kinds
    if kinds:
        card.locator("tbody tr").first.get_by_role("link").nth(1).click()
        assert shown(page) == max(kinds.values())


def failures_of(folder: Path, run: str) -> dict[str, Any]:
    return dict(told(folder, f"failures runs/{run}")["kinds"])


def test_what_an_own_agent_sent(open_page: OpenPage, viewer: Served, model: RecordingModel) -> None:
    """One click at turn 3 shows the messages and tools of the bytes that the endpoint got, though
    the log keeps each request as what is new in it."""
    walk = opened(open_page, viewer, "agent", "/episode/e000000")
    walk.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    turn = turn_of(walk.page, 3)
    walk.click(turn.get_by_role("button", name="What the model saw"))
    request = turn.get_by_role("region", name="Request for this turn")
    sent = json.loads(model.answered[2])
    expect(request.locator(".message")).to_have_count(len(sent["messages"]))
    request.get_by_role("button", name="Copy as JSON").click()
    copied = json.loads(walk.page.evaluate("navigator.clipboard.readText()"))

    assert copied["messages"] == sent["messages"]
    assert copied["tools"] == sent["tools"]
    assert walk.presses == 1


def test_15_a_changed_reply_of_an_own_agent(
    open_page: OpenPage, viewer: Served, folder: Path, model: RecordingModel
) -> None:
    """Two clicks and the text: five tries beside the original. The agent cannot begin in the
    middle, which the page says; its model goes on, and read the changed reply."""
    walk = opened(open_page, viewer, "agent", "/episode/e000000")
    page = walk.page
    before = len(model.answered)
    walk.click(page.get_by_role("link", name="Fork before turn 2", exact=True))
    page.get_by_label("Reply of turn 2").fill("First, which size do you wear?")
    expect(page.get_by_text("keeps its own memory")).to_be_visible()
    expect(page.locator(".go-on .command code")).to_contain_text("-p openai -m m")
    walk.click(page.get_by_role("button", name="Play 5 tries"))
    expect(page.get_by_text("5 tries played")).to_be_visible(timeout=120_000)
    expect(page.locator(".tries tbody tr")).to_have_count(6)
    assert walk.presses == 2
    [tries] = (folder / "runs").glob("shop_support-tries*")
    played = episodes_of(tries).values()

    assert [one.first_own_turn for one in played] == [2] * 5
    assert {one.steps[1].reply.text for one in played} == {"First, which size do you wear?"}
    read = [data for data in model.answered[before:] if b"which size do you wear?" in data]
    assert len(read) >= 5  # beside one that only tries whether the server answers


def test_the_world_of_a_server(open_page: OpenPage, viewer: Served, folder: Path) -> None:
    """Rows at the call, SQL after the turn, and a replay that is equal; in a fork a call that the
    server refuses is shown with its error, and tries play on from it."""
    episodes = episodes_of(folder / "runs" / "desk")
    name, turn = next(
        (name, number)
        for name, one in episodes.items()
        for number, step in enumerate(one.steps, 1)
        if len(one.steps) > 1 and any(result.changes for result in step.results)
    )
    changes = [one for result in episodes[name].steps[turn - 1].results for one in result.changes]
    walk = opened(open_page, viewer, "desk", f"/episode/{name}")
    page = walk.page
    expect(turn_of(page, turn).locator(".change")).to_have_count(len(changes))
    walk.click(page.get_by_role("button", name="Replay"))
    expect(page.get_by_text(re.compile("everything is equal to the log"))).to_be_visible()
    walk.click(page.get_by_role("link", name=f"World after turn {turn}", exact=True))
    walk.write(page.get_by_role("textbox", name="Query"), "SELECT count(*) + 41 FROM stock")
    page.go_back()
    page.get_by_role("link", name="Fork before turn 2", exact=True).click()
    page.get_by_role("combobox", name="Tool", exact=True).select_option("close_ticket")
    page.locator(".tool-form input[required]").fill("T-99")
    page.locator(".tool-form button[type=submit]").click()
    expect(page.locator(".call").last).to_contain_text("no open ticket T-99")
    page.get_by_label("Tries", exact=True).fill("2")
    page.get_by_role("button", name="Play 2 tries").click()
    expect(page.get_by_text("2 tries played")).to_be_visible(timeout=120_000)
    [tries] = (folder / "runs").glob("desk-tries*")
    made = episodes_of(tries)["e000001"]

    assert made.steps[1].results[0].is_error and "T-99" in made.steps[1].results[0].text


@pytest.mark.parametrize("run", ["wide", "imported"])
def test_tries_of_a_generated_task(
    open_page: OpenPage, viewer: Served, folder: Path, run: str
) -> None:
    """A task of a run without groups has all of its eight tries, also where they were imported; two
    of them stand side by side, and part where the log says."""
    episodes = episodes_of(folder / "runs" / run)
    walk = opened(open_page, viewer, run)
    row = walk.page.get_by_role("grid", name="Tasks").locator(".grid-row").last
    task = row.get_by_role("link").first.inner_text()
    walk.click(row.get_by_role("link").first)
    tries = [name for name, one in episodes.items() if one.started.task == task]
    expect(walk.page.get_by_role("grid", name="Tries").locator(".grid-row")).to_have_count(8)
    walk.click(walk.page.get_by_role("button", name=re.compile("Side by side")))
    heads = walk.page.locator(".sides.head a.mono")
    expect(heads).to_have_count(2)
    one, two = (episodes[head] for head in heads.all_inner_texts())
    pairs = zip(one.steps, two.steps, strict=False)
    differing = (number for number, (a, b) in enumerate(pairs, 1) if a.decision != b.decision)
    parting = next(differing, min(len(one.steps), len(two.steps)) + 1)

    assert len(tries) == 8 and {one.episode, two.episode} <= set(tries)
    head = walk.page.get_by_label("Where they part").get_by_role("heading", level=2).first
    expect(head).to_have_text(f"Turn {parting}")
    assert walk.presses == 2


@pytest.mark.parametrize(
    ("a", "b"), [("random", "talks"), ("desk", "solved"), ("wide", "imported")]
)
def test_very_different_runs_are_compared(
    open_page: OpenPage, viewer: Served, folder: Path, a: str, b: str
) -> None:
    """The verdict is that of `rehearse compare`, or the reason why there is none."""
    done = subprocess.run(
        [str(_PYTHON), "-m", "rehearsal_room", "compare", f"runs/{a}", f"runs/{b}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    page = open_page(viewer.at("#/runs"))
    walk = Walk(page)
    walk.click(page.get_by_label(f"Choose {a} for comparing"))
    walk.click(
        page.get_by_role("row", name=re.compile(f"^.*{b}")).get_by_role("link", name="Compare")
    )
    verdict = page.get_by_label("Verdict on B").locator(".big")
    expect(verdict).to_have_text(re.compile("better by|no difference|share no task"))
    words = (verdict.text_content() or "").split(" (95 %")[0].split(": B less")[0]

    assert words in " ".join((done.stdout + done.stderr).split()).replace(f"runs/{b} ", "B ")
    assert walk.presses == 2


def test_a_hit_and_the_bar_stay_on_the_screen(
    open_page: OpenPage, viewer: Served, folder: Path
) -> None:
    """A search in what tools said has the episodes of the log; its hit opens the turn. There, at
    every width, the list's keys and the search of the episode are on the screen, and do not cover
    the turn's head."""
    wanted = {
        name
        for name, one in episodes_of(folder / "runs" / "wide").items()
        for step in one.steps
        for result in step.results
        if re.search(r"(?<![^\W_])conflict", result.text, re.IGNORECASE)
    }
    for width in (1440, 1024, 390):
        walk = opened(open_page, viewer, "wide", "/episodes", width=width, height=700)
        page = walk.page
        walk.write(page.get_by_label("Search the text of the episodes"), "tool:conflict")
        page.wait_for_selector(".hit mark")
        if width == 1440:
            assert set(rows_of(page)) == wanted
            page.locator(".grid-scroll").evaluate("one => (one.scrollTop = 0)")
        walk.click(page.locator(".grid-row .hit").first)
        page.wait_for_function("() => CSS.highlights.get('found-now')?.size === 1")
        page.locator(".turn").last.scroll_into_view_if_needed()
        page.get_by_role("button", name="Next turn").click()
        expect(page.locator(".turn.current")).to_be_in_viewport()
        expect(page.get_by_role("navigation", name="List")).to_be_in_viewport(ratio=1)
        expect(page.get_by_label("Find in this episode")).to_be_in_viewport(ratio=1)
        page.wait_for_timeout(200)
        bar = page.locator(".episode-bar").bounding_box()
        head = page.locator(".turn.current .turn-head").bounding_box()
        assert bar is not None and head is not None
        assert head["y"] >= bar["y"] + bar["height"], width
        walk.press("n")
        expect(page.get_by_role("navigation", name="List")).to_contain_text(f"2 of {len(wanted)}")
        assert walk.presses <= 3


def test_odd_names_are_filters_of_themselves(open_page: OpenPage, viewer: Served) -> None:
    """A task, tag, tool, table and failed call with a minus, a plus, a colon or signs of an address
    in its name leads to its one episode, from the table of tasks and from the facets; excluded, to
    all others."""
    walk = opened(open_page, viewer, "odd", "/episodes")
    page = walk.page
    page.wait_for_selector(".facet")
    for title in ("Task", "Tag", "Called tool", "Changed table"):
        for name in _NAMES:
            choice = page.locator(f".picks label:has(> span:text-is('{title}')) select")
            choice.select_option(value=name)
            expect(page.locator(".chip.on")).to_have_count(1)
            expect(page.locator(".chip.on b")).to_have_text(name)
            assert (title, name, shown(page)) == (title, name, 1)
            page.locator(".chip.on .turn-round").click()
            assert (title, name, shown(page)) == (title, name, len(_NAMES) - 1)
            page.get_by_role("button", name="Remove").first.click()
            expect(page.locator(".chip.on")).to_have_count(0)
    page.get_by_role("link", name="Tasks", exact=True).click()
    settle(page)
    card = page.get_by_label("Which tool fails most")
    for name in _NAMES:
        row = card.get_by_role("row").filter(has=page.get_by_text(name, exact=True))
        row.get_by_role("link").last.click()
        assert (name, shown(page)) == (name, 1)
        page.go_back()
        settle(page)


def test_a_run_that_goes_while_an_episode_is_open(
    browser: Browser, folder: Path, tmp_path: Path
) -> None:
    """The turns stay, the page says what happened, a label is refused in a sentence, and what was
    typed is still there."""
    run = tmp_path / "leaving"
    shutil.copytree(folder / "runs" / "random", run)
    with serving(run, cwd=tmp_path) as viewer:
        page = browser.new_page()  # its console has the refusal
        page.goto(viewer.at(f"#/run/{viewer.run_id('leaving')}/episode/e000014"))
        page.wait_for_selector(".hand-label")
        turns = page.locator(".turn").count()
        shutil.move(run, tmp_path / "moved")
        expect(page.get_by_text("was deleted or moved")).to_be_visible()
        page.get_by_role("textbox", name="Note").fill("It opened a recovery.")
        page.get_by_role("button", name="Keep the note").click()
        expect(page.locator(".hand-label [role=alert]")).to_contain_text("cannot be written")
        expect(page.get_by_role("textbox", name="Note")).to_have_value("It opened a recovery.")

        assert page.locator(".turn").count() == turns > 0
        assert not run.exists()
        page.close()
