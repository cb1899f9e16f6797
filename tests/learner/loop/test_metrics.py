"""Metrics of a run: how they are stored, their sinks, and what the progress display shows."""

import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from rich.console import Console
from structlog.testing import capture_logs
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rehearsal_room.learner.config.settings import MetricSettings, TrainSettings
from rehearsal_room.learner.core.errors import ConfigError, MetricsError
from rehearsal_room.learner.loop.metrics import TrainingMetrics, open_metrics, read_metrics
from rehearsal_room.learner.loop.progress_bar import StepDisplay, describe

QUIET = MetricSettings(tensorboard=False)


def settings(metrics: MetricSettings = QUIET) -> TrainSettings:
    return TrainSettings(model="m", metrics=metrics)


class RecordingSink:
    """A sink that records its calls."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, dict[str, float]]] = []
        self.closed = False

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        self.steps.append((step, dict(numbers)))

    def close(self) -> None:
        self.closed = True


def test_each_step_is_one_line_and_written_at_once(tmp_path: Path) -> None:
    """The line is complete before the metrics are closed; values that are not finite are null."""
    with TrainingMetrics(tmp_path) as metrics:
        metrics.write(1, {"loss": 0.5, "waits": "the trainer", "groups": 8})
        metrics.write(2, {"loss": float("nan"), "reward": float("inf")})
        assert (tmp_path / "metrics.jsonl").read_bytes() == (
            b'{"step":1,"loss":0.5,"waits":"the trainer","groups":8}\n'
            b'{"step":2,"loss":null,"reward":null}\n'
        )
    assert read_metrics(tmp_path) == [
        {"step": 1, "loss": 0.5, "waits": "the trainer", "groups": 8},
        {"step": 2, "loss": None, "reward": None},
    ]


def test_sinks_get_the_finite_numbers_and_are_closed(tmp_path: Path) -> None:
    """Text values and values that are not finite go only into the file; an error in the block also
    closes the sinks."""
    sink, other = RecordingSink(), RecordingSink()
    with (
        pytest.raises(KeyboardInterrupt),
        TrainingMetrics(tmp_path, sinks=[sink, other]) as metrics,
    ):
        metrics.write(1, {"loss": 0.5, "waits": "the trainer", "groups": 8, "none": None})
        metrics.write(2, {"loss": float("nan"), "reward": 1.0})
        raise KeyboardInterrupt
    assert sink.steps == [(1, {"loss": 0.5, "groups": 8.0}), (2, {"reward": 1.0})]
    assert (sink.closed, other.closed) == (True, True)


class Full(RecordingSink):
    """A sink whose disk is full from its second step on; closing it fails as well."""

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        super().write(step, numbers)
        if step > 1:
            raise OSError(28, "No space left on device")

    def close(self) -> None:
        super().close()
        raise OSError(28, "No space left on device")


def test_a_failing_sink_is_reported_once_and_dropped(tmp_path: Path) -> None:
    """Training, the file and the other sinks continue; the sink is closed, even if that fails."""
    full, other = Full(), RecordingSink()
    with capture_logs() as logs, TrainingMetrics(tmp_path, sinks=[full, other]) as metrics:
        for step in range(1, 4):
            metrics.write(step, {"loss": 1.0})
    assert [step for step, _ in full.steps] == [1, 2]
    assert [step for step, _ in other.steps] == [1, 2, 3]
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2, 3]
    assert (full.closed, other.closed) == (True, True)
    why = "[Errno 28] No space left on device"
    assert [(entry["event"], entry["sink"], entry["why"]) for entry in logs] == [
        ("metrics_sink_failed", "Full", why)
    ]


def test_a_sink_that_fails_when_closed_does_not_change_the_outcome(tmp_path: Path) -> None:
    """The failure is logged, and the run ends as it would have ended without it."""
    with capture_logs() as logs, TrainingMetrics(tmp_path, sinks=[Full()]) as metrics:
        metrics.write(1, {"loss": 1.0})
    assert [(entry["event"], entry["sink"]) for entry in logs] == [("metrics_sink_failed", "Full")]


def test_a_tensorboard_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    """The error comes before anything is trained."""
    (tmp_path / "tensorboard").write_text("a file")
    with pytest.raises(ConfigError, match=r"^metrics.tensorboard: .*tensorboard cannot be opened"):
        open_metrics(tmp_path, settings(MetricSettings()))


@pytest.mark.parametrize("cut_off", [b'{"step":5,"lo', b'{"step":5,"loss":5.0}'])
def test_a_resumed_run_drops_the_steps_that_it_repeats(tmp_path: Path, cut_off: bytes) -> None:
    """It removes the lines after the checkpoint, and a line that the kill cut off."""
    with TrainingMetrics(tmp_path) as metrics:
        for step in range(1, 5):
            metrics.write(step, {"loss": float(step)})
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + cut_off)
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2, 3, 4]
    with TrainingMetrics(tmp_path, after=2) as metrics:
        metrics.write(3, {"loss": 30.0})
    assert read_metrics(tmp_path) == [
        {"step": 1, "loss": 1.0},
        {"step": 2, "loss": 2.0},
        {"step": 3, "loss": 30.0},
    ]


def test_a_run_that_starts_again_drops_all_lines(tmp_path: Path) -> None:
    """After a kill before the first checkpoint, also the metrics before the first step are
    removed."""
    for value in (1.0, 2.0):
        with open_metrics(tmp_path, settings(MetricSettings())) as metrics:
            metrics.write(0, {"evaluation/reward": value})
    assert read_metrics(tmp_path) == [{"step": 0, "evaluation/reward": 2.0}]
    assert shown_by_tensorboard(tmp_path) == {"evaluation/reward": [(0, 2.0)]}


@contextmanager
def files_no_longer_than(num_bytes: int) -> Iterator[None]:
    """Limits the size of files in this process, which acts like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_an_error_and_earlier_steps_stay(tmp_path: Path) -> None:
    """The error names the file; the incomplete line is skipped when the file is read."""
    with TrainingMetrics(tmp_path) as metrics:
        metrics.write(1, {"loss": 1.0})
        with files_no_longer_than(40), pytest.raises(MetricsError) as caught:
            metrics.write(2, {"loss": 2.0, "reward": 1.0})
    path = tmp_path / "metrics.jsonl"
    assert str(caught.value) == f"{path}: cannot be written: [Errno 28] No space left on device"
    assert path.stat().st_size == 40
    assert read_metrics(tmp_path) == [{"step": 1, "loss": 1.0}]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """Both writing and reading fail with an error that names the file."""
    with pytest.raises(MetricsError, match=r"none/metrics.jsonl: cannot be written: "):
        TrainingMetrics(tmp_path / "none")
    with pytest.raises(MetricsError, match=r"none/metrics.jsonl: cannot be read: "):
        read_metrics(tmp_path / "none")


def shown_by_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The scalars that TensorBoard's own reader finds."""
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_tensorboard_reads_the_metrics(tmp_path: Path) -> None:
    """They are in the run's folder by default; repeated steps appear once."""
    with open_metrics(tmp_path, settings(MetricSettings())) as metrics:
        for step in range(1, 5):
            metrics.write(step, {"loss": step / 2, "reward": 1.0, "waits": "rollouts"})
    with open_metrics(tmp_path, settings(MetricSettings()), after=2) as metrics:
        metrics.write(3, {"loss": 0.25})
    assert shown_by_tensorboard(tmp_path) == {
        "loss": [(1, 0.5), (2, 1.0), (3, 0.25)],
        "reward": [(1, 1.0), (2, 1.0)],
    }


def test_a_missing_tensorboard_package_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run continues, and the metrics are in metrics.jsonl."""
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with capture_logs() as logs, open_metrics(tmp_path, settings(MetricSettings())) as metrics:
        metrics.write(1, {"loss": 1.0})
        metrics.write(2, {"loss": 1.0})
    assert [entry["event"] for entry in logs] == ["tensorboard_is_missing"]
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2]
    assert not (tmp_path / "tensorboard").exists()


class FakeRun:
    """A run with the interface of wandb and trackio."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.id = options.get("id") or "x1"
        self.name = options["name"]
        self.calls: list[Any] = []

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.calls.append((name, step_metric))

    def log(self, numbers: dict[str, float], step: int | None = None) -> None:
        self.calls.append((numbers, step))

    def finish(self) -> None:
        self.calls.append("finished")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[FakeRun]:
    """The runs that were opened; the two packages are replaced by fakes."""
    opened: list[FakeRun] = []

    def init(**options: Any) -> FakeRun:
        opened.append(FakeRun(**options))
        return opened[-1]

    for name in ("wandb", "trackio"):
        module = ModuleType(name)
        module.init = init  # type: ignore[attr-defined]  # a fake module
        monkeypatch.setitem(sys.modules, name, module)
    return opened


def test_a_resumed_run_keeps_its_wandb_run(tmp_path: Path, runs: list[FakeRun]) -> None:
    """The second part has the id of the first; the step is the axis of all metrics."""
    with_wandb = settings(MetricSettings(tensorboard=False, wandb="shop"))
    for after in (0, 2):
        with open_metrics(tmp_path, with_wandb, after=after) as metrics:
            metrics.write(after + 1, {"loss": 0.5})
    first, second = runs
    options = {
        "project": "shop",
        "name": tmp_path.name,
        "dir": str(tmp_path),
        "config": msgspec.to_builtins(with_wandb),
    }
    assert first.options == options | {"id": None, "resume": None}
    assert second.options == options | {"id": "x1", "resume": "allow"}
    axis = [("step", None), ("*", "step")]
    assert first.calls == [*axis, ({"loss": 0.5, "step": 1}, None), "finished"]
    assert second.calls == [*axis, ({"loss": 0.5, "step": 3}, None), "finished"]


def test_a_resumed_run_keeps_its_trackio_run(tmp_path: Path, runs: list[FakeRun]) -> None:
    """The second part has the name of the first."""
    with_trackio = settings(MetricSettings(tensorboard=False, trackio="shop"))
    for after in (0, 2):
        with open_metrics(tmp_path, with_trackio, after=after) as metrics:
            metrics.write(after + 1, {"loss": 0.5})
    config = msgspec.to_builtins(with_trackio)
    options = {"project": "shop", "name": tmp_path.name, "config": config}
    assert [run.options for run in runs] == [
        options | {"resume": "never"},
        options | {"resume": "allow"},
    ]
    assert runs[1].calls == [({"loss": 0.5}, 3), "finished"]


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_a_missing_package_that_the_settings_need_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    """The error names the setting and the command that installs the package."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError) as caught:
        open_metrics(tmp_path, settings(msgspec.structs.replace(QUIET, **{package: "shop"})))
    assert str(caught.value) == (
        f"metrics.{package}: the project 'shop' is set, but the package {package} is missing:"
        f" pip install {package}"
    )


def test_a_sink_that_cannot_be_opened_is_named_and_the_others_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: list[FakeRun]
) -> None:
    """If the second sink fails, the first one is closed."""

    def refuse(**options: Any) -> FakeRun:
        raise RuntimeError("no such account")

    monkeypatch.setattr(sys.modules["trackio"], "init", refuse)
    with pytest.raises(ConfigError) as caught:
        open_metrics(tmp_path, settings(MetricSettings(wandb="shop", trackio="shop")))
    assert str(caught.value) == "metrics.trackio: 'shop' cannot be opened: no such account"
    assert [run.calls[-1] for run in runs] == ["finished"]
    assert not (tmp_path / "tensorboard").exists()


METRICS = {
    "loss": -0.1,
    "reward": 0.53,
    "pass_rate": 0.4125,
    "entropy": 0.81,
    "mismatch_k3": 1.5e-6,
    "tokens_per_second": 12_345.6,
    "shared": 0.74,
    "waits": "the trainer",
}
DESCRIBED = (
    "reward 0.530, pass 41.2%, entropy 0.810, mismatch 1.5e-06, 12,346 tokens/s, 74% shared, "
    "waiting: the trainer"
)


def test_without_a_terminal_each_step_is_a_line() -> None:
    """The line has the main metrics; metrics that a step does not have are left out."""
    out = StringIO()
    with StepDisplay(Console(file=out, width=40), total=100) as progress:
        progress.show_step(1, METRICS)
        progress.show_step(2, {"reward": 0.5, "waits": None})
    assert out.getvalue() == f"1 of 100 steps: {DESCRIBED}\n2 of 100 steps: reward 0.500\n"
    assert describe(METRICS) == DESCRIBED


def test_on_a_terminal_there_is_a_bar() -> None:
    """In a resumed run it starts at the last step; at the end it is removed."""
    out = StringIO()
    console = Console(file=out, width=200, force_terminal=True, color_system=None)
    with StepDisplay(console, total=100, done=40) as progress:
        assert "40 of 100" in out.getvalue()
        progress.show_step(41, METRICS)
        assert "41 of 100" in out.getvalue()
        assert DESCRIBED in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K")
