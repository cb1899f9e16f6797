"""What is said of a policy: scores by group of worlds, habits, and the clone's loss."""

import json
from pathlib import Path

import pytest

from rehearsal_room.demo.results import (
    Agreement,
    Habits,
    agreement,
    clone_loss,
    gain,
    habits_of,
    mixed_groups,
    scores_of,
)
from rehearsal_room.learner.core.errors import LearnerError
from rehearsal_room.scenarios.format import Call, Task, read
from rehearsal_room.scenarios.microworlds.offices import OfficeShape, write_offices
from tests.support.cli import Rehearse

Attempts = list[tuple[Task, tuple[Call, ...]]]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three worlds with two tasks each."""
    folder, shape = tmp_path_factory.mktemp("worlds"), OfficeShape()
    return write_offices(folder, shape, name="w", seed=1, count=3, split="train", each=2)


def played(
    rehearse: Rehearse, output: Path, world: Path, *attempts: tuple[Call, ...], tasks: str = "set-0"
) -> Path:
    """A run of policy `scripted`: each attempt is a try at the task."""
    script = output.with_suffix(".jsonl")
    lines = [
        {
            "scenario": world.name,
            "task": tasks,
            "answer": "Done.",
            "calls": [{"name": call.name, "arguments": call.arguments} for call in calls],
        }
        for calls in attempts
    ]
    script.write_text("\n".join(map(json.dumps, lines)))
    status, _, error = rehearse(
        *("run", f"{world}:{tasks}", "-p", "scripted", "--script", script),
        *("-g", len(attempts), "-o", output),
    )
    assert status == 0, error
    return output


def solution(world: Path) -> tuple[Call, Call, Call]:
    where, find, change = read(world).tasks[0].oracle
    return where, find, change


def elsewhere(call: Call, world: Path) -> Call:
    """The same search in the first office that has not got the record."""
    listed = read(world).tasks[0].instruction.rpartition("Offices: ")[2].rstrip(".").split(", ")
    other = next(one for one in listed if one != call.arguments["office"])
    return Call(call.name, {**call.arguments, "office": other})


def test_habits_are_read_from_calls(rehearse: Rehearse, worlds: list[Path], tmp_path: Path) -> None:
    """A look-up counts where it is the first call; a repeat is the same office right after a miss;
    a search after a hit is none."""
    where, find, change = solution(worlds[0])
    miss = elsewhere(find, worlds[0])
    run = played(
        *(rehearse, tmp_path / "run", worlds[0]),
        *((where, find, change), (miss, miss, find, change), (find, where, find, find, change)),
        (miss, where, find, change),
    )
    assert habits_of(run) == Habits(look_ups=0.25, repeats=0.5, misses=2)


def test_scores_and_gains_are_of_the_named_worlds_alone(
    rehearse: Rehearse, worlds: list[Path], tmp_path: Path
) -> None:
    """Each group of worlds has its own score, and pass@k where there are samples of it."""
    runs = {name: tmp_path / name for name in ("oracle", "noop", "sampled")}
    tasks = {"oracle": worlds, "noop": worlds, "sampled": worlds[:1]}
    for name, run in runs.items():
        policy = "noop" if name == "noop" else "oracle"
        tries = 2 if name == "sampled" else 1
        status, _, error = rehearse("run", *tasks[name], "-p", policy, "-g", tries, "-o", run)
        assert status == 0, error
    groups = {"one": worlds[:1], "others": worlds[1:]}
    found = scores_of(groups, runs["noop"], runs["sampled"])
    assert [(one.tasks, one.greedy.value) for one in found.values()] == [(2, 0.0), (4, 0.0)]
    assert found["one"].sampled is not None and found["one"].pass_at is not None
    assert (found["one"].sampled.value, found["one"].pass_at.value) == (1.0, 1.0)
    assert found["others"].sampled is None
    assert gain(runs["noop"], runs["oracle"], worlds[1:]).value == 1.0
    with pytest.raises(LearnerError, match="have different tasks"):
        gain(runs["noop"], runs["sampled"], worlds)


def test_the_loss_of_a_clone_is_that_of_completed_attempts(
    rehearse: Rehearse, worlds: list[Path], tmp_path: Path
) -> None:
    """Its floor is the entropy of their choices: here one look-up and one lucky guess, and the
    failed attempt counts in neither. Without tokens the loss is 0."""
    where, find, change = solution(worlds[0])
    miss = elsewhere(find, worlds[0])
    run = played(
        *(rehearse, tmp_path / "run", worlds[0]), (where, find, change), (find, change), (miss,)
    )
    train = tmp_path / "train"
    train.mkdir()
    (train / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5}\n{"step": 2}\n')
    found = clone_loss(run, train)
    number = read(worlds[0]).tasks[0].instruction.count(",") + 1
    assert (found.attempts, found.played, found.loss) == (2, 3, 0.0)
    assert found.floor == pytest.approx(floor_of_a_coin_and_a_guess(number))


def floor_of_a_coin_and_a_guess(offices: int) -> float:
    """ln 2 for the choice, and half of the attempts also choose among the offices."""
    from math import log

    return log(2) + log(offices) / 2


def test_the_share_of_mixed_groups_is_that_of_the_groups_that_were_played(tmp_path: Path) -> None:
    """Groups of equal rewards are dropped and count; rows without a batch are skipped."""
    rows = [
        {"step": 0, "evaluation/pass_rate": 0.5},
        {"step": 1, "groups": 12, "dropped/equal": 4},
        {"step": 2, "groups": 16},
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert mixed_groups(tmp_path) == [(1, 0.75), (2, 1.0)]


def test_nothing_is_claimed_if_sampler_and_trainer_disagree(tmp_path: Path) -> None:
    """A first batch above 1e-4 nats, or a difference that was not measured, is an error; the
    largest difference of later batches is reported."""
    rows = tmp_path / "metrics.jsonl"
    first, later = '{"step": 1, "mismatch_max": 2e-6}\n', '{"step": 2, "mismatch_max": 0.002}\n'
    rows.write_text('{"step": 0}\n' + first + later)
    assert agreement(tmp_path) == Agreement(2e-6, 0.002)
    rows.write_text(later)
    with pytest.raises(LearnerError, match=r"differ by 0\.002; at most 1e-04 is allowed"):
        agreement(tmp_path)
    rows.write_text('{"step": 0}\n')
    with pytest.raises(LearnerError, match="sampler and trainer was not measured"):
        agreement(tmp_path)
