"""CPU time of policy `local`: 64 live requests on a small Qwen3, on one thread.

    python -m benchmarks.learner_engine --runs 3

The model has 0.65 million weights (hidden 128, 3 layers, 4 heads, 2 of keys, head size 32). Prompts
have 600 tokens, of which the eight members of a group share 400; replies have 40 tokens.

    whole      CPU of 1,000 sampled tokens, prompts included
    decoding   the same without the prompts
    prompts    computed prompt tokens ÷ all prompt tokens
    generate   CPU of the same replies by transformers' `generate`, in one batch of 64, ÷ whole
"""

import time
from typing import Any

import msgspec
import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, runs_option
from rehearsal_room.learner.inference.engine import Engine, SamplingRequest


class Load(msgspec.Struct, frozen=True):
    """The requests that are live at the same time."""

    groups: int = 8
    members: int = 8
    shared: int = 400
    own: int = 200
    sampled: int = 40

    def requests(self, seed: int) -> list[SamplingRequest]:
        """Requests with random prompts; another seed gives other prompts."""
        chance = np.random.default_rng(seed)
        found: list[SamplingRequest] = []
        for _ in range(self.groups):
            head = chance.integers(3, 512, self.shared).tolist()
            for _ in range(self.members):
                prompt = [*head, *chance.integers(3, 512, self.own).tolist()]
                found.append(SamplingRequest(prompt, max_tokens=self.sampled, seed=len(found)))
        return found

    @property
    def num_sampled(self) -> int:
        return self.groups * self.members * self.sampled


def model_of() -> Qwen3ForCausalLM:
    """The model, with random weights."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=512,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=None,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


def sampling(engine: Engine, requests: list[SamplingRequest]) -> tuple[float, float]:
    """CPU seconds of all steps, and of all but the first one, which computes the prompts."""
    for request in requests:
        engine.add(request)
    start = time.process_time()
    engine.step()
    prefilled = time.process_time()
    while engine.num_requests:
        engine.step()
    end = time.process_time()
    return end - start, end - prefilled


def generating(model: Any, requests: list[SamplingRequest], num_tokens: int) -> float:
    """CPU seconds of transformers' own sampling."""
    ids = torch.tensor(np.stack([request.prompt for request in requests]), dtype=torch.int64)
    start = time.process_time()
    model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=True, max_new_tokens=num_tokens
    )
    return time.process_time() - start


def measured(load: Load, runs: int) -> list[Figure]:
    """The figures of some runs, after one run to warm up."""
    model = model_of()
    engine = Engine(model, end_ids=frozenset())
    whole, decoding, ratios = [], [], []
    for run in range(runs + 1):
        requests = load.requests(run)
        theirs = generating(model, requests, load.sampled)
        all_steps, without_prompts = sampling(engine, requests)
        if run:
            whole.append(1e6 * all_steps / load.num_sampled)
            decoding.append(1e6 * without_prompts / load.num_sampled)
            ratios.append(theirs / all_steps)
    counts = engine.statistics()
    computed = 1 - counts["cached_tokens"] / counts["prompt_tokens"]
    return [
        figure("1,000 sampled tokens, whole", "ms", whole, reach=500.0, aim=1000 / 3),
        figure("1,000 sampled tokens, decoding", "ms", decoding, reach=1000 / 3, aim=200.0),
        figure("prompt tokens computed ÷ all", "", [computed]),
        figure("generate ÷ whole", "", ratios),
    ]


@benchmark(__doc__)
@runs_option(3)
def main(runs: int) -> list[Figure]:
    """The command line."""
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    torch.set_num_threads(1)
    return measured(Load(), runs)


if __name__ == "__main__":
    main()
