"""The settings of a run: two forms in TOML, one struct, messages that name what was written."""

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w

from rehearsal_room.harness.bus.mqtt_settings import BusSettings
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.fields import fields_of, value_of
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.settings.model import ModelSettings
from rehearsal_room.harness.settings.run import (
    Settings,
    difference,
    judge_settings,
    resolve,
    resolve_table,
    save,
    sweep,
    with_defaults_of,
)
from rehearsal_room.harness.setup.planning import planned, with_task_order
from tests.support.paths import LIBRARY

FLAT = """
scenarios = ["shop_support"]
group_size = 2
policy = "openai"
model = "m"
temperature = 0.5
max_steps = 5
format_rules = "awm"
judge = "hybrid"
judge_models = ["a", "b@http://localhost/v1"]
judge_temperature = 1
rewards = "sparse"
workers = 3
bus = "mqtt://host"
"""
NESTED = """
scenarios = ["shop_support"]
group_size = 2
[policy]
name = "openai"
[model]
name = "m"
temperature = 0.5
[limits]
max_steps = 5
[format]
rules = "awm"
[judge]
mode = "hybrid"
models = ["a", "b@http://localhost/v1"]
temperature = 1
rewards = "sparse"
[worlds]
workers = 3
[bus]
url = "mqtt://host"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.toml"
    path.write_text(text)
    return path


def test_a_key_is_at_the_top_or_in_its_table(tmp_path: Path) -> None:
    """Both forms of a file give the same settings."""
    flat = resolve(written(tmp_path, FLAT), {})
    assert resolve(written(tmp_path, NESTED), {}) == flat
    assert flat.model == ModelSettings("m", temperature=0.5)
    assert (flat.limits, flat.worlds.workers) == (Limits(max_steps=5), 3)
    assert flat.judge.models == ("a", "b@http://localhost/v1")
    assert (flat.judge.mode, flat.judge.rewards, flat.bus.url) == (
        "hybrid",
        "sparse",
        "mqtt://host",
    )


def test_a_flag_wins_over_the_file(tmp_path: Path) -> None:
    """A flag has the key at the top; None and an empty list mean that it was not given."""
    path = written(tmp_path, NESTED)
    flags = {"max_steps": 7, "judge_models": (), "seed": None, "policy": "oracle"}
    settings = resolve(path, flags)
    assert (settings.limits.max_steps, settings.policy.name) == (7, "oracle")
    assert settings.judge.models == ("a", "b@http://localhost/v1")


def test_saved_settings_are_complete_and_give_the_same_settings(tmp_path: Path) -> None:
    """run.toml has each value that is set, in its table, and loads back to equal settings."""
    settings = resolve(written(tmp_path, FLAT), {})
    saved = save(settings, packages={"shop_support": "d"}, log_id="x")
    table = tomllib.loads(saved.decode())
    again = tmp_path / "run.toml"
    again.write_bytes(saved)

    assert resolve(again, {}) == settings
    assert table.pop("environment")["log_id"] == "x"
    for field in fields_of(Settings):
        value, found = value_of(settings, field), table
        for name in field.path[:-1]:
            found = found[name]
        stored = found.get(field.name)
        assert stored == (list(value) if isinstance(value, tuple) else value), field.key


def test_a_password_is_not_saved(tmp_path: Path) -> None:
    """Neither that of the URL nor the field; and no message quotes it."""
    table = {"bus": {"url": "mqtt://ada:secret@host", "password": "hidden"}}
    saved = save(resolve_table(table, {}), packages={})
    assert b"secret" not in saved and b"hidden" not in saved
    with pytest.raises(SettingsError) as caught:
        resolve_table({"bus": {"password": 1234}}, {})
    assert str(caught.value) == "bus.password: expected a text, found a value that is not shown"


def test_a_broker_is_used_only_where_it_is_named() -> None:
    """Other fields of the bus do not make a run publish."""
    assert Settings().bus == BusSettings(url="")
    assert resolve_table({"bus": {"linger_s": 8}}, {}).bus == BusSettings(url="", linger_s=8)


def test_a_saved_file_may_have_keys_that_are_gone(tmp_path: Path) -> None:
    """Runs of older versions are read, replayed and resumed: their run.toml has these keys."""
    settings = resolve(written(tmp_path, FLAT), {})
    table = tomllib.loads(save(settings, packages={}).decode())
    counts = {"in_flight": 16, "ahead": 1, "batch": 256, "outbox": 4096}
    seconds = {"max_backoff_s": 10.0, "gather_s": 0.02, "status_s": 1.0, "answer_s": 1.0}
    table["bus"] |= counts | seconds
    old = written(tmp_path, tomli_w.dumps(table))
    assert resolve(old, {}) == settings
    assert difference(old, settings) is None
    table["bus"]["colour"] = 1
    with pytest.raises(SettingsError, match="colour: unknown key"):
        resolve(written(tmp_path, tomli_w.dumps(table)), {})


@pytest.mark.parametrize(
    ("text", "key"), [("[bus]\nbatch = 8", "bus.batch"), ("bus_status_s = 2", "bus_status_s")]
)
def test_a_file_of_a_user_may_not_have_keys_that_are_gone(
    tmp_path: Path, text: str, key: str
) -> None:
    """One sentence says so; "unknown key" would look like a misspelling."""
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        resolve(path, {})
    assert str(caught.value) == f"{path}: {key}: this key is gone; leave it out"


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"max_steps": 0}, "max_steps: must be at least 1, found 0"),
        ({"limits": {"max_steps": 0}}, "limits.max_steps: must be at least 1, found 0"),
        ({"workers": 257}, "workers: must be at least 1 and at most 256, found 257"),
        ({"top_p": 1.5}, "top_p: must be at least 0 and at most 1, found 1.5"),
        ({"temperature": float("inf")}, "temperature: must be at least 0, found inf"),
        ({"group_size": "two"}, "group_size: expected a whole number, found 'two'"),
        ({"limits": 3}, "limits: expected a table, found 3"),
        ({"judge_models": "m"}, "judge_models: expected a list, found 'm'"),
        ({"judge_models": ["m", 3]}, "judge_models[1]: expected a text, found 3"),
        (
            {"dialect": "elvish"},
            "dialect: 'elvish' is not one of 'agentdojo', 'awm', 'awm-release', "
            "'awm-release-tool', 'awm-tool', 'bfcl', 'enterpriseops', 'hermes', 'mcp_universe', "
            "'native', 'tau2', 'toolsandbox', 'vita'",
        ),
        ({"group_sise": 2}, "group_sise: unknown key; did you mean 'group_size'?"),
        ({"judge_model": ["m"]}, "judge_model: unknown key; did you mean 'judge_models'?"),
        ({"limits": {"max_step": 2}}, "limits.max_step: unknown key; did you mean 'max_steps'?"),
        (
            {"max_steps": 2, "limits": {"max_steps": 2}},
            "max_steps: it is also in the table [limits]",
        ),
        (
            {"think": "5:1"},
            "think: '5:1' is not a range of seconds (expected LOW:HIGH, for example 1:5)",
        ),
        (
            {"judge": "llm"},
            "judge_models: mode 'llm' needs the name of a model: name a model with --judge-model",
        ),
        (
            {"judge_models": ["m"]},
            "judge_models: judge 'code' does not ask models; choose --judge llm or --judge hybrid",
        ),
        (
            {"judge": "none", "judge_vote": "unanimous"},
            "judge_vote: judge 'none' does not ask models; choose --judge llm or --judge hybrid",
        ),
    ],
)
def test_what_cannot_be_used_is_named_as_it_was_written(
    table: dict[str, Any], sentence: str
) -> None:
    """One sentence: the key, what it may be, what was found."""
    with pytest.raises(SettingsError) as caught:
        resolve_table(table, {}, source="x.toml: ")
    assert str(caught.value).removeprefix("x.toml: ") == sentence


def test_the_file_is_named_where_the_fault_is_in_it(tmp_path: Path) -> None:
    """A fault in the file has its name in front, a flag's fault has not."""
    path = written(tmp_path, "max_steps = 0")
    with pytest.raises(SettingsError, match=rf"^{path}: max_steps: must be"):
        resolve(path, {"seed": 3})
    with pytest.raises(SettingsError, match=r"^--max-steps: must be"):
        resolve(written(tmp_path, "seed = 1"), {"max_steps": 0})


def test_the_judge_has_the_seed_of_the_run_unless_it_has_its_own() -> None:
    """A run without a judge has no settings of one."""
    assert judge_settings(resolve_table({"seed": 7}, {})).seed == 7
    assert judge_settings(resolve_table({"seed": 7, "judge_seed": 3}, {})).seed == 3
    with pytest.raises(SettingsError, match="the run has no judge"):
        judge_settings(Settings(judge=JudgeSettings(mode="none")))


def test_what_may_change_when_a_run_is_resumed(tmp_path: Path) -> None:
    """Where and how fast a run continues may differ; its episodes may not."""
    path = tmp_path / "run.toml"
    path.write_bytes(save(Settings(), packages={}))
    moved = {"concurrency": 2, "bus": "mqtt://x", "base_url": "http://x", "workers": 1}
    assert difference(path, resolve_table(moved, {})) is None
    changed = resolve_table({"max_steps": 3}, {})
    assert difference(path, changed) == (
        "max_steps: the run began with 2.5 times the steps of the task's solution, at least 20, "
        "not 3"
    )


def test_a_saved_run_keeps_the_steps_with_which_it_began(tmp_path: Path) -> None:
    """A run.toml from when every episode had 20 steps still says so; a limit that is given wins."""
    path = written(tmp_path, "[limits]\nmax_steps = 20")
    assert with_defaults_of(Settings(), path).limits.max_steps == 20
    assert with_defaults_of(resolve_table({"max_steps": 3}, {}), path).limits.max_steps == 3
    path.write_bytes(save(Settings(), packages={}))
    assert with_defaults_of(Settings(), path).limits.max_steps is None
    assert with_defaults_of(Settings(), tmp_path / "none.toml") == Settings()


def test_a_saved_run_keeps_the_order_of_its_tasks(tmp_path: Path) -> None:
    """A run.toml from before there was a choice has the listed order, also where the run goes on; a
    new run of a part of the tasks is sampled, says so, and begins likewise when it is longer."""
    path = tmp_path / "run.toml"
    part = resolve_table({"scenarios": [str(LIBRARY)], "episodes": 2}, {})
    path.write_bytes(save(part, packages={}))
    old = resolve(path, {})
    assert old == with_defaults_of(part, path) == part
    tasks, plans = planned(old)
    assert [one.task.id for one in plans] == ["pay-fine", "return-dune"]
    new = with_task_order(part, tasks)
    whole = msgspec.structs.replace(part, episodes=12)
    assert (new.task_order, with_task_order(whole, tasks)) == ("sampled", whole)
    path.write_bytes(save(new, packages={}))
    longer = msgspec.structs.replace(resolve(path, {}), episodes=9)
    assert planned(longer)[1][:2] == planned(new)[1]
    assert planned(new)[1] != plans


def test_a_sweep_takes_any_setting_with_one_value() -> None:
    """Numbers, fractions and words; each value is checked as it would be in a file."""
    settings = Settings()
    name, runs = sweep(settings, "temperature=0,0.5")
    assert (name, [(value, one.model.temperature) for value, one in runs]) == (
        "temperature",
        [(0.0, 0.0), (0.5, 0.5)],
    )
    name, runs = sweep(settings, "max-steps=3, 4")
    assert (name, [one.limits.max_steps for _, one in runs]) == ("max_steps", [3, 4])
    assert [one.history for _, one in sweep(settings, "history=full,last:3")[1]] == [
        "full",
        "last:3",
    ]
    assert [one.model.name for _, one in sweep(settings, "model=a,b")[1]] == ["a", "b"]
    for text, sentence in (
        ("concurrency=0", "--sweep: concurrency: must be at least 1, found '0'"),
        ("max_steps=x", "--sweep: max_steps: expected a whole number, found 'x'"),
        ("scenarios=a", "--sweep: 'scenarios' is not a setting with one value"),
        ("colour=1", "--sweep: 'colour' is not a setting with one value"),
    ):
        with pytest.raises(SettingsError) as caught:
            sweep(settings, text)
        assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("flags", "policy"),
    [
        ({"model": "gpt-5"}, "openai"),
        ({"model": "m", "policy": "vllm"}, "vllm"),
        ({"model": "m", "policy": "oracle"}, "oracle"),
        ({"temperature": 0.5}, "oracle"),
        ({}, "oracle"),
    ],
)
def test_a_model_that_is_named_plays(flags: dict[str, object], policy: str, tmp_path: Path) -> None:
    """Not the oracle: with flags, with a file, and in a sweep. A policy that is named wins."""
    assert resolve(None, flags).policy.name == policy
    file = tmp_path / "settings.toml"
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in flags.items()))
    assert resolve(file, {}).policy.name == policy
    expected = "openai" if "policy" in flags and policy == "oracle" else policy
    if "model" in flags:  # on the command line it wins over a file without a model
        assert resolve_table({"policy": policy}, {"model": "m"}).policy.name == expected
    swept = sweep(Settings(), "model=a,b")[1]
    assert [one.policy.name for _, one in swept] == ["openai"] * 2


def test_a_server_without_the_name_of_its_model_is_refused() -> None:
    """The oracle does not play in its place."""
    with pytest.raises(SettingsError, match="policy 'openai' needs the name of a model: --model"):
        resolve(None, {"base_url": "http://localhost:8000/v1"})


def test_the_folder_of_a_model_is_run_here(tmp_path: Path) -> None:
    """Unless a URL says who serves it."""
    (tmp_path / "config.json").write_text("{}")
    assert resolve(None, {"model": str(tmp_path)}).policy.name == "local"
    served = resolve(None, {"model": str(tmp_path), "base_url": "http://localhost:8000/v1"})
    assert served.policy.name == "openai"


def test_every_field_is_described_and_its_key_is_its_own() -> None:
    """A description is a sentence; no two fields share a key, a flag or a letter."""
    fields = fields_of(Settings)
    for field in fields:
        assert field.description.endswith(".") and field.description[:1].isupper(), field.key
    for names in (
        [field.key for field in fields],
        [field.flag for field in fields if field.flag],
        [field.extra["short"] for field in fields if "short" in field.extra],
    ):
        assert len(set(names)) == len(names)


def test_defaults_are_within_their_bounds() -> None:
    """The defaults convert to themselves."""
    assert msgspec.convert(msgspec.to_builtins(Settings()), Settings) == Settings()
