"""A token backend that says what it is told, and agents over it: models without a model."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import anyio

from harness.history.summary import PROMPT
from harness.policies.base import Agent, Assignment
from harness.policies.token_agent import Generated, Sampling, TokenAgent
from harness.tokenization.chat_tokenizer import ChatTokenizer

CONTEXT = 100_000


class ScriptedTokens:
    """Says its texts in order, whatever is asked, and sums up where a summary is asked for.

    It cuts its words otherwise than the tokenizer would: who tokenises them again gets other ids.
    """

    def __init__(self, chat: ChatTokenizer, texts: Sequence[str], *, weights: str = "v1") -> None:
        self.prompts: list[list[int]] = []
        self.asked: list[tuple[int, float, float, int]] = []  # max_tokens, temperature, top_p, seed
        self.before: Callable[[], None] = lambda: None  # called with each request
        self.stalls = anyio.Event()  # set: it waits for ever, until it is given up
        self.has_stalled = anyio.Event()
        self.given_up = anyio.Event()
        self._chat = chat
        self._texts = list(texts)
        self._weights = weights
        self._num_summaries = 0

    def ids(self, text: str) -> list[int]:
        """A text as this model samples it, the end token included."""
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
    ) -> Generated:
        self.before()
        self.prompts.append(list(prompt_ids))
        self.asked.append((max_tokens, temperature, top_p, seed))
        if self.stalls.is_set():
            self.has_stalled.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.given_up.set()
        shown = self._chat.decode(prompt_ids)
        if PROMPT in shown[-len(PROMPT) - 40 :]:
            self._num_summaries = number = self._num_summaries + 1
            thought = "" if number % 2 else "<think>So far.</think>  "
            ids = self.ids(f"{thought}Summary {number}: use the tools, change the arguments.")
        else:
            ids = self.ids(self._texts.pop(0))
        return Generated(ids, [-0.5] * len(ids), "stop", self._weights)


class ScriptedTokenPolicy:
    """Policy of token agents over one backend."""

    name = "scripted-tokens"

    def __init__(self, backend: ScriptedTokens, chat: ChatTokenizer) -> None:
        self._backend = backend
        self._chat = chat

    def agent(self, assignment: Assignment) -> Agent:
        return TokenAgent(
            self._backend, self._chat, Sampling(), context=CONTEXT, episode_seed=assignment.seed
        )
