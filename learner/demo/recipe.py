"""The recipe of the demonstration: one TOML file (configs/learn-cpu.toml), strictly read."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from learner.core.errors import ConfigError
from learner.demo.model import ModelSize
from scenarios.decode_errors import field_of


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
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Recipe)
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: the recipe cannot be read: {exc}") from exc
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path}: not valid TOML: {exc}") from exc
    except msgspec.ValidationError as exc:
        field, fault = field_of(str(exc))
        raise ConfigError(f"{path}: {field}: {fault}" if field else f"{path}: {fault}") from exc
