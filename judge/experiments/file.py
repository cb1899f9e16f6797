"""experiment.toml: arms that differ in one thing, and what they have in common.

    name = "history"
    question = "Is a model better that is trained under the history that it will see?"

    [train]                           # of every arm, as for `rehearse train`; none: no training
    model = "models/start"
    steps = 100
    [train.rollouts]
    scenarios = ["worlds/train"]

    [run]                             # the evaluation of every arm, as for `rehearse run`
    scenarios = ["worlds/held-out"]
    group_size = 4

    [[arm]]
    name = "aligned"
    train.rollouts.history = "last:3"
    run.history = "last:3"

    [[arm]]
    name = "not aligned"
    train.rollouts.history = "full"
    run.history = "last:3"

An arm may judge another arm's episodes again instead of playing its own (`judges = "aligned"`, with
the judge's settings in `judge`).
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.files import convert, parse_toml, read_text


class ArmTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One arm: how it differs."""

    name: Annotated[str, Meta(min_length=1, description="its name, also of its folder")]
    train: Annotated[dict[str, Any], Meta(description="settings of its training")] = {}
    run: Annotated[dict[str, Any], Meta(description="settings of its evaluation")] = {}
    judges: Annotated[str, Meta(description="arm whose episodes it judges again")] = ""
    judge: Annotated[dict[str, Any], Meta(description="settings of that judging")] = {}


class ExperimentFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of experiment.toml."""

    name: Annotated[str, Meta(min_length=1)]
    arm: Annotated[tuple[ArmTable, ...], Meta(min_length=1)]
    question: str = ""
    train: dict[str, Any] = {}
    run: dict[str, Any] = {}


class Arm(msgspec.Struct, frozen=True):
    """One arm with all of its settings."""

    name: str
    train: dict[str, Any]  # empty: nothing is trained
    run: dict[str, Any]
    judges: str
    judge: dict[str, Any]

    @property
    def folder(self) -> str:
        """The name of its folder.

        Example: "not aligned" -> "not-aligned"
        """
        return "-".join("".join(c if c.isalnum() else " " for c in self.name).split()).lower()


def read_experiment(path: Path) -> tuple[ExperimentFile, list[Arm]]:
    """Read an experiment and its arms. Raises SettingsError and PackageError with a sentence that
    names the file and what is wrong."""
    if not path.is_file():
        raise SettingsError(f"{path}: there is no experiment file")
    file = convert(path, parse_toml(path, read_text(path)), ExperimentFile)
    arms = [
        Arm(
            one.name,
            merged(file.train, one.train) if not one.judges else {},
            merged(file.run, one.run),
            one.judges,
            one.judge,
        )
        for one in file.arm
    ]
    _check(path, arms)
    return file, arms


def _check(path: Path, arms: list[Arm]) -> None:
    names: list[str] = []
    folders: set[str] = set()
    for arm in arms:
        if not arm.folder or arm.folder in folders:
            raise SettingsError(f"{path}: two arms have the folder {arm.folder!r}: {arm.name!r}")
        if arm.judges and arm.judges not in names:
            raise SettingsError(
                f"{path}: arm {arm.name!r}: judges: there is no arm {arm.judges!r} before it"
            )
        if not arm.judges and arm.judge:
            raise SettingsError(
                f"{path}: arm {arm.name!r}: judge: is for an arm that judges another one's "
                "episodes; write run.judge"
            )
        names.append(arm.name)
        folders.add(arm.folder)


def merged(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The settings of an arm: its own win, table by table.

    Example: {"a": 1, "t": {"b": 2}} and {"t": {"c": 3}} -> {"a": 1, "t": {"b": 2, "c": 3}}
    """
    found = dict(common)
    for key, value in own.items():
        before = found.get(key)
        both = isinstance(before, dict) and isinstance(value, dict)
        found[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return found
