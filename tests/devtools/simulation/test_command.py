"""The command `simulate`: what it prints and writes, and what it refuses."""

from pathlib import Path

import pytest

from tests.support.cli import Rehearse, json_of
from tests.support.paths import AWM, LIBRARY


@pytest.mark.slow
def test_every_promise_is_kept(rehearse: Rehearse) -> None:
    """The report has the number of seeds, their steps, and no failure; the status is 0."""
    asked = ("simulate", "--world", LIBRARY, "--first", 2, "--seeds", 2, "-n", 10, "-j", 1)
    report = json_of(rehearse, *asked)
    assert (report["seeds"], report["failures"]) == (2, [])
    assert report["steps"] > 200
    assert json_of(rehearse, *asked) == report


def test_a_broken_promise_is_shrunk(rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing seed is named with what does not hold and what it needs; the status is 1."""
    monkeypatch.setattr("tests.devtools.simulation.campaign.ProcessPoolExecutor", InThisProcess)
    monkeypatch.setattr("tests.devtools.simulation.ledger.CONCURRENCY", 5)
    asked = ("simulate", "--world", LIBRARY, "--seed", 3, "-n", 20, "--json", "-")
    status, out, _ = rehearse(*asked)
    assert status == 1
    assert "6 episodes at once, of 5 allowed" in out
    assert '"seed": 3' in out


def test_the_code_of_strangers_is_not_simulated(rehearse: Rehearse) -> None:
    """It runs in sandbox workers only; one sentence, status 2."""
    status, _, err = rehearse("simulate", "--world", AWM / "E-Commerce Lab 1")
    assert status == 2
    assert "sandbox workers only" in err
    assert rehearse("simulate", "--world", Path("nowhere"))[0] == 2


class InThisProcess:
    """An executor that has no processes, so that what a test replaces is replaced."""

    def __init__(self, *args: object, **options: object) -> None:
        pass

    def __enter__(self) -> "InThisProcess":
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    map = staticmethod(map)
