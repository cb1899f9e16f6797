"""`python -m learner.demo RECIPE -o FOLDER [--seeds 0 1 2] [--ablation]`: see learn.py."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from learner.core.errors import LearnerError
from learner.demo.ablation import ablate
from learner.demo.learn import demonstrate, draw
from learner.demo.recipe import Recipe, read_recipe
from learner.demo.rehearse import rehearse


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; gives the exit status."""
    parser = argparse.ArgumentParser(prog="learner.demo", description="The learning demonstration.")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--ablation", action="store_true", help="windows against full histories")
    given = parser.parse_args(arguments)
    console = Console()
    try:
        recipe = read_recipe(given.recipe)
        if given.ablation:
            _ablation(recipe, given.output, given.seeds, console)
        else:
            _demonstration(recipe, given.output, given.seeds, console)
    except (LearnerError, OSError) as exc:
        Console(stderr=True).print(f"error: {exc}", highlight=False, style="red")
        return 2
    return 0


def _demonstration(recipe: Recipe, output: Path, seeds: list[int], console: Console) -> None:
    reports = {}
    for seed in seeds:
        folder = output / f"seed-{seed}"
        reports[folder] = demonstrate(recipe, folder, seed=seed, console=console, verb=rehearse)
        console.print(reports[folder].told(), highlight=False)
    draw(output, reports)


def _ablation(recipe: Recipe, output: Path, seeds: list[int], console: Console) -> None:
    for seed in seeds:
        found = ablate(recipe, output / f"seed-{seed}", seed=seed, console=console, verb=rehearse)
        console.print(found.told(), highlight=False)


if __name__ == "__main__":
    sys.exit(main())
