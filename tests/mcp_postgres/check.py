"""MCP servers of the registries that write to PostgreSQL, as worlds.

    .venv-mcp-postgres/bin/python -m tests.mcp_postgres.check [-n SEQUENCES] [SERVER...]   (run.sh)

For each server: the gate of a package with its task; a solution that also changes another row,
which must be `agent_error`, and whose run must replay; SEQUENCES random sequences of six calls,
each made in a lease, after a reset in it, in another process, and (every fourth) in a fork that
goes on from the middle, whose texts, errors and digests must be equal; and how many episodes a
second there are, one after the other. The table says what was found. Nothing may differ.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import anyio

import rehearsal_room as rr
from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.mcp_worlds.pool import ServerWorldPool
from rehearsal_room.scenarios.format import Scenario, read
from tests.mcp_postgres.cluster import cluster
from tests.mcp_postgres.servers import SERVERS, Server

Facts = list[tuple[str, str | None, str]]
NUM_CALLS = 6


class Repeated(NamedTuple):
    """What the random sequences gave."""

    num_equal: int
    num_states: int  # digests, all together
    num_refused: int  # calls
    num_starts: int  # processes
    why_not_kept: str


def main(names: list[str], sequences: int) -> int:
    """Check and print; the number of servers with a fault."""
    faults = 0
    rows = [
        "| server | gate | false pass | equal | states | refused | processes | kept | resets/s |"
    ]
    rows.append("|---|---|---|---:|---:|---:|---:|---|---:|")
    with cluster() as address, tempfile.TemporaryDirectory() as folder:
        for name in names:
            server = SERVERS[name]
            package = server.write(Path(folder) / name, address)
            gate = gate_of(package)
            label = label_of(package, server)
            scenario = read(package)
            found = anyio.run(repeated, scenario, server, sequences)
            each = anyio.run(resets, scenario, server)
            good = gate == "0 failures" and label == "agent_error"
            faults += not good or found.num_equal < sequences
            columns = (name, gate, label, f"{found.num_equal} of {sequences}", found.num_states)
            columns += (found.num_refused, found.num_starts, found.why_not_kept or "yes")
            rows.append("| " + " | ".join(map(str, (*columns, f"{each:.1f}"))) + " |")
            sys.stderr.write(f"{rows[-1]}\n")
    sys.stdout.write("\n".join(rows) + "\n")
    return faults


def gate_of(package: Path) -> str:
    """What the gate says of a package."""
    done = rehearse("worlds", "check", str(package), "--json", str(package / "gate.json"))
    if done.returncode:
        sys.stderr.write(f"{done.stdout}\n{done.stderr}\n")
        return f"status {done.returncode}"
    return f"{len(json.loads((package / 'gate.json').read_text())['failures'])} failures"


def label_of(package: Path, server: Server) -> str:
    """The label of an episode that does the task, and something else as well."""
    text = (package / "tasks.toml").read_text()
    more = f", {{ name = {json.dumps(server.harm[0])}, arguments = {server.harm[1]} }} ]"
    (package / "tasks.toml").write_text(text.replace(" ]\n", f"{more}\n"))
    run = package.parent / f"{package.name}-run"
    done = rehearse("run", str(package), "-p", "oracle", "-o", str(run))
    replayed = rehearse("replay", str(run))
    (package / "tasks.toml").write_text(text)
    with rr.open_log(run) as log:
        labels = [played.judged[-1].label for played in log.trajectories()]
    if len(labels) != 1 or replayed.returncode:
        sys.stderr.write(f"{done.stdout}\n{done.stderr}\n{replayed.stdout}\n{replayed.stderr}\n")
    return f"{', '.join(labels)}{', replay differs' if replayed.returncode else ''}"


def rehearse(*words: str) -> "subprocess.CompletedProcess[str]":
    """The command line."""
    return subprocess.run(
        [sys.executable, "-m", "rehearsal_room", *words], capture_output=True, text=True
    )


async def repeated(scenario: Scenario, server: Server, sequences: int) -> Repeated:
    """Random sequences, each in four ways."""
    num_equal = num_refused = 0
    digests: set[str] = set()
    async with ServerWorldPool() as pool:
        await pool.host(scenario)
        async with pool.lease(scenario) as env, pool.lease(scenario) as other:
            for seed in range(sequences):
                rng = random.Random(seed)
                calls = [server.random_call(rng) for _ in range(NUM_CALLS)]
                straight = await play(env, calls)
                env.reset()
                first = await play(env, calls[:3])
                fork = env.fork() if seed % 4 == 0 else None
                ways = [first + await play(env, calls[3:]), await play(other, calls)]
                if fork is not None:
                    ways.append(first + await play(fork, calls[3:]))
                    await fork.close()
                for way in ways:
                    if way != straight:
                        show(straight, way, calls)
                num_equal += all(way == straight for way in ways)
                num_refused += sum(error is not None for _, error, _ in straight)
                digests |= {digest for _, _, digest in straight}
                if seed % 20 == 19:
                    sys.stderr.write(f"{num_equal} of {seed + 1} equal\n")
                env.reset()
                other.reset()
        (world,) = pool._worlds.values()
        starts = pool.statistics()["starts"]
        return Repeated(num_equal, len(digests), num_refused, starts, world.renewal.why_not)


async def resets(scenario: Scenario, server: Server) -> float:
    """Episodes a second, one after the other, each of one call that writes."""
    name, arguments = server.write_call
    async with ServerWorldPool() as pool:
        await pool.host(scenario)
        for number in range(24):
            if number == 4:  # the first ones prove that a tool repeats
                began = time.perf_counter()
            async with pool.lease(scenario) as env:
                await env.call(name, arguments, "")
        return 20 / (time.perf_counter() - began)


async def play(env: Env, calls: list[tuple[str, dict[str, Any]]]) -> Facts:
    """Text, error and digest of each call."""
    facts = []
    for name, arguments in calls:
        result = await env.call(name, arguments, "")
        facts.append((result.text, result.error, result.digest))
    return facts


def show(straight: Facts, way: Facts, calls: list[tuple[str, dict[str, Any]]]) -> None:
    """Print the first difference."""
    for call, one, two in zip(calls, straight, way, strict=True):
        if one != two:
            sys.stderr.write(f"{call}\n  {str(one)[:500]}\n  {str(two)[:500]}\n")
            return


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("servers", nargs="*", default=list(SERVERS))
    parser.add_argument("-n", type=int, default=10)
    given = parser.parse_args()
    sys.exit(main(given.servers, given.n))
