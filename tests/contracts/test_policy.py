"""The promises of every policy and its agents, whatever is behind them.

The Protocols are harness.policies.base.Policy and Agent. Policies that play known calls run in
several dialects; `openai` and `vllm` ask servers of these tests on loopback.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.chaos.course import CURRENT, Course
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.policy import FaultyPolicy
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import Record, StepTaken, encode
from rehearsal_room.harness.core.messages import Act, Answer, FormatError, Message, Reply, Window
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.last_turns import FullWindow
from rehearsal_room.harness.history.windows import HistoryFold
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.policies.base import Agent, Assignment, OpenPolicy, Policy
from rehearsal_room.harness.policies.latency import LatencyPolicy
from rehearsal_room.harness.policies.mutants import MutantPolicy
from rehearsal_room.harness.policies.noop import (
    LAZY,
    ListingPolicy,
    NoopPolicy,
    PastingPolicy,
    RecitingPolicy,
)
from rehearsal_room.harness.policies.openai import OpenAIPolicy, OpenAISettings
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.policies.random_calls import RandomPolicy
from rehearsal_room.harness.policies.replay import ReplayPolicy
from rehearsal_room.harness.policies.scripted import ScriptedPolicy
from rehearsal_room.harness.policies.token_agent import Sampling
from rehearsal_room.harness.policies.tokenized import TokenizedPolicy
from rehearsal_room.harness.settings.model import ModelSettings
from rehearsal_room.harness.tokenization.chat_template import ChatTemplate
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.vllm.client import VllmSettings
from rehearsal_room.harness.vllm.policy import VllmPolicy
from rehearsal_room.scenarios.format import Call, Scenario, Task
from tests.support.assignments import VOID, assignment
from tests.support.chaos import chaos_of, injecting
from tests.support.decoded_records import decode_record
from tests.support.episode_logs import whole
from tests.support.fake_vllm import fake_vllm
from tests.support.model_server import Completes, ModelServer, ReceivedRequest, Stall
from tests.support.tiny_model import TEMPLATE, tiny_tokenizer, write_tokenizer

MAX_TURNS = 12
SUMMARY_REQUEST = Window((Message("user", "Sum up what you did."),), asks_for_summary=True)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Making(Protocol):
    """Opens a policy in a dialect; what it needs goes into an empty folder."""

    def __call__(self, dialect: str, folder: Path) -> AbstractAsyncContextManager[Policy]: ...


def known(make: Callable[[Any, Path], Policy]) -> Making:
    """A policy that holds nothing."""

    @asynccontextmanager
    async def opened(dialect: str, folder: Path) -> AsyncIterator[Policy]:
        yield make(dialect_of(dialect), folder)

    return opened


def writes_of(scenario: Scenario, task: Task) -> list[bool]:
    return [call.name != "get_order" for call in task.oracle]


def scripted(dialect: Any, folder: Path) -> Policy:
    call = {"name": "void_order", "arguments": {"order_id": 7}}
    lines = [
        {"scenario": "shop", "task": task, "calls": [call], "answer": f"Done by {member}."}
        for task in ("void-7", "void-8")
        for member in range(2)
    ]
    file = folder / "script.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ScriptedPolicy(file, dialect)


def tokenized(dialect: Any, folder: Path) -> Policy:
    chat = ChatTokenizer(tiny_tokenizer(), ChatTemplate(TEMPLATE, {}, path=folder), [])
    return TokenizedPolicy(OraclePolicy(dialect), chat)


@asynccontextmanager
async def replay(dialect: str, folder: Path) -> AsyncIterator[Policy]:
    async with open_log(folder) as log:
        for episode in ("e0", "e1"):
            for record in whole(episode):
                log.append(record)
    async with ReplayPolicy(folder, dialect) as policy:
        yield policy


class VoidsOrder7:
    """A model that makes one call, and answers when it sees a result or is asked for a summary."""

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        last = request.body["messages"][-1]
        makes_call = last["role"] == "user" and "Sum up" not in last["content"]
        call = Completes(None, (("1", "void_order", '{"order_id": 7}'),))
        return await (call if makes_call else Completes("Order 7 is void.")).perform(
            request, writer
        )


@asynccontextmanager
async def openai(dialect: str, folder: Path) -> AsyncIterator[Policy]:
    async with ModelServer(VoidsOrder7()) as server, asking(server) as policy:
        yield policy


@asynccontextmanager
async def asking(server: ModelServer) -> AsyncIterator[OpenAIPolicy]:
    settings = OpenAISettings("m", server.url, "key", seed=3, longest_wait_s=0.01)
    async with OpenAIPolicy(settings, environment={}) as policy:
        yield policy


@asynccontextmanager
async def vllm(dialect: str, folder: Path) -> AsyncIterator[Policy]:
    model = folder / "model"
    write_tokenizer(model)
    (model / "config.json").write_text("{}")
    async with fake_vllm() as (_, url):
        settings = VllmSettings(str(model), url, first_wait_s=0.01)
        async with VllmPolicy(settings, Sampling(), environment={}) as policy:
            yield policy


class _InEpisodes(FaultyPolicy):
    """A policy with faults whose agents each have a world, as in a run."""

    def agent(self, assignment: Assignment) -> Agent:
        CURRENT.set(Course())
        return super().agent(assignment)


@asynccontextmanager
async def disturbed(dialect: str, folder: Path) -> AsyncIterator[Policy]:
    """Half of the attempts are refused, and repeated at once."""
    storm = {"share": 0.5, "retry_after": 0.0}
    injector = Injector(chaos_of({"policy": {"rate_limit": storm}}))
    oracle, model = OraclePolicy(dialect_of(dialect)), ModelSettings(max_attempts=99)
    async with injecting(injector):
        yield _InEpisodes(oracle, injector, model, is_over_http=False)


POLICIES: dict[str, Making] = {
    "oracle": known(lambda dialect, _: OraclePolicy(dialect)),
    "noop": known(lambda dialect, _: NoopPolicy(dialect)),
    "recites": known(lambda dialect, _: RecitingPolicy(dialect)),
    "pastes": known(lambda dialect, _: PastingPolicy(dialect)),
    "lists": known(
        lambda dialect, _: ListingPolicy(
            dialect, [(one.scenario, one.task) for one in [assignment()]]
        )
    ),
    "random": known(lambda dialect, _: RandomPolicy(dialect)),
    "mutant": known(lambda dialect, _: MutantPolicy(dialect, writes_of)),
    "scripted": known(scripted),
    "latency": known(lambda dialect, _: LatencyPolicy(OraclePolicy(dialect), 0.0, 0.001)),
    "tokenized": known(tokenized),
    "replay": replay,
    "disturbed": disturbed,
    "openai": openai,
    "vllm": vllm,
}
NAMES = {
    **dict.fromkeys(("latency", "disturbed", "tokenized"), "oracle"),
    "openai": "openai:m",
    "vllm": "vllm:model",
}
IN_DIALECTS = [
    *((name, "native") for name in POLICIES),
    *(
        (name, dialect)
        for name in ("oracle", "noop", *LAZY, "random", "mutant", "scripted", "tokenized")
        for dialect in ("hermes", "awm")
    ),
]
FIXED = ("oracle", "noop", "recites", "lists", "mutant", "scripted", "latency")
each_policy = pytest.mark.parametrize("name", POLICIES)
each_in_dialects = pytest.mark.parametrize(
    ("name", "dialect"), IN_DIALECTS, ids=[f"{name}-{dialect}" for name, dialect in IN_DIALECTS]
)


class Player:
    """An agent playing one episode, its calls answered with fixed results."""

    def __init__(self, policy: Policy, dialect: str, given: Assignment) -> None:
        self.agent: Agent = policy.agent(given)
        self.dialect = dialect_of(dialect)
        self.fold = HistoryFold(FullWindow(), self.dialect, given.briefing)
        self.steps: list[StepTaken] = []
        for event in given.kept:
            self.fold.apply(event)
            if isinstance(event, StepTaken):
                self.steps.append(event)

    @property
    def replies(self) -> list[Reply]:
        return [step.reply for step in self.steps]

    @property
    def is_over(self) -> bool:
        return len(self.steps) == MAX_TURNS or (
            bool(self.steps) and isinstance(self.steps[-1].decision, Answer)
        )

    async def take_turn(self) -> None:
        turn = len(self.steps)
        reply = await self.agent.reply(self.fold.window())
        decision = self.dialect.read(reply, turn=turn)
        num_calls = len(decision.calls) if isinstance(decision, Act) else 0
        result = ToolResult(f'{{"order_id": {turn}, "status": "open"}}')
        self.steps.append(StepTaken(reply, decision, (result,) * num_calls))
        self.fold.apply(self.steps[-1])

    async def play(self) -> "Player":
        while not self.is_over:
            await self.take_turn()
        return self


async def played(name: str, dialect: str, folder: Path, *given: Assignment) -> list[list[Reply]]:
    """The replies of episodes, one after the other, of a policy that was just opened."""
    await anyio.Path(folder).mkdir()
    async with POLICIES[name](dialect, folder) as policy:
        return [(await Player(policy, dialect, one).play()).replies for one in given]


def assignments(count: int = 4) -> list[Assignment]:
    """Assignments of one task, of different episodes, seeds and members."""
    return [assignment(seed=n, member=n % 2, episode=f"e{n}") for n in range(count)]


@each_in_dialects
async def test_replies_follow_from_the_assignment(name: str, dialect: str, tmp_path: Path) -> None:
    """The same assignment and seed lead to the same replies to the same windows, in a policy that
    is opened again, too."""
    first = await played(name, dialect, tmp_path / "one", *assignments())
    second = await played(name, dialect, tmp_path / "two", *assignments())
    assert first == second
    assert all(first)


@each_in_dialects
async def test_agents_share_no_state(name: str, dialect: str, tmp_path: Path) -> None:
    """Agents of different episodes that take turns reply as each would alone."""
    given = assignments()
    alone = await played(name, dialect, tmp_path / "alone", *given)
    async with POLICIES[name](dialect, tmp_path) as policy:
        players = [Player(policy, dialect, one) for one in given]
        while live := [player for player in players if not player.is_over]:
            for player in live:
                await player.take_turn()
    assert [player.replies for player in players] == alone


@each_in_dialects
async def test_an_agent_takes_an_episode_over(name: str, dialect: str, tmp_path: Path) -> None:
    """An agent that gets the turns so far goes on as the agent that took them would have, whichever
    turn it is: with the same replies, prompts and tokens included."""
    given = assignment(seed=2)
    async with POLICIES[name](dialect, tmp_path) as policy:
        whole = (await Player(policy, dialect, given).play()).steps
        for turn in range(len(whole)):
            taken_over = msgspec.structs.replace(given, kept=tuple(whole[:turn]))
            player = await Player(policy, dialect, taken_over).play()
            assert player.steps[turn:] == whole[turn:], turn


@each_in_dialects
async def test_replies_can_be_logged(name: str, dialect: str, tmp_path: Path) -> None:
    """A step with the reply survives the log's encoding unchanged."""
    async with POLICIES[name](dialect, tmp_path) as policy:
        player = await Player(policy, dialect, assignment()).play()
    for seq, step in enumerate(player.steps):
        record = Record("e", 1, seq, 0.0, step)
        assert decode_record(encode(record)) == record


@each_in_dialects
async def test_replies_fit_the_dialect(name: str, dialect: str, tmp_path: Path) -> None:
    """The policy's dialect can read every reply: calls or an answer, no format error."""
    async with POLICIES[name](dialect, tmp_path) as policy:
        player = await Player(policy, dialect, assignment(seed=2)).play()
    assert not any(isinstance(step.decision, FormatError) for step in player.steps)
    assert isinstance(player.steps[-1].decision, Answer)


@each_in_dialects
async def test_an_agent_that_is_asked_after_its_answer(
    name: str, dialect: str, tmp_path: Path
) -> None:
    """An agent that is asked again after its answer replies, one with fixed replies as before, or
    raises PolicyError."""
    async with POLICIES[name](dialect, tmp_path) as policy:
        player = await Player(policy, dialect, assignment()).play()
        for _ in range(2):
            try:
                reply = await player.agent.reply(player.fold.window())
            except PolicyError:
                continue
            assert isinstance(reply, Reply)
            assert name not in FIXED or reply == player.replies[-1]


@each_in_dialects
async def test_a_summary_is_a_text(name: str, dialect: str, tmp_path: Path) -> None:
    """Asked for a summary, an agent replies with a text and no calls, and its next step is the one
    that it would have taken."""
    expected = (await played(name, dialect, tmp_path / "other", assignment()))[0][0]
    async with POLICIES[name](dialect, tmp_path) as policy:
        player = Player(policy, dialect, assignment())
        summary = await player.agent.reply(SUMMARY_REQUEST)
        await player.take_turn()
    assert summary.text
    assert summary.calls == ()
    step = player.replies[0]
    assert (step.text, step.calls) == (expected.text, expected.calls)


@each_policy
async def test_the_name_is_the_one_in_the_log(name: str, tmp_path: Path) -> None:
    """A policy is named after its kind, and after its model where it has one; one that wraps
    another has the other's name."""
    async with POLICIES[name]("native", tmp_path) as policy:
        assert policy.name == NAMES.get(name, name)


@pytest.mark.parametrize("name", ["replay", "openai", "vllm"])
async def test_statistics_are_numbers(name: str, tmp_path: Path) -> None:
    """The statistics of an open policy are finite numbers under the same names from the start, and
    counts never fall."""
    async with POLICIES[name]("native", tmp_path) as policy:
        before = cast(OpenPolicy, policy).statistics()
        await Player(policy, "native", assignment()).play()
        after = cast(OpenPolicy, policy).statistics()
    assert before.keys() == after.keys()
    assert all(math.isfinite(value) for value in (*before.values(), *after.values()))
    assert all(before[key] <= after[key] for key in before)
    assert sum(after.values()) > sum(before.values())


@each_policy
async def test_a_cancelled_reply_leaves_the_policy_usable(name: str, tmp_path: Path) -> None:
    """A reply in a cancelled scope is either complete or cancelled, nothing else is raised, and
    other agents of the policy play on."""
    async with POLICIES[name]("native", tmp_path) as policy:
        replies: list[Reply] = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            player = Player(policy, "native", assignment())
            replies.append(await player.agent.reply(player.fold.window()))
        assert scope.cancelled_caught != bool(replies)
        player = await Player(policy, "native", assignment(episode="other", seed=1)).play()
    assert player.is_over


async def forever(dialect: str, folder: Path, stack: AsyncExitStack, name: str) -> Policy:
    """A policy whose first reply takes for ever."""
    if name == "latency":
        return LatencyPolicy(OraclePolicy(dialect_of(dialect)), 3600.0, 3600.0)
    if name == "tokenized":
        chat = ChatTokenizer(tiny_tokenizer(), ChatTemplate(TEMPLATE, {}, path=folder), [])
        return TokenizedPolicy(await forever(dialect, folder, stack, "latency"), chat)
    if name == "openai":
        server = await stack.enter_async_context(ModelServer())
        server.plan(Stall())
        return await stack.enter_async_context(asking(server))
    write_tokenizer(folder)
    (folder / "config.json").write_text("{}")
    fake, url = await stack.enter_async_context(fake_vllm())
    settings = VllmSettings(str(folder), url)
    policy = VllmPolicy(settings, Sampling(), environment={})
    await stack.enter_async_context(policy)
    fake.may_complete = anyio.Event()
    return policy


@pytest.mark.parametrize("name", ["latency", "tokenized", "openai", "vllm"])
async def test_cancellation_passes_through(name: str, tmp_path: Path) -> None:
    """Cancelling an agent that waits for its model ends the wait at once."""
    async with AsyncExitStack() as stack:
        policy = await forever("native", tmp_path, stack, name)
        agent = policy.agent(assignment())
        window = Player(policy, "native", assignment()).fold.window()
        with anyio.fail_after(10):
            with anyio.move_on_after(0.1) as scope:
                await agent.reply(window)
            assert scope.cancelled_caught


@pytest.mark.parametrize("name", ["oracle", "mutant", "scripted", "latency", "tokenized"])
async def test_tasks_do_not_share_replies(name: str, tmp_path: Path) -> None:
    """Replies that a policy prepares for one task are not given for another of the scenario."""
    oracle, answer = (Call("void_order", {"order_id": 8}),), "Order 8 is void."
    other = Task("void-8", "Void order 8.", "simple", "change", answer, oracle)
    async with POLICIES[name]("native", tmp_path) as policy:
        given = (assignment(), assignment(other), assignment())
        first, second, third = [await Player(policy, "native", one).play() for one in given]
    assert first.replies == third.replies
    if name != "scripted":
        assert (first.replies[-1].text, second.replies[-1].text) == (VOID.answer, answer)
        assert first.replies != second.replies
