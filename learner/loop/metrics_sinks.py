"""Where figures go besides metrics.jsonl: TensorBoard, Weights & Biases, Trackio.

Each package is known here only and asked for when it is wanted. TensorBoard is on by default, so a
missing package is said once and the run goes on; the others were asked for, so it is an error.
Looked at with wandb 0.31 (offline) and trackio 0.43 (local).
"""

from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import msgspec
import structlog

from learner.config.settings import TrainSettings
from learner.core.errors import ConfigError

_log = structlog.get_logger(__name__)


class Sink(Protocol):
    """Takes the figures of steps."""

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Keep the figures of a step; steps ascend, all numbers are finite."""

    def close(self) -> None:
        """Write out what is held back."""


def opened(folder: Path, settings: TrainSettings, *, after: int) -> list[Sink]:
    """The sinks that the settings ask for, of a run that goes on after step `after` (0: begins).

    Raises ConfigError for what is missing or cannot be opened; nothing is left open then.
    """
    wanted = settings.metrics
    config = msgspec.to_builtins(settings)
    with ExitStack() as closing:
        sinks: list[Sink] = []
        if wanted.wandb:
            sinks.append(_wandb(folder, wanted.wandb, config))
            closing.callback(sinks[-1].close)
        if wanted.trackio:
            sinks.append(_trackio(folder, wanted.trackio, config))
            closing.callback(sinks[-1].close)
        if wanted.tensorboard:
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
    except Exception as exc:  # whatever another's program says of accounts and networks
        raise ConfigError(f"metrics.wandb: {project!r} cannot be opened: {exc}") from exc


def _trackio(folder: Path, project: str, config: Any) -> "Trackio":
    try:
        package = import_module("trackio")
    except ImportError as exc:
        raise _missing("trackio", project) from exc
    try:
        return Trackio(package, folder, project=project, config=config)
    except Exception as exc:  # the same
        raise ConfigError(f"metrics.trackio: {project!r} cannot be opened: {exc}") from exc


def _tensorboard(folder: Path, after: int) -> list["TensorBoard"]:
    try:
        package = import_module("torch.utils.tensorboard")
    except ImportError:
        _log.warning(
            "tensorboard_is_missing", remedy="pip install tensorboard, or metrics.tensorboard false"
        )
        return []
    place = folder / "tensorboard"
    try:
        return [TensorBoard(package, place, after=after)]
    except OSError as exc:
        raise ConfigError(f"metrics.tensorboard: {place} cannot be opened: {exc}") from exc


def _missing(package: str, project: str) -> ConfigError:
    return ConfigError(
        f"metrics.{package}: figures shall go to {project!r}, but the package is missing: "
        f"pip install {package}"
    )


class TensorBoard:
    """Event files in a folder. Events of steps that are made again are purged by the reader."""

    def __init__(self, package: Any, folder: Path, *, after: int) -> None:
        # A run that begins may have begun before, and told of the time before its first step.
        self._writer = package.SummaryWriter(str(folder), purge_step=after + 1 if after else 0)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandB:
    """A run of Weights & Biases; one that goes on keeps its id.

    Its own counter of steps cannot go back, so the step is a figure, and the axis of all others.
    """

    def __init__(self, package: Any, folder: Path, *, project: str, config: Any) -> None:
        name = _Name(folder / "wandb.id")
        self._run = package.init(
            project=project,
            name=folder.name,
            id=name.known,
            resume="allow" if name.known else None,
            dir=str(folder),
            config=config,
        )
        name.keep(self._run.id)
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log({**numbers, "step": step})

    def close(self) -> None:
        self._run.finish()


class Trackio:
    """A run of Trackio; one that goes on keeps its name."""

    def __init__(self, package: Any, folder: Path, *, project: str, config: Any) -> None:
        name = _Name(folder / "trackio.id")
        self._run = package.init(
            project=project,
            name=name.known or folder.name,
            resume="allow" if name.known else "never",
            config=config,
        )
        name.keep(self._run.name)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()


class _Name:
    """Under which name another program knows the run, in a file of the run's folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.known = path.read_text(encoding="utf-8").strip() if path.exists() else None

    def keep(self, name: str) -> None:
        self._path.write_text(f"{name}\n", encoding="utf-8")
