"""A token backend that returns scripted texts, and agents over it: no model is needed."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import anyio

from rehearsal_room.harness.history.summary import PROMPT
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.token_agent import GeneratedTokens, Sampling, TokenAgent
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer

CONTEXT = 100_000


class ScriptedTokens:
    """Returns its texts in order for any prompt, and a summary where the prompt asks for one.

    It cuts its texts into tokens differently from the tokenizer: tokenising them again gives other
    ids.
    """

    def __init__(self, chat: ChatTokenizer, texts: Sequence[str], *, weights: str = "v1") -> None:
        self.prompts: list[list[int]] = []
        # max_tokens, temperature, top_p and seed of each request
        self.requests: list[tuple[int, float, float, int]] = []
        self.before: Callable[[], None] = lambda: None  # called before each request
        self.stalls = anyio.Event()  # set: requests wait until they are cancelled
        self.has_stalled = anyio.Event()
        self.was_cancelled = anyio.Event()
        self._chat = chat
        self._texts = list(texts)
        self._weights = weights
        self._num_summaries = 0

    def ids(self, text: str) -> list[int]:
        """The ids with which this model samples a text, the end token included."""
        rng = Random(text)
        inner = {rng.randrange(len(text) + 1) for _ in range(len(text) // 3)}
        cuts = sorted(inner | {0, len(text)})
        pieces = [text[start:end] for start, end in pairwise(cuts)]
        ids = [number for piece in pieces for number in self._chat.encode(piece)]
        return [*ids, self._chat.end_id]

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> GeneratedTokens:
        self.before()
        self.prompts.append(list(prompt_ids))
        self.requests.append((max_tokens, temperature, top_p, seed))
        if self.stalls.is_set():
            self.has_stalled.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.was_cancelled.set()
        shown = self._chat.decode(prompt_ids)
        if PROMPT in shown[-len(PROMPT) - 40 :]:
            self._num_summaries = number = self._num_summaries + 1
            thought = "" if number % 2 else "<think>So far.</think>  "
            ids = self.ids(f"{thought}Summary {number}: use the tools, change the arguments.")
        else:
            ids = self.ids(self._texts.pop(0))
        return GeneratedTokens(ids, [-0.5] * len(ids), "stop", self._weights)


class ScriptedTokenPolicy:
    """Policy of token agents over one backend."""

    name = "scripted-tokens"

    def __init__(self, backend: ScriptedTokens, chat: ChatTokenizer) -> None:
        self._backend = backend
        self._chat = chat

    def agent(self, assignment: Assignment) -> Agent:
        return TokenAgent(
            self._backend,
            self._chat,
            Sampling(),
            context=CONTEXT,
            episode_seed=assignment.seed,
            kept=assignment.kept,
        )
