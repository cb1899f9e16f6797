"""What a training run keeps of its settings, and whether it may begin or go on in a folder."""

from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any

import msgspec
import tomli_w

from harness.log.schema import write_atomically
from harness.rollout.launch import has_episodes
from harness.settings.fields import fields_of
from harness.settings.run import Settings
from harness.settings.tables import without_none
from learner.config.loader import read_settings
from learner.config.settings import TrainSettings
from learner.core.errors import CheckpointError, ConfigError
from learner.loop.evaluation import name_of as evaluation_name
from learner.loop.metrics import FILE_NAME

SETTINGS_NAME = "train.toml"
ROLLOUTS = "rollouts"
EVALUATIONS = "evaluations"
VERSIONS = "versions"
CHECKPOINTS = "checkpoints"

# What may differ when a run is resumed: how long, how fast, where, and what is kept.
_MAY_CHANGE = frozenset(
    prefix + ".".join(field.path)
    for kind, prefix in ((TrainSettings, ""), (Settings, "rollouts."))
    for field in fields_of(kind)
    if field.may_change
)


def described(settings: TrainSettings) -> bytes:
    """The settings as a training file, which gives the same settings again."""
    return tomli_w.dumps(without_none(msgspec.to_builtins(settings))).encode()


def begin(folder: Path, settings: TrainSettings, *, resume: bool) -> bool:
    """Begin a run in a folder, or go on with the one that is there; gives whether it begins.

    The folder then has these settings. Raises ConfigError where there is a run already, or one of
    other settings.
    """
    path = folder / SETTINGS_NAME
    begins = not path.exists()
    if not begins and not resume:
        raise ConfigError(
            f"{folder}: there is a training run already; --resume goes on, or name another"
        )
    changed = None if begins else _difference(_read(path), msgspec.to_builtins(settings))
    if changed is not None:
        raise ConfigError(f"{path}: {changed}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, described(settings))
    except OSError as exc:
        raise ConfigError(f"{folder}: the run's folder cannot be written: {exc}") from exc
    return begins


def forget(folder: Path, *, is_new: bool) -> None:
    """Remove what a run wrote that failed before there was anything to keep: its folder, if that
    `is_new`, else the files in it."""
    kept = (folder / CHECKPOINTS, folder / VERSIONS, folder / EVALUATIONS)
    if any(path.exists() for path in kept) or has_episodes(folder / ROLLOUTS):
        return
    if is_new:
        rmtree(folder, ignore_errors=True)
        return
    for name in (SETTINGS_NAME, FILE_NAME):
        (folder / name).unlink(missing_ok=True)
    rmtree(folder / ROLLOUTS, ignore_errors=True)


def forget_after(folder: Path, batches: int) -> None:
    """Remove the evaluations that a run which goes on after so many batches will make anew.

    Raises CheckpointError.
    """
    for path in (folder / EVALUATIONS).glob("b*"):
        if path.name > evaluation_name(batches):
            try:
                rmtree(path)
            except OSError as exc:
                raise CheckpointError(f"{path}: it cannot be removed: {exc}") from exc


def _read(path: Path) -> Any:
    return msgspec.to_builtins(read_settings(path))


def _difference(before: Any, now: Any, prefix: str = "") -> str | None:
    """The first setting in which a run that is resumed differs from the run that began."""
    for name in sorted({*before, *now}):
        field = f"{prefix}{name}"
        old, new = before.get(name), now.get(name)
        if old == new or field in _MAY_CHANGE:
            continue
        if isinstance(old or new, Mapping):  # a table that one of them leaves out is empty
            if (changed := _difference(old or {}, new or {}, f"{field}.")) is not None:
                return changed
            continue
        return f"{field}: the run began with {old!r}, not {new!r}"
    return None
