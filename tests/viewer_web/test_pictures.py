"""The pictures of the documentation: every page on a desktop in light and dark, and on a phone.

They are written to a temporary folder, or to PICTURES=docs/pictures/viewer. The page of a coding
agent needs its run, which `just agents claude_code` leaves in build/agents.
"""

import io
import os
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page

from tests.support.paths import ROOT
from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.served import Served, serving
from tests.viewer_web.views import View, show, views

CODING_AGENT = ROOT / "build" / "agents" / "claude_code"
_MOST = 150_000  # bytes of a picture
_SHAPES: dict[str, dict[str, object]] = {
    "": {"color_scheme": "light"},
    "-dark": {"color_scheme": "dark"},
    "-phone": {"color_scheme": "light", "width": 360, "height": 780},
}


def test_every_page_has_a_picture(open_page: OpenPage, served: Served, tmp_path: Path) -> None:
    """Each has at most 150 kB, and shows more than one colour."""
    folder = Path(os.environ.get("PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    shown = views(served)
    for suffix, options in _SHAPES.items():
        page = open_page(served.url, **options)
        for view in shown:
            picture = take(page, served, view, is_phone=suffix == "-phone")
            picture.save(folder / f"{view.name}{suffix}.png", optimize=True)
            assert len(picture.getcolors(1 << 16) or ()) > 8

    files = [folder / f"{view.name}{suffix}.png" for view in shown for suffix in _SHAPES]
    assert [file.name for file in files if file.stat().st_size > _MOST] == []


@pytest.mark.skipif(not CODING_AGENT.exists(), reason="just agents claude_code has not played")
def test_a_coding_agent_has_pictures(open_page: OpenPage, tmp_path: Path) -> None:
    """The end of an episode of Claude Code: what it asked its model, what it did, and its spans."""
    folder = Path(os.environ.get("PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    with serving(CODING_AGENT, cwd=CODING_AGENT.parent) as served:
        run = served.run_id(CODING_AGENT.name)
        row = min(
            served.episodes(CODING_AGENT.name, "label=completed"), key=lambda one: one["turns"]
        )
        address = f"#/run/{run}/episode/{row['episode']}"
        page = open_page(served.url, color_scheme="light")
        view = View("coding-agent", address, ".spans", 1000)
        picture = take(page, served, view, is_phone=False)
        picture.save(folder / f"{view.name}.png", optimize=True)
        page.locator(".spans").evaluate("(one) => one.closest('article').scrollIntoView()")
        page.locator(".spans summary").nth(2).click()
        spans = screenshot(page)
        page.close()  # before its server
        spans.save(folder / "coding-agent-spans.png", optimize=True)
    assert len(spans.getcolors(1 << 16) or ()) > 8


def take(page: Page, served: Served, view: View, *, is_phone: bool) -> Image.Image:
    """A picture of a view, in a palette of 256 colours."""
    if not is_phone:
        page.set_viewport_size({"width": 1280, "height": view.height})
    show(page, served, view)
    page.wait_for_timeout(300)  # charts are drawn in the frame after the next
    return screenshot(page)


def screenshot(page: Page) -> Image.Image:
    """What the page shows, in a palette of 256 colours."""
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return image.quantize(256, dither=Image.Dither.NONE)
