"""The plugin that runs `just test`: every test is run and reported once, whatever a test does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux")

TESTS = """
import os, pytest, signal, subprocess, time

@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    made = tmp_path_factory.mktemp("shared")
    yield made
    (made.parent.parent / f"left-{os.getpid()}").touch()

@pytest.mark.parametrize("number", range(40))
def test_of_many(shared, number, tmp_path):
    with open(os.environ["RAN"], "a") as file:
        file.write(f"{number}\\\\n")

def test_that_prints_and_fails(tmp_path):
    others = tmp_path.parent.parent  # the folder of all workers
    while "WAIT" in os.environ and not list(others.glob("worker-*/kept0/waits")):
        time.sleep(0.01)
    print("a word that is shown")
    assert 1 == 2

def test_that_ends_its_process():
    subprocess.Popen(["sleep", "3"], close_fds=False)  # it has the worker's connection, too
    os._exit(7)

@pytest.mark.timeout(0.5)
def test_that_its_limit_does_not_end():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    time.sleep(600)

@pytest.mark.parametrize("number", range(40, 50))
def test_after_it(number):
    with open(os.environ["RAN"], "a") as file:
        file.write(f"{number}\\\\n")

def test_that_is_skipped():
    pytest.skip("for a reason")
""".replace("\\\\", "\\")

# In two other files: a worker takes small files whole, and takes a test before it needs it.
WAITING = """
import os, pytest, time

@pytest.fixture
def kept(tmp_path_factory):
    made = tmp_path_factory.mktemp("kept")
    yield made
    (made.parent.parent / "tidied").touch()

@pytest.mark.skipif("WAIT" not in os.environ, reason="only where another test fails")
def test_that_waits(kept):
    (kept / "waits").touch()
    time.sleep(600)
"""


def run(folder: Path, *flags: str) -> tuple[int, str, str, list[int]]:
    """Run the tests above on two workers; gives status, output, errors, and the numbers that
    ran."""
    (folder / "test_them.py").write_text(TESTS)
    for number in (1, 2):
        (folder / f"test_waits_{number}.py").write_text(WAITING)
    (folder / "pytest.ini").write_text("[pytest]\n")
    ran = folder / "ran.txt"
    ran.touch()
    plugin = ("-p", "tests.support.forked_workers", "--forks", "2", "-p", "no:cacheprovider")
    where = (f"--rootdir={folder}", f"--basetemp={folder / 'base'}", "-c", folder / "pytest.ini")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *plugin, *flags, *where, folder],
        env=os.environ | {"RAN": str(ran), "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    return ended.returncode, ended.stdout, ended.stderr, sorted(map(int, ran.read_text().split()))


@pytest.mark.slow
def test_every_test_runs_once_and_failures_are_shown(tmp_path: Path) -> None:
    """Each test runs in one of the workers, once. A failure comes with its output; a worker's death
    is a failure of the test in which it died, and the tests that it had left are run by another."""
    status, out, shown, ran = run(tmp_path)
    assert status == 1, out
    assert ran == list(range(50))
    assert "3 failed, 50 passed, 3 skipped" in out
    assert "a word that is shown" in out and "assert 1 == 2" in out
    assert "the worker died in this test (exit status 7)" in out
    assert "test_that_ends_its_process FAILED" in out
    assert "the worker died in this test (exit status -6)" in out
    assert "in test_that_its_limit_does_not_end" in shown
    # Those whose module's tests ended have cleaned up.
    assert len(list((tmp_path / "base").glob("left-*"))) >= 1


@pytest.mark.slow
def test_it_stops_at_the_first_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `-x` a failure ends the workers, also one that is in the middle of a test; its fixtures
    clean up."""
    monkeypatch.setenv("WAIT", "1")
    status, out, _, _ = run(tmp_path, "-x", "-k", "fails or waits")
    assert status == 1, out
    assert "stopping after 1 failures" in out
    assert "1 failed" in out
    assert (tmp_path / "base" / "tidied").exists()
