"""`rehearse schema`: what editors read is what the readers of the files accept."""

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rehearsal_room.harness.settings.fields import fields_of
from rehearsal_room.harness.settings.run import Settings
from tests.support.budgets import IS_LONG
from tests.support.cli import Rehearse, json_of
from tests.support.paths import ROOT

# A recipe's schema has those of runs and trainings in it, which take seconds to check.
FILES = ("judge", "recipe", "rubric", "prices", "scenario", "tasks")
if IS_LONG:
    FILES = (*FILES, "run", "train")


def schema_of(rehearse: Rehearse, *name: str) -> Any:
    status, out, err = rehearse("schema", *name)
    assert (status, err) == (0, "")
    return json.loads(out)


def faults_of(schema: Any, text: str) -> list[str]:
    """Where a file does not match the schema."""
    found = jsonschema.Draft202012Validator(schema).iter_errors(tomllib.loads(text))
    return [one.json_path for one in found]


@pytest.mark.parametrize("name", FILES)
def test_every_schema_is_one(rehearse: Rehearse, name: str) -> None:
    """Each is a valid JSON Schema that names its dialect and its file. (`run` and `train`, which
    are in `recipe`, are also checked alone in `just test-long`.)"""
    schema = schema_of(rehearse, name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"]
    assert schema["additionalProperties"] is False


def test_a_file_that_there_is_not_is_named(rehearse: Rehearse) -> None:
    """With the nearest one, or all."""
    status, _, err = rehearse("schema", "trian")
    assert (status, err) == (2, "error: schema: there is no file 'trian'; did you mean 'train'?\n")


def test_saved_settings_match_the_schema(rehearse: Rehearse, tmp_path: Path) -> None:
    """run.toml of a run, and what --dry-run prints."""
    schema = schema_of(rehearse)
    run = tmp_path / "run"
    json_of(rehearse, "run", "shop_support:cancel-duplicate", "--workers", 2, "-o", run)
    assert faults_of(schema, (run / "run.toml").read_text()) == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ('policy = "openai"\nmodel = "m"\nmax_steps = 3\njudge_models = ["a"]', []),
        ('[policy]\nname = "openai"\n[model]\nname = "m"\n[limits]\nmax_steps = 3', []),
        ("max_steps = 0", ["$.max_steps"]),
        ("[limits]\nmax_steps = 0", ["$.limits.max_steps"]),
        ('dialect = "elvish"', ["$.dialect"]),
        ("model = 3", ["$.model"]),
        ("max_step = 3", ["$"]),
        ("[limits]\nmax_step = 3", ["$.limits"]),
        ("[bus]\nkeepalive_s = 0", ["$.bus"]),
    ],
)
def test_both_forms_of_a_run_are_in_its_schema(
    rehearse: Rehearse, text: str, faults: list[str]
) -> None:
    """A key may be at the top or in its table; bounds and words hold in both."""
    assert faults_of(schema_of(rehearse, "run"), text) == faults


def test_every_setting_has_a_description(rehearse: Rehearse) -> None:
    """Editors show what `--help` shows."""
    properties = schema_of(rehearse)["properties"]
    for field in fields_of(Settings):
        assert properties[field.key]["description"] == field.description


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda p: p.name)
def test_the_recipes_match_their_schema(rehearse: Rehearse, path: Path) -> None:
    """With the settings of runs and trainings in them."""
    schema, text = schema_of(rehearse, "recipe"), path.read_text()
    assert faults_of(schema, text) == []
    assert faults_of(schema, text.replace("max_steps = ", "max_stepz = ")) == ["$.run"]
    assert faults_of(schema, text.replace("\nlr = ", "\nlr = -")) != []


def test_a_training_file_has_the_settings_of_runs(rehearse: Rehearse) -> None:
    """In [rollouts] and [evaluation], in both forms."""
    schema = schema_of(rehearse, "train")
    runs = '[rollouts]\nscenarios = ["a"]\nmax_steps = 3\n[evaluation.limits]\nmax_steps = 4\n'
    assert faults_of(schema, f'model = "m"\n{runs}') == []
    assert faults_of(schema, runs) == ["$"]
    assert faults_of(schema, f'model = "m"\n[loss]\nclip_low = 2.0\n{runs}') == ["$.loss.clip_low"]
    assert faults_of(schema, 'model = "m"\n[rollouts]\nmax_steps = 0') == ["$.rollouts.max_steps"]


@pytest.mark.parametrize("name", ["scenario", "tasks"])
def test_the_bundled_packages_are_as_their_schemas_say(rehearse: Rehearse, name: str) -> None:
    """scenario.toml and tasks.toml."""
    schema = schema_of(rehearse, name)
    for path in (ROOT / "scenarios" / "bundled").glob(f"*/{name}.toml"):
        assert faults_of(schema, path.read_text()) == [], path
    assert faults_of(schema, "colour = 1") != []


@pytest.mark.parametrize("name", ["credit", "miniature/judges", "miniature/worlds"])
def test_experiments_without_arms_match_their_schema(rehearse: Rehearse, name: str) -> None:
    """An unknown word in their own table is a fault."""
    text = (ROOT / "configs" / "experiments" / f"{name}.toml").read_text()
    kind = name.partition("/")[0]
    schema = schema_of(rehearse, kind)
    assert faults_of(schema, text) == []
    assert faults_of(schema, text.replace(f"[{kind}]", f"[{kind}]\nweather = 1")) == [f"$.{kind}"]
