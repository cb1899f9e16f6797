"""An agent that speaks to its model in tokens: what the policies `vllm` and `local` share.

It renders the window itself, so that its own earlier replies stand with exactly the ids that were
sampled, and its reply says which tokens were shown and which were sampled: what training needs.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec

from harness.core.errors import ContextLengthError
from harness.core.messages import Act, AgentCall, Reply, Usage, Window
from harness.core.token_bytes import ID_BYTES, encode_ids, encode_logprobs
from harness.dialects.hermes import Hermes
from harness.tokenization.chat_tokenizer import ChatTokenizer, reply_key

_TAG = "<tool_call>"
_hermes = Hermes()


class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How tokens are drawn. For learning: as the model has it, temperature 1 and top_p 1."""

    temperature: float = 1.0  # 0: always the likeliest token
    top_p: float = 1.0
    max_tokens: int | None = None  # of one reply; None: what the model's context has room for
    seed: int = 0  # of the run; each reply has one of its own that follows from it


class Generated(msgspec.Struct, frozen=True):
    """What a model sampled for one prompt."""

    token_ids: Sequence[int]  # all of them, the end token included
    logprobs: Sequence[float]  # one each, of the distribution that was sampled from
    finish: str = "stop"  # stop: with an end token; length: max_tokens
    weights: str = ""  # the version of the weights
    cached_tokens: int = 0  # of the prompt's, those that were not computed anew
    attempts: int = 1  # requests it took


class TokenBackend(Protocol):
    """Samples behind prompts. Shared by the agents of many episodes."""

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> Generated:
        """Sample up to an end token or `max_tokens`. Raises PolicyError.

        Cancellation gives the request up.
        """


class EpisodeTokens:
    """What of one episode's tokens later prompts and replies depend on: its first prompt, and the
    ids of its replies."""

    __slots__ = ("_chat", "_first", "_own", "num_replies")

    def __init__(self, chat: ChatTokenizer) -> None:
        self._chat = chat
        self._own: dict[str, Sequence[int]] = {}
        self._first = b""  # the first prompt
        self.num_replies = 0

    def prompt(self, window: Window) -> list[int]:
        """The ids that show a window. Raises PolicyError."""
        return self._chat.prompt(window, self._own)

    def borne(
        self, reply: Reply, prompt: Sequence[int], sampled: Sequence[int], logprobs: Sequence[float]
    ) -> Reply:
        """The reply, now bearing its tokens; they are remembered."""
        shown = encode_ids(prompt)
        shared = shared_ids(self._first, shown)
        self._first = self._first or shown
        self._own[reply_key(reply.text, reply.calls)] = sampled
        self.num_replies += 1
        return msgspec.structs.replace(
            reply,
            prompt_ids=shown[shared * ID_BYTES :],
            prompt_shared=shared,
            token_ids=encode_ids(sampled),
            logprobs=encode_logprobs(logprobs),
        )


class TokenAgent:
    """A model at work on one episode.

    `episode_seed` is the episode's own (`Assignment.seed`); `context` is how many tokens the model
    takes, prompt and reply together.
    """

    __slots__ = ("_backend", "_chat", "_context", "_sampling", "_seed", "_tokens")

    def __init__(
        self,
        backend: TokenBackend,
        chat: ChatTokenizer,
        sampling: Sampling,
        *,
        context: int,
        episode_seed: int,
    ) -> None:
        self._backend = backend
        self._chat = chat
        self._sampling = sampling
        self._context = context
        self._seed = episode_seed
        self._tokens = EpisodeTokens(chat)

    async def reply(self, window: Window) -> Reply:
        """Ask the model. Raises PolicyError; ContextLengthError where the prompt leaves no room."""
        prompt = self._tokens.prompt(window)
        generated = await self._backend.generate(
            prompt,
            max_tokens=self._room(len(prompt)),
            temperature=self._sampling.temperature,
            top_p=self._sampling.top_p,
            seed=reply_seed(self._sampling.seed, self._seed, self._tokens.num_replies),
        )
        reply = self._read(window, len(prompt), generated)
        return self._tokens.borne(reply, prompt, generated.token_ids, generated.logprobs)

    def _room(self, num_tokens: int) -> int:
        room = self._context - num_tokens
        if room < 1:
            raise ContextLengthError(
                f"the window has {num_tokens:,} tokens; prompt and reply together fit"
                f" {self._context:,}"
            )
        most = self._sampling.max_tokens
        return room if most is None else min(room, most)

    def _read(self, window: Window, num_prompt: int, generated: Generated) -> Reply:
        """What the sampled tokens say."""
        text = self._chat.decode(generated.token_ids)
        calls: tuple[AgentCall, ...] = ()
        if window.tools and not window.asks_for_summary:
            text, calls = parted(text, self._tokens.num_replies)
        return Reply(
            text,
            calls,
            "tool_calls" if calls else generated.finish,
            Usage(num_prompt, len(generated.token_ids), generated.cached_tokens),
            weights=generated.weights,
            attempts=generated.attempts,
        )


def reply_seed(run: int, episode: int, reply: int) -> int:
    """The seed of an episode's reply, counted from 0: below 2^48, and equal in every run of the
    same plan."""
    drawn = blake2b(f"{run} {episode} {reply}".encode(), digest_size=6).digest()
    return int.from_bytes(drawn)


def parted(text: str, number: int) -> tuple[str, tuple[AgentCall, ...]]:
    """A reply of the native dialect, as servers part it: what stands before the first
    `<tool_call>`, and the calls. All of it is text where a call cannot be read.

    `number` counts the episode's replies, so that the calls' ids are unique in it.

    Example: parted('Look.\\n<tool_call>{"name": "ping"}</tool_call>', 3) ->
        ("Look.", (AgentCall("ping", {}, "c3-0"),))
    """
    decision = _hermes.read(Reply(text), turn=number)
    if not isinstance(decision, Act):
        return text, ()
    thought = max(0, text.rfind("</think>", 0, text.rfind(_TAG)))
    return text[: text.find(_TAG, thought)].rstrip(), decision.calls


def shared_ids(one: bytes, other: bytes) -> int:
    """How many ids both begin with. Compares halves, so that memory is compared, not numbers."""
    low, high = 0, min(len(one), len(other)) // ID_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        start = low * ID_BYTES
        if one[start : middle * ID_BYTES] == other[start : middle * ID_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
