"""Whether a server does the same when its database keeps a write-ahead log: with one, the rows that
a call changed in a large database are found several times as fast (docs/mcp-servers.md)."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import anyio

from rehearsal_room.authoring.server_worlds.watching import CALL_S
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.mcp_worlds.env import ServerEnv
from rehearsal_room.envpool.mcp_worlds.pool import ServerWorldPool
from rehearsal_room.harness.policies.random_calls import ArgumentDrawer
from rehearsal_room.judge.playback.tool_fuzzing import plausible
from rehearsal_room.scenarios.format import Call, Scenario

_LARGE = 4 * 2**20  # bytes; a smaller database is compared in less than a millisecond
_MOST_S = 120.0  # for all of it
_DRAWN = 3  # calls of each tool
Fact = tuple[str, str | None, str]  # of a call: text, error, digest


class _OtherFact(Exception):
    """A call gave another text, error or digest; the message is its name."""


def is_large(package: Path, databases: Sequence[str]) -> bool:
    """Whether a world's databases are so large at its start that a log is worth a try."""
    paths = [package / "seed" / name for name in databases]
    return sum(path.stat().st_size for path in paths if path.is_file()) >= _LARGE


async def other_with_logs(plain: Scenario, logging: Scenario) -> str:
    """What differs in a world whose databases keep logs, from the same world without; empty:
    nothing. Calls of all tools are made from the start, after a reset, from a fork, and in a second
    lease."""
    with anyio.move_on_after(_MOST_S):
        try:
            calls = await _possible_calls(plain)
            if not calls:
                return "the server's own; no call could be tried with another"
            expected = await _facts(plain, calls)
            found = await _facts(logging, calls, expected[0])
        except _OtherFact as exc:
            return f"the server's own; with a write-ahead log, {exc} did something else"
        except PoolError as exc:
            return f"the server's own; with a write-ahead log, {exc}"
        if found[2] and not expected[2]:
            return f"the server's own; with a write-ahead log, {found[2]}"
        if found[1]:
            return f"the server's own: it sets the mode of {', '.join(found[1])} itself"
        return ""
    return f"the server's own; another one was not tried to the end within {_MOST_S:g} s"


async def _possible_calls(scenario: Scenario) -> list[Call]:
    """The solutions of the tasks, and drawn calls of each tool that the server survives."""
    async with ServerWorldPool() as pool:
        drawer = ArgumentDrawer(Random(0), plausible(await pool.host(scenario)))
        async with pool.lease(scenario) as env:
            drawn = [
                Call(tool.name, drawer.draw(tool.schema))
                for tool in env.tools
                for _ in range(_DRAWN)
            ]
            found = []
            for call in [*(call for task in scenario.tasks for call in task.oracle), *drawn]:
                try:
                    with anyio.fail_after(CALL_S):
                        await env.call(call.name, call.arguments, "")
                    found.append(call)
                except (PoolError, TimeoutError):
                    env.reset()
    return found


async def _facts(
    scenario: Scenario, calls: Sequence[Call], expected: Sequence[Fact] = ()
) -> tuple[list[Fact], Sequence[str], str]:
    """The facts of the calls in each way, the databases without a log at the end, and why a process
    serves no second episode. Raises PoolError, and _OtherFact at the first that is not as expected
    (none: any is right)."""
    facts: list[Fact] = []

    async def make(env: Env, calls: Sequence[Call]) -> None:
        for call in calls:
            result = await env.call(call.name, call.arguments, "")
            facts.append((result.text, result.error, result.digest))
            if expected and facts[-1] != expected[len(facts) - 1]:
                raise _OtherFact(call.name)

    half = len(calls) // 2
    async with ServerWorldPool() as pool:
        await pool.host(scenario)
        async with pool.lease(scenario) as env:
            assert isinstance(env, ServerEnv)
            await make(env, calls)
            assert env.server is not None
            without = env.server.state.without_log
            env.reset()
            await make(env, calls[:half])
            await make(env.fork(), calls[half:])
        async with pool.lease(scenario) as env:
            await make(env, calls)
        return facts, without, pool.why_not_again(scenario)
