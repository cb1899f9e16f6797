"""What is mutated: the files of packages, AWM records, settings, scripts, and command lines."""

import json
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

import click

from rehearsal_room.cli.main import cli
from rehearsal_room.scenarios.format import read
from tests.fuzz.campaign import Target
from tests.fuzz.mutations import mutated, mutated_words
from tests.support.paths import AWM, LIBRARY, ROOT
from tests.support.warm_process import WarmProcess

# Commands that read a package: the second hosts it, the third also runs its tools and verifiers.
_ON_PACKAGES = (
    ("worlds", "show"),
    ("run", "-p", "oracle", "-n", "2", "-o"),
    ("run", "-p", "oracle", "-n", "2", "-o"),
)
_AWM_FILES = (
    *("gen_scenario", "gen_tasks", "gen_db", "gen_sample", "gen_envs", "gen_verifier"),
    "gen_verifier.pure_code",
)
_RUN_TOML = """
scenarios = ["{library}"]
group_size = 2
concurrency = 3
seed = 7
history = "last:3"
dialect = "hermes"
[policy]
name = "oracle"
think = "0:0"
[limits]
max_steps = 9
reply_timeout = 30.0
[format]
rules = "basic"
reward = -1.0
[judge]
mode = "code"
rewards = "awm"
models = []
[worlds]
sandbox = "best"
worker_memory_mb = 2048
"""
_TRAIN_TOML = """
model = "models/tiny"
steps = 100
[rollouts]
scenarios = ["{library}"]
policy = "local"
group_size = 8
history = "last:3"
dialect = "hermes"
max_tokens = 512
[evaluation]
temperature = 0.0
[data]
groups = 8
[optimizer]
lr = 1e-6
[loop]
staleness = 1
evaluate_every = 10
"""
_PRICES = """
[models.m]
input = 1.0
output = 10.0
cached_input = 0.1
[models."gpt-4.1"]
input = 2
output = 8
"""
# A judge whose server is away: its settings are read, and no episode gets a verdict.
_JUDGED = (
    *("--judge", "hybrid", "--judge-model", "m@http://127.0.0.1:1/v1"),
    *("--judge-attempts", "1", "--no-preflight"),
)


def _package(name: str) -> Target:
    def prepare(folder: Path, rng: Random) -> Sequence[str]:
        world = folder / "library"
        shutil.copytree(LIBRARY, world)
        file = world / name
        file.write_bytes(mutated(file.read_bytes(), rng))
        words = rng.choice(_ON_PACKAGES)
        output = [str(folder / "run")] if words[-1] == "-o" else []
        return [*words, *output, str(world), "--json", str(folder / "result.json")]

    return Target(name, prepare)


def _awm(name: str) -> Target:
    def prepare(folder: Path, rng: Random) -> Sequence[str]:
        records = folder / "records"
        records.mkdir()
        for one in _AWM_FILES:
            shutil.copy(AWM / f"{one}.jsonl", records)
        file = records / f"{name}.jsonl"
        file.write_bytes(mutated(file.read_bytes(), rng))
        words = [
            "worlds",
            "import",
            "awm",
            str(records),
            "--no-examine",
            "-o",
            str(folder / "imported"),
        ]
        return [*words, "--json", str(folder / "result.json")]

    return Target(f"{name}.jsonl", prepare)


def _file(name: str, content: Callable[[], bytes], *words: str) -> Target:
    """A file that a command reads: FILE and RUN in its words become paths."""

    def prepare(folder: Path, rng: Random) -> Sequence[str]:
        file = folder / name
        file.write_bytes(mutated(content(), rng))
        paths = {"FILE": str(file), "RUN": str(folder / "run"), "JSON": str(folder / "result.json")}
        return [paths.get(word, word) for word in words]

    return Target(name, prepare)


@cache
def _script() -> bytes:
    """A line for each task of LIBRARY."""
    call = {"name": "search_books", "arguments": {"text": "sea", "limit": 3}}
    lines = [
        {"scenario": "library", "task": task, "calls": [call, call], "answer": "There it is."}
        for task in tasks_in(LIBRARY)
    ]
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def tasks_in(package: Path) -> list[str]:
    """The ids of a package's tasks."""
    return [task.id for task in read(package).tasks]


# Verbs that read and do not serve, train or generate without end.
_COMMAND_LINES = (
    ("run", str(LIBRARY), "-p", "oracle", "-n", "2", "-o", "RUN", "--json", "JSON"),
    ("run", str(LIBRARY), "-p", "oracle", "--dry-run"),
    ("bench", str(LIBRARY), "-p", "oracle", "-n", "2", "-c", "2", "--json", "JSON"),
    ("worlds", "list", "--json", "JSON"),
    ("worlds", "show", str(LIBRARY), "--json", "JSON"),
    ("show", "DONE"),
    ("show", "DONE", "e000000", "--full"),
    ("show", "DONE", "--label", "completed", "--sort", "steps"),
    ("replay", "DONE", "--json", "JSON"),
    ("replay", "DONE", "--world", str(LIBRARY), "--json", "JSON"),
    ("judge", "DONE", "--judge", "code", "--json", "JSON"),
    ("export", "DONE", "-o", "EXPORT", "--to", "jsonl", "--label", "completed"),
    ("export", "DONE", "-o", "EXPORT", "--dumps"),
    ("judge", "study", "DONE", "--judge", "code", "--json", "JSON"),
    ("worlds", "report", str(LIBRARY), "--json", "JSON"),
    ("worlds", "check", str(LIBRARY), "--json", "JSON"),
    ("schema", "run"),
    ("completion", "bash"),
    ("worlds", "import", "awm", str(AWM), "--no-examine", "-o", "IMPORTED", "--json", "JSON"),
    ("show", "watch", "r", "--bus", "mqtt://127.0.0.1:1"),
)


def _command_lines(done: Path) -> Target:
    """Command lines of all verbs above on a finished run, of which each input has a copy."""

    def prepare(folder: Path, rng: Random) -> Sequence[str]:
        shutil.copytree(done, folder / "done")
        words = rng.choice(_COMMAND_LINES)
        paths = {
            "RUN": folder / "run",
            "DONE": folder / "done",
            "JSON": folder / "result.json",
            "EXPORT": folder / "export.jsonl",
            "IMPORTED": folder / "imported",
        }
        at = [str(paths.get(word, word)) for word in words]
        return mutated_words(at, _flags(words[0]), rng)

    return Target("command lines", prepare)


@cache
def _flags(verb: str) -> tuple[str, ...]:
    """The flags of a verb, but those that need another machine or take long by design."""
    slow = {"--num-episodes", "--bus", "--pool", "--mcp", "--isolate", "--think", "--jobs", "-j"}
    command = cli.commands[verb]
    commands = list(command.commands.values()) if isinstance(command, click.Group) else [command]
    flags = [flag for one in commands for option in one.params for flag in option.opts]
    return ("--help", *(flag for flag in flags if flag.startswith("-") and flag not in slow))


def finished_run(warm: WarmProcess, folder: Path) -> Path:
    """The folder of a finished run of LIBRARY, made here."""
    done, output = folder / "done", folder / "finished"
    made = warm.start_command(
        *("run", LIBRARY, "-p", "oracle", "-n", "4", "-o", done), output=output
    )
    assert made.wait() == 0, output.read_text()
    return done


def targets(done: Path) -> list[Target]:
    """All targets; `done` is the folder of a finished run of LIBRARY."""
    on_library = ("run", str(LIBRARY), "-n", "2", "-o", "RUN", "--json", "JSON")
    rubric = (ROOT / "judge" / "llm" / "rubrics" / "awm.toml").read_bytes
    run_toml, train_toml = (text.format(library=LIBRARY) for text in (_RUN_TOML, _TRAIN_TOML))
    judged = (*on_library, "-p", "oracle", *_JUDGED)
    return [
        *map(_package, ("scenario.toml", "tasks.toml", "schema.sql", "data.sql")),
        *map(_package, ("tools.py", "verify.py", "policy.md")),
        *map(_awm, _AWM_FILES),
        _file("settings.toml", run_toml.encode, "run", "--config", "FILE", "-o", "RUN"),
        _file("script.jsonl", _script, *on_library, "-p", "scripted", "--script", "FILE"),
        _file("train.toml", train_toml.encode, "train", "FILE", "--dry-run"),
        _file("rubric.toml", rubric, *judged, "--judge-rubric", "FILE"),
        _file("prices.toml", _PRICES.encode, *judged, "--judge-prices", "FILE"),
        _command_lines(done),
    ]
