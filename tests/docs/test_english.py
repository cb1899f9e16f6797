"""Plain English in what users read: pages, README and every help text.

Readers are working engineers, many of them not native speakers.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rehearsal_room.cli.main import cli
from tests.support.english import stumbles
from tests.support.paths import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"```.*?```|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)", re.DOTALL)
SPOKEN = re.compile(r"^\d+\. \*[^*\n]+\*: .*$", re.MULTILINE)  # tasks, as colleagues put them
QUOTED = re.compile(r"^\|.*\| (?:now|write) \|.*?$|^> .*$", re.MULTILINE)


def commands(group: click.Group, path: str = "rehearse") -> Iterator[tuple[str, click.Command]]:
    """Every command with its path, such as `rehearse worlds check`."""
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands(cli))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_in_plain_english(page: Path) -> None:
    """No page has a phrase over which readers stumbled."""
    text = SPOKEN.sub(" ", CODE.sub(" ", page.read_text(encoding="utf-8")))
    assert stumbles(text) == []


@pytest.mark.parametrize("path", COMMANDS)
def test_a_help_text_is_in_plain_english(path: str) -> None:
    """No help text has such a phrase, and each begins with a sentence."""
    command = COMMANDS[path]
    with click.Context(command, info_name=path, help_option_names=["-h", "--help"]) as context:
        text = command.get_help(context)

    assert stumbles(text) == []
    assert re.match(r"[A-Z].*[.:]", (command.help or "").strip(), re.DOTALL), "no sentence"


@pytest.mark.parametrize("path", COMMANDS)
def test_every_flag_has_a_phrase_that_stands_alone(path: str) -> None:
    """A flag's help is a phrase of three words or more that names its subject first."""
    odd = re.compile(r"^(?:Of|Who|Whom|What if|As|In|That|Under|About|From|Where|Not)\b")
    bad = {
        parameter.name: parameter.help
        for parameter in COMMANDS[path].params
        if isinstance(parameter, click.Option) and not parameter.hidden
        if not parameter.help
        or len(parameter.help.split()) < 3
        or not parameter.help[0].isupper()
        or not parameter.help.rstrip().endswith((".", ")"))
        or odd.match(parameter.help)
    }

    assert bad == {}


def test_the_check_sees_what_it_checks() -> None:
    """Each phrase of earlier editions is found, and plain sentences are not."""
    for old in (
        "it is told in a sentence",
        "whoever asks",
        "this is no list",
        "cannot be had here",
    ):
        assert stumbles(old) != [], old
    assert stumbles("There is no episode 'e7'. It is no longer used.") == []
