"""Flags are made from settings structs: names, types, words, bounds and help in one place."""

from typing import Annotated, Any, Literal

import click
import msgspec
import pytest
from click.testing import CliRunner
from msgspec import Meta

from rehearsal_room.cli.core.flags import flags_of, select_flags, settings_from
from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.main import cli
from rehearsal_room.harness.core.errors import SettingsError

# The contract of the command line: flags of each command that keep their names.
RUN = """
-p --policy -m --model --base-url --client --script --replay --tokens -n --episodes -g --group-size
-c --concurrency --seed --history --dialect --format-rules --format-stop --no-format-stop
--format-reward --max-steps --token-limit --time-limit --reply-timeout --call-timeout --world-stop
--no-world-stop --request-timeout --max-attempts --temperature --top-p --max-tokens --think --judge
--judge-model --judge-base-url --judge-vote --judge-ask --judge-rubric --judge-prices --judge-budget
--judge-concurrency --rewards --awm --seeding --isolate --no-isolate --workers --worker-memory-mb
--sandbox --pool --mcp --mcp-env --bus --allow --config -o --output --resume --dry-run --json
"""
JUDGE = """
--mode --judge -m --model --judge-model --base-url --vote --ask --rubric --prices --budget -c
--concurrency --evidence-tokens --max-tokens --temperature --timeout --attempts --seed --cache
--json
"""
FLAGS = {
    "run": RUN,
    "bench": RUN + "--sweep",
    "judge": JUDGE + "--rewards --only --disagreements --limit",
    "judge study": JUDGE + "--sample --repeats --labels --rewordings --no-rewordings",
    "replay": "--world --json",
    "export": "--to -o --output --dumps --label --ending",
    "show watch": "--bus --events",
    "judge label": "-o --output --labeller --sample --only --seed",
    "worlds generate": """--count --seed -o --output -j --jobs --knob --trade --module --split
        --json""",
    "worlds synthesise": """-o --output -m --model --base-url -n --count --tasks --tables --rows
        --tools --tries --least-tasks --seed --same --cap --prompts --dry-prompts --format --again
        --solver
        --embeddings --prices --budget -c --concurrency --temperature --max-tokens --timeout
        --attempts --max-steps --call-timeout --workers --sandbox --json""",
    "serve": """--http --stdio --task --token --allow-host --idle --max-worlds --worlds-per-client
        --calls-per-client --awm --seeding --isolate --workers --worker-memory-mb --sandbox""",
    "serve-policy": """--backend --http --name --history --dialect --temperature --top-p
        --max-tokens --base-url --vllm-python --vllm-arg --token --allow-host""",
    "train": "-o --output --resume --dry-run --misaligned --json",
    "worlds check": "-j --jobs --allow-list --awm --isolate --workers --sandbox --json",
    "worlds show": "--awm --seeding --isolate --workers --worker-memory-mb --sandbox --json",
    "worlds report": "-o --output --png --json",
    "worlds import awm": "-o --output --seeding --clock --examine --no-examine --json",
}


def command_of(path: str) -> click.Command:
    command: Any = cli
    for name in path.split():
        command = command.commands[name]
    assert isinstance(command, click.Command)
    return command


@pytest.mark.parametrize("path", FLAGS)
def test_flags_keep_their_names(path: str) -> None:
    """What people have typed and scripted stays valid."""
    options = [one for one in command_of(path).params if isinstance(one, click.Option)]
    found = {name for one in options for name in (*one.opts, *one.secondary_opts)}
    assert set(FLAGS[path].split()) - found == set()


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table."""

    color: Annotated[
        Literal["red", "green"], Meta(description="Color.", extra={"hint": "see the docs"})
    ] = "red"
    parts: Annotated[
        tuple[str, ...], Meta(description="Part.", extra={"flag": "part", "metavar": "NAME"})
    ] = ()


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings."""

    count: Annotated[int, Meta(ge=1, description="Number of things.", extra={"short": "-n"})] = 3
    limit: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Most of them.", extra={"default": "no limit"}),
    ] = None
    loud: Annotated[bool, Meta(description="Whether it is loud.")] = False
    hidden: Annotated[int, Meta(description="No flag.", extra={"flag": ""})] = 0
    inner: Annotated[
        Inner, Meta(description="Inner.", extra={"prefix": "in_", "keys": {"color": "color"}})
    ] = Inner()


@click.command(cls=SectionedCommand)
@flags_of(Outer)
@click.option("--other", is_flag=True, help="Another flag.")
def command(**flags: Any) -> None:
    """A command."""
    click.echo(msgspec.json.encode(flags))


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, arguments)
    return result.exit_code, result.output


def test_a_flag_has_the_fields_name_type_and_text() -> None:
    """With default and bounds; flags of a table are in a section of their own."""
    assert run("--help") == (
        0,
        """Usage: command [OPTIONS]

  A command.

Options:
  -n, --count INTEGER  Number of things (default: 3; at least 1).
  --limit FLOAT        Most of them (default: no limit; more than 0).
  --loud / --no-loud   Whether it is loud (default: no).
  --other              Another flag.
  --help               Show this message and exit.

Inner:
  --color [green|red]  Color (default: red).
  --in-part NAME       Part.
""",
    )


def test_flags_that_are_not_given_are_none() -> None:
    """So that a file or the default counts; what is given has the field's key and type."""
    nothing = {"count": None, "limit": None, "loud": None, "color": None, "in_parts": []}
    assert msgspec.json.decode(run()[1]) == nothing | {"other": False}
    given = run("-n", "5", "--no-loud", "--in-part", "a", "--in-part", "b", "--limit", "1e3")[1]
    assert msgspec.json.decode(given) == {
        "count": 5,
        "limit": 1000.0,
        "loud": False,
        "color": None,
        "in_parts": ["a", "b"],
        "other": False,
    }


def test_a_word_that_is_not_allowed_is_answered_with_the_words() -> None:
    """And with what to do."""
    status, text = run("--color", "blue")
    assert status == 2
    assert "'blue' is not one of green, red; see the docs" in text


def test_flags_become_settings_and_faults_name_the_flag() -> None:
    """Other flags of a command are left out."""
    flags = {"color": "green", "parts": ("a",), "other": True}
    assert settings_from(Inner, flags) == Inner("green", ("a",))
    assert select_flags(Inner, flags) == {"color": "green", "parts": ("a",)}
    assert settings_from(Outer, {"count": None}) == Outer()
    with pytest.raises(SettingsError, match=r"^--count: must be at least 1, found 0$"):
        settings_from(Outer, {"count": 0})
