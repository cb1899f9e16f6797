"""Hostile tools and verifiers: each is contained, its episode ends with a message, and no other
world is affected. One run of all of them, beside neighbours; then a test for each.

One neighbour lives in the hostile scenario itself and one in a harmless package; they make calls
before and after each attack, on whichever worker has them.

Attacks that hang run in a pool with a short deadline, all others in a pool with a long one: so a
busy machine cannot make another attack look like a hanging one.

`just test` makes every attack as a tool of one of the two kinds of scenario, in turns, and a
quarter of them as verifiers, too. `just test-long` makes each of them in all ways.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec
import psutil
import pytest

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.workers.fork_client import (
    ForkServerClient,
    ForkServerSettings,
    WorkerProcess,
)
from rehearsal_room.envpool.workers.pool import WorkerPool, WorkerSettings
from rehearsal_room.envpool.workers.sandbox import WorkerLimits
from rehearsal_room.scenarios.format import Scenario, Task
from tests.hostile.gather import Attack, attacks, package, record
from tests.support import ledger_world
from tests.support.budgets import IS_LONG, repeats
from tests.support.made_once import made_once

# The runs take half a minute alone, more on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STEP = repeats(short=4, long=1)
VERIFIERS = [*attacks()[::STEP], *attacks("verdicts")]
TOOLS = {  # by the kind of scenario
    "package": attacks() if IS_LONG else attacks()[::2],
    "awm": attacks() if IS_LONG else attacks()[1::2],
}
Which = Literal["code", "sql"]
WHICH: tuple[Which, ...] = ("code", "sql")
MEMORY_MB = 200
SETTINGS = WorkerSettings(workers=4, call_deadline=60.0, slow_after=0.1, memory_mb=MEMORY_MB)
HANGING = WorkerSettings(  # many suspects at a time, so that the attacks hang side by side
    workers=2, spare=8, window=1, call_deadline=1.5, slow_after=0.02, memory_mb=MEMORY_MB
)
CONCURRENCY = 6  # attacks
HANGING_VERIFIERS = msgspec.structs.replace(HANGING, workers=CONCURRENCY)  # none moves on


class RecordingServer(ForkServerClient):
    """A fork server client that records the workers that it started."""

    def __init__(self) -> None:
        super().__init__(ForkServerSettings("best", WorkerLimits(memory_mb=MEMORY_MB)))
        self.spawned: list[WorkerProcess] = []

    async def spawn(self) -> WorkerProcess:
        worker = await super().spawn()
        self.spawned.append(worker)
        return worker

    @asynccontextmanager
    async def pool(self, settings: WorkerSettings) -> AsyncIterator[WorkerPool]:
        """A pool whose workers this server forks."""
        async with WorkerPool(settings, open_spawner=lambda _: nullcontext(self)) as pool:
            yield pool


class Run(msgspec.Struct):
    """The outcomes of all attacks on one scenario."""

    outcomes: dict[str, str] = {}
    neighbours: list[Any] = []  # the results of the neighbours
    expected: list[Any] = []  # their results without attacks beside them


class Runs(msgspec.Struct):
    """The outcomes of all attacks, and what the pools left behind."""

    tools: dict[str, Run]  # by the kind of scenario
    verifiers: dict[str, str]  # by attack
    left: list[str]


async def attack_outcome(env: Env, name: str) -> str:
    """The outcome of one attack."""
    try:
        result = await env.call("attack", {"name": name}, "1")
        env.state()
    except WorldError as exc:
        return f"ended: {exc}"
    return f"{'failed' if result.is_error else 'answered'}: {result.text[:200]}"


class Neighbours:
    """One in the hostile scenario and one in a harmless package: they make call after call."""

    def __init__(self, near: Env, far: Env) -> None:
        self._near, self._far = near, far
        self.results: list[Any] = []

    async def play(self, number: int) -> None:
        booking = {"account_id": 1, "amount": number + 1}
        for env, name, arguments in (
            (self._near, "add_note", {"text": f"note {number}"}),
            (self._near, "list_notes", {}),
            (self._far, "book", booking),
        ):
            result = await env.call(name, arguments, "")
            self.results.append((result.text, result.error, result.changes, result.digest))

    def end(self) -> None:
        self.results += [self._near.state().digest, self._far.state().digest]


async def attack_all(
    pool: WorkerPool, scenario: Scenario, book: Scenario, chosen: Sequence[Attack], run: Run
) -> None:
    """Make these attacks beside two neighbours, then the neighbours' calls without attacks."""
    limiter = anyio.CapacityLimiter(CONCURRENCY)

    async def attack(name: str) -> None:
        async with limiter, pool.lease(scenario) as env:
            run.outcomes[name] = await attack_outcome(env, name)

    async with pool.lease(scenario) as near, pool.lease(book) as far:
        neighbours = Neighbours(near, far)
        async with anyio.create_task_group() as group:
            for number, each in enumerate(chosen):
                group.start_soon(attack, each.name)
                await neighbours.play(number)
        neighbours.end()
    async with pool.lease(scenario) as near, pool.lease(book) as far:
        undisturbed = Neighbours(near, far)
        for number in range(len(chosen)):
            await undisturbed.play(number)
        undisturbed.end()
    run.neighbours += neighbours.results
    run.expected += undisturbed.results


async def verdict_outcome(pool: WorkerPool, scenario: Scenario, task: Task, which: Which) -> str:
    """The outcome of a hostile verifier."""
    world = await pool.host(scenario)
    state = world.stored(world.template.overlay())
    verified = await pool.verify(scenario, task, state, "done", which)
    if verified.violation or verified.fault.startswith("it ended its worker"):
        return f"ended: {verified.violation or verified.fault}"
    return f"failed: {verified.fault}" if verified.fault else f"judged: {verified.label}"


async def judge_all(
    pool: WorkerPool, scenario: Scenario, chosen: Sequence[Attack], outcomes: dict[str, str]
) -> None:
    """Run these verifiers, of both kinds in turn."""
    limiter = anyio.CapacityLimiter(CONCURRENCY)

    async def judge(task: Task, which: Which) -> None:
        async with limiter:
            outcomes[task.id] = await verdict_outcome(pool, scenario, task, which)

    async with anyio.create_task_group() as group:
        for attack, which in zip(chosen, itertools.cycle(WHICH), strict=False):
            group.start_soon(judge, scenario.task(attack.name), which)


async def run_all(folder: Path) -> Runs:
    """All attacks, as tools of both kinds of scenario and as verifiers, from one fork server."""
    book, awm = ledger_world.ledger(folder / "ledger"), record()
    hostile = package(folder / "hostile")
    runs = {"package": Run(), "awm": Run()}
    verdicts: dict[str, str] = {}
    async with RecordingServer() as server:
        scratch, process = server._scratch, server._process.pid

        async def attack_tools(settings: WorkerSettings, hangs: bool) -> None:
            for kind, scenario in (("package", hostile), ("awm", awm)):
                chosen = [attack for attack in TOOLS[kind] if attack.hangs is hangs]
                async with server.pool(settings) as pool:
                    await attack_all(pool, scenario, book, chosen, runs[kind])

        async def attack_verdicts(settings: WorkerSettings, hangs: bool) -> None:
            chosen = [attack for attack in VERIFIERS if attack.hangs is hangs]
            async with server.pool(settings) as pool:
                await judge_all(pool, awm, chosen, verdicts)

        await attack_tools(HANGING, True)
        async with anyio.create_task_group() as group:  # these verifiers hang side by side, idle
            group.start_soon(attack_verdicts, HANGING_VERIFIERS, True)
            await attack_tools(SETTINGS, False)
            await attack_verdicts(SETTINGS, False)
    pids = (process, *(worker.pid for worker in server.spawned))
    left = [f"process {pid}" for pid in pids if is_running(pid)]
    return Runs(runs, verdicts, left + existing(scratch))


def existing(folder: str) -> list[str]:
    return [folder] if folder and os.path.exists(folder) else []


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    def make(folder: Path) -> None:
        found = asyncio.run(run_all(folder))
        (folder / "runs.json").write_bytes(msgspec.json.encode(found))

    folder = made_once(tmp_path_factory, "hostile-runs", make)
    return msgspec.json.decode((folder / "runs.json").read_bytes(), type=Runs)


@pytest.mark.parametrize(
    ("kind", "attack"),
    [
        pytest.param(kind, attack, id=f"{kind}-{attack}")
        for kind, chosen in TOOLS.items()
        for attack in chosen
    ],
)
def test_attack(runs: Runs, kind: str, attack: Attack) -> None:
    """The attack has the outcome that its docstring states."""
    outcome = runs.tools[kind].outcomes[attack.name]
    assert attack.expects(outcome), outcome


@pytest.mark.parametrize("kind", TOOLS)
def test_neighbours_are_not_affected(runs: Runs, kind: str) -> None:
    """Worlds beside the attacked ones have the results that they have alone, and exact states."""
    run = runs.tools[kind]
    assert run.neighbours == run.expected != []


def test_nothing_is_left(runs: Runs) -> None:
    """Afterwards no process and no file of the pools exists."""
    assert runs.left == []


@pytest.mark.parametrize("attack", VERIFIERS, ids=str)
def test_verifier(runs: Runs, attack: Attack) -> None:
    """A hostile verifier is contained: it gives a message and no verdict where a tool would end its
    world, and never a favourable verdict that it is not entitled to. A thread that hides from the
    worker gains nothing: the verifier's process ends with its verdict, and all threads with it."""
    outcome = runs.verifiers[attack.name]
    word, _, text = outcome.partition(": ")
    if attack.theme == "verdicts":
        assert attack.expects(outcome), outcome
    elif attack.expected.startswith("ended") and attack.theme != "threads":
        assert word in {"ended", "failed"} and text, outcome
    else:
        assert text != "complete"


def test_there_are_many() -> None:
    """The folder holds at least fifty attacks, and each is made as a tool."""
    made = {attack.name for chosen in TOOLS.values() for attack in chosen}
    assert made == {attack.name for attack in attacks()}
    assert len(made) >= 50
