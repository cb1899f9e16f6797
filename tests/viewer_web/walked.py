"""A user's walk through the viewer: presses are counted, and answers are compared with the log."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Download, Locator, Page

from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader


@dataclass
class Walk:
    """A page, and how often somebody pressed something: a pointer, a key that acts, or Enter after
    a word."""

    page: Page
    presses: int = 0

    def click(self, where: Locator) -> None:
        """Press the pointer."""
        self.presses += 1
        where.click()

    def press(self, key: str) -> None:
        """Press a key."""
        self.presses += 1
        self.page.keyboard.press(key)

    def write(self, where: Locator, text: str) -> None:
        """Type a text and Enter."""
        self.presses += 1
        where.fill(text)
        where.press("Enter")

    @contextmanager
    def download(self, where: Locator) -> Iterator[list[Download]]:
        """Press a button that stores a file; the list has it when the block is left."""
        found: list[Download] = []
        with self.page.expect_download() as one:
            self.click(where)
            yield found
        found.append(one.value)


def rows_of(page: Page) -> list[str]:
    """The ids of all episodes of the table, in its order."""
    page.wait_for_function("() => !document.querySelector('.loading, .ghost')")
    page.wait_for_timeout(300)
    found: dict[int, str] = {}
    total = int(page.locator("[role=grid]").get_attribute("aria-rowcount") or 1) - 1
    while len(found) < total:
        for row in page.locator(".grid-row:not(.waiting)").all():
            number = int(row.get_attribute("data-row") or 0)
            found[number] = row.locator("a.mono").inner_text()
        page.locator(".grid-scroll").evaluate("one => (one.scrollTop += 300)")
        page.wait_for_timeout(60)
    return [found[number] for number in sorted(found)]


def episodes_of(run: Path) -> dict[str, Trajectory]:
    """The episodes of a log."""
    with open_reader(run) as reader:
        return {one.episode: one for one in reader.trajectories()}
