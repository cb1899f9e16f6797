"""Tasks, reasons and tries of a run: what their routes say is what the log and the commands say."""

import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.core.messages import Act, AgentCall
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.reports.summary import read_report
from rehearsal_room.judge.statistics.intervals import exact_interval
from rehearsal_room.judge.statistics.outcomes import by_task, read_outcomes
from rehearsal_room.judge.statistics.run_statistics import statistics_of
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.episode_logs import WORLD, ended, judged, started, step
from tests.support.viewer_client import played, viewing

NAMES = ("a/b", "tab\there", "quote\"'", "<b>&amp;", "colon:and ?&=#%", "ünï ☃\u202e", "..")


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every task of a world twice, in groups of one."""
    folder = tmp_path_factory.mktemp("wide") / "wide"
    return played(folder, "shop_support", policy="mutant", episodes=90, seed=4)


async def test_rates_and_reasons_of_tasks_are_those_of_the_log(wide: Path) -> None:
    """Each task's rate, interval, tries, turns and kinds are counted again from the log; worlds and
    tags have the rates of the report, and kinds its counts. The worst task stands first."""
    base = f"/api/runs/{run_id(wide)}"
    async with viewing(wide) as client:
        tables = {
            by: (await client.get(f"{base}/tasks?by={by}&limit=1000"))["rows"]
            for by in ("task", "world", "tag", "kind")
        }
        reasons = await client.get(f"{base}/reasons")
    with open_reader(wide) as reader:
        report = json.loads(msgspec.json.encode(read_report(reader, statistics_of)))
        rows = list(reader.episodes())
    outcomes = by_task(read_outcomes(wide))
    tries = Counter((row.scenario, row.task) for row in rows)
    turns = Counter[tuple[str, str]]()
    for row in rows:
        turns[row.scenario, row.task] += row.num_steps

    found = {(row["scenario"], row["name"]): row for row in tables["task"]}
    assert {key: row["tries"] for key, row in found.items()} == tries
    assert {key: round(row["turns"] * row["tries"]) for key, row in found.items()} == turns
    assert {key: row["rate"] for key, row in found.items()} == {
        key: msgspec.to_builtins(exact_interval([one.score or 0.0 for one in group]))
        for key, group in outcomes.items()
    }
    rates = [row["rate"]["value"] for row in tables["task"]]
    assert rates == sorted(rates)
    assert [row["rate"] for row in tables["world"]] == [report["statistics"]["completed"]]
    assert {row["name"]: row["rate"] for row in tables["tag"]} == {
        tag: one["completed"] for tag, one in report["statistics"]["tags"].items()
    }
    assert {row["name"]: row["tries"] for row in tables["kind"]} == report["failures"]
    assert {one["kind"]: one["episodes"] for one in reasons["kinds"]} == report["failures"]
    assert reasons["kinds"][0]["kind"] == max(
        sorted(report["failures"]), key=report["failures"].__getitem__
    )


async def test_a_cell_of_tool_and_error_leads_to_its_episodes(tmp_path: Path) -> None:
    """Failed calls are counted again from the trajectories; the filter of a cell finds exactly the
    episodes that have such a call."""
    run = tmp_path / "random"
    flags = {"policy": "random", "episodes": 60, "seed": 2}
    await anyio.to_thread.run_sync(lambda: played(run, "flight_desk", **flags))
    calls = Counter[tuple[str, str]]()
    episodes: dict[tuple[str, str], set[str]] = {}
    with open_reader(run) as reader:
        for row in reader.episodes():
            for one in reader.trajectory(row.episode).steps:
                made = zip(one.executed_calls, one.executed_results, strict=False)
                for call, result in made:
                    if result.error is not None:
                        key = call.name, str(result.error)
                        calls[key] += 1
                        episodes.setdefault(key, set()).add(row.episode)
    async with viewing(run) as client:
        base = f"/api/runs/{run_id(run)}"
        found = (await client.get(f"{base}/reasons"))["tool_errors"]
        listed = {}
        for one in found:
            asked = urlencode({"failed_call": f"{one['tool']}:{one['error']}", "limit": 1000})
            table = await client.get(f"{base}/episodes?{asked}")
            listed[one["tool"], one["error"]] = {row["episode"] for row in table["rows"]}

    assert calls
    assert {(one["tool"], one["error"]): one["calls"] for one in found} == calls
    assert listed == episodes
    assert [one["calls"] for one in found] == sorted(calls.values(), reverse=True)


async def test_the_tries_of_a_task_are_its_group_whatever_g_was(wide: Path) -> None:
    """A run in groups of one has one row and one page for each task, with all of its tries."""
    base = f"/api/runs/{run_id(wide)}"
    async with viewing(wide) as client:
        grid = await client.get(f"{base}/grid")
        second = await client.get(f"{base}/grid?offset=1&limit=2")
        episodes = (await client.get(f"{base}/episodes?limit=1000"))["rows"]
        pages = {row["task"]: await client.get(f"{base}/groups/{row['group']}") for row in episodes}
    of_task: dict[str, set[str]] = {}
    for row in episodes:
        of_task.setdefault(row["task"], set()).add(row["episode"])

    assert {
        row["task"]: {one["episode"] for one in row["cells"]} for row in grid["rows"]
    } == of_task
    assert max(map(len, of_task.values())) >= 2
    assert (second["total"], second["rows"]) == (len(of_task), grid["rows"][1:3])
    assert {
        task: {one["episode"] for one in page["members"]} for task, page in pages.items()
    } == of_task
    assert all(page["total"] == len(page["members"]) for page in pages.values())


async def test_odd_names_are_found_by_their_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks, tags, groups and tools with slashes, tabs, quotes and markup have their own row, page
    and cell, and a filter finds their episode and no other."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run = tmp_path / "odd"
    await _write_odd(run)
    base = f"/api/runs/{run_id(run)}"
    found: dict[str, list[Any]] = {}
    async with viewing(run) as client:
        tasks = (await client.get(f"{base}/tasks"))["rows"]
        errors = (await client.get(f"{base}/reasons"))["tool_errors"]
        for number, name in enumerate(NAMES):
            wanted = [f"e{number}"]
            for key, value in (("task", name), ("tag", name), ("failed_call", f"{name}:refused")):
                rows = (await client.get(f"{base}/episodes?{urlencode({key: value})}"))["rows"]
                found.setdefault(name, []).append([row["episode"] for row in rows] == wanted)
            narrowed = (await client.get(f"{base}/tasks?{urlencode({'tag': name})}"))["rows"]
            found[name].append([row["name"] for row in narrowed] == [name])
            if name != "..":  # a browser takes such a word out of an address
                page = await client.get(f"{base}/groups/{quote(name, safe='')}")
                found[name].append(page["task"] == name)

    assert {row["name"] for row in tasks} == set(NAMES)
    assert {one["tool"] for one in errors} == set(NAMES)
    assert all(all(answers) for answers in found.values()), found


async def _write_odd(folder: Path) -> None:
    """An episode for each name, with a call that fails; its tool, task, tag and group have it."""
    async with open_log(folder) as log:
        log.add_scenario(WORLD)
        for number, name in enumerate(NAMES):
            call = AgentCall(name, {}, "c0")
            failing = msgspec.structs.replace(
                step(0),
                decision=Act((call,)),
                results=(ToolResult("no", error="refused"),),
            )
            start = msgspec.structs.replace(started(task=name, group=name), tags=(name,))
            for seq, event in enumerate((start, failing, ended(1), judged())):
                log.append(Record(f"e{number}", 0, seq, float(seq), event))


async def test_a_resumed_attempt_counts_its_failed_calls_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failed calls of an attempt that a later one replaces are counted no more, and pages of any
    size count the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run = tmp_path / "resumed"
    failing = msgspec.structs.replace(step(0), results=(ToolResult("no", error="refused"),))
    async with open_log(run) as log:
        log.add_scenario(WORLD)
        for attempt in (0, 1):
            for seq, event in enumerate((started(), failing, failing, ended(2))):
                log.append(Record("e0", attempt, seq, float(seq), event))
    async with viewing(run) as client:
        found = (await client.get(f"/api/runs/{run_id(run)}/reasons"))["tool_errors"]

    assert found == [{"tool": "void_order", "error": "refused", "calls": 2, "episodes": 1}]


async def test_a_query_that_no_page_sends_is_one_sentence(wide: Path) -> None:
    """An order or a table that does not exist is named."""
    base = f"/api/runs/{run_id(wide)}/tasks"
    async with viewing(wide) as client:
        by = await client.error(f"{base}?by=weather")
        sort = await client.error(f"{base}?sort=-nothing")

    assert by == "by: 'weather' is not one of task, world, tag, kind"
    assert sort.startswith("sort: 'nothing' is not a column")
