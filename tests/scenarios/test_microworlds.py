"""Micro-worlds: sound, reproducible, and with other words where they are held out."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from rehearsal_room.judge.gate.core.task_runner import GateSettings
from rehearsal_room.judge.gate.package import check_scenario
from rehearsal_room.scenarios.format import Call, read
from rehearsal_room.scenarios.microworlds.goals import KINDS, Rows, draw_goal
from rehearsal_room.scenarios.microworlds.tasks import draw_tasks
from rehearsal_room.scenarios.microworlds.words import MicroworldSplit, draw_noun, nouns
from rehearsal_room.scenarios.microworlds.world import MicroWorld, draw_world
from rehearsal_room.scenarios.microworlds.writing import write_microworlds


def microworld(number: int = 0, split: MicroworldSplit = "train") -> MicroWorld:
    """A micro-world without tasks."""
    return draw_world(Random(number), name=f"microworld_{number}", split=split)


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_microworlds_pass_the_gate(tmp_path: Path, split: MicroworldSplit) -> None:
    """Oracles complete their tasks, doing nothing does not, no mutant passes, no tool breaks."""
    settings = GateSettings(max_mutants=60, probes=20)
    for folder in write_microworlds(tmp_path, seed=3, count=2, split=split):
        report = check_scenario(read(folder), settings)
        assert report.failures == ()
        assert report.tasks == 10
        assert report.mutants_caught == report.mutants > 50


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    """A package depends on seed, split and number alone; a larger count changes no earlier one."""

    def first(name: str, *, count: int, seed: int) -> dict[str, str]:
        folder = write_microworlds(tmp_path / name, seed=seed, count=count, split="train")[0]
        return {file.name: file.read_text() for file in sorted(folder.iterdir())}

    one = first("one", count=1, seed=5)
    assert one == first("again", count=2, seed=5)
    assert one["tasks.toml"] != first("other", count=1, seed=6)["tasks.toml"]


def test_a_package_is_named_by_split_seed_and_number(tmp_path: Path) -> None:
    """The folder's name is the package's name."""
    [folder] = write_microworlds(tmp_path, seed=5, count=1, split="train")
    [held_out] = write_microworlds(tmp_path, seed=5, count=1, split="held_out")
    assert (folder.name, held_out.name) == ("microworld_5_0000", "held_out_5_0000")
    assert (read(folder).name, read(held_out).name) == (folder.name, held_out.name)


def test_held_out_microworlds_have_nouns_that_training_never_has() -> None:
    """Neither a noun of a training trade nor a blend of two is a noun of a held-out trade."""
    held_out = {one for _, words in nouns("held_out") for one, _ in words}
    training = {one for _, words in nouns("train") for one, _ in words}
    assert held_out.isdisjoint(training)
    rng = Random(0)
    blends = {draw_noun(rng, "train", words)[0] for _, words in nouns("train") for _ in range(40)}
    assert len(blends - training) > 400
    assert held_out.isdisjoint(blends)


def test_nouns_of_held_out_microworlds_are_not_blended() -> None:
    """A held-out micro-world has two nouns of its trade."""
    for number in range(20):
        world = microworld(number, "held_out")
        words = dict(nouns("held_out"))[world.trade]
        assert {world.subject, world.object} <= set(words)


def test_goals_of_a_task_touch_different_rows() -> None:
    """No goal undoes or needs what another goal changes, so each can be verified by itself."""
    for number in range(30):
        world = microworld(number)
        rows = Rows(world, Random(number))
        changing = [kind for kind in world.tools if kind in KINDS]
        checks = [line for _ in range(4) for line in draw_goal(rows, changing[0], 2).checks]
        assert len(set(checks)) == len(checks)


def test_a_goal_takes_as_many_look_ups_as_its_text_needs() -> None:
    """The object of a named subject takes two look-ups: find the subject, then read it."""
    world = microworld(7)
    (noun, _), (object_noun, _) = world.subject, world.object
    goal = draw_goal(Rows(world, Random(1)), "close", 2)
    subject = next(one for one in world.subjects if f" {one.name}" in goal.text)
    assert goal.text == f"Close the {object_noun} of {noun} {subject.name}"
    assert goal.calls == (
        Call(f"find_{noun}", {noun: subject.name}),
        Call(f"get_{noun}", {noun: subject.id}),
        Call(f"close_{object_noun}", {object_noun: subject.object}),
    )


def test_only_one_order_of_look_ups_needs_more_than_a_window_of_two_turns() -> None:
    """Most oracles of memory tasks find the target three calls before they use it; the others
    find it in the call just before."""
    world = microworld(3)
    (noun, _), field = world.subject, world.subject_field
    tasks = [one.task for one in draw_tasks(world, Random(3), each=20)]
    positions = []
    for task in tasks:
        if not task.id.startswith("memory"):
            continue
        *lookups, last = task.oracle
        assert last.name == f"set_{noun}_{field}"
        assert sorted(one.name for one in lookups) == [f"find_{noun}"] * 2 + [f"get_{noun}"]
        target = next(one for one in world.subjects if one.id == last.arguments[noun])
        assert task.instruction.startswith(f"Give {noun} {target.name} the {field} of {noun} ")
        positions.append(lookups.index(Call(f"find_{noun}", {noun: target.name})))
    assert set(positions) == {0, 2}
    assert 2 <= positions.count(2) <= 9  # of 20, a quarter


def test_tasks_have_as_many_goals_as_their_ids_say() -> None:
    """`goals-3` has three sentences that each ask for one change."""
    drawn = draw_tasks(microworld(5), Random(5), each=2)
    counts = {one.task.id: len(one.checks) for one in drawn}
    assert counts == {
        **{f"goals-{number}-{letter}": number for number in (1, 2, 3, 4) for letter in "ab"},
        "memory-a": 1,
        "memory-b": 1,
    }
    assert msgspec.structs.asdict(drawn[0].task)["kind"] == "change"
