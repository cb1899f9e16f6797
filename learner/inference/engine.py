"""Sampling from a transformers model in process, with continuous batching.

By hand: transformers' own continuous batching (5.23) gives 160 sampled tokens per second of CPU at
the size of benchmarks/learner_engine.py, this engine nearly 3,000; and it draws all requests from
one generator, so that a request's tokens depend on its neighbours.

Requests join and leave between two steps. A step computes the prompts of the requests that joined,
except for beginnings that are cached, and then one token for every live request.

For one thread at a time. Shapes: R live requests, T new tokens, V the vocabulary.
"""

from collections import deque
from collections.abc import Sequence
from operator import add
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from rehearsal_room.harness.policies.token_agent import GeneratedTokens
from rehearsal_room.learner.backends.attention import use_attention
from rehearsal_room.learner.backends.forward import layer_list
from rehearsal_room.learner.backends.rope_limit import check_length
from rehearsal_room.learner.core.errors import ModelError
from rehearsal_room.learner.inference.attention import NAME, Decode, KeyValueSlots, Prefill
from rehearsal_room.learner.inference.kv_cache import (
    PrefixTable,
    SequenceCache,
    as_tokens,
    device_numbers,
    shared_length,
)
from rehearsal_room.learner.inference.sampling import RandomDraws, sample_tokens

_WORTH_WAITING = 32  # a request waits for a neighbour's prompt if that saves this many tokens


class SamplingRequest:
    """One prompt, and the tokens sampled after it."""

    __slots__ = (
        "cached",
        "draws",
        "logprobs",
        "max_tokens",
        "prompt",
        "row",
        "temperature",
        "tokens",
        "top_p",
    )

    def __init__(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> None:
        """Raises ValueError for an empty prompt, or if `max_tokens` is below 1."""
        if not len(prompt) or max_tokens < 1:
            raise ValueError("a request needs a prompt and a max_tokens of at least 1")
        self.prompt = as_tokens(prompt)
        self.max_tokens = max_tokens
        self.temperature = temperature
        self.top_p = top_p
        self.draws = RandomDraws(seed)
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.cached = 0  # tokens of the prompt whose keys and values were cached
        self.row = -1  # of the prefix table, while it is live

    @property
    def length(self) -> int:
        """Tokens whose keys and values are in its slot: all but the last sampled one."""
        return len(self.prompt) + max(len(self.tokens) - 1, 0)

    def generated(self, *, finish: str, weights: str) -> GeneratedTokens:
        """The sampled tokens in the form that agents use."""
        return GeneratedTokens(
            tuple(self.tokens), tuple(self.logprobs), finish, weights, cached_tokens=self.cached
        )


class Engine:
    """One model's live requests.

    `max_live` requests are computed together, the others wait. `max_prefill` bounds the prompt
    tokens of one forward; a longer prompt is computed in parts. `cache_bytes` is the budget for the
    keys and values of finished sequences.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        end_ids: frozenset[int],
        max_live: int = 64,
        max_prefill: int = 2048,
        cache_bytes: int = 256 * 2**20,
    ) -> None:
        model.eval()  # type: ignore[no-untyped-call]
        self._model: Any = model
        self._num_layers = len(layer_list(model))
        self._end_ids = end_ids
        self._max_live = max_live
        self._max_prefill = max_prefill
        self._slots = KeyValueSlots()
        self._table = PrefixTable()
        self._cache = SequenceCache(self._table, cache_bytes)
        self._waiting: deque[SamplingRequest] = deque()
        self._live: list[SamplingRequest] = []  # by slot
        self.failure: Exception | None = None  # that stopped the engine in the middle of a step
        self._counts = dict.fromkeys(("prompt_tokens", "cached_tokens", "sampled_tokens"), 0)

    def __repr__(self) -> str:
        return f"<Engine [{len(self._live)} live, {len(self._waiting)} waiting]>"

    @property
    def num_requests(self) -> int:
        """Requests that are not done."""
        return len(self._live) + len(self._waiting)

    def add(self, request: SamplingRequest) -> None:
        """Add a request."""
        self._waiting.append(request)

    @torch.inference_mode()
    def cancel(self, request: SamplingRequest) -> None:
        """Remove a request and free its slot; does nothing when the request is done already."""
        if request in self._live:
            self._free(self._live.index(request))
        elif request in self._waiting:
            self._waiting.remove(request)

    def statistics(self) -> dict[str, int]:
        """Counts since the start: prompt_tokens, cached_tokens among these, sampled_tokens."""
        return dict(self._counts)

    def finish_of(self, request: SamplingRequest) -> str:
        """Why a request is done: `stop` for an end token, `length` for its limit."""
        return "stop" if request.tokens[-1] in self._end_ids else "length"

    @torch.inference_mode()
    def step(self) -> list[SamplingRequest]:
        """Advance all live requests by one token; returns the requests that are done."""
        with use_attention(self._model, NAME):
            while self._waiting and len(self._live) < self._max_live:
                self._join(self._next_to_join())
            done = self._leave()  # requests whose first token was their last
            if self._live:
                self._decode()
                done += self._leave()
        return done

    def _next_to_join(self) -> list[SamplingRequest]:
        """The waiting requests whose prompts are computed now, together.

        A request that shares more with a prompt chosen here than with a cached one keeps waiting
        for that prompt.
        """
        chosen: list[SamplingRequest] = []
        later: deque[SamplingRequest] = deque()
        room = self._max_prefill
        num_free = self._max_live - len(self._live)
        while self._waiting and room > 0 and len(chosen) < num_free and len(later) < num_free:
            request = self._waiting.popleft()
            _, cached = self._table.longest(request.prompt)
            soon = max((shared_length(request.prompt, c.prompt) for c in chosen), default=0)
            if soon >= cached + _WORTH_WAITING:
                later.append(request)
                continue
            chosen.append(request)
            room -= len(request.prompt) - min(cached, len(request.prompt) - 1)
        self._waiting.extendleft(reversed(later))
        return chosen

    def _join(self, requests: list[SamplingRequest]) -> None:
        """Compute the prompts of some requests and draw their first tokens."""
        first = len(self._live)
        longest = max(len(request.prompt) for request in requests)
        self._slots.reserve(first + len(requests), longest + 1)
        for request in requests:
            request.cached = self._reuse(request, len(self._live))
            self._live.append(request)
            self._counts["prompt_tokens"] += len(request.prompt)
            self._counts["cached_tokens"] += request.cached
        logits_RV = self._prefill(requests, first)
        for request in requests:  # from now on, other requests can reuse these prompts
            request.row = self._table.add(request.prompt)
        self._draw(requests, logits_RV)

    def _reuse(self, request: SamplingRequest, slot: int) -> int:
        """Copy the cached beginning of a prompt into its slot; returns its number of tokens.

        The last token of a prompt is always computed, since the next token follows from it.
        """
        row, length = self._table.longest(request.prompt)
        length = min(length, len(request.prompt) - 1)
        if length == 0:
            return 0
        if row in self._cache:
            self._slots.write(slot, self._cache.get(row), length)
        else:
            self._slots.copy(
                next(i for i, r in enumerate(self._live) if r.row == row), slot, length
            )
        return length

    def _prefill(self, requests: list[SamplingRequest], first: int) -> Tensor:
        """Compute prompts into slots from `first` on; returns the logits after them `[R, V]`."""
        logits: list[Tensor] = []
        slots, starts, rests = [], [], []
        for slot, request in enumerate(requests, first):
            start = request.cached
            while len(request.prompt) - start > self._max_prefill:  # a long one alone, in parts
                part = request.prompt[start : start + self._max_prefill]
                self._forward([part.tolist()], [slot], [start])
                start += self._max_prefill
            slots.append(slot)
            starts.append(start)
            rests.append(request.prompt[start:].tolist())
        logits.append(self._forward(rests, slots, starts))
        return torch.cat(logits)

    def _forward(self, parts: list[list[int]], slots: list[int], starts: list[int]) -> Tensor:
        """Compute new tokens after those in their slots; returns the logits after the last token of
        each part `[R, V]`."""
        device = self._model.device
        lengths = [len(part) for part in parts]
        check_length(self._model, max(map(add, starts, lengths)))
        plan = Prefill(self._slots, slots, starts, lengths, device)
        ids = [token for part in parts for token in part]
        positions = [
            start + i for start, part in zip(starts, parts, strict=True) for i in range(len(part))
        ]
        lasts = device_numbers(lengths, device).cumsum(0) - 1
        out = self._model(
            input_ids=device_numbers(ids, device)[None],
            position_ids=device_numbers(positions, device)[None],
            logits_to_keep=lasts,
            use_cache=False,
            plan=plan,
        )
        self._check_calls(plan)
        logits_RV: Tensor = out.logits[0]
        return logits_RV

    def _decode(self) -> None:
        """Compute every live request's newest token and draw the next one."""
        device = self._model.device
        lengths = [request.length for request in self._live]
        positions = device_numbers(lengths, device)
        self._slots.reserve(len(lengths), max(lengths) + 1)
        check_length(self._model, max(lengths) + 1)
        plan = Decode(self._slots, positions, max(lengths))
        newest = device_numbers([request.tokens[-1] for request in self._live], device)
        out = self._model(
            input_ids=newest[:, None],
            position_ids=positions[:, None],
            use_cache=False,
            plan=plan,
        )
        self._check_calls(plan)
        self._draw(self._live, out.logits[:, -1])

    def _check_calls(self, plan: Prefill | Decode) -> None:
        """Every layer must have computed its attention over the requests' slots, once."""
        if plan.calls != self._num_layers:
            raise ModelError(
                f"{type(self._model).__name__}: its {self._num_layers} layers computed attention"
                f" {plan.calls} times by transformers' AttentionInterface. Layers with an attention"
                " of their own or a recurrent state cannot be sampled in process: use policy 'vllm'"
            )

    def _draw(self, requests: Sequence[SamplingRequest], logits_RV: Tensor) -> None:
        tokens_R, logprobs_R = sample_tokens(
            logits_RV,
            [request.draws() for request in requests],
            [request.temperature for request in requests],
            [request.top_p for request in requests],
        )
        drawn = zip(requests, tokens_R.tolist(), logprobs_R.tolist(), strict=True)
        for request, token, logprob in drawn:
            request.tokens.append(token)
            request.logprobs.append(logprob)
        self._counts["sampled_tokens"] += len(requests)

    def _leave(self) -> list[SamplingRequest]:
        """Remove the finished requests and return them; their keys and values go into the cache."""
        done = [
            request
            for request in self._live
            if request.tokens[-1] in self._end_ids or len(request.tokens) == request.max_tokens
        ]
        for request in done:
            slot = self._live.index(request)
            sequence = as_tokens([*request.prompt.tolist(), *request.tokens[:-1]])
            stored = self._slots.read(slot, len(sequence))
            self._free(slot)
            self._cache.add(sequence, stored)
        return done

    def _free(self, slot: int) -> None:
        """Free a slot; the request of the last slot moves into it."""
        self._table.remove(self._live[slot].row)
        moved = self._live.pop()
        if slot < len(self._live):
            self._slots.copy(len(self._live), slot, moved.length)
            self._live[slot] = moved
