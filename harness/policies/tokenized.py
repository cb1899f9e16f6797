"""A policy whose replies bear tokens: those of another policy's texts.

So what an oracle or a script does can be learned from (behaviour cloning): its episodes are logged
with the tokens that a model would have been shown and would have sampled, and go the way that
sampled episodes go. Nothing is tokenised again after that.
"""

from harness.core.messages import Reply, Usage, Window
from harness.policies.base import Agent, Assignment, Policy
from harness.policies.token_agent import EpisodeTokens
from harness.tokenization.chat_tokenizer import ChatTokenizer


class TokenisedPolicy:
    """Answers as `inner` does, which stays its owner's to close.

    The log-probabilities are 0, as of a policy that never hesitates; the weights have no version.
    """

    def __init__(self, inner: Policy, chat: ChatTokenizer) -> None:
        self._inner = inner
        self._chat = chat

    @property
    def name(self) -> str:
        """The inner policy's."""
        return self._inner.name

    def agent(self, assignment: Assignment) -> Agent:
        """The inner policy's agent, its replies with tokens."""
        return _TokenisedAgent(self._inner.agent(assignment), self._chat)


class _TokenisedAgent:
    __slots__ = ("_chat", "_inner", "_tokens")

    def __init__(self, inner: Agent, chat: ChatTokenizer) -> None:
        self._inner = inner
        self._chat = chat
        self._tokens = EpisodeTokens(chat)

    async def reply(self, window: Window) -> Reply:
        prompt = self._tokens.prompt(window)
        reply = await self._inner.reply(window)
        ids = self._chat.encode_reply(reply.text, reply.calls)
        usage = Usage(len(prompt), len(ids))
        bare = Reply(reply.text, reply.calls, reply.finish, usage, attempts=reply.attempts)
        return self._tokens.borne(bare, prompt, ids, [0.0] * len(ids))
