"""The ablation of aligned windows, in miniature: agents trained on {windows, full histories} and
run on {windows, full histories}, measured on tasks that need a long memory.

Such a task can be done in two orders; in one of them the window has lost what is needed at the end
(scenarios.microworlds.tasks). Each agent is cloned and trained by GRPO under one history window,
from the same random weights, demonstrations and tasks, and is measured under both. If the
demonstration has run in the folder, its agent is the one trained on windows.

AWM's own figures (4B weights, BFCL v3): 64.5 when aligned, 61.9 when trained on full histories and
run on windows. This is not a reproduction of them: the model has a million weights, and the tasks
are those of micro-worlds.
"""

from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.learner.demo.demonstration import Demonstration, RunCommand
from rehearsal_room.learner.demo.evaluate import Outcomes, paired
from rehearsal_room.learner.demo.learn import Agreement, agreement
from rehearsal_room.learner.demo.recipe import Recipe

FULL = "full"
KIND = "memory"


class AblationCell(msgspec.Struct, frozen=True):
    """The result of one agent under one history window, sampled greedily."""

    trained: str
    run: str
    completed: Interval[float]


class AblationReport(msgspec.Struct, frozen=True):
    """The results of one seed."""

    seed: int
    windows: str  # the history window with windows, as in last:3
    cells: tuple[
        AblationCell, ...
    ]  # trained on windows, run on windows and full; then trained on full
    mismatch: dict[str, Interval[float]]  # the gain of the aligned agent, by the history of the run
    agreement: dict[str, Agreement]  # of sampler and trainer, by the trained history

    def text(self) -> str:
        """The report in a few lines."""
        lines = [
            f"trained on {cell.trained:7} run on {cell.run:7} {100 * cell.completed.value:5.1f} %"
            f" [{100 * cell.completed.lower:.1f}, {100 * cell.completed.upper:.1f}]"
            for cell in self.cells
        ]
        gains = [
            f"run on {run}: aligned is {100 * gain.value:+.1f} points better, 95 %"
            f" [{100 * gain.lower:+.1f}, {100 * gain.upper:+.1f}]"
            for run, gain in self.mismatch.items()
        ]
        return "\n".join([f"seed {self.seed}", *lines, *gains])


def ablate(
    recipe: Recipe, folder: Path, *, seed: int, console: Console, command: RunCommand
) -> AblationReport:
    """Run the 2 x 2 comparison of one seed; its files go below the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    windows = recipe.run["history"]

    def demonstration(**changes: Any) -> Demonstration:
        changed = msgspec.structs.replace(recipe, **changes)
        demo = Demonstration(changed, folder, seed=seed, console=console, command=command)
        demo.prepare()
        return demo

    agents = {}
    for history, suffix in ((windows, ""), (FULL, "-full")):
        demo = demonstration(run={**recipe.run, "history": history})
        agents[history] = demo.learn(demo.clone(f"clone{suffix}"), f"learn{suffix}")
    measuring = demonstration(held_out=(KIND,))
    found: dict[tuple[str, str], Outcomes] = {}
    cells = []
    for trained, model in agents.items():
        for history in agents:
            name = f"{_label(trained)}-on-{_label(history)}"
            measured = measuring.measure(name, sampled=False, model=str(model), history=history)
            found[trained, history], score = measured
            cells.append(AblationCell(trained, history, score.greedy))
    report = AblationReport(
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


def _label(history: str) -> str:
    """A history window as part of a file's name."""
    return history if history == FULL else "windows"
