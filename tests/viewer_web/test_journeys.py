"""What people come for, done as they do it."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.support.paths import ROOT
from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.served import Served, serving
from tests.viewer_web.views import first_write, wrong_episode


def test_the_first_wrong_write_is_three_clicks_from_the_runs(page: Page, served: Served) -> None:
    """From the tasks of a run: a click on a kind of failure, one on an episode, one on the button:
    the call is in focus, and beside it are the rows that it changed."""
    page.get_by_role("grid", name="Runs").get_by_text(
        "mutant · native · full · shop_support, flight_desk"
    ).click()
    page.get_by_label("What failed most").get_by_role("link", name="Wrong value").first.click()
    row = page.get_by_role("row", name=re.compile("Agent error.*orders|Agent error.*segments"))
    row.first.click()
    page.get_by_role("button", name=re.compile("First (wrong )?write")).click()

    focused = page.locator(".call:focus")
    expect(focused).to_be_in_viewport()
    expect(focused.get_by_label("Changed rows")).to_be_visible()


def test_two_members_are_compared_where_they_part(open_page: OpenPage, served: Served) -> None:
    """From a task to two of its tries: the first decision that differs is marked, with the rows
    in which the two worlds differ after it."""
    run, failed = served.run_id("mutant"), wrong_episode(served)
    page = open_page(served.at(f"#/run/{run}/group/{failed['group']}"))
    boxes = page.get_by_role("grid", name="Tries").get_by_role("checkbox")
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.get_by_role("button", name=re.compile("Side by side")).click()

    expect(page.get_by_role("heading", name="Side by side")).to_be_visible()
    parting = page.get_by_label("Where they part")
    expect(parting.get_by_text("Here they part")).to_be_visible()
    expect(parting.get_by_role("heading", name="What differs in their worlds")).to_be_visible()


def test_a_fork_reaches_another_verdict(open_page: OpenPage, served: Served) -> None:
    """A failed episode is forked before its first wrong write. The calls of the task's solution,
    made in forms, and its answer bring the verdict `completed`."""
    run = served.run_id("mutant")
    episode, turn, calls, answer = forkable(served, run)
    page = open_page(served.at(f"#/run/{run}/episode/{episode}"))
    expect(page.locator(".label").first).not_to_have_text("Completed")
    page.locator(f'a[aria-label="Fork before turn {turn + 1}"]').click()
    for number, (tool, arguments) in enumerate(calls, 1):
        call(page, tool, arguments)
        expect(page.get_by_role("button", name=f"Calls ({number})")).to_be_visible()
    page.get_by_label("Final answer").fill(answer)
    page.get_by_role("button", name="Judge", exact=True).click()

    expect(page.locator(".judged .label").first).to_have_text("Completed")


def forkable(served: Served, run: str) -> tuple[str, int, list[tuple[str, dict[str, object]]], str]:
    """A failed episode of at least five turns that follows the solution until it writes wrongly at
    turn 5 or later; the turn; the calls that are left of the solution; its answer."""
    for row in served.episodes("mutant", "failure=wrong_value&label=agent_error&limit=200"):
        turn = first_write(served, run, row["episode"])
        if turn < 5:
            continue
        solution = served.get(f"/api/worlds/{row['scenario']}/tasks/{row['task']}/oracle")
        played = served.get(f"/api/runs/{run}/episodes/{row['episode']}")
        wanted, made = calls_of(solution), calls_of(played)
        if made[:turn] == wanted[:turn] and len(wanted) > turn:
            return row["episode"], turn, wanted[turn:], solution["answer"]
    raise AssertionError("no failed episode follows the solution for five turns")


def calls_of(episode: dict[str, list[dict[str, list[dict[str, dict[str, object]]]]]]) -> list:  # type: ignore[type-arg]
    return [(one["name"], one["arguments"]) for turn in episode["turns"] for one in turn["calls"]]


def call(page: Page, tool: str, arguments: dict[str, object]) -> None:
    """Fill in the form of a tool and send it."""
    page.get_by_role("combobox", name="Tool", exact=True).select_option(tool)
    for name, value in arguments.items():
        field = page.locator(
            ".tool-form label.field", has=page.locator("code", has_text=re.compile(f"^{name}$"))
        )
        if field.locator("select").count():
            wanted = str(value).lower() if isinstance(value, bool) else str(value)
            field.locator("select").select_option(label=wanted)
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            field.locator("input, textarea").fill(text)
    page.locator(".tool-form button[type=submit]").first.click()


def test_a_live_run_is_watched_to_its_end(open_page: OpenPage, tmp_path: Path) -> None:
    """Rows appear while the run plays, a row in view keeps its position, and at the end the page
    has every episode and no mark of a live run."""
    folder = tmp_path / "live"
    command = [
        *(
            sys.executable,
            "-m",
            "rehearsal_room",
            "run",
            "shop_support",
            "-p",
            "mutant",
            "-g",
            "40",
        ),
        *("-c", "16", "-o", str(folder)),
    ]
    with (
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as run,
        serving(wait_for(folder), cwd=tmp_path) as served,
    ):
        page = open_page(served.at(f"#/run/{served.run_id('live')}/episodes"))
        expect(page.get_by_text("Live", exact=True).first).to_be_visible()
        third = page.locator('[data-row="2"]')
        expect(third).to_contain_text("e000002")
        box = third.bounding_box()
        assert run.wait(timeout=120) == 0
        expect(page.locator(".page-head .tag")).to_have_text("Finished", timeout=30_000)

        total = served.get(f"/api/runs/{served.run_id('live')}")["line"]["episodes"]
        expect(page.locator(".bar [role=status]")).to_have_text(f"{total:,} episodes")
        expect(third).to_contain_text("e000002")
        now = third.bounding_box()
        assert box is not None and now is not None
        assert abs(now["x"] - box["x"]) < 1
        expect(page.locator(".grid-row.live")).to_have_count(0)
        page.context.close()


def test_what_is_typed_at_once_after_a_choice_stays(open_page: OpenPage, served: Served) -> None:
    """Who chooses a tool and types before the browser has painted its form loses nothing."""
    page = open_page(served.at("#/play?world=shop_support"))
    page.get_by_role("button", name="Play", exact=True).first.click()
    expect(page.locator(".tool-form select").first).to_be_visible()
    typed = page.evaluate(
        """async () => {
            const choice = document.querySelector(".tool-form select");
            choice.value = [...choice.options].find((one) => one.value !== choice.value).value;
            choice.dispatchEvent(new Event("change", { bubbles: true }));
            await Promise.resolve().then(() => {});
            const field = document.querySelector(".tool-form input");
            field.value = "typed at once";
            field.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((done) => setTimeout(done, 300));
            return document.querySelector(".tool-form input").value;
        }"""
    )
    assert typed == "typed at once"


def wait_for(folder: Path) -> Path:
    """The folder of a run that has begun."""
    log = folder / "episodes.sqlite"
    for _ in range(1200):
        if log.exists():
            return folder
        time.sleep(0.05)
    raise AssertionError(f"no run began in {folder}")


def test_a_task_is_played_in_the_browser(open_page: OpenPage, served: Served) -> None:
    """A person takes a task, makes the solution's calls in forms and answers: the verdict is
    there, and a link to the episode."""
    task = served.get("/api/worlds/shop_support")["tasks"][0]["id"]
    solution = served.get(f"/api/worlds/shop_support/tasks/{task}/oracle")
    page = open_page(served.at("#/play?world=shop_support"))
    row = page.get_by_role("row", name=re.compile(task))
    row.get_by_role("button", name="Play").click()
    for tool, arguments in calls_of(solution):
        before = page.get_by_label("Calls", exact=True).locator("article").count()
        call(page, tool, arguments)
        expect(page.get_by_label("Calls", exact=True).locator("article")).to_have_count(before + 1)
    page.get_by_label("Final answer").fill(solution["answer"])
    page.get_by_role("button", name="Give the answer").click()

    expect(page.get_by_label("Result").locator(".label").first).to_have_text("Completed")
    page.get_by_role("link", name="Look at the episode").click()
    expect(page.get_by_role("heading", name=task)).to_be_visible()


def test_a_dialogue_is_played_in_the_browser(open_page: OpenPage, tmp_path: Path) -> None:
    """What a person says goes to the task's user, whose reply is on the page; the talk goes on with
    calls until the user ends it, and the verdict is there."""
    with serving(cwd=tmp_path) as served:
        tasks = served.get("/api/worlds/shop_support")["tasks"]
        number = next(i for i, one in enumerate(tasks) if one["is_dialogue"])
        task = tasks[number]["id"]
        solution = served.get(f"/api/worlds/shop_support/tasks/{task}/oracle")
        page = open_page(served.at("#/play?world=shop_support"))
        rows = page.locator(".grid-scroll")
        expect(rows.locator(".grid-row").first).to_be_visible()
        rows.evaluate(f"one => (one.scrollTop = {60 * number})")
        row = page.get_by_role("row", name=re.compile(task))
        row.get_by_role("button", name="Play").click()
        expect(page.get_by_role("heading", name="Talk to the user")).to_be_visible()
        num_calls = num_spoken = 0
        for turn in solution["turns"]:
            for one in turn["calls"]:
                call(page, one["name"], one["arguments"])
                num_calls += 1
                calls = page.get_by_label("Calls", exact=True).locator("article")
                expect(calls).to_have_count(num_calls)
            if turn["answer"] is not None:
                page.get_by_label("What you say").fill(turn["answer"])
                page.get_by_role("button", name="Say", exact=True).click()
                if turn["user"] is not None and not turn["user"]["ended"]:
                    num_spoken += 1
                    expect(page.locator(".user-turn")).to_have_count(num_spoken)
                    expect(page.locator(".user-turn").last).to_contain_text(
                        turn["user"]["text"].split("\n")[0]
                    )

        assert num_spoken > 0
        expect(page.get_by_label("Result").locator(".label").first).to_have_text("Completed")
        page.context.close()


def test_a_replay_is_one_click(open_page: OpenPage, served: Served) -> None:
    """An episode's button makes its calls again: they are equal to the log."""
    run = served.run_id("oracle")
    page = open_page(served.at(f"#/run/{run}/episode/{served.episodes('oracle')[0]['episode']}"))
    page.get_by_role("button", name="Replay").click()

    expect(
        page.get_by_text(re.compile("Replayed: .* everything is equal to the log"))
    ).to_be_visible()


def test_a_label_by_hand_is_stored(open_page: OpenPage, served: Served) -> None:
    """Key 3 labels the episode in view and goes on to the next."""
    page = open_page(served.at(f"#/run/{served.run_id('judged')}/judge"))
    expect(page.locator(".label-choice")).to_be_visible()
    before = page.locator(".queue button[aria-current] .mono").inner_text()
    page.keyboard.press("3")

    line = page.locator(".queue button", has_text=before)
    expect(line.locator(".label")).to_have_text("Agent error")
    expect(page.locator(".queue button[aria-current] .mono")).not_to_have_text(before)


def test_a_view_is_saved_as_its_address(open_page: OpenPage, served: Served) -> None:
    """Filters, order and search stand in the address: a second window shows the same rows."""
    page = open_page(served.at(f"#/run/{served.run_id('mutant')}/episodes"))
    page.get_by_role("button", name=re.compile("Agent error")).first.click()
    page.get_by_label("Changed table").select_option("orders")
    page.get_by_role("button", name="Turns").click()
    page.get_by_label("Search the text of the episodes").fill("refund")
    expect(page.locator(".chip.on")).to_have_count(3)
    expect(page.get_by_role("columnheader", name="Turns")).to_have_attribute(
        "aria-sort", "descending"
    )
    rows = page.wait_for_function(_ROWS_WITH_HITS).json_value()

    other = open_page(page.url)
    expect(other.locator(".chip.on")).to_have_count(3)
    assert other.wait_for_function(_ROWS_WITH_HITS).json_value() == rows


# The texts of the first five rows, once all of them have a snippet; read in one go, since a list
# that is refreshed asks for its snippets again.
_ROWS_WITH_HITS = """() => {
  const rows = [...document.querySelectorAll('.grid-row')].slice(0, 5);
  const isReady = rows.length === 5 && rows.every((row) => row.querySelector('.hit mark'));
  return isReady && !document.querySelector('.ghost') && rows.map((row) => row.innerText);
}"""
