"""Verifiers that take too long: a bundled package with slow code in one verifier, judged as in a
run. The processes are real."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import anyio
import msgspec
import psutil
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


ENDLESS = {
    "loop": LOOP,
    "stubborn": """
    while True:
        try:
            while True: pass
        except BaseException: pass
""",
    "backtracking": BACKTRACKING,
    "asleep": "import time; time.sleep(1e8)",
    "in C": "9 ** 9 ** 9",
    "without its socket": "import os; os.closerange(0, 100); os.kill(os.getpid(), 19)",
}


@pytest.mark.slow
def test_in_another_thread_a_verifier_is_bounded_too(tmp_path: Path) -> None:
    """Whatever it does on a short answer; its verdict is the main thread's, the next verifier runs,
    and nothing works on. It takes some seconds: three deadlines."""
    worlds = {name: changed(tmp_path / name, code) for name, code in ENDLESS.items()}
    found: dict[str, Judged] = {}

    async def keep(name: str) -> None:
        runner = TimedRunner(worlds[name], deadline=1.0)
        found[name] = await verdict(CodeJudge(worlds[name].scenario, runner), worlds[name], SLOW)

    async def all_in_thread() -> Judged:
        assert threading.current_thread() is not threading.main_thread()
        async with anyio.create_task_group() as tasks:
            for name in ENDLESS:
                tasks.start_soon(keep, name)
        world = worlds["loop"]
        return await verdict(CodeJudge(world.scenario, TimedRunner(world)), world, QUICK)

    with start_blocking_portal() as portal:
        later = portal.call(all_in_thread)
    why = f"the verifier of task {SLOW!r} of scenario 'shop_support' took longer than 1 s"
    reasons = {name: judged.unjudged for name, judged in found.items()}
    failed = (
        f"the verifier of task {SLOW!r} of scenario 'shop_support' failed: it ended its process"
    )
    ended = f"{failed}, with status -9"
    assert reasons.pop("without its socket") in (why, ended)  # as fast as the process starts
    assert set(reasons.values()) == {why}
    assert (later.label, later.verifier_run) == (Label.COMPLETED, VerifierRun("worker"))
    beside = [one for one in psutil.Process().children() if "verdict_process" in str(one.cmdline())]
    assert {one.status() for one in beside} == {"sleeping"}


FAULTS = {
    "an error": "raise KeyError('x')",
    "an end": "raise SystemExit('I am done')",
    "an end of generators": "raise GeneratorExit",
    "a trap": """
    class Trap(Exception):
        def __str__(self): raise SystemExit
    raise Trap
""",
    "nothing": "return None",
    "another value": "return ['passed']",
    "a write": "return after.all('DELETE FROM orders RETURNING id')",
    "changes": "return [Finding('x', False, str(after.changes), answer, 'goal')]",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_both_threads_say_the_same(tmp_path: Path, fault: str) -> None:
    """Of an error, of a value that is not a verdict, and of what the episode changed."""
    world = changed(tmp_path, FAULTS[fault])
    judge = CodeJudge(world.scenario, TimedRunner(world))
    here = await verdict(judge, world, SLOW)
    with start_blocking_portal() as portal:
        beside = portal.call(verdict, judge, world, SLOW)
    assert here.verifier_run == VerifierRun("in_process")
    assert beside == msgspec.structs.replace(here, verifier_run=VerifierRun("worker"))


def test_verdicts_beside_are_those_in_this_process() -> None:
    """On oracles and answers of nothing, for all tasks of a world; one process makes them."""
    world = HostedScenario(find("shop_support"))
    judge = CodeJudge(world.scenario, TimedRunner(world))
    tasks = [task for task in world.scenario.tasks if task.user is None]
    played = [play(world, task, task.oracle, task.answer).trajectory for task in tasks]
    played += [play(world, task, (), "").trajectory for task in tasks]
    here = [judge.verdict_at_once(one) for one in played]
    with start_blocking_portal() as portal:
        beside = [portal.call(judge.verdict, one) for one in played]
    run = VerifierRun("worker")
    assert beside == [msgspec.structs.replace(one, verifier_run=run) for one in here]


WHO = "import os; return [Finding('pid', False, str(os.getpid()), '', 'goal')]"
FORKING = """
import os, sys
from pathlib import Path
from anyio.from_thread import start_blocking_portal
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.timed_runner import TimedRunner
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.scenarios.format import read

world = HostedScenario(read(Path(sys.argv[1])))
judge, task = CodeJudge(world.scenario, TimedRunner(world)), world.scenario.task(sys.argv[2])
episode = play(world, task, task.oracle, task.answer).trajectory

def who():
    with start_blocking_portal() as portal:
        print(portal.call(judge.verdict, episode).findings[0].expected, flush=True)

who()
if (fork := os.fork()) == 0:
    who()
    sys.exit()
os.waitpid(fork, 0)
who()
"""


def test_a_forked_process_has_processes_of_its_own(tmp_path: Path) -> None:
    """A trainer forks after its first verdict: with the processes of the one that forked it, the
    two would get each other's answers. Each keeps its process."""
    world = changed(tmp_path, WHO)
    script = [sys.executable, "-c", FORKING, str(world.scenario.path), SLOW]
    done = subprocess.run(script, check=True, capture_output=True, text=True, timeout=60)
    first, forked, again = done.stdout.split()
    assert first == again != forked
    assert done.stderr == ""
    assert not any(psutil.pid_exists(int(one)) for one in (first, forked))


async def test_a_verifier_that_ends_its_process_leaves_its_episode_unjudged(tmp_path: Path) -> None:
    """With the status of the process."""
    code = "import os, time; time.sleep(0.7); os._exit(7)"
    world = changed(tmp_path, code)
    judge = CodeJudge(world.scenario, TimedRunner(world))
    assert "it ended its process, with status 7" in str(
        (await verdict(judge, world, SLOW)).unjudged
    )


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


@pytest.mark.parametrize("handler", [lambda *_: None, signal.SIG_IGN])
def test_a_handler_and_a_timer_of_somebody_else_are_put_back(handler: Any) -> None:
    """A test's time limit outlives the verdicts in it."""
    before = signal.signal(signal.SIGALRM, handler)
    old = signal.setitimer(signal.ITIMER_REAL, 50, 7)
    try:
        for _ in range(2):
            with stopped_after(0.1), stopped_after(0.1):
                pass
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        assert (signal.getsignal(signal.SIGALRM), interval) == (handler, 7)
        assert 40 < left < 50
    finally:
        signal.setitimer(signal.ITIMER_REAL, *old)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


ALARM = """
import signal, time
from rehearsal_room.judge.code.interrupts import TookTooLong, stopped_after
try:
    with stopped_after(0.02):
        while True:
            pass
except TookTooLong:
    print("stopped", flush=True)
for _ in range(1000):
    with stopped_after(0.1):
        pass
print("alive", flush=True)
signal.setitimer(signal.ITIMER_REAL, 0.05)
with stopped_after(0.1):
    pass
time.sleep(30)
"""


def test_an_alarm_that_nobody_handles_ends_the_process_as_it_would_without_us() -> None:
    """Its own timer never does, however near a block comes to its end."""
    done = subprocess.run([sys.executable, "-c", ALARM], capture_output=True, text=True, timeout=25)
    assert (done.returncode, done.stdout.split()) == (-signal.SIGALRM, ["stopped", "alive"])
