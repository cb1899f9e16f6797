"""The pictures of the documentation: every page on a desktop in light and dark, and on a phone.

They are written to a temporary folder, or to PICTURES=docs/pictures/viewer.
"""

import io
import os
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.served import Served
from tests.viewer_web.views import View, show, views

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


def take(page: Page, served: Served, view: View, *, is_phone: bool) -> Image.Image:
    """A picture of a view, in a palette of 256 colours."""
    if not is_phone:
        page.set_viewport_size({"width": 1280, "height": view.height})
    show(page, served, view)
    page.wait_for_timeout(300)  # charts are drawn in the frame after the next
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return image.quantize(256, dither=Image.Dither.NONE)
