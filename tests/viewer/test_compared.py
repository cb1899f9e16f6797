"""Runs beside each other: every pair says what `rehearse compare` says, however they differ."""

import json
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.cli import Rehearse, json_of
from tests.support.viewer_client import played, viewing
from tests.viewer.conftest import TASKS


@pytest.fixture(scope="module")
def different(mutants: Path, oracles: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs that have little in common: other worlds and policies, one task once, no verdict, and no
    episode at all."""
    folder = tmp_path_factory.mktemp("different")
    empty = folder / "empty"
    anyio.run(_write_nothing, empty)
    (empty / "run.toml").write_bytes((oracles / "run.toml").read_bytes())
    return [
        mutants,
        oracles,
        empty,
        played(folder / "desk", "flight_desk", TASKS[0], policy="mutant", episodes=40, seed=7),
        played(folder / "random", "flight_desk", policy="random", episodes=30),
        played(folder / "unjudged", *TASKS, policy="mutant", judge="none"),
        played(folder / "once", TASKS[1], policy="oracle", episodes=1),
    ]


async def _write_nothing(folder: Path) -> None:
    async with open_log(folder):
        pass


@pytest.mark.slow
async def test_every_pair_says_what_the_command_says(
    different: list[Path], tmp_path: Path, rehearse: Rehearse
) -> None:
    """Verdict, interval, settings, worlds, rates and who does better on each task are those of
    `rehearse compare`; where that refuses, the sentence is the same, and the rest is there."""
    pairs = list(combinations(different, 2))
    async with viewing(*different) as client:
        found = {
            pair: await client.get(f"/api/compare?run={run_id(pair[0])}&run={run_id(pair[1])}")
            for pair in pairs
        }
    refused, file = 0, tmp_path / "found.json"
    for pair in pairs:
        command = partial(rehearse, "compare", *pair, "--json", file)
        status, out, err = await anyio.to_thread.run_sync(command)
        answer = found[pair]
        [verdict] = answer["verdicts"]
        assert [run["episodes"] for run in answer["runs"]] == [_num_over(run) for run in pair]
        if status:
            refused += 1
            assert verdict["lines"][0] in " ".join(err.split())
            assert verdict["delta"] is None
            continue
        assert verdict["lines"] == out.splitlines()[: len(verdict["lines"])]
        wanted = json.loads(file.read_bytes())
        assert (verdict["delta"], verdict["interval"]) == (wanted["delta"], wanted["interval"])
        assert [run["completed"] for run in answer["runs"]] == [
            run["completed"] for run in wanted["runs"]
        ]
        assert _differing(answer, "setting") == {
            one["setting"]: one["values"] for one in wanted["settings"]
        }
        assert _differing(answer, "world") == wanted["changed_worlds"]
        assert answer["only_in_some"] == {
            name: len(tasks) for name, tasks in wanted["only_in_some"].items()
        }
        for change in ("gained", "lost"):
            assert wanted[change] == [
                f"{row['scenario']}:{row['task']}"
                for row in answer["rows"]
                if row["changes"] == [change]
            ]
    assert 0 < refused < len(pairs)


def _num_over(run: Path) -> int:
    with open_reader(run) as reader:
        return sum(row.ending is not None for row in reader.episodes())


def _differing(answer: Any, what: str) -> dict[str, Any]:
    return {one["name"]: one["values"] for one in answer["differs"] if one["what"] == what}


async def test_several_runs_are_compared_with_the_first(
    different: list[Path], rehearse: Rehearse
) -> None:
    """Each verdict and interval is that of one `rehearse compare` with all runs that share a task
    with the first; a run that shares none is named, and its tasks are there."""
    mutants, oracles, empty, desk, random, unjudged, once = different
    chosen = (mutants, oracles, random, once, desk, unjudged)
    path = "&".join(f"run={run_id(run)}" for run in chosen)
    shared = (mutants, oracles, once, desk)
    wanted = await anyio.to_thread.run_sync(lambda: json_of(rehearse, "compare", *shared))
    async with viewing(*different) as client:
        found = await client.get(f"/api/compare?{path}")
        quick = await client.get(f"/api/compare?{path}&quick=1")
        few = await client.error(f"/api/compare?run={run_id(mutants)}")
        many = await client.error(f"/api/compare?{path}&run={run_id(empty)}")
    verdicts = {one["name"]: one for one in found["verdicts"]}

    assert found["level"] == wanted["level"] > 0.98
    assert [verdicts[name]["interval"] for name in "BDE"] == [
        one["comparison"]["interval"] for one in wanted["differences"]
    ]
    for name in "CF":
        assert "share no task with a verdict" in verdicts[name]["lines"][0]
    assert [one["interval"] for one in quick["verdicts"]] == [
        one["interval"] for one in found["verdicts"]
    ]
    assert quick["rows"] == found["rows"]
    assert {row["scenario"] for row in found["rows"]} == {"shop_support", "flight_desk"}
    assert (few, many) == (
        "compare: choose two to six runs, not 1",
        "compare: choose two to six runs, not 7",
    )


async def test_a_task_leads_to_two_episodes_of_the_two_runs(mutants: Path, oracles: Path) -> None:
    """The pair that a row names is aligned over both runs: they part where a call or a row differs,
    and the rows that differ at the end are those of the two final states."""
    async with viewing(mutants, oracles) as client:
        found = await client.get(f"/api/compare?run={run_id(oracles)}&run={run_id(mutants)}")
        pairs = []
        for row in found["rows"]:
            [[a, b]] = row["pairs"]
            path = f"run={run_id(oracles)}&a={a}&other={run_id(mutants)}&b={b}"
            pairs.append((row, await client.get(f"/api/pair?{path}")))

    for row, pair in pairs:
        assert (pair["a"]["task"], pair["b"]["task"]) == (row["task"], row["task"])
        assert (pair["a"]["label"], pair["b"]["label"]) != ("completed", "completed")
        assert pair["why_calls_alone"] is None
        at = pair["parts_at"]
        assert at is not None
        assert {one["same"] for one in pair["aligned"][: at["a"]]} <= {"both"}
        is_same_end = pair["a"]["end_digest"] == pair["b"]["end_digest"]
        assert is_same_end == (pair["end_difference"] == [])


async def test_worlds_that_began_otherwise_are_aligned_by_calls(
    oracles: Path, different: list[Path], tmp_path: Path
) -> None:
    """Where the packages differ the pair says so and compares no rows; two tasks are named as
    different ones. Here the package of one run is changed in its log."""
    changed = tmp_path / "changed"
    await _with_other_world(oracles, changed)
    once = different[-1]
    async with viewing(oracles, changed, once) as client:
        both = f"a=e000000&other={run_id(changed)}&b=e000000"
        same = await client.get(f"/api/pair?run={run_id(oracles)}&{both}")
        found = await client.get(f"/api/compare?run={run_id(oracles)}&run={run_id(changed)}")
        other = f"a=e000000&other={run_id(once)}&b=e000000"
        tasks = await client.get(f"/api/pair?run={run_id(oracles)}&{other}")

    assert same["why_calls_alone"].startswith("The packages of the two worlds differ")
    assert {one["same"] for one in same["aligned"]} == {"call"}
    assert (same["parts_at"], same["world_difference"], same["end_difference"]) == (None, [], [])
    assert [one["name"] for one in found["differs"] if one["what"] == "world"] == ["shop_support"]
    assert tasks["remarks"] == [f"These are different tasks: {TASKS[0]} and {TASKS[1]}."]


async def _with_other_world(run: Path, folder: Path) -> None:
    """The log of a run whose world began otherwise: other digests of package and start."""
    with open_reader(run) as reader:
        records, worlds = list(reader.records()), reader.scenarios()
    async with open_log(folder) as log:
        for world in worlds.values():
            log.add_scenario(msgspec.structs.replace(world, scenario_digest="0" * 32))
        for record in records:
            event = record.event
            if record.seq == 0:
                event = msgspec.structs.replace(
                    event, scenario_digest="0" * 32, start_digest="1" * 32
                )
            log.append(msgspec.structs.replace(record, event=event))
    (folder / "run.toml").write_bytes((run / "run.toml").read_bytes())
