"""What went wrong is the same wherever it is shown.

Nothing here is scripted but the agents: the runs are played and judged by the commands, and read by
the commands and over the viewer's routes.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.outcomes.failure_kinds import diagnoses_in
from rehearsal_room.judge.failures.reading import diagnoses_of
from rehearsal_room.judge.promotion.facts import read_facts
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Call, Task
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.cli import Rehearse, json_of
from tests.support.old_logs import without_diagnoses
from tests.support.viewer_client import Client, viewing

WORLDS = ("shop_support", "flight_desk", "claims_desk")


def _lines(scenario: str, task: Task) -> Iterator[dict[str, Any]]:
    """Ways to play a task: right, with habits, and wrong in what is said or left out."""
    calls, answer = list(task.oracle), task.answer
    first, last = calls[:1], calls[-1:]
    for played, said in (
        (calls, answer),
        (last, answer),
        (first * 20 + calls, answer),
        (calls[:-1], answer),
        ([], "I'm sorry, I can't do this."),
        (first, '<tool_call>{"name": "get_order", "arguments": {"order_id": 1}}</tool_call>'),
        ([*calls, *last], answer),
        ([Call("no_such_tool", {"id": 2**63})] * 3, answer),
    ):
        made = [msgspec.to_builtins(call) for call in played]
        yield {"scenario": scenario, "task": task.id, "calls": made, "answer": said}


def _played(rehearse: Rehearse, folder: Path, episodes: int) -> tuple[list[Path], list[Any]]:
    """Runs of mutants, of random calls and of a script, and what the command reported of each."""
    chosen = [(name, task) for name in WORLDS for task in find(name).tasks[:4]]
    script = folder / "script.jsonl"
    lines = [line for name, task in chosen for line in _lines(name, task)]
    script.write_text("\n".join(map(json.dumps, lines)))
    scripted = [f"{name}:{task.id}" for name, task in chosen]
    share = episodes // 4
    runs, reports = [], []
    for name, arguments in {
        "mutant": (*WORLDS, "-p", "mutant", "-n", 2 * share, "-g", 4, "--seed", 5),
        "random": (*WORLDS, "-p", "random", "-n", share, "-g", 2),
        "scripted": (
            *scripted,
            "-p",
            "scripted",
            "--script",
            script,
            "-n",
            share // 8 * 8,
            "-g",
            8,
        ),
    }.items():
        runs.append(folder / name)
        reports.append(json_of(rehearse, "run", *arguments, "-o", runs[-1]))
    return runs, reports


def _shown(text: str) -> dict[str, int]:
    """The counts of the chart `failures` that `show` prints."""
    chart = text.partition("\nfailures")[2].partition("\nsteps")[0]
    return {kind: int(count.replace(",", "")) for kind, count in re.findall(_BAR, chart)}


_BAR = r"(?m)^ *([a-z_]+) .*?([\d,]+)(?: |$)"


async def _of_viewer(run: Path, panels: int) -> dict[str, Any]:
    """What the viewer says went wrong in each episode, after it has found all of it: the list, its
    facets and filters, the overview and the episodes' panels (of one in `panels`) say the same."""
    async with viewing(run) as client:
        path = f"/api/runs/{run_id(run)}"
        page = await _when_found(client, run, path)
        rows: list[Any] = []
        while len(rows) < page["line"]["episodes"]:
            rows += (await client.get(f"{path}/episodes?limit=1000&offset={len(rows)}"))["rows"]
        counts = Counter(kind for row in rows for kind in row["kinds"])
        assert page["failures"] == counts
        for kind, count in counts.items():
            found = await client.get(f"{path}/episodes?failure={kind}&limit=1000")
            assert found["total"] == count
            assert all(kind in row["kinds"] for row in found["rows"])
        said = {}
        for index, row in enumerate(rows):
            assert row["is_diagnosed"]
            said[row["episode"]] = row["kinds"], row["mistake_turn"]
            if index % panels == 0:
                panel = await client.get(f"{path}/episodes/{row['episode']}/failures")
                found = [(one["kind"], one["turn"]) for one in panel["failures"]]
                assert {kind for kind, _ in found} == set(row["kinds"])
                assert min([turn for _, turn in found], default=None) == row["mistake_turn"]
        other = await client.get(f"/api/compare?a={run_id(run)}&b={run_id(run)}")
        assert [one["failures"] for one in other["runs"]] == [page["failures"]] * 2
        return said


async def _when_found(client: Client, run: Path, path: str) -> Any:
    """The page of a run, as soon as the reasons of all its episodes are found."""
    page = await client.get(path)
    while page["reasons"]["found"] < page["reasons"]["episodes"]:
        await client.viewer.updates.next_change(client.viewer.runs.get(run_id(run)), 10.0)
        page = await client.get(path)
    return page


def _check(rehearse: Rehearse, runs: list[Path], reports: list[Any], *, panels: int) -> None:
    """Compare what commands, report and viewer say of these runs, episode by episode."""
    # A comparison plans how many tasks it needs, for seconds: two of the runs are enough.
    compared = [one["failures"] for one in json_of(rehearse, "compare", *runs[:2])["runs"]]
    for run, reported, beside in zip(runs, reports, [*compared, reports[2]], strict=True):
        found = json_of(rehearse, "failures", run)
        counts = {kind: one["episodes"] for kind, one in found["kinds"].items()}
        assert reported == beside == counts
        assert _shown(rehearse("show", run)[1]) == counts
        of_log = {
            episode: (sorted(one.kinds), min([each.turn for each in one.mistakes], default=None))
            for episode, one in diagnoses_of(run).items()
        }
        assert anyio.run(_of_viewer, run, panels) == of_log
        assert Counter(kind for kinds, _ in of_log.values() for kind in kinds) == counts
        assert Counter(kind for one in read_facts(run) for kind in one.kinds) == counts
        kind, one = next(iter(found["kinds"].items()))
        example = one["examples"][0]
        shown = rehearse("show", run, example["episode"])[1]
        assert f"{kind} @{example['turn']}: " in shown


@pytest.mark.timeout(900)
@pytest.mark.parametrize("episodes", [200, pytest.param(2_000, marks=pytest.mark.slow)])
def test_all_places_say_the_same(rehearse: Rehearse, tmp_path: Path, episodes: int) -> None:
    """List, facets, filters, panel, overview, report, `compare`, `failures`, `show` and `promote`
    name the same kinds and first turns, and so they do for a log of an earlier version, whose
    reasons the viewer finds in the background. (It takes seconds: it plays runs of three worlds.)
    """
    runs, reports = _played(rehearse, tmp_path, episodes)
    failures = [report["failures"] for report in reports]
    _check(rehearse, runs, failures, panels=1)
    kinds = {kind for counts in failures for kind in counts}
    assert len(kinds) >= 12, kinds  # or the agents make too few mistakes to compare
    old = [without_diagnoses(Path(copytree(run, tmp_path / f"old-{run.name}"))) for run in runs]
    for run, before in zip(old, runs, strict=True):
        with open_reader(run) as reader:
            assert set(diagnoses_in(reader.episodes()).values()) == {None}
        assert diagnoses_of(run) == diagnoses_of(before)
    _check(rehearse, old, failures, panels=episodes // 20)
