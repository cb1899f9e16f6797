"""The command line of the demonstration (demo.learn, demo.controls and demo.ablation).

python -m rehearsal_room.demo RECIPE -o FOLDER [--seeds 0 1 2] [--controls] [--ablation]
"""

import sys
from pathlib import Path

import click

from rehearsal_room.demo.ablation import ablate
from rehearsal_room.demo.controls import control
from rehearsal_room.demo.learn import demonstrate, draw
from rehearsal_room.demo.recipe import read_recipe
from rehearsal_room.demo.rehearse import rehearse
from rehearsal_room.demo.stages import Demonstration
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.learner.core.errors import LearnerError


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
@click.option("--controls", is_flag=True, help="Train the controls beside the agent.")
@click.option("--ablation", is_flag=True, help="Compare training on windows and on full histories.")
def main(
    recipe_file: Path, output: Path, seeds: tuple[int, ...], controls: bool, ablation: bool
) -> None:
    """Train an agent from random weights, without a download, by a recipe (TOML)."""
    console = Terminal()
    reports = {}
    try:
        recipe = read_recipe(recipe_file)
        for seed in seeds:
            folder = output / f"seed-{seed}"
            demo = Demonstration(recipe, folder, seed=seed, console=console, command=rehearse)
            if controls:
                console.print(control(demo).text(), highlight=False)
            if ablation:
                console.print(ablate(demo).text(), highlight=False)
            if not controls and not ablation:
                reports[folder] = demonstrate(demo)
                console.print(reports[folder].text(), highlight=False)
        if reports:
            draw(output, reports)
    except (LearnerError, OSError) as exc:
        Terminal(stderr=True).print(f"error: {exc}", highlight=False, style="red")
        sys.exit(2)


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
    main(prog_name="rehearsal_room.demo")
