"""python -m tests.suites.parity.vitabench.sequences --vita DIR --python FILE [-n 200]

Random sequences of calls in VitaBench's worlds: played straight, in a fork of the middle, and again
in another process, they have the same texts, changes and digests. Prints how long a reset takes,
and what our own figure of the orders is for the calls that make the required ones, and for none.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import anyio

from rehearsal_room.envpool.core.types import Env, ToolResult, ToolSpec
from rehearsal_room.envpool.objects.pool import ObjectPool
from rehearsal_room.envpool.objects.process import ProgramSettings
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.vitabench import VitaBenchData
from tests.suites.parity.vitabench.models import LAST, MADE, required_calls

Calls = list[tuple[str, dict[str, Any]]]
_LENGTH = 12  # calls at most
_SHARE_OF_REAL = 0.5  # of the calls that the task requires


def main() -> int:
    """Play them; returns the exit status."""
    parser = argparse.ArgumentParser(prog="sequences")
    parser.add_argument("--vita", required=True, type=Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    return anyio.run(_play, given)


async def _play(given: argparse.Namespace) -> int:
    data = VitaBenchData(str(given.vita), "vitabench_en")
    settings = ProgramSettings("vitabench", data.options(), given.python)
    worlds = []
    for domain in ("delivery", "instore"):
        path = given.vita / "data" / "vita" / "domains" / domain / "tasks_en.json"
        tasks = {task["id"]: task for task in json.loads(path.read_text(encoding="utf-8"))}
        worlds += [(one, tasks[one.title]) for one in data.scenarios(domain)]
    rng, different, num_calls, num_changed = Random(given.seed), 0, 0, 0
    resets: list[float] = []
    async with ObjectPool(settings) as pool, ObjectPool(settings) as other:
        for number in range(given.n):
            scenario, task = rng.choice(worlds)
            await pool.host(scenario)
            async with pool.lease(scenario) as env:
                calls = _calls(rng, env.tools, task)
                straight = await _made(env, calls)
                end = env.digest
                env.reset()
                middle = rng.randrange(len(calls) + 1)
                first = await _made(env, calls[:middle])
                fork = env.fork()
                await _made(env, [("get_user_all_orders", {}), *_calls(rng, env.tools, task)])
                forked = [*first, *await _made(fork, calls[middle:])]
                same = forked == straight and fork.digest == end
                began = time.perf_counter()
                env.reset()
                await env.call("longitude_latitude_to_distance", {}, "")
                resets.append(time.perf_counter() - began)
            again, digest = await _replayed(other, scenario, calls)
            same &= again == straight and digest == end
            different += not same
            num_calls += len(calls)
            num_changed += sum(bool(one.changes) for one in straight)
            if not same:
                sys.stdout.write(f"{number} {scenario.name}: {calls}\n")
    middle_reset = sorted(resets)[len(resets) // 2]
    sys.stdout.write(
        f"{given.n} sequences, {num_calls} calls, {num_changed} of them changed records, "
        f"{different} sequences differ; a reset and a call {1000 * middle_reset:.2f} ms (median)\n"
    )
    async with ObjectPool(settings) as pool:
        await _ordered(pool, worlds)
    return int(different > 0)


async def _ordered(pool: ObjectPool, worlds: list[tuple[Scenario, dict[str, Any]]]) -> None:
    """Print the shares of the orders, by domain."""
    shares: dict[tuple[str, str], list[float]] = {}
    for scenario, task in worlds:
        await pool.host(scenario)
        made: list[dict[str, Any]] = []
        async with pool.lease(scenario) as env:
            last = "none"
            for name, given in required_calls(task):
                arguments = {key: last if one == LAST else one for key, one in given.items()}
                result = await env.call(name, arguments, "")
                found = MADE.findall(result.text)
                last = found[-1] if found else last
                made.append({"name": name, "arguments": arguments, "text": result.text})
        assert scenario.suite is not None
        for who, calls in (("the required calls", made), ("no call", [])):
            turn = {"calls": calls, "unmade": [], "text": None, "said": None, "user": None}
            findings = await pool.score(scenario, scenario.tasks[0], [turn], broken_off=True)
            share = findings[-1].share
            assert share is not None
            shares.setdefault((scenario.suite.category, who), []).append(share)
    for (domain, who), found in shares.items():
        whole = sum(one == 1.0 for one in found)
        sys.stdout.write(
            f"{domain}, {who}: mean share of the orders {sum(found) / len(found):.3f}, "
            f"all of them in {whole} of {len(found)} tasks\n"
        )


async def _replayed(pool: ObjectPool, scenario: Scenario, calls: Calls) -> Any:
    await pool.host(scenario)
    async with pool.lease(scenario) as env:
        return await _made(env, calls), env.digest


async def _made(env: Env, calls: Calls) -> list[ToolResult]:
    return [await env.call(name, arguments, "") for name, arguments in calls]


def _calls(rng: Random, tools: Any, task: dict[str, Any]) -> Calls:
    """Calls of random tools, many with values of the task, some that fail."""
    values = _values(task["environment"])
    real = required_calls(task)
    found: Calls = []
    for _ in range(rng.randint(1, _LENGTH)):
        if real and rng.random() < _SHARE_OF_REAL:
            found.append(rng.choice(real))
            continue
        tool: ToolSpec = rng.choice(tools)
        properties = tool.schema.get("properties", {})
        found.append((tool.name, {n: _value(rng, n, s, values) for n, s in properties.items()}))
    return found


def _values(value: Any) -> dict[str, list[Any]]:
    """The values of each field in a task's database."""
    found: dict[str, list[Any]] = {}
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            for name, inner in one.items():
                if isinstance(inner, str | int | float):
                    found.setdefault(name, []).append(inner)
                stack.append(inner)
        elif isinstance(one, list):
            stack += one
    return found


def _value(rng: Random, name: str, schema: dict[str, Any], values: dict[str, list[Any]]) -> Any:
    known = values.get(name) or values.get(name.removesuffix("s")) or values.get("name") or ["x"]
    kind = schema.get("type")
    if rng.random() < 0.1:
        return None
    if kind == "array":
        return [rng.choice(known) for _ in range(rng.randint(1, 2))]
    if kind in ("integer", "number"):
        numbers = [one for one in known if isinstance(one, int | float)]
        return rng.choice(numbers) if numbers else rng.randint(1, 3)
    if "time" in name or "date" in name:
        return rng.choice(values["time"]) if "time" in name else values["time"][0][:10]
    return rng.choice(known)


if __name__ == "__main__":
    sys.exit(main())
