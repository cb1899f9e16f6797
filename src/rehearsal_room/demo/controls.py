"""Controls: what else could have made the agent better, each with as many episodes as GRPO.

more cloning          the demonstrators' attempts again
one round             samples of the clone, of which the completed ones are cloned
                      (rejection sampling, once)
shuffled rewards      GRPO, but the rewards of each group are dealt out at random
live rejection        rejection sampling of the newest weights, batch by batch. It is
                      reinforcement learning, too: without a baseline, and only from successes
"""

from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.demo.figures import draw_bars
from rehearsal_room.demo.learn import points, score_text, write_json
from rehearsal_room.demo.results import Score
from rehearsal_room.demo.stages import CLONING, Demonstration
from rehearsal_room.demo.worlds import HELD_OUT
from rehearsal_room.harness.outcomes.intervals import Interval


class ControlReport(msgspec.Struct, frozen=True):
    """The results of one seed on the held-out tasks: of the clone, the controls and the agent."""

    seed: int
    scores: dict[str, Score]
    gains: dict[str, Interval[float]]  # over the clone, greedy, on the same tasks

    def text(self) -> str:
        """The report in a few lines."""
        lines = [f"seed {self.seed}"]
        for name, one in self.scores.items():
            gain = f"; {points(self.gains[name])}" if name in self.gains else ""
            lines.append(f"{name}: {score_text(one)}{gain}")
        return "\n".join(lines)


def control(demo: Demonstration) -> ControlReport:
    """Train the controls of one seed beside its agent. If the demonstration has run in the folder,
    its clone and agent are used."""
    demo.prepare()
    clone = demo.clone()
    models = {
        "cloned": clone,
        "more cloning": _more_cloning(demo, clone),
        "one round": _one_round(demo, clone),
        "shuffled rewards": demo.learn(clone, "shuffled-rewards", loss={"shuffle": True}),
        "live rejection": demo.learn(clone, "live-rejection", **CLONING),
        "learned": demo.learn(clone),
    }
    names = {name: name.replace(" ", "-") for name in models}
    # Those of the demonstration are not measured again.
    measured = {
        name: tuple(demo.worlds.held_out) if name in ("cloned", "learned") else (HELD_OUT,)
        for name in models
    }
    report = ControlReport(
        demo.seed,
        {
            name: demo.measure(names[name], *measured[name], model=str(model))[HELD_OUT]
            for name, model in models.items()
        },
        {name: demo.gain("cloned", names[name]) for name in models if name != "cloned"},
    )
    write_json(demo.folder / "controls.json", report)
    bars = {
        name: {"greedy": one.greedy, "sampled": one.sampled or one.greedy}
        for name, one in report.scores.items()
    }
    draw_bars(
        demo.folder / "controls.png", bars, y="completed, %", title="Held-out tasks, by training"
    )
    return report


def _more_cloning(demo: Demonstration, clone: Path) -> Path:
    """The clone, after as many more episodes of the demonstrators as GRPO plays."""
    tries = demo.recipe.learn["rollouts"]["group_size"]
    steps = _num_groups(demo) * tries // demo.recipe.clone["data"]["groups"]
    table = {**demo.recipe.clone, "steps": steps, **_of_grpo(demo, "optimizer")}
    return demo.imitate("more-cloning", clone, demo.folder / "clone-demonstrators", table)


def _one_round(demo: Demonstration, clone: Path) -> Path:
    """The clone, after the completed ones of its own samples."""
    learn = demo.recipe.learn
    samples = demo.run(
        "one-round-samples",
        demo.learning_tasks()[: _num_groups(demo)],
        policy="local",
        model=str(clone),
        group_size=learn["rollouts"]["group_size"],
    )
    table = _of_grpo(demo, "steps", "data", "optimizer", "compute", "save", "metrics")
    # Groups without a completed sample are left out: the others come again.
    table = {**table, "data": {**table["data"], "epochs": 10}}
    return demo.imitate("one-round", clone, samples, table)


def _of_grpo(demo: Demonstration, *names: str) -> dict[str, Any]:
    """These settings of GRPO, as far as the recipe has them."""
    return {name: demo.recipe.learn[name] for name in names if name in demo.recipe.learn}


def _num_groups(demo: Demonstration) -> int:
    learn = demo.recipe.learn
    groups: int = learn["steps"] * learn["data"]["groups"]
    return groups
