"""A policy that adds tokens to the replies of another policy, from their texts.

This makes the episodes of an oracle or a script usable for training (behaviour cloning): they are
logged with the tokens that a model would have been shown and would have sampled, and are handled
like sampled episodes from then on. Nothing is tokenized again after that.
"""

from rehearsal_room.harness.core.messages import Reply, Usage, Window
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy
from rehearsal_room.harness.policies.token_agent import EpisodeTokens
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer


class TokenizedPolicy:
    """Replies as `inner` does, with tokens. The owner of `inner` closes it.

    The log-probabilities are 0, as of a policy that is always certain; the weights have no version.
    """

    def __init__(self, inner: Policy, chat: ChatTokenizer) -> None:
        self._inner = inner
        self._chat = chat

    @property
    def name(self) -> str:
        """The inner policy's name."""
        return self._inner.name

    def agent(self, assignment: Assignment) -> Agent:
        """The inner policy's agent, with tokens in its replies."""
        tokens = EpisodeTokens(self._chat, assignment.kept)
        return _TokenizedAgent(self._inner.agent(assignment), self._chat, tokens)


class _TokenizedAgent:
    __slots__ = ("_chat", "_inner", "_tokens")

    def __init__(self, inner: Agent, chat: ChatTokenizer, tokens: EpisodeTokens) -> None:
        self._inner = inner
        self._chat = chat
        self._tokens = tokens

    async def reply(self, window: Window) -> Reply:
        prompt = self._tokens.prompt(window)
        reply = await self._inner.reply(window)
        ids = self._chat.encode_reply(reply.text, reply.calls, window=window)
        usage = Usage(len(prompt), len(ids))
        bare = Reply(reply.text, reply.calls, reply.finish, usage, attempts=reply.attempts)
        return self._tokens.attach_tokens(bare, prompt, ids, [0.0] * len(ids))
