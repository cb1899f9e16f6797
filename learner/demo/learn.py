"""The learning demonstration: a model with random weights becomes an agent.

    1. worlds        micro-worlds of many trades (scenarios.microworlds); five trades are held out
    2. start         a tokenizer of their texts, a small Qwen3 with random weights
    3. cloning       the oracle's episodes are logged in the model's tokens, and `rehearse train`
                     copies them (loss `likelihood`); stopped early
    4. learning      GRPO: rollouts, verdicts by code, updates on exact windows; half of the tasks
                     are ones that clones rarely complete, because the window loses what is needed
    5. measuring     oracle, start, clone and agent on the same held-out tasks

Every stage uses the same commands, logs and settings as any other run, and its files stay in the
output folder. `report.json` has the figures, `learning.png` and `scores.png` show them.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.learner.core.errors import LearnerError
from rehearsal_room.learner.demo.demonstration import Demonstration, RunCommand
from rehearsal_room.learner.demo.evaluate import Score, paired
from rehearsal_room.learner.demo.figures import draw_bars, draw_curves
from rehearsal_room.learner.demo.recipe import Recipe
from rehearsal_room.learner.model.logprob_agreement import MAX_DIFFERENCE


class Agreement(msgspec.Struct, frozen=True):
    """The greatest difference between the log-probabilities of sampler and trainer for a token, in
    nats."""

    first: float  # of the first batch: both have the weights with which the run starts
    worst: float  # of all batches


class DemonstrationReport(msgspec.Struct, frozen=True):
    """The results of one demonstration."""

    seed: int
    weights: int  # of the model
    scores: dict[str, Score]  # oracle, random, cloned, learned
    gain: Interval[float]  # of learned over cloned, greedy, on the same tasks
    agreement: Agreement  # of sampler and trainer
    seconds: dict[str, float]  # of each stage

    def text(self) -> str:
        """The report in a few lines."""
        lines = [
            f"{name:8} completed {100 * one.greedy.value:.1f} % greedily"
            + (f", {100 * one.pass_at.value:.1f} % in one of {one.tries}" if one.pass_at else "")
            for name, one in self.scores.items()
        ]
        low, high = 100 * self.gain.lower, 100 * self.gain.upper
        return "\n".join(
            [
                f"seed {self.seed}, {self.weights:,} weights, held-out tasks: "
                f"{self.scores['oracle'].tasks}",
                *lines,
                f"GRPO over cloning: {100 * self.gain.value:+.1f} points, 95 % [{low:+.1f},"
                f" {high:+.1f}]",
                f"sampler and trainer differ by at most {self.agreement.first:.1e} nats in the"
                f" first batch, and by at most {self.agreement.worst:.1e} in all batches",
            ]
        )


def demonstrate(
    recipe: Recipe, folder: Path, *, seed: int, console: Console, command: RunCommand
) -> DemonstrationReport:
    """Run the demonstration for one seed; its files go below the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    demo = Demonstration(recipe, folder, seed=seed, console=console, command=command)
    clock = _Clock()
    weights = demo.prepare()
    clock.stop("preparing")
    clone = demo.clone()
    clock.stop("cloning")
    agent = demo.learn(clone)
    clock.stop("learning")
    start = folder / "start"
    measured = {
        "oracle": demo.measure("oracle", policy="oracle"),
        "random": demo.measure("random", model=str(start)),
        "cloned": demo.measure("cloned", model=str(clone)),
        "learned": demo.measure("learned", model=str(agent)),
    }
    clock.stop("measuring")
    report = DemonstrationReport(
        seed=seed,
        weights=weights,
        scores={name: found for name, (_, found) in measured.items()},
        gain=paired(measured["cloned"][0], measured["learned"][0]),
        agreement=agreement(folder / "learn"),
        seconds=clock.seconds,
    )
    (folder / "report.json").write_bytes(
        msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    )
    draw(folder, {folder: report})
    return report


def agreement(train: Path) -> Agreement:
    """The agreement of sampler and trainer in a training run without staleness.

    Raises LearnerError if they disagree in the first batch, or if it was not measured: then no
    result can be claimed.
    """
    found = [float(row["mismatch_max"]) for row in metrics(train) if "mismatch_max" in row]
    if not found:
        raise LearnerError(
            f"{train}: the difference between the log-probabilities of sampler and trainer was not"
            " measured"
        )
    if found[0] > MAX_DIFFERENCE:
        raise LearnerError(
            f"{train}: the log-probabilities of sampler and trainer differ by {found[0]:.2g};"
            f" at most {MAX_DIFFERENCE:.0e} is allowed"
        )
    return Agreement(found[0], max(found))


def metrics(train: Path) -> list[dict[str, Any]]:
    """The metrics of a training run, batch by batch."""
    lines = (train / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


class _Clock:
    """The seconds of consecutive stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def stop(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = now - self._since
        self._since = now


_CHARTS = {
    "completed, in training": "pass_rate",
    "completed, held out, greedy": "evaluation/pass_rate",
    "entropy, nats a token": "entropy",
}


def draw(folder: Path, reports: Mapping[Path, DemonstrationReport]) -> None:
    """Draw the learning curves of some seeds, given by their folders, and their mean scores."""
    charts = {
        title: {
            f"seed {report.seed}": [
                (row["step"], row[key]) for row in metrics(run / "learn") if key in row
            ]
            for run, report in reports.items()
        }
        for title, key in _CHARTS.items()
    }
    draw_curves(folder / "learning.png", charts, x="batches of GRPO")
    names = ("random", "cloned", "learned", "oracle")
    bars = {
        "greedy": {
            name: _mean([one.scores[name].greedy for one in reports.values()]) for name in names
        },
        "best of 4": {
            name: _mean(
                [one.scores[name].pass_at or one.scores[name].greedy for one in reports.values()]
            )
            for name in names
        },
    }
    title = "Tasks of held-out worlds"
    draw_bars(folder / "scores.png", bars, y="completed, %", title=title)


def _mean(intervals: Sequence[Interval[float]]) -> Interval[float]:
    """The mean over seeds, with the lowest low and the highest high."""
    return Interval(
        sum(one.value for one in intervals) / len(intervals),
        min(one.lower for one in intervals),
        max(one.upper for one in intervals),
    )
