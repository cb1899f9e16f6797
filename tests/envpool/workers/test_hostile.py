"""Hostile tools and verifiers: each is contained, its episode ends with a sentence, and nobody else
notices. One run of all of them, in which neighbours go on; then a test for each.

A neighbour lives in the hostile scenario itself and one in a harmless package; they make a call
before and after each attack, whichever worker that falls to.
"""

import itertools
import os
from typing import Any, Literal

import anyio
import msgspec
import psutil
import pytest

from envpool.core.errors import WorldError
from envpool.core.types import Env
from envpool.workers.fork_client import WorkerProcess, Zygote, ZygoteSettings
from envpool.workers.pool import WorkerPool, WorkerSettings
from envpool.workers.sandbox import Limits
from scenarios.format import Scenario
from tests.hostile.gather import Attack, attacks, package, record
from tests.support import ledger_world

VERIFIERS = [*attacks(), *attacks("verdicts")]
Which = Literal["code", "sql"]
WHICH: tuple[Which, ...] = ("code", "sql")
SETTINGS = WorkerSettings(workers=2, call_deadline=1.0, slow_after=0.1, memory_mb=200)
AT_ONCE = 3  # attacks


class _Seen(Zygote):
    """A zygote that remembers whom it started."""

    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(ZygoteSettings("best", Limits(memory_mb=settings.memory_mb)))
        self.spawned: list[WorkerProcess] = []

    async def spawn(self) -> WorkerProcess:
        worker = await super().spawn()
        self.spawned.append(worker)
        return worker


class Run(msgspec.Struct):
    """What came of all attacks on one scenario."""

    outcomes: dict[str, str]
    neighbours: list[Any]  # what they were told
    expected: list[Any]  # what they would have been told with nobody beside them
    left: list[str]  # what is still there afterwards


async def _attacked(env: Env, name: str) -> str:
    """What one attack comes to."""
    try:
        result = await env.call("attack", {"name": name}, "1")
        env.state()
    except WorldError as exc:
        return f"ended: {exc}"
    return f"{'failed' if result.is_error else 'answered'}: {result.text[:200]}"


class _Neighbours:
    """One in the hostile scenario and one in a harmless package: they go on, call by call."""

    def __init__(self, near: Env, far: Env) -> None:
        self._near, self._far = near, far
        self.told: list[Any] = []

    async def go_on(self, number: int) -> None:
        booked = {"account_id": 1, "amount": number + 1}
        for env, name, arguments in (
            (self._near, "add_note", {"text": f"note {number}"}),
            (self._near, "list_notes", {}),
            (self._far, "book", booked),
        ):
            result = await env.call(name, arguments, "")
            self.told.append((result.text, result.error, result.changes, result.digest))

    def end(self) -> None:
        self.told += [self._near.state().digest, self._far.state().digest]


async def _run(scenario: Scenario, book: Scenario) -> Run:
    seen = _Seen(SETTINGS)
    outcomes: dict[str, str] = {}
    slots = anyio.CapacityLimiter(AT_ONCE)
    found = attacks()
    async with WorkerPool(SETTINGS, opens=lambda _: seen) as pool:
        scratch, server = seen._scratch, seen._process.pid

        async def attack(name: str) -> None:
            async with slots, pool.lease(scenario) as env:
                outcomes[name] = await _attacked(env, name)

        async with pool.lease(scenario) as near, pool.lease(book) as far:
            neighbours = _Neighbours(near, far)
            async with anyio.create_task_group() as group:
                for number, each in enumerate(found):
                    group.start_soon(attack, each.name)
                    await neighbours.go_on(number)
            neighbours.end()
        async with pool.lease(scenario) as near, pool.lease(book) as far:
            undisturbed = _Neighbours(near, far)
            for number in range(len(found)):
                await undisturbed.go_on(number)
            undisturbed.end()
    left = [f"process {pid}" for pid in (server, *(w.pid for w in seen.spawned)) if _is_there(pid)]
    return Run(outcomes, neighbours.told, undisturbed.told, [*left, *_files(scratch)])


def _files(folder: str) -> list[str]:
    return [folder] if folder and os.path.exists(folder) else []


def _is_there(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def _judged(pool: WorkerPool, scenario: Scenario, task: str, which: Which) -> str:
    """What a hostile verifier comes to."""
    world = await pool.host(scenario)
    state = world.stored(world.template.overlay())
    said = await pool.verify(scenario, task, state, "done", which)
    if said.violation or said.fault.startswith("it ended its worker"):
        return f"ended: {said.violation or said.fault}"
    return f"failed: {said.fault}" if said.fault else f"judged: {said.label}"


async def _judge_all(scenario: Scenario) -> dict[str, str]:
    """What a verifier of every task comes to, of either kind by turns."""
    outcomes: dict[str, str] = {}
    slots = anyio.CapacityLimiter(AT_ONCE)
    async with WorkerPool(SETTINGS) as pool:

        async def judge(task: str, which: Which) -> None:
            async with slots:
                outcomes[task] = await _judged(pool, scenario, task, which)

        async with anyio.create_task_group() as group:
            for task, which in zip(scenario.tasks, itertools.cycle(WHICH), strict=False):
                group.start_soon(judge, task.id, which)
    return outcomes


@pytest.fixture(scope="module", params=["package", "awm"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of all attacks on a scenario of one kind."""
    folder = tmp_path_factory.mktemp("hostile")
    scenario = package(folder / "hostile") if request.param == "package" else record()
    return anyio.run(_run, scenario, ledger_world.ledger(folder / "ledger"))


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    """What all hostile verifiers come to."""
    return anyio.run(_judge_all, record())


@pytest.mark.parametrize("attack", attacks(), ids=str)
def test_attack(run: Run, attack: Attack) -> None:
    """The attack comes to what its docstring says."""
    outcome = run.outcomes[attack.name]
    assert attack.fits(outcome), outcome


def test_neighbours_notice_nothing(run: Run) -> None:
    """Worlds beside the attacked ones are told what they would have been told alone, and their
    states are exact."""
    assert run.neighbours == run.expected


def test_nothing_is_left(run: Run) -> None:
    """Afterwards no process and no file of the pool is there."""
    assert run.left == []


@pytest.mark.parametrize("attack", VERIFIERS, ids=str)
def test_verifier(verdicts: dict[str, str], attack: Attack) -> None:
    """A hostile verifier is contained: it gives no verdict, and a sentence, where a tool would end
    its world; and no verdict that it is not entitled to."""
    word, _, text = verdicts[attack.name].partition(": ")
    if attack.theme == "verdicts":
        assert word in attack.comes.split(" or "), (word, text)
    elif attack.comes.startswith("ended"):
        assert word in {"ended", "failed"} and text, (word, text)
    else:
        assert text != "complete"


def test_there_are_many() -> None:
    """The folder holds at least fifty attacks."""
    assert len({attack.name for attack in attacks()}) >= 50
