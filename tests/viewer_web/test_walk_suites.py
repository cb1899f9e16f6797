"""What runs of suites have that those of worlds have not: rows that are JSON texts, a task that is
a world of its own with a long name, an opening that the task gave, a share of the task, and an
answer without text.

The log is written here with the log's own writer, as `rehearse eval` writes it; runs of the suites
themselves were looked at by hand (docs/viewer-tasks.md).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from shutil import copy

import pytest
from playwright.sync_api import Page, expect

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    Judged,
    Label,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import read
from tests.support.library_log import snapshot_of
from tests.support.paths import LIBRARY
from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.logs import in_thread
from tests.viewer_web.served import Served, serving

_LONG = "important_instructions_slack_user_task_20_injection_task_1"
_ORDER = {"address": {"city": "Phoenix"}, "items": [{"id": number} for number in range(40)]}
_NOTE = "A long note that both have. " * 20
_CHANGES = (
    (
        {**_ORDER, "status": "pending", "paid": [1], "why": None},
        {**_ORDER, "status": "cancelled", "paid": [1, 2]},
    ),
    (_NOTE + "Call Ann.", _NOTE + "Call Bob."),
    (
        json.dumps([1]),
        json.dumps([1]) + " ",
    ),  # the same value in other letters
    (
        "[" * 3000 + "1" + "]" * 3000,
        "[" * 3000 + "2" + "]" * 3000,
    ),  # too deep to be taken apart
    ({str(number): 1 for number in range(100)}, {str(number): 2 for number in range(100)}),
)


@pytest.fixture(scope="module")
def viewer(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The viewer of the log."""
    folder = tmp_path_factory.mktemp("suites") / "suite"
    in_thread(_write, folder, runs / "mutant" / "run.toml")
    with serving(folder, cwd=folder.parent) as one:
        yield one


async def _write(folder: Path, settings: Path) -> None:
    world = HostedScenario(read(LIBRARY))
    async with open_log(folder) as log:
        log.add_scenario(snapshot_of(world))
        for number, task in enumerate((world.scenario.name, _LONG)):
            for seq, event in enumerate(_events(world, task)):
                log.append(Record(f"e{number:06d}", 0, seq, 1_700_000_000.0, event))
            await log.wait_for_room()
    world.close()
    copy(settings, folder / "run.toml")


def _events(world: HostedScenario, task: str) -> list[Event]:
    lease = world.lease()
    texts = [
        [one if isinstance(one, str) else json.dumps(one) for one in pair] for pair in _CHANGES
    ]
    changes = tuple(
        RowChange("records", ("orders", str(number)), {"value": a}, {"value": b})
        for number, (a, b) in enumerate(texts)
    )
    call = AgentCall("cancel", {}, "c0")
    return [
        EpisodeStarted(
            scenario=world.scenario.name,
            task=task,
            instruction="A customer has joined the chat.",
            group="g0",
            member=0,
            group_size=1,
            seed=0,
            policy="mutant",
            dialect="native",
            history="full",
            fingerprint="f" * 16,
            scenario_digest=world.scenario.digest,
            start_digest=lease.start_digest,
            given=1,
        ),
        StepTaken(Reply("Hi! How can I help?"), Answer("Hi! How can I help?")),
        StepTaken(Reply("", (call,)), Act((call,)), (ToolResult("ok", changes=changes),)),
        StepTaken(Reply(""), Answer("")),
        EpisodeEnded(Ending.ANSWERED, "", 3, lease.state(), seconds=1.0),
        Judged(
            judge="code",
            label=Label.AGENT_ERROR,
            reward=0.0,
            step_rewards=(0.0, 0.0, 0.0),
            findings=(Finding("rubric 1", False, "closed", "open", "goal", share=0.5),),
        ),
    ]


def _episode(open_page: OpenPage, viewer: Served, name: str) -> Page:
    page = open_page(viewer.at(f"#/run/{viewer.run_id('suite')}/episode/{name}"))
    page.wait_for_selector(".turn")
    return page


def test_a_row_of_json_shows_what_differs(open_page: OpenPage, viewer: Served) -> None:
    """Only the parts that differ stand there, with what each was and is; what two long texts begin
    with alike is left out; of a hundred parts sixty stand there, and their number."""
    cards = _episode(open_page, viewer, "e000000").locator(".turn .change")

    def rows(number: int) -> list[list[str]]:
        lines = cards.nth(number).locator("tbody tr").all()
        return [line.locator("th, td").all_inner_texts() for line in lines]

    assert rows(0) == [
        ["value.status", "pending", "cancelled"],
        ["value.paid.1", "none", "2"],
        ["value.why", "null", "none"],
    ]
    [[name, before, after]] = rows(1)
    assert (name, before[0], after[0]) == ("value", "…", "…")
    assert before.endswith("Call Ann.") and after.endswith("Call Bob.")
    assert [row[0] for row in rows(2)] == ["value"]
    [[name, before, after]] = rows(3)
    assert name.startswith("value.0.0") and before != after
    assert len(rows(4)) == 60
    expect(cards.nth(4)).to_contain_text("The first 60 of 100 parts that differ.")


def test_the_opening_and_an_empty_answer(open_page: OpenPage, viewer: Served) -> None:
    """A turn that the task gave is not called a fork's, and an empty answer is said to be empty."""
    page = _episode(open_page, viewer, "e000000")
    first, last = (page.get_by_role("article", name=f"Turn {number}") for number in (1, 3))
    expect(first).to_contain_text("Given by the task")
    expect(last.locator(".answer")).to_contain_text("(empty)")
    expect(page.get_by_text("fork's origin")).to_have_count(0)


@pytest.mark.parametrize("width", [1440, 390])
def test_long_names_and_shares_have_room(open_page: OpenPage, viewer: Served, width: int) -> None:
    """No page is wider than its window, a rate with a share stays inside of its row, and the name
    of a world that is its task's stands there once."""
    address = f"#/run/{viewer.run_id('suite')}"
    for tab in ("tasks", "episodes", "grid", "overview", "episode/e000001"):
        page = open_page(viewer.at(f"{address}/{tab}"), width=width)
        page.wait_for_function("() => !document.querySelector('.loading, .ghost')")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, tab
        if tab == "tasks":
            rows = page.get_by_role("grid", name="Tasks").locator(".grid-row")
            expect(rows).to_have_count(2)
            inner, outer = (
                rows.first.locator(".stack").last.bounding_box(),
                rows.first.bounding_box(),
            )
            assert inner and outer and inner["y"] >= outer["y"]
            assert inner["y"] + inner["height"] <= outer["y"] + outer["height"]
            same = [text.split("\n") for text in rows.all_inner_texts()]
            assert sorted(one.count("library") for one in same) == [1, 1]
            expect(page.get_by_label("What failed most")).to_contain_text("not completed")
