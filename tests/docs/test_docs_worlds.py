"""The documents on writing, generating, synthesising and proving worlds agree with the code."""

import re
from pathlib import Path

import click
import msgspec
import pytest
from msgspec import inspect

import rehearsal_room.judge.gate.awm_record
import rehearsal_room.judge.gate.package
from rehearsal_room.cli.worlds.gate import check_command
from rehearsal_room.cli.worlds.generate import generate_command
from rehearsal_room.cli.worlds.synthesize import synthesise_command
from rehearsal_room.scenarios.api import Db
from rehearsal_room.scenarios.call_checks import CallCheck, Expectation
from rehearsal_room.scenarios.checks import Check
from rehearsal_room.scenarios.generate.plan.business_modules import module_names
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.splits import SPLITS, trades_of
from rehearsal_room.scenarios.generate.vocabulary.trades import trade_names
from rehearsal_room.scenarios.mcp_tasks import read_mcp_tasks
from rehearsal_room.scenarios.synth.core.prompt_files import NAMES
from tests.support.paths import ROOT

DOCS = ROOT / "docs"


def text_of(document: str) -> str:
    """The text of a page."""
    return (DOCS / document).read_text(encoding="utf-8")


def rows_of(text: str, head: str) -> list[list[str]]:
    """The cells of the table whose first line begins so, without that line and the rule."""
    lines = text[text.index(f"\n{head}") :].strip().splitlines()
    table = lines[2 : next((at for at, line in enumerate(lines) if line[:1] != "|"), len(lines))]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_every_knob_is_shown_with_its_default() -> None:
    """The table of knobs has them all, in order, with the defaults of the code."""
    shown = {
        name.strip("` "): float(default)
        for names, defaults, _ in rows_of(text_of("generating.md"), "| knob |")
        for name, default in zip(names.split(","), defaults.split(","), strict=True)
    }

    assert shown == msgspec.structs.asdict(Knobs())


def test_what_generating_draws_from_is_counted() -> None:
    """Modules, trades, held-out trades and splits are as many as the document says."""
    text = text_of("generating.md")

    assert f"there are {len(module_names())}) is one part of a business" in text
    assert f"there are {len(trade_names())}) says which modules" in text
    assert len(trades_of("trades")) == 5
    assert f"Five of the {len(trade_names())} trades are held out" in text
    assert [row[0].strip("`") for row in rows_of(text, "| split |")] == list(SPLITS)


def test_every_prompt_is_named() -> None:
    """The document on synthesis names the files that `--prompts` may replace."""
    section = text_of("synthesis.md").partition("## Prompts")[2].partition("## ")[0]

    assert sorted(set(re.findall(r"`(\w+)`", section))) == list(NAMES)


@pytest.mark.parametrize(
    "source", [rehearsal_room.judge.gate.package, rehearsal_room.judge.gate.awm_record]
)
def test_every_check_is_listed(source: object) -> None:
    """The checks that the gate's docstrings list are in the document's table."""
    names = re.findall(r"^    (\w+) {2,}", source.__doc__ or "", re.MULTILINE)
    shown = {row[0].strip("`") for row in rows_of(text_of("gate.md"), "| check |")}

    assert len(names) > 5
    assert set(names) - shown == set()


@pytest.mark.parametrize(
    ("document", "command"),
    [
        ("generating.md", generate_command),
        ("synthesis.md", synthesise_command),
        ("gate.md", check_command),
    ],
)
def test_documents_show_flags_that_exist(document: str, command: click.Command) -> None:
    """Each flag after the command in an example is one of the command's."""
    known = {flag for parameter in command.params for flag in parameter.opts}
    text = text_of(document).replace("\\\n", " ")
    examples = re.findall(rf"^rehearse (?:worlds )?{command.name} (.*)$", text, re.MULTILINE)
    lines = [line.partition(" #")[0] for line in examples]
    used = {flag for line in lines for flag in re.findall(r"(?<=\s)--?[a-z][a-z-]*", line)}

    assert used - known == set()
    assert len(examples) >= 1


@pytest.mark.parametrize(("kind", "head"), [(Db, "| `Db` |"), (Check, "| `Check` |")])
def test_every_method_of_a_world_is_listed(kind: type, head: str) -> None:
    """The tables of Db and Check name every public method."""
    names = {name for name in dir(kind) if not name.startswith("_")} - {"findings", "changes"}
    cells = " ".join(row[0] for row in rows_of(text_of("worlds.md"), head))

    assert names - set(re.findall(r"(?:`db\.|`)(\w+)", cells)) == set()


def test_the_task_file_of_an_mcp_server_can_be_read(tmp_path: Path) -> None:
    """The page's file is one that the reader accepts, and its tables name every key."""
    text = text_of("external-worlds.md")
    file = tmp_path / "tasks.toml"
    file.write_text(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0])

    scenario = read_mcp_tasks(file, "https://server.example/mcp")

    assert [task.id for task in scenario.tasks] == ["milk"]
    for kind, head in ((CallCheck, "| key of `[[task.check]]` |"), (Expectation, "| rule |")):
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        cells = " ".join(" ".join(row) for row in rows_of(text, head))
        assert [one.name for one in info.fields if f"`{one.name}" not in cells] == []
