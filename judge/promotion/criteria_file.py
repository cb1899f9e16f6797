"""gate.toml: what an agent must reach before it goes on to the next stage.

    name = "shop agent"
    alpha = 0.05                # chance of a wrong verdict of a stage
    power = 0.8                 # chance that a stage that is reached is found to be

    [[stage]]
    name = "staging"
    criteria = ["completed.lower >= 0.80", "pass^4.lower >= 0.6",
                "regression.vs(base) >= -0.02", "p95_calls <= 12"]

Stages are in order: an agent passes one only after those before it.
"""

from pathlib import Path
from typing import Annotated

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.judge.promotion.criteria import Criterion, parse_criterion
from rehearsal_room.scenarios.files import convert, read_text
from rehearsal_room.scenarios.files import parse_toml as _parse_toml


class StageTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[stage]]`."""

    name: Annotated[str, msgspec.Meta(min_length=1, description="its name, as in staging")]
    criteria: Annotated[
        tuple[str, ...], msgspec.Meta(min_length=1, description="what must hold, a text each")
    ]


class CriteriaFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of gate.toml."""

    stage: Annotated[tuple[StageTable, ...], msgspec.Meta(min_length=1)]
    name: str = ""
    alpha: Annotated[float, msgspec.Meta(gt=0, lt=0.5)] = 0.05
    power: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.8


class PromotionStage(msgspec.Struct, frozen=True):
    """One stage with its criteria, read."""

    name: str
    criteria: tuple[Criterion, ...]


class PromotionCriteria(msgspec.Struct, frozen=True):
    """A criteria file, read."""

    name: str
    alpha: float
    power: float
    stages: tuple[PromotionStage, ...]

    @property
    def compares(self) -> bool:
        """Whether a criterion compares with the base run."""
        return any(one.compares for stage in self.stages for one in stage.criteria)

    @property
    def needs_judge(self) -> bool:
        """Whether a criterion is about the judge."""
        return any(one.is_about_judge for stage in self.stages for one in stage.criteria)

    @property
    def counts_calls(self) -> bool:
        """Whether a criterion needs the number of tool calls, for which steps are read."""
        return any(one.counts_calls for stage in self.stages for one in stage.criteria)


def read_criteria(path: Path) -> PromotionCriteria:
    """Read a criteria file. Raises PackageError or SettingsError with a sentence that names the
    file and what is wrong."""
    if not path.is_file():
        raise SettingsError(f"{path}: there is no gate file")
    file = convert(path, _parse_toml(path, read_text(path)), CriteriaFile)
    stages: list[PromotionStage] = []
    for stage in file.stage:
        if stage.name in [one.name for one in stages]:
            raise SettingsError(f"{path}: there are two stages with the name {stage.name!r}")
        try:
            criteria = tuple(map(parse_criterion, stage.criteria))
        except SettingsError as exc:
            raise SettingsError(f"{path}: stage {stage.name!r}: {exc}") from exc
        stages.append(PromotionStage(stage.name, criteria))
    return PromotionCriteria(file.name or path.stem, file.alpha, file.power, tuple(stages))
