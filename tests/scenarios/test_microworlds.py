"""Drills: sound, the same again, and of other words where they are held out."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from judge.gate.context import GateSettings
from judge.gate.package import check_scenario
from scenarios.format import Call, read
from scenarios.microworlds.goals import KINDS, Rows, goal
from scenarios.microworlds.tasks import tasks_of
from scenarios.microworlds.words import Split, noun, nouns
from scenarios.microworlds.world import Drill, drawn
from scenarios.microworlds.writing import write_drills


def made(number: int = 0, split: Split = "train") -> Drill:
    """Some drill."""
    return drawn(Random(number), name=f"drill_{number}", split=split)


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_drills_pass_the_gate(tmp_path: Path, split: Split) -> None:
    """Oracles complete, idleness does not, no mistake passes, no tool breaks."""
    settings = GateSettings(max_mutants=60, probes=20)
    for folder in write_drills(tmp_path, seed=3, count=2, split=split):
        report = check_scenario(read(folder), settings)
        assert report.failures == ()
        assert report.tasks == 10
        assert report.mutants_caught == report.mutants > 50


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    """Worlds follow from seed, split and number alone; more of them change none of those before."""

    def first(name: str, *, count: int, seed: int) -> dict[str, str]:
        folder = write_drills(tmp_path / name, seed=seed, count=count, split="train")[0]
        return {file.name: file.read_text() for file in sorted(folder.iterdir())}

    one = first("one", count=1, seed=5)
    assert one == first("again", count=2, seed=5)
    assert one["tasks.toml"] != first("other", count=1, seed=6)["tasks.toml"]


def test_held_out_drills_have_nouns_that_training_never_has() -> None:
    """Neither a noun of a training trade nor a blend of such is a held-out trade's noun."""
    held_out = {one for _, words in nouns("held_out") for one, _ in words}
    training = {one for _, words in nouns("train") for one, _ in words}
    assert held_out.isdisjoint(training)
    rng = Random(0)
    blends = {noun(rng, "train", words)[0] for _, words in nouns("train") for _ in range(40)}
    assert len(blends - training) > 400
    assert held_out.isdisjoint(blends)


def test_a_held_out_drill_has_nouns_of_its_trade() -> None:
    """Nouns of held-out drills are not blended."""
    for number in range(20):
        drill = made(number, "held_out")
        words = dict(nouns("held_out"))[drill.trade]
        assert {drill.subject, drill.object} <= set(words)


def test_goals_of_a_task_touch_different_rows() -> None:
    """No goal undoes or needs what another one changes, so that each can be verified alone."""
    for number in range(30):
        drill = made(number)
        rows = Rows(drill, Random(number))
        acts = [kind for kind in drill.tools if kind in KINDS]
        checks = [line for _ in range(4) for line in goal(rows, acts[0], 2).checks]
        assert len(set(checks)) == len(checks)


def test_a_goal_is_reached_by_as_many_look_ups_as_it_is_told_by() -> None:
    """An object of a named subject takes two: the subject is found, then looked at."""
    drill = made(7)
    (noun_, _), (object_noun, _) = drill.subject, drill.object
    found = goal(Rows(drill, Random(1)), "close", 2)
    subject = next(one for one in drill.subjects if f" {one.name}" in found.text)
    assert found.text == f"Close the {object_noun} of {noun_} {subject.name}"
    assert found.calls == (
        Call(f"find_{noun_}", {noun_: subject.name}),
        Call(f"get_{noun_}", {noun_: subject.id}),
        Call(f"close_{object_noun}", {object_noun: subject.object}),
    )


def test_a_task_of_memory_is_lost_by_a_window_of_two_turns_in_one_order_only() -> None:
    """Most oracles find the target three calls before they use it; the others just before."""
    drill = made(3)
    (noun_, _), field = drill.subject, drill.subject_field
    tasks = [one.task for one in tasks_of(drill, Random(3), each=20)]
    places = []
    for task in tasks:
        if not task.id.startswith("memory"):
            continue
        *looks, last = task.oracle
        assert last.name == f"set_{noun_}_{field}"
        assert sorted(one.name for one in looks) == [f"find_{noun_}"] * 2 + [f"get_{noun_}"]
        target = next(one for one in drill.subjects if one.id == last.arguments[noun_])
        assert task.instruction.startswith(f"Give {noun_} {target.name} the {field} of {noun_} ")
        places.append(looks.index(Call(f"find_{noun_}", {noun_: target.name})))
    assert set(places) == {0, 2}
    assert 2 <= places.count(2) <= 9  # of 20, a quarter


def test_tasks_have_the_lengths_that_their_names_say() -> None:
    """`goals-3` has three sentences that each ask for one thing."""
    drawn_tasks = tasks_of(made(5), Random(5), each=2)
    counts = {one.task.id: len(one.checks) for one in drawn_tasks}
    assert counts == {
        **{f"goals-{number}-{letter}": number for number in (1, 2, 3, 4) for letter in "ab"},
        "memory-a": 1,
        "memory-b": 1,
    }
    assert msgspec.structs.asdict(drawn_tasks[0].task)["kind"] == "change"
