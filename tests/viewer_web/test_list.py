"""The table of episodes and what is reached from it: labels, files, searches inside an episode."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.logs import in_thread, write_long
from tests.viewer_web.samples import rehearse
from tests.viewer_web.served import Served, serving
from tests.viewer_web.test_accessibility import AXE, violations
from tests.viewer_web.walked import Walk, episodes_of, rows_of

FORMULA = "=cmd|' /C calc'!A0, \"quoted\""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of mutants."""
    folder = tmp_path_factory.mktemp("list") / "listed"
    rehearse(
        "run", "shop_support", "-p", "mutant", "-n", "60", "-g", "4", "--seed", "2", "-o", folder
    )
    return folder


@pytest.fixture(scope="module")
def viewer(run: Path) -> Iterator[Served]:
    """The viewer of that run."""
    with serving(run, cwd=run.parent) as one:
        yield one


@pytest.fixture(scope="module")
def address(viewer: Served) -> str:
    """The address of the run's page."""
    return viewer.at(f"#/run/{viewer.run_id('listed')}")


def test_two_windows_label_one_episode(browser: Browser, address: str, run: Path) -> None:
    """The window that did not see the other's label stores nothing, says so, and keeps what was
    typed; a label given after that counts."""
    context = browser.new_context()
    one, two = context.new_page(), context.new_page()
    for page in (one, two):
        page.goto(f"{address}/episode/e000005")
        page.wait_for_selector(".hand-label")
    one.get_by_role("button", name="Completed", exact=False).first.click()
    expect(one.locator(".hand-label [role=status]")).to_contain_text("Kept")
    two.get_by_label("Note").fill("from the second window")
    with two.expect_response("**/judge/labels") as answer:
        two.keyboard.press("Tab")
        two.get_by_label("Your label").get_by_role("button", name="World error").click()
    assert answer.value.status == 400
    expect(two.locator(".hand-label [role=alert]")).to_contain_text("in another window")
    expect(two.get_by_label("Note")).to_have_value("from the second window")
    expect(
        two.get_by_label("Your label").get_by_role("button", name="Completed").first
    ).to_have_attribute("aria-pressed", "true")
    two.get_by_label("Your label").get_by_role("button", name="World error").click()
    expect(two.locator(".hand-label [role=alert]")).to_have_count(0)
    lines = [json.loads(line) for line in (run / "labels.jsonl").read_text().splitlines()]
    context.close()

    assert [(line["label"], line["note"]) for line in lines if line["episode"] == "e000005"] == [
        ("completed", ""),
        ("environment_error", "from the second window"),
    ]


def test_a_label_that_cannot_be_written_is_a_sentence(
    browser: Browser, run: Path, tmp_path: Path
) -> None:
    """In a folder of somebody else the page says why, and the note stays in its box. Here a folder
    stands where the file would be, which refuses even root."""
    folder = tmp_path / "other"
    rehearse("run", "shop_support", "-p", "mutant", "-n", "2", "-o", folder)
    with serving(folder, cwd=tmp_path) as served:
        page = browser.new_page()
        page.goto(served.at(f"#/run/{served.run_id('other')}/episode/e000000"))
        page.wait_for_selector(".hand-label")
        (folder / "labels.jsonl").mkdir()
        page.get_by_label("Note").fill("kept")
        page.get_by_role("button", name="Keep the note").click()
        expect(page.locator(".hand-label [role=alert]")).to_contain_text("labels.jsonl")
        expect(page.get_by_label("Note")).to_have_value("kept")
        page.close()


def test_the_table_as_csv(open_page: OpenPage, address: str, run: Path) -> None:
    """The file has the whole filtered table, as the log has it, and no cell that a spreadsheet
    would run."""
    page = open_page(f"{address}/episode/e000007")  # which failed
    page.get_by_label("Note").fill(FORMULA)
    page.get_by_role("button", name="Keep the note").click()
    expect(page.locator(".hand-label [role=status]")).to_contain_text("Kept")
    page.goto(f"{address}/episodes?label=agent_error&label=partially_completed&sort=-turns")
    expect(page.locator(".chip.on")).to_have_count(2)
    walk = Walk(page)
    with walk.download(page.get_by_role("button", name="CSV")) as files:
        pass
    text = Path(files[0].path()).read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    wanted = {
        name: (one.started.task, str(len(one.steps)), str(one.judged[-1].label))
        for name, one in episodes_of(run).items()
        if one.judged[-1].label != "completed"
    }

    assert {row["episode"]: (row["task"], row["turns"], row["label"]) for row in rows} == wanted
    assert [int(row["turns"]) for row in rows] == sorted(
        (int(row["turns"]) for row in rows), reverse=True
    )
    notes = {row["episode"]: row["my_note"] for row in rows}
    assert notes["e000007"] == f"'{FORMULA}"
    assert not any(cell.lstrip()[:1] in tuple("=+@") for row in rows for cell in row.values())


def test_an_episode_is_copied(open_page: OpenPage, address: str, run: Path) -> None:
    """As JSON, as Markdown and as a link: the replies and results of the log are in it."""
    page = open_page(
        f"{address}/episode/e000003?turn=2", permissions=["clipboard-read", "clipboard-write"]
    )
    page.wait_for_selector(".list-bar")
    one = episodes_of(run)["e000003"]
    results = [result.text for step in one.steps for result in step.results]

    copied = json.loads(press_copy(page, "JSON"))
    assert [result["text"] for turn in copied["turns"] for result in turn["results"]] == results
    markdown = press_copy(page, "Markdown")
    assert all(text in markdown for text in (one.started.instruction, *results))
    assert press_copy(page, "Link") == page.url


def press_copy(page: Page, name: str) -> str:
    """Press a button that copies; returns what the clipboard has."""
    page.locator(".copies").get_by_role("button", name=name, exact=True).click()
    expect(page.locator(".copies").get_by_role("button", name="Copied")).to_be_visible()
    text = str(page.evaluate("navigator.clipboard.readText()"))
    expect(page.locator(".copies").get_by_role("button", name="Copied")).to_have_count(0)
    return text


def test_a_text_is_found_inside_a_long_episode(
    open_page: OpenPage, runs: Path, tmp_path: Path
) -> None:
    """In 2,000 turns, of which a few are in the page, Enter goes from hit to hit, backwards too,
    and each is marked and in view."""
    folder = tmp_path / "long"
    in_thread(write_long, folder, runs / "mutant" / "run.toml", 2000)
    [one] = episodes_of(folder).values()
    last = one.ended.answer if one.ended else ""
    with serving(folder, cwd=tmp_path) as served:
        page = open_page(served.at(f"#/run/{served.run_id('long')}/episode/long"))
        page.wait_for_selector(".turn")
        page.keyboard.press("/")
        page.keyboard.type(last)
        page.keyboard.press("Enter")
        page.wait_for_function("() => CSS.highlights.get('found-now')?.size === 1")
        expect(page.locator(".find [role=status]")).to_contain_text("1 of ")
        page.keyboard.press("Shift+Enter")
        page.wait_for_function(_IS_MARKED, arg="Turn 2000")
        page.get_by_label("Find in this episode").fill("no such text")
        expect(page.locator(".find [role=status]")).to_have_text("Not found")
        page.context.close()


_IS_MARKED = """(turn) => {
  const [one] = CSS.highlights.get('found-now') ?? [];
  const box = one?.getBoundingClientRect();
  const place = one?.startContainer.parentElement.closest('.turn')?.ariaLabel;
  return place === turn && box.top > 0 && box.bottom < innerHeight;
}"""


QUERIES = (
    "",
    "label=-completed&sort=-turns",
    "failure=missing_write&failure=-wrong_value",
    "harm=broken_guard&sort=-reward",
    "text=refun",
    "text=tool:refund -voucher&ending=answered",
    'text="gift card" OR coupon',
    "text=e00001",
    "min_turns=4&max_reward=0.5&error=-refused&sort=-errors",
    "by_hand=mine",
    "task=-size-swap&tag=trap",
)


def test_an_exported_file_filters_as_the_server_does(
    open_page: OpenPage, browser: Browser, address: str, viewer: Served, run: Path, tmp_path: Path
) -> None:
    """For filters, orders and searches the file has the rows and the counts of the server."""
    path = tmp_path / "whole.html"
    rehearse("view", run, "--export", path)
    served, context = (
        open_page(f"{address}/episodes", width=1440),
        browser.new_context(offline=True),
    )
    file = context.new_page()
    file.set_viewport_size({"width": 1440, "height": 860})
    for query in QUERIES:
        seen = []
        for page, base in (
            (served, f"{address}/episodes"),
            (file, f"file://{path}#/run/{viewer.run_id('listed')}/episodes"),
        ):
            page.goto("about:blank")
            page.goto(f"{base}?{query}")
            page.wait_for_selector(".facet, .notice")
            seen.append((rows_of(page), page.locator(".facet").all_inner_texts()))
        assert seen[0] == seen[1], query
        assert seen[0][0] or "by_hand" in query, query
    context.close()


def test_an_error_of_a_search_is_a_sentence(browser: Browser, address: str) -> None:
    """In the page and with its place; the rest of the page stays, and so does what was typed."""
    page = browser.new_page()
    page.goto(f"{address}/episodes")
    field = page.get_by_label("Search the text of the episodes")
    for text, sentence in {
        'a "unbalanced': "the quote at character 3 is not closed",
        "\U0001f389": "only letters and digits are indexed",
        "refund OR": "OR at character 8 needs a word after it",
        "re*d": "is not at the end of the word",
        "x" * 3000: "at most 1,000 characters",
    }.items():
        field.fill(text)
        expect(page.get_by_role("alert")).to_contain_text(sentence)
        expect(field).to_have_value(text)
    page.close()


def test_a_search_is_one_step_of_back(open_page: OpenPage, address: str) -> None:
    """However many letters were typed; and Back puts the former text into the field."""
    page = open_page(f"{address}/episodes")
    page.wait_for_selector(".facet")
    field = page.get_by_label("Search the text of the episodes")
    field.press_sequentially("refund", delay=250)
    expect(page.locator(".chip.on")).to_have_count(1)
    field.press("Enter")
    page.get_by_role("button", name="Not Label: Completed").click()
    expect(page.locator(".chip.excluded")).to_have_count(1)
    page.go_back()
    expect(page.locator(".chip.on")).to_have_count(1)
    page.go_back()
    expect(page.locator(".chip.on")).to_have_count(0)
    expect(field).to_have_value("")


def test_what_an_old_link_has_is_named(open_page: OpenPage, address: str) -> None:
    """A filter and an order that are not known are named and left out; the known ones hold."""
    page = open_page(f"{address}?colour=red&label=agent_error&sort=-colour")
    expect(page.get_by_role("status").filter(has_text="colour=red, sort=-colour")).to_be_visible()
    expect(page.locator(".chip.on")).to_have_count(1)
    expect(page.locator(".grid-row").first).to_contain_text("Agent error")
    page.get_by_role("button", name="Remove it").click()
    assert page.url.endswith("?label=agent_error")


def test_the_first_row_is_near_by_keyboard(open_page: OpenPage, address: str) -> None:
    """From the search one key leads to the first row, where a digit labels the episode; from the
    skip link there are fewer than 25 steps."""
    page = open_page(f"{address}/episodes", width=1440)
    page.wait_for_selector(".facet")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    steps = 0
    while page.evaluate("document.activeElement.dataset.row") is None:
        page.keyboard.press("Tab")
        steps += 1
        assert steps < 25
    page.keyboard.press("/")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.row") == "0"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("4")
    expect(page.locator('[data-row="1"] .by-hand')).to_be_visible()
    assert page.evaluate("document.activeElement.dataset.row") == "1"


def test_nothing_is_cut_and_axe_finds_nothing(
    open_page: OpenPage, address: str, viewer: Served, run: Path, tmp_path: Path
) -> None:
    """At three widths, light and dark: the table with a search and exclusions, an episode with its
    label and a text that is found, a queue of a filter, and an exported part; at 1,440 pixels the
    table has all of its columns."""
    path = tmp_path / "part.html"
    rehearse("view", run, "--export", path, "--filter", "label=agent_error")
    name = viewer.run_id("listed")
    pages = {
        f"{address}/episodes": ".facet, .facets-fold",
        f"{address}/episodes?text=refun&failure=-wrong_value&colour=red": ".hit mark",
        f"{address}/episode/e000005?find=order&in=label%3Dagent_error": ".hand-label",
        f"{address}/judge?label=agent_error": ".label-choice",
        f"file://{path}#/run/{name}": "[role=note]",
    }
    found = []
    for width in (1440, 1024, 390):
        for scheme in ("light", "dark"):
            page = open_page(address, width=width, bypass_csp=True, color_scheme=scheme)
            for at, ready in pages.items():
                page.goto("about:blank")
                page.goto(at)
                page.wait_for_selector(ready)
                page.wait_for_function("() => !document.querySelector('.loading, .ghost')")
                page.add_script_tag(path=AXE)
                found += [f"{width} {scheme} {at[-60:]}: {one}" for one in violations(page)]
                if cut := page.evaluate(_CUT):
                    found.append(f"{width} {at[-60:]}: cut: {cut}")
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    found.append(f"{width} {at[-60:]}: wider than the screen")
                if width == 1440 and at == f"{address}/episodes":
                    expect(page.get_by_role("columnheader", name="Tokens")).to_be_visible()
            page.context.close()
    assert not found, "\n".join(found)


# Pills and buttons whose text does not fit into them, or into their cell.
_CUT = """() => {
  const isCut = (one) => one && one.scrollWidth > one.clientWidth + 1;
  return [...document.querySelectorAll('.label, .chip, .tag, .button, .grid-head > div')]
    .filter((one) => one.checkVisibility() && (isCut(one) || isCut(one.closest('[role=gridcell]'))))
    .map((one) => one.outerHTML.slice(0, 120));
}"""
