"""A trainer's own sampler as the token backend of an episode that runs in another thread.

The episode's event loop is that of the run; `generate` is called in the trainer's, once for each
reply. Promise: a reply without a log-probability for each token, and whatever `generate` raises, is
a PolicyError, which ends the episode.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.policies.token_agent import GeneratedTokens, Sampling

Generate = Callable[[list[int], Sampling], Awaitable[GeneratedTokens]]


class LoopBackend:
    """A token backend that asks a function in another event loop."""

    def __init__(self, trainer: str, generate: Generate, loop: asyncio.AbstractEventLoop) -> None:
        self._trainer = trainer
        self._generate = generate
        self._loop = loop

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> GeneratedTokens:
        """Sample with the trainer's function. Raises PolicyError for whatever it raises."""
        sampling = Sampling(temperature, top_p, max_tokens, seed)
        asked = self._ask(list(prompt_ids), sampling)
        try:
            generated = await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(asked, self._loop)
            )
        except Exception as exc:
            raise PolicyError(f"{self._trainer}: {type(exc).__name__}: {exc}") from exc
        if len(generated.token_ids) != len(generated.logprobs) or not generated.token_ids:
            raise PolicyError(
                f"{self._trainer}: generate returned {len(generated.token_ids)} tokens and"
                f" {len(generated.logprobs)} log-probabilities; each token needs one"
            )
        return generated

    async def _ask(self, prompt: list[int], sampling: Sampling) -> GeneratedTokens:
        return await self._generate(prompt, sampling)
