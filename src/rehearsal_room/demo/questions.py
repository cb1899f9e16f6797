"""AWM's questions in miniature (arXiv:2602.10090), on the worlds of "guess or look up".

    worlds      what do more training worlds add, with equally many updates?
    judges      how wrong may a judge be until training on its verdicts teaches nothing?
    strata      what do easy tasks teach for hard ones, and the other way round?
    interface   the world's tools as they are, or behind `list_tools` and `call_tool`?

Each arm trains by GRPO from the same clone as the demonstration (demo.learn), with equally many
batches, and is measured on the same held-out tasks. An arm differs from the others in one setting.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.console import Console

from rehearsal_room.demo.demonstrators import offices_in
from rehearsal_room.demo.figures import draw_bars
from rehearsal_room.demo.learn import points, score_text, write_json
from rehearsal_room.demo.recipe import Recipe
from rehearsal_room.demo.results import Score
from rehearsal_room.demo.stages import Demonstration, RunCommand
from rehearsal_room.demo.worlds import HELD_OUT, tasks_of
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.learner.core.errors import ConfigError
from rehearsal_room.scenarios.format import read

CLONE = "clone"  # the name of the arm that is not trained any further
_WORLDS = (10, 100, 500, 2000)
_BOTH = (0.05, 0.1, 0.2, 0.4, 0.5)  # shares of errors, of right and of wrong work alike
_ACCEPTED = (0.2, 0.5, 1.0)  # shares of wrong work that is accepted, where all right work is


class Arm(NamedTuple):
    """One arm of a question."""

    name: str
    changes: Mapping[str, Any] = {}  # to the settings of `rehearse train`
    run: Mapping[str, Any] = {}  # to those of all runs, cloning included


class ArmScores(msgspec.Struct, frozen=True):
    """What one arm reached."""

    name: str
    scores: dict[str, Score]  # by what is new in the worlds
    gains: dict[str, Interval[float]]  # greedy, over the arm's clone


class SeedReport(msgspec.Struct, frozen=True):
    """The answer of one seed."""

    arms_of: str  # worlds, judges, strata or interface
    seed: int
    arms: tuple[ArmScores, ...]

    def text(self) -> str:
        """The report in a few lines."""
        lines = [f"{self.arms_of}, seed {self.seed}"]
        for arm in self.arms:
            lines.append(arm.name)
            for which, score in arm.scores.items():
                gain = f"; {points(arm.gains[which])} over its clone" if arm.gains else ""
                lines.append(f"  {which}: {score_text(score)}{gain}")
        return "\n".join(lines)


class MiniatureReport(msgspec.Struct, frozen=True):
    """What `rehearse experiment --json` writes for such a question."""

    arms_of: str
    seeds: tuple[SeedReport, ...]


def _worlds(demo: Demonstration) -> list[Arm]:
    """Equally many groups, of tasks of so many worlds."""
    if len(demo.worlds.train) < _WORLDS[0]:
        raise ConfigError(
            f"worlds.train: the question needs at least {_WORLDS[0]} worlds, found "
            f"{len(demo.worlds.train)}"
        )
    sizes = [size for size in _WORLDS if size <= len(demo.worlds.train)]
    return [
        Arm(
            f"{size:,} worlds",
            _tasks(tasks_of(demo.worlds.train[:size], seed=demo.seed + 1)),
        )
        for size in sizes
    ]


def _judges(demo: Demonstration) -> list[Arm]:
    """Errors in code's verdicts. A hybrid judge is code here: what code proves, no model overrules,
    and it proves every verdict of these worlds."""
    return [
        Arm("code"),
        *(_wrong(f"{share:.0%} of both (J = {1 - 2 * share:g})", share, share) for share in _BOTH),
        *(_wrong(f"{share:.0%} accepted (J = {1 - share:g})", share, 0.0) for share in _ACCEPTED),
    ]


def _wrong(name: str, positives: float, negatives: float) -> Arm:
    changes: dict[str, Any] = {"rollouts": {"judge_errors": f"{positives:g}/{negatives:g}"}}
    if positives == 1:  # all rewards are equal, and a batch without a group would end the run
        changes["data"] = {"keep_equal": True}
    return Arm(name, changes)


def _strata(demo: Demonstration) -> list[Arm]:
    """Tasks of worlds with so many offices. A guess is right once in that many times."""
    found: dict[int, list[str]] = {}
    for folder in demo.worlds.train:
        for task in read(folder).tasks:
            number = len(offices_in(task.instruction))
            found.setdefault(number, []).append(f"{folder}:{task.id}")
    everything = demo.learning_tasks()
    arms = [Arm("all", _tasks(everything))]
    for number, tasks in sorted(found.items()):
        chosen = set(tasks)
        arms.append(Arm(f"{number} offices", _tasks([one for one in everything if one in chosen])))
    return arms


def _interface(demo: Demonstration) -> list[Arm]:
    """A clone for each interface, from attempts of the same demonstrators. Listing the tools is a
    call: it costs a step, and the list stays in view under full histories only."""
    steps = demo.recipe.run["max_steps"] + 1
    run = {"max_steps": steps, "max_tokens": 120, "history": "full"}
    return [
        Arm("native tools", run=run),
        Arm("list_tools, call_tool", run={**run, "dialect": "awm"}),
    ]


def _tasks(tasks: list[str]) -> dict[str, Any]:
    return {"rollouts": {"scenarios": tasks}}


ARMS: Mapping[str, Callable[[Demonstration], Sequence[Arm]]] = {
    "worlds": _worlds,
    "judges": _judges,
    "strata": _strata,
    "interface": _interface,
}


def answer(
    arms_of: str, recipe: Recipe, folder: Path, *, seed: int, console: Console, command: RunCommand
) -> SeedReport:
    """Train and measure the arms of a question for one seed; its files go below the folder. Where
    the demonstration has run there, its clone is used."""
    demo = Demonstration(recipe, folder, seed=seed, console=console, command=command)
    demo.prepare()
    found: list[ArmScores] = []
    for arm in ARMS[arms_of](demo):
        own, suffix = demo, ""
        if arm.run:
            suffix = f"-{_file_name(arm.name)}"
            changed = msgspec.structs.replace(recipe, run={**recipe.run, **arm.run})
            own = Demonstration(
                changed, folder / arms_of / suffix[1:], seed=seed, console=console, command=command
            )
            own.prepare()
        clone = own.clone()
        kinds = tuple(own.worlds.held_out)
        if arm.run or not found:
            cloned = own.measure("cloned", *kinds, model=str(clone))
            found.append(ArmScores(f"{CLONE}{suffix}", cloned, {}))
        name = f"{arms_of}-{_file_name(arm.name)}"
        agent = own.learn(clone, name, **arm.changes)
        learned = own.measure(name, *kinds, model=str(agent))
        gains = {which: own.gain("cloned", name, which) for which in kinds}
        found.append(ArmScores(arm.name, learned, gains))
    report = SeedReport(arms_of, seed, tuple(found))
    write_json(folder / f"{arms_of}.json", report)
    return report


def draw(path: Path, reports: Sequence[SeedReport]) -> None:
    """Bars of what each arm reaches when it samples: the mean over the seeds, with the lowest and
    the highest of them (one seed: its interval)."""
    groups: dict[str, dict[str, Interval[float]]] = {}
    for number, arm in enumerate(reports[0].arms):
        scores = [one.arms[number].scores[HELD_OUT] for one in reports]
        bars: dict[str, list[Interval[float] | None]] = {
            "sampled": [one.sampled for one in scores],
            "greedy": [one.greedy for one in scores],
        }
        groups[arm.name.replace(" (", "\n(")] = {
            name: _over_seeds([one for one in values if one is not None])
            for name, values in bars.items()
        }
    draw_bars(path, groups, y="completed, %", title=f"Held-out worlds: {reports[0].arms_of}")


def _over_seeds(found: Sequence[Interval[float]]) -> Interval[float]:
    if len(found) == 1:
        return found[0]
    values = [one.value for one in found]
    return Interval(sum(values) / len(values), min(values), max(values))


def _file_name(name: str) -> str:
    """Example: "5% of both (J = 0.9)" -> "5-of-both-J-0-9" """
    return "-".join("".join(c if c.isalnum() else " " for c in name).split())
