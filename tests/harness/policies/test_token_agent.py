"""The agent of the policies that exchange tokens with their model."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.errors import ContextLengthError
from rehearsal_room.harness.core.events import EpisodeStarted, StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Answer,
    Message,
    Reply,
    Usage,
    Window,
)
from rehearsal_room.harness.core.token_bytes import (
    decode_ids,
    decode_logprobs,
    encode_ids,
    encode_logprobs,
)
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.hermes import Hermes
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.last_turns import FullWindow, LastTurns
from rehearsal_room.harness.history.windows import HistoryFold
from rehearsal_room.harness.policies.token_agent import (
    GeneratedTokens,
    Sampling,
    TokenAgent,
    count_shared_ids,
    reply_seed,
    split_tool_calls,
)
from rehearsal_room.harness.tokenization.chat_template import ChatTemplate
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from tests.support.prompts import BRIEFING, GET_ORDER
from tests.support.tiny_model import TEMPLATE, tiny_tokenizer

CHAT = ChatTokenizer(tiny_tokenizer(), ChatTemplate(TEMPLATE, {}, path=Path("here")), [])
HEAD = (Message("system", "You act."), Message("user", "Void order 7."))
CALL = '<tool_call>\n{"name": "get_order", "arguments": {"order_id": 7}}\n</tool_call>'


class Scripted:
    """A model with fixed texts, which records its requests."""

    def __init__(self, *texts: str, finish: str = "stop") -> None:
        self._texts = list(texts)
        self._finish = finish
        self.asked: list[tuple[list[int], int, float, float, int]] = []
        self.together: anyio.Event | None = None  # that requests wait for

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> GeneratedTokens:
        self.asked.append((list(prompt_ids), max_tokens, temperature, top_p, seed))
        if self.together is not None:
            await self.together.wait()
        ids = CHAT.encode(self._texts.pop(0))
        if self._finish == "stop":
            ids.append(CHAT.end_id)
        return GeneratedTokens(ids, [-0.5] * len(ids), self._finish, "v3", 4, 2)


def agent_of(
    backend: Scripted, sampling: Sampling | None = None, context: int = 9999
) -> TokenAgent:
    return TokenAgent(backend, CHAT, sampling or Sampling(), context=context, episode_seed=11)


async def test_a_reply_has_its_tokens() -> None:
    """A reply has the text without the end token, all ids with their log-probabilities, and the
    backend's weights, cached tokens and attempts; of a later prompt it has only the ids after the
    part that is shared with the first."""
    backend = Scripted("One.", "Two.")
    agent = agent_of(backend)
    first = await agent.reply(Window(HEAD))
    second = await agent.reply(
        Window((*HEAD, Message("assistant", "One."), Message("user", "Go on.")))
    )
    prompts = [asked[0] for asked in backend.asked]
    one, two = CHAT.encode_reply("One."), CHAT.encode_reply("Two.")
    assert first == Reply(
        "One.",
        (),
        "stop",
        Usage(len(prompts[0]), len(one), 4),
        encode_ids(prompts[0]),
        0,
        encode_ids(one),
        encode_logprobs([-0.5] * len(one)),
        "v3",
        2,
    )
    assert prompts[1][: len(prompts[0]) + len(one)] == prompts[0] + one
    assert second == Reply(
        "Two.",
        (),
        "stop",
        Usage(len(prompts[1]), len(two), 4),
        encode_ids(prompts[1][len(prompts[0]) :]),
        len(prompts[0]),
        encode_ids(two),
        encode_logprobs([-0.5] * len(two)),
        "v3",
        2,
    )


async def test_a_cut_reply_with_a_call_stays_cut() -> None:
    """The finish reason of a reply that was cut is `length` also where a whole call came before."""
    window = Window(HEAD, (GET_ORDER,))
    finishes = []
    for finish in ("stop", "length"):
        reply = await agent_of(Scripted(CALL, finish=finish)).reply(window)
        finishes.append((len(reply.calls), reply.finish, reply.was_cut))
    assert finishes == [(1, "tool_calls", False), (1, "length", True)]


async def test_a_reply_that_was_cut_off() -> None:
    """Without an end token the finish reason is `length`, and the next prompt ends the turn."""
    backend = Scripted("One", "Two", finish="length")
    agent = agent_of(backend)
    reply = await agent.reply(Window(HEAD))
    window = Window((*HEAD, Message("assistant", "One"), Message("user", "Go on.")))
    await agent.reply(window)
    assert (reply.text, reply.finish, list(decode_ids(reply.token_ids))) == (
        "One",
        "length",
        CHAT.encode("One"),
    )
    assert backend.asked[1][0] == CHAT.prompt(window, {})


async def test_sampling_follows_the_settings() -> None:
    """Temperature and top_p are passed on; every reply has its own seed, the same in every run; the
    requested tokens are limited by the settings and by the room in the context."""
    window = Window(HEAD)
    num_prompt = len(CHAT.prompt(window, {}))
    asked = []
    for limit, context in ((7, 1000), (None, num_prompt + 5), (9, num_prompt + 1)):
        backend = Scripted("a", "b")
        agent = agent_of(backend, Sampling(0.7, 0.9, limit, 5), context)
        await agent.reply(window)
        await agent.reply(window)
        asked += [rest for _, *rest in backend.asked]
    seeds = [reply_seed(5, 11, 0), reply_seed(5, 11, 1)]
    assert asked == [[limit, 0.7, 0.9, seed] for limit in (7, 5, 1) for seed in seeds]
    others = {reply_seed(5, 11, 0), reply_seed(6, 11, 0), reply_seed(5, 12, 0), *seeds}
    assert len(others) == 4 and max(others) < 2**48


async def test_replies_that_are_asked_for_at_once() -> None:
    """An agent of the user's own may ask for several replies at once: each has a seed of its own,
    and its calls have ids of their own."""
    backend = Scripted(CALL, CALL)
    agent = agent_of(backend)
    window = Window(HEAD, (GET_ORDER,))
    replies: list[Reply] = []

    async def ask() -> None:
        replies.append(await agent.reply(window))

    backend.together = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        backend.together.set()
    assert {asked[-1] for asked in backend.asked} == {reply_seed(0, 11, one) for one in range(2)}
    assert {reply.calls[0].id for reply in replies} == {"c0-0", "c1-0"}


async def test_a_window_that_leaves_no_room_ends_the_episode() -> None:
    """A prompt as long as the context raises a ContextLengthError with both numbers."""
    num_prompt = len(CHAT.prompt(Window(HEAD), {}))
    agent = agent_of(Scripted("a"), context=num_prompt)
    message = (
        f"the prompt has {num_prompt} tokens; "
        f"the limit for prompt and reply together is {num_prompt}"
    )
    with pytest.raises(ContextLengthError, match=message):
        await agent.reply(Window(HEAD))


async def test_native_calls_are_read() -> None:
    """Where the request has tools, calls are split from the text as servers do it, and the next
    prompt still has the sampled ids; the text of a summary is not split."""
    backend = Scripted(f"I look.\n{CALL}", "Done.", CALL)
    agent = agent_of(backend)
    dialect = Native()
    fold = HistoryFold(FullWindow(), dialect, BRIEFING)
    reply = await agent.reply(fold.window())
    call = AgentCall("get_order", {"order_id": 7}, "c0-0")
    assert (reply.text, reply.calls, reply.finish) == ("I look.", (call,), "tool_calls")
    fold.apply(StepTaken(reply, dialect.read(reply, turn=0), (ToolResult("{}"),)))
    await agent.reply(fold.window())
    begin = backend.asked[0][0] + list(decode_ids(reply.token_ids))
    assert backend.asked[1][0][: len(begin)] == begin
    asking = Window((*HEAD,), (GET_ORDER,), asks_for_summary=True)
    summary = await agent.reply(asking)
    assert (summary.text, summary.calls, summary.finish) == (CALL, (), "stop")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Done.", ("Done.", ())),
        ('<tool_call>{"name": }</tool_call>', ('<tool_call>{"name": }</tool_call>', ())),
        (
            f"<think>a <tool_call> is next</think>\nNow.\n{CALL}\n{CALL}",
            (
                "<think>a <tool_call> is next</think>\nNow.",
                tuple(AgentCall("get_order", {"order_id": 7}, f"c5-{i}") for i in (0, 1)),
            ),
        ),
        ("<think>cut off <tool_call>", ("<think>cut off <tool_call>", ())),
    ],
)
def test_a_native_reply_is_split(text: str, expected: tuple[str, tuple[AgentCall, ...]]) -> None:
    """Tags inside of thoughts are not calls; a call that cannot be read stays text."""
    assert split_tool_calls(text, 5) == expected


@given(st.lists(st.integers(0, 3), max_size=9), st.lists(st.integers(0, 3), max_size=9))
def test_shared_ids_are_counted(one: list[int], other: list[int]) -> None:
    """The count of shared ids is the length of the longest common beginning."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    assert count_shared_ids(encode_ids(one), encode_ids(other)) == count


@pytest.mark.parametrize("history", [FullWindow(), LastTurns(2)])
async def test_the_log_has_every_prompt(history: FullWindow | LastTurns) -> None:
    """The prompt of each step can be computed from the trajectory, also where turns left the
    history."""
    backend = Scripted(CALL, f"Again.\n{CALL}", CALL, "<tool_call>", "Done.")
    agent, dialect = agent_of(backend, context=9999), Hermes()
    fold = HistoryFold(history, dialect, BRIEFING)
    steps = []
    for turn in range(5):
        reply = await agent.reply(fold.window())
        decision = dialect.read(reply, turn=turn)
        results = (ToolResult(f"order {turn}"),) if isinstance(decision, Act) else ()
        steps.append(StepTaken(reply, decision, results))
        fold.apply(steps[-1])
    assert isinstance(steps[-1].decision, Answer)
    started = EpisodeStarted("s", "t", "i", "g", 0, 1, 0, "p", "hermes", "full", "f", "d", "w")
    trajectory = Trajectory("e", 0, started, tuple(steps), None)
    assert [list(decode_ids(prompt)) for prompt in trajectory.prompts()] == [
        asked[0] for asked in backend.asked
    ]
    assert {step.reply.prompt_shared > 0 for step in steps[1:]} == {True}
    assert set(decode_logprobs(steps[0].reply.logprobs)) == {-0.5}
