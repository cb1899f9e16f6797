"""Whatever an agent, a world or a judge writes stays text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from tests.viewer_web.hostile import TEXTS, write_hostile
from tests.viewer_web.logs import in_thread
from tests.viewer_web.samples import rehearse
from tests.viewer_web.served import Served, serving

# Characters that hide or move text (src/rehearsal_room/viewer/web/src/base/text.js shows them).
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\U000e0020-\U000e007f]"
)
_FOREIGN = "script:not([src]), img, iframe, object, embed, video, audio, form[action], base, math"
_STATE = f"""() => ({{
  pwned: window.pwned ?? null,
  foreign: [...document.querySelectorAll({_FOREIGN!r})].map((one) => one.outerHTML.slice(0, 80)),
  handlers: [...document.querySelectorAll('*')].filter(
    (one) => one.getAttributeNames().some((name) => name.startsWith('on'))).length,
  links: [...document.querySelectorAll('a[href]')].filter(
    (one) => one.origin !== location.origin).map((one) => one.href),
  text: document.body.textContent,
  rows: document.querySelectorAll('[role=row], tr, .turn').length,
}})"""


@pytest.fixture(scope="module")
def hostile(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The viewer of a run with hostile texts everywhere."""
    folder = tmp_path_factory.mktemp("hostile") / "hostile"
    in_thread(write_hostile, folder, runs / "judged" / "run.toml")
    with serving(folder, cwd=folder.parent) as one:
        yield one


def test_there_are_sixty_texts() -> None:
    """The list has not shrunk."""
    assert len(TEXTS) >= 60


def test_hostile_texts_are_inert_and_visible(browser: Browser, hostile: Served) -> None:
    """In every episode: no script runs, no dialog opens, no request leaves, no element or handler
    comes from a text; the text is there from its beginning to its end, its hidden characters are
    shown, and it is laid out beside what we write (`bdi`)."""
    page, asked, dialogs = watched(browser)
    run = hostile.run_id("hostile")
    page.goto(hostile.at(f"#/run/{run}/episodes"))
    page.wait_for_selector(".grid-row a")
    failed = problems(page.evaluate(_STATE), "the table")
    for number in range(len(TEXTS)):
        page.goto(hostile.at(f"#/run/{run}/episode/e{number:06d}"))
        page.wait_for_selector(f'h1 ~ .mono:text-is("e{number:06d}")')
        page.wait_for_selector(".turn")
        state = page.evaluate(_STATE)
        failed += problems(state, f"text {number}")
        if f"BEGIN{number} " in TEXTS[number]:
            missing = [
                word for word in (f"BEGIN{number}", f"END{number}") if state["text"].count(word) < 6
            ]
            failed += [f"text {number}: {word} is missing" for word in missing]
    tables = [f"tasks?by={by}" for by in ("task", "world", "tag", "kind")]
    for view in ("overview", "grid", "throughput", *tables, "group/g3"):
        page.goto(hostile.at(f"#/run/{run}/{view}"))
        page.wait_for_selector(".card, .grid-row")
        page.wait_for_function("() => !document.querySelector('.loading, .ghost')")
        failed += problems(page.evaluate(_STATE), view)
    for view in (f"compare?run={run}&run={run}", f"pair?run={run}&a=e000003&other={run}&b=e000004"):
        page.goto(hostile.at(f"#/{view}"))
        page.wait_for_selector(".grid-row, .parting")
        failed += problems(page.evaluate(_STATE), view)

    assert not failed, "\n".join(failed)
    assert dialogs == []
    assert [url for url in asked if not url.startswith(("http://127.0.0.1:", "data:"))] == []
    page.context.close()


def watched(browser: Browser) -> tuple[Page, list[str], list[str]]:
    """A page, the requests that it makes, and the dialogs that it opens."""
    page = browser.new_context().new_page()
    asked: list[str] = []
    dialogs: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.on("dialog", lambda one: (dialogs.append(one.message), one.dismiss()))
    return page, asked, dialogs


def problems(state: dict[str, object], where: str) -> list[str]:
    """What a text has done to the page."""
    found = [
        f"{where}: {name} {state[name]}" for name in ("pwned", "foreign", "links") if state[name]
    ]
    if state["handlers"]:
        found.append(f"{where}: {state['handlers']} handlers")
    if hidden := _HIDDEN.search(str(state["text"]).replace("\n", " ")):
        found.append(f"{where}: the character {hidden[0]!r} is hidden")
    if int(str(state["rows"])) > 300:
        found.append(f"{where}: {state['rows']} rows")
    return found


def test_a_long_text_is_cut_at_first(browser: Browser, hostile: Served) -> None:
    """A text of 200,000 characters is cut; "Show all" shows it as text."""
    number = next(i for i, text in enumerate(TEXTS) if text.startswith("xxx"))
    page, _, _ = watched(browser)
    run = hostile.run_id("hostile")
    page.goto(hostile.at(f"#/run/{run}/episode/e{number:06d}"))
    page.wait_for_selector(".answer")
    before = page.locator(".answer").inner_text()
    page.locator(".answer .show-all").click()
    after = page.locator(".answer").inner_text()

    assert len(before) < 5_000
    assert len(after) > 200_000
    page.context.close()


def test_a_dangerous_address_is_only_text(browser: Browser, hostile: Served) -> None:
    """An address with markup or an unknown view shows a sentence."""
    page, _, dialogs = watched(browser)
    for view in ("#/<img src=x onerror=alert(1)>", "#/run/%3Cscript%3E/episode/%00", "#/%E0%A4%A"):
        page.goto(hostile.at(view))
        page.wait_for_selector(".notice")
        assert page.evaluate(_STATE)["foreign"] == []
    assert dialogs == []
    page.context.close()


def test_hostile_notes_hits_and_addresses_are_inert(
    browser: Browser, hostile: Served, runs: Path, tmp_path: Path
) -> None:
    """Notes and names of labellers that other programs wrote, the snippets of a search, and filters
    of an address stay texts: in the table, on the episode, in the queue, in an exported file."""
    folder = tmp_path / "noted"
    in_thread(write_hostile, folder, runs / "judged" / "run.toml")
    lines = [
        {"episode": f"e{number:06d}", "label": "completed", "labeller": text[:200], "note": text}
        for number, text in enumerate(TEXTS)
    ]
    (folder / "labels.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    exported = tmp_path / "noted.html"
    rehearse("view", folder, "--export", exported, "--filter", "text=BEGIN1 OR BEGIN2")
    with serving(folder, cwd=tmp_path) as served:
        page, asked, dialogs = watched(browser)
        run = served.run_id("noted")
        odd = quote(TEXTS[1])
        pages = [served.at(f"#/run/{run}?text=BEGIN{number}") for number in range(1, len(TEXTS), 7)]
        pages += [served.at(f"#/run/{run}/episode/e{number:06d}") for number in range(len(TEXTS))]
        pages += [
            served.at(f"#/run/{run}?text=evil+OR+script+OR+word"),
            served.at(f"#/run/{run}?failure={odd}&{odd}={odd}&tool=-{odd}&sort={odd}"),
            served.at(f"#/run/{run}/judge?by_hand=others"),
            served.at(f"#/run/{run}/episode/e000002?in={quote(f'task={odd}')}&find={odd}&turn=x"),
            f"file://{exported}#/run/{run}?text=BEGIN1",
            f"file://{exported}#/run/{run}/episode/e000001?find={odd}",
        ]
        failed = []
        for address in pages:
            page.goto("about:blank")
            page.goto(address)
            page.wait_for_selector(".hit mark, .said-by, .chip.on, .label-choice, .list-bar")
            page.wait_for_timeout(150)
            state = page.evaluate(_STATE)  # an exported file has its own script in the page
            state["foreign"] = [one for one in state["foreign"] if "Rehearsal (Apache" not in one]
            failed += problems(state, address)
        page.context.close()

    assert not failed, "\n".join(failed)
    assert dialogs == []
    allowed = ("http://127.0.0.1:", "data:", "file:", "about:")
    assert [url for url in asked if not url.startswith(allowed)] == []
