"""The ablation that names the product, in miniature: trained on {windows, full histories} and run
on {windows, full histories}, measured on tasks that need a long memory.

Such a task can be done in two orders; in one of them a window has lost what is needed at the end
(scenarios.drills.tasks). The start is one for both: a clone, under full histories, of oracles that
mostly take that order. Then GRPO trains it twice, once under the recipe's windows and once under
full histories; each agent is measured under both.

AWM's own figures (4B weights, BFCL v3): aligned 64.5, trained on full histories and run on windows
61.9. This is no reproduction of them: the model has a million weights, the tasks are drills.
"""

from pathlib import Path

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
    cells: tuple[Cell, ...]  # the clone's two, then trained on windows, trained on full histories
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
    windows = recipe.play["history"]
    recipe = _on_full_histories(recipe)
    folder.mkdir(parents=True, exist_ok=True)
    demo = Demonstration(recipe, folder, seed=seed, console=console, verb=verb)
    demo.prepare()
    clone = demo.clone()
    agents = {"neither": clone}
    for history in (windows, FULL):
        agents[history] = demo.learn(clone, f"learn-{_word(history)}", history=history)
    found: dict[tuple[str, str], Outcomes] = {}
    cells = []
    for trained, model in agents.items():
        for run in (windows, FULL):
            name = f"{_word(trained)}-on-{_word(run)}"
            play = {"policy": "local", "model": str(model), "history": run}
            found[trained, run], score = demo.measure(name, sampled=False, **play)
            cells.append(Cell(trained, run, score.greedy))
    report = Ablated(
        seed=seed,
        windows=windows,
        cells=tuple(cells),
        mismatch={
            windows: paired(found[FULL, windows], found[windows, windows]),
            FULL: paired(found[windows, FULL], found[FULL, FULL]),
        },
        agreement={one: agreement(folder / f"learn-{_word(one)}") for one in (windows, FULL)},
    )
    data = msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    (folder / "report.json").write_bytes(data)
    return report


def _on_full_histories(recipe: Recipe) -> Recipe:
    """The recipe under full histories, measured on tasks of memory."""
    play = {**recipe.play, "history": FULL}
    return msgspec.structs.replace(recipe, play=play, held_out=(KIND,))


def _word(history: str) -> str:
    """A history policy as part of a file's name."""
    return "windows" if history.startswith("last") else history
