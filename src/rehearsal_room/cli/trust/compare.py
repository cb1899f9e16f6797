"""The commands `compare` and `compare size`: whether a difference is real, and how much is needed
to see one."""

import re
from pathlib import Path

import click
from rich.console import Console

from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.options import JSON, console_of, write_json
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.judge.statistics.comparison import Comparison, compare
from rehearsal_room.judge.statistics.outcomes import read_outcomes
from rehearsal_room.judge.statistics.planning import noise_of, plan

_SHOWN = 10  # tasks of each kind
_POINTS = re.compile(r"(\d+(?:\.\d+)?) ?(pt|%)?")


@click.command("compare", cls=SectionedCommand)
@click.argument("first", metavar="A", type=click.Path(path_type=Path))
@click.argument("second", metavar="B", type=click.Path(path_type=Path))
@JSON
def compare_command(first: Path, second: Path, json_file: str | None) -> None:
    """Compare two runs on the tasks that they share.

    The difference is B's share of completed tasks less A's, task by task; within a task tries with
    the same seed are paired. The exit status is 0 whatever is found.
    """
    found = compare(read_outcomes(first), read_outcomes(second))
    if found is None:
        raise SettingsError(
            f"{first} and {second} share no task with a verdict: compare runs of the same scenarios"
        )
    render_comparison(found, console_of(json_file))
    write_json(found, json_file)


def render_comparison(found: Comparison, console: Console) -> None:
    """Print a comparison in a few lines."""

    def write(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    low, high = found.interval
    write(
        f"{found.verdict}: {100 * found.delta:+.1f} points, 95 % interval "
        f"{100 * low:+.1f} to {100 * high:+.1f}, p = {found.p:.3g}"
    )
    write(f"{plural(found.tasks, 'shared task')}, {found.paired:,} of them paired by seed")
    if found.tasks < found.least:
        write(
            f"inconclusive: {plural(found.tasks, 'shared task')} cannot show a difference, whatever"
            f" it is; {found.least:,} would do"
        )
    for title, names in (("B does better", found.gained), ("A does better", found.lost)):
        if names:
            more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
            write(f"{title} ({len(names):,}): {', '.join(names[:_SHOWN])}{more}")
    if found.left_out:
        write(f"{plural(found.left_out, 'task')} left out: only one of the runs has a verdict")
    if found.unjudged:
        low, high = found.bounds
        write(
            f"{plural(found.unjudged, 'episode')} without a score; whatever they had been, the "
            f"difference is between {100 * low:+.1f} and {100 * high:+.1f} points"
        )


def _share(context: click.Context, option: click.Parameter, value: str) -> float:
    """A difference such as 3pt, 3% or 0.03, as a share."""
    found = _POINTS.fullmatch(value.strip())
    number = float(found[1]) / (100 if found[2] else 1) if found else 0.0
    if not 0 < number < 1:
        raise SettingsError(
            f"--detect: {value!r} is not a difference (expected for example 3pt, 3% or 0.03)"
        )
    return number


@click.command("size")
@click.option(
    "--detect",
    required=True,
    metavar="X",
    callback=_share,
    help="Difference of two runs to be found: 3pt, 3% or 0.03.",
)
@click.option(
    "--power",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    help="Chance that the difference is found.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0.0, 0.5, min_open=True),
    default=0.05,
    show_default=True,
    help="Chance that a difference is found where there is none.",
)
@click.option(
    "-k",
    "tries",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Episodes of each task in each run.",
)
@click.option(
    "--spread",
    type=click.FloatRange(0.0, 1.0),
    default=0.0,
    show_default=True,
    help="Standard deviation of the tasks' true differences: an agent seldom gains alike on all.",
)
@click.option(
    "--pilot",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Run that shows how much the tries at one task differ; it needs several episodes of a "
    "task (default: an assumption).",
)
@JSON
def size_command(
    detect: float,
    power: float,
    alpha: float,
    tries: int,
    spread: float,
    pilot: Path | None,
    json_file: str | None,
) -> None:
    """Compute how many tasks a comparison of two runs needs."""
    noise = None
    if pilot is not None:
        noise = noise_of(read_outcomes(pilot))
        if noise is None:
            raise SettingsError(
                f"--pilot: {pilot} has one judged episode of each task; play several (-g 4)"
            )
    found = plan(detect, power=power, alpha=alpha, tries=tries, noise=noise, spread=spread**2)
    console = console_of(json_file)
    console.print(
        f"{plural(found.tasks, 'task')} and {plural(found.episodes, 'episode')} in each run find a "
        f"difference of {100 * detect:g} points with power {found.power:.2f}",
        highlight=False,
    )
    console.print(
        f"variance of a try around its task's share: {found.noise:.3f} ({found.source})",
        highlight=False,
    )
    write_json(found, json_file)
