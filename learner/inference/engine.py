"""Sampling from a transformers model in process, with continuous batching.

Requests join and leave between two steps. A step computes the prompts of those that joined, as far
as their beginnings are not there already, and then one token for every live request.

Written for here because transformers' own continuous batching (5.23) draws all requests from one
generator, so that a request's tokens depend on its neighbours, and at the size of
benchmarks/learner_engine.py gives 160 sampled tokens for a second of CPU where this gives nearly
3,000.

For one thread at a time. Shapes: R live requests, T new tokens, V of the vocabulary.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from harness.policies.token_agent import Generated
from learner.backends.attention import attending
from learner.inference.attention import NAME, Decode, Prefill, Slots
from learner.inference.kv_cache import Kept, PrefixTable, as_tokens, device_numbers, shared_length
from learner.inference.sampling import Draws, sampled

_WORTH_WAITING = 32  # tokens that a request saves when it waits for a neighbour's prompt


class Request:
    """One prompt, and what was sampled behind it."""

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
        """Raises ValueError for a prompt without tokens or no room for any."""
        if not len(prompt) or max_tokens < 1:
            raise ValueError("a request needs a prompt and room for one token")
        self.prompt = as_tokens(prompt)
        self.max_tokens = max_tokens
        self.temperature = temperature
        self.top_p = top_p
        self.draws = Draws(seed)
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.cached = 0  # tokens of the prompt that were there already
        self.row = -1  # of the prefix table, while it is live

    @property
    def length(self) -> int:
        """Tokens whose keys and values are in its slot: the last sampled one's are not yet."""
        return len(self.prompt) + max(len(self.tokens) - 1, 0)

    def generated(self, *, finish: str, weights: str) -> Generated:
        """What was sampled, as agents take it."""
        return Generated(
            tuple(self.tokens), tuple(self.logprobs), finish, weights, cached_tokens=self.cached
        )


class Engine:
    """One model's live requests.

    `max_live` requests are computed side by side, the others wait; `max_prefill` is how many prompt
    tokens one forward takes (a longer prompt is taken in parts); `cache_bytes` is for keys and
    values of sequences that are over.
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
        self._end_ids = end_ids
        self._max_live = max_live
        self._max_prefill = max_prefill
        self._slots = Slots()
        self._table = PrefixTable()
        self._kept = Kept(self._table, cache_bytes)
        self._waiting: deque[Request] = deque()
        self._live: list[Request] = []  # by slot
        self.failure: Exception | None = None  # which stopped it in the midst of a step
        self._counts = dict.fromkeys(("prompt_tokens", "cached_tokens", "sampled_tokens"), 0)

    def __repr__(self) -> str:
        return f"<Engine [{len(self._live)} live, {len(self._waiting)} waiting]>"

    @property
    def num_requests(self) -> int:
        """Requests that are not done."""
        return len(self._live) + len(self._waiting)

    def add(self, request: Request) -> None:
        """Take a request up."""
        self._waiting.append(request)

    @torch.inference_mode()
    def cancel(self, request: Request) -> None:
        """Give a request up, and free its slot; nothing happens when it is done already."""
        if request in self._live:
            self._free(self._live.index(request))
        elif request in self._waiting:
            self._waiting.remove(request)

    def statistics(self) -> dict[str, int]:
        """Counts since the start: prompt_tokens, those of them that were cached, sampled_tokens."""
        return dict(self._counts)

    def finish_of(self, request: Request) -> str:
        """Why a request is done: `stop` by an end token, `length` by its limit."""
        return "stop" if request.tokens[-1] in self._end_ids else "length"

    @torch.inference_mode()
    def step(self) -> list[Request]:
        """Go on by one token; gives the requests that are done now."""
        with attending(self._model, NAME):
            while self._waiting and len(self._live) < self._max_live:
                self._join(self._chosen())
            done = self._leave()  # those whose first token was their last
            if self._live:
                self._decode()
                done += self._leave()
        return done

    def _chosen(self) -> list[Request]:
        """Waiting requests whose prompts are computed now, side by side.

        One that shares more with a prompt that is about to be computed than with what is there
        waits for it.
        """
        chosen: list[Request] = []
        later: deque[Request] = deque()
        room = self._max_prefill
        most = self._max_live - len(self._live)
        while self._waiting and room > 0 and len(chosen) < most and len(later) < most:
            request = self._waiting.popleft()
            _, there = self._table.longest(request.prompt)
            soon = max((shared_length(request.prompt, c.prompt) for c in chosen), default=0)
            if soon >= there + _WORTH_WAITING:
                later.append(request)
                continue
            chosen.append(request)
            room -= len(request.prompt) - min(there, len(request.prompt) - 1)
        self._waiting.extendleft(reversed(later))
        return chosen

    def _join(self, requests: list[Request]) -> None:
        """Compute the prompts of some requests and draw their first tokens."""
        first = len(self._live)
        longest = max(len(request.prompt) for request in requests)
        self._slots.reserve(first + len(requests), longest + 1)
        for request in requests:
            request.cached = self._reuse(request, len(self._live))
            self._live.append(request)
            self._counts["prompt_tokens"] += len(request.prompt)
            self._counts["cached_tokens"] += request.cached
        logits_RV = self._prefilled(requests, first)
        for request in requests:  # from now on others can take over what was computed
            request.row = self._table.add(request.prompt)
        self._draw(requests, logits_RV)

    def _reuse(self, request: Request, slot: int) -> int:
        """Put what is there of a prompt's beginning into its slot; gives how many tokens that is.

        The last token is computed in any case, since the next one follows from it.
        """
        row, length = self._table.longest(request.prompt)
        length = min(length, len(request.prompt) - 1)
        if length == 0:
            return 0
        if row in self._kept:
            self._slots.write(slot, self._kept.get(row), length)
        else:
            self._slots.copy(
                next(i for i, r in enumerate(self._live) if r.row == row), slot, length
            )
        return length

    def _prefilled(self, requests: list[Request], first: int) -> Tensor:
        """Compute prompts into the slots from `first` on; gives the logits behind them `[R, V]`."""
        logits: list[Tensor] = []
        slots, starts, rests = [], [], []
        for slot, request in enumerate(requests, first):
            start = request.cached
            while len(request.prompt) - start > self._max_prefill:  # a long one by itself, in parts
                part = request.prompt[start : start + self._max_prefill]
                self._forward([part.tolist()], [slot], [start])
                start += self._max_prefill
            slots.append(slot)
            starts.append(start)
            rests.append(request.prompt[start:].tolist())
        logits.append(self._forward(rests, slots, starts))
        return torch.cat(logits)

    def _forward(self, parts: list[list[int]], slots: list[int], starts: list[int]) -> Tensor:
        """Compute some tokens behind those that their slots have; gives the logits behind each
        part's last `[R, V]`."""
        device = self._model.device
        lengths = [len(part) for part in parts]
        plan = Prefill(self._slots, slots, starts, lengths, device)
        ids = [token for part in parts for token in part]
        places = [
            start + i for start, part in zip(starts, parts, strict=True) for i in range(len(part))
        ]
        lasts = device_numbers(lengths, device).cumsum(0) - 1
        out = self._model(
            input_ids=device_numbers(ids, device)[None],
            position_ids=device_numbers(places, device)[None],
            logits_to_keep=lasts,
            use_cache=False,
            plan=plan,
        )
        logits_RV: Tensor = out.logits[0]
        return logits_RV

    def _decode(self) -> None:
        """Compute every live request's newest token and draw the next."""
        device = self._model.device
        lengths = [request.length for request in self._live]
        places = device_numbers(lengths, device)
        self._slots.reserve(len(lengths), max(lengths) + 1)
        plan = Decode(self._slots, places, max(lengths))
        newest = device_numbers([request.tokens[-1] for request in self._live], device)
        out = self._model(
            input_ids=newest[:, None],
            position_ids=places[:, None],
            use_cache=False,
            plan=plan,
        )
        self._draw(self._live, out.logits[:, -1])

    def _draw(self, requests: Sequence[Request], logits_RV: Tensor) -> None:
        tokens_R, logprobs_R = sampled(
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

    def _leave(self) -> list[Request]:
        """The live requests that are done; what was computed for them is kept."""
        done = [
            request
            for request in self._live
            if request.tokens[-1] in self._end_ids or len(request.tokens) == request.max_tokens
        ]
        for request in done:
            slot = self._live.index(request)
            sequence = as_tokens([*request.prompt.tolist(), *request.tokens[:-1]])
            kept = self._slots.read(slot, len(sequence))
            self._free(slot)
            self._kept.add(sequence, kept)
        return done

    def _free(self, slot: int) -> None:
        """Give a slot back; the last one's request moves into it."""
        self._table.remove(self._live[slot].row)
        moved = self._live.pop()
        if slot < len(self._live):
            self._slots.copy(len(self._live), slot, moved.length)
            self._live[slot] = moved
