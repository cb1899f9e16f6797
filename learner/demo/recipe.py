"""The recipe of the demonstration: one TOML file (configs/learn-cpu.toml), strictly read."""

from pathlib import Path
from typing import Any

import msgspec

from learner.core.errors import ConfigError
from learner.demo.model import ModelSize
from scenarios.files import load_toml


class WorldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which drills are made."""

    train: int = 400
    held_out: int = 60
    each: int = 6  # tasks of every kind in a drill of training
    each_held_out: int = 2


class StageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One training run: from which kinds of tasks, and with what in its training file."""

    kinds: tuple[str, ...]  # of tasks, as in "goals-2"
    train: dict[
        str, Any
    ]  # learner.config.settings.TrainSettings, without model, data.logs and scenarios


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole demonstration."""

    vocab_size: int = 900
    size: ModelSize = ModelSize()
    worlds: WorldSettings = WorldSettings()
    play: dict[str, Any]  # harness.settings.run.Settings that all runs share: history, limits
    clone: StageSettings
    learn: StageSettings
    held_out: tuple[str, ...]  # kinds of tasks that are measured
    pass_at: int = 4  # tries of pass@k


def read_recipe(path: Path) -> Recipe:
    """The recipe in a file. Raises ConfigError naming file and field."""
    return load_toml(path, Recipe, error=ConfigError)
