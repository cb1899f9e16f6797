"""An agent that exchanges tokens with its model: the part that policies `vllm` and `local` share.

It renders the window itself, so that its own earlier replies keep exactly the ids that were
sampled, and its reply contains the tokens that were shown and sampled: what training needs.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec

from rehearsal_room.harness.core.errors import ContextLengthError
from rehearsal_room.harness.core.events import HistorySummarized, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Reply, Usage, Window
from rehearsal_room.harness.core.token_bytes import (
    ID_BYTES,
    decode_ids,
    encode_ids,
    encode_logprobs,
)
from rehearsal_room.harness.dialects.hermes import Hermes
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer, reply_key

_TAG = "<tool_call>"
_hermes = Hermes()


class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How tokens are drawn. For training: from the model's own distribution, temperature 1 and
    top_p 1."""

    temperature: float = 1.0  # 0: always the likeliest token
    top_p: float = 1.0
    max_tokens: int | None = None  # of one reply; None: up to the end of the model's context
    seed: int = 0  # of the run; each reply's own seed follows from it


class GeneratedTokens(msgspec.Struct, frozen=True):
    """The tokens that a model sampled for one prompt."""

    token_ids: Sequence[int]  # all of them, the end token included
    logprobs: Sequence[float]  # one per token, under the distribution that was sampled from
    finish: str = "stop"  # stop: with an end token; length: at max_tokens
    weights: str = ""  # the version of the weights
    cached_tokens: int = 0  # tokens of the prompt that came from the cache
    attempts: int = 1  # requests that were sent


class TokenBackend(Protocol):
    """Samples continuations of prompts. Shared by the agents of many episodes."""

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> GeneratedTokens:
        """Sample up to an end token or `max_tokens`. Raises PolicyError.

        Cancellation abandons the request.
        """


class EpisodeTokens:
    """The tokens of one episode that later prompts and replies depend on: its first prompt and the
    ids of its replies."""

    __slots__ = ("_chat", "_first", "_reply_ids")

    def __init__(
        self, chat: ChatTokenizer, kept: Sequence[StepTaken | HistorySummarized] = ()
    ) -> None:
        """`kept` are the replies of the episode so far (see Assignment.kept)."""
        self._chat = chat
        self._reply_ids: dict[str, Sequence[int]] = {}
        self._first: bytes | None = None  # the first prompt; None: there was no reply yet
        for event in kept:
            self._add(event.reply)

    def prompt(self, window: Window) -> list[int]:
        """The token ids of a window. Raises PolicyError."""
        return self._chat.prompt(window, self._reply_ids)

    def attach_tokens(
        self, reply: Reply, prompt: Sequence[int], sampled: Sequence[int], logprobs: Sequence[float]
    ) -> Reply:
        """The reply with its prompt and sampled tokens; later prompts show the same ids."""
        shown = encode_ids(prompt)
        if self._first is None:
            self._first, shared = shown, 0
        else:
            shared = count_shared_ids(self._first, shown)
        self._reply_ids[reply_key(reply.text, reply.calls)] = sampled
        return msgspec.structs.replace(
            reply,
            prompt_ids=shown[shared * ID_BYTES :],
            prompt_shared=shared,
            token_ids=encode_ids(sampled),
            logprobs=encode_logprobs(logprobs),
        )

    def _add(self, reply: Reply) -> None:
        """Remember a logged reply. One without tokens is shown as its text."""
        if self._first is None:
            self._first = reply.prompt_ids
        if reply.token_ids:
            ids = decode_ids(reply.token_ids)
            self._reply_ids[reply_key(reply.text, reply.calls)] = ids


class TokenAgent:
    """A model's agent for one episode.

    `episode_seed` is `Assignment.seed` and `kept` is `Assignment.kept`; `context` is the model's
    maximum number of tokens, prompt and reply together.
    """

    __slots__ = ("_backend", "_chat", "_context", "_num_asked", "_sampling", "_seed", "_tokens")

    def __init__(
        self,
        backend: TokenBackend,
        chat: ChatTokenizer,
        sampling: Sampling,
        *,
        context: int,
        episode_seed: int,
        kept: Sequence[StepTaken | HistorySummarized] = (),
    ) -> None:
        self._backend = backend
        self._chat = chat
        self._sampling = sampling
        self._context = context
        self._seed = episode_seed
        self._tokens = EpisodeTokens(chat, kept)
        self._num_asked = len(kept)  # an agent of the user's own may ask for several at once

    async def reply(self, window: Window) -> Reply:
        """Ask the model. Raises PolicyError; ContextLengthError where the prompt leaves no room."""
        number, self._num_asked = self._num_asked, self._num_asked + 1
        prompt = self._tokens.prompt(window)
        generated = await self._backend.generate(
            prompt,
            max_tokens=self._room(len(prompt), window),
            temperature=self._sampling.temperature,
            top_p=self._sampling.top_p,
            seed=reply_seed(self._sampling.seed, self._seed, number),
        )
        reply = self._read(window, len(prompt), generated, number)
        return self._tokens.attach_tokens(reply, prompt, generated.token_ids, generated.logprobs)

    def _room(self, num_tokens: int, window: Window) -> int:
        """How many tokens the reply may have: what the run and the window's own fields allow."""
        room = self._context - num_tokens
        if room < 1:
            raise ContextLengthError(
                f"the prompt has {num_tokens:,} tokens; the limit for prompt and reply together is"
                f" {self._context:,}"
            )
        fields = window.fields or {}
        own = fields.get("max_completion_tokens", fields.get("max_tokens"))
        limits = [one for one in (self._sampling.max_tokens, own) if isinstance(one, int)]
        return min([room, *limits])

    def _read(
        self, window: Window, num_prompt: int, generated: GeneratedTokens, number: int
    ) -> Reply:
        """The reply of this number that the sampled tokens express."""
        text = self._chat.decode(generated.token_ids)
        calls: tuple[AgentCall, ...] = ()
        if window.tools and not window.asks_for_summary:
            text, calls = split_tool_calls(text, number)
        return Reply(
            text,
            calls,
            finish_of(generated, calls),
            Usage(num_prompt, len(generated.token_ids), generated.cached_tokens),
            weights=generated.weights,
            attempts=generated.attempts,
        )


def finish_of(generated: GeneratedTokens, calls: Sequence[AgentCall]) -> str:
    """The finish reason of a reply with these calls, as in the chat API. A reply that was cut
    stays `length`: its calls may not be all that the model was about to make.

    Example: stop and one call -> "tool_calls"; length and one call -> "length"
    """
    return "tool_calls" if calls and generated.finish != "length" else generated.finish


def reply_seed(run: int, episode: int, reply: int) -> int:
    """The seed of one reply (counted from 0) of an episode: below 2^48, and equal in every run of
    the same plan."""
    drawn = blake2b(f"{run} {episode} {reply}".encode(), digest_size=6).digest()
    return int.from_bytes(drawn)


def split_tool_calls(text: str, number: int) -> tuple[str, tuple[AgentCall, ...]]:
    """Split a reply of the native dialect, as servers do, into the text before the first
    `<tool_call>` and the calls. All of it is text where a call cannot be read.

    `number` counts the episode's replies, so that the calls' ids are unique in it.

    Example: parted('Look.\\n<tool_call>{"name": "ping"}</tool_call>', 3) ->
        ("Look.", (AgentCall("ping", {}, "c3-0"),))
    """
    decision = _hermes.read(Reply(text), turn=number)
    if not isinstance(decision, Act):
        return text, ()
    thought = max(0, text.rfind("</think>", 0, text.rfind(_TAG)))
    return text[: text.find(_TAG, thought)].rstrip(), decision.calls


def count_shared_ids(one: bytes, other: bytes) -> int:
    """The number of ids that both begin with. Compares halves of the range, so that bytes are
    compared in blocks and not number by number."""
    low, high = 0, min(len(one), len(other)) // ID_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        start = low * ID_BYTES
        if one[start : middle * ID_BYTES] == other[start : middle * ID_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
