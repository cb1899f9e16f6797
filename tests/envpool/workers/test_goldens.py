"""The AWM fixture in worker processes: results, ends and verdicts as on the genuine stack."""

from collections.abc import AsyncIterator
from itertools import cycle, islice
from typing import Any

import anyio
import pytest

from envpool.core.types import Env, StoredState
from envpool.hosting.live_world import LiveWorld
from envpool.workers.pool import WorkerPool, WorkerSettings
from scenarios.format import Scenario
from tests.support.hosted_records import dump, fixture_scenario, golden, golden_dump, mask

RUNS = golden("run")
NUM_WORLDS = 1_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    async with WorkerPool(WorkerSettings(workers=2)) as pool:
        await pool.host(fixture_scenario())
        yield pool


async def played(env: Env, run: dict[str, Any]) -> StoredState:
    """The state after a run's calls, whose results are compared."""
    for number, call in enumerate(run.get("calls", [])):
        result = await env.call(call["tool"], call["arguments"], f"c{number}-0")
        wanted = (call["is_error"], call["text"])
        assert (result.is_error, mask(result.text)) == wanted, run["id"]
    return env.state()


async def check_end(
    pool: WorkerPool, scenario: Scenario, run: dict[str, Any], state: StoredState
) -> None:
    """The final rows, and what both verifiers say of them, are the golden ones."""
    states = pool.hosted(scenario)
    if run.get("db"):
        end = LiveWorld(states.restored(state), b"")
        assert dump(states, end) == golden_dump(run), run["id"]
    for which, wanted in (run.get("verifiers") or {}).items():
        task, answer = str(run["task_idx"]), run["final_answer"] or ""
        verified = await pool.verify(scenario, task, state, answer, which)
        said = (verified.label, mask(verified.detail))
        assert said == (wanted["label"], wanted["detail"]), (run["id"], which)


async def test_every_run_ends_as_genuine(pool: WorkerPool) -> None:
    """Texts, errors, final rows, and the verdicts on oracles, near misses and idle runs."""
    scenario = fixture_scenario()
    for run in RUNS:
        async with pool.lease(scenario, None) as env:
            state = await played(env, run)
        await check_end(pool, scenario, run, state)


async def test_worlds_in_turns_end_as_genuine(pool: WorkerPool) -> None:
    """Many worlds at once, on two workers, end as each would have ended alone."""
    scenario = fixture_scenario()
    runs = [run for run in RUNS if run.get("calls")]
    ends: dict[str, list[StoredState]] = {run["id"]: [] for run in runs}

    async def play(run: dict[str, Any]) -> None:
        async with pool.lease(scenario, None) as env:
            ends[run["id"]].append(await played(env, run))

    async with anyio.create_task_group() as group:
        for run in islice(cycle(runs), NUM_WORLDS):
            group.start_soon(play, run)
    for run in runs:
        first, *others = ends[run["id"]]
        assert {state.digest for state in others} <= {first.digest}
        await check_end(pool, scenario, run, first)
