"""What all tests share: how hypothesis searches (time is never asserted, so it has no deadline),
how many threads compute, what the garbage collector skips, and the command line."""

import gc
import os
import sys
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
import structlog
from hypothesis import HealthCheck, settings

from rehearsal_room.cli.main import main
from rehearsal_room.harness.rollout import gc_tuning
from rehearsal_room.scenarios.suites import bfcl_entries as bfcl
from tests.support.budgets import IS_LONG, repeats
from tests.support.cli import Rehearse
from tests.support.fork_server import kept_fork_servers, kept_servers
from tests.support.paths import SUITES
from tests.support.quick_gate import quick_gate
from tests.support.warm_process import WarmProcess, open_warm_process

__all__ = ["kept_fork_servers", "kept_servers", "quick_gate", "rehearse", "warm_cli"]

# They need Ray, vLLM, a browser, and servers of the registries: `just test-ray`, `just test-vllm`,
# `just test-viewer` and `just mcp-servers`.
collect_ignore = ["mcp_servers", "ray", "viewer_web", "vllm"]

# Small sums gain nothing by threads, and a child that is forked while OpenMP has threads hangs.
# Torch reads it when it is first imported; processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The small benchmark of the tests stands for a release of the BFCL.
bfcl.RELEASES[bfcl.digest_of(SUITES / "bfcl_eval")] = "1"
bfcl.RELEASES_V4[bfcl.digest_of_v4(SUITES / "bfcl_eval")] = "1"

# What is imported and collected stays: to search it for garbage takes a fifth of the collection,
# and half a second of each full collection in a test.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on the collector searches what the tests make, and nothing else. (With
    pytest-xdist, the process that collects nothing comes here, too.)"""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """The folders of the repository's root are never imported as packages of their own: each class
    would exist twice."""
    for name in ("envpool", "harness", "judge", "learner"):
        assert name not in sys.modules, f"a test has imported {name} beside rehearsal_room.{name}"


def pytest_runtest_setup() -> None:
    """In CI trio runs tasks that are ready in the same order each time, as hypothesis has the same
    examples there; elsewhere in a random one."""
    if "tests.support.virtual_time" in sys.modules:
        sys.modules["tests.support.virtual_time"].reset_clock()
    if os.environ.get("CI") and not IS_LONG and "trio" in sys.modules:
        sys.modules["trio._core._run"]._r.seed(0)


settings.register_profile(
    "here",
    max_examples=repeats(short=25, long=1000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("ci", parent=settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") and not IS_LONG else "here")


@pytest.fixture
def rehearse(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rehearse]:
    """Runs the command in this process; gives exit status, standard output, standard error."""
    # A command tunes its process's collector: with everything that the tests have imported, that
    # takes half a second, and other tests need the collector as it was.
    monkeypatch.setattr(gc_tuning, "gc", Mock(spec=gc))

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rehearse", *map(str, arguments)])
        capfd.readouterr()
        status = 0
        try:
            main()
        except SystemExit as exit:
            status = int(exit.code or 0)
        out, err = capfd.readouterr()
        return status, out, err

    yield call
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def warm_cli() -> Iterator[WarmProcess]:
    """A process that has imported the command line, and forks children that run commands."""
    with open_warm_process("tests.support.loaded_commands") as warm:
        yield warm
