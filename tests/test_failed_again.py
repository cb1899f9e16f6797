"""Tests that failed once are run again before CI fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.failed_again import TIMES

pytestmark = pytest.mark.slow  # each starts pytest several times

TESTS = """
import os, pytest
from pathlib import Path

def fails_until(time, name):
    ran = Path(f"{name}.txt")
    ran.write_text(ran.read_text() + "x" if ran.exists() else "x")
    assert len(ran.read_text()) >= time

def test_that_fails_once():
    fails_until(2, "once")

def test_that_fails_twice():
    fails_until(3, "twice")

@pytest.mark.parametrize("number", range(4))
def test_that_fails_always(number):
    assert False

def test_that_passes():
    pass
"""


def run(folder: Path, chosen: str) -> tuple[int, str]:
    """Run the chosen tests, then those that failed; gives status and output of the second time."""
    (folder / "test_them.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-k", chosen]
    subprocess.run(pytest_, cwd=folder, env=env, capture_output=True)
    again = [sys.executable, "-m", "tests.support.failed_again"]
    ended = subprocess.run(again, cwd=folder, env=env, capture_output=True, text=True)
    return ended.returncode, ended.stdout


def test_one_that_passes_alone_is_named(tmp_path: Path) -> None:
    """It has to pass three times; tests that have passed are not run again."""
    status, out = run(tmp_path, "once or passes")
    assert status == 0, out
    flaky = "flaky: test_them.py::test_that_fails_once failed once, and passed 3 times alone"
    assert out.splitlines()[-1] == flaky
    assert (tmp_path / "once.txt").read_text() == "x" * (1 + TIMES)
    assert "2 passed" not in out


@pytest.mark.parametrize("chosen", ["twice", "always", "that_passes"])
def test_others_fail(tmp_path: Path, chosen: str) -> None:
    """One that fails again; more than three; and a run that failed for another reason."""
    status, out = run(tmp_path, chosen)
    assert status == 1, out
    assert "flaky:" not in out
