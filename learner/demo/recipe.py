"""The recipe of the demonstration: one TOML file (configs/learn-cpu.toml), read strictly."""

from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.learner.core.errors import ConfigError
from rehearsal_room.learner.demo.model import ModelSize
from rehearsal_room.scenarios.files import load_toml


class MicroworldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of micro-worlds, and of their tasks."""

    train: int = 400
    held_out: int = 60
    each: int = 6  # tasks of every kind in a world for training
    each_held_out: int = 2  # the same in a held-out world


class StageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One training run: the kinds of its tasks, and its training file."""

    kinds: tuple[str, ...]  # of tasks, as in "goals-2"
    # learner.config.settings.TrainSettings without model, data.logs and scenarios
    train: dict[str, Any]


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of the whole demonstration."""

    vocab_size: int = 900
    size: ModelSize = ModelSize()
    worlds: MicroworldSettings = MicroworldSettings()
    run: dict[str, Any]  # harness.settings.run.Settings of all runs: history, limits
    clone: StageSettings
    learn: StageSettings
    held_out: tuple[str, ...]  # kinds of tasks that are measured
    pass_at: int = 4  # k of pass@k


def read_recipe(path: Path) -> Recipe:
    """The recipe in a file. Raises ConfigError naming file and field."""
    return load_toml(path, Recipe, error=ConfigError)
