"""The lag of the event loop, and who caused it."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from rehearsal_room.harness.core.loop_lag import LagMonitor, culprit_of
from rehearsal_room.harness.rollout.meters import Meters
from tests.support.mini_world import variant
from tests.support.warm_process import WarmProcess


class _NoWorlds:
    num_live = 0
    max_live = 0


async def _watched(block: Callable[[], object]) -> tuple[LagMonitor, list[Any]]:
    """Call a function in a watched loop; the monitor, and what it logged."""
    monitor = LagMonitor()
    with capture_logs() as logged:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Meters(lag=monitor).watch, _NoWorlds())
            await anyio.sleep(0.05)
            block()
            await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()
    return monitor, [one for one in logged if one["event"] == "event_loop_blocked"]


def _module(name: str, code: str, **names: object) -> dict[str, Any]:
    """The names of a module with this code."""
    module: dict[str, Any] = {"__name__": name, **names}
    exec(compile(code, f"/x/{name.rpartition('.')[2]}.py", "exec"), module)
    return module


def _blocked_by(caller: str, seconds: float) -> Callable[[], object]:
    """A function of the module `caller` that calls a foreign one, which waits."""
    foreign = _module("their_code", "def work(s):\n    time.sleep(s)\n", time=time)
    called = _module(caller, "def call(s):\n    work(s)\n", work=foreign["work"])
    return lambda: called["call"](seconds)


@pytest.mark.parametrize(
    ("caller", "role"),
    [
        ("rehearsal_room.envpool.inprocess.world", "tool"),
        ("rehearsal_room.harness.rollout.episode", "policy"),
        ("rehearsal_room.harness.policies.scripted", "policy"),
        ("rehearsal_room.judge.code.runners", "judge"),
        ("rehearsal_room.harness.rollout.running", "subscriber"),
        ("rehearsal_room.learner.loop.run", "subscriber"),
    ],
)
def test_the_culprit_is_who_called_foreign_code(caller: str, role: str) -> None:
    """Foreign code is named by the part of Rehearsal that called it, with its place."""
    found: list[FrameType | None] = []

    def look() -> None:
        found.append(sys._getframe())

    foreign = _module("their_code", "def work():\n    look()\n", look=look)
    called = _module(caller, "def call():\n    work()\n", work=foreign["work"])
    called["call"]()
    assert culprit_of(found[0]).startswith(f"{role} work (their_code.py:2")


def test_what_stands_in_for_a_function_of_the_library_is_no_culprit() -> None:
    """A tool that sleeps under our clock is named, not the clock."""
    found: list[FrameType | None] = []

    def look() -> None:
        found.append(sys._getframe().f_back)

    clock = _module(
        "rehearsal_room.envpool.hosting.determinism.clock", "def either():\n    look()\n", look=look
    )
    foreign = _module("their_code", "def work():\n    either()\n", either=clock["either"])
    called = _module(
        "rehearsal_room.envpool.inprocess.world", "def call():\n    work()\n", work=foreign["work"]
    )
    called["call"]()
    assert culprit_of(found[0]).startswith("tool work (their_code.py:2")


def test_the_loop_itself_is_not_a_culprit() -> None:
    """Without foreign code there is nothing to name."""
    assert culprit_of(None) == ""


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_long_lag_is_logged_with_its_culprit() -> None:
    """Who blocks the loop for over half a second is named in one line."""
    monitor, logged = await _watched(_blocked_by("rehearsal_room.envpool.inprocess.world", 0.8))
    assert [one["culprit"] for one in logged] == ["tool work (their_code.py:2)"]
    assert 0.5 < logged[0]["seconds"] < 30
    taken = monitor.take()
    assert (taken.culprit, monitor.worst.culprit) == (logged[0]["culprit"],) * 2
    assert monitor.take().seconds == 0.0


@pytest.mark.anyio
async def test_a_short_wait_is_not_logged() -> None:
    """A tenth of a second is usual at a high concurrency."""
    _, logged = await _watched(_blocked_by("rehearsal_room.envpool.inprocess.world", 0.1))
    assert logged == []


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_names_a_tool_that_blocks_its_process(
    processes: int, tmp_path: Path, warm_cli: WarmProcess
) -> None:
    """In one process and in several, a tool that waits without `await` is named on standard
    error."""
    text = '"""Members whose name holds the text."""'
    world = variant(tmp_path, tools=(text, f"{text}\n    __import__('time').sleep(0.8)"))
    output = tmp_path / "out"
    words = ("run", world, "-n", 4, "-o", tmp_path / "run", "--processes", processes)
    assert warm_cli.start_command(*words, output=output).wait() == 0, output.read_text()
    lines = [line for line in output.read_text().splitlines() if "event_loop_blocked" in line]
    assert lines
    assert all("tool find_member (tools.py:" in line for line in lines)
