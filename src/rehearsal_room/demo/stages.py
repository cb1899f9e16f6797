"""The stages of one seed: worlds, random weights, cloning, GRPO, measuring.

Each stage is a `rehearse` command, and leaves its settings and its run in the output folder. A
finished stage is not repeated, so an interrupted demonstration can be resumed; a stage of another
recipe is refused.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from rehearsal_room.demo.demonstrators import write_script
from rehearsal_room.demo.model import num_weights, write_start
from rehearsal_room.demo.recipe import DemonstratorSettings, Recipe
from rehearsal_room.demo.rehearse import write_config
from rehearsal_room.demo.results import Score, gain, scores_of
from rehearsal_room.demo.tokenizer import train_tokenizer
from rehearsal_room.demo.worlds import HELD_OUT, Worlds, make, prompt_texts, tasks_of
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.judge.experiments.file import merged
from rehearsal_room.learner.loop.report import REPORT_NAME

_TOKENIZER_WORLDS = 300  # the tokenizer is trained on the texts of at most this many worlds
# Runs a `rehearse` command: its name, its settings file, its output folder.
RunCommand = Callable[[str, Path, Path], None]
# The settings under which completed episodes are cloned.
CLONING: dict[str, Any] = {
    "data": {"completed_only": True, "keep_equal": True},
    "loss": {"policy": "likelihood", "advantage": "reward", "mismatch": "off"},
}


class Demonstration:
    """The stages of one seed, in one folder."""

    def __init__(
        self, recipe: Recipe, folder: Path, *, seed: int, console: Console, command: RunCommand
    ) -> None:
        self.recipe = recipe
        self.folder = folder
        self.seed = seed
        self._console = console
        self._command = command
        self.worlds = Worlds((), {})

    def with_history(self, history: str) -> "Demonstration":
        """The same, with another history window in all runs."""
        recipe = msgspec.structs.replace(self.recipe, run={**self.recipe.run, "history": history})
        return Demonstration(
            recipe, self.folder, seed=self.seed, console=self._console, command=self._command
        )

    def prepare(self) -> int:
        """Make worlds, tokenizer and random weights; returns the number of weights. Raises
        LearnerError for a folder of another recipe."""
        self.report("worlds, tokenizer, random weights")
        self.folder.mkdir(parents=True, exist_ok=True)
        # The settings of runs and trainings are in their own files.
        shared = {"vocab_size", "size", "worlds", "demonstrators", "tries"}
        table = msgspec.to_builtins(self.recipe)
        made = {name: value for name, value in table.items() if name in shared}
        write_config(self.folder / "recipe.toml", {"seed": self.seed, **made})
        self.worlds = make(self.folder / "worlds", self.recipe.worlds, seed=self.seed)
        start = self.folder / "start"
        if (start / "config.json").exists():
            return num_weights(start)
        dialect = dialect_of(self.recipe.run["dialect"], lenient=True)
        prompts, texts = prompt_texts(self.worlds.train[:_TOKENIZER_WORLDS], dialect)
        tokenizer = train_tokenizer(prompts, texts, vocab_size=self.recipe.vocab_size)
        return write_start(start, tokenizer, self.recipe.size, seed=self.seed)

    def clone(self, name: str = "clone") -> Path:
        """Clone the demonstrators' completed attempts; returns the folder of the weights."""
        tasks = tasks_of(self.worlds.train, seed=self.seed)
        start = self.folder / "start"
        shown = self.play(f"{name}-demonstrators", tasks, self.recipe.demonstrators)
        return self.imitate(name, start, shown, self.recipe.clone)

    def play(
        self, name: str, tasks: list[str], settings: DemonstratorSettings, **more: Any
    ) -> Path:
        """Let demonstrators play tasks, logged in the model's tokens; returns the run."""
        script = self.folder / f"{name}.jsonl"
        folders = list(dict.fromkeys(Path(task.rpartition(":")[0]) for task in tasks))
        write_script(script, folders, settings, seed=self.seed)
        tokens = str(self.folder / "start")
        return self.run(name, tasks, policy="scripted", script=str(script), tokens=tokens, **more)

    def imitate(self, name: str, start: Path, run: Path, table: dict[str, Any]) -> Path:
        """Clone the completed episodes of a run; returns the folder of the new weights."""
        shared = ("dialect", "history")
        own = {
            "data": {"logs": [str(run)]},
            "rollouts": {key: self.recipe.run[key] for key in shared},
        }
        return self.train(name, start, merged(merged(table, CLONING), own))

    def learn(self, start: Path, name: str = "learn", **changes: Any) -> Path:
        """Train by GRPO from these weights; returns the folder of the new weights."""
        own = {
            "rollouts": {"scenarios": self.learning_tasks(), **self.recipe.run},
            "evaluation": {"scenarios": self.tasks(HELD_OUT), "temperature": 0.0},
        }
        return self.train(name, start, merged(merged(self.recipe.learn, changes), own))

    def learning_tasks(self) -> list[str]:
        """The tasks of GRPO, in its order."""
        return tasks_of(self.worlds.train, seed=self.seed + 1)

    def tasks(self, *which: str) -> list[str]:
        """The held-out tasks of worlds in which this is new."""
        folders = [folder for one in which for folder in self.worlds.held_out[one]]
        return tasks_of(folders, seed=self.seed)

    def measure(
        self, name: str, *which: str, sampled: bool = True, **settings: Any
    ) -> dict[str, Score]:
        """Measure a model greedily on the held-out tasks of worlds in which this is new, and
        (`sampled`) with several samples where only the words are new."""
        settings = {"policy": "local", **settings}
        greedy = self.run(f"{name}-greedy", self.tasks(*which), temperature=0.0, **settings)
        several = None
        if sampled:
            tries = self.recipe.tries
            tasks = self.tasks(HELD_OUT)
            several = self.run(f"{name}-sampled", tasks, group_size=tries, **settings)
        return scores_of({one: self.worlds.held_out[one] for one in which}, greedy, several)

    def gain(self, before: str, after: str, which: str = HELD_OUT) -> Interval[float]:
        """The gain of one measured model over another, greedily."""
        first, second = (self.folder / f"{name}-greedy" for name in (before, after))
        return gain(first, second, self.worlds.held_out[which])

    def run(self, name: str, tasks: list[str], **settings: Any) -> Path:
        """Make one `rehearse run`; returns its folder."""
        self.report(f"run {name}: {len(tasks)} tasks")
        table = {"scenarios": tasks, "seed": self.seed, **self.recipe.run, **settings}
        folder = self.folder / name
        config = write_config(self.folder / f"{name}.toml", table)
        if not (folder / REPORT_NAME).exists():
            self._command("run", config, folder)
        return folder

    def train(self, name: str, start: Path, table: dict[str, Any]) -> Path:
        """Make one `rehearse train`; returns the folder of its newest weights."""
        self.report(f"train {name}: {table['steps']} batches")
        config = write_config(self.folder / f"{name}.toml", {"model": str(start), **table})
        folder = self.folder / name
        if not (folder / REPORT_NAME).exists():
            self._command("train", config, folder)
        report = json.loads((folder / REPORT_NAME).read_bytes())
        return Path(report["published"])

    def report(self, text: str) -> None:
        """Say what happens now."""
        self._console.print(f"seed {self.seed}: {text}", highlight=False)
