"""Tasks of worlds as rows of NeMo Gym."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from rehearsal_room.cli.main import cli
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.catalogue import find


def _export(*words: str) -> str:
    made = CliRunner().invoke(
        cli, ["export", *words], catch_exceptions=False, standalone_mode=False
    )
    return made.output


def test_a_row_has_what_a_model_is_asked(tmp_path: Path) -> None:
    """Each task is a row with its prompt, its tools and what /seed_session needs."""
    path = tmp_path / "rows.jsonl"
    printed = _export("shop_support", "flight_desk", "--to", "gym", "-o", str(path))
    rows = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    worlds = {name: find(name) for name in ("shop_support", "flight_desk")}
    assert printed.startswith(f"{len(rows)} tasks in {path}\n16 dialogues left out")
    assert [row["id"] for row in rows] == [
        f"{name}:{task.id}" for name, world in worlds.items() for task in world.default_tasks
    ]
    row = rows[0]
    asked = row["responses_create_params"]
    task = worlds["shop_support"].task(row["task"])
    assert [message["role"] for message in asked["input"]] == ["system", "user"]
    assert asked["input"][1]["content"] == task.instruction
    assert worlds["shop_support"].rules in asked["input"][0]["content"]
    assert {tool["type"] for tool in asked["tools"]} == {"function"}
    assert "get_order" in {tool["name"] for tool in asked["tools"]}
    assert row["scenario_digest"] == worlds["shop_support"].digest


def test_one_task_is_chosen_by_name(tmp_path: Path) -> None:
    """`name:task` writes one row, and a dialogue has the tool for its talk."""
    dialogue = next(t for t in find("shop_support").tasks if t.must_be_chosen)
    path = tmp_path / "one.jsonl"
    _export(f"shop_support:{dialogue.id}", "--to", "gym", "-o", str(path))
    (row,) = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert row["responses_create_params"]["tools"][-1]["name"] == "talk_to_user"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("a", "b"), "RUN: --to jsonl writes the episodes of one run, not of 2"),
        (("RUN", "--to", "gym"), "it is a run, and --to gym writes tasks of worlds"),
    ],
)
def test_a_wrong_source_is_refused(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    """Formats of episodes take one run, and formats of tasks take scenarios."""
    run = tmp_path / "RUN"
    run.mkdir()
    (run / "run.toml").touch()
    with pytest.raises(SettingsError, match=sentence):
        _export(*(str(run) if word == "RUN" else word for word in words))
