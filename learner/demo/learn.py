"""The learning demonstration: a model that has seen nothing becomes an agent.

    1. worlds        drills of many trades (scenarios.drills); those of five trades are held out
    2. start         a tokenizer of their texts, a small Qwen3 of random weights
    3. cloning       the oracle's episodes are logged in the model's tokens, and `rehearse train`
                     copies them (loss `likelihood`); stopped early
    4. learning      GRPO: rollouts, verdicts by code, updates on exact windows; half of it on tasks
                     that clones hardly ever complete, because the window forgets what is needed
    5. measuring     oracle, start, clone and agent on the same held-out tasks

Everything runs by the same verbs, logs and settings as any other run; their files stay in the
output folder. `report.json` has the figures, `learning.png` and `scores.png` show them.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from learner.core.errors import LearnerError
from learner.demo.demonstration import Demonstration, Verb
from learner.demo.evaluate import Interval, Score, paired
from learner.demo.figures import draw_bars, draw_curves
from learner.demo.recipe import Recipe
from learner.loop.learner import AGREEMENT


class Agreement(msgspec.Struct, frozen=True):
    """The greatest difference between the sampler's and the trainer's log-probability of a token,
    in nats."""

    first: float  # of the first batch: both have the weights that the run begins with
    worst: float  # of all batches


class Learned(msgspec.Struct, frozen=True):
    """What one demonstration came to."""

    seed: int
    weights: int  # of the model
    scores: dict[str, Score]  # oracle, random, cloned, learned
    gain: Interval  # learned over cloned, greedy, on the same tasks
    agreement: Agreement  # of sampler and trainer
    seconds: dict[str, float]  # of each stage

    def told(self) -> str:
        """The report in a few lines."""
        lines = [
            f"{name:8} completed {100 * one.greedy.mean:.1f} % greedily"
            + (f", {100 * one.pass_at.mean:.1f} % in one of {one.tries}" if one.pass_at else "")
            for name, one in self.scores.items()
        ]
        low, high = 100 * self.gain.low, 100 * self.gain.high
        return "\n".join(
            [
                f"seed {self.seed}, {self.weights:,} weights, held-out tasks: "
                f"{self.scores['oracle'].tasks}",
                *lines,
                f"GRPO over cloning: {100 * self.gain.mean:+.1f} points, 95 % [{low:+.1f},"
                f" {high:+.1f}]",
                f"sampler and trainer differ by {self.agreement.first:.1e} nats at most in the"
                f" first batch, by {self.agreement.worst:.1e} in all",
            ]
        )


def demonstrate(
    recipe: Recipe, folder: Path, *, seed: int, console: Console, verb: Verb
) -> Learned:
    """One seed from nothing to the report; its files go below the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    demo = Demonstration(recipe, folder, seed=seed, console=console, verb=verb)
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
    report = Learned(
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
    """How well a training run without staleness agreed. Raises LearnerError where its first batch
    did not: then nothing that was learned can be claimed."""
    found = [float(row["mismatch_max"]) for row in metrics(train) if "mismatch_max" in row]
    if not found or found[0] > AGREEMENT:
        told = f"by {found[0]:.2g}" if found else "nobody knows by how much"
        raise LearnerError(
            f"{train}: log-probabilities of sampler and trainer differ {told}, and may by"
            f" {AGREEMENT:.0e} at most"
        )
    return Agreement(found[0], max(found))


def metrics(train: Path) -> list[dict[str, Any]]:
    """The figures of a training run, batch by batch."""
    lines = (train / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


class _Clock:
    """Seconds of stages that follow each other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def stop(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = now - self._since
        self._since = now


_PANELS = {
    "completed, in training": "pass_rate",
    "completed, held out, greedy": "evaluation/pass_rate",
    "entropy, nats a token": "entropy",
}


def draw(folder: Path, reports: Mapping[Path, Learned]) -> None:
    """The curves of some seeds, given by their folders, and their mean scores."""
    panels = {
        title: {
            f"seed {report.seed}": [
                (row["step"], row[key]) for row in metrics(run / "learn") if key in row
            ]
            for run, report in reports.items()
        }
        for title, key in _PANELS.items()
    }
    draw_curves(folder / "learning.png", panels, x="batches of GRPO")
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


def _mean(intervals: Sequence[Interval]) -> Interval:
    """The mean over seeds, from the least of their lows to the greatest of their highs."""
    return Interval(
        sum(one.mean for one in intervals) / len(intervals),
        min(one.low for one in intervals),
        max(one.high for one in intervals),
    )
