"""What the model's server sampled for an agent, against what a trainer gets of it: every sampled
reply once, in the context in which it was sampled."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from rehearsal_room.learner.inference.local_policy import LocalPolicy, LocalSettings

OWN = "tests.harness.agents.own:"
_MOST = 6  # tokens of a reply

# A reply: the ids before it, those that were sampled, and their log-probabilities, rounded.
Sampled = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]
Row = tuple[Sequence[int], Sequence[int], Sequence[float]]  # ids, mask, log-probabilities


class LocalSampler:
    """The model of policy `local` as a trainer's engine. It keeps all that it sampled. Equal
    prompts get equal replies: their seed is always the same."""

    def __init__(self, policy: LocalPolicy, portal: BlockingPortal) -> None:
        self.sampled: list[Sampled] = []
        self.before: Callable[[Sequence[int]], None] = lambda prompt: None
        self.chat = policy.chat
        self._backend = policy.backend()
        self._portal = portal

    def sample(self, prompt_ids: Sequence[int]) -> tuple[list[int], list[float]]:
        """The ids and log-probabilities that follow a prompt."""
        self.before(prompt_ids)
        found = self._portal.call(self._sample, prompt_ids)
        self.sampled.append(sampled(prompt_ids, *found))
        return found

    async def _sample(self, prompt_ids: Sequence[int]) -> tuple[list[int], list[float]]:
        found = await self._backend.generate(
            list(prompt_ids), max_tokens=_MOST, temperature=1.0, top_p=1.0, seed=7
        )
        return list(found.token_ids), list(found.logprobs)


@contextmanager
def local_sampler(model: Path) -> Iterator[LocalSampler]:
    """The sampler of this model."""
    with start_blocking_portal() as portal:
        opened = LocalPolicy(LocalSettings(str(model)))
        with portal.wrap_async_context_manager(opened) as policy:
            yield LocalSampler(policy, portal)


def sampled(context: Sequence[int], ids: Sequence[int], logprobs: Sequence[float]) -> Sampled:
    return tuple(context), tuple(ids), tuple(round(one, 3) for one in logprobs)


def replies_in(rows: Iterable[Row]) -> Counter[Sampled]:
    """The replies in a trainer's rows, each with what stands before it.

    Example: ids 1 2 3 4, mask 0 1 1 0 -> context 1, reply 2 3
    """
    found: Counter[Sampled] = Counter()
    for ids, mask, logprobs in rows:
        assert len(ids) == len(mask) == len(logprobs)
        at = 0
        for is_sampled, run in groupby(mask):
            end = at + len(list(run))
            if is_sampled:
                found[sampled(ids[:at], ids[at:end], logprobs[at:end])] += 1
            at = end
    return found


def areal_rows(batch: dict[str, Any]) -> list[Row]:
    """The rows of a batch without their padding."""
    rows: list[Row] = []
    for ids, mask, logprobs, shown in zip(
        *(batch[name].tolist() for name in ("input_ids", "loss_mask", "logprobs")),
        batch["attention_mask"].sum(1).tolist(),
        strict=True,
    ):
        rows.append((ids[:shown], mask[:shown], logprobs[:shown]))
    return rows


def skyrl_rows(output: dict[str, Any]) -> list[Row]:
    return [
        (prompt + ids, [0] * len(prompt) + mask, [0.0] * len(prompt) + logprobs)
        for prompt, ids, mask, logprobs in zip(
            output["prompt_token_ids"],
            output["response_ids"],
            output["loss_masks"],
            output["rollout_logprobs"],
            strict=True,
        )
    ]


def verl_rows(outputs: list[Any]) -> list[Row]:
    return [
        (
            one.prompt_ids + one.response_ids,
            [0] * len(one.prompt_ids) + one.response_mask,
            [0.0] * len(one.prompt_ids) + one.response_logprobs,
        )
        for one in outputs
    ]
