"""Figures of a run: what is kept of them, where they go, and what a watcher sees."""

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

from learner.config.settings import MetricSettings, TrainSettings
from learner.core.errors import ConfigError, MetricsError
from learner.loop.metrics import Metrics, open_metrics, read_metrics
from learner.loop.progress_bar import TrainProgress, describe

QUIET = MetricSettings(tensorboard=False)


def settings(metrics: MetricSettings = QUIET) -> TrainSettings:
    return TrainSettings(model="m", metrics=metrics)


class Heard:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.figures: list[tuple[int, dict[str, float]]] = []
        self.closed = False

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        self.figures.append((step, dict(numbers)))

    def close(self) -> None:
        self.closed = True


def test_each_step_is_one_line_that_is_there_at_once(tmp_path: Path) -> None:
    """Before the metrics are closed; what is not a number is null."""
    with Metrics(tmp_path) as metrics:
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
    """Texts and what is not finite stay in the file; an error inside closes as well."""
    sink, other = Heard(), Heard()
    with pytest.raises(KeyboardInterrupt), Metrics(tmp_path, sinks=[sink, other]) as metrics:
        metrics.write(1, {"loss": 0.5, "waits": "the trainer", "groups": 8, "none": None})
        metrics.write(2, {"loss": float("nan"), "reward": 1.0})
        raise KeyboardInterrupt
    assert sink.figures == [(1, {"loss": 0.5, "groups": 8.0}), (2, {"reward": 1.0})]
    assert (sink.closed, other.closed) == (True, True)


class Full(Heard):
    """A sink whose disk is full, from its second step on; it says so again when it is closed."""

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        super().write(step, numbers)
        if step > 1:
            raise OSError(28, "No space left on device")

    def close(self) -> None:
        super().close()
        raise OSError(28, "No space left on device")


def test_a_sink_that_fails_is_told_once_and_left(tmp_path: Path) -> None:
    """Training goes on, and so do the file and the other sinks; it is closed, whatever it says."""
    full, other = Full(), Heard()
    with capture_logs() as logs, Metrics(tmp_path, sinks=[full, other]) as metrics:
        for step in range(1, 4):
            metrics.write(step, {"loss": 1.0})
    assert [step for step, _ in full.figures] == [1, 2]
    assert [step for step, _ in other.figures] == [1, 2, 3]
    assert [figures["step"] for figures in read_metrics(tmp_path)] == [1, 2, 3]
    assert (full.closed, other.closed) == (True, True)
    why = "[Errno 28] No space left on device"
    assert [(entry["event"], entry["sink"], entry["why"]) for entry in logs] == [
        ("figures_go_there_no_more", "Full", why)
    ]


def test_a_sink_that_fails_at_its_end_hides_nothing(tmp_path: Path) -> None:
    """What it says is told, and the run ends as it would have ended."""
    with capture_logs() as logs, Metrics(tmp_path, sinks=[Full()]) as metrics:
        metrics.write(1, {"loss": 1.0})
    assert [(entry["event"], entry["sink"]) for entry in logs] == [
        ("figures_go_there_no_more", "Full")
    ]


def test_a_place_for_tensorboard_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    """Before anything is trained."""
    (tmp_path / "tensorboard").write_text("a file")
    with pytest.raises(ConfigError, match=r"^metrics.tensorboard: .*tensorboard cannot be opened"):
        open_metrics(tmp_path, settings(MetricSettings()))


@pytest.mark.parametrize("cut_off", [b'{"step":5,"lo', b'{"step":5,"loss":5.0}'])
def test_a_run_that_goes_on_drops_the_steps_that_it_makes_again(
    tmp_path: Path, cut_off: bytes
) -> None:
    """Those after the checkpoint, and a line that was cut off by the kill."""
    with Metrics(tmp_path) as metrics:
        for step in range(1, 5):
            metrics.write(step, {"loss": float(step)})
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + cut_off)
    assert [figures["step"] for figures in read_metrics(tmp_path)] == [1, 2, 3, 4]
    with Metrics(tmp_path, after=2) as metrics:
        metrics.write(3, {"loss": 30.0})
    assert read_metrics(tmp_path) == [
        {"step": 1, "loss": 1.0},
        {"step": 2, "loss": 2.0},
        {"step": 3, "loss": 30.0},
    ]


def test_a_run_that_begins_again_keeps_nothing(tmp_path: Path) -> None:
    """It was killed before its first checkpoint; what was told before the first step goes, too."""
    for value in (1.0, 2.0):
        with open_metrics(tmp_path, settings(MetricSettings())) as metrics:
            metrics.write(0, {"evaluation/reward": value})
    assert read_metrics(tmp_path) == [{"step": 0, "evaluation/reward": 2.0}]
    assert shown_by_tensorboard(tmp_path) == {"evaluation/reward": [(0, 2.0)]}


@contextmanager
def files_no_longer_than(num_bytes: int) -> Iterator[None]:
    """What a full disk is to a file, for this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_named_and_earlier_steps_stay(tmp_path: Path) -> None:
    """The line that did not fit is left out when the file is read."""
    with Metrics(tmp_path) as metrics:
        metrics.write(1, {"loss": 1.0})
        with files_no_longer_than(40), pytest.raises(MetricsError) as caught:
            metrics.write(2, {"loss": 2.0, "reward": 1.0})
    path = tmp_path / "metrics.jsonl"
    assert str(caught.value) == f"{path}: cannot be written: [Errno 28] No space left on device"
    assert path.stat().st_size == 40
    assert read_metrics(tmp_path) == [{"step": 1, "loss": 1.0}]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """For writing and for reading."""
    with pytest.raises(MetricsError, match=r"none/metrics.jsonl: cannot be written: "):
        Metrics(tmp_path / "none")
    with pytest.raises(MetricsError, match=r"none/metrics.jsonl: cannot be read: "):
        read_metrics(tmp_path / "none")


def shown_by_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What its own reader finds."""
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_tensorboard_reads_the_figures(tmp_path: Path) -> None:
    """By default, in the run's folder; steps that are made again stand once."""
    with open_metrics(tmp_path, settings(MetricSettings())) as metrics:
        for step in range(1, 5):
            metrics.write(step, {"loss": step / 2, "reward": 1.0, "waits": "rollouts"})
    with open_metrics(tmp_path, settings(MetricSettings()), after=2) as metrics:
        metrics.write(3, {"loss": 0.25})
    assert shown_by_tensorboard(tmp_path) == {
        "loss": [(1, 0.5), (2, 1.0), (3, 0.25)],
        "reward": [(1, 1.0), (2, 1.0)],
    }


def test_a_run_without_the_tensorboard_package_says_so_once_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures are in metrics.jsonl."""
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with capture_logs() as logs, open_metrics(tmp_path, settings(MetricSettings())) as metrics:
        metrics.write(1, {"loss": 1.0})
        metrics.write(2, {"loss": 1.0})
    assert [entry["event"] for entry in logs] == ["tensorboard_is_missing"]
    assert [figures["step"] for figures in read_metrics(tmp_path)] == [1, 2]
    assert not (tmp_path / "tensorboard").exists()


class FakeRun:
    """A run as wandb and trackio have it."""

    def __init__(self, **given: Any) -> None:
        self.given = given
        self.id = given.get("id") or "x1"
        self.name = given["name"]
        self.heard: list[Any] = []

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.heard.append((name, step_metric))

    def log(self, numbers: dict[str, float], step: int | None = None) -> None:
        self.heard.append((numbers, step))

    def finish(self) -> None:
        self.heard.append("finished")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[FakeRun]:
    """The runs that were opened with stand-ins for the two packages."""
    opened: list[FakeRun] = []

    def init(**given: Any) -> FakeRun:
        opened.append(FakeRun(**given))
        return opened[-1]

    for name in ("wandb", "trackio"):
        module = ModuleType(name)
        module.init = init  # type: ignore[attr-defined]  # a stand-in
        monkeypatch.setitem(sys.modules, name, module)
    return opened


def test_wandb_keeps_its_run_when_training_goes_on(tmp_path: Path, runs: list[FakeRun]) -> None:
    """The second time with the id of the first; the step is the axis of all figures."""
    wanted = settings(MetricSettings(tensorboard=False, wandb="shop"))
    for after in (0, 2):
        with open_metrics(tmp_path, wanted, after=after) as metrics:
            metrics.write(after + 1, {"loss": 0.5})
    first, second = runs
    given = {
        "project": "shop",
        "name": tmp_path.name,
        "dir": str(tmp_path),
        "config": msgspec.to_builtins(wanted),
    }
    assert first.given == given | {"id": None, "resume": None}
    assert second.given == given | {"id": "x1", "resume": "allow"}
    axis = [("step", None), ("*", "step")]
    assert first.heard == [*axis, ({"loss": 0.5, "step": 1}, None), "finished"]
    assert second.heard == [*axis, ({"loss": 0.5, "step": 3}, None), "finished"]


def test_trackio_keeps_its_run_when_training_goes_on(tmp_path: Path, runs: list[FakeRun]) -> None:
    """The second time under the name of the first."""
    wanted = settings(MetricSettings(tensorboard=False, trackio="shop"))
    for after in (0, 2):
        with open_metrics(tmp_path, wanted, after=after) as metrics:
            metrics.write(after + 1, {"loss": 0.5})
    given = {"project": "shop", "name": tmp_path.name, "config": msgspec.to_builtins(wanted)}
    assert [run.given for run in runs] == [given | {"resume": "never"}, given | {"resume": "allow"}]
    assert runs[1].heard == [({"loss": 0.5}, 3), "finished"]


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_a_package_that_was_asked_for_and_is_missing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    """It names the setting and the command."""
    monkeypatch.setitem(sys.modules, package, None)
    wanted = settings(msgspec.structs.replace(QUIET, **{package: "shop"}))
    with pytest.raises(ConfigError) as caught:
        open_metrics(tmp_path, wanted)
    assert str(caught.value) == (
        f"metrics.{package}: figures shall go to 'shop', but the package is missing: "
        f"pip install {package}"
    )


def test_what_cannot_be_opened_is_named_and_nothing_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: list[FakeRun]
) -> None:
    """A second sink that fails closes the first."""

    def refuse(**given: Any) -> FakeRun:
        raise RuntimeError("no such account")

    monkeypatch.setattr(sys.modules["trackio"], "init", refuse)
    with pytest.raises(ConfigError) as caught:
        open_metrics(tmp_path, settings(MetricSettings(wandb="shop", trackio="shop")))
    assert str(caught.value) == "metrics.trackio: 'shop' cannot be opened: no such account"
    assert [run.heard[-1] for run in runs] == ["finished"]
    assert not (tmp_path / "tensorboard").exists()


FIGURES = {
    "loss": -0.1,
    "reward": 0.53,
    "pass_rate": 0.4125,
    "entropy": 0.81,
    "mismatch_k3": 1.5e-6,
    "tokens_per_second": 12_345.6,
    "shared": 0.74,
    "waits": "the trainer",
}
SAID = (
    "reward 0.530, pass 41.2%, entropy 0.810, mismatch 1.5e-06, 12,346 tokens/s, 74% shared, "
    "waiting: the trainer"
)


def test_away_from_a_terminal_each_step_is_a_line() -> None:
    """With what a watcher wants to know of it; what a step does not have is left out."""
    out = StringIO()
    with TrainProgress(Console(file=out, width=40), total=100) as progress:
        progress.show_step(1, FIGURES)
        progress.show_step(2, {"reward": 0.5, "waits": None})
    assert out.getvalue() == f"1 of 100 steps: {SAID}\n2 of 100 steps: reward 0.500\n"
    assert describe(FIGURES) == SAID


def test_on_a_terminal_there_is_a_bar() -> None:
    """It stands where a run that goes on left off, and is gone at the end."""
    out = StringIO()
    console = Console(file=out, width=200, force_terminal=True, color_system=None)
    with TrainProgress(console, total=100, done=40) as progress:
        assert "40/100" in out.getvalue()
        progress.show_step(41, FIGURES)
        assert "41/100" in out.getvalue()
        assert SAID in out.getvalue()
        assert "41 of 100" not in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K")
