"""The figures of a training run, one object a step, in metrics.jsonl; and elsewhere, where wanted.

    {"step": 12, "loss": -0.013, "reward": 0.53, "pass_rate": 0.41, …}

The file is the truth: it is written first, each line is whole when `write` returns, and a run that
goes on from a checkpoint drops the lines of later steps, which will be made again. What is not a
number (NaN, infinity) is null there. Where else they go may fail (a full disk, a server that is
gone): that is said once, and nothing is lost. Not for concurrent use.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from errno import ENOSPC
from math import isfinite
from os import strerror
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import structlog

from harness.log.schema import write_atomically
from learner.config.settings import TrainSettings
from learner.core.errors import MetricsError
from learner.loop.metrics_sinks import Sink, opened

FILE_NAME = "metrics.jsonl"
Value = float | int | str | None
_log = structlog.get_logger(__name__)


class Metrics:
    """Takes the figures of a run's steps; a context manager that closes what it opened."""

    def __init__(self, folder: Path, *, after: int = 0, sinks: Iterable[Sink] = ()) -> None:
        """`after` is the step after which the run goes on; 0: it begins. The sinks are closed with
        the metrics. Raises MetricsError."""
        self._path = folder / FILE_NAME
        self._sinks = list(sinks)
        try:
            _forget(self._path, after)
            self._file = self._path.open("ab", buffering=0)
        except OSError as exc:
            raise MetricsError(f"{self._path}: cannot be written: {exc}") from exc

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with ExitStack() as stack:
            stack.callback(self._file.close)
            for sink in self._sinks:
                stack.callback(_closed, sink)

    def write(self, step: int, values: Mapping[str, Value]) -> None:
        """Keep the figures of a step. Texts go into the file only. Raises MetricsError."""
        line = msgspec.json.encode({"step": step, **values}) + b"\n"
        try:
            if self._file.write(line) < len(line):  # what a full disk does to the last write
                raise OSError(ENOSPC, strerror(ENOSPC))
        except OSError as exc:
            raise MetricsError(f"{self._path}: cannot be written: {exc}") from exc
        numbers = {
            name: float(value)
            for name, value in values.items()
            if isinstance(value, int | float) and isfinite(value)
        }
        for sink in tuple(self._sinks):
            try:
                sink.write(step, numbers)
            except Exception as exc:  # whatever another's program says of disks and networks
                _tell(sink, exc)
                self._sinks.remove(sink)
                with suppress(Exception):
                    sink.close()


def open_metrics(folder: Path, settings: TrainSettings, *, after: int = 0) -> Metrics:
    """The metrics of a run in its folder, with the sinks that its settings ask for.

    Raises MetricsError, and ConfigError for a sink whose package is not there.
    """
    return Metrics(folder, after=after, sinks=opened(folder, settings, after=after))


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The figures of a run's steps, in order; a line that was cut off is left out.

    Raises MetricsError.
    """
    path = folder / FILE_NAME
    try:
        return [figures for figures, _ in _lines(path.read_bytes())]
    except OSError as exc:
        raise MetricsError(f"{path}: cannot be read: {exc}") from exc


def _closed(sink: Sink) -> None:
    try:
        sink.close()
    except Exception as exc:  # the same
        _tell(sink, exc)


def _tell(sink: Sink, exc: Exception) -> None:
    name = type(sink).__name__
    _log.warning("figures_go_there_no_more", sink=name, why=str(exc), kept_in=FILE_NAME)


def _forget(path: Path, after: int) -> None:
    """Drop the lines of steps that come after `after` (0: all), and what is no whole line."""
    if not path.exists():
        return
    data = path.read_bytes()
    kept = b"".join(line for figures, line in _lines(data) if after and figures["step"] <= after)
    if kept != data:
        write_atomically(path, kept)


def _lines(data: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """Whole lines, decoded and as they are."""
    found = []
    for line in data.splitlines(keepends=True):
        try:
            figures = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if line.endswith(b"\n") and isinstance(figures, dict) and "step" in figures:
            found.append((figures, line))
    return found
