"""The command `show`: a run's tasks by scenario, and flags that select and order them."""

from pathlib import Path

import pytest

from tests.support.cli import Rehearse


@pytest.fixture
def run(rehearse: Rehearse, tmp_path: Path) -> Path:
    """Mutants of two worlds: tasks with every kind of outcome."""
    folder = tmp_path / "run"
    status, _, err = rehearse(
        *("run", "claims_desk", "shop_support", "-p", "mutant", "-g", 2, "-o", folder)
    )
    assert status == 0, err
    return folder


def shown(rehearse: Rehearse, *arguments: object) -> str:
    """What `show` prints at 80 columns."""
    status, out, err = rehearse("show", *arguments)
    assert (status, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines()[1:])
    return out


def test_tasks_are_grouped_by_scenario_and_failures_come_first(
    rehearse: Rehearse, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line for each task, with a column for each outcome and an episode that failed."""
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(rehearse, run)
    lines = [line.split() for line in text.splitlines()]
    [head] = [line for line in lines if line[:3] == ["completed", "partly", "failed"]]
    assert head[-1] == "example"
    start = next(index for index, line in enumerate(lines) if line[:1] == ["claims_desk"])
    completed = []
    for line in lines[start + 1 :]:
        if line[:1] == ["shop_support"]:
            break
        assert line[-1].startswith("e0") or line[1] == "2", line
        completed.append(0 if line[1] == "·" else int(line[1]))
    assert completed == sorted(completed)


def test_flags_select_and_order(
    rehearse: Rehearse, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--label, --task, --ending, --sort and --full are those of the view; for one episode they are
    an error, except for --full, which shows its texts whole."""
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(rehearse, run, "--label", "agent_error", "--task", "refund-*")
    assert "label agent_error, task refund-*" in text.splitlines()[0]
    assert "claims_desk" not in text
    by_steps = shown(rehearse, run, "--sort", "steps", "--ending", "answered")
    assert by_steps != shown(rehearse, run, "--ending", "answered")
    assert len(shown(rehearse, run, "--full")) > len(shown(rehearse, run))
    assert shown(rehearse, run, "e000000", "--full").startswith("episode e000000\n")
    status, _, err = rehearse("show", run, "e000000", "--sort", "steps")
    assert (status, err) == (2, "error: --sort: for runs, not for one episode (e000000)\n")
    status, _, err = rehearse("show", run, "--label", "wrong")
    assert status == 2
    assert "'completed'" in err
