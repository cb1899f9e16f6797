"""The demonstration's random model: its heads copy before any training."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import Qwen3ForCausalLM

from rehearsal_room.demo.model import ModelSize, write_start
from rehearsal_room.demo.tokenizer import train_tokenizer
from rehearsal_room.demo.worlds import prompt_texts
from rehearsal_room.harness.dialects.hermes import Hermes
from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.model.pretrained import open_model
from rehearsal_room.scenarios.microworlds.offices import OfficeShape, write_offices


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Qwen3ForCausalLM:
    return made(tmp_path_factory.mktemp("start"), ModelSize())


def made(folder: Path, size: ModelSize) -> Qwen3ForCausalLM:
    """A model with random weights, opened."""
    worlds = write_offices(
        folder / "worlds", OfficeShape(), name="w", seed=1, count=4, split="train", each=6
    )
    tokenizer = train_tokenizer(*prompt_texts(worlds, Hermes()), vocab_size=600)
    write_start(folder / "model", tokenizer, size, seed=3)
    opened = open_model(folder / "model", ComputeSettings(device="cpu"))
    assert isinstance(opened, Qwen3ForCausalLM)
    return opened


@torch.no_grad()
def next_token(model: Qwen3ForCausalLM, tokens: list[int]) -> Tensor:
    """The log-probabilities of the next token."""
    logits = model(input_ids=torch.tensor([tokens])).logits[0, -1]
    return logits.log_softmax(-1)


def some_tokens(seed: int, number: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    drawn: list[int] = (10 + torch.randperm(250, generator=generator)[:number]).tolist()
    return drawn


def test_the_model_repeats_what_followed_a_token_before(
    model: Qwen3ForCausalLM,
) -> None:
    """After `a b … a` the model predicts b, for most a and b (an induction head)."""
    right = 0
    for seed in range(40):
        tokens = some_tokens(seed, 40)
        right += int(next_token(model, [*tokens, tokens[7]]).argmax()) == tokens[8]
    assert right >= 20


def test_the_model_finds_a_value_by_the_token_two_before_it(model: Qwen3ForCausalLM) -> None:
    """After `n _ v … n :` v is more likely than without the n, for most n and v."""
    risen = 0
    for seed in range(40):
        *tokens, other, sign = some_tokens(seed, 42)
        asked = next_token(model, [*tokens, tokens[7], sign])[tokens[9]]
        unasked = next_token(model, [*tokens, other, sign])[tokens[9]]
        risen += bool(asked > unasked + 0.5)
    assert risen >= 24


def test_a_model_that_follows_finds_the_next_of_a_list(tmp_path: Path) -> None:
    """Where a list `… x _ y …` came first and then `n _ x`, y is more likely after `n _` than where
    `n _ z` came, for most x, y and n."""
    follower = made(tmp_path, ModelSize(hidden=192, follows=True))
    risen = 0
    for seed in range(40):
        *listed, name, sign, other = some_tokens(seed, 43)
        asked = next_token(follower, [*listed, name, sign, listed[7], 9, name, sign])[listed[9]]
        unasked = next_token(follower, [*listed, name, sign, other, 9, name, sign])[listed[9]]
        risen += bool(asked > unasked + 0.5)
    assert risen >= 24


def test_random_weights_alone_copy_nothing(model: Qwen3ForCausalLM) -> None:
    """The first test above fails for a model whose heads were not initialized."""
    torch.manual_seed(0)
    plain = Qwen3ForCausalLM(model.config).eval()
    right = 0
    for seed in range(40):
        tokens = some_tokens(seed, 40)
        right += int(next_token(plain, [*tokens, tokens[7]]).argmax()) == tokens[8]
    assert right <= 4


def test_equal_seeds_give_equal_weights(tmp_path: Path) -> None:
    """Different seeds give different weights."""
    worlds = write_offices(
        tmp_path / "worlds", OfficeShape(), name="w", seed=1, count=2, split="train", each=6
    )
    tokenizer = train_tokenizer(*prompt_texts(worlds, Hermes()), vocab_size=500)
    small = ModelSize(layers=2)
    for name, seed in (("one", 5), ("two", 5), ("other", 6)):
        assert write_start(tmp_path / name, tokenizer, small, seed=seed) > 100_000
    weights = {
        name: (tmp_path / name / "model.safetensors").read_bytes()
        for name in ("one", "two", "other")
    }
    assert weights["one"] == weights["two"] != weights["other"]
