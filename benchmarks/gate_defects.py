"""Measure how many injected defects the gate catches, and how many sound worlds it refuses.

    python -m benchmarks.gate_defects --worlds 12 --jobs 2
    python -m benchmarks.gate_defects worlds/outdoor_shop_0001 --table

Every kind of defect is injected once into each bundled world and into some procedural ones, or
into the packages DIR. The contract of the gate: at least 95 % of the defects are caught, at most
1 % of the sound worlds are refused.
"""

import tempfile
from pathlib import Path

import click
import msgspec
from rich.console import Console

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option
from benchmarks.worlds import NAMES
from rehearsal_room.authoring.generate import generate_worlds
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.generate.output_folder import GenerationOrder
from tests.devtools.defects.study import Study, render, study

_REACH_MISSED, _REACH_REFUSED = 5.0, 1.0  # per cent


def study_of(
    packages: tuple[Path, ...], folder: Path, *, worlds: int, seed: int, jobs: int
) -> Study:
    """The study of these packages, or of the bundled and some procedural worlds without any."""
    folders = list(packages)
    if not folders:
        folders = [find(name).path for name in NAMES]
        order = GenerationOrder(seed=seed)
        generate_worlds(order, worlds, folder / "worlds", jobs=1)
        folders += sorted(path for path in (folder / "worlds").iterdir() if path.is_dir())
    return study(folders, folder / "injected", seed=seed, jobs=jobs)


def figures(found: Study) -> list[Figure]:
    """The figures of a study."""
    injected, caught = found.counts(beyond=True)
    within, within_caught = found.counts(beyond=False)
    kinds = sum(bool(kind.injected) for kind in found.kinds)
    missed = 100 * (1 - caught / injected)
    missed_within = 100 * (1 - within_caught / within)
    refused = 100 * len(found.false_alarms) / found.worlds
    return [
        figure("kinds of defects injected", "", [kinds]),
        figure("defects injected", "", [injected]),
        figure("defects missed", "%", [missed], reach=_REACH_MISSED),
        figure("… of those that a package can show", "%", [missed_within]),
        figure("sound worlds refused", "%", [refused], reach=_REACH_REFUSED),
    ]


@benchmark(__doc__)
@click.argument(
    "packages",
    nargs=-1,
    metavar="[DIR]...",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@count_option("--worlds", 7, "Procedural worlds beside the bundled ones.")
@click.option("--seed", default=0, help="Seed of the procedural worlds and of the defects.")
@count_option("--jobs", 2, "Worker processes of the gate.")
@click.option("--table", is_flag=True, help="Print a row for each kind of defect, and the misses.")
@click.option(
    "--details",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the whole study to this file as JSON.",
)
def main(
    packages: tuple[Path, ...],
    worlds: int,
    seed: int,
    jobs: int,
    table: bool,
    details: Path | None,
) -> list[Figure]:
    """The command line."""
    with tempfile.TemporaryDirectory() as folder:
        found = study_of(packages, Path(folder), worlds=worlds, seed=seed, jobs=jobs)
    if table:
        render(found, Console(width=140))
    if details is not None:
        details.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    return figures(found)


if __name__ == "__main__":
    main()
