"""Import the trajectories of logged runs, and compare the episodes with those of the runs.

    .venv/bin/python -m tests.integrations.harbor.round_trip RUNS OUTPUT

Calls, results, row changes, digests, answers, endings, labels and rewards are equal. Runs with a
world that the importing command does not find (an AWM record) are imported with an unknown world:
there, calls, results, answers and labels are equal.
"""

import json
import sys
from pathlib import Path
from subprocess import DEVNULL, run
from typing import Any

REHEARSE = str(Path(sys.executable).parent / "rehearse")
_ALWAYS = ("scenario", "task", "instruction", "ending", "answer", "label", "reward", "step_rewards")
_OF_THE_WORLD = ("state_diff", "start_digest", "end_digest", "seed", "history", "dialect")


def main(runs: Path, output: Path) -> None:
    """Import every run; raises AssertionError at the first difference."""
    output.mkdir(parents=True, exist_ok=True)
    total = replayed = 0
    for folder in sorted(one.parent for one in runs.glob("*/trajectories.jsonl")):
        made = output / folder.name
        _rehearse(
            "import",
            "atif",
            folder / "trajectories.jsonl",
            "-o",
            made,
            "--json",
            made.with_suffix(".json"),
        )
        _rehearse("export", made, "--to", "jsonl")
        result = json.loads(made.with_suffix(".json").read_bytes())
        unknown = {one["episode"] for one in result["unknown"]}
        before, after = _episodes(folder), _episodes(made)
        assert before.keys() == after.keys()
        for name, episode in before.items():
            _compare(episode, after[name], is_known=name not in unknown)
        total += len(before)
        replayed += result["replayed"]
        sys.stdout.write(
            f"{folder.name}: {len(before)} episodes equal, {result['replayed']} played again\n"
        )
    sys.stdout.write(f"{total} episodes imported, {replayed} played again in their world\n")


def _rehearse(*words: object) -> None:
    run([REHEARSE, *map(str, words)], stdout=DEVNULL, check=True)


def _episodes(folder: Path) -> dict[str, Any]:
    lines = (folder / "episodes.jsonl").read_text().splitlines()
    return {one["episode"]: one for one in map(json.loads, lines)}


def _compare(before: dict[str, Any], after: dict[str, Any], *, is_known: bool) -> None:
    what = before["episode"]
    if not is_known:
        before, after = before | {"task": ""}, after | {"task": ""}
    for field in (*_ALWAYS, *(_OF_THE_WORLD if is_known else ())):
        assert before[field] == after[field], (what, field, before[field], after[field])
    assert _calls(before) == _calls(after), what


def _calls(episode: dict[str, Any]) -> list[Any]:
    return [
        (step["text"], step["calls"], step["results"], step["format_error"], step["user"])
        for step in episode["steps"]
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
