"""The samples, a server that shows them, and a browser.

SAMPLES=FOLDER keeps the samples between two sessions; else they are made in a temporary folder,
once for all worker processes, of which each has a copy.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support.made_once import made_once
from tests.support.paths import ROOT
from tests.viewer_web import samples
from tests.viewer_web.served import Served, serving

CHROMIUM = "/usr/bin/chromium"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A page waits for a server, which may have to play a task first."""
    for item in items:
        item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sample runs."""
    if kept := os.environ.get("SAMPLES"):
        folder = Path(kept)
        folder.mkdir(parents=True, exist_ok=True)
        _make(folder)
        return folder
    made = made_once(tmp_path_factory, "samples-made", _make)
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("own") / "samples"))


def _make(folder: Path) -> None:
    samples.make(folder)
    python = ROOT / ".venv" / "bin" / "python"  # this environment has no torch
    command = [str(python), "-m", "tests.viewer_web.samples", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


@pytest.fixture(scope="session")
def served(runs: Path) -> Iterator[Served]:
    """The viewer of the sample runs."""
    with serving(Path(runs.name), cwd=runs.parent) as one:
        yield one


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium. As root it has no sandbox of its own."""
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--js-flags=--expose-gc", "--force-prefers-reduced-motion"]
        one = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield one
        one.close()


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a URL in a context of its own. A script error, a message on the console, or a refusal
    by the content security policy fails the test."""
    contexts: list[BrowserContext] = []
    found: list[str] = []

    def open_one(url: str, *, width: int = 1280, height: int = 860, **options: object) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            **options,  # type: ignore[arg-type]
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: found.append(str(error)))
        page.on(
            "console",
            lambda message: message.type == "error" and found.append(message.text),
        )
        page.goto(url)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert found == []


@pytest.fixture
def page(open_page: OpenPage, served: Served) -> Page:
    """The list of runs."""
    return open_page(served.url)
