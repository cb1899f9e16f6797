"""Worlds whose records are kept in several offices: sound, reproducible, and not to be cheated."""

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from rehearsal_room.judge.gate.core.task_runner import GateSettings
from rehearsal_room.judge.gate.package import check_scenario
from rehearsal_room.scenarios.format import Call, Task, read
from rehearsal_room.scenarios.microworlds.offices import (
    OFFICES,
    OfficeShape,
    OfficeWorld,
    draw_office_world,
    draw_tasks,
    find,
    look_up,
    package_of,
    set_number,
    write_offices,
)
from rehearsal_room.scenarios.microworlds.words import nouns
from tests.support.cli import Rehearse

SHAPES = [
    OfficeShape(),
    OfficeShape(offices=(2, 7), tables=2),
    OfficeShape(order="held_out"),
    OfficeShape(look_up=False),
    OfficeShape(offices=(4,), look_up=False, fixed=True),
    OfficeShape(unrelated=True),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_office_worlds_pass_the_gate(tmp_path: Path, shape: OfficeShape) -> None:
    """Oracles complete their tasks, doing nothing does not, no mutant passes, no tool breaks."""
    settings = GateSettings(max_mutants=60, probes=20)
    [folder] = write_offices(tmp_path, shape, name="w", seed=3, count=1, split="held_out", each=3)
    report = check_scenario(read(folder), settings)
    assert report.failures == ()
    assert report.tasks == 3
    assert report.mutants_caught == report.mutants > 20


def test_worlds_may_have_the_same_offices() -> None:
    """In the same order, so that what follows an office is the same everywhere."""
    worlds = [
        draw_office_world(Random(seed), SHAPES[-2], name="w", split="train") for seed in range(20)
    ]
    assert {one.offices for one in worlds} == {OFFICES[:4]}
    assert len({one.tables[0].noun for one in worlds}) > 5


def test_an_unrelated_tool_has_no_task() -> None:
    """It stands anywhere among the tools, so neither place nor name tells what a task is about."""
    places = Counter[int]()
    for seed in range(60):
        world = draw_office_world(Random(seed), SHAPES[-1], name="w", split="train")
        assert world.unrelated is not None
        tasks = draw_tasks(world, Random(seed), each=4)
        assert world.unrelated.table.noun != world.tables[0].noun
        assert all(f" {world.tables[0].noun} " in one.task.instruction for one in tasks)
        tools = package_of(world, tasks).tools
        assert tools.count("\ndef ") == 4
        assert f"{world.unrelated.tool}_{world.unrelated.table.noun}" in tools
        places[world.unrelated.place] += 1
    assert set(places) == {0, 1, 2, 3}


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    """A package depends on name, seed, shape and number alone; a larger count changes no earlier
    one."""

    def first(name: str, *, count: int, seed: int) -> dict[str, str]:
        [folder, *_] = write_offices(
            tmp_path / name, SHAPES[0], name="w", seed=seed, count=count, split="train", each=2
        )
        return {file.name: file.read_text() for file in sorted(folder.iterdir())}

    one = first("one", count=1, seed=5)
    assert one == first("again", count=2, seed=5)
    assert one["tasks.toml"] != first("other", count=1, seed=6)["tasks.toml"]


def drawn(shape: OfficeShape, number: int) -> OfficeWorld:
    return draw_office_world(Random(number), shape, name="w", split="held_out")


def test_structure_that_is_held_out_is_not_in_training() -> None:
    """Orders of tools and nouns of held-out worlds are in no world of training."""
    orders = {
        split: {drawn(OfficeShape(order=split), n).tools for n in range(60)}
        for split in ("train", "held_out")
    }
    assert (len(orders["train"]), len(orders["held_out"])) == (4, 2)
    assert orders["train"].isdisjoint(orders["held_out"])
    training = {one for _, words in nouns("train") for one, _ in words}
    assert training.isdisjoint(drawn(SHAPES[0], n).tables[0].noun for n in range(60))


def test_an_office_says_nothing_about_a_record() -> None:
    """Neither its place in the list nor its name is where records are more often."""
    places: Counter[int] = Counter()
    for number in range(400):
        world = drawn(OfficeShape(offices=(4,)), number)
        places.update(world.offices.index(one.office) for one in world.tables[0].records)
    assert all(places[place] / 4000 == pytest.approx(0.25, abs=0.03) for place in range(4))


@pytest.mark.parametrize("offices", [(0,), (len(OFFICES) + 1,)])
def test_a_number_of_offices_that_cannot_be_is_refused(offices: tuple[int, ...]) -> None:
    """The sentence says which numbers can be."""
    with pytest.raises(ValueError, match="expected numbers from 1 to 12"):
        OfficeShape(offices=offices)


@pytest.fixture
def two_tables(tmp_path: Path) -> tuple[Path, OfficeWorld, Task]:
    """A package with two tables, and its first task."""
    world = draw_office_world(Random(5), OfficeShape(tables=2), name="w", split="train")
    tasks = draw_tasks(world, Random(5), each=1)
    folder = tmp_path / "w"
    folder.mkdir()
    for file, text in package_of(world, tasks).texts().items():
        (folder / file).write_text(text)
    return folder, world, tasks[0].task


def attacks(world: OfficeWorld, task: Task) -> dict[str, list[Call]]:
    """What would look like the work."""
    *_, change = task.oracle
    own = next(one for one in world.tables if one.noun in change.arguments)
    other = next(one for one in world.tables if one is not own)
    row = next(one for one in own.records if one.id == change.arguments[own.noun])
    namesake = next(one for one in other.records if one.name == row.name)
    neighbour = next(one for one in own.records if one.office != row.office)
    value = change.arguments[own.field]
    assert isinstance(value, int)
    wrong = set_number(own.noun, own.field, neighbour.id, value)
    return {
        "the solution": list(task.oracle),
        "without a look": [change],
        "nothing": [],
        "looked up and found, not set": list(task.oracle[:2]),
        "the other table's record of this name": [
            look_up(other.noun, row.name),
            find(other.noun, namesake.office, row.name),
            set_number(other.noun, other.field, namesake.id, value),
        ],
        "another office's record": [wrong],
        "that and the right one": [wrong, change],
        "every record": [set_number(own.noun, own.field, one.id, value) for one in own.records],
        "another value": [set_number(own.noun, own.field, row.id, value % 90 + 10)],
    }


def test_only_the_work_is_paid(
    rehearse: Rehearse, two_tables: tuple[Path, OfficeWorld, Task], tmp_path: Path
) -> None:
    """What looks like the work, or is more than the work, is not completed. (An id that is known
    without a look is: no rule forbids it. Ids are drawn from ninety, so it is not guessed.)"""
    folder, world, task = two_tables
    named = attacks(world, task)
    script = tmp_path / "script.jsonl"
    script.write_text(
        "\n".join(
            json.dumps(
                {
                    "scenario": "w",
                    "task": task.id,
                    "answer": "Done.",
                    "calls": [{"name": one.name, "arguments": one.arguments} for one in calls],
                }
            )
            for calls in named.values()
        )
    )
    run = tmp_path / "run"
    status, _, error = rehearse(
        *("run", str(folder), "-p", "scripted", "--script", script),
        *("-g", len(named), "-o", run),
    )
    assert status == 0, error
    status, _, error = rehearse("export", run, "--to", "jsonl", "-o", tmp_path / "out.jsonl")
    assert status == 0, error
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    completed = {
        name
        for name, row in zip(named, sorted(rows, key=lambda one: one["member"]), strict=True)
        if row["label"] == "completed"
    }
    assert completed == {"the solution", "without a look"}
