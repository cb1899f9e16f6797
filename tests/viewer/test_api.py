"""The API of the viewer, on real small runs."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import msgspec
import pytest

from rehearsal_room.harness.chat.prices import Price, Prices
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.outcomes.model_use import model_use_lines
from rehearsal_room.harness.replay.run import replay
from rehearsal_room.harness.reports.summary import read_report
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.judge.statistics.run_statistics import statistics_of
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.judged_runs import served
from tests.support.model_server import Completes
from tests.support.viewer_client import Client, played, viewing


async def test_runs_and_their_pages(mutants: Path, oracles: Path) -> None:
    """The list has every run; a page's counts are those of report.json."""
    async with viewing(mutants, oracles) as client:
        lines = (await client.get("/api/runs"))["runs"]
        page = await client.get(f"/api/runs/{run_id(mutants)}")
    with open_reader(mutants) as reader:
        report = json.loads(msgspec.json.encode(read_report(reader, statistics_of)))
    by_name = {line["name"]: line for line in lines}

    assert {name: line["status"] for name, line in by_name.items()} == {
        "mutants": "finished",
        "oracles": "finished",
    }
    assert by_name["oracles"]["completed"]["value"] == 1.0
    assert (page["line"]["episodes"], page["line"]["planned"]) == (8, 8)
    assert page["labels"] == report["labels"]
    assert page["endings"] == report["endings"]
    assert page["failures"] == report["failures"]
    assert page["statistics"] == report["statistics"]
    assert sum(page["curves"]["episodes"]) == 8
    assert sum(page["curves"]["steps"]) == report["steps"]
    assert page["curves"]["live"][-1] == 0
    assert [task["n"] for task in page["tasks"]] == [4, 4]


async def test_what_the_model_took(tmp_path: Path, oracles: Path) -> None:
    """The page of a run that asked a model says what `show` says, and has its numbers; that of a
    run without a model has nothing. The model server is ours."""
    run, prices = tmp_path / "asked", tmp_path / "p.toml"
    prices.write_text("[models.m]\ninput = 1.0\noutput = 10.0\n")
    with served(Completes("I cannot help.")) as server:
        asked = {"policy": "openai", "model": "m", "base_url": server.url, "prices": str(prices)}
        task = "shop_support:address-to-parents"
        await anyio.to_thread.run_sync(lambda: played(run, task, group_size=4, **asked))
    async with viewing(run, oracles) as client:
        found = (await client.get(f"/api/runs/{run_id(run)}"))["model"]
        nothing = (await client.get(f"/api/runs/{run_id(oracles)}"))["model"]
        prices.unlink()
    with open_reader(run) as reader:
        shown = read_report(reader, prices=Prices({"m": Price(1.0, 10.0)}))
    assert shown.model is not None and nothing is None
    assert (shown.model.requests, shown.model.completion_tokens) == (4, 28)
    assert found == {
        "use": msgspec.to_builtins(shown.model),
        "times": msgspec.to_builtins(shown.reply_times),
        "lines": model_use_lines(shown.model, shown.reply_times),
    }


async def test_an_episode_is_what_the_log_has(oracles: Path) -> None:
    """Turns, calls, results, changed rows and verdict are those of the trajectory."""
    async with viewing(oracles) as client:
        found = await client.get(f"/api/runs/{run_id(oracles)}/episodes/e000000")
    with open_reader(oracles) as reader:
        trajectory = reader.trajectory("e000000")
    calls = [(call.name, call.arguments) for s in trajectory.steps for call in s.executed_calls]
    changed = [len(r.changes) for s in trajectory.steps for r in s.executed_results]

    assert found["instruction"] == trajectory.started.instruction
    assert [(c["name"], c["arguments"]) for t in found["turns"] for c in t["calls"]] == calls
    assert [len(r["changes"]) for t in found["turns"] for r in t["results"]] == changed
    assert sum(changed) > 0
    assert found["verdicts"][0]["label"] == trajectory.judged[0].label
    assert found["line"]["turns"] == len(found["turns"])
    assert trajectory.ended is not None
    assert trajectory.ended.state is not None
    assert found["log"]["end_digest"] == found["line"]["end_digest"]
    assert found["log"]["end_digest"] == trajectory.ended.state.digest


async def test_worlds_at_any_turn_are_exact(mutants: Path) -> None:
    """At each turn of each episode the rebuilt rows have the logged digest."""
    base = f"/api/runs/{run_id(mutants)}/episodes"
    async with viewing(mutants) as client:
        for row in (await client.get(base))["rows"][::3]:
            for turn in range(row["turns"] + 1):
                world = await client.get(f"{base}/{row['episode']}/world?turn={turn}")
                assert world["exact"], (row["episode"], turn)
        assert world["digest"] == row["end_digest"]


async def test_changed_rows_of_a_table(oracles: Path) -> None:
    """Rows that differ are shown with what they were; SQL sees the same state."""
    base = f"/api/runs/{run_id(oracles)}/episodes/e000000"
    async with viewing(oracles) as client:
        episode = await client.get(base)
        last = len(episode["turns"])
        world = await client.get(f"{base}/world?turn={last}")
        changed = [one for one in world["tables"] if any(one["from_start"].values())]
        assert {one["name"] for one in changed} == set(episode["line"]["changed"])
        for table in changed:
            path = f"{base}/world/{table['name']}?turn={last}&only=start"
            rows = (await client.get(path))["rows"]
            assert len(rows) == sum(table["from_start"].values())
            assert {row["start"] for row in rows} <= {"new", "changed", "deleted"}
            query = {"turn": last, "sql": f"SELECT count(*) FROM {table['name']}"}
            assert (await client.post(f"{base}/sql", query))["rows"] == [[table["rows"]]]
            start = {**query, "turn": 0}
            before = table["rows"] - table["from_start"]["inserted"]
            before += table["from_start"]["deleted"]
            assert (await client.post(f"{base}/sql", start))["rows"] == [[before]]


FORBIDDEN = [
    "DELETE FROM orders",
    "PRAGMA table_list",
    "ATTACH 'x' AS y",
    "SELECT load_extension('x')",
    "SELECT zeroblob(100000000)",
    "SELECT 1; SELECT 2",
    "CREATE TABLE x (y)",
    "VACUUM INTO '/tmp/x'",
    "SELECT nothing FROM nowhere",
    "",
]


@pytest.mark.parametrize("sql", FORBIDDEN)
async def test_sql_only_reads(oracles: Path, sql: str) -> None:
    """Whatever is not a query of the world is refused with a sentence."""
    path = f"/api/runs/{run_id(oracles)}/episodes/e000000/sql"
    async with viewing(oracles) as client:
        answer = await client.post(path, {"turn": 1, "sql": sql}, status=400)

    assert answer["error"].startswith("sql: ")


async def test_a_group_is_a_graph(mutants: Path) -> None:
    """All members start in one node; an edge leads from a state to another; ends add up."""
    async with viewing(mutants) as client:
        graph = await client.get(f"/api/runs/{run_id(mutants)}/groups/g000000")
    starts = [node for node in graph["nodes"] if node["is_start"]]
    digests = {node["digest"] for node in graph["nodes"]}
    ends = sum(sum(node["ends"].values()) for node in graph["nodes"])

    assert [len(node["episodes"]) for node in starts] == [4]
    assert ends == len(graph["members"]) == 4
    assert all({edge["from"], edge["to"]} <= digests for edge in graph["edges"])
    assert all(edge["from"] != edge["to"] for edge in graph["edges"])


async def test_a_pair_parts_where_the_calls_differ(mutants: Path) -> None:
    """Before they part both made the same calls; an episode beside itself never parts."""
    base = f"/api/runs/{run_id(mutants)}"
    async with viewing(mutants) as client:
        pair = await client.get(f"{base}/pair?a=e000000&b=e000001")
        same = await client.get(f"{base}/pair?a=e000001&b=e000001")
    parts = pair["parts_at"]

    assert parts is not None
    assert {one["same"] for one in pair["aligned"][: parts["a"]]} <= {"both", "call"}
    assert same["parts_at"] is None
    assert same["world_difference"] == same["end_difference"] == []
    assert {one["same"] for one in same["aligned"]} == {"both"}


async def test_labels_are_stored_where_the_command_stores_them(mutants: Path) -> None:
    """A label given in the page is in labels.jsonl; null withdraws it."""
    base = f"/api/runs/{run_id(mutants)}/judge"
    async with viewing(mutants) as client:
        label = {"episode": "e000002", "label": "agent_error", "note": "wrong order"}
        await client.post(f"{base}/labels", label)
        queue = await client.get(f"{base}/queue")
        evidence = (await client.get(f"{base}/evidence/e000002"))["evidence"]
        await client.post(f"{base}/labels", {**label, "label": "no such label"}, status=400)
    lines = (mutants / "labels.jsonl").read_text().splitlines()

    assert [json.loads(line)["note"] for line in lines] == ["wrong order"]
    assert queue["items"] == []  # code alone judged, and could judge all
    assert {one["id"][0] for one in evidence} >= {"T", "S", "E", "F"}


async def test_mistakes_have_their_turns(mutants: Path) -> None:
    """What `rehearse failures` finds in an episode is shown beside its turns."""
    base = f"/api/runs/{run_id(mutants)}/episodes"
    async with viewing(mutants) as client:
        rows = (await client.get(f"{base}?label=agent_error"))["rows"]
        found = await client.get(f"{base}/{rows[0]['episode']}/failures")

    assert found["failures"]
    assert all(0 <= one["turn"] < rows[0]["turns"] for one in found["failures"])


async def test_addresses_that_are_not_there(mutants: Path) -> None:
    """Each is answered with one sentence."""
    base = f"/api/runs/{run_id(mutants)}"
    async with viewing(mutants) as client:
        for path in (
            *("/api/nothing", "/api/runs/other", f"{base}/episodes/e9", f"{base}/groups/g9"),
            *(f"{base}/episodes/e000000/world/nothing", "/api/scratch/x", "/api/play/x"),
        ):
            assert await client.error(path, 404)
        assert "filter" in await client.error(f"{base}/episodes?colour=red")
        assert "sort" in await client.error(f"{base}/episodes?sort=colour")
        assert "train.toml" in await client.error(f"{base}/training")


async def test_a_run_that_cannot_be_read_is_a_row_with_its_error(
    mutants: Path, tmp_path: Path
) -> None:
    """The other runs are shown as ever."""
    (tmp_path / LOG_NAME).write_bytes((mutants / LOG_NAME).read_bytes())
    with closing(sqlite3.connect(tmp_path / LOG_NAME)) as database, database:
        database.execute("UPDATE meta SET value = '1' WHERE key = 'format'")
    async with viewing(tmp_path, mutants) as client:
        lines = (await client.get("/api/runs"))["runs"]

    assert "the log has format 1" in lines[0]["error"]
    assert lines[1]["error"] is None


async def test_events_of_a_finished_run_end(mutants: Path) -> None:
    """The stream says what is there, and that nothing more comes."""
    async with viewing(mutants) as client:
        with anyio.fail_after(20):
            path = f"/api/runs/{run_id(mutants)}/events?token=secret-token"
            answer = await client.ask(path, headers={"host": "127.0.0.1:4711"})
    events = [part.split("\n")[0] for part in answer.body.decode().split("\n\n") if part]

    assert events[0] == "event: folded"
    assert events[-1] == "event: finished"


async def test_what_is_shown_is_what_replay_finds(mutants: Path) -> None:
    """Opening a run in the viewer changes nothing in it: its log still replays."""
    async with viewing(mutants) as client:
        await _look_around(client, run_id(mutants))
        with open_reader(mutants) as reader:
            scenario = client.viewer.catalogue.find("shop_support")
            async with client.viewer.pools.open(Settings(), scenario) as pool:
                report = await replay(reader, pool, lambda *_: scenario)

    assert (report.episodes, report.divergences) == (8, ())


async def _look_around(client: Client, run: str) -> None:
    await client.get(f"/api/runs/{run}/grid")
    await client.get(f"/api/runs/{run}/episodes/e000003")
