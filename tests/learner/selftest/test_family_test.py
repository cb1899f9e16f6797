"""A back end or sampler that does not give the model's own numbers is refused before training."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedConfig

from rehearsal_room.learner.backends import attention, forward
from rehearsal_room.learner.backends.naive import Naive
from rehearsal_room.learner.backends.packed import Packed
from rehearsal_room.learner.backends.twopass import TwoPass
from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.core.errors import ConfigError, ModelError
from rehearsal_room.learner.inference import attention as engine_attention
from rehearsal_room.learner.inference.engine import Engine, SamplingRequest
from rehearsal_room.learner.model.pretrained import quiet, without_noise
from rehearsal_room.learner.selftest.copies import copy_of
from rehearsal_room.learner.selftest.family_test import FamilyReport, check_family
from tests.support.budgets import only_long
from tests.support.families import config_of
from tests.support.prefix_groups import prefix_group_of

Patch = Callable[[pytest.MonkeyPatch], None]


def check(config: PreTrainedConfig, *, sampler: bool = False, **compute: Any) -> FamilyReport:
    return check_family(config, ComputeSettings(**compute), sampler=sampler)


def forget(name: str) -> Patch:
    """The attention of back ends computes without a window, soft cap or sinks."""

    def breaks(patch: pytest.MonkeyPatch) -> None:
        for module in (attention, engine_attention):
            right = module.form_of
            patch.setattr(
                module, "form_of", lambda *a, right=right: right(*a)._replace(**{name: None})
            )

    return breaks


def the_head_alone(patch: pytest.MonkeyPatch) -> None:
    """Logits are those of the last matrix: no scaling, no soft cap."""

    def logits(model: Any, _own: object, decoded: Any) -> Tensor:
        found: Tensor = model.get_output_embeddings()(decoded.last_hidden_state[0])
        return found

    patch.setattr(forward, "_logits", logits)


def a_gradient_of_double_size(patch: pytest.MonkeyPatch) -> None:
    right = TwoPass.backward
    patch.setattr(
        TwoPass,
        "backward",
        lambda self, model, group, loss_of: right(
            self, model, group, lambda *numbers: 2 * loss_of(*numbers)
        ),
    )


def suffixes_without_a_window(patch: pytest.MonkeyPatch) -> None:
    """A window is forgotten where it ends within the prefix."""
    right = attention.attend_masked
    patch.setattr(
        attention,
        "attend_masked",
        lambda own, prefix, lengths, form: right(
            own, prefix, lengths, form._replace(window=None) if prefix else form
        ),
    )


@pytest.mark.parametrize(
    ("family", "breaks"),
    [
        ("Gemma 2", forget("softcap")),
        pytest.param("Gemma 2", the_head_alone, marks=only_long),
        ("Mistral", forget("window")),
        ("Mistral", suffixes_without_a_window),
        ("gpt-oss", forget("sinks")),
        ("Granite", the_head_alone),
        pytest.param("Cohere", the_head_alone, marks=only_long),
        ("Llama", a_gradient_of_double_size),
    ],
)
def test_what_a_backend_forgets_is_refused(
    monkeypatch: pytest.MonkeyPatch, family: str, breaks: Patch
) -> None:
    """A family is right; once its window, soft cap, sinks, head scaling or the size of the gradient
    are forgotten, it is refused with its name and the back end to use instead. (Other families'
    scaled heads: `just test-long`.)"""
    config = config_of(family)
    assert check(config).backend.largest <= 1e-5
    breaks(monkeypatch)
    message = r"ForCausalLM: backend 'twopass' does not give .* Set compute\.backend = 'naive'$"
    with pytest.raises(ModelError, match=message):
        check(config)


@pytest.mark.parametrize(
    ("family", "breaks"),
    [
        ("Gemma 2", forget("softcap")),
        ("Mistral", forget("window")),
        ("gpt-oss", forget("sinks")),
    ],
)
def test_what_the_engine_forgets_is_refused(
    monkeypatch: pytest.MonkeyPatch, family: str, breaks: Patch
) -> None:
    """The same holds for the sampling engine, which is tested on its own."""
    config = config_of(family)
    found = check(config, sampler=True, backend="naive").sampler
    assert found is not None
    assert found <= 1e-5
    breaks(monkeypatch)
    with pytest.raises(ModelError, match=r"policy 'local' does not give .* Use policy 'vllm'$"):
        check(config, sampler=True, backend="naive")


def test_the_size_of_the_gradient_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient of twice the size has cosine 1 and norm x 2, and the message says so."""
    a_gradient_of_double_size(monkeypatch)
    with pytest.raises(ModelError, match=r"gradient by 1 \(cosine 1\.000, norm x 2;"):
        check(config_of("Llama"))


@pytest.mark.slow
@pytest.mark.parametrize("family", [pytest.param("Qwen3.5", marks=only_long), "LFM2"])
def test_recurrent_state_is_refused(family: str) -> None:
    """Families with recurrent layers are refused by a sentence that names `naive`; `naive` is right
    for them, and policy `local` is refused. (Linear attention: `just test-long`.)"""
    config = config_of(family)
    for backend in ("twopass", "packed"):
        with pytest.raises(ModelError, match=r"cannot share a prefix\. Set .* = 'naive'$"):
            check(config, backend=backend)
    with pytest.raises(ModelError, match=r"cannot be sampled in process\. Use policy 'vllm'$"):
        check(config, backend="naive", sampler=True)


def test_noise_is_refused() -> None:
    """A model whose forward is random, here by dropout that no config field turned off, is
    refused."""
    with quiet():
        fields = config_of("GPT-2").to_dict() | {"resid_pdrop": 0.1}
        noisy = AutoConfig.for_model("gpt2").from_dict(fields)
    with pytest.raises(ModelError, match=r"a second plain forward .* cannot be trained"):
        check(noisy)


def test_a_model_that_sees_later_tokens_is_refused() -> None:
    """A model that is not causal gives other numbers beside longer rows, and is refused."""
    with quiet():
        bert = without_noise(
            AutoConfig.for_model("bert", hidden_size=32, num_attention_heads=4, vocab_size=128)
        )
    with pytest.raises(ModelError, match="BertLMHeadModel: the plain forward of a batch"):
        check(bert, backend="naive")


def test_a_config_without_a_copy_is_refused() -> None:
    """A family of which no small copy can be made is refused, and never trained untested."""
    config = config_of("Llama")
    config.num_attention_heads = 0
    with pytest.raises(ModelError, match=r"its plain forward fails: .* cannot be trained"):
        check(config)


def test_another_back_end_is_named_only_if_it_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the first back end that passes the test itself, and none if all fail."""
    monkeypatch.setattr(Packed, "backward", lambda *_: None)
    with pytest.raises(ModelError, match=r"'packed' fails: .* Set .* = 'twopass'$"):
        check(config_of("Llama"), backend="packed")
    for backend in (TwoPass, Naive):
        monkeypatch.setattr(backend, "backward", lambda *_: None)
    with pytest.raises(ModelError, match=r"This family cannot be trained$"):
        check(config_of("Llama"), backend="packed")


def test_flex_is_refused_without_a_gpu() -> None:
    """Back end `flex` on a CPU is an error at the start, not at the first batch."""
    with pytest.raises(ConfigError, match="'flex' needs a GPU"):
        check(config_of("Llama"), backend="flex", device="cpu")


@pytest.mark.slow
def test_bfloat16_has_a_bound_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bfloat16 a right back end is within three times the noise of plain forwards; one that
    forgets a window only there is refused."""
    config = config_of("Mistral")
    report = check(config, dtype="bfloat16", sampler=True)
    assert report.low is not None
    assert report.low.largest > 1e-3
    assert report.low_sampler is not None
    assert report.low_sampler > 1e-5
    right = attention.form_of

    def form_of(module: nn.Module, query: Tensor, *rest: Any) -> Any:
        form = right(module, query, *rest)
        return form._replace(window=None) if torch.is_autocast_enabled("cpu") else form

    for module, message in (
        (engine_attention, "policy 'local' in bfloat16"),
        (attention, "backend 'twopass' in bfloat16"),
    ):
        monkeypatch.setattr(module, "form_of", form_of)
        with pytest.raises(ModelError, match=f"{message} does not give .* Set compute.dtype"):
            check(config, dtype="bfloat16", sampler=True)


def test_one_unlucky_copy_is_not_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rounding to bfloat16 makes one copy fail, copies with other weights decide; in float32
    every failure is a refusal."""
    right, calls = TwoPass.backward, []

    def backward(self: TwoPass, model: Any, group: Any, loss_of: Any) -> None:
        calls.append(group)
        size = 2.0 if len(calls) == 2 else 1.0  # the first one is in float32
        right(self, model, group, lambda *numbers: size * loss_of(*numbers))

    monkeypatch.setattr(TwoPass, "backward", backward)
    assert check(config_of("Mixtral"), dtype="bfloat16").low is not None
    assert len(calls) == 3


def test_gradient_checkpointing_is_tested_as_configured() -> None:
    """With gradient checkpointing the copy computes its layers again, with the same result."""
    assert check(config_of("gpt-oss"), gradient_checkpointing=True).backend.largest <= 1e-5


def test_the_self_test_leaves_the_random_numbers_alone() -> None:
    """A run with the same seed draws the same numbers after the self-test."""
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    check(config_of("Llama"), sampler=True)
    assert torch.equal(torch.rand(2), expected)


def test_rows_that_change_their_rotation_are_refused() -> None:
    """Under `longrope`, rows up to the original length are computed, longer ones are refused by
    back end and engine."""
    model = copy_of(config_of("Phi-3 (longrope)")).train()  # changes beyond 64 tokens
    backend = TwoPass(100)
    backend.score(model, prefix_group_of(50, [[(8, 6)]] * 2))
    message = r"has 65 tokens, but beyond 64 rope 'longrope' changes all positions"
    with pytest.raises(ModelError, match=message):
        backend.score(model, prefix_group_of(50, [[(8, 7)]] * 2))
    engine = Engine(model, end_ids=frozenset())
    engine.add(SamplingRequest(list(range(8, 70)), max_tokens=4))
    with pytest.raises(ModelError, match=message):
        while engine.num_requests:
            engine.step()
