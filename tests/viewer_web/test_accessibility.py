"""Every page for every reader: axe-core, phone width, forced colours, keyboard alone."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.paths import ROOT
from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.served import Served
from tests.viewer_web.views import show, views, wrong_episode

AXE = ROOT / ".venv-viewer" / "web" / "node_modules" / "axe-core" / "axe.min.js"
MODES = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced": {"color_scheme": "light", "forced_colors": "active"},
}


def violations(page: Page) -> list[str]:
    """What axe-core finds: rule, element, reason."""
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][-160:]}"
        for one in found["violations"]
        for node in one["nodes"][:2]
    ]


@pytest.mark.parametrize("mode", MODES)
def test_axe_finds_nothing(open_page: OpenPage, served: Served, mode: str) -> None:
    """No page has a violation, in light and dark and with forced colours."""
    # The policy forbids foreign scripts, so that of the test is let in past it.
    page = open_page(served.url, bypass_csp=True, **MODES[mode])
    found: list[str] = []
    for view in views(served):
        show(page, served, view)
        page.evaluate("window.axe") or page.add_script_tag(path=AXE)
        found += [f"{view.name}: {one}" for one in violations(page)]
    assert not found, "\n".join(found)


def test_no_page_scrolls_sideways_on_a_phone(open_page: OpenPage, served: Served) -> None:
    """At 360 pixels no page is wider than the screen."""
    page = open_page(served.url, width=360, height=740)
    wide = {}
    for view in views(served):
        show(page, served, view)
        if (width := page.evaluate("document.documentElement.scrollWidth")) > 360:
            wide[view.name] = width
    assert wide == {}


def test_every_control_has_a_name_and_can_be_reached(open_page: OpenPage, served: Served) -> None:
    """On every page Tab reaches every control that a mouse can use (in a grid: its current row,
    whose arrows reach the others), and each has a name."""
    page = open_page(served.url)
    missed = {}
    for view in views(served):
        show(page, served, view)
        if nameless := page.evaluate(_UNREACHED):
            missed[view.name] = nameless
    assert missed == {}


# Controls without a name, or out of reach of Tab that are in no grid row.
_UNREACHED = """() => [...document.querySelectorAll('button, a[href], input, select, textarea')]
  .filter((one) => one.checkVisibility() && !one.disabled)
  .filter((one) => {
    const name = one.ariaLabel || one.textContent || one.labels?.[0]?.textContent || one.title;
    return !name?.trim() || (one.tabIndex < 0 && !one.closest('[role=row]'));
  })
  .map((one) => one.outerHTML.slice(0, 120))"""


def test_the_journey_works_by_keyboard(open_page: OpenPage, served: Served) -> None:
    """From the runs to the first wrong write, the world there and a fork, without a mouse."""
    episode = wrong_episode(served)["episode"]
    page = open_page(served.at("#/runs"))
    page.wait_for_selector(".grid-row")
    tab_to(page, "mutant")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("mutant|judged|windows"))
    page.goto(served.at(f"#/run/{served.run_id('mutant')}?episode={episode}"))
    page.wait_for_selector(".grid-row")
    page.keyboard.press("/")
    expect(page.get_by_label("Search the text of the episodes")).to_be_focused()
    page.goto(served.at(f"#/run/{served.run_id('mutant')}/episode/{episode}"))
    page.wait_for_selector(".jumps .danger")
    page.keyboard.press("w")
    expect(page.locator(".call:focus")).to_be_in_viewport()
    page.keyboard.press("j")
    expect(page.locator(".turn.current")).to_be_in_viewport()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", name=re.compile("World"))).to_be_visible()
    page.wait_for_selector(".grid-row, .notice")
    page.keyboard.press("p")
    page.keyboard.press("f")
    expect(page.get_by_role("heading", name=re.compile("Fork"))).to_be_visible()
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def tab_to(page: Page, text: str) -> None:
    """Press Tab until a row is in focus, then Down until it has the text."""
    for _ in range(40):
        if page.evaluate("document.activeElement.role") == "row":
            break
        page.keyboard.press("Tab")
    for _ in range(40):
        if text in page.evaluate("document.activeElement.innerText"):
            return
        page.keyboard.press("ArrowDown")
    raise AssertionError(f"no row with {text!r} can be reached")


def test_single_letter_keys_can_be_switched_off(open_page: OpenPage, served: Served) -> None:
    """The help has a switch, since speech input types letters (WCAG 2.1.4)."""
    page = open_page(served.at("#/runs"))
    page.wait_for_selector(".grid-row")
    page.keyboard.press("?")
    page.get_by_label("Single-letter keys are on").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("t")

    assert page.locator("html").get_attribute("data-theme") is None


def test_a_print_has_the_conversation_and_no_controls(open_page: OpenPage, served: Served) -> None:
    """In print the bars and buttons are gone and nothing is cut."""
    run, episode = served.run_id("mutant"), wrong_episode(served)["episode"]
    page = open_page(served.at(f"#/run/{run}/episode/{episode}"))
    page.wait_for_selector(".turn")
    page.emulate_media(media="print")

    expect(page.locator(".top")).to_be_hidden()
    expect(page.locator(".jumps")).to_be_hidden()
    assert page.locator(".turn").count() == len(
        served.get(f"/api/runs/{run}/episodes/{episode}")["turns"]
    )
    assert len(page.pdf()) > 10_000
