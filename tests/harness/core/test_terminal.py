"""What others wrote is shown on a terminal and in logs, never obeyed."""

import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rehearsal_room.harness.core.terminal import Terminal, escaped_output, show_traceback
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.rollout.process import configure_logging
from rehearsal_room.scenarios.format import BUNDLED
from tests.support.cli import Rehearse, json_of
from tests.support.paths import ROOT

PACKAGES = ("envpool", "harness", "judge", "learner", "scenarios")
# Clears the screen, sets the title of the window, copies to the clipboard, makes a link, turns the
# direction of text, an 8-bit CSI, a bell, and a letter that nobody sees.
HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07\x1b]52;c;cm0gLXJm\x1b\\\x1b]8;;http://evil\x1b\\"
    "\u202egnp.exe\u2066\x9b31m\x07\r\x08\U000e0041\ud800[bold]x[/y]:smile:"
)
texts = st.text(st.characters(codec=None) | st.sampled_from("\x1b\x9b\x07\r\u202e\u2066[];m"))


def obeyed(text: str) -> set[str]:
    """The characters that a terminal would act on, and half surrogate pairs."""
    return {c for c in text if c not in "\t\n" and printable(c) != c}


def shown_by(render: Callable[[Console], Any]) -> str:
    console = Terminal(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    render(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def table_of(text: str) -> Table:
    table = Table(text, title=text, caption=text)
    table.add_row(text)
    table.add_row(Text(text, "bold"))
    return table


@given(text=texts)
@pytest.mark.parametrize(
    "renderable",
    [str, Text, table_of, Panel, lambda text: Panel(text, title=text, subtitle=text)],
    ids=["text", "Text", "table", "panel", "titled panel"],
)
def test_a_terminal_obeys_nothing_in_a_text(renderable: Callable[[str], Any], text: str) -> None:
    """Whatever is printed, only tabs and line ends are left of its control characters."""
    assert obeyed(shown_by(lambda console: console.print(renderable(text)))) == set()


def test_markup_and_emoji_in_a_text_are_text() -> None:
    """A tag or a name of an emoji is printed as it is, and a wrong tag is not an error."""
    assert shown_by(lambda console: console.print("[bold]x[/y] :smile:")) == (
        "[bold]x[/y] :smile:\n"
    )


def test_colours_and_live_displays_still_work() -> None:
    """Styles and the movements of a live display reach the terminal; a text beside them does
    not."""
    file = io.StringIO()
    console = Terminal(file=file, width=80, force_terminal=True, color_system="standard")
    with Live(Text(f"a{HOSTILE}", "red"), console=console, auto_refresh=False):
        console.print(Text("b", "green"))
    out = file.getvalue()
    assert "\x1b[31m" in out
    assert "\x1b[32mb" in out
    assert not {"\x1b]0;", "\x1b]52", "\u202e", "\x9b", "\x07"} & {
        mark for mark in ("\x1b]0;", "\x1b]52", "\u202e", "\x9b", "\x07") if mark in out
    }


def _log(text: str) -> None:
    configure_logging(0)
    log = structlog.get_logger()
    log.warning(text, why=text, many=[text])
    try:
        raise ValueError(text)
    except ValueError:
        log.exception("failed")
    structlog.reset_defaults()


def _crash(text: str) -> None:
    error = ValueError(text)
    show_traceback(ValueError, error, None)


@pytest.mark.parametrize(
    "write",
    [
        lambda text: sys.stdout.write(text),
        lambda text: sys.stderr.writelines([text, text]),
        click.echo,
        lambda text: click.echo(text, err=True),
        lambda text: click.ClickException(text).show(),
        lambda text: click.UsageError(text).show(),
        lambda text: Terminal().print(text),
        lambda text: Terminal(stderr=True).print(text),
        _log,
        _crash,
    ],
    ids=lambda write: getattr(write, "__name__", ""),
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_every_way_out_escapes(
    write: Callable[[str], Any], encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever prints, through whichever library, on a terminal of whichever encoding: the text
    arrives, and nothing in it is obeyed."""
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding) for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    with escaped_output():
        write(f"ä{HOSTILE}")
    written = ""
    for stream in streams.values():
        stream.flush()
        written += stream.buffer.getvalue().decode(encoding)
        assert stream.errors == "strict"
    assert obeyed(written) == set()
    assert "owned" in written
    assert "gnp.exe" in written


def test_bytes_pass_unchanged(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """JSON is written to the bytes below, so it stays exact."""
    with escaped_output():
        sys.stdout.buffer.write(b'"\x7f\xc2\x9b"')
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b'"\x7f\xc2\x9b"'


@pytest.fixture
def hostile_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The shop with a hostile text in every field that TOML can hold it in."""
    escape = "".join(
        f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
        for c in HOSTILE.replace("\ud800", "")
    )
    world = tmp_path / "worlds" / "hostile_shop"
    world.mkdir(parents=True)
    for file in (BUNDLED / "shop_support").iterdir():
        if file.is_file():
            text = file.read_text()
            if file.name == "scenario.toml":
                text = text.replace('name = "shop_support"', 'name = "hostile_shop"')
                for key in ("title", "description"):
                    text = text.replace(f'\n{key} = "', f'\n{key} = "{escape}', 1)
            if file.name == "tasks.toml":
                text = text.replace('instruction = "', f'instruction = "{escape}')
                text = text.replace('instruction = """', f'instruction = """{escape}')
            (world / file.name).write_text(text)
    monkeypatch.setenv("REHEARSE_WORLDS", str(world.parent))
    yield world


def test_commands_show_a_hostile_package_escaped(rehearse: Rehearse, hostile_world: Path) -> None:
    """`scenarios list`, `show` and a message that names a file show the title, the description and
    the instructions with their escapes; `--json` has them as they are."""
    for command in (["list"], ["show", hostile_world]):
        status, out, err = rehearse("scenarios", *command)
        assert (status, obeyed(out + err)) == (0, set()), err
        assert "owned" in "".join(out.split())
    shown = json_of(rehearse, "worlds", "show", hostile_world)
    assert "\x1b[2J" in shown["title"]
    status, out, err = rehearse("worlds", "show", f"no\x1b[2J{HOSTILE[:5]}")
    assert (status, obeyed(out + err)) == (2, set())
    assert "\\x1b[2J" in err
    status, out, err = rehearse("show", "no\udcff")  # a byte that is not UTF-8
    assert (status, obeyed(out + err)) == (2, set())


def test_a_run_of_a_hostile_package_is_shown_escaped(
    rehearse: Rehearse, hostile_world: Path, tmp_path: Path
) -> None:
    """A run, its list and its episodes obey nothing of a task's text."""
    folder = tmp_path / "run"
    status, out, err = rehearse("run", hostile_world, "-p", "oracle", "-n", "2", "-o", folder)
    assert status == 0, err
    for command in (["show", folder], ["show", folder, "e000000", "--full"]):
        status, shown, faults = rehearse(*command)
        assert status == 0, faults
        out, err = out + shown, err + faults
    assert obeyed(out + err) == set()
    assert "owned" in out


def test_only_the_border_makes_consoles() -> None:
    """Everything that prints with colours takes its console from the module of the border."""
    pattern = re.compile(r"(?<![\w.])Console\(|console\.Console\(|rich\.print")
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    made = [file for file in files if pattern.search(file.read_text())]
    assert made == []
