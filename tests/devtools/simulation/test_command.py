"""The recipe `just simulate`: what it prints and writes, and what it refuses."""

import sys
from pathlib import Path

import pytest

from rehearsal_room.cli.main import run_command
from tests.devtools.simulation.__main__ import simulate_command
from tests.support.cli import Rehearse, json_of
from tests.support.paths import AWM, LIBRARY


@pytest.fixture
def simulate(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Rehearse:
    """Runs the command in this process; gives exit status, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["simulate", *map(str, arguments)])
        capfd.readouterr()
        status = 0
        try:
            run_command(simulate_command, "just simulate")
        except SystemExit as exit:
            status = int(exit.code or 0)
        out, err = capfd.readouterr()
        return status, out, err

    return call


@pytest.mark.slow
def test_every_promise_is_kept(simulate: Rehearse) -> None:
    """The report has the number of seeds, their steps, and no failure; the status is 0."""
    asked = ("--world", LIBRARY, "--first", 2, "--seeds", 2, "-n", 10, "-j", 1)
    report = json_of(simulate, *asked)
    assert (report["seeds"], report["failures"]) == (2, [])
    assert report["steps"] > 200
    assert json_of(simulate, *asked) == report


def test_a_broken_promise_is_shrunk(simulate: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing seed is named with what does not hold and what it needs; the status is 1."""
    monkeypatch.setattr("tests.devtools.simulation.campaign.ProcessPoolExecutor", InThisProcess)
    monkeypatch.setattr("tests.devtools.simulation.ledger.CONCURRENCY", 5)
    asked = ("--world", LIBRARY, "--seed", 3, "-n", 20, "--json", "-")
    status, out, _ = simulate(*asked)
    assert status == 1
    assert "6 episodes at once, of 5 allowed" in out
    assert '"seed": 3' in out


def test_the_code_of_strangers_is_not_simulated(simulate: Rehearse) -> None:
    """It runs in sandbox workers only; one sentence, status 2."""
    status, _, err = simulate("--world", AWM / "E-Commerce Lab 1")
    assert status == 2
    assert "sandbox workers only" in err
    assert simulate("--world", Path("nowhere"))[0] == 2


class InThisProcess:
    """An executor that has no processes, so that what a test replaces is replaced."""

    def __init__(self, *args: object, **options: object) -> None:
        pass

    def __enter__(self) -> "InThisProcess":
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    map = staticmethod(map)
