"""The commands of the benchmarks: complete help, quick arguments that parse, one form of output."""

import importlib
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from benchmarks.__main__ import QUICK
from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, help_text

# The learner's benchmarks import torch and transformers, which takes seconds.
NAMES = [name for name in QUICK if not name.startswith("learner_")]


@benchmark("Measure nothing.\n\n    an indented  line\n")
@count_option("--worlds", 3, "Worlds that are measured.")
@click.option("--silent", is_flag=True, help="Return no figures.")
def command(worlds: int, silent: bool) -> list[Figure] | None:
    return None if silent else [figure("worlds", "", [worlds])]


def test_a_command_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    """The figures that the function returns are printed, and written where --json says."""
    path = tmp_path / "figures.json"
    ran = CliRunner().invoke(command, ["--worlds", "7", "--json", str(path)])
    assert (ran.exit_code, ran.output.split()[-4:]) == (0, ["worlds", "7", "7", "7"])
    assert msgspec.json.decode(path.read_bytes(), type=list[Figure]) == [figure("worlds", "", [7])]


def test_a_command_without_figures_prints_nothing() -> None:
    """A function that returns None has printed its own result."""
    ran = CliRunner().invoke(command, ["--silent"])
    assert (ran.exit_code, ran.output) == (0, "")


def test_a_wrong_count_is_a_usage_error() -> None:
    """A count is at least 1; the exit status of wrong usage is 2."""
    ran = CliRunner().invoke(command, ["--worlds", "0"])
    assert ran.exit_code == 2
    assert "'--worlds': 0 is not in the range x>=1" in ran.output


def test_indented_paragraphs_keep_their_lines() -> None:
    """click wraps prose and leaves marked paragraphs as they are written."""
    assert help_text("Title.\n\n    a  b\n    c\n") == "Title.\n\n\b\n    a  b\n    c"
    assert "\n      an indented  line\n" in CliRunner().invoke(command, ["--help"]).output


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_describes_its_options(name: str) -> None:
    """Each option has a help text, and the arguments of a quick run are valid."""
    main = importlib.import_module(f"benchmarks.{name}").main
    assert isinstance(main, click.Command)
    options = [option for option in main.params if isinstance(option, click.Option)]
    assert [option.name for option in options if not option.help] == []
    with main.make_context(name, list(QUICK[name])) as context:
        assert context.params["json_file"] is None
