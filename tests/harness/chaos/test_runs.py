"""Whole runs under faults: their verdicts are an undisturbed run's, and every fault is counted."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.harness.core.events import FAULTS_EPISODE, FaultInjected, Record
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.reports.faults import FaultCounts, fault_lines, faults_in
from rehearsal_room.harness.reports.live_view import event_line
from tests.support.attempts import outcomes_of, records_of
from tests.support.chaos import Tables, chaos_of, faults_of, write_chaos
from tests.support.cli import Rehearse, json_of, without_times
from tests.support.warm_process import WarmProcess

_WORLD = "shop_support"
_EPISODES = 20
_HARMLESS: Tables = {
    "policy": {
        "rate_limit": {"share": 0.05, "retry_after": 0.01},
        "stall": {"share": 0.05, "seconds": 0.01},
    },
    "tools": {"delay": {"share": 0.1, "seconds": 0.01}, "lost_reply": {"share": 0.2}},
    "disk": {"slow": {"share": 0.2, "seconds": 0.01}},
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, warm_cli: WarmProcess) -> Path:
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    words = ("run", _WORLD, "-n", _EPISODES, "-o", folder)
    assert warm_cli.start_command(*words, output=folder.parent / "out").wait() == 0
    return folder


def run_under(
    rehearse: Rehearse, folder: Path, tables: Tables, *flags: object, seed: int = 7
) -> Any:
    """The report of a run under faults."""
    file = write_chaos(folder.with_suffix(".toml"), tables, seed)
    words = ("run", _WORLD, "-n", _EPISODES, "-o", folder, "--chaos", file, *flags)
    return json_of(rehearse, *words)


def verdicts_in(folder: Path) -> dict[str, tuple[object, object, object]]:
    with open_reader(folder) as reader:
        return {row.episode: (row.ending, row.label, row.reward) for row in reader.episodes()}


def hits_of(faults: list[FaultInjected], *tables: str) -> Counter[FaultInjected]:
    """What the faults of some tables hit."""
    return Counter(fault for fault in faults if fault.fault.startswith(tables))


def test_verdicts_and_digests_are_those_of_an_undisturbed_run(
    rehearse: Rehearse, tmp_path: Path, undisturbed: Path
) -> None:
    """Under faults that cost time only, every result, state and verdict is the same; the report
    counts what the log has; a replay finds no difference."""
    folder = tmp_path / "run"
    report = run_under(rehearse, folder, _HARMLESS)
    assert outcomes_of(folder) == outcomes_of(undisturbed)
    assert verdicts_in(folder) == verdicts_in(undisturbed)
    counted = Counter(fault.fault for fault in faults_of(folder))
    assert set(counted) == set(chaos_of(_HARMLESS).faults())
    retried = {"policy.rate_limit", "tools.lost_reply"}
    assert report["faults"] == {
        fault: {
            "injected": num,
            "landed": num,
            "survived": num,
            "retried": num if fault in retried else 0,
            "lost": 0,
        }
        for fault, num in sorted(counted.items())
    }
    assert {**without_times(report), "faults": {}} == msgspec.json.decode(
        (undisturbed / "report.json").read_bytes()
    )
    assert rehearse("replay", folder)[0] == 0


def test_the_same_seed_hits_the_same_calls(rehearse: Rehearse, tmp_path: Path) -> None:
    """Whatever the order of events; another seed hits others."""
    hit = {}
    for name, seed, concurrency in (("a", 7, 64), ("b", 7, 3), ("c", 8, 64)):
        run_under(rehearse, tmp_path / name, _HARMLESS, "-c", concurrency, seed=seed)
        hit[name] = hits_of(faults_of(tmp_path / name), "tools", "policy")
    assert hit["a"] == hit["b"] != hit["c"]
    assert {(fault.episode, fault.call) for fault in hit["a"]} != {("", "")}


def test_an_injected_error_is_seen_replayed_and_resumed(
    rehearse: Rehearse, tmp_path: Path, undisturbed: Path
) -> None:
    """A tool that fails on purpose ends an episode of the oracle as a failure of the world; other
    episodes are undisturbed. Replay knows that the tool was not executed."""
    folder = tmp_path / "run"
    tables: Tables = {"tools": {"error": {"share": 0.03}}}
    report = run_under(rehearse, folder, tables)
    hit = {fault.episode for fault in faults_of(folder)}
    assert 0 < len(hit) < _EPISODES
    assert report["faults"]["tools.error"] == {
        "injected": len(hit),
        "landed": len(hit),
        "survived": 0,
        "retried": 0,
        "lost": len(hit),
    }
    assert report["endings"] == {"answered": _EPISODES - len(hit), "world_error": len(hit)}
    before, now = outcomes_of(undisturbed), outcomes_of(folder)
    assert {name for name in before if before[name] != now[name]} == hit
    assert json_of(rehearse, "replay", folder)["divergences"] == []
    goes_on = run_under(rehearse, tmp_path / "on", tables, "--no-world-stop")
    assert goes_on["faults"]["tools.error"]["survived"] > 0
    assert json_of(rehearse, "replay", tmp_path / "on")["divergences"] == []


def test_a_fork_keeps_an_injected_result(rehearse: Rehearse, tmp_path: Path) -> None:
    """An episode that begins after a turn with an injected error takes its result over: the tool
    was not executed then, and is not now."""
    tables: Tables = {"tools": {"error": {"share": 0.1}}}
    run_under(rehearse, tmp_path / "run", tables, "--no-world-stop")
    fault = next(one for one in faults_of(tmp_path / "run") if one.turn < 3)
    source = f"{tmp_path / 'run'}/{fault.episode}@{fault.turn + 1}"
    json_of(rehearse, "run", "--from", source, "-o", tmp_path / "fork", "--chaos", "")
    with open_reader(tmp_path / "fork") as reader:
        kept = next(reader.trajectories()).steps[fault.turn]
    assert [result.injected for result in kept.results] == [True]
    assert faults_of(tmp_path / "fork") == []


def test_a_model_that_never_answers_loses_its_episodes(rehearse: Rehearse, tmp_path: Path) -> None:
    """When all attempts are hit, the episode ends as a model failure, and its last fault is lost.
    Without --chaos, --resume goes on with it."""
    tables: Tables = {"policy": {"rate_limit": {"share": 0.2, "retry_after": 0.0}}}
    folder, file = tmp_path / "run", write_chaos(tmp_path / "c.toml", tables)
    words = ("run", _WORLD, "-n", _EPISODES, "-o", folder, "--max-attempts", 2)
    status, _, _ = rehearse(*words, "--chaos", file)
    with open_reader(folder) as reader:
        lost = sum(row.ending == "policy_error" for row in reader.episodes())
        counts = faults_in(reader)["policy.rate_limit"]
    assert lost > 2 and status == 1
    assert counts.lost == 2 * lost
    assert counts.survived == counts.landed - counts.lost > 0
    report = json_of(rehearse, "run", "-o", folder, "--resume", "--chaos", "")
    assert report["endings"] == {"answered": _EPISODES}
    assert report["faults"]["policy.rate_limit"]["lost"] == 0


def test_bench_reports_the_faults(rehearse: Rehearse, tmp_path: Path) -> None:
    """`faults` of bench's JSON has the kinds and their counts; a usual benchmark has none."""
    file = write_chaos(tmp_path / "c.toml", {"tools": {"lost_reply": {"share": 0.5}}})
    report = json_of(rehearse, "bench", _WORLD, "-n", 6, "--chaos", file)
    counts = report["faults"]["tools.lost_reply"]
    assert counts["injected"] == counts["survived"] == counts["retried"] > 0
    assert json_of(rehearse, "bench", _WORLD, "-n", 6)["faults"] == {}


def test_readers_cope_with_faults_in_the_log(rehearse: Rehearse, tmp_path: Path) -> None:
    """Commands that read a run show the episodes, and count no fault among them."""
    folder = tmp_path / "run"
    run_under(rehearse, folder, _HARMLESS)
    records = records_of(folder)
    assert {one.episode.startswith(FAULTS_EPISODE) for one in records} == {True, False}
    status, out, err = rehearse("show", folder)
    assert (status, err) == (0, "") and f"{FAULTS_EPISODE}-" not in out
    json_of(rehearse, "judge", folder)
    for form in ("jsonl", "sft"):
        target = tmp_path / f"{form}.jsonl"
        assert rehearse("export", folder, "--to", form, "-o", target)[0] == 0
        lines = target.read_text().splitlines()
        assert len(lines) == _EPISODES and "fault" not in msgspec.json.decode(lines[0])
    assert (
        json_of(rehearse, "run", "-o", folder, "--resume", "--chaos", "")["episodes"] == _EPISODES
    )


def test_a_kind_of_a_later_version_is_passed_over(undisturbed: Path, tmp_path: Path) -> None:
    """A reader skips events of a kind that it does not know; a damaged one is still an error."""
    before = records_of(undisturbed)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / LOG_NAME).write_bytes((undisturbed / LOG_NAME).read_bytes())
    data = msgspec.msgpack.encode({"type": "eclipse", "of": "the sun"})
    with closing(sqlite3.connect(folder / LOG_NAME)) as log, log:
        for number, episode in enumerate(("eclipses", before[0].episode)):
            row = (len(before) + 1 + number, episode, 1, 99, "eclipse", 1.0, data, None)
            log.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    assert records_of(folder) == before
    assert outcomes_of(folder) == outcomes_of(undisturbed)
    assert verdicts_in(folder) == verdicts_in(undisturbed)
    with open_reader(folder) as reader:
        assert reader.records_after(len(before)) == []


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (
            FaultInjected("tools.lost_reply", True, True, "e1", 1, 2, "c2-0"),
            "fault tools.lost_reply in e1, turn 2, call c2-0 (retried)",
        ),
        (FaultInjected("workers.kill", False), "fault workers.kill (did not land)"),
        (FaultInjected("bus.restart", target="the broker"), "fault bus.restart at the broker"),
    ],
)
def test_a_fault_is_one_line(fault: FaultInjected, text: str) -> None:
    """`watch --events` prints what was hit and what came of it."""
    assert event_line(Record("faults-1", 1, 0, 0.0, fault)) == f"faults-1 (attempt 1) #0 {text}"


def test_counts_in_words() -> None:
    """The report on a terminal has one line for each kind."""
    counts = {"tools.lost_reply": FaultCounts(12, 11, 10, 9, 1)}
    assert list(fault_lines(counts)) == [
        "tools.lost_reply: 12 injected, 11 landed, 10 survived, 9 retried, 1 lost"
    ]
