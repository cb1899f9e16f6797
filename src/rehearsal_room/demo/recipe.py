"""The recipe of a demonstration: one TOML file (configs/learn-*.toml), read strictly."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rehearsal_room.demo.model import ModelSize
from rehearsal_room.learner.core.errors import ConfigError
from rehearsal_room.scenarios.files import load_toml
from rehearsal_room.scenarios.microworlds.offices import OfficeShape

_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=1)]


class WorldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The worlds: how many, and what they are like."""

    train: _Count = 2000
    held_out: _Count = 120  # of the training's shape, and as many of every other shape
    each: _Count = 12  # tasks in a world for training
    each_held_out: _Count = 2
    shape: OfficeShape = OfficeShape()
    others: dict[str, OfficeShape] = {}  # by name: what training never has, measured only


class DemonstratorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the demonstrators do; they see what the agent sees."""

    look_up: _Share = 0.04  # share of the attempts that look the office up
    finds: _Count = 1  # the offices that the others try before they give up
    # Shares of the tries after a miss: the next office of the list, and the same office again. The
    # others take any office.
    in_order: _Share = 0.0
    again: _Share = 0.0

    def __post_init__(self) -> None:
        if self.in_order + self.again > 1:
            raise ValueError("in_order and again: expected shares that sum to 1 at most")


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of a whole demonstration."""

    vocab_size: int = 900
    size: ModelSize = ModelSize()
    worlds: WorldSettings = WorldSettings()
    demonstrators: DemonstratorSettings = DemonstratorSettings()
    run: dict[str, Any]  # harness.settings.run.Settings of all runs: history, limits
    # learner.config.settings.TrainSettings without model, data.logs and scenarios
    clone: dict[str, Any]
    learn: dict[str, Any]
    tries: _Count = 8  # k of pass@k


def read_recipe(path: Path) -> Recipe:
    """The recipe in a file. Raises ConfigError naming file and field."""
    return load_toml(path, Recipe, error=ConfigError)
