"""What the documents on generating, synthesising and proving worlds say is what there is."""

import re

import click
import msgspec
import pytest

import judge.gate.awm_record
import judge.gate.package
from judge.commands.gate import check_command
from judge.commands.generate import generate_command
from judge.commands.synthesize import synthesise_command
from scenarios.generate.plan.business_modules import module_names
from scenarios.generate.plan.knobs import Knobs
from scenarios.generate.plan.splits import SPLITS, trades_of
from scenarios.generate.vocabulary.trades import trade_names
from scenarios.synth.core.prompt_files import NAMES
from tests.support.paths import ROOT

DOCS = ROOT / "docs"


def text_of(document: str) -> str:
    return (DOCS / document).read_text(encoding="utf-8")


def rows_of(text: str, head: str) -> list[list[str]]:
    """The cells of the table whose first line begins so, without that line and the rule."""
    lines = text[text.index(f"\n{head}") :].strip().splitlines()
    table = lines[2 : next((at for at, line in enumerate(lines) if line[:1] != "|"), len(lines))]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_every_knob_is_listed_with_its_default() -> None:
    """The table of knobs has them all, in order, with the defaults that they have."""
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
    assert f"there are {len(trade_names())}) gives the words" in text
    assert len(trades_of("trades")) == 5
    assert f"Five of the {len(trade_names())} trades are held out" in text
    assert [row[0].strip("`") for row in rows_of(text, "| split |")] == list(SPLITS)


def test_every_prompt_is_named() -> None:
    """The document on synthesis names the files that `--prompts` may replace."""
    section = text_of("synthesis.md").partition("## Prompts")[2].partition("## ")[0]

    assert sorted(set(re.findall(r"`(\w+)`", section))) == list(NAMES)


@pytest.mark.parametrize("source", [judge.gate.package, judge.gate.awm_record])
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
def test_documents_show_flags_that_there_are(document: str, command: click.Command) -> None:
    """Each flag that follows the verb in an example is one of the verb's."""
    known = {flag for parameter in command.params for flag in parameter.opts}
    text = text_of(document).replace("\\\n", " ")
    examples = re.findall(rf"^    rehearse (?:scenarios )?{command.name} (.*)$", text, re.MULTILINE)
    used = {flag for line in examples for flag in re.findall(r"(?<=\s)--?[a-z][a-z-]*", line)}

    assert used - known == set()
    assert len(examples) >= 1
