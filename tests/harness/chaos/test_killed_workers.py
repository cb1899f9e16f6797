"""Sandbox workers and rollout processes that are killed, stopped or short of memory: all are real,
and nothing is lost."""

from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from rehearsal_room.harness.chaos.workers import stop_for
from tests.support.attempts import check_attempts, outcomes_of, records_of
from tests.support.chaos import Tables, faults_of, write_chaos
from tests.support.cli import Rehearse, json_of
from tests.support.warm_process import WarmProcess

_WORLD = "shop_support"
_EPISODES = 12


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, warm_cli: WarmProcess) -> Path:
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    words = ("run", _WORLD, "-n", _EPISODES, "-o", folder)
    assert warm_cli.start_command(*words, output=folder.parent / "out").wait() == 0
    return folder


async def test_a_process_stands_still_and_goes_on() -> None:
    """It is stopped by the kernel for so long, and goes on also when the wait is cancelled."""
    async with await anyio.open_process(["sleep", "60"]) as process:
        kernel = psutil.Process(process.pid)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_for, process.pid, 60.0)
            await anyio.sleep(0.01)
            assert kernel.status() == psutil.STATUS_STOPPED
            tasks.cancel_scope.cancel()
        assert kernel.status() != psutil.STATUS_STOPPED
        process.kill()


def run_in_workers(rehearse: Rehearse, folder: Path, tables: Tables, *flags: object) -> Any:
    """The report of a run in sandbox workers under faults."""
    file = write_chaos(folder.with_suffix(".toml"), tables)
    words = ("run", _WORLD, "-o", folder, "--isolate", "--chaos", file)
    return json_of(rehearse, *words, *flags)


def check_outcomes(folder: Path, undisturbed: Path) -> None:
    """Check that a run's episodes, the first of the undisturbed run's, did what those did."""
    outcomes, expected = outcomes_of(folder), outcomes_of(undisturbed)
    assert outcomes == {episode: expected[episode] for episode in outcomes}


@pytest.mark.slow
def test_sandbox_workers_are_killed_in_mid_call_and_no_verdict_changes(
    rehearse: Rehearse, tmp_path: Path, undisturbed: Path
) -> None:
    """About every seventh call has its worker killed: each result and each state is that of a run
    in one process."""
    folder = tmp_path / "run"
    flags = ("-n", 8, "--think", "0.02:0.06", "--workers", 2)
    report = run_in_workers(rehearse, folder, {"workers": {"kill": {"share": 0.15}}}, *flags)
    check_outcomes(folder, undisturbed)
    assert report["labels"] == {"completed": 8}
    counts = report["faults"]["workers.kill"]
    assert counts["landed"] == counts["survived"] >= 3
    assert counts["retried"] <= counts["landed"]  # the reply may have left the worker before
    targets = [fault.target for fault in faults_of(folder) if fault.landed]
    assert all(target.startswith("sandbox worker (pid ") for target in targets)
    assert len(set(targets)) >= 3


@pytest.mark.slow
def test_sandbox_workers_are_hit_by_the_clock(
    rehearse: Rehearse, tmp_path: Path, undisturbed: Path
) -> None:
    """Whether or not it executes a call, a worker is stopped, and one counts as full and is
    replaced. It takes as long as the pool's checks of the workers' memory."""
    folder = tmp_path / "run"
    hang, memory = {"at": [0.2], "seconds": 0.1}, {"at": [0.25]}
    flags = ("-n", 2, "--think", "0.25:0.27", "--workers", 1)
    report = run_in_workers(rehearse, folder, {"workers": {"hang": hang, "memory": memory}}, *flags)
    check_outcomes(folder, undisturbed)
    survived = {fault: counts["survived"] for fault, counts in report["faults"].items()}
    assert survived == {"workers.hang": 1, "workers.memory": 1}


@pytest.mark.slow
def test_rollout_processes_are_killed_stopped_and_short_of_memory(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path
) -> None:
    """The coordinator's faults and those of its processes are in one log; episodes go on after
    their logged turns."""
    tables: Tables = {
        "processes": {
            "kill": {"every": 0.3, "most": 2},
            "hang": {"at": [0.15], "seconds": 0.1},
            "memory": {"at": [0.05], "megabytes": 8, "seconds": 0.1},
        },
        "tools": {"lost_reply": {"share": 0.2}},
        "disk": {"full": {"at": [0.1], "seconds": 0.1}},
    }
    folder, file = tmp_path / "run", write_chaos(tmp_path / "c.toml", tables)
    words = ("run", _WORLD, "-n", _EPISODES, "-c", 12, "--think", "0.1:0.12", "-o", folder)
    child = warm_cli.start_command(
        *words, "--processes", 2, "--chaos", file, output=tmp_path / "out"
    )
    assert child.wait() == 0, (tmp_path / "out").read_text()
    text = (tmp_path / "out").read_text()
    assert text.count("rollout_process_replaced") == 2
    assert outcomes_of(folder) == outcomes_of(undisturbed)
    assert check_attempts(records_of(folder)) > 0
    landed = [fault.fault for fault in faults_of(folder) if fault.landed]
    counts = {fault: landed.count(fault) for fault in set(landed)}
    assert counts.pop("tools.lost_reply") > 5
    assert counts.pop("processes.memory") >= 2
    assert counts == {"processes.kill": 2, "processes.hang": 1, "disk.full": 1}
    assert "fault processes.kill: 2 injected, 2 landed, 2 survived, " in text
