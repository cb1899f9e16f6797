"""A served checkpoint with a scripted backend, its clients, and episodes with and without it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from rehearsal_room.envpool.server.http_server import listening
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.harness.core.events import Ending, StepTaken
from rehearsal_room.harness.core.policy_card import PolicyCard
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.policies.openai import OpenAIPolicy, OpenAISettings
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.harness.serving.compatibility import ServingFormats
from rehearsal_room.harness.serving.http_server import PolicyApp
from rehearsal_room.harness.serving.service import PolicyService, sampling_of
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from tests.support.run_context import MemorySink, make_run_context, plans, watchdog_running
from tests.support.scripted_tokens import CONTEXT, ScriptedTokenPolicy, ScriptedTokens

HISTORIES = (
    *("full", "last:1", "last:3", "last:2+2", "tokens:1500", "retrieve:1", "summary:1400"),
)
CALLS = [
    '<think>Who is it?</think>\n<tool_call>\n{"name":  "find_member", "arguments": {"name": '
    '"Anna Soll"}}\n</tool_call>',
    'Let me look.\n<tool_call>{"arguments": {"member_id": 2}, "name": "get_member"}</tool_call>',
    '<tool_call>{"name": "get_member", "arguments": {"member_id": 999}}</tool_call>\n'
    '<tool_call>{"name": "search_books", "arguments": {"title": "Emma"}}</tool_call>  ',
    '<tool_call>{"name": "list_overdue"}</tool_call>',
    '<tool_call>{"name": "list_overdue", "arguments": {}}</tool_call>',
    'Now.<tool_call>{"name":"pay_fine","arguments":{"member_id":2,"amount_cents":350,'
    '"method":"card"}}</tool_call>',
    '<tool_call>{"name": "get_member", "arguments": {"member_id": 2}}</tool_call>',
    "<think>It is done.</think> Anna Soll's fine of 3.50 is paid by card; she owes nothing now.",
]
LISTS = '<think>I call list_tools.</think>\n<tool_call>{"name": "list_tools"}</tool_call>'


def awm(text: str) -> str:
    """A reply in AWM's protocol that makes the first call of another: one call a turn, by
    call_tool."""
    if "<tool_call>" not in text:
        return text
    body = text.partition("<tool_call>")[2].partition("</tool_call>")[0]
    call = msgspec.json.decode(body)
    inner = {
        "tool_name": call["name"],
        "arguments": msgspec.json.encode(call.get("arguments", {})).decode(),
    }
    outer = msgspec.json.encode({"name": "call_tool", "arguments": inner}).decode()
    return f"<think>I go on.</think>\n<tool_call>{outer}</tool_call>"


def script(dialect: str) -> list[str]:
    return [LISTS, *map(awm, CALLS)] if dialect == "awm" else CALLS


def card_of(chat: ChatTokenizer, history: str = "last:1", dialect: str = "hermes") -> PolicyCard:
    """A card whose history window counts tokens by the model's tokenizer, if it counts any."""
    return PolicyCard("v7", history, parse_history(history, chat).fingerprint, dialect)


def service_of(
    backend: ScriptedTokens,
    chat: ChatTokenizer,
    card: PolicyCard | None,
    *,
    context: int = CONTEXT,
    **settings: str,
) -> PolicyService:
    formats = ServingFormats("m", chat, card, **settings)
    return PolicyService(
        "m", backend, chat, formats, sampling_of(card), context=context, seeds=lambda: 5
    )


@asynccontextmanager
async def served(
    service: PolicyService, settings: WorldServerSettings | None = None
) -> AsyncIterator[str]:
    app = PolicyApp(service, settings or WorldServerSettings())
    async with listening(app, host="127.0.0.1", port=0, drain_s=1.0) as url:
        yield f"{url}/v1"


async def play_episode(
    policy: Policy, chat: ChatTokenizer, *, history: str, dialect: str
) -> list[StepTaken]:
    """The steps of one episode."""
    sink = MemorySink()
    context = make_run_context(policy, sink, history=parse_history(history, chat))
    context = msgspec.structs.replace(context, dialect=dialect_of(dialect))
    (plan,) = plans(task="pay-fine")
    async with watchdog_running(context):
        assert await run_episode(plan, context) is Ending.ANSWERED
    return [event for event in sink.events(plan.episode) if isinstance(event, StepTaken)]


async def play_locally(
    chat: ChatTokenizer, *, history: str, dialect: str
) -> tuple[Any, list[StepTaken]]:
    """The prompts and the steps of an episode in process."""
    backend = ScriptedTokens(chat, script(dialect))
    policy = ScriptedTokenPolicy(backend, chat)
    steps = await play_episode(policy, chat, history=history, dialect=dialect)
    return backend.prompts, steps


async def play_over_http(
    chat: ChatTokenizer, *, history: str, dialect: str, client_dialect: str
) -> tuple[Any, list[StepTaken]]:
    """The prompts and the steps of an episode whose client sends its whole conversation in
    `client_dialect`."""
    backend = ScriptedTokens(chat, script(dialect))
    service = service_of(backend, chat, card_of(chat, history, dialect))
    async with (
        served(service) as url,
        OpenAIPolicy(OpenAISettings("m", base_url=url, max_attempts=1)) as policy,
    ):
        steps = await play_episode(policy, chat, history="full", dialect=client_dialect)
    return backend.prompts, steps


def results_of(steps: Sequence[StepTaken]) -> list[Any]:
    return [step.results for step in steps]


TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks.",
        "parameters": {"type": "object", "properties": {}},
    },
}
HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


async def post(url: str, body: Any, **headers: str) -> tuple[int, dict[str, str], Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/chat/completions", json=body, headers=headers) as response,
    ):
        return response.status, dict(response.headers), await response.json()


async def complete(url: str, body: Any) -> Any:
    status, _, content = await post(url, body)
    assert status == 200, content
    return content


def message(role: str, content: Any = "x", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}
