"""How many planted defects the gate of worlds catches, and how many sound worlds it refuses.

    python -m benchmarks.gate_defects --worlds 12 --jobs 2
    python -m benchmarks.gate_defects worlds/outdoor_shop_0001 --table

Every kind of defect is planted once into each bundled world and into some procedural ones (or into
the given packages). The contract of the gate: at least 95 % of the defects are caught, at most 1 %
of the sound worlds are refused.
"""

import argparse
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks.figures import figure, quiet, tell
from benchmarks.worlds import NAMES
from judge.defects.study import Study, render, study
from judge.worlds.generate import generate_worlds
from scenarios.catalogue import find
from scenarios.generate.writing import Order

_REACH_MISSED, _REACH_REFUSED = 5.0, 1.0  # per cent


def measured(options: argparse.Namespace, folder: Path) -> Study:
    """The study of the worlds that the command line names."""
    folders = [Path(path) for path in options.packages]
    if not folders:
        folders = [find(name).path for name in NAMES]
        generate_worlds(Order(seed=options.seed), options.worlds, folder / "worlds", jobs=1)
        folders += sorted(path for path in (folder / "worlds").iterdir() if path.is_dir())
    return study(folders, folder / "planted", seed=options.seed, jobs=options.jobs)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="*", metavar="DIR", help="sound packages: ours")
    parser.add_argument("--worlds", type=int, default=7, help="procedural ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="a row for each kind, and the misses")
    parser.add_argument("--details", type=Path, help="write all of it there, as JSON")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    quiet()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(options, Path(folder))
    if options.table:
        render(found, Console(width=140))
    if options.details is not None:
        options.details.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    planted, caught = found.counts(beyond=True)
    within, within_caught = found.counts(beyond=False)
    kinds = sum(bool(kind.injected) for kind in found.kinds)
    missed = 100 * (1 - caught / planted)
    refused = 100 * len(found.false_alarms) / found.worlds
    tell(
        [
            figure("kinds of defects planted", "", [kinds]),
            figure("defects planted", "", [planted]),
            figure("defects missed", "%", [missed], reach=_REACH_MISSED),
            figure("… of those that a package can show", "%", [100 * (1 - within_caught / within)]),
            figure("sound worlds refused", "%", [refused], reach=_REACH_REFUSED),
        ],
        options.json,
    )


if __name__ == "__main__":
    main()
