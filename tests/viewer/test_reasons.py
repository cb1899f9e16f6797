"""What went wrong is the same wherever it is shown.

Nothing here is scripted but the agents: the runs are played and judged by the commands, and read by
the commands and over the viewer's routes.
"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.inprocess.fault_injection import copy_with_fault
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.outcomes.failure_kinds import diagnoses_in
from rehearsal_room.judge.failures import diagnoser
from rehearsal_room.judge.failures.reading import diagnoses_of
from rehearsal_room.judge.promotion.facts import read_facts
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Call, Task
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.cli import Rehearse, json_of
from tests.support.desk_worlds import write_desk
from tests.support.old_logs import without_diagnoses
from tests.support.paths import AWM
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
        facets = (await client.get(f"{path}/facets"))["facets"]
        assert page["failures"] == counts == dict(facets["failure"]["values"])
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
        other = await client.get(f"/api/compare?a={run_id(run)}&b={run_id(run)}&quick=1")
        assert [one["kinds"] for one in other["runs"]] == [page["failures"]] * 2
        return said


async def _when_found(client: Client, run: Path, path: str) -> Any:
    """The page of a run, as soon as the reasons of all its episodes are found."""
    page = await client.get(path)
    while page["reasons"]["found"] < page["reasons"]["episodes"]:
        await client.viewer.updates.next_change(client.viewer.runs.get(run_id(run)), 10.0)
        page = await client.get(path)
    return page


def _check(rehearse: Rehearse, run: Path, *, panels: int = 1) -> dict[str, int]:
    """Compare what commands and viewer say of a run, episode by episode; returns how many episodes
    have each kind."""
    found = json_of(rehearse, "failures", run)
    counts = {kind: one["episodes"] for kind, one in found["kinds"].items()}
    assert _shown(rehearse("show", run)[1]) == counts
    of_log = {
        episode: (sorted(one.kinds), min([each.turn for each in one.mistakes], default=None))
        for episode, one in diagnoses_of(run).items()
    }
    of_viewer = anyio.run(_of_viewer, run, panels)
    assert {episode: said for episode, said in of_viewer.items() if episode in of_log} == of_log
    assert all(not kinds for episode, (kinds, _) in of_viewer.items() if episode not in of_log)
    assert Counter(kind for kinds, _ in of_log.values() for kind in kinds) == counts
    assert Counter(kind for one in read_facts(run) for kind in one.kinds) == counts
    kind, one = next(iter(found["kinds"].items()))
    example = one["examples"][0]
    shown = rehearse("show", run, example["episode"])[1]
    assert f"{kind} @{example['turn']}: " in shown
    return counts


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("episodes", [200, 2_000])
def test_all_places_say_the_same(rehearse: Rehearse, tmp_path: Path, episodes: int) -> None:
    """List, facets, filters, panel, overview, report, `compare`, `failures`, `show` and `promote`
    name the same kinds and first turns, and so they do for a log of an earlier version, whose
    reasons the viewer finds in the background. (It takes seconds: it plays runs of three worlds.
    `just test` compares the places on a run that is resumed.)
    """
    runs, reports = _played(rehearse, tmp_path, episodes)
    failures = [report["failures"] for report in reports]
    assert [_check(rehearse, run) for run in runs] == failures
    assert len({kind for counts in failures for kind in counts}) >= 12  # or too little is compared
    old = [without_diagnoses(Path(copytree(run, tmp_path / f"old-{run.name}"))) for run in runs]
    for run, before in zip(old, runs, strict=True):
        with open_reader(run) as reader:
            assert set(diagnoses_in(reader.episodes()).values()) == {None}
        assert diagnoses_of(run) == diagnoses_of(before)
    assert [_check(rehearse, run, panels=episodes // 20) for run in old] == failures
    # A comparison plans for seconds how many tasks it needs: two of the runs are enough.
    for first, second in (runs[:2], old[:2]):
        compared = json_of(rehearse, "compare", first, second)
        assert [one["failures"] for one in compared["runs"]] == failures[:2]


def _by_raising_agent(rehearse: Rehearse, folder: Path) -> None:
    """An agent of the user's own that raises in its second call."""
    (folder / "agent.py").write_text(
        "def agent(task, env):\n"
        "    env.call(env.tools[0].name, {})\n"
        "    raise RuntimeError('<b>gone</b>')\n"
    )
    words = ("run", "shop_support", "--agent", folder / "agent.py:agent", "-n", 4)
    json_of(rehearse, *words, "-o", folder / "run")


def _in_broken_world(rehearse: Rehearse, folder: Path) -> None:
    """A shop with a tool that raises, with verdicts and, of copies of two episodes, without."""
    package = copy_with_fault(find("shop_support").path, folder / "broken", "raises", "get_ticket")
    json_of(rehearse, "run", package, "-p", "mutant", "-n", 12, "-o", folder / "run")
    _forget(folder / "run", "kind = 'judged' AND episode IN ('e000001', 'e000002')")


def _in_record(rehearse: Rehearse, folder: Path) -> None:
    """An AWM record: its tasks have no solutions."""
    words = ("run", "--awm", AWM, "e_commerce_lab_1", "-p", "noop", "-n", 3)
    json_of(rehearse, *words, "-o", folder / "run")


def _in_server_world(rehearse: Rehearse, folder: Path) -> None:
    """The world of an MCP server: the solution is played there."""
    package = write_desk(folder)
    take = {"name": "take", "arguments": {"sku": "pen", "qty": 40}}
    lines = [
        {"scenario": "desk", "task": "open", "calls": calls, "answer": "It is done."}
        for calls in ([take], [])
    ]
    (folder / "script.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = ("run", f"{package}:open", "-p", "scripted", "--script", folder / "script.jsonl")
    json_of(rehearse, *words, "-n", 2, "-g", 2, "-o", folder / "run")


def _cut_off(rehearse: Rehearse, folder: Path) -> None:
    """What `kill -9` leaves of a run: its log up to the third last verdict."""
    words = ("run", "shop_support", "-p", "mutant", "-n", 24, "-c", 4)
    json_of(rehearse, *words, "-o", folder / "run")
    verdicts = "SELECT position FROM events WHERE kind = 'judged' ORDER BY position DESC"
    _forget(folder / "run", f"position >= ({verdicts} LIMIT 1 OFFSET 2)")


def _forget(run: Path, which: str) -> None:
    """Delete records from a run's log."""
    with closing(sqlite3.connect(run / "episodes.sqlite", isolation_level=None)) as log:
        log.execute(f"DELETE FROM events WHERE {which}")


@contextmanager
def _being_written(run: Path) -> Iterator[None]:
    """A block in which the run's log has a writer, as far as readers can tell."""
    with closing(sqlite3.connect(run / "writer.lock", isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("kept_fork_servers")
@pytest.mark.parametrize(
    ("play", "kinds"),
    [
        (_by_raising_agent, {"agent_failure"}),
        (_in_broken_world, {"world_failure"}),
        (_in_record, {"goal_not_met"}),
        (_in_server_world, {"unasked_change", "missing_write"}),
        (_cut_off, {"unjudged"}),
    ],
)
def test_enemies(
    rehearse: Rehearse,
    tmp_path: Path,
    play: Callable[[Rehearse, Path], None],
    kinds: set[str],
) -> None:
    """All places say the same of agents that raise, worlds that break or have no solutions, and
    logs that were cut off; also of an old log, and while a process writes it."""
    play(rehearse, tmp_path)
    run = tmp_path / "run"
    counts = _check(rehearse, run)
    assert kinds <= set(counts)
    with _being_written(run):
        assert _check(rehearse, run) == counts
    assert _check(rehearse, without_diagnoses(run)) == counts


def test_a_resumed_run_has_the_reasons_of_all(rehearse: Rehearse, tmp_path: Path) -> None:
    """Episodes that ended before a crash and were not judged get verdict and reasons when the run
    is resumed, and those of an old log are found for the report."""
    _cut_off(rehearse, tmp_path)
    run = without_diagnoses(tmp_path / "run")
    report = json_of(rehearse, "run", "-o", run, "--resume")
    assert report["failures"] == _check(rehearse, run)
    assert "unjudged" not in report["failures"]
    whole = json_of(rehearse, "run", "shop_support", "-p", "mutant", "-n", 24, "-o", run / "whole")
    assert report["failures"] == whole["failures"]


def test_a_verdict_is_not_lost_where_its_reasons_cannot_be_found(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solution that cannot be played leaves the verdict as it is; the reasons are found later."""

    def broken(*_: object) -> None:
        raise RuntimeError("no solution today")

    words = ("run", "shop_support", "-p", "mutant", "-n", 8)
    whole = json_of(rehearse, *words, "-o", tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(diagnoser, "reference_of", broken)
        report = json_of(rehearse, *words, "-o", tmp_path / "run", "--judge", "code")
        assert report["labels"] == whole["labels"]
    assert _check(rehearse, tmp_path / "run") == whole["failures"]
