"""The command line of the demonstration (learner.demo.learn and learner.demo.ablation).

python -m rehearsal_room.learner.demo RECIPE -o FOLDER [--seeds 0 1 2] [--ablation]
"""

import sys
from pathlib import Path

import click
from rich.console import Console

from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.learner.core.errors import LearnerError
from rehearsal_room.learner.demo.ablation import ablate
from rehearsal_room.learner.demo.learn import demonstrate, draw
from rehearsal_room.learner.demo.recipe import Recipe, read_recipe
from rehearsal_room.learner.demo.rehearse import rehearse


class _DemoCommand(click.Command):
    """A command whose `--seeds` takes several values: `--seeds 0 1 2`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _repeat_flag(args, "--seeds"))


@click.command(cls=_DemoCommand)
@click.argument("recipe_file", metavar="RECIPE", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder for all results."
)
@click.option(
    "--seeds",
    multiple=True,
    type=int,
    default=(0,),
    show_default=True,
    help="Seeds of the runs, as in --seeds 0 1 2.",
)
@click.option("--ablation", is_flag=True, help="Compare training on windows and on full histories.")
def main(recipe_file: Path, output: Path, seeds: tuple[int, ...], ablation: bool) -> None:
    """Train an agent from random weights, without a download, by a recipe (TOML)."""
    console = Terminal()
    try:
        recipe = read_recipe(recipe_file)
        if ablation:
            _ablation(recipe, output, seeds, console)
        else:
            _demonstration(recipe, output, seeds, console)
    except (LearnerError, OSError) as exc:
        Terminal(stderr=True).print(f"error: {exc}", highlight=False, style="red")
        sys.exit(2)


def _demonstration(recipe: Recipe, output: Path, seeds: tuple[int, ...], console: Console) -> None:
    reports = {}
    for seed in seeds:
        folder = output / f"seed-{seed}"
        reports[folder] = demonstrate(recipe, folder, seed=seed, console=console, command=rehearse)
        console.print(reports[folder].text(), highlight=False)
    draw(output, reports)


def _ablation(recipe: Recipe, output: Path, seeds: tuple[int, ...], console: Console) -> None:
    for seed in seeds:
        folder = output / f"seed-{seed}"
        report = ablate(recipe, folder, seed=seed, console=console, command=rehearse)
        console.print(report.text(), highlight=False)


def _repeat_flag(arguments: list[str], flag: str) -> list[str]:
    """Write the flag in front of each of the numbers that follow it, as click needs.

    Example: ["--seeds", "0", "1", "-o", "out"] -> ["--seeds", "0", "--seeds", "1", "-o", "out"]
    """
    found: list[str] = []
    after_flag = False
    for position, argument in enumerate(arguments):
        is_first = position > 0 and arguments[position - 1] == flag
        after_flag = argument == flag or (after_flag and argument.isdecimal())
        if after_flag and argument != flag and not is_first:
            found.append(flag)
        found.append(argument)
    return found


if __name__ == "__main__":
    main(prog_name="rehearsal_room.learner.demo")
