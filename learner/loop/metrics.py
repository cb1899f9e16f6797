"""The metrics of a training run: one object per step in metrics.jsonl, and optional other sinks.

    {"step": 12, "loss": -0.013, "reward": 0.53, "pass_rate": 0.41, …}

The file is the primary record: it is written first, each line is complete when `write` returns, and
a run that resumes from a checkpoint removes the lines of later steps, which will be made again.
Values that are not finite (NaN, infinity) are null. Other sinks may fail (a full disk, a server
that is gone): this is reported once, and nothing is lost. Not for concurrent use.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from errno import ENOSPC
from math import isfinite
from os import strerror
from pathlib import Path
from typing import Any, Self

import msgspec
import structlog
from anyio import ContextManagerMixin

from rehearsal_room.harness.log.schema import write_atomically
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import MetricsError
from rehearsal_room.learner.core.training_folder import METRICS_NAME
from rehearsal_room.learner.loop.metrics_sinks import MetricsSink, open_sinks
from rehearsal_room.scenarios.files import UNREADABLE

MetricValue = float | int | str | None
_log = structlog.get_logger(__name__)


class TrainingMetrics(ContextManagerMixin):
    """Writes the metrics of a run's steps. A context manager that closes its file and sinks."""

    def __init__(self, folder: Path, *, after: int = 0, sinks: Iterable[MetricsSink] = ()) -> None:
        """`after` is the step after which the run resumes; 0: it starts. The sinks are closed with
        the metrics. Raises MetricsError."""
        self._path = folder / METRICS_NAME
        self._sinks = list(sinks)
        try:
            _drop_lines(self._path, after)
            self._file = self._path.open("ab", buffering=0)
        except OSError as exc:
            raise MetricsError(f"{self._path}: cannot be written: {exc}") from exc

    @contextmanager
    def __contextmanager__(self) -> Generator[Self]:
        try:
            yield self
        finally:
            with ExitStack() as stack:
                stack.callback(self._file.close)
                for sink in self._sinks:
                    stack.callback(_close_sink, sink)

    def write(self, step: int, values: Mapping[str, MetricValue]) -> None:
        """Write the metrics of a step. Text values go into the file only. Raises MetricsError."""
        line = msgspec.json.encode({"step": step, **values}) + b"\n"
        try:
            if self._file.write(line) < len(line):  # on a full disk the last write is partial
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
            except Exception as exc:  # any failure of a foreign library, its disk or network
                _warn(sink, exc)
                self._sinks.remove(sink)
                with suppress(Exception):
                    sink.close()


def open_metrics(folder: Path, settings: TrainSettings, *, after: int = 0) -> TrainingMetrics:
    """Open the metrics of a run in its folder, with the sinks that its settings name.

    Raises MetricsError, and ConfigError for a sink whose package is missing.
    """
    return TrainingMetrics(folder, after=after, sinks=open_sinks(folder, settings, after=after))


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run's steps, in order; an incomplete line is left out.

    Raises MetricsError.
    """
    path = folder / METRICS_NAME
    try:
        return [row for row, _ in _lines(path.read_bytes())]
    except OSError as exc:
        raise MetricsError(f"{path}: cannot be read: {exc}") from exc


def _close_sink(sink: MetricsSink) -> None:
    try:
        sink.close()
    except Exception as exc:  # any failure of a foreign library, its disk or network
        _warn(sink, exc)


def _warn(sink: MetricsSink, exc: Exception) -> None:
    name = type(sink).__name__
    _log.warning("metrics_sink_failed", sink=name, why=str(exc), metrics_are_in=METRICS_NAME)


def _drop_lines(path: Path, after: int) -> None:
    """Remove the lines of steps after `after` (0: all lines), and incomplete lines."""
    if not path.exists():
        return
    data = path.read_bytes()
    remaining = b"".join(line for row, line in _lines(data) if after and row["step"] <= after)
    if remaining != data:
        write_atomically(path, remaining)


def _lines(data: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """Complete lines, decoded and as bytes."""
    found = []
    for line in data.splitlines(keepends=True):
        try:
            row = msgspec.json.decode(line)
        except UNREADABLE:
            continue
        if line.endswith(b"\n") and isinstance(row, dict) and "step" in row:
            found.append((row, line))
    return found
