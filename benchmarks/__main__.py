"""All benchmarks, one after the other, held against the performance contract (docs/performance.md).

    python -m benchmarks --json figures.json
    python -m benchmarks --quick rollout live

Each runs in a process of its own, so that none inherits another's heap. They take minutes; on a
machine that does something else beside them they say little.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from benchmarks.figures import Figure, tell

NAMES = (
    *("world_store", "rollout", "live", "http_step", "served", "awm_hosting"),
    *("judging", "gate_defects", "generating"),
    *("learner_sharing", "learner_feed", "learner_engine", "learner_idle"),
)
_QUICK = {
    "world_store": ("--worlds", "2000", "--runs", "3"),
    "rollout": ("--runs", "2"),
    "live": ("--episodes", "2000", "--think", "0.2:1"),
    "http_step": ("--runs", "1", "--episodes", "1024"),
    "served": ("--runs", "1", "--seconds", "2"),
    "awm_hosting": ("--runs", "1"),
    "judging": ("--runs", "2", "--logged", "1024"),
    "gate_defects": ("--worlds", "1"),
    "generating": ("--worlds", "100", "--sample", "20"),
    "learner_sharing": ("--runs", "1"),
    "learner_feed": ("--episodes", "256", "--runs", "1"),
    "learner_engine": ("--runs", "1"),
    "learner_idle": ("--steps", "8", "--runs", "1"),
}


def figures_of(name: str, given: tuple[str, ...]) -> list[Figure]:
    """The figures of one benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(path), *given]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
        return msgspec.json.decode(path.read_bytes(), type=list[Figure])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}: all")
    parser.add_argument("--quick", action="store_true", help="smaller and rougher")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no benchmark {min(unknown)!r}; there are {', '.join(NAMES)}")
    found: list[Figure] = []
    for name in options.names or NAMES:
        print(f"{name} …", file=sys.stderr, flush=True)
        found += figures_of(name, _QUICK[name] if options.quick else ())
    tell(found, options.json)


if __name__ == "__main__":
    main()
