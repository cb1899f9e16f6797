"""Verifiers that take too long: a bundled package with slow code in one verifier, judged as in a
run. The processes are real."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import Judged, Label, VerifierRun
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.interrupts import TookTooLong, stopped_after
from rehearsal_room.judge.code.timed_runner import DEADLINE, TimedRunner
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Task, read

SLOW, QUICK = "new-email", "blocked-rack"
LOOP = "while True: pass"
STUBBORN = """
    swallowed = 0
    while swallowed < 3:
        try:
            while True: pass
        except BaseException: swallowed += 1
"""
BACKTRACKING = "import re; re.match('(a+)+$', 'a' * 40 + '!')"
QUERY = "before.all('SELECT count(*) AS n FROM ' + ', '.join('orders o%d' % n for n in range(8)))"


def changed(tmp_path: Path, code: str) -> HostedScenario:
    """The bundled shop, with code at the start of one task's verifier."""
    folder = tmp_path / "shop"
    copytree(find("shop_support").path, folder)
    path = folder / "verify.py"
    head = "def new_email(before: State, after: State, answer: str) -> list[Finding]:\n"
    text = path.read_text()
    assert head in text
    path.write_text(text.replace(head, f"{head}    {code}\n"))
    return HostedScenario(read(folder))


async def verdict(judge: CodeJudge, world: HostedScenario, task: str) -> Judged:
    """That on the task's oracle."""
    asked: Task = world.scenario.task(task)
    return await judge.verdict(play(world, asked, asked.oracle, asked.answer).trajectory)


@pytest.fixture
def anyio_backend() -> str:
    """One is enough for tests that start interpreters."""
    return "asyncio"


@pytest.fixture(autouse=True)
def timers() -> Iterator[None]:
    """The handler and the timer that were set before (here: by pytest-timeout) are put back."""
    handler = signal.getsignal(signal.SIGALRM)
    yield
    assert signal.getsignal(signal.SIGALRM) is handler
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) is (handler is not signal.SIG_DFL)


@pytest.mark.parametrize("code", [LOOP, STUBBORN, BACKTRACKING, QUERY])
async def test_a_verifier_that_does_not_end_leaves_its_episode_unjudged(
    tmp_path: Path, code: str
) -> None:
    """A loop, one that swallows what stops it, a regular expression and a query: the reason is
    named, and meanwhile the loop makes the verdicts of other tasks in this process."""
    world = changed(tmp_path, code)
    judge = CodeJudge(world.scenario, TimedRunner(world, deadline=1.0))
    found: dict[str, Judged] = {}

    async def keep(task: str) -> None:
        found[task] = await verdict(judge, world, task)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep, SLOW)
        tasks.start_soon(keep, QUICK)
    why = f"the verifier of task {SLOW!r} of scenario 'shop_support' took longer than 1 s"
    assert (found[SLOW].label, found[SLOW].unjudged) == (None, why)
    assert found[QUICK].label is Label.COMPLETED
    assert found[QUICK].verifier_run == VerifierRun("in_process")
    assert list(found) == [QUICK, SLOW]


async def test_a_slow_verifier_decides_in_a_process_of_its_own(tmp_path: Path) -> None:
    """It gives the verdict that it would have given here; what it prints does not disturb that."""
    world = changed(tmp_path, "import time; print('{'); time.sleep(0.7)")
    judge = CodeJudge(world.scenario, TimedRunner(world))
    assert DEADLINE > 1
    for _ in range(2):
        judged = await verdict(judge, world, SLOW)
        assert judged.label is Label.COMPLETED
        assert judged.verifier_run == VerifierRun("worker")


def test_in_another_thread_a_long_answer_is_read_in_a_process(tmp_path: Path) -> None:
    """There no signal can stop a verifier; with a short answer it runs at once."""
    world = HostedScenario(find("shop_support"))
    judge, task = CodeJudge(world.scenario, TimedRunner(world)), world.scenario.task(QUICK)
    answers = [task.answer, f"{task.answer} {'a' * 30_000}"]
    played = [play(world, task, task.oracle, answer).trajectory for answer in answers]
    with start_blocking_portal() as portal:
        runs = [portal.call(judge.verdict, one).verifier_run for one in played]
    assert runs == [VerifierRun("in_process"), VerifierRun("worker")]


async def test_a_verifier_that_ends_its_process_leaves_its_episode_unjudged(tmp_path: Path) -> None:
    """With the status of the process; so does a package that was changed meanwhile."""
    code = "import os, time; time.sleep(0.7); os._exit(7)"
    world = changed(tmp_path, code)
    judge = CodeJudge(world.scenario, TimedRunner(world))
    assert "it ended its process, with status 7" in str(
        (await verdict(judge, world, SLOW)).unjudged
    )
    path = world.scenario.path / "verify.py"
    path.write_text(path.read_text() + "# later\n")
    judge = CodeJudge(world.scenario, TimedRunner(HostedScenario(world.scenario)))
    assert "has changed since it was read" in str((await verdict(judge, world, SLOW)).unjudged)


class _Slow:
    def __init__(self, gone: list[float]) -> None:
        self._gone = gone

    def __del__(self) -> None:
        self._gone.append(_spent(0.2))


def _spent(seconds: float) -> float:
    """So many seconds of CPU, in a function of its own."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return seconds


def test_clearing_away_is_not_interrupted(capfd: pytest.CaptureFixture[str]) -> None:
    """An exception in `__del__` is lost and printed: the block is stopped after it."""
    gone: list[float] = []
    slow = [_Slow(gone)]
    with pytest.raises(TookTooLong), stopped_after(0.1):
        slow.clear()
        while True:
            pass
    assert len(gone) == 1
    assert "ignored" not in capfd.readouterr().err
