"""Measure a run whose model server refuses some requests, against a simulated perfect client.

    python -m benchmarks.rate_limits --episodes 500 --concurrency 256 --refused 0.03

The server is a separate process. It replies after 100 ms and refuses a share of the requests at
once, with status 429 and `Retry-After: 1`. Each run is `rehearse bench` with log, worlds and judge.
The perfect client has the same episodes in the same order, as many at once, and the same refusals,
which are read from the run's log. It takes no time of its own: a reply takes 100 ms, and a refusal
delays its own request by one second and nothing else.

Runs without refusals are measured in turns, against the same client, so that the machine's share of
the ratio can be seen.
"""

import heapq
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.http_step import SCENARIO, model_server, scripts_of
from benchmarks.options import benchmark, count_option, runs_option
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.catalogue import find

LATENCY = 0.1  # seconds of a reply
RETRY_AFTER = 1.0  # seconds; the server's
_REACH = 1.15


class Measured(msgspec.Struct, frozen=True):
    """One run."""

    wall_s: float
    attempts: list[list[int]]  # of each reply of each episode, in the order of the plan

    def perfect_s(self, concurrency: int, *, refusals: bool = True) -> float:
        """The seconds of the perfect client; without `refusals`, as if there had been none."""
        return simulated_s(
            [[LATENCY + refusals * (n - 1) * RETRY_AFTER for n in one] for one in self.attempts],
            concurrency,
        )


def simulated_s(episodes: Sequence[Sequence[float]], concurrency: int) -> float:
    """The seconds in which episodes are played that take so long for each reply; the next one
    begins when one of `concurrency` slots is free.

    Example: [[0.1, 0.1], [0.1], [0.3]] at 2 -> 0.4 (the third one begins after 0.1)
    """
    slots = [0.0] * concurrency
    for replies in episodes:
        heapq.heapreplace(slots, slots[0] + sum(replies))
    return max(slots)


def measured(url: str, episodes: int, concurrency: int) -> Measured:
    """One run of `rehearse bench`, by its report and its log."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [
            *(sys.executable, "-m", "rehearsal_room.cli.main", "bench", SCENARIO, "-p", "openai"),
            *("-m", "instant", "--base-url", url, "-n", str(episodes), "-c", str(concurrency)),
            *("-o", str(run), "--json", str(Path(folder) / "bench.json")),
        ]
        keyless = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        done = subprocess.run(command, capture_output=True, env=keyless)
        if done.returncode != 0:
            raise SystemExit(f"{done.stderr.decode()}\n{' '.join(command)} failed")
        report = msgspec.json.decode((Path(folder) / "bench.json").read_bytes())
        with open_reader(run) as reader:
            played = sorted(reader.trajectories(), key=lambda one: one.episode)
            attempts = [[step.reply.attempts for step in one.steps] for one in played]
    return Measured(report["wall_s"], attempts)


@benchmark(__doc__)
@count_option("--episodes", 500, "Episodes of each run.")
@count_option("--concurrency", 256, "Episodes live at once.")
@click.option("--refused", type=click.FloatRange(0, 1), default=0.03, help="Share of refusals.")
@runs_option(3)
def main(episodes: int, concurrency: int, refused: float, runs: int) -> list[Figure]:
    """The command line."""
    scripts = scripts_of(find(SCENARIO))
    with_refusals, without = [], []
    latency = ("--latency", str(LATENCY))
    for _ in range(runs):
        with model_server(scripts, *latency, "--refused", str(refused)) as url:
            with_refusals.append(measured(url, episodes, concurrency))
        with model_server(scripts, *latency) as url:
            without.append(measured(url, episodes, concurrency))
    perfect = [one.perfect_s(concurrency) for one in with_refusals]
    bare = [one.perfect_s(concurrency, refusals=False) for one in with_refusals]
    share = [
        sum(n - 1 for replies in one.attempts for n in replies)
        / sum(sum(replies) for replies in one.attempts)
        for one in with_refusals
    ]
    ratios = [run.wall_s / best for run, best in zip(with_refusals, perfect, strict=True)]
    return [
        figure("refused requests", "%", [100 * value for value in share]),
        figure("run with refusals", "s", [one.wall_s for one in with_refusals]),
        figure("run without refusals", "s", [one.wall_s for one in without]),
        figure("perfect client with refusals", "s", perfect),
        figure("perfect client, with ÷ without", "", map(float.__truediv__, perfect, bare)),
        figure("run ÷ perfect client", "", ratios, reach=_REACH),
        figure(
            "run ÷ perfect client, without refusals",
            "",
            [one.wall_s / one.perfect_s(concurrency) for one in without],
        ),
    ]


if __name__ == "__main__":
    main()
