"""A scenario that owns its worker reaches no other scenario: neither their texts and states nor
their verdicts, nor its own verdicts through anything but its states.

Each run loads a whole family of scenarios into real workers, so these tests take some seconds.
"""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionEnv
from rehearsal_room.envpool.workers.pool import OpenSpawner, WorkerPool, WorkerSettings
from rehearsal_room.scenarios.format import AwmRecord, AwmVerifier, Scenario
from tests.hostile.owners import NAMES, record
from tests.support.budgets import repeats
from tests.support.bystanders import bystanders, observe

NUM_BYSTANDERS = repeats(short=3, long=20)
SETTINGS = WorkerSettings(workers=1)  # where workers are shared, this one is


async def attack(pool: WorkerPool, owner: Scenario) -> None:
    """Let an owner execute its program once more: in a call and in a verdict."""
    try:
        async with pool.lease(owner) as env:
            await env.call("own", {}, "")
        await pool.verify(owner, owner.tasks[0], pool.hosted(owner).start, "done")
    except PoolError:
        pass  # it broke itself


async def observe_all(
    open_spawner: OpenSpawner, family: list[Scenario], owners: list[Scenario]
) -> list[Any]:
    """What each of the family shows, where the owners attack before and between their episodes."""
    async with WorkerPool(SETTINGS, open_spawner=open_spawner) as pool:
        for owner in owners:
            await attack(pool, owner)
        for scenario in family:
            await pool.host(scenario)
        seen = []
        for number, scenario in enumerate(family):
            if owners:
                await attack(pool, owners[number % len(owners)])
            seen.append(await observe(pool, scenario))
        return seen


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_an_owner_changes_nothing_elsewhere(
    open_spawner: OpenSpawner, tmp_path: Path
) -> None:
    """With scenarios that own their workers, every other scenario's texts, states, digests and
    verdicts are those of a run without them."""
    family = bystanders(NUM_BYSTANDERS, tmp_path)
    alone = await observe_all(open_spawner, family, [])
    assert any(("complete" in str(seen)) and ("others" in str(seen)) for seen in alone)
    for number, name in enumerate(NAMES):
        some = family[number % len(family) :][:2]
        assert await observe_all(open_spawner, some, [record(name)]) == [
            alone[family.index(scenario)] for scenario in some
        ], name
    assert await observe_all(open_spawner, family, [record(name) for name in NAMES]) == alone


@pytest.mark.slow
async def test_no_process_executes_two_scenarios(open_spawner: OpenSpawner, tmp_path: Path) -> None:
    """Every process has one scenario for its life, a verdict has a process of its own, and the
    result says which; also where many tasks use many scenarios at once and workers are evicted."""
    family = bystanders(4, tmp_path)
    settings = WorkerSettings(workers=2, resident_mb=1)
    owners: dict[int, set[str]] = {}
    verdicts: list[int] = []
    async with WorkerPool(settings, open_spawner=open_spawner) as pool, AsyncExitStack() as stack:
        envs = [await stack.enter_async_context(pool.lease(scenario)) for scenario in family]

        async def play(number: int) -> None:
            scenario, env = family[number], envs[number]
            for _ in range(3):
                tool = "list_notes" if scenario.awm is not None else "newest"
                await env.call(tool, {}, "")
                assert isinstance(env, RemoteExecutionEnv)
                pid = env.last_worker.process.pid
                owners.setdefault(pid, set()).add(scenario.digest)
                verified = await pool.verify(scenario, scenario.tasks[0], env.state(), "")
                assert verified.sandbox == pool.level
                verdicts.append(verified.pid)

        async with anyio.create_task_group() as group:
            for number in range(len(family)):
                group.start_soon(play, number)
        assert pool.statistics()["workers_evicted"] > 0
    assert all(len(digests) == 1 for digests in owners.values())
    assert len(set(verdicts)) == len(verdicts)
    assert not set(verdicts) & set(owners)


async def test_the_owner_owns_its_worker(open_spawner: OpenSpawner) -> None:
    """The strongest program of the family has its worker: it forges every answer about its own
    worlds. A verdict is forged only by the verifier itself."""
    owner = record("forge_every_answer")
    async with WorkerPool(SETTINGS, open_spawner=open_spawner) as pool:
        async with pool.lease(owner) as env:
            assert (await env.call("own", {}, "")).text == "owned"
        awm = with_verifier(owner, 'return {"result": "no"}')
        harmless = msgspec.structs.replace(owner, awm=awm, digest="1" * 32)
        await pool.host(harmless)
        async with pool.lease(harmless) as env:
            await env.call("own", {}, "")
            verified = await pool.verify(harmless, harmless.tasks[0], env.state(), "done")
        assert (verified.label, verified.violation, verified.fault) == ("others", "", "")


def with_verifier(scenario: Scenario, body: str) -> AwmRecord:
    """The scenario's record with a verifier that does only this."""
    assert scenario.awm is not None
    code = f"def verify_task_completion(initial_db_path, final_db_path):\n    {body}\n"
    return msgspec.structs.replace(scenario.awm, verifiers={"t0": AwmVerifier(code=code)})
