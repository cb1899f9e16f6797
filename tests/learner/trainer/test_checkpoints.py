"""Checkpoints: a run that resumes from one gets the numbers of an uninterrupted run."""

import json
import os
import pickle
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from structlog.testing import capture_logs
from torch import Tensor

from rehearsal_room.learner.core.atomic_dirs import reason
from rehearsal_room.learner.core.errors import CheckpointError
from rehearsal_room.learner.model.distributed import Processes
from rehearsal_room.learner.trainer.checkpoints import (
    CheckpointManifest,
    Identity,
    keep_newest,
    load,
    newest_first,
    save,
)
from rehearsal_room.learner.trainer.trainer import Trainer, open_trainer
from tests.support.budgets import IS_LONG, repeats
from tests.support.forked import in_child
from tests.support.tiny_model import write_model
from tests.support.trainer_runs import largest_difference, random_batch, settings_of, weights_after

STEPS = 6
EVERY = 2  # batches between two checkpoints

Int64Array = dict[
    int, tuple[float, float, float, float]
]  # by batch: loss, norm, rate, a random number


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "start", hidden=16, head_dim=8)


@pytest.fixture(scope="module")
def uninterrupted(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(folder, tmp_path_factory.mktemp("uninterrupted"))


def opened(folder: Path) -> Trainer:
    """A trainer whose learning rate changes per batch, and whose batches make two updates."""
    optimizer = {"warmup_steps": 2, "schedule": "linear", "minibatches": 2}
    return open_trainer(settings_of(folder, steps=STEPS, optimizer=optimizer))


def train(folder: Path, root: Path) -> tuple[Int64Array, dict[str, Tensor]]:
    """Train to the end, from the newest checkpoint if there is one."""
    trainer = opened(folder)
    progress = trainer.resume(root)
    assert progress == (None if progress is None else b"after %d" % trainer.num_steps)
    numbers: Int64Array = {}
    for step in range(trainer.num_steps, STEPS):
        report = trainer.step(random_batch(step, num_groups=2, num_suffixes=2, prefix=9))
        drawn = torch.rand(()).item()
        numbers[report.step] = (report.loss, report.grad_norm, report.lr, drawn)
        if report.step % EVERY == 0:
            trainer.save(root, b"after %d" % report.step, keep=1)
    return numbers, weights_after(trainer.model)


def call_before_each_action(act: Callable[[], None]) -> None:
    """From now on, call `act` before each update and before each file operation."""
    for owner, name in [
        *((os, name) for name in ("fsync", "mkdir", "rename", "unlink", "rmdir")),
        (torch.optim.AdamW, "step"),
    ]:
        setattr(owner, name, _with_call(act, getattr(owner, name)))


def _with_call(act: Callable[[], None], do: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        act()
        return do(*args, **kwargs)

    return wrapped


@pytest.mark.slow
def test_killed_at_any_moment_a_run_resumes_to_the_same_numbers(
    folder: Path, tmp_path: Path, uninterrupted: Any
) -> None:
    """Killed before an update, while a checkpoint is written, between its files, before or after it
    is renamed, or while an old one is removed: the resumed run gets the same losses, norms, rates
    and random numbers, and bit-identical weights. (`just test-long` tries every third moment.)"""
    moments = tmp_path / "moments"

    def count() -> None:
        call_before_each_action(lambda: moments.open("a").write(".") and None)
        train(folder, tmp_path / "counted")

    assert in_child(count) == 0
    found = set()
    for moment in range(1, moments.stat().st_size + 1, repeats(short=41, long=3)):
        root = tmp_path / str(moment)
        left = [moment]

        def kill(left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        def die(root: Path = root, kill: Callable[[], None] = kill) -> None:
            call_before_each_action(kill)
            train(folder, root)

        assert in_child(die) == -signal.SIGKILL
        numbers, weights = train(folder, root)
        found.add((min(numbers, default=STEPS + 1), *sorted(path.name for path in root.iterdir())))
        expected, expected_weights = uninterrupted
        assert numbers == {step: expected[step] for step in numbers}
        assert largest_difference(weights, expected_weights) == 0
        shutil.rmtree(root)
    # The kills hit all stages: before the first checkpoint, and after each but the last.
    assert {first for first, *_ in found} >= {1, 3, 5} or not IS_LONG


@pytest.mark.slow
def test_without_the_optimisers_state_the_numbers_differ(folder: Path, tmp_path: Path) -> None:
    """Weights alone are not enough: without the optimiser's state the numbers differ, so the test
    above can fail."""
    trainer = opened(folder)
    trainer.step(random_batch(0))
    trainer.save(tmp_path, b"", keep=1)
    expected = trainer.step(random_batch(1))
    resumed = opened(folder)
    resumed.resume(tmp_path)
    resumed.optimizer.state.clear()
    report = resumed.step(random_batch(1))
    assert report.grad_norm != expected.grad_norm  # of the second update
    assert largest_difference(weights_after(resumed.model), weights_after(trainer.model)) > 1e-4


def test_without_a_checkpoint_nothing_is_resumed(folder: Path, tmp_path: Path) -> None:
    """A missing folder and an empty one have no checkpoint."""
    trainer = opened(folder)
    before = weights_after(trainer.model)
    assert trainer.resume(tmp_path / "nowhere") is None
    assert trainer.resume(tmp_path) is None
    assert trainer.num_steps == 0
    assert largest_difference(weights_after(trainer.model), before) == 0


@pytest.mark.slow
def test_the_newest_checkpoints_are_kept(folder: Path, tmp_path: Path) -> None:
    """The newest `keep` checkpoints stay, at least one. Partial folders that a kill left are
    removed. A second checkpoint after the same batch gets its own folder."""
    trainer = opened(folder)
    (tmp_path / ".checkpoint-000001.partial").mkdir()
    (tmp_path / ".checkpoint-000009.partial").mkdir()
    for progress in (b"a", b"b", b"c"):
        trainer.save(tmp_path, progress, keep=2)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["checkpoint-000002", "checkpoint-000003"]
    assert trainer.resume(tmp_path) == b"c"
    trainer.save(tmp_path, b"d", keep=0)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-000004"]
    assert trainer.resume(tmp_path) == b"d"


def test_a_checkpoint_of_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    """The error names the checkpoint, its model, and the expected model."""
    root = tmp_path / "checkpoints"
    opened(folder).save(root, b"", keep=1)
    other = write_model(tmp_path / "other", hidden=16, head_dim=8, layers=1)
    with pytest.raises(CheckpointError) as caught:
        opened(other).resume(root)
    message = str(caught.value)
    assert message.startswith(
        f"{root / 'checkpoint-000001'}: this is a checkpoint of the model {folder} "
    )
    assert f"not of {other} (Qwen3ForCausalLM, 8,992 parameters, digest " in message
    assert message.count("Qwen3ForCausalLM") == 2

    retokenised = shutil.copytree(folder, tmp_path / "retokenised")
    (retokenised / "tokenizer.json").write_bytes((other / "tokenizer.json").read_bytes() + b" ")
    with pytest.raises(CheckpointError, match=r"checkpoint of the model .*, not of .*retokenised"):
        opened(retokenised).resume(root)

    turned = shutil.copytree(folder, tmp_path / "turned")
    config = json.loads((turned / "config.json").read_bytes())
    config["rope_parameters"]["rope_theta"] *= 10  # the same weights compute something else
    (turned / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"checkpoint of the model .*, not of .*turned"):
        opened(turned).resume(root)

    opened(shutil.copytree(folder, tmp_path / "moved")).resume(root)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("checkpoint.json", r"checkpoint\.json: cannot be read: "),
        (".metadata", "checkpoint-000001: cannot be read: "),
        ("__0_0.distcp", "checkpoint-000001: cannot be read: "),
    ],
)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("has_checksums", [False, True])
def test_a_broken_file_is_named(
    folder: Path,
    tmp_path: Path,
    name: str,
    message: str,
    missing: bool,
    has_checksums: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A missing or truncated file is an error that names it, and never leads to other numbers; no
    traceback is logged. Checkpoints of earlier versions have no checksums."""
    opened(folder).save(tmp_path, b"", keep=1)
    path = tmp_path / "checkpoint-000001" / name
    size = path.stat().st_size
    if missing:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:100])
    if has_checksums:
        fault = f"it has 100 bytes, and {size:,} were written"
        message = rf"{name}: {'cannot be read: No such file' if missing else '.*' + fault}"
    else:
        _forget_checksums(tmp_path)
    with pytest.raises(CheckpointError, match=message) as caught:
        opened(folder).resume(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: no checkpoint can be read: ")
    assert "miniz" not in str(caught.value)
    assert [record for record in caplog.records if record.name == "root"] == []


@pytest.mark.parametrize("content", [None, b'{"a\\u0000": [1, 2]}', b'{"..": [1, 2]}', b"{"])
def test_lost_or_damaged_checksums_cost_one_checkpoint(
    folder: Path, tmp_path: Path, content: bytes | None
) -> None:
    """Without its checksums a checkpoint may hold anything: the one before it, which has them, is
    resumed from, and kept. Where no checkpoint has any, as earlier versions wrote them, the newest
    is taken."""
    trainer = opened(folder)
    trainer.save(tmp_path, b"older", keep=1)
    trainer.save(tmp_path, b"newer", keep=2)
    older, newer = (tmp_path / f"checkpoint-00000{number}" / "checksums.json" for number in (1, 2))
    if content is None:
        newer.unlink()
    else:
        newer.write_bytes(content)
    with capture_logs() as logs:
        assert trainer.resume(tmp_path) == b"older"
    assert [one["event"] for one in logs] == ["checkpoint_damaged"]
    keep_newest(tmp_path, 1)
    assert newest_first(tmp_path) == [newer.parent, older.parent]
    older.unlink()
    newer.unlink(missing_ok=True)
    assert trainer.resume(tmp_path) == b"newer"


def test_flipped_bytes_cost_one_checkpoint(folder: Path, tmp_path: Path) -> None:
    """One flipped byte anywhere in the newest checkpoint: it is named, the one before it is resumed
    from with its numbers, and it is kept until there are `keep` good ones. (Eight bytes; fifty in
    `just test-long`.)"""
    flips = repeats(short=8, long=50)
    trainer = opened(folder)
    trainer.step(random_batch(0))
    trainer.save(tmp_path, b"older", keep=2)
    expected = weights_after(trainer.model)
    trainer.step(random_batch(1))
    trainer.save(tmp_path, b"newer", keep=2)
    random = Random(0)
    files = sorted((tmp_path / "checkpoint-000002").iterdir())
    assert len(files) == 4
    for number in range(flips):
        file = files[number % len(files)]
        data = file.read_bytes()
        at = random.randrange(len(data))
        file.write_bytes(data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :])
        with capture_logs() as logs:
            assert trainer.resume(tmp_path) == b"older", (file, at)
        assert [one["event"] for one in logs] == ["checkpoint_damaged"]
        assert f"{tmp_path / 'checkpoint-000002'}/" in logs[0]["why"]
        assert largest_difference(weights_after(trainer.model), expected) == 0
        if number < flips - 1:
            file.write_bytes(data)
    trainer.save(tmp_path, b"third", keep=2)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["checkpoint-000001", "checkpoint-000002", "checkpoint-000003"]
    trainer.save(tmp_path, b"fourth", keep=2)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["checkpoint-000003", "checkpoint-000004"]


def _forget_checksums(root: Path) -> None:
    """Make checkpoints as earlier versions wrote them."""
    for path in root.glob("*/checksums.json"):
        path.unlink()


class _Attack:
    """A value whose pickle calls a function of its author's choice."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._trace),)


def test_the_metadata_of_a_checkpoint_call_nothing(folder: Path, tmp_path: Path) -> None:
    """They are a pickle, and a checkpoint may come from anybody."""
    opened(folder).save(tmp_path, b"", keep=1)
    trace = tmp_path / "trace"
    path = tmp_path / "checkpoint-000001" / ".metadata"
    path.write_bytes(pickle.dumps(_Attack(trace)))
    _forget_checksums(tmp_path)
    with pytest.raises(CheckpointError, match=r"names posix\.mkdir, which the format lacks"):
        opened(folder).resume(tmp_path)
    assert not trace.exists()


def test_the_values_of_a_checkpoint_call_nothing(folder: Path, tmp_path: Path) -> None:
    """Numbers beside the tensors are pickles, too."""
    trace = tmp_path / "trace"
    manifest = CheckpointManifest(1, Identity("", "", 0, ""), b"", 1)
    save(tmp_path, {"rate": _Attack(trace)}, manifest, Processes())
    trace.rmdir() if trace.exists() else None
    with pytest.raises(CheckpointError, match="cannot be read"):
        load(tmp_path / "checkpoint-000001", {"rate": 0.5}, Processes())
    assert not trace.exists()


def test_a_checkpoint_of_an_older_format_is_refused(folder: Path, tmp_path: Path) -> None:
    """The error names the checkpoint, both formats, and what to do."""
    opened(folder).save(tmp_path, b"", keep=1)
    path = tmp_path / "checkpoint-000001" / "checkpoint.json"
    manifest = json.loads(path.read_bytes())
    manifest["place"] = manifest.pop("progress")
    path.write_text(json.dumps(manifest | {"format": 1}))
    _forget_checksums(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        opened(folder).resume(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'checkpoint-000001'}: the checkpoint has format 1, and this version reads"
        " only format 2: start a new run"
    )


def test_a_truncated_archive_is_explained() -> None:
    """torch reports a full disk as positions in its file."""
    message = "[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598"
    cause = "a file could not be written completely; is the disk full?"
    assert reason(RuntimeError(message)) == f"{cause} ({message})"


@pytest.mark.slow
def test_a_full_disk_costs_no_checkpoint(folder: Path, tmp_path: Path) -> None:
    """If the disk fills up while a checkpoint is written, the error names it and the cause, the
    previous checkpoint stays and can be resumed from, and with free space the next one is
    written."""

    def fill() -> None:
        trainer = opened(folder)
        trainer.step(random_batch(0))
        trainer.save(tmp_path, b"good", keep=1)
        trainer.step(random_batch(1))
        _, maximum = resource.getrlimit(resource.RLIMIT_FSIZE)
        for limit in (100, 20_000):  # too small for the manifest, too small for the tensors
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, maximum))
            message = r"checkpoint-000002: cannot be written: .*File too large"
            with pytest.raises(CheckpointError, match=message):
                trainer.save(tmp_path, b"bad", keep=1)
            assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-000001"]
        resource.setrlimit(resource.RLIMIT_FSIZE, (maximum, maximum))
        expected = trainer.step(random_batch(2)).grad_norm
        resumed = opened(folder)
        assert resumed.resume(tmp_path) == b"good"
        resumed.step(random_batch(1))
        assert resumed.step(random_batch(2)).grad_norm == expected
        resumed.save(tmp_path, b"better", keep=1)
        assert newest_first(tmp_path)[0] == tmp_path / "checkpoint-000002"

    assert in_child(fill) == 0
