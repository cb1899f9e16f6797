"""The ablation that names the product, in miniature: trained on {windows, full histories} and run
on {windows, full histories}, measured on tasks that need a long memory.

Such a task can be done in two orders; in one of them a window has lost what is needed at the end
(scenarios.microworlds.tasks). Each agent is cloned and trained by GRPO under one history policy,
from
the same random weights, demonstrations and tasks, and measured under both. In a folder where the
demonstration has run, its agent is the one that is trained on windows.

AWM's own figures (4B weights, BFCL v3): aligned 64.5, trained on full histories and run on windows
61.9. This is no reproduction of them: the model has a million weights, the tasks are drills.
"""

from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from learner.demo.demonstration import Demonstration, Verb
from learner.demo.evaluate import Interval, Outcomes, paired
from learner.demo.learn import Agreement, agreement
from learner.demo.recipe import Recipe

FULL = "full"
KIND = "memory"


class Cell(msgspec.Struct, frozen=True):
    """One agent under one history policy, greedily."""

    trained: str
    run: str
    completed: Interval


class Ablated(msgspec.Struct, frozen=True):
    """What one seed came to."""

    seed: int
    windows: str  # the history policy, as in last:3
    cells: tuple[Cell, ...]  # trained on windows, run on windows and full; then trained on full
    mismatch: dict[str, Interval]  # what a run gains by the history that it was trained on
    agreement: dict[str, Agreement]  # of sampler and trainer, by the history that was trained on

    def told(self) -> str:
        """The report in a few lines."""
        lines = [
            f"trained on {cell.trained:7} run on {cell.run:7} {100 * cell.completed.mean:5.1f} %"
            f" [{100 * cell.completed.low:.1f}, {100 * cell.completed.high:.1f}]"
            for cell in self.cells
        ]
        gains = [
            f"run on {run}: aligned is {100 * gain.mean:+.1f} points better, 95 %"
            f" [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
            for run, gain in self.mismatch.items()
        ]
        return "\n".join([f"seed {self.seed}", *lines, *gains])


def ablate(recipe: Recipe, folder: Path, *, seed: int, console: Console, verb: Verb) -> Ablated:
    """One seed's 2 x 2; its files go below the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    windows = recipe.play["history"]

    def demonstration(**changes: Any) -> Demonstration:
        changed = msgspec.structs.replace(recipe, **changes)
        demo = Demonstration(changed, folder, seed=seed, console=console, verb=verb)
        demo.prepare()
        return demo

    agents = {}
    for history, mark in ((windows, ""), (FULL, "-full")):
        demo = demonstration(play={**recipe.play, "history": history})
        agents[history] = demo.learn(demo.clone(f"clone{mark}"), f"learn{mark}")
    measuring = demonstration(held_out=(KIND,))
    found: dict[tuple[str, str], Outcomes] = {}
    cells = []
    for trained, model in agents.items():
        for run in agents:
            name = f"{_word(trained)}-on-{_word(run)}"
            played = measuring.measure(name, sampled=False, model=str(model), history=run)
            found[trained, run], score = played
            cells.append(Cell(trained, run, score.greedy))
    report = Ablated(
        seed=seed,
        windows=windows,
        cells=tuple(cells),
        mismatch={
            windows: paired(found[FULL, windows], found[windows, windows]),
            FULL: paired(found[windows, FULL], found[FULL, FULL]),
        },
        agreement={
            windows: agreement(folder / "learn"),
            FULL: agreement(folder / "learn-full"),
        },
    )
    data = msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    (folder / "ablation.json").write_bytes(data)
    return report


def _word(history: str) -> str:
    """A history policy as part of a file's name."""
    return history if history == FULL else "windows"
