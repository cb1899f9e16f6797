"""The settings file of a training run, and the checks for starting or resuming in its folder."""

from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any

import msgspec
import tomli_w

from rehearsal_room.harness.log.schema import write_atomically
from rehearsal_room.harness.log.writer import LOCK_NAME
from rehearsal_room.harness.settings.fields import fields_of
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.settings.tables import without_none
from rehearsal_room.harness.setup.run_folder import has_episodes
from rehearsal_room.harness.setup.run_trust import marked
from rehearsal_room.learner.config.loader import read_settings
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import CheckpointError, ConfigError
from rehearsal_room.learner.core.training_folder import (
    CHECKPOINTS,
    COPY,
    EVALUATIONS,
    METRICS_NAME,
    OF_A_RUN,
    ROLLOUTS,
    SETTINGS_NAME,
    VERSIONS,
    evaluation_name,
)

# Settings that may differ when a run resumes: how long, how fast, where, and what is kept.
_MAY_CHANGE = frozenset(
    prefix + ".".join(field.path)
    for kind, prefix in ((TrainSettings, ""), (Settings, "rollouts."))
    for field in fields_of(kind)
    if field.may_change
)


def as_toml(settings: TrainSettings) -> bytes:
    """The settings as a training file, from which the same settings can be read."""
    return tomli_w.dumps(without_none(msgspec.to_builtins(settings))).encode()


def require_run(folder: Path) -> None:
    """Raise ConfigError where a folder has no training run that could be resumed."""
    if not (folder / SETTINGS_NAME).exists():
        found = "is empty or holds something else" if folder.exists() else "does not exist"
        raise ConfigError(
            f"{folder}: there is no training run to resume: the folder {found}; leave out --resume"
            " to start one there"
        )


def start_or_resume(folder: Path, settings: TrainSettings, *, resume: bool) -> bool:
    """Start a run in a folder, or resume the one in it; returns whether it starts.

    The folder's train.toml then has these settings. Raises ConfigError when the folder has a run
    already and `resume` is false, or when its settings differ.
    """
    path = folder / SETTINGS_NAME
    starts = not path.exists()
    if not starts and not resume:
        raise ConfigError(
            f"{folder}: a training run already exists there; pass --resume or choose another folder"
        )
    if starts and (found := [name for name in OF_A_RUN if (folder / name).exists()]):
        raise ConfigError(
            f"{folder}: it holds {', '.join(found)} of a training run whose {SETTINGS_NAME} is"
            " missing; put that file back and pass --resume, or choose another folder"
        )
    changed = None if starts else _difference(_read(path), msgspec.to_builtins(settings))
    if changed is not None:
        raise ConfigError(f"{path}: {changed}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, marked(as_toml(settings)))
    except OSError as exc:
        raise ConfigError(f"{folder}: the run's folder cannot be written: {exc}") from exc
    return starts


def remove_leftovers(folder: Path, *, is_new: bool) -> None:
    """Remove the files of a run that failed before it had results: the whole folder if it `is_new`,
    else only the run's files in it."""
    results = (folder / CHECKPOINTS, folder / VERSIONS, folder / EVALUATIONS)
    if any(path.exists() for path in results) or has_episodes(folder / ROLLOUTS):
        return
    if is_new:
        rmtree(folder, ignore_errors=True)
        return
    for name in (SETTINGS_NAME, METRICS_NAME, LOCK_NAME):
        (folder / name).unlink(missing_ok=True)
    for name in (ROLLOUTS, COPY):
        rmtree(folder / name, ignore_errors=True)


def remove_later_evaluations(folder: Path, batches: int) -> None:
    """Remove the evaluations that a run which resumes after `batches` batches will repeat.

    Raises CheckpointError.
    """
    for path in (folder / EVALUATIONS).glob("b*"):
        if path.name > evaluation_name(batches):
            try:
                rmtree(path)
            except OSError as exc:
                raise CheckpointError(f"{path}: cannot be removed: {exc}") from exc


def _read(path: Path) -> Any:
    return msgspec.to_builtins(read_settings(path))


def _difference(before: Any, now: Any, prefix: str = "") -> str | None:
    """The first setting in which a resumed run differs from the stored one."""
    for name in sorted({*before, *now}):
        field = f"{prefix}{name}"
        old, new = before.get(name), now.get(name)
        if old == new or field in _MAY_CHANGE:
            continue
        if isinstance(old or new, Mapping):  # a table that one of them leaves out is empty
            if (changed := _difference(old or {}, new or {}, f"{field}.")) is not None:
                return changed
            continue
        return f"{field}: the run was started with {old!r}, not {new!r}"
    return None
