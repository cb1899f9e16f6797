"""A checkpoint served over the chat API: its windows and its dialect, whatever clients send."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio
import msgspec
import openai
import pytest
from structlog.testing import capture_logs

from envpool.server.http_server import listening
from envpool.server.settings import ServeSettings
from harness.core.errors import ContextLengthError, PolicyError, SettingsError
from harness.core.events import Ending, StepTaken
from harness.core.messages import Message, Window
from harness.core.policy_card import PolicyCard
from harness.dialects.registry import dialect_of
from harness.history.windows import parse_history
from harness.policies.base import Policy
from harness.policies.openai import OpenAIPolicy, OpenAISettings
from harness.policies.token_agent import Sampling
from harness.rollout.episode import run_episode
from harness.serving.compatibility import Uses
from harness.serving.http_server import PolicyApp
from harness.serving.service import PolicyService, sampling_of
from harness.tokenization.chat_tokenizer import ChatTokens
from tests.support.run_context import MemorySink, make_run_context, plans, watchdog_running
from tests.support.scripted_tokens import CONTEXT, ScriptedTokenPolicy, ScriptedTokens
from tests.support.tiny_model import write_tokenizer

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
    """A reply of these in AWM's protocol: one call a turn, by call_tool."""
    if "<tool_call>" not in text:
        return text
    body = text.partition("<tool_call>")[2].partition("</tool_call>")[0]
    call = msgspec.json.decode(body)
    inner = {
        "tool_name": call["name"],
        "arguments": msgspec.json.encode(call.get("arguments", {})).decode(),
    }
    told = msgspec.json.encode({"name": "call_tool", "arguments": inner}).decode()
    return f"<think>I go on.</think>\n<tool_call>{told}</tool_call>"


def script(dialect: str) -> list[str]:
    return [LISTS, *map(awm, CALLS)] if dialect == "awm" else CALLS


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatTokens:
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder)
    return ChatTokens.open(folder)


def card_of(chat: ChatTokens, history: str = "last:1", dialect: str = "hermes") -> PolicyCard:
    """A card whose history policy counts tokens by the model's tokenizer, where it counts."""
    return PolicyCard("v7", history, parse_history(history, chat).fingerprint, dialect)


def service_of(
    backend: ScriptedTokens,
    chat: ChatTokens,
    card: PolicyCard | None,
    *,
    context: int = CONTEXT,
    **uses: str,
) -> PolicyService:
    known = Uses("m", chat, card, **uses)
    return PolicyService(
        "m", backend, chat, known, sampling_of(card), context=context, seeds=lambda: 5
    )


@asynccontextmanager
async def served(
    service: PolicyService, settings: ServeSettings | None = None
) -> AsyncIterator[str]:
    app = PolicyApp(service, settings or ServeSettings())
    async with listening(app, host="127.0.0.1", port=0, drain_s=1.0) as url:
        yield f"{url}/v1"


async def played(
    policy: Policy, chat: ChatTokens, *, history: str, dialect: str
) -> list[StepTaken]:
    """The steps of one episode."""
    sink = MemorySink()
    context = make_run_context(policy, sink, history=parse_history(history, chat))
    context = msgspec.structs.replace(context, dialect=dialect_of(dialect))
    (plan,) = plans(task="pay-fine")
    async with watchdog_running(context):
        assert await run_episode(plan, context) is Ending.ANSWERED
    return [event for event in sink.events(plan.episode) if isinstance(event, StepTaken)]


async def locally(chat: ChatTokens, *, history: str, dialect: str) -> tuple[Any, list[StepTaken]]:
    """The prompts, and the steps, of an episode in process."""
    backend = ScriptedTokens(chat, script(dialect))
    policy = ScriptedTokenPolicy(backend, chat)
    steps = await played(policy, chat, history=history, dialect=dialect)
    return backend.prompts, steps


async def over_http(
    chat: ChatTokens, *, history: str, dialect: str, speaks: str
) -> tuple[Any, list[StepTaken]]:
    """The same of one whose client sends its whole conversation in the dialect `speaks`."""
    backend = ScriptedTokens(chat, script(dialect))
    service = service_of(backend, chat, card_of(chat, history, dialect))
    async with (
        served(service) as url,
        OpenAIPolicy(OpenAISettings("m", base_url=url, max_attempts=1)) as policy,
    ):
        steps = await played(policy, chat, history="full", dialect=speaks)
    return backend.prompts, steps


def outcome(steps: Sequence[StepTaken]) -> list[Any]:
    return [step.results for step in steps]


# Alignment


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("dialect", ["hermes", "native"])
async def test_a_client_with_tools_gets_the_prompts_of_the_training(
    chat: ChatTokens, history: str, dialect: str
) -> None:
    """Token for token, a native conversation sent whole is shown as a run under the checkpoint's
    own history and dialect shows it, and its calls do the same."""
    prompts, steps = await locally(chat, history=history, dialect=dialect)
    got, made = await over_http(chat, history=history, dialect=dialect, speaks="native")
    assert got == prompts
    assert outcome(made) == outcome(steps)


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("dialect", ["hermes", "awm"])
async def test_a_client_of_the_models_dialect_gets_the_prompts_of_the_training(
    chat: ChatTokens, history: str, dialect: str
) -> None:
    """So is a conversation in the model's own dialect, AWM's pinned tool list included."""
    prompts, steps = await locally(chat, history=history, dialect=dialect)
    got, made = await over_http(chat, history=history, dialect=dialect, speaks=dialect)
    assert got == prompts
    assert made == [
        msgspec.structs.replace(step, **_own(step, mine))
        for step, mine in zip(steps, made, strict=True)
    ]


def _own(step: StepTaken, mine: StepTaken) -> dict[str, Any]:
    """What may differ: what only a token policy tells, what was seen, and times."""
    names = ("reply", "policy_s", "calls_s", "first_turn", "recalled")
    assert step.reply.text == mine.reply.text
    return {name: getattr(mine, name) for name in names}


@pytest.mark.parametrize("history", [name for name in HISTORIES if name != "full"])
async def test_windows_differ_from_the_whole_conversation(chat: ChatTokens, history: str) -> None:
    """The histories of these tests do cut something off: otherwise they would show nothing."""
    prompts, _ = await locally(chat, history=history, dialect="hermes")
    whole, _ = await locally(chat, history="full", dialect="hermes")
    assert prompts != whole


async def test_other_windows_than_the_trained_ones_give_other_prompts(chat: ChatTokens) -> None:
    """The comparison sees a misalignment: prompts under `last:2` are not those of `last:1`."""
    prompts, _ = await locally(chat, history="last:1", dialect="hermes")
    got, _ = await over_http(chat, history="last:2", dialect="hermes", speaks="native")
    assert got != prompts


async def test_what_was_sampled_is_shown_again_not_tokenised_again(chat: ChatTokens) -> None:
    """A server that has forgotten what it said (it was started anew) goes on from the client's
    version, says so, and shows other ids."""
    backend = ScriptedTokens(chat, CALLS)
    messages: list[Any] = [{"role": "user", "content": "Hi"}]
    body = {"model": "m", "messages": messages, "tools": [TOOL]}
    card = card_of(chat)
    async with served(service_of(backend, chat, card)) as url:
        first = (await asked(url, body))["choices"][0]["message"]
        call = first["tool_calls"][0]["id"]
        messages += [first, {"role": "tool", "tool_call_id": call, "content": "Soll"}]
        again = await asked(url, body)
    async with served(service_of(backend, chat, card)) as url:
        anew = await asked(url, body)
    assert [again["rehearsal"]["rewritten"], anew["rehearsal"]["rewritten"]] == [0, 1]
    known, forgotten = backend.prompts[1:]
    assert backend.ids(CALLS[0]) == known[len(backend.prompts[0]) :][: len(backend.ids(CALLS[0]))]
    assert known != forgotten
    assert chat.text(known).replace(" ", "") == chat.text(forgotten).replace(" ", "")


# The protocol


TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks.",
        "parameters": {"type": "object", "properties": {}},
    },
}
HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


async def sent(url: str, body: Any, **headers: str) -> tuple[int, dict[str, str], Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/chat/completions", json=body, headers=headers) as response,
    ):
        return response.status, dict(response.headers), await response.json()


async def asked(url: str, body: Any) -> Any:
    status, _, answered = await sent(url, body)
    assert status == 200, answered
    return answered


async def test_a_reply_is_a_chat_completion(chat: ChatTokens) -> None:
    """A client reads text, finish reason and token counts, and under what it was shown."""
    backend = ScriptedTokens(chat, ["Good day."])
    async with served(service_of(backend, chat, card_of(chat))) as url:
        answered = await asked(url, HELLO)
    assert answered.pop("id").startswith("chatcmpl-")
    assert isinstance(answered.pop("created"), int)
    prompt, sampled = len(backend.prompts[0]), len(backend.ids("Good day."))
    assert answered == {
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Good day."},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": sampled,
            "total_tokens": prompt + sampled,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
        "rehearsal": {
            "history": "last:1",
            "dialect": "hermes",
            "first_turn": 0,
            "recalled": [],
            "rewritten": 0,
            "weights": "v1",
            "warnings": [],
        },
    }


async def test_the_openai_package_reads_calls_and_streams(chat: ChatTokens) -> None:
    """OpenAI's own client gets tool calls, whole and as a stream, with ids that are never given
    twice."""
    said = 'I look.\n<tool_call>{"name": "look", "arguments": {"at": "ä\\u003c"}}</tool_call>'
    backend = ScriptedTokens(chat, [said, said])
    ids: set[str] = set()
    async with (
        served(service_of(backend, chat, card_of(chat))) as url,
        openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client,
    ):
        request: Any = {"model": "m", "messages": HELLO["messages"], "tools": [TOOL]}
        whole = (await client.chat.completions.create(**request)).choices[0]
        calls = whole.message.tool_calls or []
        told = [
            (whole.message.content, call.function.name, call.function.arguments) for call in calls
        ]
        ids.update(call.id for call in calls)
        finishes = [whole.finish_reason]
        usages = []
        stream = await client.chat.completions.create(
            **request, stream=True, stream_options={"include_usage": True}
        )
        async for chunk in stream:
            usages.append(chunk.usage)
            for choice in chunk.choices:
                for call in choice.delta.tool_calls or []:
                    told.append((choice.delta.content, call.function.name, call.function.arguments))
                    ids.add(call.id)
                if choice.finish_reason:
                    finishes.append(choice.finish_reason)
    assert told == [("I look.", "look", '{"at":"ä<"}')] * 2
    assert finishes == ["tool_calls", "tool_calls"]
    assert len(ids) == 2
    assert [usage is not None for usage in usages] == [False, False, True]


async def test_sampling_is_the_requests_else_the_cards(chat: ChatTokens) -> None:
    """Temperature, top_p, max_tokens and seed of a request win; the card says the others."""
    backend = ScriptedTokens(chat, ["a", "b"])
    card = msgspec.structs.replace(card_of(chat), temperature=0.7, max_tokens=99)
    async with served(service_of(backend, chat, card)) as url:
        await asked(url, HELLO)
        told = {"temperature": 0, "top_p": 0.5, "max_completion_tokens": 7, "seed": 5}
        await asked(url, HELLO | told)
    (usual, told_so) = backend.asked
    assert usual[:3] == (99, 0.7, 1.0)
    assert told_so == (7, 0.0, 0.5, usual[3])  # the same seed as the service's own


async def test_calls_are_text_where_none_are_wanted(chat: ChatTokens) -> None:
    """`tool_choice: none`, and a request without tools, get the model's text as it is."""
    backend = ScriptedTokens(chat, [CALLS[3]] * 2)
    async with served(service_of(backend, chat, card_of(chat))) as url:
        for body in (HELLO | {"tools": [TOOL], "tool_choice": "none"}, HELLO):
            choice = (await asked(url, body))["choices"][0]
            assert choice == {
                "index": 0,
                "message": {"role": "assistant", "content": CALLS[3]},
                "finish_reason": "stop",
            }


def told(role: str, content: Any = "x", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASKS = told("assistant", None, tool_calls=[CALL])


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, "the body is no chat request: Object missing required field `messages`"),
        ({"messages": []}, "messages: the first must be the system's or the user's"),
        ({"messages": [told("assistant")]}, "messages: the first must be the system's or"),
        ({"messages": [told("user"), told("assistant")]}, "messages: the last is the assistant's"),
        ({"messages": [told("elf")]}, "messages[0]: there is no role 'elf'"),
        ({"messages": [told("user"), told("tool")]}, "messages[1]: a tool message needs"),
        (
            {"messages": [told("user", [{"type": "image_url"}])]},
            "messages[0]: image_url cannot be shown to the model, text can",
        ),
        (
            {"messages": [told("user"), ASKS, told("user")]},
            "messages: the call 'c1' has no tool message as its result",
        ),
        (
            {
                "messages": [
                    told("user"),
                    ASKS,
                    told("tool", tool_call_id="c1"),
                    told("tool", tool_call_id="c2"),
                ]
            },
            "messages: a tool message answers the call 'c2', which stands in no message before it",
        ),
        ({"n": 2}, "n: one choice is given, not 2"),
        ({"stop": ["END"]}, "stop: a reply ends with the model's own end token"),
        ({"logprobs": True}, "logprobs: they are not told here"),
        ({"response_format": {"type": "json_object"}}, "response_format: a reply is text"),
        ({"tool_choice": "required"}, "tool_choice: the model decides whether it calls a tool"),
        ({"temperature": -1}, "temperature: must not be negative"),
        ({"top_p": 0}, "top_p: must be above 0"),
        ({"max_completion_tokens": 0}, "max_tokens: must be at least 1, not 0"),
        ({"max_tokens": -3}, "max_tokens: must be at least 1, not -3"),
        ({"rehearsal": {"history": "all"}}, "rehearsal: history: 'all' is none of full, last:W"),
        ({"rehearsal": {"dialect": "elvish"}}, "rehearsal: dialect: there is no dialect 'elvish'"),
        ({"rehearsal": {"windows": "x"}}, "the body is no chat request: Object contains unknown"),
        (
            {"rehearsal": {"dialect": "awm"}, "tools": [TOOL]},
            "tools: the model has learned the dialect awm",
        ),
    ],
)
async def test_what_cannot_be_done_is_refused(
    chat: ChatTokens, body: dict[str, Any], fault: str
) -> None:
    """A request that would be answered otherwise than it asks is refused by a sentence that names
    the field, and the model is not asked."""
    backend = ScriptedTokens(chat, [])
    async with served(service_of(backend, chat, card_of(chat))) as url:
        status, _, answered = await sent(url, HELLO | body if body else {})
    assert status == 400
    assert answered["error"]["message"].startswith(fault)
    assert answered["error"]["type"] == "invalid_request_error"
    assert backend.prompts == []


async def test_a_body_that_is_no_utf8_is_refused(chat: ChatTokens) -> None:
    """It is the client's fault, and told so."""
    service = service_of(ScriptedTokens(chat, []), chat, card_of(chat))
    body = b'{"messages": [{"role": "user", "content": "\xff"}]}'
    async with (
        served(service) as url,
        aiohttp.ClientSession() as session,
        session.post(f"{url}/chat/completions", data=body) as response,
    ):
        assert response.status == 400
        told = (await response.json())["error"]["message"]
    assert told.startswith("the body is no chat request: 'utf-8' codec can't decode byte 0xff")


async def test_other_models_and_places_are_not_found(chat: ChatTokens) -> None:
    """A request for another model is told which one there is; other paths have nothing."""
    async with served(service_of(ScriptedTokens(chat, []), chat, card_of(chat))) as url:
        status, _, answered = await sent(url, HELLO | {"model": "gpt"})
        assert (status, answered["error"]["code"]) == (404, "model_not_found")
        assert answered["error"]["message"] == "there is no model 'gpt' here; there is 'm'"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{url}/models") as response:
                (model,) = (await response.json())["data"]
            async with session.get(url.removesuffix("/v1") + "/health") as response:
                assert await response.json() == {"status": "ok"}
            async with session.get(f"{url}/chat/completions") as response:
                assert response.status == 404
    assert (model["id"], model["max_model_len"]) == ("m", CONTEXT)
    assert model["rehearsal"] == {"history": "last:1", "dialect": "hermes", "warnings": []}


async def test_a_window_that_is_too_long_ends_the_episode_as_such(chat: ChatTokens) -> None:
    """Clients that know OpenAI's error take it for what it is."""
    backend = ScriptedTokens(chat, [])
    service = service_of(backend, chat, card_of(chat), context=10)
    async with (
        served(service) as url,
        OpenAIPolicy(OpenAISettings("m", base_url=url, max_attempts=1)) as policy,
    ):
        with pytest.raises(ContextLengthError, match="maximum context length is 10"):
            await policy.reply_to(Window((Message("user", "Hello there, you model."),)), None)


async def test_a_model_that_fails_is_a_503(chat: ChatTokens) -> None:
    """A backend's failure is the server's, so that clients try again."""
    backend = ScriptedTokens(chat, [])

    def fails() -> None:
        raise PolicyError("the engine is gone")

    backend.before = fails
    with capture_logs() as logs:
        async with served(service_of(backend, chat, card_of(chat))) as url:
            status, _, answered = await sent(url, HELLO)
    assert (status, answered["error"]["message"]) == (503, "the engine is gone")
    assert [log["event"] for log in logs] == ["not_answered"]


async def test_a_summary_that_is_none_is_a_failure(chat: ChatTokens) -> None:
    """Where the model gives no summary when one is due, nothing is shown in its place, and a client
    that tries again has it asked again."""
    backend = ScriptedTokens(chat, [*CALLS[:2], CALLS[2]])
    backend.ids = lambda text: ScriptedTokens.ids(backend, text.partition("Summary")[0])  # type: ignore[method-assign]
    long = told("user", "word " * 300)
    messages = [long, told("assistant"), long, told("assistant", "y"), long]
    service = service_of(backend, chat, card_of(chat, "summary:800"))
    async with served(service) as url:
        with capture_logs():
            for asked_for in (1, 2):
                status, _, answered = await sent(url, {"messages": messages})
                assert (status, answered["error"]["message"]) == (
                    503,
                    "asked for a summary before step 2, the model gave none",
                )
                assert len(backend.prompts) == asked_for


async def test_a_summary_is_of_its_own_conversation(chat: ChatTokens) -> None:
    """Conversations in which the model said the same and was answered otherwise have summaries of
    their own; one that is sent again has the one that it had."""
    backend = ScriptedTokens(chat, [CALLS[3]] * 3)
    own, other = (told("user", f"{word} " * 300) for word in ("quartz", "zinc"))
    shown = []
    async with served(service_of(backend, chat, card_of(chat, "summary:800"))) as url:
        for between in (own, other, own):
            messages = [told("user", "Hi"), told("assistant"), between, told("assistant", "y"), own]
            backend.prompts.clear()
            await asked(url, {"messages": messages})
            shown.append(["zinc" in chat.text(prompt) for prompt in backend.prompts])
    assert shown == [[False, False], [True, False], [False]]


async def test_a_client_that_leaves_frees_the_model(chat: ChatTokens) -> None:
    """The request of a client that has gone is given up."""
    backend = ScriptedTokens(chat, [])
    backend.stalls.set()
    async with served(service_of(backend, chat, card_of(chat))) as url:
        async with anyio.create_task_group() as group:
            group.start_soon(sent, url, HELLO)
            await backend.has_stalled.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(10):
            await backend.given_up.wait()


async def test_who_has_not_the_token_is_refused(chat: ChatTokens) -> None:
    """With a token set, requests without it get 401; a page of another site gets 403."""
    service = service_of(ScriptedTokens(chat, ["ok"]), chat, card_of(chat))
    async with served(service, ServeSettings(token="s3")) as url:
        assert (await sent(url, HELLO))[0] == 401
        assert (await sent(url, HELLO, Origin="http://evil.example"))[0] == 403
        assert (await sent(url, HELLO, Authorization="Bearer s3"))[0] == 200


async def test_a_body_that_is_too_long_is_refused(chat: ChatTokens) -> None:
    """Nothing is read beyond the limit."""
    service = service_of(ScriptedTokens(chat, []), chat, card_of(chat))
    async with served(service, ServeSettings(max_body=100)) as url:
        status, _, answered = await sent(url, HELLO | {"user": "u" * 200})
    assert (status, answered["error"]["message"]) == (413, "the body has more than 100 bytes")


# Misuse


async def test_other_windows_on_demand_are_told_loudly(chat: ChatTokens) -> None:
    """A client may ask for other windows: header, body and log say in what they differ."""
    backend = ScriptedTokens(chat, ["ok"])
    service = service_of(backend, chat, card_of(chat))
    why = "it was trained under the history policy last:1 and is run under full"
    with capture_logs() as logs:
        async with served(service) as url:
            body = HELLO | {"rehearsal": {"history": "full"}}
            status, headers, answered = await sent(url, body)
    assert (status, headers["x-rehearsal-warning"]) == (200, why)
    assert (answered["rehearsal"]["history"], answered["rehearsal"]["warnings"]) == ("full", [why])
    assert logs == [{"event": "misaligned", "log_level": "warning", "model": "m", "why": why}]


def test_a_use_is_what_the_card_says_unless_told_otherwise(chat: ChatTokens) -> None:
    """Without settings nothing is warned of, and tokens are counted as the training counted."""
    for counter in (chat, None):
        history = parse_history("tokens:900", counter)
        card = PolicyCard("v7", "tokens:900", history.fingerprint, "native")
        use = Uses("m", chat, card).usual
        assert (use.history.fingerprint, use.dialect.name) == (history.fingerprint, "native")
        assert use.warnings == ()
    with capture_logs():
        other = Uses("m", chat, card, history="last:9", dialect="hermes").usual
    assert other.warnings == (
        "it was trained under the history policy tokens:900 and is run under last:9",
        "it was trained in the dialect native and is run in hermes",
    )


def test_a_model_without_a_card_needs_to_be_told(chat: ChatTokens) -> None:
    """Nobody guesses under which windows a model was trained."""
    with pytest.raises(SettingsError, match=r"^m has no card \(rehearsal\.json\) that tells"):
        Uses("m", chat, None, history="last:3")
    use = Uses("m", chat, None, history="last:3", dialect="hermes").usual
    assert (use.history.spec, use.warnings) == ("last:3", ())
    assert sampling_of(None) == Sampling()
