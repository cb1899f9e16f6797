"""The commands `compare` and `compare size`: whether a difference is real, and how much is needed
to see one."""

import re
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.options import JSON, PRICES, UNIT, console_of, write_json
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal_text import plural, printable
from rehearsal_room.harness.log.outputs import write_output
from rehearsal_room.harness.outcomes.units import Unit
from rehearsal_room.harness.setup.run_folder import prices_of
from rehearsal_room.judge.failures.reading import kinds_of
from rehearsal_room.judge.statistics.compare_output import comparison_lines, markdown_of
from rehearsal_room.judge.statistics.compared_runs import compare_runs
from rehearsal_room.judge.statistics.outcomes import read_outcomes
from rehearsal_room.judge.statistics.planning import (
    USUAL_NOISE,
    Plan,
    detectable,
    detectable_by,
    noise_of,
    plan,
    plan_worlds,
    world_variance,
)
from rehearsal_room.judge.statistics.sign_flips import least_tasks

_POINTS = re.compile(r"(\d+(?:\.\d+)?) ?(pt|%)?")


@click.command("compare", cls=SectionedCommand)
@click.argument("runs", metavar="A B...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Markdown file of the comparison (default: none).",
)
@UNIT
@PRICES
@JSON
def compare_command(
    runs: Sequence[Path],
    output: Path | None,
    unit: Unit | None,
    prices: Path | None,
    json_file: str | None,
) -> None:
    """Compare runs with the first one, on the tasks that they share.

    The difference is B's share of completed tasks less A's, task by task; within a task tries with
    the same seed are paired. Where the world is the unit (--unit), each world counts once. What
    else differs between the runs is named: settings, worlds, judges, tasks. With more than two runs
    each interval is wider, so that all of them hold together. The exit status is 0 whatever is
    found.
    """
    if len(runs) < 2:
        raise SettingsError("compare: name two runs or more, as in `rehearse compare A B`")
    if output is not None and not output.absolute().parent.is_dir():
        raise SettingsError(f"--output: {output}: its folder does not exist")
    found = compare_runs(
        runs, lambda folder: prices_of(folder, prices), kinds_of=kinds_of, unit=unit
    )
    console = console_of(json_file)
    for line in comparison_lines(found):
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
    if output is not None:
        _write(output, markdown_of(found).encode())
    write_json(found, json_file)


def _write(path: Path, data: bytes) -> None:
    try:
        write_output(path, data)
    except OSError as exc:
        raise SettingsError(f"--output: {path} cannot be written: {exc}") from exc


def _share(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """A difference such as 3pt, 3% or 0.03, as a share; None: it is not given."""
    if value is None:
        return None
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
    metavar="X",
    callback=_share,
    help="Difference of two runs to be found: 3pt, 3% or 0.03.",
)
@click.option(
    "--tasks",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of tasks, in place of --detect: which difference they can show.",
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
    "--tasks-per-world",
    "tasks_each",
    type=click.IntRange(min=1),
    metavar="N",
    help="Make the world the unit: tasks in each; --tasks then counts those of all worlds.",
)
@click.option(
    "--world-spread",
    type=click.FloatRange(0.0, 1.0),
    default=0.0,
    show_default=True,
    help="Standard deviation of the worlds' true differences, with --tasks-per-world.",
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
    detect: float | None,
    tasks: int | None,
    power: float,
    alpha: float,
    tries: int,
    spread: float,
    tasks_each: int | None,
    world_spread: float,
    pilot: Path | None,
    json_file: str | None,
) -> None:
    """Compute how many tasks a comparison needs, or which difference N tasks show.

    With --tasks-per-world the world is the unit, and the answer is a number of worlds.
    """
    if (detect is None) == (tasks is None):
        raise SettingsError("compare size: name either --detect X or --tasks N")
    if world_spread and tasks_each is None:
        raise SettingsError("--world-spread: is for --tasks-per-world, which makes worlds the unit")
    noise = None
    if pilot is not None:
        noise = noise_of(read_outcomes(pilot))
        if noise is None:
            raise SettingsError(
                f"--pilot: {pilot} has one judged episode of each task; play several (-g 4)"
            )
    console = console_of(json_file)
    sizes = _Sizes(
        power=power,
        alpha=alpha,
        tries=tries,
        noise=noise,
        spread=spread**2,
        tasks_each=tasks_each,
        world_spread=world_spread**2,
    )
    found = sizes.plan(sizes.shown_by(tasks or 0) if detect is None else detect)
    worlds = "" if found.worlds is None else f"{plural(found.worlds, 'world')} with "
    console.print(
        f"{worlds}{plural(found.tasks, 'task')} and {plural(found.episodes, 'episode')} in each "
        f"run find a difference of {100 * found.detect:g} points with power {found.power:.2f}",
        highlight=False,
    )
    console.print(
        f"variance of a try around its task's share: {found.noise:.3f} ({found.source})",
        highlight=False,
    )
    write_json(found, json_file)


class _Sizes(msgspec.Struct, frozen=True):
    """What an evaluation's size depends on, as the flags have it; spreads are variances."""

    power: float
    alpha: float
    tries: int
    noise: float | None
    spread: float
    tasks_each: int | None  # None: the task is the unit
    world_spread: float

    def shown_by(self, tasks: int) -> float:
        """The difference that so many tasks show. Raises SettingsError where they show none."""
        if self.tasks_each is None:
            units = plural(tasks, "task")
            found = detectable(
                tasks,
                power=self.power,
                alpha=self.alpha,
                tries=self.tries,
                noise=self.noise,
                spread=self.spread,
            )
        else:
            units = plural(tasks // self.tasks_each, "world")
            variance = world_variance(
                *(self.tasks_each, self.world_spread),
                tries=self.tries,
                noise=USUAL_NOISE if self.noise is None else self.noise,
                spread=self.spread,
            )
            found = detectable_by(
                tasks // self.tasks_each, variance, power=self.power, alpha=self.alpha
            )
        if found is None:
            raise SettingsError(
                f"--tasks: {units} cannot show a difference, whatever it is; with --alpha "
                f"{self.alpha:g} at least {least_tasks(self.alpha):,} can"
            )
        return found

    def plan(self, detect: float) -> Plan:
        """The smallest evaluation that finds a difference."""
        if self.tasks_each is None:
            return plan(
                detect,
                power=self.power,
                alpha=self.alpha,
                tries=self.tries,
                noise=self.noise,
                spread=self.spread,
            )
        return plan_worlds(
            detect,
            tasks_each=self.tasks_each,
            world_spread=self.world_spread,
            power=self.power,
            alpha=self.alpha,
            tries=self.tries,
            noise=self.noise,
            spread=self.spread,
        )
