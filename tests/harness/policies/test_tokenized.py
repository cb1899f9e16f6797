"""Policies whose replies get tokens from their texts."""

from pathlib import Path

import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act, Reply, Usage, Window
from rehearsal_room.harness.core.token_bytes import decode_ids, decode_logprobs
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.last_turns import LastTurns
from rehearsal_room.harness.history.windows import HistoryFold
from rehearsal_room.harness.policies.fixed_replies import (
    FIXED_SUMMARY,
    FixedRepliesAgent,
    replies_of,
)
from rehearsal_room.harness.policies.tokenized import TokenizedPolicy
from rehearsal_room.harness.tokenization.chat_template import ChatTemplate
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.scenarios.format import Call
from tests.support.assignments import assignment
from tests.support.prompts import BRIEFING
from tests.support.tiny_model import TEMPLATE, tiny_tokenizer

CHAT = ChatTokenizer(tiny_tokenizer(), ChatTemplate(TEMPLATE, {}, path=Path("here")), [])


class Inner:
    """A policy with fixed replies."""

    name = "inner"

    def __init__(self, replies: tuple[Reply, ...]) -> None:
        self._replies = replies

    def agent(self, assignment: object) -> FixedRepliesAgent:
        return FixedRepliesAgent(self._replies)


CALLS = [Call("get_order", {"order_id": number}) for number in (7, 8, 9)]


@pytest.mark.parametrize("name", ["hermes", "native", "awm"])
async def test_replies_have_the_tokens_of_their_texts(name: str) -> None:
    """Each reply keeps its text and calls, and gets the window's ids, the ids of its text with the
    end token (of its calls as the template renders them), and log-probabilities of 0."""
    dialect = dialect_of(name, lenient=True)
    replies = replies_of(dialect, CALLS, "Done.")
    policy = TokenizedPolicy(Inner(replies), CHAT)
    agent = policy.agent(assignment())
    fold, first = HistoryFold(LastTurns(2), dialect, BRIEFING), b""
    for turn, expected in enumerate(replies):
        window = fold.window()
        reply = await agent.reply(window)
        ids = CHAT.encode_reply(expected.text, expected.calls)
        shown = first[: 4 * reply.prompt_shared] + reply.prompt_ids
        first = first or shown
        assert list(decode_ids(shown)) == CHAT.prompt(window, {})
        assert list(decode_ids(reply.token_ids)) == ids
        assert list(decode_logprobs(reply.logprobs)) == [0.0] * len(ids)
        assert reply == Reply(
            expected.text,
            expected.calls,
            expected.finish,
            Usage(len(shown) // 4, len(ids)),
            reply.prompt_ids,
            reply.prompt_shared,
            reply.token_ids,
            reply.logprobs,
        )
        decision = dialect.read(reply, turn=turn)
        results = (ToolResult(f"order {turn}"),) if isinstance(decision, Act) else ()
        fold.apply(StepTaken(reply, decision, results))


async def test_a_summary_is_tokenized_too() -> None:
    """The inner agent's summary gets tokens, too."""
    agent = TokenizedPolicy(Inner((Reply("Done."),)), CHAT).agent(assignment())
    reply = await agent.reply(Window((), asks_for_summary=True))
    assert (reply.text, list(decode_ids(reply.token_ids))) == (
        FIXED_SUMMARY.text,
        CHAT.encode_reply(FIXED_SUMMARY.text),
    )
