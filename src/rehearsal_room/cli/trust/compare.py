"""The commands `compare` and `compare size`: whether a difference is real, and how much is needed
to see one."""

import re
from collections.abc import Sequence
from pathlib import Path

import click

from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.options import JSON, PRICES, console_of, write_json
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal_text import plural, printable
from rehearsal_room.harness.log.outputs import write_output
from rehearsal_room.harness.setup.run_folder import prices_of
from rehearsal_room.judge.failures.reading import kinds_of
from rehearsal_room.judge.statistics.compare_output import comparison_lines, markdown_of
from rehearsal_room.judge.statistics.compared_runs import compare_runs
from rehearsal_room.judge.statistics.outcomes import read_outcomes
from rehearsal_room.judge.statistics.planning import detectable, noise_of, plan
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
@PRICES
@JSON
def compare_command(
    runs: Sequence[Path], output: Path | None, prices: Path | None, json_file: str | None
) -> None:
    """Compare runs with the first one, on the tasks that they share.

    The difference is B's share of completed tasks less A's, task by task; within a task tries with
    the same seed are paired. What else differs between the runs is named: settings, worlds, judges,
    tasks. With more than two runs each interval is wider, so that all of them hold together. The
    exit status is 0 whatever is found.
    """
    if len(runs) < 2:
        raise SettingsError("compare: name two runs or more, as in `rehearse compare A B`")
    if output is not None and not output.absolute().parent.is_dir():
        raise SettingsError(f"--output: {output}: its folder does not exist")
    found = compare_runs(runs, lambda folder: prices_of(folder, prices), kinds_of=kinds_of)
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
    pilot: Path | None,
    json_file: str | None,
) -> None:
    """Compute how many tasks a comparison needs, or which difference N tasks show."""
    if (detect is None) == (tasks is None):
        raise SettingsError("compare size: name either --detect X or --tasks N")
    noise = None
    if pilot is not None:
        noise = noise_of(read_outcomes(pilot))
        if noise is None:
            raise SettingsError(
                f"--pilot: {pilot} has one judged episode of each task; play several (-g 4)"
            )
    console = console_of(json_file)
    if detect is None:
        assert tasks is not None
        detect = detectable(
            tasks, power=power, alpha=alpha, tries=tries, noise=noise, spread=spread**2
        )
        if detect is None:
            raise SettingsError(
                f"--tasks: {plural(tasks, 'task')} cannot show a difference, whatever it is; with "
                f"--alpha {alpha:g} at least {least_tasks(alpha):,} can"
            )
    found = plan(detect, power=power, alpha=alpha, tries=tries, noise=noise, spread=spread**2)
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
