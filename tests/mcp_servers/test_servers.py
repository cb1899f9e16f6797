"""Real MCP servers of PyPI and npm as worlds: state, gate, false pass, replay, and random calls.

`just mcp-servers` runs them (tests/mcp_servers/run.sh); nothing of the servers is changed. What was
found is in build/mcp-servers/table.md afterwards.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import rehearsal_room as rr
from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.mcp_worlds.pool import ServerWorldPool
from rehearsal_room.harness.policies.random_calls import collect_values, random_arguments
from rehearsal_room.judge.playback.tool_fuzzing import plausible
from rehearsal_room.scenarios.format import read
from tests.mcp_servers.servers import (
    MEMORY,
    ROOT,
    Server,
    new_world,
    rehearse,
    servers,
    task_file,
    write_task,
)

SEQUENCES = int(os.environ.get("MCP_SERVERS_SEQUENCES", "10"))
CALLS = 6  # in a sequence
EVERY = 10  # one sequence in so many is also played in a process of its own
INSTALLED = [server for server in servers() if server.is_installed]
WITH_STATE = [server for server in INSTALLED if server.state != MEMORY]
IN_MEMORY = [server for server in INSTALLED if server.state == MEMORY]
Played = list[tuple[str, str | None, str]]  # text, error and digest of each call


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def table() -> Iterator[dict[str, list[str]]]:
    """What was found, by server; written when all tests have run."""
    found: dict[str, list[str]] = {}
    yield found
    built = ROOT / "build" / "mcp-servers"
    built.mkdir(parents=True, exist_ok=True)
    lines = [f"| {name} | {' | '.join(cells)} |" for name, cells in found.items()]
    (built / "table.md").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The worlds of the servers whose state is declared, with our task, by name."""
    parent = tmp_path_factory.mktemp("worlds")
    found = {}
    for server in WITH_STATE:
        made = new_world(server, parent)
        found[server.name] = parent / server.name
        (parent / f"{server.name}.said").write_text(made.stdout + made.stderr)
        if made.returncode == 0:
            write_task(server, parent / server.name)
    return found


@pytest.fixture(params=WITH_STATE, ids=lambda server: server.name)
def server(request: pytest.FixtureRequest) -> Server:
    """A server whose state is declared."""
    found: Server = request.param
    return found


@pytest.fixture
def world(server: Server, worlds: dict[str, Path]) -> Path:
    """The package of its world."""
    return worlds[server.name]


def test_the_state_is_found(server: Server, world: Path) -> None:
    """`rehearse new world --mcp` finds where the server writes, and writes a package."""
    said = world.parent / f"{server.name}.said"
    assert world.is_dir(), said.read_text()
    assert server.state in (world / "scenario.toml").read_text().splitlines(), said.read_text()
    assert read(world).tasks[0].oracle


def test_the_gate_passes(world: Path, tmp_path: Path) -> None:
    """The task's solution is paid; broken ones, doing nothing and unwanted writes are not."""
    checked = rehearse("worlds", "check", world, "--json", tmp_path / "gate.json")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_false_pass_is_an_agent_error(server: Server, world: Path, tmp_path: Path) -> None:
    """What the task asks for and another write beside it is `agent_error` with reward 0."""
    write_task(server, world, more=(server.unwanted,))
    try:
        episode = played(world, tmp_path / "false")
    finally:
        write_task(server, world)
    last = results(episode)[-1]
    assert last.error is None and last.changes, last
    assert (episode.judged[-1].label, episode.judged[-1].reward) == ("agent_error", 0.0)


def test_the_unwanted_call_is_blamed(server: Server, world: Path, tmp_path: Path) -> None:
    """Of an episode that makes the calls of the solution and an unwanted one, that turn is
    blamed, and a way without it completes the task."""
    task = read(world).tasks[0]
    calls = [*server.oracle, server.unwanted]
    line = {"scenario": world.name, "task": task.id, "calls": calls, "answer": task.answer}
    (tmp_path / "script.jsonl").write_text(json.dumps(line))
    asked = ("-p", "scripted", "--script", tmp_path / "script.jsonl", "-o", tmp_path / "run")
    made = rehearse("run", world, *asked)
    assert made.returncode == 0, made.stdout + made.stderr
    found = tmp_path / "blame.json"
    episode = tmp_path / "run" / "e000000"
    made = rehearse("failures", "blame", episode, "-p", "oracle", "-n", 2, "--json", found)
    assert made.returncode == 0, made.stdout + made.stderr
    blame = json.loads(found.read_text())
    assert blame["blamed"] == len(server.oracle), blame
    before = blame["states"][: len(calls)]
    assert [(one["oracle"], one["completed"]) for one in before] == [("goes_on", 2)] * len(calls)
    assert blame["rescue"]["kind"] == "drop"


def test_replay_and_from_are_equal(world: Path, tmp_path: Path) -> None:
    """Every text and every row is equal when the calls are made again, and an episode that begins
    behind the first call ends in the same state."""
    run = tmp_path / "run"
    episode = played(world, run)
    assert episode.judged[-1].label == "completed", episode.judged[-1].findings
    again = rehearse("replay", run)
    assert again.returncode == 0, again.stdout + again.stderr
    forked = played(world, tmp_path / "forked", "--from", f"{run}/{episode.episode}@1")
    assert results(forked)[-1] == results(episode)[-1]
    assert forked.judged[-1].label == "completed"


def played(world: Path, run: Path, *more: str) -> rr.Trajectory:
    """The episode in which the world's solution is played."""
    words = more or (world,)
    made = rehearse("run", *words, "-p", "oracle", "-o", run)
    assert made.returncode == 0, made.stdout + made.stderr
    with rr.open_log(run) as log:
        (episode,) = log.trajectories()
    return episode


def results(episode: rr.Trajectory) -> list[rr.ToolResult]:
    """The results of its calls."""
    return [result for step in episode.steps for result in step.executed_results]


async def test_random_calls(server: Server, world: Path, table: dict[str, list[str]]) -> None:
    """The same random calls give the same texts, errors and digests straight through, once more
    after a reset, in a fork from their middle, and in a process of their own."""
    scenario, rng = read(world), Random(7)
    async with ServerWorldPool() as pool:
        states = await pool.host(scenario)
        values = plausible(states)
        starts = 0
        for number in range(SEQUENCES):
            if number == SEQUENCES // 2:  # what is tried out at first takes processes, too
                starts = pool.statistics()["starts"]
            async with pool.lease(scenario, None) as env:
                made, straight = await drawn(env, rng, dict(values), server.of_disk)
                middle = len(made) // 2
                env.reset()
                first = await play(env, made[:middle])
                fork = env.fork()
                assert await play(fork, made[middle:]) == straight[middle:], made
                assert first + await play(env, made[middle:]) == straight, made
                if number % EVERY == 0:
                    async with pool.lease(scenario, None) as other:
                        assert await play(other, made) == straight, made
        why = pool._worlds[scenario.digest].renewal.why_not
        later = pool.statistics()["starts"] - starts
        is_kept = not why and later < SEQUENCES - SEQUENCES // 2
    table.setdefault(server.name, []).append("in place" if is_kept else why or "new process")
    if server.ignore_files:  # how many processes it takes depends on the calls
        assert not why
    else:
        assert server.starts_anew != is_kept, why


async def drawn(
    env: Env, rng: Random, values: dict[str, list[Any]], left_out: list[str]
) -> tuple[list[tuple[str, Any]], Played]:
    """Make random calls with values of the state and of earlier results."""
    made: list[tuple[str, Any]] = []
    straight: Played = []
    for _ in range(CALLS):
        tool = rng.choice([tool for tool in env.tools if tool.name not in left_out])
        call = (tool.name, random_arguments(tool.schema, rng, values))
        straight += await play(env, [call])
        made.append(call)
        values = {name: list(known) for name, known in values.items()}
        collect_values(straight[-1][0], values)
    return made, straight


async def play(env: Env, calls: list[tuple[str, Any]]) -> Played:
    """Make calls; a call that breaks the world ends them."""
    found: Played = []
    for name, arguments in calls:
        result = await env.call(name, arguments, "")
        found.append((result.text, result.error, result.digest))
    return found


@pytest.mark.parametrize("server", IN_MEMORY, ids=lambda server: server.name)
def test_state_in_memory_is_said_and_played_with_checks(server: Server, tmp_path: Path) -> None:
    """`new world` refuses what writes nothing, and names the way with checks. With these the
    solution is completed; reading alone, and an unwanted write beside the solution, are not."""
    made = new_world(server, tmp_path)
    assert made.returncode == 2 and "its state is in memory or elsewhere" in made.stderr, made
    assert "rehearse run --mcp" in made.stderr
    found = {}
    more = [*server.oracle, server.unwanted]
    wrong = {"read": [server.read], "more": more} if server.unwanted else {}
    for name, calls in {"solution": server.oracle, **wrong}.items():
        words = ("--mcp", server.program(server.command), task_file(server, tmp_path, calls))
        run = rehearse("run", *words, "-p", "oracle", "-o", tmp_path / name)
        assert run.returncode == 0, run.stdout + run.stderr
        with rr.open_log(tmp_path / name) as log:
            (episode,) = log.trajectories()
        assert all(result.error is None for result in results(episode)), episode
        found[name] = episode.judged[-1].label
    assert found == {"solution": "completed", **dict.fromkeys(wrong, "agent_error")}
