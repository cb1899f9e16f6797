"""The self-tests of a run: which policies are tested, and the log-probabilities of a server."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from rehearsal_room.learner.config.runs import runs_of
from rehearsal_room.learner.config.settings import ComputeSettings, TrainSettings
from rehearsal_room.learner.core.errors import ModelError
from rehearsal_room.learner.inference.local_policy import LocalPolicy, LocalSettings
from rehearsal_room.learner.selftest.start import (
    check_logprobs,
    check_server,
    check_start,
    sampled_replies,
)
from tests.support.tiny_model import write_model

CPU = ComputeSettings(device="cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "start", hidden=16, layers=1)


@pytest.mark.parametrize(
    ("changes", "is_sampled"),
    [
        ({}, True),
        ({"rollouts": {"policy": "vllm"}}, False),
        ({"data": {"logs": ["runs/one"]}}, False),
    ],
)
def test_the_sampling_engine_is_tested_where_it_samples(
    model: Path, changes: dict[str, Any], is_sampled: bool
) -> None:
    """The engine is part of the self-test if a policy of the run is `local`; with a model server,
    or from logs, only the back end is."""
    rollouts = {"scenarios": ["shop_support"], "group_size": 2, **changes.get("rollouts", {})}
    table = {"model": str(model), "compute": {"device": "cpu"}, **changes, "rollouts": rollouts}
    settings = msgspec.convert(table, TrainSettings)
    report = check_start(settings, runs_of(settings))
    assert report.backend.largest < 1e-5
    assert (report.sampler is not None) == is_sampled


@pytest.mark.slow
async def test_a_sampler_with_the_weights_of_the_folder(model: Path, tmp_path: Path) -> None:
    """A sampler with the folder's weights passes; one with other weights is refused, with the
    folder's name."""
    other = write_model(tmp_path / "other", hidden=16, layers=1, seed=1)
    async with LocalPolicy(LocalSettings(str(model), compute=CPU)) as policy:
        assert await check_server(policy, model, CPU) < 1e-5
        await policy.take("v1", other)
        assert await check_server(policy, other, CPU) < 1e-5
        with pytest.raises(ModelError, match=r"start: policy 'vllm' .* have other weights"):
            await check_server(policy, model, CPU)


async def test_noise_of_bfloat16_passes_and_a_temperature_does_not(model: Path) -> None:
    """Rounding as in bfloat16 is within the bound of a server; log-probabilities of a distribution
    at another temperature are not."""
    async with LocalPolicy(LocalSettings(str(model), compute=CPU)) as policy:
        replies, logprobs = await sampled_replies(policy.backend(), policy.chat.vocabulary_size)
    assert len(replies) == 4
    rounded = logprobs.bfloat16().float()
    assert 0 < check_logprobs(model, CPU, replies, rounded) < 0.02
    with pytest.raises(ModelError, match="does not give the log-probabilities of these weights"):
        check_logprobs(model, CPU, replies, logprobs * 1.2)
    broken = logprobs.clone()
    broken[3] = torch.nan
    with pytest.raises(ModelError, match="differ by nan"):
        check_logprobs(model, CPU, replies, broken)
