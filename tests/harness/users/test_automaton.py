"""Bundled dialogues through the harness: selection, the oracle, one who never asks, resuming."""

from pathlib import Path

import pytest

from rehearsal_room.harness.rollout.plan import select_tasks
from rehearsal_room.scenarios.format import BUNDLED, read
from tests.support.cli import Rehearse, json_of

WORLDS = ("shop_support", "flight_desk", "claims_desk")


@pytest.mark.parametrize("world", WORLDS)
def test_every_bundled_world_has_eight_dialogues(world: str) -> None:
    tasks = read(BUNDLED / world).tasks
    assert sum(task.must_be_chosen for task in tasks) == 8
    without = [task for _, task in select_tasks([world])]
    assert not any(task.must_be_chosen for task in without)
    assert len(select_tasks([world], dialogues=True)) == len(without) + 8


def test_a_dialogue_is_played_by_name() -> None:
    ((_, task),) = select_tasks(["shop_support:which-boots"])
    assert task.is_dialogue
    assert "dialogue" in task.tags


DIALOGUES = [
    f"{world}:{task.id}"
    for world in WORLDS
    for task in read(BUNDLED / world).tasks
    if task.must_be_chosen
]


@pytest.mark.slow
def test_oracles_complete_all_dialogues_and_silent_agents_none(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """All are completed by the oracle, replayed to the last digest, and failed by one who is
    silent."""
    report = json_of(rehearse, "run", *DIALOGUES, "-o", tmp_path / "run")
    assert report["labels"] == {"completed": len(DIALOGUES)}
    replay = json_of(rehearse, "replay", tmp_path / "run")
    assert (replay["episodes"], replay["divergences"]) == (len(DIALOGUES), [])
    silent = json_of(rehearse, "run", *DIALOGUES, "-p", "noop", "-o", tmp_path / "noop")
    assert "completed" not in silent["labels"]


@pytest.mark.slow
def test_two_processes_play_the_same(rehearse: Rehearse, tmp_path: Path) -> None:
    """Oracles with a mistake have the same labels with one process and with two."""
    labels = []
    for name, words in (("one", ()), ("two", ("--processes", 2))):
        flags = ("-p", "mutant", *words, "-o", tmp_path / name)
        labels.append(json_of(rehearse, "run", *DIALOGUES, *flags)["labels"])
    assert labels[0] == labels[1]
    assert labels[0].get("completed", 0) <= 2  # a mistake that the world refuses is none


@pytest.mark.slow
def test_the_flag_plays_all_of_a_world(rehearse: Rehearse, tmp_path: Path) -> None:
    """Without --dialogue the tasks of before are played; the report has the tag."""
    without = json_of(rehearse, "run", "shop_support", "-o", tmp_path / "without")
    with_them = json_of(rehearse, "run", "shop_support", "--dialogue", "-o", tmp_path / "with")
    assert with_them["episodes"] == without["episodes"] + 8
