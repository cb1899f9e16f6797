"""Sinks of metrics besides metrics.jsonl: TensorBoard, Weights & Biases, Trackio.

Only this module uses these packages, and it imports each one when its sink is on. TensorBoard is
on by default, so a missing package is reported once and the run continues; the user turned the
others on, so a missing package is an error. Tested with wandb 0.31 (offline) and trackio 0.43
(local).
"""

from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import msgspec
import structlog

from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import ConfigError

_log = structlog.get_logger(__name__)


class MetricsSink(Protocol):
    """Receives the metrics of steps."""

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write the metrics of a step; steps ascend, and all numbers are finite."""

    def close(self) -> None:
        """Flush and close."""


def open_sinks(folder: Path, settings: TrainSettings, *, after: int) -> list[MetricsSink]:
    """Open the sinks that the settings name, for a run that resumes after step `after` (0: starts).

    Raises ConfigError for a package that is missing and for a sink that cannot be opened; then no
    sink is left open.
    """
    names = settings.metrics
    config = msgspec.to_builtins(settings)
    with ExitStack() as closing:
        sinks: list[MetricsSink] = []
        if names.wandb:
            sinks.append(_wandb(folder, names.wandb, config))
            closing.callback(sinks[-1].close)
        if names.trackio:
            sinks.append(_trackio(folder, names.trackio, config))
            closing.callback(sinks[-1].close)
        if names.tensorboard:
            sinks += _tensorboard(folder, after)
        closing.pop_all()
    return sinks


def _wandb(folder: Path, project: str, config: Any) -> "WandB":
    try:
        package = import_module("wandb")
    except ImportError as exc:
        raise _missing("wandb", project) from exc
    try:
        return WandB(package, folder, project=project, config=config)
    except Exception as exc:  # any failure of a foreign library: accounts, networks
        raise ConfigError(f"metrics.wandb: {project!r} cannot be opened: {exc}") from exc


def _trackio(folder: Path, project: str, config: Any) -> "Trackio":
    try:
        package = import_module("trackio")
    except ImportError as exc:
        raise _missing("trackio", project) from exc
    try:
        return Trackio(package, folder, project=project, config=config)
    except Exception as exc:  # any failure of a foreign library: accounts, networks
        raise ConfigError(f"metrics.trackio: {project!r} cannot be opened: {exc}") from exc


def _tensorboard(folder: Path, after: int) -> list["TensorBoard"]:
    try:
        package = import_module("torch.utils.tensorboard")
    except ImportError:
        _log.warning(
            "tensorboard_is_missing",
            remedy="pip install tensorboard, or set metrics.tensorboard = false",
        )
        return []
    path = folder / "tensorboard"
    try:
        return [TensorBoard(package, path, after=after)]
    except OSError as exc:
        raise ConfigError(f"metrics.tensorboard: {path} cannot be opened: {exc}") from exc


def _missing(package: str, project: str) -> ConfigError:
    return ConfigError(
        f"metrics.{package}: the project {project!r} is set, but the package {package} is missing:"
        f" pip install {package}"
    )


class TensorBoard:
    """Event files in a folder. The reader purges the events of steps that are made again."""

    def __init__(self, package: Any, folder: Path, *, after: int) -> None:
        # A run that starts may have been started before, and have written step 0.
        self._writer = package.SummaryWriter(str(folder), purge_step=after + 1 if after else 0)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandB:
    """A run of Weights & Biases; a resumed run keeps its id.

    W&B's own step counter cannot go back, so the step is logged as a metric, and is the axis of all
    others.
    """

    def __init__(self, package: Any, folder: Path, *, project: str, config: Any) -> None:
        name = _StoredName(folder / "wandb.id")
        self._run = package.init(
            project=project,
            name=folder.name,
            id=name.value,
            resume="allow" if name.value else None,
            dir=str(folder),
            config=config,
        )
        name.store(self._run.id)
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log({**numbers, "step": step})

    def close(self) -> None:
        self._run.finish()


class Trackio:
    """A run of Trackio; a resumed run keeps its name."""

    def __init__(self, package: Any, folder: Path, *, project: str, config: Any) -> None:
        name = _StoredName(folder / "trackio.id")
        self._run = package.init(
            project=project,
            name=name.value or folder.name,
            resume="allow" if name.value else "never",
            config=config,
        )
        name.store(self._run.name)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()


class _StoredName:
    """The run's name or id in a foreign service, stored in a file of the run's folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.value = path.read_text(encoding="utf-8").strip() if path.exists() else None

    def store(self, name: str) -> None:
        self._path.write_text(f"{name}\n", encoding="utf-8")
