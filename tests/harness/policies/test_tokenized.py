"""Policies whose texts are logged with tokens."""

from pathlib import Path

import pytest

from envpool.core.types import ToolResult
from harness.core.events import StepTaken
from harness.core.messages import Act, Reply, Usage, Window
from harness.core.token_bytes import decode_ids, decode_logprobs
from harness.dialects.registry import dialect_of
from harness.history.last_turns import LastTurns
from harness.history.windows import HistoryFold
from harness.policies.base import Assignment
from harness.policies.known_calls import SUMMARY, Player, replies_of
from harness.policies.tokenized import TokenisedPolicy
from harness.tokenization.chat_template import ChatTemplate
from harness.tokenization.chat_tokenizer import ChatTokenizer
from scenarios.api import User
from scenarios.format import Call, Scenario, Task
from tests.support.prompts import BRIEFING
from tests.support.tiny_model import TEMPLATE, tiny_tokenizer

CHAT = ChatTokenizer(tiny_tokenizer(), ChatTemplate(TEMPLATE, {}, path=Path("here")), [])


class Inner:
    """Plays given replies."""

    name = "inner"

    def __init__(self, replies: tuple[Reply, ...]) -> None:
        self._replies = replies

    def agent(self, assignment: object) -> Player:
        return Player(self._replies)


CALLS = [Call("get_order", {"order_id": number}) for number in (7, 8, 9)]
TASK = Task("t", "Do it.", "simple", "change", "Done.")
SCENARIO = Scenario(
    "s", "S", "1", "A world.", "2026-01-01T00:00:00Z", User("u", "U", "clerk"), "", "", "",
    (TASK,), Path("s"), "0" * 32,
)  # fmt: skip
ASSIGNMENT = Assignment("e", SCENARIO, TASK, 0, BRIEFING)


@pytest.mark.parametrize("name", ["hermes", "native", "awm"])
async def test_replies_bear_the_tokens_of_their_texts(name: str) -> None:
    """Each reply says what it said before, and beside it the window's ids, those of its text with
    the end token (of its calls as the template lays them out), and log-probabilities of 0."""
    dialect = dialect_of(name, lenient=True)
    replies = replies_of(dialect, CALLS, "Done.")
    policy = TokenisedPolicy(Inner(replies), CHAT)
    agent = policy.agent(ASSIGNMENT)
    assert policy.name == "inner"
    fold, first = HistoryFold(LastTurns(2), dialect, BRIEFING), b""
    for turn, expected in enumerate(replies):
        window = fold.window()
        reply = await agent.reply(window)
        said = CHAT.encode_reply(expected.text, expected.calls)
        shown = first[: 4 * reply.prompt_shared] + reply.prompt_ids
        first = first or shown
        assert list(decode_ids(shown)) == CHAT.prompt(window, {})
        assert list(decode_ids(reply.token_ids)) == said
        assert list(decode_logprobs(reply.logprobs)) == [0.0] * len(said)
        assert reply == Reply(
            expected.text,
            expected.calls,
            expected.finish,
            Usage(len(shown) // 4, len(said)),
            reply.prompt_ids,
            reply.prompt_shared,
            reply.token_ids,
            reply.logprobs,
        )
        decision = dialect.read(reply, turn=turn)
        results = (ToolResult(f"order {turn}"),) if isinstance(decision, Act) else ()
        fold.apply(StepTaken(reply, decision, results))


async def test_a_summary_is_tokenised_too() -> None:
    """Asked for a summary, the inner agent's is what bears tokens."""
    agent = TokenisedPolicy(Inner((Reply("Done."),)), CHAT).agent(ASSIGNMENT)
    reply = await agent.reply(Window((), asks_for_summary=True))
    assert (reply.text, list(decode_ids(reply.token_ids))) == (
        SUMMARY.text,
        CHAT.encode_reply(SUMMARY.text),
    )
