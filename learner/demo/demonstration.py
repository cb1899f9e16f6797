"""The stages of one seed: worlds, random weights, cloning, GRPO, measuring.

Each stage is a `rehearse` command, and leaves its settings and its run in the output folder. A
finished stage is not repeated, so an interrupted demonstration can be resumed; a stage of another
recipe is refused.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.learner.demo import microworlds
from rehearsal_room.learner.demo.evaluate import Outcomes, Score, outcomes, score
from rehearsal_room.learner.demo.model import num_weights, write_start
from rehearsal_room.learner.demo.recipe import Recipe
from rehearsal_room.learner.demo.rehearse import write_config
from rehearsal_room.learner.demo.tokenizer import train_tokenizer
from rehearsal_room.learner.loop.report import REPORT_NAME

_TOKENIZER_WORLDS = 300  # the tokenizer is trained on the texts of at most this many worlds
# Runs a `rehearse` command: its name, its settings file, its output folder.
RunCommand = Callable[[str, Path, Path], None]


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
        self.worlds = microworlds.MicroWorlds((), ())

    def prepare(self) -> int:
        """Make worlds, tokenizer and random weights; returns the number of weights."""
        self._report("worlds, tokenizer, random weights")
        self.worlds = microworlds.make(self.folder / "worlds", self.recipe.worlds, seed=self.seed)
        dialect = dialect_of(self.recipe.run["dialect"], lenient=True)
        prompts, texts = microworlds.prompt_texts(self.worlds.train[:_TOKENIZER_WORLDS], dialect)
        if (self.folder / "start" / "config.json").exists():
            return num_weights(self.folder / "start")
        tokenizer = train_tokenizer(prompts, texts, vocab_size=self.recipe.vocab_size)
        return write_start(self.folder / "start", tokenizer, self.recipe.size, seed=self.seed)

    def clone(self, name: str = "clone") -> Path:
        """Clone the oracle; returns the folder of the weights."""
        stage = self.recipe.clone
        tasks = microworlds.tasks_of(self.worlds.train, stage.kinds, seed=self.seed)
        oracle = self.run(
            f"{name}-oracle", tasks, policy="oracle", tokens=str(self.folder / "start")
        )
        own = _merge(
            stage.train,
            {
                "data": {"logs": [str(oracle)], "keep_equal": True},
                "loss": {"policy": "likelihood", "advantage": "reward", "mismatch": "off"},
                "rollouts": self._shared("max_tokens", "concurrency"),
            },
        )
        return self._train(name, self.folder / "start", own)

    def learn(self, start: Path, name: str = "learn") -> Path:
        """Train by GRPO from these weights; returns the folder of the new weights."""
        stage = self.recipe.learn
        tasks = microworlds.tasks_of(self.worlds.train, stage.kinds, seed=self.seed + 1)
        held_out = microworlds.tasks_of(self.worlds.held_out, self.recipe.held_out, seed=self.seed)
        own = _merge(
            stage.train,
            {
                "rollouts": {"scenarios": tasks, **self.recipe.run},
                "evaluation": {"scenarios": held_out, "temperature": 0.0},
            },
        )
        return self._train(name, start, own)

    def measure(
        self, name: str, *, sampled: bool = True, **settings: Any
    ) -> tuple[Outcomes, Score]:
        """Measure a policy greedily on the held-out tasks; `sampled`: models also by pass@k."""
        tasks = microworlds.tasks_of(self.worlds.held_out, self.recipe.held_out, seed=self.seed)
        if "model" not in settings:
            found = outcomes(self.run(f"{name}-held-out", tasks, **settings))
            return found, score(found)
        policy: dict[str, Any] = {"policy": "local", **settings}
        greedy = outcomes(self.run(f"{name}-greedy", tasks, temperature=0.0, **policy))
        if not sampled:
            return greedy, score(greedy)
        tries = self.recipe.pass_at
        several = outcomes(self.run(f"{name}-sampled", tasks, group_size=tries, **policy))
        return greedy, score(greedy, several)

    def run(self, name: str, tasks: list[str], **settings: Any) -> Path:
        """Make one `rehearse run`; returns its folder."""
        self._report(f"run {name}: {len(tasks)} tasks")
        table = {"scenarios": tasks, "seed": self.seed, **self.recipe.run, **settings}
        folder = self.folder / name
        config = write_config(self.folder / f"{name}.toml", table)
        if not (folder / REPORT_NAME).exists():
            self._command("run", config, folder)
        return folder

    def _train(self, name: str, start: Path, table: dict[str, Any]) -> Path:
        self._report(f"train {name}: {table['steps']} batches")
        config = write_config(self.folder / f"{name}.toml", {"model": str(start), **table})
        folder = self.folder / name
        if not (folder / REPORT_NAME).exists():
            self._command("train", config, folder)
        report = json.loads((folder / REPORT_NAME).read_bytes())
        return Path(report["published"])

    def _shared(self, *without: str) -> dict[str, Any]:
        """The settings that all runs share, except `without`."""
        return {name: value for name, value in self.recipe.run.items() if name not in without}

    def _report(self, text: str) -> None:
        self._console.print(f"seed {self.seed}: {text}", highlight=False)


def _merge(table: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables, and the tables within them. The values of `other` win."""
    merged = dict(table)
    for name, value in other.items():
        present = merged.get(name)
        is_table = isinstance(present, dict) and isinstance(value, Mapping)
        merged[name] = _merge(present, value) if is_table else value  # type: ignore[arg-type]
    return merged
