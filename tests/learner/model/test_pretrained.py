"""Models are opened from Hugging Face directories and published as such."""

import json
import resource
import shutil
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from harness.core.policy_card import PolicyCard, read_card
from learner.config.settings import ComputeSettings
from learner.core.errors import CheckpointError, ConfigError, ModelError
from learner.model.pretrained import open_model
from learner.trainer.trainer import Trainer, open_trainer
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


def test_what_is_published_is_what_was_trained(
    folder: Path, trained: Trainer, tmp_path: Path
) -> None:
    """A published folder has the trained weights bit by bit, the tokenizer and other files of the
    start byte by byte, its own card, and transformers opens it."""
    published = tmp_path / "versions" / "v1"
    trained.publish(published, CARD)
    weights = weights_after(trained.model)
    assert largest_difference(weights_after(open_model(published, CPU)), weights) == 0
    assert largest_difference(weights_after(open_model(folder, CPU)), weights) > 0
    assert read_card(published) == CARD
    names = {path.name for path in folder.iterdir()}
    assert {path.name for path in published.iterdir()} == names | {"rehearsal.json"}
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "notes.txt"):
        assert (published / name).read_bytes() == (folder / name).read_bytes()
    assert [path.name for path in (tmp_path / "versions").iterdir()] == ["v1"]
    config, start = (json.loads((path / "config.json").read_text()) for path in (published, folder))
    assert config == start
    assert AutoModelForCausalLM.from_pretrained(published).dtype == torch.float32


def test_what_computes_in_bfloat16_is_published_in_it(folder: Path, tmp_path: Path) -> None:
    """Weights are rounded once, when they are published, and the config says so."""
    trainer = open_trainer(settings_of(folder, compute={"dtype": "bfloat16"}))
    trainer.publish(tmp_path / "v1", CARD)
    stored = load_file(tmp_path / "v1" / "model.safetensors")
    rounded = {name: w.to(torch.bfloat16) for name, w in weights_after(trainer.model).items()}
    assert {w.dtype for w in stored.values()} == {torch.bfloat16}
    assert largest_difference(stored, rounded) == 0
    assert json.loads((tmp_path / "v1" / "config.json").read_text())["dtype"] == "bfloat16"


def test_nothing_is_published_twice(trained: Trainer, tmp_path: Path) -> None:
    """A version that is there is not written over."""
    trained.publish(tmp_path / "v1", CARD)
    before = (tmp_path / "v1" / "rehearsal.json").read_bytes()
    with pytest.raises(CheckpointError, match="v1: it is there already"):
        trained.publish(tmp_path / "v1", msgspec.structs.replace(CARD, step=9))
    assert (tmp_path / "v1" / "rehearsal.json").read_bytes() == before


def test_a_full_disk_leaves_nothing_half_published(trained: Trainer, tmp_path: Path) -> None:
    """When the disk is full, the error names the folder and the cause, the version before stays,
    and of the new one nothing does."""
    trained.publish(tmp_path / "v1", CARD)

    def publish() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        with pytest.raises(CheckpointError, match=r"v2: it cannot be written: .*File too large"):
            trained.publish(tmp_path / "v2", CARD)

    assert in_child(publish) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["v1"]


def test_where_nothing_can_be_written(trained: Trainer, tmp_path: Path) -> None:
    """A folder in which nothing can be made is named."""
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"file/v1: it cannot be written: Not a directory"):
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
    ("spoil", "said"),
    [
        (shutil.rmtree, "there is no such folder, so there is no model to train"),
        (lambda f: _without(f, "config.json"), "it has no config.json, so it is no Hugging Face"),
        (lambda f: _without(f, "tokenizer.json"), "it has no tokenizer.json"),
        (lambda f: _without(f, "model.safetensors"), "its model cannot be opened: "),
        (lambda f: (f / "config.json").write_text("{"), "its model cannot be opened: "),
        (lambda f: _config(f, model_type="nonesuch"), "its model cannot be opened: .*nonesuch"),
        (
            lambda f: _config(f, hidden_size="x"),
            "its model cannot be opened: .*hidden_size.*got str",
        ),
        (
            lambda f: _config(f, num_hidden_layers=3),
            "its model cannot be opened: .*num_hidden_layers",
        ),
        (lambda f: _config(f, model_type="bert"), r"its weights lack bert\."),
        (
            lambda f: _config(f, hidden_size=32),
            r"its weight .* shape \[366, 16\], by .* \[366, 32\]",
        ),
        (_lose_a_weight, r"its weights lack model\.layers\.1\.mlp\.up_proj\.weight"),
        (_cut, "its model cannot be opened: "),
    ],
)
def test_what_is_no_model_is_named(folder: Path, tmp_path: Path, spoil, said: str) -> None:
    """A folder that holds no model, or not all of it, is refused; name and fault are told."""
    spoiled = shutil.copytree(folder, tmp_path / "spoiled")
    spoil(spoiled)
    with pytest.raises(ModelError, match=f"spoiled: {said}"):
        open_model(spoiled, CPU)


def test_a_reference_of_another_vocabulary_is_named(folder: Path, tmp_path: Path) -> None:
    """A divergence between distributions over different tokens means nothing: the reference's
    folder is told, and both numbers of tokens."""
    other = write_model(tmp_path / "other", hidden=16, head_dim=8, vocab_size=500)
    settings = settings_of(folder, loss={"kl": 0.1, "reference": str(other)})
    with pytest.raises(ModelError) as caught:
        open_trainer(settings)
    assert str(caught.value) == (
        f"loss.reference: {other} has 500 tokens, and the model that is trained has 366"
    )


def test_a_device_that_is_not_there_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that torch does not know, or a GPU where there is none, is the setting's fault."""
    with pytest.raises(ConfigError, match=r"compute\.device: 'gpu' is no device that torch knows"):
        open_model(folder, ComputeSettings(device="gpu"))
    with pytest.raises(ConfigError, match=r"compute\.device: 'meta' is neither cpu nor cuda"):
        open_model(folder, ComputeSettings(device="meta"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"compute\.device: 'cuda' is wanted, and torch finds no"):
        open_model(folder, ComputeSettings(device="cuda"))
    assert open_model(folder, ComputeSettings()).device == torch.device("cpu")
