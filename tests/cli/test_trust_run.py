"""A run folder of somebody else runs no command and no package here, and gets no key."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from msgspec.inspect import StrType, VarTupleType

from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.settings.fields import fields_of
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.run_trust import (
    _OF_JUDGE,
    _OF_PLAY,
    _OF_WORLDS,
    kept_path,
    marked,
)
from rehearsal_room.scenarios.files import read_toml
from tests.cli.test_remote_worlds import PLAIN, TASKS
from tests.support.cli import Rehearse, json_of
from tests.support.old_logs import without_diagnoses
from tests.support.strangers import (
    KEY,
    begun_by_another,
    listener,
    ran_here,
    tell_tale_package,
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The file that tells what ran."""
    return tmp_path / "trace"


@pytest.fixture
def packaged(
    rehearse: Rehearse, tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A stranger's run whose log names a package on this machine."""
    run = tmp_path / "run"
    package = tell_tale_package(tmp_path / "ledger", trace)
    status, _, err = rehearse("run", package, "-p", "oracle", "-n", 2, "-o", run)
    assert status == 0, err
    assert ran_here(trace)
    begun_by_another(monkeypatch, tmp_path)
    return run


@pytest.fixture
def served(
    rehearse: Rehearse, tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A stranger's run whose run.toml names the command of an MCP server."""
    tasks, server, run = tmp_path / "tasks.toml", tmp_path / "server.py", tmp_path / "run"
    tasks.write_text(TASKS)
    server.write_text(f"open({str(trace)!r}, 'a').write('x')\n{Path(PLAIN).read_text()}")
    command = f"{sys.executable} {server}"
    assert rehearse("run", "--mcp", command, f"{tasks}:once", "-o", run)[0] == 0
    assert trace.exists()
    trace.unlink()
    begun_by_another(monkeypatch, tmp_path)
    return run


def change(file: Path, **values: Any) -> None:
    """Change values at the top of a TOML file, or in its tables (`table__name`)."""
    table = read_toml(file)
    for key, value in values.items():
        name, _, inner = key.partition("__")
        if inner:
            table.setdefault(name, {})[inner] = value
        else:
            table[name] = value
    file.write_text(tomli_w.dumps(table))


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["replay", "judge", "failures", "resume", "fork", "promote"])
def test_packages_of_a_strangers_run_run_in_workers(
    rehearse: Rehearse, packaged: Path, trace: Path, tmp_path: Path, verb: str
) -> None:
    """Each verb that executes a package which only the folder names does it in workers, or not at
    all, and in this process with --trust-run."""
    gate = tmp_path / "gate.toml"
    gate.write_text('name = "g"\n[[stage]]\nname = "s"\ncriteria = ["completed.lower >= 0.99"]\n')
    fork = ("run", "--from", f"{packaged}/e000000@0", "-o", tmp_path / "fork")
    commands: dict[str, tuple[object, ...]] = {
        "replay": ("replay", packaged),
        "judge": ("judge", packaged),
        "failures": ("failures", without_diagnoses(packaged)),
        "resume": ("run", "-o", packaged, "--resume"),
        "fork": fork,
        "promote": ("promote", gate, packaged, "--continue", 3),
    }
    trace.unlink(missing_ok=True)
    status, _, err = rehearse(*commands[verb])
    assert status in (0, 3), err
    assert not ran_here(trace)
    assert "in this process: ledger" not in err
    if verb == "fork":
        shutil.rmtree(tmp_path / "fork")
    elif verb == "promote":
        commands[verb] = (*commands[verb][:-1], 9)  # it has played three episodes now
    status, _, err = rehearse(*commands[verb], "--trust-run")
    assert status in (0, 3), err
    assert ran_here(trace)


@pytest.mark.slow  # a pool of workers
def test_a_strangers_episode_is_blamed_in_workers(
    rehearse: Rehearse, tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forks and search run in workers, and in this process with --trust-run: the same is found."""
    run = tmp_path / "run"
    package = tell_tale_package(tmp_path / "ledger", trace)
    assert rehearse("run", package, "-p", "mutant", "-n", 4, "-o", run)[0] == 0
    begun_by_another(monkeypatch, tmp_path)
    with open_reader(run) as reader:
        failed = [row.episode for row in reader.episodes() if row.label != Label.COMPLETED]
    trace.unlink(missing_ok=True)
    asked = ("failures", "blame", f"{run}/{failed[0]}", "-p", "oracle", "-n", 2)
    apart = json_of(rehearse, *asked)
    assert not ran_here(trace)
    assert json_of(rehearse, *asked, "--trust-run") == apart
    assert ran_here(trace)
    assert apart["blamed"] is not None and apart["rescue"] is not None


def test_a_run_of_ones_own_stays_as_it_was(rehearse: Rehearse, tmp_path: Path, trace: Path) -> None:
    """A run that this user began resumes and replays in this process, also after it was moved; a
    package that its run.toml does not name does not."""
    run, moved = tmp_path / "run", tmp_path / "moved"
    package = tell_tale_package(tmp_path / "ledger", trace)
    assert rehearse("run", package, "-p", "oracle", "-n", 2, "-o", run)[0] == 0
    shutil.move(run, moved)
    assert rehearse("run", "-o", moved, "--resume")[0] == 0
    assert rehearse("replay", moved)[0] == 0
    assert ran_here(trace)
    other = tmp_path / "other"
    tell_tale_package(tmp_path / "ledger", trace)
    assert rehearse("run", "shop_support", "-n", 1, "-o", other)[0] == 0
    shutil.copy(other / "run.toml", moved / "run.toml")  # genuine, beside a log of somebody else
    trace.unlink(missing_ok=True)
    assert rehearse("replay", moved)[0] == 0
    assert not ran_here(trace)


def test_the_command_of_a_strangers_run_is_refused(
    rehearse: Rehearse, served: Path, trace: Path
) -> None:
    """The sentence shows the command and both ways out, and nothing is started."""
    for verb in (("replay", served), ("run", "-o", served, "--resume")):
        status, _, err = rehearse(*verb)
        assert status == 2
        assert "names the MCP server" in err and "server.py" in err and "--trust-run" in err
        assert len(err.strip().splitlines()) == 1
    assert "--mcp" in err
    for verb in (("judge", served), ("failures", served), ("show", served)):
        assert rehearse(*verb)[0] == 0
    assert not trace.exists()
    (command,) = read_toml(served / "run.toml")["worlds"]["mcp"]
    assert rehearse("run", "-o", served, "--resume", "--mcp", command)[0] == 0
    assert rehearse("replay", served, "--trust-run")[0] == 0
    assert trace.exists()


@pytest.mark.parametrize(
    ("values", "flag"),
    [
        ({"policy__name": "openai", "model__name": "m", "model__base_url": "URL"}, "--base-url"),
        ({"user__name": "m", "user__base_url": "URL"}, "--user-base-url"),
        ({"judge__mode": "llm", "judge__models": ["m"], "judge__base_url": "URL"}, "--judge-base"),
        ({"judge__mode": "llm", "judge__models": ["m@URL"]}, "--judge-model"),
        ({"judge__mode": "llm", "judge__models": ["m"], "judge__cache": "CACHE"}, "--judge-cache"),
        ({"worlds__pool": "URL"}, "--pool"),
        ({"worlds__mcp": "URL"}, "--mcp"),
        ({"worlds__openenv": "URL"}, "--openenv"),
        ({"worlds__suite": "bfcl_v3", "worlds__suite_python": "COMMAND"}, "--suite-python"),
        ({"cluster__address": "ray://x:1"}, "--address"),
        ({"chaos": "CACHE"}, "--chaos"),
        ({"allow": "CACHE"}, "--allow"),
        ({"policy__name": "scripted", "policy__script": "CACHE"}, "--script"),
        ({"policy__name": "replay", "policy__replay": "CACHE"}, "--replay"),
        ({"policy__tokens": "CACHE"}, "--tokens"),
        ({"model__prices": "CACHE"}, "--prices"),
        ({"policy__name": "local", "model__name": "CACHE"}, "--model"),
        ({"cluster__engine": "ray"}, "--engine"),
        ({"bus__ca_file": "CACHE"}, "the authority of the broker's certificate"),
        ({"bus__cert_file": "CACHE"}, "a certificate of yours"),
        ({"bus__key_file": "CACHE"}, "a key of yours"),
        ({"forked_from": "CACHE/e000000@1"}, "--from"),
        ({"judge__mode": "llm", "judge__models": ["m"], "judge__rubric": "CACHE"}, "--judge-rub"),
        ({"judge__mode": "llm", "judge__models": ["m"], "judge__prices": "CACHE"}, "--judge-pri"),
    ],
)
def test_addresses_of_a_strangers_run_get_nothing(
    rehearse: Rehearse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trace: Path,
    values: dict[str, Any],
    flag: str,
) -> None:
    """--resume with an address, a command or a file that only run.toml names is one sentence, and
    no server hears of this user's keys."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("REHEARSE_TOKEN", KEY)
    run = tmp_path / "run"
    assert rehearse("run", "shop_support", "-n", 2, "-o", run)[0] == 0
    (run / "episodes.sqlite").unlink()
    spy = tmp_path / "spy"
    spy.write_text(f"#!/bin/sh\ntouch {trace}\n")
    spy.chmod(0o755)
    with listener() as (url, heard):
        text = json.dumps(values).replace("URL", url).replace("COMMAND", str(spy))
        change(run / "run.toml", **json.loads(text.replace("CACHE", str(trace))))
        status, _, err = rehearse("run", "-o", run, "--resume")
        assert status == 2, err
        assert flag in err and "--trust-run" in err
        assert heard == []
    assert not trace.exists()


@pytest.mark.parametrize("kind", ["link", "fifo"])
@pytest.mark.parametrize("name", ["run.toml", "judge.toml", "copied.json"])
def test_files_of_a_run_are_its_own(
    rehearse: Rehearse, tmp_path: Path, name: str, kind: str
) -> None:
    """What a link leads to is not read, and a FIFO does not block: the verb does without the file,
    or says in one sentence what it is."""
    run, mine = tmp_path / "run", tmp_path / "mine.toml"
    mine.write_text('password = "hunter2"\n')
    assert rehearse("run", "shop_support", "-n", 1, "-o", run)[0] == 0
    (run / name).unlink(missing_ok=True)
    if kind == "link":
        (run / name).symlink_to(mine)
    else:
        os.mkfifo(run / name)
    verbs = ("show", run), ("replay", run), ("judge", run), ("run", "-o", run, "--resume")
    for verb in (*verbs, ("failures", run), ("compare", run, run), ("show", "watch", run)):
        status, out, err = rehearse(*verb)
        assert status in (0, 2), err
        assert "hunter2" not in out + err
        if status == 2:
            assert len(err.strip().splitlines()) == 1
    assert mine.read_text() == 'password = "hunter2"\n'


def test_stored_verdicts_of_a_stranger_are_not_taken(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The author of the folder could have made its verdicts.sqlite, with labels as they like: it is
    neither read nor written. In a run that this user began it is."""
    run = tmp_path / "run"
    assert rehearse("run", "shop_support", "-n", 1, "-o", run)[0] == 0
    assert kept_path(run, "verdicts.sqlite") == run / "verdicts.sqlite"
    begun_by_another(monkeypatch, tmp_path)
    (run / "verdicts.sqlite").write_bytes(b"theirs")
    with listener() as (url, heard):
        asked = ("-m", "m", "--base-url", url, "--attempts", 1)
        status, _, err = rehearse("judge", run, "--judge", "llm", *asked)
        assert (status, bool(heard)) == (1, True), err
    assert (run / "verdicts.sqlite").read_bytes() == b"theirs"
    assert run not in kept_path(run, "verdicts.sqlite").parents


@pytest.mark.parametrize("file", ["run.toml", "judge.toml"])
def test_a_judge_in_a_strangers_run_gets_no_key(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """`judge` asks no server that only the folder names."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    run = tmp_path / "run"
    assert rehearse("run", "shop_support", "-n", 1, "-o", run)[0] == 0
    with listener() as (url, heard):
        judge = {"mode": "llm", "models": ["m"], "base_url": url, "attempts": 1}
        if file == "judge.toml":
            (run / file).write_text(tomli_w.dumps(judge))
        else:
            change(run / file, judge=judge)
        status, _, err = rehearse("judge", run)
        assert (status, heard) == (2, [])
        assert url in err and "--trust-run" in err
        rehearse("judge", run, "--base-url", url)
        assert KEY in heard[0]


def test_a_config_that_is_a_run_toml_belongs_to_its_run(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--config` with the run.toml of somebody else's run gets no key; a file of the user does."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    run, own = tmp_path / "run", tmp_path / "own.toml"
    assert rehearse("run", "shop_support", "-n", 1, "-o", run)[0] == 0
    with listener() as (url, heard):
        model = {"name": "m", "base_url": url, "max_attempts": 1, "preflight": False}
        change(run / "run.toml", policy={"name": "openai"}, model=model)
        command = ("run", "--config", run / "run.toml", "-o", tmp_path / "new")
        status, _, err = rehearse(*command)
        assert (status, heard) == (2, [])
        assert "--base-url" in err
        table = read_toml(run / "run.toml")
        del table["environment"]
        own.write_text(tomli_w.dumps(table))
        (run / "run.toml").write_text(tomli_w.dumps(table))
        for words in (
            command,
            ("run", "-o", run, "--resume"),
        ):
            status, _, err = rehearse(*words)
            assert (status, heard) == (2, [])
            assert "--trust-run" in err
        rehearse("run", "--config", own, "-o", tmp_path / "new")
        assert KEY in heard[0]


def test_a_file_of_conversations_names_no_code(
    rehearse: Rehearse, tmp_path: Path, trace: Path
) -> None:
    """A package that a file of conversations names runs in workers; one of --scenario, or with
    --trust-run, in this process."""
    package = tell_tale_package(tmp_path / "ledger", trace)
    task = read_toml(package / "tasks.toml")["task"][0]
    line = {
        "scenario": str(package),
        "task": task["id"],
        "messages": [
            {"role": "user", "content": task["instruction"]},
            {"role": "assistant", "content": "done"},
        ],
    }
    chats = tmp_path / "chats.jsonl"
    chats.write_text(json.dumps(line) + "\n")
    for number, (flags, ran) in enumerate(
        [((), False), (("--trust-run",), True), (("--scenario", package), True)]
    ):
        status, out, err = rehearse("import", "chat", chats, "-o", tmp_path / str(number), *flags)
        assert status == 0, err
        assert "1 played again in their world" in out
        assert ran_here(trace) is ran


def test_a_world_that_is_only_shown_runs_in_workers(
    rehearse: Rehearse, tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`worlds show` runs the code of a package in workers, unless it is in the user's own folder of
    worlds."""
    package = tell_tale_package(tmp_path / "mine" / "ledger", trace)
    assert rehearse("worlds", "show", package)[0] == 0
    assert not ran_here(trace)
    monkeypatch.setenv("REHEARSE_WORLDS", str(tmp_path / "mine"))
    assert rehearse("worlds", "show", "ledger")[0] == 0
    assert ran_here(trace)


def test_the_settings_of_a_strangers_training_train_nothing(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`train` refuses the train.toml in the folder of a training run that somebody else began, and
    takes it with the user's mark, or copied to a place of the user's own."""
    file, own = tmp_path / "run" / "train.toml", tmp_path / "own.toml"
    (tmp_path / "run" / "rollouts").mkdir(parents=True)
    text = b'model = "no/such/model"\nsteps = 0\n'
    file.write_bytes(text)
    own.write_bytes(text)
    own_text = marked(text)

    def said(config: Path, *flags: str) -> str:
        status, _, err = rehearse("train", config, "-o", tmp_path / "new", *flags)
        assert status == 2
        return err

    assert "--trust-run" in said(file)
    wrong = said(own).replace(str(own), "FILE")
    assert "steps" in wrong
    assert said(file, "--trust-run").replace(str(file), "FILE") == wrong
    file.write_bytes(own_text)
    assert said(file).replace(str(file), "FILE") == wrong
    begun_by_another(monkeypatch, tmp_path)
    assert "--trust-run" in said(file)


# Texts and lists of texts by which a run.toml opens nothing and sends nothing.
_HARMLESS = {
    "scenarios": "packages run in workers (harness.setup.run_trust.strangers)",
    "awm": "records have no code that runs in this process",
    "exclude": "names of tasks: files are read for the flag only",
    "edit": "JSON: a file is read for the flag only",
    "suite": "the code of an installed package; what it names is among the keys that act",
    **dict.fromkeys(("history", "think", "judge_errors"), "words of our own"),
    **dict.fromkeys(("agent_name", "user_model", "suite_model"), "names"),
    **dict.fromkeys(("extra_body", "adapt"), "parts of a request to a server that the user names"),
    **dict.fromkeys(("bus_user", "bus_password"), "for a broker that the user names"),
}


def test_every_setting_is_known_to_act_or_not_to() -> None:
    """A new setting that is a text, or a list of texts, is put among those that act in a run.toml
    of somebody else, or above with a reason."""
    of_judge = {f"judge_{key}" for key in _OF_JUDGE} | set(_OF_JUDGE)
    texts = {
        field.key
        for field in fields_of(Settings)
        if any(isinstance(kind, StrType | VarTupleType) for kind in field.types)
    }
    acting = {key for key in texts if key in _OF_WORLDS | _OF_PLAY or key in of_judge}
    assert texts - acting == set(_HARMLESS)
