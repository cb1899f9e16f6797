"""Drills: sound, the same again, and of other words where they are held out."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from judge.gate import check_scenario
from judge.gate_notes import GateSettings
from scenarios.drills.goals import KINDS, Rows, goal
from scenarios.drills.tasks import BETWEEN, tasks_of
from scenarios.drills.words import Split, noun, nouns
from scenarios.drills.world import Drill, drawn
from scenarios.drills.writing import write_drills
from scenarios.format import Call, read


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


def test_a_task_of_memory_uses_at_its_end_what_it_saw_at_its_begin() -> None:
    """Between look-up and use are the calls of other goals; some oracles look again."""
    drill = made(3)
    look = f"get_{drill.subject[0]}"
    tasks = [one.task for one in tasks_of(drill, Random(3), each=20)]
    again = 0
    for task in tasks:
        if task.id.startswith("memory"):
            first, *between, last = task.oracle
            use = f"set_{drill.subject[0]}_{drill.subject_field}"
            assert (first.name, last.name) == (look, use)
            looked_again = between[-1] == first
            assert len(between) == BETWEEN + looked_again
            again += looked_again
    assert 2 <= again <= 9  # of 20, a quarter


def test_tasks_have_the_lengths_that_their_names_say() -> None:
    """`goals-3` has three sentences that each ask for one thing."""
    drawn_tasks = tasks_of(made(5), Random(5), each=2)
    counts = {one.task.id: len(one.checks) for one in drawn_tasks}
    assert counts == {
        **{f"goals-{number}-{letter}": number for number in (1, 2, 3, 4) for letter in "ab"},
        "memory-a": BETWEEN + 1,
        "memory-b": BETWEEN + 1,
    }
    assert msgspec.structs.asdict(drawn_tasks[0].task)["kind"] == "change"
