"""The command line on AWM records, imported or not."""

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from rehearsal_room.harness.log.reader import open_reader
from tests.support.attempts import check_attempts, cut_off, outcomes_of, records_of
from tests.support.budgets import repeats
from tests.support.cli import Rehearse, json_of
from tests.support.paths import AWM

pytestmark = pytest.mark.usefixtures("kept_fork_servers")
NAME = "e_commerce_lab_1"
Script = list[dict[str, Any]]


def _plans() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (AWM / "oracle.jsonl").read_text().splitlines()]


def _script(path: Path, which: str) -> Path:
    """A script of what each task's `oracle` or `near_miss` does."""
    lines = [
        {
            "scenario": NAME,
            "task": str(plan["task_idx"]),
            "calls": [
                {"name": call["tool"], "arguments": call["arguments"]}
                for call in plan[which]["calls"]
            ],
            "answer": plan[which]["final_answer"],
        }
        for plan in _plans()
        if which in plan
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of imported worlds."""
    monkeypatch.setenv("REHEARSE_WORLDS", str(tmp_path / "worlds"))
    return tmp_path / "worlds"


@pytest.mark.slow
def test_every_command_takes_an_imported_world(
    rehearse: Rehearse, worlds: Path, tmp_path: Path
) -> None:
    """import, list, show, run, replay, judge and bench take an AWM record; its oracles pass and its
    near misses do not."""
    status, out, err = rehearse("worlds", "import", "awm", AWM)
    assert (status, err.strip()) == (0, "")
    assert out.splitlines() == [
        f"worlds written to {worlds}: 1, with 10 tasks",
        *(
            f"duplicate {NAME} task 0: {file} lines 1, 11; line 1 counts"
            for file in ("gen_verifier.jsonl", "gen_verifier.pure_code.jsonl")
        ),
    ]
    assert NAME in {row["name"] for row in json_of(rehearse, "worlds", "list")}
    about = json_of(rehearse, "worlds", "show", NAME)
    assert (len(about["tables"]), len(about["tools"]), len(about["tasks"])) == (18, 38, 10)

    run = tmp_path / "run"
    script = _script(tmp_path / "oracle.jsonl", "oracle")
    report = json_of(
        rehearse, "run", NAME, "-p", "scripted", "--script", script, "-n", 10, "-o", run
    )
    assert report["labels"] == {"completed": 10}
    again = json_of(rehearse, "replay", run)
    assert (again["episodes"], again["divergences"]) == (10, [])
    assert again["calls"] == sum(len(plan["oracle"]["calls"]) for plan in _plans())
    judged = json_of(rehearse, "judge", run)
    assert (judged["labels"]["completed"], judged["disagreements"]) == (10, 0)

    missed = _script(tmp_path / "near.jsonl", "near_miss")
    bench = json_of(rehearse, "bench", NAME, "-p", "scripted", "--script", missed)
    assert (bench["pass_rate"], bench["labels"]) == (0.0, {"agent_error": 10})
    assert bench["overhead_ratio"] > 0


@pytest.mark.slow
def test_a_record_runs_without_an_import(rehearse: Rehearse, tmp_path: Path) -> None:
    """`run --awm DIR name:task` reads the record from DIR, and replay finds it there again; its
    digest is that of the imported package."""
    script = _script(tmp_path / "oracle.jsonl", "oracle")
    flags = ("-p", "scripted", "--script", script)
    run = tmp_path / "run"
    report = json_of(
        rehearse, "run", "--awm", AWM, "E-Commerce Lab 1:0", *flags, "--isolate", "-o", run
    )
    assert report["labels"] == {"completed": 1}
    again = json_of(rehearse, "replay", run)
    assert (again["episodes"], again["divergences"]) == (1, [])


@pytest.mark.slow
def test_a_record_is_continued_in_the_middle(rehearse: Rehearse, tmp_path: Path) -> None:
    """An episode of a record, whose code runs in a worker, is forked after two turns, and resumed
    after a crash at that place: both end as the whole one did."""
    script = _script(tmp_path / "oracle.jsonl", "oracle")
    whole, fork, cut = tmp_path / "whole", tmp_path / "fork", tmp_path / "cut"
    flags = ("--awm", AWM, f"{NAME}:0", "-p", "scripted", "--script", script)
    json_of(rehearse, "run", *flags, "-o", whole)
    json_of(rehearse, "run", "--from", f"{whole}/e000000@2", "-g", 2, "-o", fork)
    anyio.run(cut_off, whole, cut, 3)  # the start and two turns
    json_of(rehearse, "run", "-o", cut, "--resume")
    (expected,) = outcomes_of(whole).values()
    assert list(outcomes_of(fork).values()) == [expected] * 2
    assert list(outcomes_of(cut).values()) == [expected]
    assert check_attempts(records_of(cut)) == 1


@pytest.mark.slow
def test_the_seeding_is_logged_with_each_episode(rehearse: Rehearse, tmp_path: Path) -> None:
    """Every episode records how its world was seeded; another seeding gives another digest."""
    packages = set()
    for seeding in ("awm", "openenv"):
        run = tmp_path / seeding
        json_of(
            rehearse,
            *("run", "--awm", AWM, f"{NAME}:0", "--seeding", seeding, "-p", "noop", "-o", run),
        )
        with open_reader(run) as reader:
            [trajectory] = reader.trajectories()
        assert trajectory.started.seeding == seeding
        packages.add(trajectory.started.scenario_digest)
    assert len(packages) == 2


@pytest.mark.slow
def test_the_noop_policy_completes_no_task(rehearse: Rehearse) -> None:
    """Without any call, no task of the fixture is completed."""
    bench = json_of(rehearse, "bench", "--awm", AWM, NAME, "-p", "noop")
    assert bench["labels"] == {"agent_error": 10}


@pytest.mark.slow
@pytest.mark.usefixtures("quick_gate")
@pytest.mark.timeout(180)  # dozens of verdicts of each task, each by a fresh worker
def test_the_gate_finds_what_was_lost(rehearse: Rehearse, tmp_path: Path) -> None:
    """`scenarios check` names the seed statement that failed and the tools that fail on odd
    arguments, and nothing else. (`just test` checks one task, `just test-long` all ten.)"""
    num_tasks = repeats(short=1, long=10)
    folder = Path(shutil.copytree(AWM, tmp_path / "awm"))
    row = json.loads((folder / "gen_tasks.jsonl").read_text())
    row["tasks"] = row["tasks"][:num_tasks]
    (folder / "gen_tasks.jsonl").write_text(json.dumps(row) + "\n")
    status, out, _ = rehearse("worlds", "check", "--awm", folder, NAME, "--json", "-")
    report = json.loads(out)
    assert status == 1
    assert (report["worlds"], report["tasks"], report["tools"]) == (1, num_tasks, 38)
    failures = [one for one in report["failures"] if one["check"] != "constraint"]
    assert [(one["check"], one["task"]) for one in failures] == [("seed", "")]
    assert any(
        "of get_order fail inside" in one["why"]
        for one in report["failures"]
        if one["check"] == "constraint"
    )
    assert "statement 2 of notifications" in failures[0]["why"]


def test_a_record_has_no_oracle(rehearse: Rehearse) -> None:
    """Policy `oracle` is refused with the name of a task that has none."""
    status, _, err = rehearse("run", "--awm", AWM, NAME, "-p", "oracle")
    assert status == 2
    assert f"{NAME}:0 has no oracle" in err


def _broken(folder: Path) -> Path:
    """The fixture's folder with records that cannot be used, and one that can."""
    shutil.copytree(AWM, folder)
    for file, key in (
        ("gen_tasks", "tasks"),
        ("gen_db", "db_schema"),
        ("gen_sample", "sample_data"),
    ):
        path = folder / f"{file}.jsonl"
        row = json.loads(path.read_text())
        with path.open("a") as lines:
            for name in ("no_code", "no_python", "no_import"):
                lines.write(json.dumps({"scenario": name, key: row[key]}) + "\n")
    codes = {"no_code": "", "no_python": "def (:", "no_import": "import no_such_module\n"}
    with (folder / "gen_envs.jsonl").open("a") as lines:
        for name, code in codes.items():
            lines.write(json.dumps({"scenario": name, "full_code": code}) + "\n")
        lines.write('{"scenario": "cut_off", "full_co')
    return folder


def test_broken_records_are_refused_one_by_one(
    rehearse: Rehearse, worlds: Path, tmp_path: Path
) -> None:
    """A truncated line, a record without code, code that cannot be parsed or imported: each is
    listed with file, line and reason; the others are imported, and the exit status is 1."""
    folder = _broken(tmp_path / "broken")
    status, out, _ = rehearse("worlds", "import", "awm", folder)
    assert status == 1
    assert sorted(path.name for path in worlds.iterdir()) == [NAME]
    refused = {line.split()[1].rstrip(":"): line for line in out.splitlines() if "refused" in line}
    for number, (name, reason) in enumerate(
        [
            ("no_code", "full_code"),
            ("no_python", "full_code: line 1: invalid syntax"),
            ("no_import", "no_such_module"),
            ("cut_off", "JSON"),
        ],
        start=2,
    ):
        assert f"gen_envs.jsonl: line {number}:" in refused[name], refused[name]
        assert reason in refused[name]


@pytest.mark.slow
def test_a_tool_that_violates_the_sandbox_ends_its_episode(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """A tool that opens a file ends its episodes as the world's failure, with a sentence; other
    episodes continue."""
    folder = tmp_path / "reaching"
    shutil.copytree(AWM, folder)
    path = folder / "gen_envs.jsonl"
    row = json.loads(path.read_text())
    head = "async def get_cart() -> CartResponse:\n"
    assert head in row["full_code"]
    row["full_code"] = row["full_code"].replace(head, head + '    open("/etc/passwd").read()\n')
    path.write_text(json.dumps(row))
    script = tmp_path / "script.jsonl"
    calls = {"0": "get_cart", "1": "list_addresses"}
    script.write_text(
        "\n".join(
            json.dumps(
                {
                    "scenario": NAME,
                    "task": task,
                    "calls": [{"name": name, "arguments": {}}],
                    "answer": "Done.",
                }
            )
            for task, name in calls.items()
        )
    )
    run = tmp_path / "run"
    report = json_of(
        rehearse,
        *("run", "--awm", folder, f"{NAME}:0", f"{NAME}:1", "-n", 8),
        *("-p", "scripted", "--script", script, "-o", run),
    )
    assert report["endings"] == {"world_error": 4, "answered": 4}
    assert report["labels"] == {"environment_error": 4, "agent_error": 4}
    status, out, _ = rehearse("show", run, "e000000")
    assert status == 0
    assert "the code tried to open /etc/passwd" in " ".join(out.split())
