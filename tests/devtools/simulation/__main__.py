"""The command `simulate`: the harness in simulation, over many seeds."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from rehearsal_room.cli.core.options import JSON, console_of, write_json
from rehearsal_room.cli.main import run_command
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.learner.data.trained_content import trained_content
from rehearsal_room.scenarios.catalogue import find, is_trusted
from tests.devtools.simulation import campaign
from tests.devtools.simulation.parts.choices import Deviation
from tests.devtools.simulation.simulated_run import Subject

_MOST_SHRUNK = 3  # failures; each takes some hundred simulations


class SimulatedFailure(msgspec.Struct, frozen=True):
    """A seed with which a promise is broken."""

    seed: int
    invariant: str  # what does not hold, as a sentence
    deviations: tuple[Deviation, ...]  # that it needs; of later failures: all that it took


class SimulateReport(msgspec.Struct, frozen=True):
    """What `rehearse simulate --json` writes."""

    seeds: int
    steps: int  # turns of the event loop, over all seeds
    failures: tuple[SimulatedFailure, ...]


@click.command("simulate")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Number of seeds: each is one run with its faults, deaths and resumes.",
)
@click.option(
    "--first", type=click.IntRange(min=0), default=0, show_default=True, help="First of the seeds."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="One seed; a failing one is shrunk to the deviations that it needs.",
)
@click.option(
    "--world",
    default="shop_support",
    show_default=True,
    metavar="WORLD",
    help="World to play: a bundled one, or a trusted package.",
)
@click.option(
    "-n",
    "--episodes",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Episodes of each run.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: len(os.sched_getaffinity(0)),
    help="Number of parallel processes (default: one a processor).",
)
@JSON
def simulate_command(
    seeds: int,
    first: int,
    seed: int | None,
    world: str,
    episodes: int,
    jobs: int,
    json_file: str | None,
) -> None:
    """Run the harness in simulation, where orders, faults and deaths come from seeds.

    The event loop has a clock of its own, the log lies on a disk in memory, and model, broker and
    workers are stand-ins; everything else is what `rehearse run` uses. After each run and its
    resumes the command checks that nothing was lost, doubled or changed. The same seed gives the
    same run. The exit status is 1 when a promise was broken.
    """
    subject = Subject(_package(world), episodes, trained_content)
    chosen = range(first, first + seeds) if seed is None else range(seed, seed + 1)
    num_steps, failures = _simulate(campaign.failing(chosen, subject, jobs=jobs), len(chosen))
    smallest = [campaign.shrunk(failure, subject) for failure in failures[:_MOST_SHRUNK]]
    report = SimulateReport(
        len(chosen),
        num_steps,
        tuple(
            SimulatedFailure(one.seed, one.faults[0], one.deviations)
            for one in (*smallest, *failures[_MOST_SHRUNK:])
        ),
    )
    _render(report, console_of(json_file))
    write_json(report, json_file)
    if failures:
        sys.exit(1)


def _package(world: str) -> Path:
    """The package of a world whose code may run in this process."""
    scenario = find(world)
    if not is_trusted(scenario):
        raise SettingsError(
            f"--world: {world}: its code runs in sandbox workers only, and a simulation has none; "
            "choose a bundled world or a trusted package"
        )
    return scenario.path


def _simulate(results: Iterable[tuple[int, int, list[Any]]], num_seeds: int) -> tuple[int, Any]:
    """The steps that the seeds took, and their failures."""
    steps, failures, shown = 0, list[Any](), 0
    with ProgressDisplay("seeds", total=num_seeds) as display:
        for done, num_steps, found in results:
            steps, failures = num_steps, failures + found
            for _ in range(done - shown):
                display.advance()
            shown = done
    return steps, failures


def _render(report: SimulateReport, console: Console) -> None:
    for failure in report.failures:
        console.print(f"seed {failure.seed}: {failure.invariant}", highlight=False, markup=False)
        listed = ", ".join(f"{kind} {number}" for kind, number in failure.deviations[:20])
        console.print(f"  needs {listed or 'nothing unusual'}", highlight=False, markup=False)
    failed = plural(len(report.failures), "failure")
    steps = f"{report.steps:,} turns of the event loop"
    console.print(f"{plural(report.seeds, 'seed')}, {steps}, {failed}", highlight=False)


if __name__ == "__main__":
    run_command(simulate_command, "just simulate")
