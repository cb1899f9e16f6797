"""`rehearse experiment` with a table [credit]: real runs and forks in a real world."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w

from rehearsal_room.learner.credit.facts import StateFacts
from tests.support.cli import Rehearse, json_of
from tests.support.paths import LIBRARY, ROOT

TABLE: dict[str, Any] = {
    "name": "credit",
    "question": "Who knows?",
    "run": {"scenarios": [f"{LIBRARY}:lend-two"], "history": "last:1", "max_steps": 10},
    "credit": {
        "states": 2,
        "actions": 3,
        "continuations": 15,
        "samples": 40,
        "episodes": 30,
        "group_size": 4,
        "widths": [1, 2],
        "draws": 20,
        "errors": {"repeated": 0.2},
    },
}


def written(folder: Path, **changes: Any) -> Path:
    table = dict(TABLE)
    for name, value in changes.items():
        table[name] = table.get(name, {}) | value if isinstance(value, dict) else value
    path = folder / "credit.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def states_in(folder: Path) -> dict[str, StateFacts | None]:
    return {
        path.name: msgspec.json.decode(path.read_bytes(), type=StateFacts | None)
        for path in sorted((folder / "states").glob("*.json"))
    }


@pytest.mark.slow  # some ten runs
def test_actions_are_measured_by_forks(rehearse: Rehearse, tmp_path: Path) -> None:
    """Each state has its most frequent actions, each with as many courses as asked for, by forks
    whose logs are gone afterwards. A measurement that is interrupted goes on, with equal
    results."""
    out = tmp_path / "out"
    report = json_of(rehearse, "experiment", written(tmp_path), "-o", out)
    assert (report["policy"], report["states"], report["actions"]) == ("erring-oracle", 2, 6)
    names = [one["name"] for one in report["estimators"]]
    assert names == [
        *("GRPO, 4", "leave-one-out, 4", "leave-one-out, 16", "GiGPO, 4"),
        *("GiGPO, 4, no discount", "branch, K = 1", "branch, K = 2"),
        *("vine, K = 1", "vine, K = 2", "tree, K = 1", "tree, K = 2"),
    ]
    states = states_in(out)
    found = [one for one in states.values() if one is not None]
    assert len(found) == 2 and len({one.before[-1] for one in found}) == 2
    for state in found:
        assert len(state.before) == state.turn + 1
        assert sum(one.share for one in state.everything) == pytest.approx(1)
        assert 0 <= state.value <= 1
        for action in state.actions:
            assert action.is_last or len(action.courses) >= 15
            assert action.is_last == ('"calls":[]' in action.name)
            assert {len(one.anchors) > 0 for one in action.courses} == {not action.is_last}
        assert max(one.share for one in state.rare or [state.actions[0]]) <= max(
            one.share for one in state.actions
        )
    assert not (out / "states" / "forks").exists()
    assert "| tree, K = 2 |" in (out / "report.md").read_text()
    assert (out / "credit.png").read_bytes().startswith(b"\x89PNG")
    kept = sorted((out / "states").glob("*.json"))
    kept[-1].unlink()
    again = json_of(rehearse, "experiment", written(tmp_path), "-o", out)
    assert (again, states_in(out)) == (report, states)
    assert json.loads((out / "report.json").read_text()) == report


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"credit": {"actions": 1}}, "credit.actions: must be at least 2"),
        ({"credit": {"state": 1}}, "unknown key"),
        ({"credit": {"errors": {"changed": 2.0}}}, "chances must be from 0 to 1 in sum"),
        ({"run": {"dialect": "hermes"}}, "[run] dialect: the erring oracle writes 'native' calls"),
        ({"run": {"group_size": 2}}, "[run] group_size, episodes and branch: [credit] determines"),
        ({"run": {"scenarios": ["nowhere"]}}, "nowhere"),
        ({"arm": [{"name": "a"}]}, "arm: unknown key"),
    ],
)
def test_a_wrong_file_is_refused(
    rehearse: Rehearse, tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    """With one sentence, and before anything is played."""
    status, _, err = rehearse("experiment", written(tmp_path, **changes), "-o", tmp_path / "out")
    assert status == 2 and sentence in err, err
    assert "Traceback" not in err and not (tmp_path / "out").exists()


def test_what_would_be_played_is_said(rehearse: Rehearse, tmp_path: Path) -> None:
    """Without playing it."""
    out = tmp_path / "out"
    status, said, _ = rehearse("experiment", written(tmp_path), "-o", out, "--dry-run")
    assert (status, out.exists()) == (0, False)
    assert said == "1 task of 30 episodes, 2 states, at most 170 forks\n"


@pytest.mark.slow  # a run and four forks
def test_too_few_states_are_an_error(rehearse: Rehearse, tmp_path: Path) -> None:
    """The message says how many there are."""
    one = {"states": 1, "actions": 9, "episodes": 2, "samples": 4, "errors": {}}
    config = written(tmp_path, credit=one)
    status, _, err = rehearse("experiment", config, "-o", tmp_path / "out")
    assert status == 2 and "pass through 0 states with at least 9 actions each, not 1" in err


def test_the_projects_own_measurement_can_be_planned(rehearse: Rehearse, tmp_path: Path) -> None:
    """Its worlds and tasks are there."""
    file = ROOT / "configs" / "experiments" / "credit.toml"
    status, said, err = rehearse("experiment", file, "-o", tmp_path / "out", "--dry-run")
    assert status == 0, err
    assert said == "24 tasks of 200 episodes, 100 states, at most 148000 forks\n"
