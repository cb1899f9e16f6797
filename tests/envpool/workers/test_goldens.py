"""The AWM fixture in worker processes: results, end states and verdicts as on the genuine stack."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from itertools import cycle, islice
from typing import Any

import anyio
import pytest

from rehearsal_room.envpool.core.types import Env, StoredState
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from rehearsal_room.envpool.workers.fork_client import ForkServerClient
from rehearsal_room.envpool.workers.pool import WorkerPool, WorkerSettings
from rehearsal_room.scenarios.format import Scenario
from tests.support.budgets import repeats
from tests.support.hosted_records import dump, fixture_scenario, golden, golden_dump, mask

RUNS = golden("run")
NUM_WORLDS = repeats(short=250, long=1_000)


@pytest.fixture(scope="module")
async def pool(fork_server: ForkServerClient) -> AsyncIterator[WorkerPool]:
    """A pool that has hosted the fixture."""
    settings = WorkerSettings(workers=2)
    async with WorkerPool(settings, open_spawner=lambda _: nullcontext(fork_server)) as pool:
        await pool.host(fixture_scenario())
        yield pool


async def play_run(env: Env, run: dict[str, Any]) -> StoredState:
    """Make a run's calls and compare their results; returns the state after them."""
    for number, call in enumerate(run.get("calls", [])):
        result = await env.call(call["tool"], call["arguments"], f"c{number}-0")
        expected = (call["is_error"], call["text"])
        assert (result.is_error, mask(result.text)) == expected, run["id"]
    return env.state()


async def check_end(
    pool: WorkerPool, scenario: Scenario, run: dict[str, Any], state: StoredState
) -> None:
    """The final rows, and the results of both verifiers on them, are the golden ones."""
    states = pool.hosted(scenario)
    if run.get("db"):
        end = LiveWorld(states.restored(state), b"")
        assert dump(states, end) == golden_dump(run), run["id"]
    for which, expected in (run.get("verifiers") or {}).items():
        task, answer = scenario.task(str(run["task_idx"])), run["final_answer"] or ""
        verified = await pool.verify(scenario, task, state, answer, which)
        found = (verified.label, mask(verified.detail))
        assert found == (expected["label"], expected["detail"]), (run["id"], which)


@pytest.mark.slow
async def test_every_run_ends_as_genuine(pool: WorkerPool) -> None:
    """Texts, errors, final rows, and the verdicts on oracles, near misses and idle runs."""
    scenario = fixture_scenario()
    for run in RUNS:
        async with pool.lease(scenario, None) as env:
            state = await play_run(env, run)
        await check_end(pool, scenario, run, state)


@pytest.mark.slow
async def test_worlds_in_turns_end_as_genuine(pool: WorkerPool) -> None:
    """Many worlds at once, on two workers, end as each ends alone."""
    scenario = fixture_scenario()
    runs = [run for run in RUNS if run.get("calls")]
    ends: dict[str, list[StoredState]] = {run["id"]: [] for run in runs}

    async def play(run: dict[str, Any]) -> None:
        async with pool.lease(scenario, None) as env:
            ends[run["id"]].append(await play_run(env, run))

    async with anyio.create_task_group() as group:
        for run in islice(cycle(runs), NUM_WORLDS):
            group.start_soon(play, run)
    for run in runs:
        first, *others = ends[run["id"]]
        assert {state.digest for state in others} <= {first.digest}
        await check_end(pool, scenario, run, first)
