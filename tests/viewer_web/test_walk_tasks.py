"""Questions of users about tasks, reasons and runs beside each other, walked in Chromium: clicks
are counted, and each answer is compared with what the command line or the log says.

The runs are real ones of the command line. One asks a model: there the test plays a chat server on
loopback, since only its tokens matter.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.judge.statistics.intervals import exact_interval
from rehearsal_room.judge.statistics.outcomes import by_task, read_outcomes
from tests.support.judged_runs import served as model_served
from tests.support.model_server import Completes
from tests.support.paths import ROOT
from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.samples import rehearse
from tests.viewer_web.served import Served, serving
from tests.viewer_web.test_accessibility import AXE, violations
from tests.viewer_web.test_journeys import wait_for

MOST_CLICKS = 3
_MUTANTS = ("shop_support", "flight_desk", "-p", "mutant", "-n", "160", "-g", "4", "--seed", "5")
_RUNS: dict[str, tuple[str, ...]] = {
    "walk": _MUTANTS,
    "wide": ("shop_support", "-p", "mutant", "-n", "360", "--seed", "3"),  # each task eight times
    "solved": ("shop_support", "claims_desk", "-p", "oracle"),
    "random": ("flight_desk", "-p", "random", "-n", "54"),
    "unjudged": ("shop_support", "-p", "random", "--judge", "none"),
    "once": ("shop_support:cancel-duplicate", "-p", "mutant"),
}


class Walk:
    """Clicks on a page, and counts them."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    def click(self, target: Locator) -> None:
        """Click, and wait for what comes."""
        target.click()
        self.clicks += 1
        assert self.clicks <= MOST_CLICKS
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is loading."""
        self.page.wait_for_function("() => !document.querySelector('.loading, .ghost')")


@pytest.fixture(scope="module")
def folder(runs: Path) -> Path:
    """The folder of the runs that are walked; kept as long as the samples are."""
    folder = runs.parent / "walked"
    for name, arguments in _RUNS.items():
        if not (folder / name / "report.json").exists():
            rehearse("run", *arguments, "-o", folder / name)
    if not (folder / "priced" / "report.json").exists():
        _ask_a_model(folder / "priced")
    return folder


def _ask_a_model(run: Path) -> None:
    prices = run.parent / "prices.toml"
    prices.write_text("[models.m]\ninput = 1.0\noutput = 10.0\n")
    with model_served(Completes("I cannot help.")) as server:
        asked = ("-p", "openai", "-m", "m", "--base-url", server.url, "--prices", prices)
        rehearse("run", "shop_support", "-n", "90", *asked, "-o", run)


@pytest.fixture(scope="module")
def walked(folder: Path) -> Iterator[Served]:
    """The viewer of these runs."""
    with serving(folder, cwd=folder.parent) as one:
        yield one


def told(*arguments: object) -> Any:
    """What the command line writes as JSON."""
    command = [sys.executable, "-m", "rehearsal_room", *map(str, arguments), "--json", "-"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return json.loads(done.stdout[done.stdout.index(b"{") :])


def report_of(run: Path) -> Any:
    return json.loads((run / "report.json").read_bytes())


def at_run(open_page: OpenPage, walked: Served, name: str) -> Walk:
    """The page of a run, as its link in the list opens it."""
    page = open_page(walked.at(f"#/run/{walked.run_id(name)}"))
    page.wait_for_selector(".grid-row")
    walk = Walk(page)
    page.wait_for_selector(".figures")
    walk.settle()
    return walk


def episodes_shown(page: Page) -> int:
    """The number of episodes that the list has."""
    status = page.locator(".bar [role=status]")
    expect(status).to_have_text(re.compile(r"episodes?$"))
    return int(status.inner_text().split()[0].replace(",", ""))


def test_how_good_is_it(open_page: OpenPage, walked: Served, folder: Path) -> None:
    """Task 1: rate and interval of `rehearse show` stand in the head, without a click."""
    walk = at_run(open_page, walked, "walk")
    rate = report_of(folder / "walk")["statistics"]["completed"]
    shown = walk.page.locator(".figures").inner_text()

    assert f"{100 * rate['value']:.1f}%" in shown
    assert f"{100 * rate['lower']:.1f}% to {100 * rate['upper']:.1f}%" in shown
    assert walk.clicks == 0


def test_what_failed_most_often(open_page: OpenPage, walked: Served, folder: Path) -> None:
    """Task 2: the first kind, with its count, is on the page that a run opens on; its cell leads to
    as many episodes."""
    walk = at_run(open_page, walked, "walk")
    counts = report_of(folder / "walk")["failures"]
    kind = max(sorted(counts), key=counts.__getitem__)
    row = walk.page.get_by_label("What failed most").get_by_role("row").nth(1)
    expect(row).to_have_text(re.compile(f"^{kind.replace('_', ' ').capitalize()}{counts[kind]}"))
    walk.click(row.get_by_role("link").nth(1))

    assert episodes_shown(walk.page) == counts[kind]


def test_ten_worst_tasks(open_page: OpenPage, walked: Served, folder: Path) -> None:
    """Task 20: the table opens with the worst task first, with intervals; ten rows are those of the
    log. By world it has the rates of all worlds, one click away."""
    walk = at_run(open_page, walked, "wide")
    outcomes = by_task(read_outcomes(folder / "wide"))
    rates = {
        key[1]: exact_interval([one.score or 0.0 for one in group])
        for key, group in outcomes.items()
    }
    rows = walk.page.get_by_role("grid", name="Tasks").locator(".grid-row")
    shown = [row.split("\n") for row in rows.all_inner_texts()[:10]]
    worst = sorted(one.value for one in rates.values() if one is not None)[:10]

    assert [float(row[2].split("%")[0]) for row in shown] == [round(100 * one) for one in worst]
    for name, _, rate, *_ in shown:
        one = rates[name]
        assert one is not None
        wanted = f"{100 * one.value:.0f}% {100 * one.lower:.0f}% to {100 * one.upper:.0f}%"
        assert " ".join(rate.split()) == wanted
    walk.click(walk.page.get_by_role("button", name="Worlds"))
    expect(walk.page.get_by_role("grid", name="Worlds").locator(".grid-row")).to_have_count(1)


def test_which_tool_fails_most(open_page: OpenPage, walked: Served, folder: Path) -> None:
    """Task 21: the tool with the most failed calls stands first, with its errors; a cell leads to
    the episodes that have such a call. Counted again from the log."""
    calls: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    episodes: dict[tuple[str, str], set[str]] = {}
    with open_reader(folder / "walk") as reader:
        for one in reader.trajectories():
            for step in one.steps:
                made = zip(step.executed_calls, step.executed_results, strict=False)
                for call, result in made:
                    if result.error is not None:
                        key = call.name, str(result.error)
                        calls[call.name] += 1
                        pairs[key] += 1
                        episodes.setdefault(key, set()).add(one.episode)
    walk = at_run(open_page, walked, "walk")
    row = walk.page.get_by_label("Which tool fails most").get_by_role("row").nth(1)
    tool = row.get_by_role("rowheader").inner_text()
    total = row.get_by_role("cell").first.inner_text()

    assert (calls[tool], int(total)) == (max(calls.values()), max(calls.values()))
    head = walk.page.get_by_label("Which tool fails most").get_by_role("columnheader")
    error = head.nth(2).inner_text().lower()
    cell = row.get_by_role("cell").nth(1)
    assert int(cell.inner_text()) == pairs[tool, error]
    walk.click(cell.get_by_role("link"))
    assert episodes_shown(walk.page) == len(episodes[tool, error])


def test_dearest_and_slowest_episodes(open_page: OpenPage, walked: Served, folder: Path) -> None:
    """Task 27: both are on the page, by the log's tokens, at the run's prices, and by its seconds;
    a click shows all episodes in this order. The test plays the model's server."""
    tokens: dict[str, tuple[int, int]] = {}
    took: dict[str, float] = {}
    with open_reader(folder / "priced") as reader:
        for one in reader.trajectories():
            usages = [step.reply.usage for step in one.steps if step.reply.usage is not None]
            tokens[one.episode] = (
                sum(usage.prompt_tokens for usage in usages),
                sum(usage.completion_tokens for usage in usages),
            )
            assert one.ended is not None
            took[one.episode] = one.ended.seconds
    walk = at_run(open_page, walked, "priced")
    dearest = walk.page.get_by_label("Dearest episodes").get_by_role("row").nth(1).inner_text()
    slowest = walk.page.get_by_label("Slowest episodes").get_by_role("row").nth(1).inner_text()
    most = max(tokens.values(), key=lambda one: one[0] + 10 * one[1])
    named = re.search(r"e\d{6}", dearest)

    assert named is not None and tokens[named[0]] == most
    assert f"{sum(most):,} tokens" in dearest
    assert took[str(re.search(r"e\d{6}", slowest)[0])] == max(took.values())  # type: ignore[index]
    walk.click(walk.page.get_by_label("Slowest episodes").get_by_role("link").last)
    expect(walk.page.locator(".grid-row").first).to_contain_text(max(took, key=took.__getitem__))


def test_the_same_task_in_two_runs(open_page: OpenPage, walked: Served, folder: Path) -> None:
    """Task 7: from the runs, one is chosen and another, whose tasks differ, compared with it; a
    task of both opens its two episodes side by side. The verdict is that of `rehearse compare`."""
    page = open_page(walked.at("#/runs"))
    page.wait_for_selector(".grid-row")
    walk = Walk(page)
    walk.click(page.get_by_label("Choose walk for comparing"))
    other = page.get_by_role("row", name=re.compile("^.*solved"))
    walk.click(other.get_by_role("link", name="Compare"))
    verdict = page.get_by_label("Verdict on B").locator(".big")
    found = told("compare", folder / "walk", folder / "solved")
    expect(verdict).to_contain_text(f"{found['verdict']} (95 % interval")
    expect(verdict).to_contain_text("p < 0.0001" if found["p"] < 0.0001 else f"{found['p']:.3g}")
    task = found["gained"][0].partition(":")[2]
    row = page.get_by_role("grid", name="Tasks").get_by_role("row", name=re.compile(task)).first
    walk.click(row.get_by_role("link").first)

    expect(page.get_by_label("Where they part")).to_be_visible()
    heads = page.locator(".sides.head .card")
    expect(heads.nth(0)).to_contain_text(task)
    expect(heads.nth(1)).to_contain_text(task)
    expect(heads.nth(1)).to_contain_text("Completed")


def test_two_tries_of_one_task(open_page: OpenPage, walked: Served, folder: Path) -> None:
    """Task 8: in a run without groups that plays each task eight times, a task's row has all of its
    tries; two of them are side by side with one click more: the first turn whose calls or rows
    differ is that of the log, and the rows that differ are there."""
    walk = at_run(open_page, walked, "wide")
    row = walk.page.get_by_role("grid", name="Tasks").locator(".grid-row").first
    task = row.get_by_role("link").first.inner_text()
    walk.click(row.get_by_role("link").first)
    with open_reader(folder / "wide") as reader:
        names = [one.episode for one in reader.episodes() if one.task == task]
        trajectories = {name: reader.trajectory(name) for name in names}
    assert len(names) == 8
    expect(walk.page.get_by_role("grid", name="Tries").locator(".grid-row")).to_have_count(8)
    walk.click(walk.page.get_by_role("button", name=re.compile("Side by side")))
    heads = walk.page.locator(".sides.head a.mono")
    expect(heads).to_have_count(2)
    one, two = (trajectories[head.inner_text()] for head in heads.all())
    parting = next(
        number
        for number, (a, b) in enumerate(zip(one.steps, two.steps, strict=False))
        if a.decision != b.decision or digests(a) != digests(b)
    )
    head = walk.page.get_by_label("Where they part").get_by_role("heading", level=2).first
    expect(head).to_have_text(f"Turn {parting + 1}")
    expect(walk.page.get_by_text("What differs in their worlds after this")).to_be_visible()


def digests(step: Any) -> list[str]:
    return [result.digest for result in step.executed_results]


def test_every_pair_of_very_different_runs(
    open_page: OpenPage, folder: Path, tmp_path: Path
) -> None:
    """No pair fails in the browser, also with a run that is playing and one that was imported: each
    shows a verdict, or why there is none, the figures of both runs and their tasks. What they say
    is compared with the command in tests/viewer/test_compared.py."""
    chats, imported, live = tmp_path / "chats.jsonl", tmp_path / "imported", tmp_path / "live"
    rehearse("export", folder / "solved", "--to", "sft", "-o", chats)
    rehearse("import", "chat", chats, "--scenario", "shop_support", "-o", imported)
    plays = ("run", "shop_support", "-p", "mutant", "-n", "45000", "-c", "2", "-o", str(live))
    with (
        subprocess.Popen(
            [sys.executable, "-m", "rehearsal_room", *plays],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as run,
        serving(folder, imported, wait_for(live), cwd=tmp_path) as served,
    ):
        page = open_page(served.at("#/runs"))
        for a, b in combinations([*_RUNS, "priced", "imported", "live"], 2):
            one, two = served.run_id(a), served.run_id(b)
            page.goto(served.at(f"#/compare?run={one}&run={two}"))
            expect(page.get_by_role("table").first).to_contain_text(re.compile(f"A {a}.*B {b}"))
            verdict = page.get_by_label("Verdict on B").locator(".big")
            expect(verdict).to_have_text(re.compile("better by|no difference|share no task"))
            tasks = page.get_by_role("grid", name="Tasks").locator(".grid-row")
            expect(tasks.first).to_be_visible()
        assert run.poll() is None
        run.terminate()
        page.context.close()


def test_the_pages_are_accessible_at_any_width(open_page: OpenPage, walked: Served) -> None:
    """Tasks, kinds, reasons, tries, comparisons and pairs have no violation at 1440, 1024 and 390
    pixels, in light and dark, and none scrolls sideways."""
    run, other = walked.run_id("walk"), walked.run_id("wide")
    compared = walked.get(f"/api/compare?run={run}&run={other}")
    a, b = next(row["pairs"][0] for row in compared["rows"] if row["changes"] != ["left out"])
    group = walked.episodes("wide", "limit=1")[0]["group"]
    six = "&".join(f"run={walked.run_id(name)}" for name in _RUNS)
    pages = (
        *(f"run/{run}/tasks", f"run/{run}/tasks?by=kind", f"run/{other}/grid"),
        *(f"run/{other}/group/{group}", f"run/{run}/throughput", f"compare?run={run}&run={other}"),
        *(f"compare?{six}", f"pair?run={run}&a={a}&other={other}&b={b}", "runs"),
    )
    found: list[str] = []
    for width in (1440, 1024, 390):
        for scheme in ("light", "dark"):
            page = open_page(walked.url, bypass_csp=True, color_scheme=scheme, width=width)
            for address in pages:
                page.goto(walked.at(f"#/{address}"))
                page.wait_for_selector(".grid-row, .chart canvas, .parting")
                page.wait_for_function("() => !document.querySelector('.loading, .ghost')")
                page.evaluate("window.axe") or page.add_script_tag(path=AXE)
                found += [f"{width} {scheme} {address}: {one}" for one in violations(page)]
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    found.append(f"{width} {address}: it scrolls sideways")
            page.context.close()

    assert not found, "\n".join(found)


def test_cells_are_reached_by_keyboard(open_page: OpenPage, walked: Served) -> None:
    """In a row of tasks Right goes from cell to cell, Enter opens one as its filter; in the list of
    runs Right and Space choose a run for comparing."""
    walk = at_run(open_page, walked, "walk")
    page = walk.page
    page.locator("[data-row='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator("[data-row='1'] a:focus")).to_have_text("4")
    page.keyboard.press("Enter")
    assert episodes_shown(page) == 4
    page.goto(walked.at("#/runs"))
    page.locator("[data-row='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Compare (1 of 2 chosen)")).to_be_visible()
