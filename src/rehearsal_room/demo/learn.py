"""The learning demonstration: a model with random weights becomes an agent.

    1. worlds        records in several offices (scenarios.microworlds.offices); trades held out
    2. start         a tokenizer of their texts, a small Qwen3 with random weights
    3. cloning       demonstrators who see what the agent sees play tasks; `rehearse train` copies
                     their completed attempts (loss `likelihood`) until it copies as well as can be
    4. learning      GRPO: rollouts, verdicts by code, updates on exact windows
    5. measuring     start, clone and agent on the same held-out tasks, and in worlds whose
                     structure training never had

Every stage uses the same commands, logs and settings as any other run, and its files stay in the
output folder. `report.json` has the figures, `learning.png` and `scores.png` show them.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from rehearsal_room.demo.figures import Curve, draw_bars, draw_curves
from rehearsal_room.demo.recipe import DemonstratorSettings
from rehearsal_room.demo.results import (
    Agreement,
    CloneLoss,
    Score,
    agreement,
    clone_loss,
    habits_of,
    mixed_groups,
    scores_of,
)
from rehearsal_room.demo.stages import Demonstration
from rehearsal_room.demo.worlds import HELD_OUT
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.learner.core.training_folder import EVALUATIONS, evaluation_name
from rehearsal_room.learner.loop.metrics import read_metrics

_HOW = {"greedy": "greedy", "sampled": "pass@1", "pass_at": "pass@k"}


class DemonstrationReport(msgspec.Struct, frozen=True):
    """The results of one seed."""

    seed: int
    weights: int  # of the model
    clone_loss: CloneLoss
    baselines: dict[str, Interval[float]]  # of policies that need no model, on the held-out tasks
    random: Score  # of the random weights
    # Of clone and agent, by what is new in the worlds.
    cloned: dict[str, Score]
    learned: dict[str, Score]
    gains: dict[str, Interval[float]]  # of learned over cloned, greedy, on the same tasks
    agreement: Agreement  # of sampler and trainer
    seconds: dict[str, float]  # of each stage

    def text(self) -> str:
        """The report in a few lines."""
        loss = self.clone_loss
        lines = [
            f"seed {self.seed}, {self.weights:,} weights; {loss.attempts:,} of {loss.played:,}"
            f" attempts were cloned, at a loss of {loss.loss:.3f} nats an attempt (floor"
            f" {loss.floor:.3f})",
            *(f"{name}: completed {share(one)}" for name, one in self.baselines.items()),
            f"random: {score_text(self.random)}",
        ]
        for which, one in self.cloned.items():
            lines += [
                f"{which} ({one.tasks} tasks)",
                f"  cloned:  {score_text(one)}",
                f"  learned: {score_text(self.learned[which])}",
                f"  gain, greedy: {points(self.gains[which])}",
            ]
        found = self.agreement
        lines.append(
            f"sampler and trainer differ by at most {found.first:.1e} nats in the first batch, and"
            f" by at most {found.worst:.1e} in all batches"
        )
        return "\n".join(lines)


def demonstrate(demo: Demonstration) -> DemonstrationReport:
    """Run the demonstration for one seed."""
    folder = demo.folder
    clock = _Clock()
    weights = demo.prepare()
    clock.stop("preparing")
    clone = demo.clone()
    clock.stop("cloning")
    agent = demo.learn(clone)
    clock.stop("learning")
    kinds = tuple(demo.worlds.held_out)
    random = demo.measure("random", HELD_OUT, sampled=False, model=str(folder / "start"))
    cloned = demo.measure("cloned", *kinds, model=str(clone))
    learned = demo.measure("learned", *kinds, model=str(agent))
    report = DemonstrationReport(
        seed=demo.seed,
        weights=weights,
        clone_loss=clone_loss(folder / "clone-demonstrators", folder / "clone"),
        baselines=_baselines(demo),
        random=random[HELD_OUT],
        cloned=cloned,
        learned=learned,
        gains={which: demo.gain("cloned", "learned", which) for which in kinds},
        agreement=agreement(folder / "learn"),
        seconds=clock.seconds,
    )
    clock.stop("measuring")
    write_json(folder / "report.json", report)
    draw(folder, {folder: report})
    return report


def _baselines(demo: Demonstration) -> dict[str, Interval[float]]:
    """What is completed on the held-out tasks without a model: by saying "Done." at once, by one
    guess, by going round the offices as long as steps last, by the demonstrators, by the oracle."""
    tasks, steps = demo.tasks(HELD_OUT), demo.recipe.run["max_steps"]
    demonstrators = {
        "one guess": DemonstratorSettings(look_up=0.0, finds=1),
        "going round": DemonstratorSettings(look_up=0.0, finds=steps - 2, in_order=1.0),
        "demonstrators": demo.recipe.demonstrators,
    }
    runs = {
        "nothing": demo.run("nothing", tasks, policy="noop"),
        **{
            name: demo.play(name.replace(" ", "-"), tasks, settings)
            for name, settings in demonstrators.items()
        },
        "solution": demo.run("solution", tasks, policy="oracle"),
    }
    worlds = {HELD_OUT: demo.worlds.held_out[HELD_OUT]}
    return {name: scores_of(worlds, run)[HELD_OUT].greedy for name, run in runs.items()}


def write_json(path: Path, report: msgspec.Struct) -> None:
    """Write a report."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def score_text(one: Score) -> str:
    """A score in one line."""
    text = f"greedy {share(one.greedy)}"
    if one.sampled is not None and one.pass_at is not None:
        text += f", sampled {share(one.sampled)}, one of several {share(one.pass_at)}"
    habits = one.habits
    return (
        f"{text}; looks up in {habits.look_ups:.1%}, repeats {habits.repeats:.1%} of"
        f" {habits.misses:,} misses"
    )


def share(one: Interval[float]) -> str:
    """Example: 75.0% [62.1, 84.6]"""
    return f"{one.value:.1%} [{100 * one.lower:.1f}, {100 * one.upper:.1f}]"


def points(one: Interval[float]) -> str:
    """Example: +58.3 points [51.0, 65.7]"""
    return f"{100 * one.value:+.1f} points [{100 * one.lower:+.1f}, {100 * one.upper:+.1f}]"


class _Clock:
    """The seconds of consecutive stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def stop(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = now - self._since
        self._since = now


def draw(folder: Path, reports: Mapping[Path, DemonstrationReport]) -> None:
    """Draw the learning curves of some seeds, given by their folders, and their mean scores."""
    looks_up = any(one.cloned[HELD_OUT].habits.look_ups for one in reports.values())
    habit = "looks up, share" if looks_up else "repeats after a miss, share"
    charts: dict[str, Callable[[Path], Curve]] = {
        "completed, in training": _metric("pass_rate"),
        "completed, held out, greedy": _metric("evaluation/pass_rate"),
        "groups with both outcomes": mixed_groups,
        f"{habit} (held out, greedy)": _habits,
    }
    panels = {
        title: {f"seed {report.seed}": of(run / "learn") for run, report in reports.items()}
        for title, of in charts.items()
    }
    draw_curves(folder / "learning.png", panels, x="batches of GRPO")
    bars: dict[str, dict[str, Interval[float]]] = {}
    for which in next(iter(reports.values())).cloned:
        pairs = [(one.cloned[which], one.learned[which]) for one in reports.values()]
        for how in ("greedy", "sampled", "pass_at"):
            both = [[getattr(one, how) for one in some] for some in zip(*pairs, strict=True)]
            if all(both[0]):
                label = f"{which}\n{_HOW[how]}"
                bars[label] = {"cloned": _mean(both[0]), "learned": _mean(both[1])}
    draw_bars(folder / "scores.png", bars, y="completed, %", title="Tasks of held-out worlds")


def _metric(name: str) -> Callable[[Path], list[tuple[float, float]]]:
    return lambda train: [(row["step"], row[name]) for row in read_metrics(train) if name in row]


def _habits(train: Path) -> list[tuple[float, float]]:
    """By evaluation: the share of look-ups; where no episode looks up, of repeats after a miss."""
    steps = [step for step, _ in _metric("evaluation/pass_rate")(train)]
    habits = [habits_of(train / EVALUATIONS / evaluation_name(int(step))) for step in steps]
    look_up = any(one.look_ups for one in habits)
    return [
        (step, one.look_ups if look_up else one.repeats)
        for step, one in zip(steps, habits, strict=True)
    ]


def _mean(intervals: list[Interval[float]]) -> Interval[float]:
    """The mean over seeds, with the lowest low and the highest high."""
    return Interval(
        sum(one.value for one in intervals) / len(intervals),
        min(one.lower for one in intervals),
        max(one.upper for one in intervals),
    )
