"""The parts around the loop: the learner that it calls, its progress and report, the run's
settings and folder."""

import io
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from rich.console import Console
from structlog.testing import capture_logs

from rehearsal_room.harness.settings.fields import fields_of
from rehearsal_room.harness.settings.model import ModelSettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.settings.tables import merge, nest
from rehearsal_room.harness.setup.run_trust import marked
from rehearsal_room.learner.config.loader import settings_of
from rehearsal_room.learner.config.runs import rhythm_of, runs_of
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import CheckpointError, ConfigError, TrainingError
from rehearsal_room.learner.core.samples import Group, GroupSize, Rollout, Sample
from rehearsal_room.learner.data.batch_queue import TakenBatch
from rehearsal_room.learner.data.grouping import Reason
from rehearsal_room.learner.data.remedies import remedy
from rehearsal_room.learner.loop.learner import ModelLearner
from rehearsal_room.learner.loop.progress_state import (
    TrainProgress,
    after_batch,
    metrics_of_batch,
    seconds_since,
    trainer_idle_share,
    waiting_side,
)
from rehearsal_room.learner.loop.report import lines_of, render, report_of
from rehearsal_room.learner.loop.run_folder import as_toml, remove_leftovers, start_or_resume
from rehearsal_room.learner.packing.batch import Batch
from rehearsal_room.learner.trainer.trainer import StepReport
from tests.support.fake_learner import train_settings


def report(step: int = 1, **measures: float) -> StepReport:
    return StepReport(step, 0.5, 1.0, 0.1, 1, measures, 10, 40, 100, 2.0)


def group(*rewards: float) -> Group:
    """Episodes of two steps, whose prompts have the same beginning."""

    def sample(member: int, turn: int) -> Sample:
        prompt = np.array([1, 2, 3, 10 * member + turn], np.int32)
        tokens = np.array([7, 8], np.int32)
        return Sample(prompt, tokens, np.zeros(2, np.float32), 0.0, turn, "v0")

    rollouts = [
        Rollout(
            f"e{member}", member, reward, (sample(member, 0), sample(member, 1)), "answered", ""
        )
        for member, reward in enumerate(rewards)
    ]
    return Group("g0", "shop", "task", tuple(rollouts), ("v0",))


class FakeTrainer:
    """Returns the given reports, and records its saves."""

    def __init__(self, *reports: StepReport, progress: bytes | None = None) -> None:
        self.batches: list[Batch] = []
        self.saved: list[tuple[Path, bytes, int]] = []
        self._reports = list(reports)
        self._progress = progress

    def step(self, batch: Batch) -> StepReport:
        self.batches.append(batch)
        return self._reports.pop(0)

    def save(self, root: Path, progress: bytes, *, keep: int) -> None:
        self.saved.append((root, progress, keep))

    def resume(self, root: Path) -> bytes | None:
        return self.saved[-1][1] if self.saved else self._progress


def learner_of(trainer: FakeTrainer, *, is_live: bool = True, **changes: Any) -> ModelLearner:
    fake: Any = trainer
    return ModelLearner(fake, train_settings(**changes), Path("checkpoints"), is_live=is_live)


def test_older_checkpoints_can_be_kept() -> None:
    """A checkpoint with `keep_all`, for a run in which something is wrong, replaces none."""
    trainer = FakeTrainer()
    learner = learner_of(trainer, save={"keep": 2})
    learner.save(TrainProgress(batches=1))
    learner.save(TrainProgress(batches=2), keep_all=True)
    assert [keep for _, _, keep in trainer.saved] == [2, sys.maxsize]


@pytest.mark.parametrize(
    ("backend", "tokens"), [("twopass", 3 + 4 * 3), ("flex", 3 + 4 * 3), ("naive", 4 * 6)]
)
def test_groups_become_a_batch(backend: str, tokens: int) -> None:
    """Advantages compare the group's episodes, all weights add up to 1, and prefixes are shared if
    the backend supports it."""
    trainer = FakeTrainer(report())
    learner = learner_of(trainer, compute={"backend": backend}, loss={"advantage": "mean"})
    learner.step([group(1.0, 0.0)])
    [batch] = trainer.batches
    assert (batch.num_tokens, batch.num_trained, batch.num_steps, batch.num_episodes) == (
        *(tokens, 8, 4, 2),
    )
    suffixes = [suffix for prefix_group in batch.prefix_groups for suffix in prefix_group.suffixes]
    assert sum(float(suffix.weights.sum()) for suffix in suffixes) == pytest.approx(1.0)
    assert [suffix.advantages.tolist() for suffix in suffixes] == [[0.5] * 2] * 2 + [[-0.5] * 2] * 2


def test_agreement_is_not_logged() -> None:
    """Log-probabilities that agree in float32 cause no warning."""
    with capture_logs() as logs:
        learner_of(FakeTrainer(report(mismatch_k3=1e-12, mismatch_max=9e-5))).step([group(1, 0)])
    assert logs == []


def test_disagreement_is_a_warning() -> None:
    """A difference above 1e-4 in float32 in a run's first batch is a warning with its size; in
    bfloat16 such a difference is expected."""
    mismatch = {"mismatch_k3": 1e-6, "mismatch_max": 2e-3}
    with capture_logs() as logs:
        learner_of(FakeTrainer(report(**mismatch))).step([group(1, 0)])
    assert logs == [
        {
            "event": "sampler_and_trainer_disagree",
            "log_level": "warning",
            "greatest_difference": 2e-3,
            "expected": 1e-4,
            "divergence_per_token": 1e-6,
        }
    ]
    with capture_logs() as logs:
        compute = {"dtype": "bfloat16"}
        learner_of(FakeTrainer(report(**mismatch)), compute=compute).step([group(1, 0)])
        learner_of(FakeTrainer(report(step=2, **mismatch))).step([group(1, 0)])  # of older weights
    assert logs == []


def test_another_model_is_refused() -> None:
    """Log-probabilities of another model stop a run, live or on logs, and the message states what
    to do; those of other windows are expected where misaligned episodes are allowed."""
    mismatch = {"mismatch_k3": 4.0, "mismatch_max": 9.0}
    with pytest.raises(TrainingError, match="log-probabilities of sampler and trainer differ by"):
        learner_of(FakeTrainer(report(**mismatch))).step([group(1, 0)])
    with pytest.raises(TrainingError, match="Were the logs sampled by the model that is trained"):
        learner_of(FakeTrainer(report(**mismatch)), is_live=False).step([group(1, 0)])
    with capture_logs() as logs:
        data = {"misaligned": True}
        learner_of(FakeTrainer(report(**mismatch)), data=data, is_live=False).step([group(1, 0)])
    assert [entry["event"] for entry in logs] == ["sampler_and_trainer_disagree"]


def test_small_disagreement_with_logs_is_a_warning() -> None:
    """The first batch of logs is compared like that of a live run."""
    with capture_logs() as logs:
        found = report(mismatch_k3=1e-6, mismatch_max=2e-3)
        learner_of(FakeTrainer(found), is_live=False).step([group(1, 0)])
    assert [entry["event"] for entry in logs] == ["sampler_and_trainer_disagree"]


def test_groups_that_are_not_trained_may_count() -> None:
    """Equal groups that are dropped make all weights smaller: 8 trained tokens of 24."""
    trainer = FakeTrainer(report())
    learner_of(trainer).step([group(1.0, 0.0)], GroupSize(16, 8, 4))
    suffixes = [one for prefix in trainer.batches[0].prefix_groups for one in prefix.suffixes]
    assert sum(float(suffix.weights.sum()) for suffix in suffixes) == pytest.approx(8 / 24)


def test_progress_is_saved_in_checkpoints_and_restored() -> None:
    """The restored progress is equal, seconds and evaluations included."""
    progress = TrainProgress(
        3, 6, 5, 10, {"equal": 1}, seconds={"waiting": 1.5}, evaluations={2: {"a": 0.5}}
    )
    trainer = FakeTrainer()
    learner = learner_of(trainer, save={"keep": 4})
    assert learner.resume() is None
    learner.save(progress)
    assert trainer.saved[0][0] == Path("checkpoints") and trainer.saved[0][2] == 4
    assert learner.resume() == progress


def test_progress_that_cannot_be_read() -> None:
    """A checkpoint whose progress cannot be decoded is an error that names the folder."""
    with pytest.raises(CheckpointError, match="checkpoints: the checkpoint's training progress"):
        learner_of(FakeTrainer(progress=b'{"batches": "x"}')).resume()


def test_progress_adds_up() -> None:
    """Batches add up: a batch without groups counts, and one without labels keeps the last
    metrics."""
    one = TakenBatch((group(1, 0),), 2, {"equal": 1}, 4, 1, 1.5)
    progress = after_batch(TrainProgress(), one, report())
    assert progress == TrainProgress(
        batches=1,
        next_group=2,
        groups=1,
        episodes=2,
        dropped={"equal": 1},
        num_trained=10,
        num_tokens=40,
        num_row_tokens=100,
        first={"reward": 0.375, "pass_rate": 0.25},
        last={"reward": 0.375, "pass_rate": 0.25},
    )
    progress = after_batch(progress, TakenBatch((), 4, {"equal": 1, "few": 1}, 2, 2, 2.0), None)
    assert (progress.batches, progress.next_group, progress.groups, progress.num_trained) == (
        2,
        4,
        1,
        10,
    )
    assert progress.dropped == {"equal": 2, "few": 1}
    assert (progress.first["reward"], progress.last["reward"]) == (0.375, 1.0)
    assert after_batch(progress, TakenBatch((), 6), None).last == progress.last
    assert metrics_of_batch(TakenBatch((), 6)) == {}


@pytest.mark.parametrize(
    ("waiting", "throttled", "side"),
    [
        (0, 0, ""),
        (4, 0, ""),
        (30, 0, "the trainer"),
        (0, 30, "the rollouts"),
        (9, 20, "the rollouts"),
    ],
)
def test_waiting_side(waiting: float, throttled: float, side: str) -> None:
    """The side that waits longer is named, if its waiting is noticeable."""
    seconds = {"waiting": waiting, "training": 100.0 - waiting, "throttled": throttled}
    assert waiting_side(seconds) == side
    assert trainer_idle_share(seconds) == pytest.approx(waiting / 100)
    assert trainer_idle_share({}) == 0.0
    assert seconds_since({"a": 3.0, "b": 1.0}, {"a": 2.0}) == {"a": 1.0, "b": 1.0}


def test_the_report_in_words() -> None:
    """The text has the trained and dropped groups, the gain, and the side that waited."""
    progress = TrainProgress(
        batches=2,
        next_group=4,
        groups=3,
        episodes=6,
        dropped={"equal": 1},
        num_trained=1_000,
        num_tokens=2_000,
        num_row_tokens=8_000,
        seconds={"waiting": 5.0, "training": 15.0},
        first={"reward": 0.1, "pass_rate": 0.0},
        last={"reward": 0.5, "pass_rate": 0.25},
        evaluations={0: {"pass_rate": 0.5}},
    )
    text = io.StringIO()
    render(report_of(progress, published=Path("versions/v2")), Console(file=text, width=40))
    assert text.getvalue().splitlines() == [
        "2 steps on 3 groups (6 episodes), 1,000 tokens trained",
        "groups dropped: equal 1",
        "first to last batch: reward 0.100 to 0.500, pass rate 0.0% to 25.0%",
        "evaluation after 0 steps: pass_rate 0.500 (the best; its weights are in versions/best)",
        "shared prefixes saved 75% of the tokens of per-step rows; trainer idle 25%, waiting:"
        " the trainer",
        "weights in versions/v2",
    ]


@pytest.mark.parametrize(
    ("dropped", "warning"),
    [
        ({}, "nothing was trained: there were no groups"),
        (
            {"equal": 5, "stale": 1},
            "nothing was trained: all 6 groups were dropped (equal 5, stale 1): in every such group"
            " all episodes had the same reward, so there was nothing to compare: use easier or"
            " mixed tasks, a policy that succeeds sometimes, a larger group_size, or"
            " data.keep_equal = true (for cloning)",
        ),
        (
            {"stale": 2},
            "nothing was trained: all 2 groups were dropped (stale 2): the weights of these groups"
            " were too old: raise loop.staleness",
        ),
    ],
)
def test_the_report_warns_if_nothing_was_trained(dropped: dict[str, int], warning: str) -> None:
    """The warning has the reasons and a remedy for the most frequent one; it is the last line of
    the text."""
    report = report_of(TrainProgress(batches=3, dropped=dropped), published=Path("start"))
    assert report.warning == warning
    assert lines_of(report)[-1] == f"WARNING {warning}"
    trained = report_of(TrainProgress(num_trained=1, dropped=dropped), published=Path("start"))
    assert trained.warning == ""
    assert not any("WARNING" in line for line in lines_of(trained))


def test_every_reason_has_a_remedy() -> None:
    """Without dropped groups there is nothing to change."""
    assert all(remedy({reason: 1}) for reason in get_args(Reason))
    assert remedy({}) == remedy({"equal": 0}) == ""


def settings_with(**changes: Any) -> TrainSettings:
    table: dict[str, Any] = {
        "model": "start",
        "steps": 5,
        "rollouts": {"scenarios": ["a"], "group_size": 4, "max_steps": 7, "seed": 3},
    }
    return settings_of(table | changes)


def test_the_training_file_determines_the_runs() -> None:
    """The model and the number of episodes follow from the file; an evaluation has the settings of
    the rollouts, except for their groups and for the turns that they keep."""
    rollouts = {"scenarios": ["a"], "group_size": 4, "max_steps": 7, "forked_from": "run/e1@2"}
    settings = settings_with(
        rollouts=rollouts,
        loop={"evaluate_every": 5},
        evaluation={"temperature": 0.0, "scenarios": ["b"]},
    )
    runs = runs_of(settings)
    assert runs.evaluation is not None
    training, evaluation = runs.rollouts, runs.evaluation
    assert (training.policy.name, training.model.name) == ("local", "start")
    assert training.episodes == 5 * 8 * 4
    assert (training.forked_from, evaluation.forked_from) == ("run/e1@2", "")
    assert (evaluation.model, evaluation.scenarios) == (
        ModelSettings("start", temperature=0.0),
        ("b",),
    )
    assert (evaluation.limits.max_steps, evaluation.group_size, evaluation.episodes) == (
        *(7, 1, None),
    )
    assert runs_of(settings_with()).evaluation is None
    assert runs_of(settings_with(data={"fill": True})).rollouts.episodes == 10 * 5 * 8 * 4


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"save": {"every": 3}, "loop": {"publish_every": 2}}, "save.every: must be a multiple"),
        (
            {"loop": {"publish_every": 5, "evaluate_every": 3}},
            "loop.evaluate_every: must be a multiple",
        ),
        ({"rollouts": {"scenarios": ["a"], "group_size": 2, "top_p": 0.9}}, "[rollouts] top_p: "),
        ({"loop": {"evaluate_every": 5}, "evaluation": {"scenarios": []}}, "[evaluation] scenario"),
    ],
)
def test_contradictory_settings(changes: dict[str, Any], sentence: str) -> None:
    """A contradiction is an error that names table and field."""
    with pytest.raises(ConfigError) as caught:
        runs_of(settings_with(**changes))
    assert str(caught.value).startswith(sentence)


def test_groups_of_one_are_refused_without_keep_equal() -> None:
    """Groups of one member are always equal: a run that drops such groups would train nothing."""
    table = {
        "model": "start",
        "rollouts": {"scenarios": ["a"], "group_size": 1},
        "loss": {"advantage": "reward"},
    }
    with pytest.raises(
        ConfigError, match=r"^data\.keep_equal: must be true for groups of one episode"
    ):
        settings_of(table)
    settings_of(table | {"data": {"keep_equal": True}})


def test_training_on_logs_publishes_only_for_evaluations() -> None:
    """When training on logs, weights are published for evaluations and at the end, not after each
    batch."""
    assert rhythm_of(settings_with()).loop.publish_every == 1
    logs = {"logs": ["run"]}
    assert rhythm_of(settings_with(data=logs)).loop.publish_every == 5
    rare = settings_with(data=logs, loop={"evaluate_every": 2}, evaluation={"policy": "local"})
    assert rhythm_of(rare).loop.publish_every == 2


def test_a_run_resumes_only_with_its_settings(tmp_path: Path) -> None:
    """The folder stores the settings, and a run does not resume with others. Settings of how long,
    how fast and where may differ, as in any run; the folder then stores the new ones."""
    settings = settings_with()
    assert start_or_resume(tmp_path, settings, resume=False) is True
    assert marked(as_toml(settings)) == (tmp_path / "train.toml").read_bytes()
    assert start_or_resume(tmp_path, settings, resume=True) is False
    longer = settings_with(
        steps=9, rollouts=settings.rollouts | {"concurrency": 2}, compute={"max_tokens": 5}
    )
    assert start_or_resume(tmp_path, longer, resume=True) is False
    assert marked(as_toml(longer)) == (tmp_path / "train.toml").read_bytes()
    for field in fields_of(Settings):
        if field.may_change and field.key not in {"processes", "chaos"}:  # training refuses these
            change = nest({field.key: "elsewhere"}, Settings)
            rollouts = merge(settings.rollouts, change)
            moved = msgspec.structs.replace(settings, steps=9, rollouts=rollouts)
            assert start_or_resume(tmp_path, moved, resume=True) is False
    with pytest.raises(ConfigError, match=r"rollouts\.seed: the run was started with 3, not 4"):
        start_or_resume(
            tmp_path, settings_with(rollouts=settings.rollouts | {"seed": 4}), resume=True
        )
    with pytest.raises(ConfigError, match="a training run already exists there; pass --resume"):
        start_or_resume(tmp_path, settings, resume=False)
    assert marked(as_toml(moved)) == (tmp_path / "train.toml").read_bytes()


@pytest.mark.parametrize("name", ["checkpoints", "versions", "rollouts", "metrics.jsonl"])
def test_a_run_whose_settings_are_lost_is_not_gone_on_with_under_others(
    tmp_path: Path, name: str
) -> None:
    """A start would go on at its checkpoints without a word, and cut its metrics."""
    (tmp_path / name).mkdir()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match=f"it holds {name} of a training run whose train.toml is"):
        start_or_resume(tmp_path, settings_with(), resume=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "notes.txt"])


def test_a_failed_start_leaves_nothing(tmp_path: Path) -> None:
    """Its files are removed as long as it has no results; a folder that existed before stays."""
    for is_new in (True, False):
        start_or_resume(tmp_path / "run", settings_with(), resume=False)
        remove_leftovers(tmp_path / "run", is_new=is_new)
        assert (tmp_path / "run").exists() is not is_new
        assert not (tmp_path / "run" / "train.toml").exists()
    start_or_resume(tmp_path / "run", settings_with(), resume=False)
    (tmp_path / "run" / "checkpoints").mkdir()
    remove_leftovers(tmp_path / "run", is_new=True)
    assert (tmp_path / "run" / "train.toml").exists()
    assert msgspec.toml.decode((tmp_path / "run" / "train.toml").read_bytes())["steps"] == 5
