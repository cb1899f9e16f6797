"""Sampling from a model in process."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedModel

from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.core.errors import ModelError
from rehearsal_room.learner.core.samples import Sample
from rehearsal_room.learner.inference.engine import Engine, SamplingRequest
from rehearsal_room.learner.inference.kv_cache import (
    PrefixTable,
    SequenceCache,
    as_tokens,
    shared_length,
)
from rehearsal_room.learner.inference.sampling import RandomDraws, sample_tokens
from rehearsal_room.learner.model.logprob_agreement import logprob_difference
from rehearsal_room.learner.model.pretrained import open_model
from rehearsal_room.learner.selftest.copies import copy_of
from tests.support.families import config_of
from tests.support.tiny_model import write_model

NUM_IDS = 300  # prompts have only the model's first ids
NONE: frozenset[int] = frozenset()  # no end tokens: every reply reaches its limit


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedModel:
    folder = write_model(tmp_path_factory.mktemp("model"), head_dim=16)
    return open_model(folder, ComputeSettings())


def ids(seed: int, count: int) -> list[int]:
    numbers: list[int] = np.random.default_rng(seed).integers(3, NUM_IDS, count).tolist()
    return numbers


def run(engine: Engine, requests: Sequence[SamplingRequest]) -> None:
    """Run the engine until all requests are done."""
    for request in requests:
        engine.add(request)
    while engine.num_requests:
        engine.step()


def sample_of(request: SamplingRequest) -> Sample:
    return Sample(
        request.prompt,
        np.array(request.tokens, np.int32),
        np.array(request.logprobs, np.float32),
        0.0,
        0,
        "v0",
    )


def largest_difference(model: PreTrainedModel, requests: Sequence[SamplingRequest]) -> float:
    return logprob_difference(model, [sample_of(request) for request in requests])


@pytest.mark.parametrize("max_prefill", [2048, 16])
def test_sampler_and_trainer_agree(model: PreTrainedModel, max_prefill: int) -> None:
    """Log-probabilities equal the model's own over the whole row within 1e-5: for prompts of all
    lengths, computed together, joining late, with cached prefixes, and in parts."""
    engine = Engine(model, end_ids=NONE, max_live=6, max_prefill=max_prefill)
    shared = ids(0, 40)
    prompts = [shared[: 7 * n] + ids(n, 1 + 5 * n) for n in range(7)]
    requests = [SamplingRequest(p, max_tokens=3 + n, seed=n) for n, p in enumerate(prompts)]
    for request in requests[:4]:
        engine.add(request)
    engine.step()
    run(engine, requests[4:])
    longer = [SamplingRequest([*r.prompt, *r.tokens, 9, 8], max_tokens=4, seed=9) for r in requests]
    again = [SamplingRequest(r.prompt.tolist(), max_tokens=2, seed=3) for r in requests]
    run(engine, [*longer, *again])
    assert largest_difference(model, [*requests, *longer, *again]) < 1e-5
    # If a prompt extends an earlier one, only the new tokens are computed.
    assert [len(r.prompt) - r.cached for r in longer] == [3] * 7
    assert [len(r.prompt) - r.cached for r in again] == [1] * 7


def test_the_comparison_finds_faults(model: PreTrainedModel) -> None:
    """A wrong position or another token gives a difference far beyond the bound."""
    request = SamplingRequest(ids(1, 30), max_tokens=8)
    run(Engine(model, end_ids=NONE), [request])
    good = sample_of(request)
    shifted = Sample(good.prompt[1:], good.tokens, good.logprobs, 0.0, 0, "v0")
    swapped = good.tokens.copy()
    swapped[3] += 1
    other = Sample(good.prompt, swapped, good.logprobs, 0.0, 0, "v0")
    assert logprob_difference(model, [good]) < 1e-5
    assert min(logprob_difference(model, [shifted]), logprob_difference(model, [other])) > 1e-3
    assert logprob_difference(model, []) == 0.0


def test_a_groups_prompt_is_computed_once(model: PreTrainedModel) -> None:
    """Of eight prompts that arrive at once, the common beginning is computed once."""
    engine = Engine(model, end_ids=NONE)
    shared = ids(0, 100)
    requests = [SamplingRequest([*shared, *ids(n, 10)], max_tokens=2, seed=n) for n in range(1, 9)]
    run(engine, requests)
    assert sorted(r.cached for r in requests) == [0, *[100] * 7]
    assert engine.statistics() == {
        "prompt_tokens": 880,
        "cached_tokens": 700,
        "sampled_tokens": 16,
    }
    assert largest_difference(model, requests) < 1e-5


def test_a_request_does_not_depend_on_its_neighbours(model: PreTrainedModel) -> None:
    """Prompt and seed determine a request's tokens: alone, among others, after others left, and
    with another limit on live requests; another seed gives other tokens."""
    prompt = ids(0, 25)
    found = []
    for company, max_live in ((0, 1), (5, 8), (5, 2)):
        request = SamplingRequest(prompt, max_tokens=12, seed=77)
        others = [
            SamplingRequest(ids(n, 3 * n + 1), max_tokens=2 * n + 1, seed=n) for n in range(company)
        ]
        run(Engine(model, end_ids=NONE, max_live=max_live), [*others, request])
        found.append(request.tokens)
    another = SamplingRequest(prompt, max_tokens=12, seed=78)
    run(Engine(model, end_ids=NONE), [another])
    assert found == [found[0]] * 3
    assert another.tokens != found[0]


def test_greedy_takes_the_most_likely_token(model: PreTrainedModel) -> None:
    """At temperature 0 the tokens are those of the model's own greedy continuation, for any seed;
    their log-probabilities are the model's."""
    prompt = ids(5, 20)
    expected = list(prompt)
    for _ in range(6):
        with torch.inference_mode():
            expected.append(int(model(torch.tensor([expected])).logits[0, -1].argmax()))
    requests = [SamplingRequest(prompt, max_tokens=6, temperature=0.0, seed=n) for n in range(2)]
    run(Engine(model, end_ids=NONE), requests)
    assert [[*r.prompt.tolist(), *r.tokens] for r in requests] == [expected] * 2
    assert largest_difference(model, requests) < 1e-5


def test_a_reply_ends_with_an_end_token(model: PreTrainedModel) -> None:
    """Sampling stops after an end token, which is part of the reply, or at the limit."""
    free = SamplingRequest(ids(2, 9), max_tokens=20, seed=4)
    run(Engine(model, end_ids=NONE), [free])
    end = free.tokens[5]
    first = free.tokens.index(end)
    engine = Engine(model, end_ids=frozenset({end}))
    stopped, short = (SamplingRequest(ids(2, 9), max_tokens=limit, seed=4) for limit in (20, first))
    run(engine, [stopped, short])
    assert [stopped.tokens, short.tokens] == [free.tokens[: first + 1], free.tokens[:first]]
    assert [engine.finish_of(stopped), engine.finish_of(short)] == ["stop", "length"]


def test_a_cancelled_request_frees_its_slot(model: PreTrainedModel) -> None:
    """Whether it waits, is live or is done, the others continue as if it had never existed."""
    engine = Engine(model, end_ids=NONE, max_live=2)
    requests = [SamplingRequest(ids(n, 10 + n), max_tokens=6, seed=n) for n in range(4)]
    alone = [SamplingRequest(ids(n, 10 + n), max_tokens=6, seed=n) for n in (1, 3)]
    for request in requests:
        engine.add(request)
    engine.step()
    assert repr(engine) == "<Engine [2 live, 2 waiting]>"
    engine.cancel(requests[0])
    engine.cancel(requests[2])
    assert repr(engine) == "<Engine [1 live, 1 waiting]>"
    while engine.num_requests:
        engine.step()
    engine.cancel(requests[1])
    run(Engine(model, end_ids=NONE), alone)
    assert [requests[1].tokens, requests[3].tokens] == [r.tokens for r in alone]
    assert largest_difference(model, [requests[1], requests[3]]) < 1e-5


def test_the_sequence_cache_stays_within_its_budget(model: PreTrainedModel) -> None:
    """Finished sequences are cached up to the budget, and the least recently used one is removed
    first; an extended sequence replaces the shorter one."""
    size = 2 * 2 * 2 * 16 * 4  # bytes per token: layers, keys and values, heads, their size, float
    engine = Engine(model, end_ids=NONE, cache_bytes=100 * size)

    def cached(prompt: list[int]) -> int:
        request = SamplingRequest(prompt, max_tokens=1)
        run(engine, [request])
        return request.cached

    one, two, three = ids(1, 40), ids(2, 40), ids(3, 40)
    assert [cached(prompt) for prompt in (one, two, one)] == [0, 0, 39]
    assert [cached(prompt) for prompt in (three, one, two)] == [0, 39, 0]  # `two` was removed
    assert [cached(prompt) for prompt in ([*two, 5], [*two, 5, 6], one)] == [40, 41, 39]
    # Here the first tokens of `two` are reused, so `one` is removed when space runs out.
    assert [cached([*two[:9], *ids(5, 6)]), cached(ids(6, 40)), cached(two)] == [9, 0, 39]
    assert cached(ids(4, 101)) == cached(ids(4, 101)) == 0  # larger than the budget


def test_sampling_follows_the_distribution() -> None:
    """Over many draws, tokens have the frequencies of the processed distribution (temperature and
    top_p applied), and the log-probabilities are those of that distribution."""
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0]).repeat(4000, 1)
    draws = np.random.default_rng(0).random(4000).tolist()
    for temperature, top_p, expected in (
        (1.0, 1.0, [0.6439, 0.2369, 0.0871, 0.0321]),
        (2.0, 1.0, [0.4551, 0.2760, 0.1674, 0.1015]),
        (1.0, 0.7, [0.7311, 0.2689, 0.0, 0.0]),
        (1.0, 0.5, [1.0, 0.0, 0.0, 0.0]),
    ):
        tokens, logprobs = sample_tokens(logits, draws, [temperature] * 4000, [top_p] * 4000)
        shares = torch.bincount(tokens, minlength=4) / 4000
        assert shares.tolist() == pytest.approx(expected, abs=0.02)
        assert logprobs.exp().tolist() == pytest.approx([expected[t] for t in tokens], abs=1e-4)


@pytest.mark.parametrize("temperature", [1e-46, 1e-38, 1e-6])
def test_a_temperature_near_zero_is_greedy(temperature: float) -> None:
    """If dividing by the temperature would overflow the logits, the request takes the most likely
    token; it is not mistaken for a broken model, which would end its neighbours, too."""
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    cold, greedy = (sample_tokens(logits, [0.1], [one], [1.0]) for one in (temperature, 0.0))
    assert [x.item() for x in cold] == [x.item() for x in greedy]
    assert cold[0].item() == 2


def test_settings_are_per_request() -> None:
    """Temperature, top_p and greedy sampling apply only to their own request."""
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0]).repeat(4, 1)
    tokens, logprobs = sample_tokens(logits, [0.99] * 4, [1.0, 2.0, 1.0, 0.0], [1.0, 1.0, 0.7, 0.5])
    assert tokens.tolist() == [3, 3, 1, 0]
    assert logprobs.exp().tolist() == pytest.approx([0.0321, 0.1015, 0.2689, 0.6439], abs=1e-4)


@given(st.integers(0, 2**48), st.integers(1, 5))
def test_no_impossible_token_is_drawn(seed: int, num_dead: int) -> None:
    """Tokens of probability 0 are never drawn, not even with the largest number below 1."""
    logits = torch.randn(2, 8, generator=torch.Generator().manual_seed(seed % 2**31))
    logits[:, :num_dead] = logits[:, -2:] = float("-inf")
    tokens, logprobs = sample_tokens(logits, [0.0, 1.0 - 2.0**-53], [1.0] * 2, [1.0] * 2)
    assert set(tokens.tolist()) <= set(range(num_dead, 6))
    assert logprobs.isfinite().all()


def test_the_seed_determines_the_random_numbers() -> None:
    """Equal seeds give equal numbers, and no number is repeated."""
    draws, again = RandomDraws(3), RandomDraws(3)
    numbers = [draws() for _ in range(200)]
    assert numbers == [again() for _ in range(200)]
    assert len(set(numbers)) == 200
    assert numbers[0] != RandomDraws(4)()


def test_broken_weights_are_reported(model: PreTrainedModel, tmp_path: Path) -> None:
    """A model that gives NaN stops with an error that names the cause; so do invalid requests."""
    broken = open_model(write_model(tmp_path, seed=1), ComputeSettings())
    with torch.no_grad():
        next(broken.parameters()).fill_(float("nan"))
    with pytest.raises(ModelError, match="its weights are broken"):
        run(Engine(broken, end_ids=NONE), [SamplingRequest([5], max_tokens=1)])
    for prompt, limit in (([], 1), ([5], 0)):
        with pytest.raises(ValueError, match="a request needs a prompt and a max_tokens"):
            SamplingRequest(prompt, max_tokens=limit)


rows = st.lists(st.integers(0, 2), min_size=1, max_size=6)


@given(st.lists(st.tuples(rows, st.booleans()), max_size=12), rows)
def test_the_table_finds_the_longest_beginning(
    sequences: list[tuple[list[int], bool]], prompt: list[int]
) -> None:
    """The row that is found has the longest common beginning of all rows that were not removed."""
    table = PrefixTable()
    added = {table.add(as_tokens(sequence)): (sequence, stays) for sequence, stays in sequences}
    for row, (_, stays) in added.items():
        if not stays:
            table.remove(row)
    shared = {
        row: shared_length(as_tokens(sequence), as_tokens(prompt))
        for row, (sequence, stays) in added.items()
        if stays
    }
    row, length = table.longest(as_tokens(prompt))
    assert length == max(shared.values(), default=0)
    assert length == shared.get(row, 0)


def test_shared_length() -> None:
    """Two sequences are compared up to their first difference, or up to the end of the shorter
    one."""
    pairs = [([1, 2, 3], [1, 2, 4]), ([1, 2], [1, 2, 4]), ([3], [4]), ([1, 2], [1, 2])]
    lengths = [shared_length(as_tokens(one), as_tokens(other)) for one, other in pairs]
    assert lengths == [2, 2, 0, 2]


def test_the_table_grows() -> None:
    """Long sequences and large numbers of them can also be found."""
    table = PrefixTable()
    long = as_tokens(ids(0, 1000))
    rows = [table.add(long[: 10 * n]) for n in range(1, 101)]
    assert table.longest(long) == (rows[-1], 1000)
    assert table.longest(as_tokens([*long, 5, 6])) == (rows[-1], 1000)
    cache = SequenceCache(table, 10)
    assert (len(cache), rows[0] in cache, cache.num_bytes) == (0, False, 0)


@pytest.mark.parametrize("family", ["Gemma 2", "Mistral", "gpt-oss"])
def test_windows_soft_caps_and_sinks(family: str) -> None:
    """Requests of different lengths that join at different times, whose windows of 7 tokens end in
    the prompt, in a cached beginning or in the reply, get the model's own log-probabilities."""
    model = copy_of(config_of(family))
    engine = Engine(model, end_ids=NONE, max_live=3, max_prefill=9)
    prompts = [[number % 97 + 8 for number in ids(seed, 4 + 9 * seed)] for seed in range(5)]
    prompts += [prompts[4][:30] + prompts[1], prompts[4]]
    requests = [
        SamplingRequest(prompt, max_tokens=3 + n, seed=n) for n, prompt in enumerate(prompts)
    ]
    run(engine, requests)
    assert engine.statistics()["cached_tokens"] > 30
    assert largest_difference(model, requests) < 1e-5


def test_a_layer_without_our_attention_is_refused() -> None:
    """A model with layers that keep another state than keys and values is refused at the first
    token, by a sentence that names policy `vllm`."""
    engine = Engine(copy_of(config_of("LFM2")), end_ids=NONE)
    with pytest.raises(ModelError, match=r"4 layers computed attention 2 times .* policy 'vllm'"):
        run(engine, [SamplingRequest([8, 9, 10], max_tokens=2)])
