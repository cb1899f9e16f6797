"""Run benchmarks one after the other and compare them with the performance contract.

    python -m benchmarks --json figures.json
    python -m benchmarks --quick rollout live

Without a name, all of them run (see docs/performance.md). Each runs in a process
of its own, so that none inherits another's heap. They take minutes. On a machine that does other
work at the same time, their figures are of little use.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from benchmarks.figures import Figure
from benchmarks.options import benchmark

# Benchmark -> the arguments of a quick run.
QUICK = {
    "world_store": ("--worlds", "2000", "--runs", "3"),
    "rollout": ("--runs", "2"),
    "processes": ("--runs", "1", "--episodes", "400"),
    "ray_actors": ("--runs", "1", "--episodes", "400"),
    "mqtt_link": ("--runs", "2", "--events", "20000"),
    "live": ("--episodes", "2000", "--think", "0.2:1"),
    "http_step": ("--runs", "1", "--episodes", "1024"),
    "rate_limits": ("--runs", "1"),
    "admission": ("--every", "8", "--drawn", "6", "--turnovers", "20"),
    "served": ("--runs", "1", "--seconds", "2"),
    "awm_hosting": ("--runs", "1"),
    "mcp_state": ("--runs", "3"),
    "many_scenarios": ("--scenarios", "20"),
    "judging": ("--runs", "2", "--logged", "1024"),
    "gate_defects": ("--worlds", "1"),
    "generating": ("--worlds", "100", "--sample", "20"),
    "viewer": ("--episodes", "5000", "--live", "500", "--runs", "1"),
    "agent_gateway": ("--runs", "1", "--requests", "10"),
    "learner_sharing": ("--runs", "1"),
    "learner_feed": ("--episodes", "256", "--runs", "1"),
    "learner_engine": ("--runs", "1"),
    "learner_idle": ("--steps", "8", "--runs", "1"),
}


def figures_of(name: str, arguments: tuple[str, ...]) -> list[Figure]:
    """Run one benchmark with these arguments; return its figures. Exits when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(path), *arguments]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed with exit status {done.returncode}")
        return msgspec.json.decode(path.read_bytes(), type=list[Figure])


@benchmark(f"{__doc__}\nThe benchmarks: {', '.join(QUICK)}.")
@click.argument("names", nargs=-1, metavar="[NAME]...", type=click.Choice(list(QUICK)))
@click.option("--quick", is_flag=True, help="Measure less and fewer times: rougher figures.")
def main(names: tuple[str, ...], quick: bool) -> list[Figure]:
    """The command line."""
    found: list[Figure] = []
    for name in names or QUICK:
        print(f"{name} …", file=sys.stderr, flush=True)
        found += figures_of(name, QUICK[name] if quick else ())
    return found


if __name__ == "__main__":
    main()
