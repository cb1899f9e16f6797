"""The command line as a whole: groups, the table of commands, old names, short help."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import copytree

import click
import pytest

from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.lazy import CommandFamily, LazyGroup, Verb, loaded
from rehearsal_room.cli.main import cli
from rehearsal_room.cli.verbs import HIDDEN, MOVED, SECTIONS
from tests.support.cli import Rehearse, json_of
from tests.support.paths import ROOT

TOP = {name: verb for verbs in SECTIONS.values() for name, verb in verbs.items()}


def entries(verbs: Mapping[str, Verb], path: str = "") -> Iterator[tuple[str, Verb]]:
    """Every command of the table with its path, such as "worlds check"."""
    for name, verb in verbs.items():
        yield f"{path}{name}", verb
        yield from entries(verb.below, f"{path}{name} ")


TABLE = dict(entries(TOP | HIDDEN))


def command_of(path: str) -> click.Command:
    """The command of a path."""
    command: click.Command = cli
    for name in path.split():
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


def first_sentence(text: str) -> str:
    """The first sentence of a help text, on one line."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    head, stop, _ = paragraph.partition(". ")
    return head + "." if stop else paragraph


def test_help_shows_six_groups_and_few_commands(rehearse: Rehearse) -> None:
    """The names of the groups, and at most twenty commands; what shells need is not shown."""
    status, out, err = rehearse("--help")
    titles = [line[:-1] for line in out.splitlines() if line.endswith(":") and line[0] != " "]
    shown = [line.split()[0] for line in out.splitlines() if line[:2] == "  " and line[2] != " "]

    assert (status, err) == (0, "")
    assert titles == ["Options", "Play", "Look", "Trust", "Worlds", "Train", "Tools"]
    assert [name for name in shown if name in TOP] == list(TOP)
    assert len(TOP) <= 20
    assert {"completion", "schema", "simulate"}.isdisjoint(shown)


@pytest.mark.parametrize("path", TABLE)
def test_the_table_names_what_exists(path: str) -> None:
    """Each entry is imported, has the name under which it stands, and the sentence of its help;
    the hidden ones are hidden in the reference, too."""
    name, verb = path.split()[-1], TABLE[path]
    command = loaded(name, verb)

    assert command.name == name
    assert command.help is not None
    assert first_sentence(command.help) == verb.help
    assert command.hidden == (path in HIDDEN)
    assert isinstance(command, click.Group) == bool(verb.below)
    assert isinstance(command, CommandFamily) == bool(verb.below and verb.place)


def loaded_by(*arguments: str, environment: Mapping[str, str] | None = None) -> set[str]:
    """The modules that a command line has imported when it ends."""
    program = (
        "import sys\nfrom rehearsal_room.cli.main import main\n"
        f"sys.argv = ['rehearse', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "commands"),
    [
        (["--help"], set()),
        (["--version"], set()),
        (["worlds", "--help"], set()),
        (["show", "--help"], {"look.show"}),
        (["show", "profile", "--help"], {"look.show", "look.profile"}),
    ],
)
def test_a_command_is_imported_when_it_runs(arguments: list[str], commands: set[str]) -> None:
    """Help of a group imports no module of a command, none of the libraries, and nothing of judge
    and learner."""
    found = loaded_by(*arguments)
    homes = tuple(f"rehearsal_room.cli.{one}." for one in ("play", "look", "trust", "worlds"))

    assert {
        name.removeprefix("rehearsal_room.cli.") for name in found if name.startswith(homes)
    } == commands
    if not commands:
        assert {"apsw", "numpy", "scipy", "starlette", "tokenizers"}.isdisjoint(found)
        assert not any(name.startswith("rehearsal_room.judge") for name in found)
    if arguments == ["--help"]:
        assert {"anyio", "msgspec", "structlog"}.isdisjoint(found)


def test_names_are_completed_without_their_commands() -> None:
    """A shell that completes a name imports no command."""
    found = loaded_by(
        environment={
            "_REHEARSE_COMPLETE": "bash_complete",
            "COMP_WORDS": "rehearse wor",
            "COMP_CWORD": "1",
        }
    )
    assert not any(name.startswith("rehearsal_room.cli.worlds.") for name in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("rehearse se", {"serve", "serve-policy"}),
        ("rehearse worlds sy", {"synthesise"}),
        ("rehearse scenarios ch", {"check"}),
        ("rehearse run --judge-mo", {"--judge-model"}),
        ("rehearse judge study --rep", {"--repeats"}),
        ("rehearse comp", {"compare"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_words_are_completed(words: str, completed: set[str], shell: str) -> None:
    """Names at each level, and flags, also those that help leaves out; hidden commands are not
    offered."""
    last = words.split()[-1]
    environment = {
        "_REHEARSE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": last if shell == "fish" else str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "rehearsal_room"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if shell == "zsh":
        lines = lines[1::3]  # kind, word, help
    else:
        lines = [line.partition(",")[2].split("\t")[0] for line in lines]

    assert set(lines) == completed
    assert done.stderr == ""


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_works_and_names_the_new_one(old: str, rehearse: Rehearse) -> None:
    """A sentence on standard error; the rest is as with the new name."""
    new = MOVED[old]
    status, out, err = rehearse(*new.split(), "--help")
    moved = rehearse(*old.split(), "--help")

    assert status == 0
    assert moved == (0, out, f"rehearse {old} is now rehearse {new}\n{err}")
    assert out.startswith(f"Usage: rehearse {new} ")


def test_an_old_name_gives_the_same_result(rehearse: Rehearse) -> None:
    """JSON on standard output, byte for byte, and the exit status, also of bad input."""
    words = ("--detect", "3pt", "--json", "-")
    assert rehearse("size", *words)[:2] == rehearse("compare", "size", *words)[:2]
    assert rehearse("scenarios", "show", "nowhere")[:2] == (2, "")
    assert rehearse("scenarios", "nonsense")[0] == 2


def test_a_command_and_those_below_it(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first word decides. A folder of such a name is given as ./NAME, and flags may come
    first."""
    run = tmp_path / "run"
    json_of(rehearse, "run", "shop_support:cancel-duplicate", "-n", 2, "-o", run)
    copytree(run, tmp_path / "label")
    before = json_of(rehearse, "judge", run, "--disagreements")

    monkeypatch.chdir(tmp_path)
    assert json_of(rehearse, "judge", "./label", "--disagreements") == before
    assert json_of(rehearse, "judge", "--disagreements", "label") == before
    status, _, err = rehearse("judge", "label")
    assert status == 2
    assert "Usage: rehearse judge label [OPTIONS] RUN" in err
    shown, other = (rehearse("show", folder)[1] for folder in ("./label", run))
    assert shown.splitlines()[1:] == other.splitlines()[1:]
    status, _, err = rehearse("judge")
    assert status == 2
    assert "Usage: rehearse judge [OPTIONS] RUN" in err


FAMILIES = {path: set(verb.below) for path, verb in TABLE.items() if verb.below and verb.place}


def test_the_families() -> None:
    """Which commands have others below them."""
    assert {
        "eval": {"list", "needs"},
        "show": {"watch", "profile"},
        "judge": {"label", "study"},
        "compare": {"size"},
        "failures": {"blame"},
    } == FAMILIES


def test_the_path_of_a_command_below_another_has_no_arguments() -> None:
    """The reference (mkdocs-click) makes contexts of its own for the commands of a group."""
    judge = command_of("judge")
    context = click.Context(
        judge, info_name="judge", parent=click.Context(cli, info_name="rehearse")
    )
    below = click.Context(command_of("judge label"), info_name="label", parent=context)
    assert below.command_path == "rehearse judge label"
    assert next(one.name for one in judge.get_params(context)) == "folder"


@pytest.mark.parametrize("path", FAMILIES)
def test_help_of_a_family_has_both(path: str, rehearse: Rehearse) -> None:
    """Its own flags and the commands below it."""
    status, out, _ = rehearse(path, "--help")
    assert status == 0
    assert f"Usage: rehearse {path} [OPTIONS] " in out
    below = out.partition("Commands:\n")[2]
    assert {line.split()[0] for line in below.splitlines() if line[2] != " "} == FAMILIES[path]


@pytest.mark.parametrize(
    ("path", "count"), [("run", 15), ("bench", 16), ("eval", 15), ("judge", 15)]
)
def test_help_shows_the_usual_flags_and_help_all_the_others(
    path: str, count: int, rehearse: Rehearse
) -> None:
    """In sections; what is short is a part of what is long."""
    command = command_of(path)
    assert isinstance(command, SectionedCommand)
    options = [one for one in command.params if isinstance(one, click.Option)]
    flags = {max(one.opts, key=len) for one in options}
    first, (status, long, _) = rehearse(path, "-h"), rehearse(path, "--help-all")
    assert first[0] == 0, first
    short = first[1]

    def shown(text: str) -> set[str]:
        lines = text.partition("\nOptions:\n")[2].splitlines()
        named = [line.strip().partition("  ")[0] for line in lines if line.startswith("  -")]
        words = {word.rstrip(",") for part in named for word in part.split()}
        return flags & words

    assert status == 0
    assert len(shown(short)) == len(command.usual) == count
    assert shown(long) == flags
    assert f"Show all {len(flags)} flags and exit." in " ".join(short.split())
    titles = [line for line in long.splitlines() if line.endswith(":") and line[0] != " "]
    assert len(titles) >= 2


def test_a_command_of_few_flags_has_no_help_all(rehearse: Rehearse) -> None:
    """Everything is in --help."""
    assert "--help-all" not in rehearse("replay", "--help")[1]
    status, _, err = rehearse("replay", "--help-all")
    assert status == 2
    assert "No such option" in err


def test_a_command_whose_import_fails_keeps_its_traceback() -> None:
    """A fault that is not a missing dependency is not taken for a missing command."""
    group = LazyGroup("x", sections={"": {"broken": Verb("broken_module:command", "Broken.")}})
    context = click.Context(group)
    modules = sys.modules

    class Broken:
        def __getattr__(self, name: str) -> object:
            raise KeyError(name)

    modules["rehearsal_room.cli.broken_module"] = Broken()  # type: ignore[assignment]
    try:
        with pytest.raises(KeyError):
            group.get_command(context, "broken")
    finally:
        del modules["rehearsal_room.cli.broken_module"]
    assert group.get_command(context, "absent") is None
