"""The command line on AWM records: imported or not, they are worlds like any other."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli import Rehearse, json_of

AWM = Path(__file__).parent / "fixtures" / "awm"
NAME = "e_commerce_lab_1"
Script = list[dict[str, Any]]


def _plans() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (AWM / "oracle.jsonl").read_text().splitlines()]


def _script(path: Path, which: str) -> Path:
    """What each task's `oracle` or `near_miss` does, as a script."""
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
    """Where imported worlds go."""
    monkeypatch.setenv("REHEARSE_WORLDS", str(tmp_path / "worlds"))
    return tmp_path / "worlds"


def test_an_imported_world_is_a_world(rehearse: Rehearse, worlds: Path, tmp_path: Path) -> None:
    """import, list, show, run, replay, judge and bench take an AWM record like any other; its
    oracles pass and its near misses do not."""
    status, out, err = rehearse("import", "awm", AWM)
    assert (status, err.strip()) == (0, "")
    assert out.splitlines() == [
        f"worlds written to {worlds}: 1, with 10 tasks",
        *(
            f"duplicate {NAME} task 0: {file} lines 1, 11; line 1 counts"
            for file in ("gen_verifier.jsonl", "gen_verifier.pure_code.jsonl")
        ),
    ]
    assert NAME in {row["name"] for row in json_of(rehearse, "scenarios", "list")}
    about = json_of(rehearse, "scenarios", "show", NAME)
    assert (len(about["tables"]), len(about["tools"]), len(about["tasks"])) == (18, 38, 10)

    run = tmp_path / "run"
    script = _script(tmp_path / "oracle.jsonl", "oracle")
    report = json_of(
        rehearse, "run", NAME, "-p", "scripted", "--script", script, "-n", 20, "-o", run
    )
    assert report["labels"] == {"completed": 20}
    again = json_of(rehearse, "replay", run)
    assert (again["episodes"], again["divergences"]) == (20, [])
    assert again["calls"] == 2 * sum(len(plan["oracle"]["calls"]) for plan in _plans())
    judged = json_of(rehearse, "judge", run)
    assert (judged["labels"]["completed"], judged["disagreements"]) == (20, 0)

    missed = _script(tmp_path / "near.jsonl", "near_miss")
    bench = json_of(rehearse, "bench", NAME, "-p", "scripted", "--script", missed)
    assert (bench["pass_rate"], bench["labels"]) == (0.0, {"agent_error": 10})
    assert bench["overhead_ratio"] > 0


def test_a_record_runs_without_an_import(rehearse: Rehearse, tmp_path: Path) -> None:
    """`run --awm DIR name:task` reads the record where it is, and replay finds it there again; an
    imported package is the same one."""
    script = _script(tmp_path / "oracle.jsonl", "oracle")
    flags = ("-p", "scripted", "--script", script)
    run = tmp_path / "run"
    report = json_of(
        rehearse, "run", "--awm", AWM, "E-Commerce Lab 1:0", *flags, "--isolate", "-o", run
    )
    assert report["labels"] == {"completed": 1}
    again = json_of(rehearse, "replay", run)
    assert (again["episodes"], again["divergences"]) == (1, [])


def test_doing_nothing_completes_nothing(rehearse: Rehearse) -> None:
    """No task of the fixture is completed by doing nothing."""
    bench = json_of(rehearse, "bench", "--awm", AWM, NAME, "-p", "noop")
    assert bench["labels"] == {"agent_error": 10}


def test_the_gate_finds_what_was_lost(rehearse: Rehearse) -> None:
    """`scenarios check` names the seed statement that failed, and only that."""
    status, out, _ = rehearse("scenarios", "check", "--awm", AWM, NAME, "--json", "-")
    report = json.loads(out)
    assert status == 1
    assert (report["worlds"], report["tasks"], report["tools"]) == (1, 10, 38)
    assert [(one["check"], one["task"]) for one in report["failures"]] == [("seed", "")]
    assert "statement 2 of notifications" in report["failures"][0]["why"]


def test_oracles_are_not_made_up(rehearse: Rehearse) -> None:
    """A record has no oracle, and the policy that plays one says so."""
    status, _, err = rehearse("run", "--awm", AWM, NAME, "-p", "oracle")
    assert status == 2
    assert f"{NAME}:0 has no oracle" in err
