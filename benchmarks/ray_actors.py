"""Actors of a Ray cluster: how much of the speed of rollout processes is left.

    python -m benchmarks.ray_actors --runs 3

Compared are one run with `--processes 2` and one with `--processes 2 --engine ray` on a cluster
that is started for it on this machine, in turns; the calls of their world cost 1 ms of CPU each.
Rates are episodes a second from the first start to the last verdict in the log, so starting Ray
does not count. A ratio is that of the runs of one turn. Where Ray is not installed, there are no
figures.
"""

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from benchmarks.processes import rate_with, slow_world
from rehearsal_room.scenarios.distribution import install_command


def measure(folder: Path, runs: int, episodes: int) -> list[Figure]:
    """All figures."""
    slow = (str(slow_world(folder)),)
    processes: list[float] = []
    actors: list[float] = []
    flags = ("--processes", "2")
    for _ in range(runs):
        processes.append(rate_with(folder / "run", slow, episodes, *flags))
        actors.append(rate_with(folder / "run", slow, episodes, *flags, "--engine", "ray"))
    ratios = [one / other for one, other in zip(processes, actors, strict=True)]
    return [
        figure("1 ms calls: --processes 2", "episodes/s", processes),
        figure("1 ms calls: two actors", "episodes/s", actors),
        figure("1 ms calls: --processes 2 ÷ two actors", "", ratios, reach=1 / 0.9),
    ]


@benchmark(__doc__)
@count_option("--episodes", 1000, "Episodes of each run.")
@runs_option(3)
def main(episodes: int, runs: int) -> list[Figure]:
    """The command line."""
    if find_spec("ray") is None:
        print(f"Ray is not installed: {install_command('ray')}", file=sys.stderr)
        return []
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    with tempfile.TemporaryDirectory(prefix="rehearse-") as folder:
        return measure(Path(folder), runs, episodes)


if __name__ == "__main__":
    main()
