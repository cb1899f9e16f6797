"""The ablation of aligned windows, in miniature: agents trained on {windows, full histories} and
run on {windows, full histories}.

Each agent is cloned and trained by GRPO under one history window, from the same random weights and
demonstrators' attempts at the same tasks, and is measured under both. If the demonstration has run
in the folder, its agent is the one trained on windows.

AWM's own figures (4B weights, BFCL v3): 64.5 when aligned, 61.9 when trained on full histories and
run on windows. This is not a reproduction of them: the model has a million weights, and the tasks
are those of micro-worlds.
"""

import msgspec

from rehearsal_room.demo.learn import points, share, write_json
from rehearsal_room.demo.results import Agreement, agreement
from rehearsal_room.demo.stages import Demonstration
from rehearsal_room.demo.worlds import HELD_OUT
from rehearsal_room.harness.outcomes.intervals import Interval

FULL = "full"


class AblationCell(msgspec.Struct, frozen=True):
    """The result of one agent under one history window, sampled greedily."""

    trained: str
    run: str
    completed: Interval[float]


class AblationReport(msgspec.Struct, frozen=True):
    """The results of one seed."""

    seed: int
    windows: str  # the history window with windows, as in last:3
    # Trained on windows, run on windows and full; then trained on full.
    cells: tuple[AblationCell, ...]
    mismatch: dict[str, Interval[float]]  # the gain of the aligned agent, by the history of the run
    agreement: dict[str, Agreement]  # of sampler and trainer, by the trained history

    def text(self) -> str:
        """The report in a few lines."""
        lines = [
            f"trained on {cell.trained:7} run on {cell.run:7} {share(cell.completed)}"
            for cell in self.cells
        ]
        gains = [
            f"run on {run}: the aligned agent is {points(gain)} better"
            for run, gain in self.mismatch.items()
        ]
        return "\n".join([f"seed {self.seed}", *lines, *gains])


def ablate(demo: Demonstration) -> AblationReport:
    """Run the 2 x 2 comparison of one seed."""
    windows = demo.recipe.run["history"]
    cells = []
    agreements = {}
    for history, suffix in ((windows, ""), (FULL, "-full")):
        own = demo.with_history(history)
        own.prepare()
        agent = own.learn(own.clone(f"clone{suffix}"), f"learn{suffix}")
        agreements[history] = agreement(demo.folder / f"learn{suffix}")
        for run in (windows, FULL):
            name = _name(history, run)
            found = own.measure(name, HELD_OUT, sampled=False, model=str(agent), history=run)
            cells.append(AblationCell(history, run, found[HELD_OUT].greedy))
    report = AblationReport(
        seed=demo.seed,
        windows=windows,
        cells=tuple(cells),
        mismatch={
            run: own.gain(_name(other, run), _name(run, run))
            for run, other in ((windows, FULL), (FULL, windows))
        },
        agreement=agreements,
    )
    write_json(demo.folder / "ablation.json", report)
    return report


def _name(trained: str, run: str) -> str:
    """The name of a measured run."""
    labels = ["full" if history == FULL else "windows" for history in (trained, run)]
    return "-on-".join(labels)
