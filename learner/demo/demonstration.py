"""One seed's stages: worlds, random weights, cloning, GRPO, measuring. Each leaves its settings and
its run in the output folder, and is a verb that a user has, too. A stage that is there already is
not repeated, so that whoever was stopped goes on; one of another recipe is refused."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.dialects.registry import dialect_of
from learner.demo import microworlds
from learner.demo.evaluate import Outcomes, Score, outcomes, score
from learner.demo.model import num_weights, write_start
from learner.demo.recipe import Recipe
from learner.demo.rehearse import write_config
from learner.demo.tokenizer import trained
from learner.loop.report import REPORT_NAME

_TOKENIZER_WORLDS = 300  # whose texts the tokenizer is trained on, at most
Verb = Callable[[str, Path, Path], None]  # runs a verb with these settings into a folder


class Demonstration:
    """One seed's stages, in one folder."""

    def __init__(
        self, recipe: Recipe, folder: Path, *, seed: int, console: Console, verb: Verb
    ) -> None:
        self.recipe = recipe
        self.folder = folder
        self.seed = seed
        self._console = console
        self._verb = verb
        self.drills = microworlds.Drills((), ())

    def prepare(self) -> int:
        """Worlds, tokenizer and random weights; gives the number of weights."""
        self._say("worlds, tokenizer, random weights")
        self.drills = microworlds.make(self.folder / "worlds", self.recipe.worlds, seed=self.seed)
        dialect = dialect_of(self.recipe.play["dialect"], lenient=True)
        prompts, texts = microworlds.prompt_texts(self.drills.train[:_TOKENIZER_WORLDS], dialect)
        if (self.folder / "start" / "config.json").exists():
            return num_weights(self.folder / "start")
        tokenizer = trained(prompts, texts, vocab_size=self.recipe.vocab_size)
        return write_start(self.folder / "start", tokenizer, self.recipe.size, seed=self.seed)

    def clone(self, name: str = "clone") -> Path:
        """Copy the oracle; gives the weights' folder."""
        stage = self.recipe.clone
        tasks = microworlds.tasks_of(self.drills.train, stage.kinds, seed=self.seed)
        oracle = self.run(
            f"{name}-oracle", tasks, policy="oracle", tokens=str(self.folder / "start")
        )
        own = _merged(
            stage.train,
            {
                "data": {"logs": [str(oracle)], "keep_equal": True},
                "loss": {"policy": "likelihood", "advantage": "reward", "mismatch": "off"},
                "rollouts": self._shared("max_tokens", "concurrency"),
            },
        )
        return self._train(name, self.folder / "start", own)

    def learn(self, start: Path, name: str = "learn") -> Path:
        """GRPO from these weights; gives the weights' folder."""
        stage = self.recipe.learn
        tasks = microworlds.tasks_of(self.drills.train, stage.kinds, seed=self.seed + 1)
        held_out = microworlds.tasks_of(self.drills.held_out, self.recipe.held_out, seed=self.seed)
        own = _merged(
            stage.train,
            {
                "rollouts": {"scenarios": tasks, **self.recipe.play},
                "evaluation": {"scenarios": held_out, "temperature": 0.0},
            },
        )
        return self._train(name, start, own)

    def measure(self, name: str, *, sampled: bool = True, **play: Any) -> tuple[Outcomes, Score]:
        """Greedy on the held-out tasks; of models with `sampled` also their pass@k."""
        tasks = microworlds.tasks_of(self.drills.held_out, self.recipe.held_out, seed=self.seed)
        if "model" not in play:
            found = outcomes(self.run(f"{name}-held-out", tasks, **play))
            return found, score(found)
        policy: dict[str, Any] = {"policy": "local", **play}
        greedy = outcomes(self.run(f"{name}-greedy", tasks, temperature=0.0, **policy))
        if not sampled:
            return greedy, score(greedy)
        tries = self.recipe.pass_at
        several = outcomes(self.run(f"{name}-sampled", tasks, group_size=tries, **policy))
        return greedy, score(greedy, several)

    def run(self, name: str, tasks: list[str], **settings: Any) -> Path:
        """One `rehearse run`; gives its folder."""
        self._say(f"run {name}: {len(tasks)} tasks")
        table = {"scenarios": tasks, "seed": self.seed, **self.recipe.play, **settings}
        folder = self.folder / name
        config = write_config(self.folder / f"{name}.toml", table)
        if not (folder / REPORT_NAME).exists():
            self._verb("run", config, folder)
        return folder

    def _train(self, name: str, start: Path, table: dict[str, Any]) -> Path:
        self._say(f"train {name}: {table['steps']} batches")
        config = write_config(self.folder / f"{name}.toml", {"model": str(start), **table})
        folder = self.folder / name
        if not (folder / REPORT_NAME).exists():
            self._verb("train", config, folder)
        report = json.loads((folder / REPORT_NAME).read_bytes())
        return Path(report["published"])

    def _shared(self, *without: str) -> dict[str, Any]:
        """What all runs share, without some settings."""
        return {name: value for name, value in self.recipe.play.items() if name not in without}

    def _say(self, text: str) -> None:
        self._console.print(f"seed {self.seed}: {text}", highlight=False)


def _merged(table: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two tables as one; the second's values win, tables in both are merged."""
    merged = dict(table)
    for name, value in other.items():
        mine = merged.get(name)
        is_table = isinstance(mine, dict) and isinstance(value, Mapping)
        merged[name] = _merged(mine, value) if is_table else value  # type: ignore[arg-type]
    return merged
