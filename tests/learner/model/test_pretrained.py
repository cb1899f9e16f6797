"""Models are opened from Hugging Face directories and published as Hugging Face directories."""

import json
import resource
import shutil
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config, MixtralConfig

from rehearsal_room.harness.core.policy_card import PolicyCard, read_card
from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.core.errors import CheckpointError, ConfigError, ModelError
from rehearsal_room.learner.model.pretrained import open_model, without_noise
from rehearsal_room.learner.trainer.trainer import Trainer, open_trainer
from tests.support.forked import in_child
from tests.support.tiny_model import write_model
from tests.support.trainer_runs import largest_difference, random_batch, settings_of, weights_after

CARD = PolicyCard("v1", "last:3", "f00d", "hermes", step=1)
CPU = ComputeSettings(device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_model(tmp_path_factory.mktemp("model") / "start", hidden=16, head_dim=8)
    (folder / "notes.txt").write_text("kept", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def trained(folder: Path) -> Trainer:
    trainer = open_trainer(settings_of(folder))
    trainer.step(random_batch(0))
    return trainer


def test_the_published_weights_are_the_trained_ones(
    folder: Path, trained: Trainer, tmp_path: Path
) -> None:
    """A published folder has bit-identical trained weights, byte-identical tokenizer and other
    files of the start folder, and a model card; transformers can open it."""
    published = tmp_path / "versions" / "v1"
    trained.publish(published, CARD)
    weights = weights_after(trained.model)
    assert largest_difference(weights_after(open_model(published, CPU)), weights) == 0
    assert largest_difference(weights_after(open_model(folder, CPU)), weights) > 0
    assert read_card(published) == CARD
    names = {path.name for path in folder.iterdir()}
    assert {path.name for path in published.iterdir()} == names | {
        "rehearsal.json",
        "checksums.json",
    }
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "notes.txt"):
        assert (published / name).read_bytes() == (folder / name).read_bytes()
    assert [path.name for path in (tmp_path / "versions").iterdir()] == ["v1"]
    config, start = (json.loads((path / "config.json").read_text()) for path in (published, folder))
    assert config == start
    assert AutoModelForCausalLM.from_pretrained(published).dtype == torch.float32


def test_a_bfloat16_run_publishes_bfloat16(folder: Path, tmp_path: Path) -> None:
    """Weights are rounded once, when they are published, and the config has that dtype."""
    trainer = open_trainer(settings_of(folder, compute={"dtype": "bfloat16"}))
    trainer.publish(tmp_path / "v1", CARD)
    stored = load_file(tmp_path / "v1" / "model.safetensors")
    rounded = {name: w.to(torch.bfloat16) for name, w in weights_after(trainer.model).items()}
    assert {w.dtype for w in stored.values()} == {torch.bfloat16}
    assert largest_difference(stored, rounded) == 0
    assert json.loads((tmp_path / "v1" / "config.json").read_text())["dtype"] == "bfloat16"


def test_nothing_is_published_twice(trained: Trainer, tmp_path: Path) -> None:
    """An existing version is not overwritten."""
    trained.publish(tmp_path / "v1", CARD)
    before = (tmp_path / "v1" / "rehearsal.json").read_bytes()
    with pytest.raises(CheckpointError, match="v1: the folder exists already"):
        trained.publish(tmp_path / "v1", msgspec.structs.replace(CARD, step=9))
    assert (tmp_path / "v1" / "rehearsal.json").read_bytes() == before


def test_a_full_disk_leaves_nothing_half_published(trained: Trainer, tmp_path: Path) -> None:
    """On a full disk, the error names the folder and the cause, the previous version stays, and
    nothing of the new one remains."""
    trained.publish(tmp_path / "v1", CARD)

    def publish() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        with pytest.raises(CheckpointError, match=r"v2: cannot be written: .*File too large"):
            trained.publish(tmp_path / "v2", CARD)

    assert in_child(publish) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["v1"]


def test_a_folder_that_cannot_be_created_is_named(trained: Trainer, tmp_path: Path) -> None:
    """The error names the folder and the cause."""
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"file/v1: cannot be written: Not a directory"):
        trained.publish(tmp_path / "file" / "v1", CARD)


def _without(folder: Path, name: str) -> None:
    (folder / name).unlink()


def _config(folder: Path, **fields: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def _lose_a_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _cut(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:1000])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shutil.rmtree, "the model folder does not exist"),
        (
            lambda f: _without(f, "config.json"),
            "not a Hugging Face model directory: config.json is missing",
        ),
        (lambda f: _without(f, "tokenizer.json"), ".*: tokenizer.json is missing"),
        (lambda f: _without(f, "model.safetensors"), "the model cannot be opened: "),
        (lambda f: (f / "config.json").write_text("{"), "the model cannot be opened: "),
        (lambda f: _config(f, model_type="nonesuch"), "the model cannot be opened: .*nonesuch"),
        (
            lambda f: _config(f, hidden_size="x"),
            "the model cannot be opened: .*hidden_size.*got str",
        ),
        (
            lambda f: _config(f, num_hidden_layers=3),
            "the model cannot be opened: .*num_hidden_layers",
        ),
        (lambda f: _config(f, model_type="bert"), r"the weights lack bert\."),
        (
            lambda f: _config(f, hidden_size=32),
            r"the weight .* shape \[366, 16\], but .* \[366, 32\]",
        ),
        (_lose_a_weight, r"the weights lack model\.layers\.1\.mlp\.up_proj\.weight"),
        (_cut, "the model cannot be opened: "),
    ],
)
def test_a_folder_without_a_complete_model_is_refused(
    folder: Path, tmp_path: Path, spoil, message: str
) -> None:
    """The error names the folder and the fault."""
    spoiled = shutil.copytree(folder, tmp_path / "spoiled")
    spoil(spoiled)
    with pytest.raises(ModelError, match=f"spoiled: {message}"):
        open_model(spoiled, CPU)


def test_the_code_of_a_model_folder_does_not_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is data: transformers would ask on the terminal whether to run its code, and it is
    not asked."""
    trace = tmp_path / "trace"
    spoiled = shutil.copytree(folder, tmp_path / "spoiled")
    (spoiled / "own.py").write_text(f"open({str(trace)!r}, 'w').close()\n", encoding="utf-8")
    classes = {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}
    _config(spoiled, model_type="own", auto_map=classes)
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(ModelError, match="spoiled: the model cannot be opened: "):
        open_model(spoiled, CPU)
    assert not trace.exists()


def test_a_reference_of_another_vocabulary_is_refused(folder: Path, tmp_path: Path) -> None:
    """A divergence between distributions over different tokens has no meaning: the error names the
    reference's folder and both numbers of tokens."""
    other = write_model(tmp_path / "other", hidden=16, head_dim=8, vocab_size=500)
    settings = settings_of(folder, loss={"kl": 0.1, "reference": str(other)})
    with pytest.raises(ModelError) as caught:
        open_trainer(settings)
    assert str(caught.value) == (
        f"loss.reference: {other} has 500 tokens, but the trained model has 366"
    )


def test_an_unavailable_device_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that torch does not have, and a GPU on a machine without one, are errors of the
    setting."""
    with pytest.raises(ConfigError, match=r"compute\.device: 'gpu' is not a device that torch kno"):
        open_model(folder, ComputeSettings(device="gpu"))
    with pytest.raises(
        ConfigError, match=r"compute\.device: 'meta' is neither a cpu nor a cuda device"
    ):
        open_model(folder, ComputeSettings(device="meta"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"compute\.device: 'cuda' needs a GPU, but torch finds"):
        open_model(folder, ComputeSettings(device="cuda"))
    assert open_model(folder, ComputeSettings()).device == torch.device("cpu")


def test_dropout_and_noise_are_off() -> None:
    """Every dropout and every noise of a router in config.json is 0 in an opened model;
    all else is as it was."""
    fields = {"resid_pdrop": 0.1, "embd_pdrop": 0.2, "attn_pdrop": 0.3, "layer_norm_epsilon": 0.5}
    config = without_noise(GPT2Config(**fields))
    assert (config.resid_pdrop, config.embd_pdrop, config.attn_pdrop) == (0, 0, 0)
    assert config.layer_norm_epsilon == 0.5
    assert without_noise(MixtralConfig(router_jitter_noise=0.1)).router_jitter_noise == 0


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_weights_that_were_cut_short_are_named(folder: Path, tmp_path: Path, kind: str) -> None:
    """In one sentence, as a copy that was broken off leaves them: transformers and torch raise a
    different error for each length."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    file = copy / "model.safetensors"
    if kind == "bin":
        weights = load_file(file)
        file.unlink()
        file = copy / "pytorch_model.bin"
        torch.save(weights, file)
    data = file.read_bytes()
    for size in (0, 4, 100, len(data) // 2, len(data) - 30):
        file.write_bytes(data[:size])
        with pytest.raises(ModelError) as caught:
            open_model(copy, CPU)
        why = "the model cannot be opened: a file of it is damaged or was cut short"
        assert str(caught.value) == f"{copy}: {why}", size
