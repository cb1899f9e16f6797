"""Runs in a world with an injected fault, from the command line to the verdict."""

import json
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.envpool.inprocess.fault_injection import FAULTS, ToolFault, copy_with_fault
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.workers.pool import WorkerSettings
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.core.trajectory import assemble
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.settings.policy import PolicySettings
from rehearsal_room.harness.settings.run import Settings, stops_with_world
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.scenarios.catalogue import find
from tests.support.cli import Rehearse, json_of
from tests.support.hosted_records import HEAD, small
from tests.support.run_context import (
    DONE,
    MemorySink,
    MovesPolicy,
    calls,
    make_run_context,
    watchdog_running,
)

pytestmark = pytest.mark.usefixtures("kept_fork_servers")
FAILS = """
@app.get("/fails", operation_id="fails")
def fails():
    return {}["orders"]
"""
SCRIPTED = PolicySettings("scripted")
TOOL = "get_ticket"  # most oracles of the shop begin with it


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """The shop with one tool that always raises."""
    return copy_with_fault(find("shop_support").path, tmp_path / "broken", "raises", TOOL)


def callers() -> set[str]:
    """The tasks whose oracles call the broken tool."""
    tasks = find("shop_support").default_tasks
    return {task.id for task in tasks if any(call.name == TOOL for call in task.oracle)}


def exported(rehearse: Rehearse, run: Path) -> list[Any]:
    """The run's episodes."""
    file = run.with_suffix(".jsonl")
    status, _, err = rehearse("export", run, "--to", "jsonl", "-o", file)
    assert status == 0, err
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_world_is_an_environment_error(
    rehearse: Rehearse, tmp_path: Path, fault: ToolFault
) -> None:
    """An oracle in a broken world is judged environment_error with reward 0 where it calls the
    broken tool, and completed where it does not; the log replays."""
    world = copy_with_fault(find("shop_support").path, tmp_path / "broken", fault, TOOL)
    tasks = ("address-to-parents", "cancel-duplicate", "gift-card-balance")
    assert [task in callers() for task in tasks] == [True, True, False]
    run = tmp_path / "run"
    report = json_of(rehearse, "run", *(f"{world}:{task}" for task in tasks), "-o", run)
    assert report["endings"] == {"world_error": 2, "answered": 1}
    assert report["labels"] == {"environment_error": 2, "completed": 1}
    assert report["mean_reward"] == pytest.approx(1 / 3)
    replay = json_of(rehearse, "replay", run)
    assert (replay["episodes"], replay["divergences"]) == (3, [])


@pytest.mark.slow
def test_a_package_that_breaks_in_a_worker(rehearse: Rehearse, tmp_path: Path) -> None:
    """The result is the same where the broken tool runs in a worker."""
    world = copy_with_fault(find("shop_support").path, tmp_path / "broken", "locked", TOOL)
    report = json_of(rehearse, "run", f"{world}:own-order", "--isolate", "-o", tmp_path / "run")
    assert (report["endings"], report["labels"]) == ({"world_error": 1}, {"environment_error": 1})


async def test_a_record_whose_server_fails() -> None:
    """A 5xx status from a record's server ends the episode, as in AWM, and its state is logged."""
    scenario = small(HEAD + FAILS)
    (plan,) = plan_of([(scenario, scenario.task("t0"))], episodes=1, group_size=1, seed=0)
    sink = MemorySink()
    async with RoutingPool(WorkerSettings(workers=1)) as pool:
        world = await pool.host(scenario)
        context = make_run_context(MovesPolicy(calls("fails"), DONE), sink, pool=pool)
        async with watchdog_running(context):
            await run_episode(plan, context)
        verdict = await ScenarioJudges(pool, [scenario]).verdict(assemble(sink.records))
    ended = sink.ended(plan.episode)
    assert (ended.ending, ended.num_steps, ended.state) == (Ending.WORLD_ERROR, 1, world.start)
    assert (ended.error or "").startswith("the world failed in a call of fails: ")
    assert (verdict.label, verdict.step_rewards) == (Label.ENVIRONMENT_ERROR, (0.0,))


def test_an_episode_that_was_stopped(rehearse: Rehearse, tmp_path: Path, broken: Path) -> None:
    """Its steps have reward 0, its last call is the one that broke, its end state is known, and
    judging it again from the log gives the same verdict."""
    run = tmp_path / "run"
    json_of(rehearse, "run", f"{broken}:cancel-duplicate", "-o", run)
    (episode,) = exported(rehearse, run)
    last = episode["steps"][-1]
    assert (episode["ending"], episode["label"], episode["reward"]) == (
        "world_error",
        "environment_error",
        0.0,
    )
    assert [call["name"] for call in last["calls"]] == [TOOL]
    assert [result["is_error"] for result in last["results"]] == [True]
    assert episode["end_digest"] == episode["start_digest"]  # it broke in the first call
    again = json_of(rehearse, "judge", run)
    assert (again["labels"]["environment_error"], again["disagreements"]) == (1, 0)


@pytest.mark.slow
def test_continuing_in_a_broken_world(rehearse: Rehearse, tmp_path: Path, broken: Path) -> None:
    """With --no-world-stop the oracle continues. What it did in spite of the broken look-up counts;
    the broken calls never count against the agent."""
    stops = json_of(rehearse, "run", broken, "-o", tmp_path / "stops")
    continues = json_of(rehearse, "run", broken, "--no-world-stop", "-o", tmp_path / "continues")
    num_callers = len(callers())
    num_others = len(find("shop_support").default_tasks) - num_callers
    assert stops["endings"] == {"answered": num_others, "world_error": num_callers}
    assert stops["labels"] == {
        "completed": num_others,
        "environment_error": num_callers,
    }
    assert continues["endings"] == {"answered": num_others + num_callers}
    assert continues["labels"] == {"completed": num_others + num_callers}
    replay = json_of(rehearse, "replay", tmp_path / "continues")
    assert replay["divergences"] == []


def test_a_script_is_played_to_its_end(rehearse: Rehearse, tmp_path: Path, broken: Path) -> None:
    """Policy `scripted` plays its whole file whatever the world returns, unless --world-stop."""
    calls = [{"name": TOOL, "arguments": {"ticket_id": 3029}}] * 3
    line = {"scenario": "shop_support", "task": "own-order", "calls": calls, "answer": "No."}
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps(line))
    command = ("run", f"{broken}:own-order", "-p", "scripted", "--script", script)
    whole = json_of(rehearse, *command, "-o", tmp_path / "whole")
    cut = json_of(rehearse, *command, "--world-stop", "-o", tmp_path / "cut")
    assert (whole["endings"], whole["labels"]) == ({"answered": 1}, {"environment_error": 1})
    assert (cut["endings"], cut["labels"]) == ({"world_error": 1}, {"environment_error": 1})
    steps = [len(exported(rehearse, tmp_path / run)[0]["steps"]) for run in ("whole", "cut")]
    assert steps == [4, 1]


def test_a_run_is_resumed_as_it_began(rehearse: Rehearse, tmp_path: Path, broken: Path) -> None:
    """Whether a failure of the world ends an episode is fixed for a run: resuming with the other
    setting is refused."""
    run = tmp_path / "run"
    json_of(rehearse, "run", f"{broken}:own-order", "--no-world-stop", "-o", run)
    assert "world_stop = false" in (run / "run.toml").read_text()
    status, _, err = rehearse("run", "--resume", "-o", run, "--world-stop")
    assert status == 2
    assert err == f"error: {run / 'run.toml'}: world_stop: the run began with False, not True\n"


@pytest.mark.parametrize(
    ("settings", "stops"),
    [
        (Settings(), True),
        (Settings(policy=SCRIPTED), False),
        (Settings(policy=SCRIPTED, limits=Limits(world_stop=True)), True),
        (Settings(limits=Limits(world_stop=False)), False),
    ],
)
def test_which_policies_stop(settings: Settings, stops: bool) -> None:
    """By default a failure of the world ends the episode, except with policy `scripted`."""
    assert stops_with_world(settings) is stops
