"""The chat API of a served checkpoint: replies, streams, refusals."""

from typing import Any

import aiohttp
import anyio
import msgspec
import openai
import pytest
from structlog.testing import capture_logs

from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.harness.core.errors import ContextLengthError, ModelRefusedError, PolicyError
from rehearsal_room.harness.core.messages import Message, Window
from rehearsal_room.harness.policies.openai import OpenAIPolicy, OpenAISettings
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from tests.support.scripted_tokens import CONTEXT, ScriptedTokens
from tests.support.served_models import (
    CALLS,
    HELLO,
    TOOL,
    card_of,
    complete,
    message,
    post,
    served,
    service_of,
)


async def test_a_reply_is_a_chat_completion(chat: ChatTokenizer) -> None:
    """A client gets text, finish reason, token counts, and the format in which the model saw its
    messages."""
    backend = ScriptedTokens(chat, ["Good day."])
    async with served(service_of(backend, chat, card_of(chat))) as url:
        content = await complete(url, HELLO)
    assert content.pop("id").startswith("chatcmpl-")
    assert isinstance(content.pop("created"), int)
    prompt, sampled = len(backend.prompts[0]), len(backend.ids("Good day."))
    assert content == {
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


async def test_the_openai_package_reads_calls_and_streams(chat: ChatTokenizer) -> None:
    """OpenAI's own client gets tool calls, whole and as a stream, with ids never used twice."""
    reply = 'I look.\n<tool_call>{"name": "look", "arguments": {"at": "ä\\u003c"}}</tool_call>'
    backend = ScriptedTokens(chat, [reply, reply])
    ids: set[str] = set()
    async with (
        served(service_of(backend, chat, card_of(chat))) as url,
        openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client,
    ):
        request: Any = {"model": "m", "messages": HELLO["messages"], "tools": [TOOL]}
        whole = (await client.chat.completions.create(**request)).choices[0]
        calls = whole.message.tool_calls or []
        received = [
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
                    function = call.function
                    received.append((choice.delta.content, function.name, function.arguments))
                    ids.add(call.id)
                if choice.finish_reason:
                    finishes.append(choice.finish_reason)
    assert received == [("I look.", "look", '{"at":"ä<"}')] * 2
    assert finishes == ["tool_calls", "tool_calls"]
    assert len(ids) == 2
    assert [usage is not None for usage in usages] == [False, False, True]


async def test_sampling_settings(chat: ChatTokenizer) -> None:
    """Temperature, top_p, max_tokens and seed of a request are used; the card has the defaults."""
    backend = ScriptedTokens(chat, ["a", "b"])
    card = msgspec.structs.replace(card_of(chat), temperature=0.7, max_tokens=99)
    async with served(service_of(backend, chat, card)) as url:
        await complete(url, HELLO)
        overrides = {"temperature": 0, "top_p": 0.5, "max_completion_tokens": 7, "seed": 5}
        await complete(url, HELLO | overrides)
    (default, overridden) = backend.requests
    assert default[:3] == (99, 0.7, 1.0)
    assert overridden == (7, 0.0, 0.5, default[3])  # the same seed as the service's own


async def test_calls_are_text_for_clients_without_tools(chat: ChatTokenizer) -> None:
    """A request with `tool_choice: none`, or without tools, gets the model's text unchanged."""
    backend = ScriptedTokens(chat, [CALLS[3]] * 2)
    async with served(service_of(backend, chat, card_of(chat))) as url:
        for body in (HELLO | {"tools": [TOOL], "tool_choice": "none"}, HELLO):
            choice = (await complete(url, body))["choices"][0]
            assert choice == {
                "index": 0,
                "message": {"role": "assistant", "content": CALLS[3]},
                "finish_reason": "stop",
            }


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
WITH_CALL = message("assistant", None, tool_calls=[CALL])


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, "the body is not a chat request: Object missing required field `messages`"),
        ({"messages": []}, "messages: the first must be the system's or the user's"),
        ({"messages": [message("assistant")]}, "messages: the first must be the system's or"),
        (
            {"messages": [message("user"), message("assistant")]},
            "messages: the last is the assistant's",
        ),
        ({"messages": [message("elf")]}, "messages[0]: there is no role 'elf'"),
        ({"messages": [message("user"), message("tool")]}, "messages[1]: a tool message needs"),
        (
            {"messages": [message("user", [{"type": "image_url"}])]},
            "messages[0]: image_url is not supported (expected text)",
        ),
        (
            {"messages": [message("user"), WITH_CALL, message("user")]},
            "messages: the call 'c1' has no tool message as its result",
        ),
        (
            {
                "messages": [
                    message("user"),
                    WITH_CALL,
                    message("tool", tool_call_id="c1"),
                    message("tool", tool_call_id="c2"),
                ]
            },
            "messages: a tool message answers the call 'c2', which no message before it contains",
        ),
        ({"n": 2}, "n: the server returns one choice, not 2"),
        ({"stop": ["END"]}, "stop: a reply ends with the model's end token"),
        ({"logprobs": True}, "logprobs: the server does not return log-probabilities"),
        (
            {"response_format": {"type": "json_object"}},
            "response_format: the server returns text only",
        ),
        ({"tool_choice": "required"}, "tool_choice: the model decides whether it calls a tool"),
        ({"temperature": -1}, "temperature: must be at least 0, not -1"),
        ({"top_p": 0}, "top_p: must be above 0"),
        ({"max_completion_tokens": 0}, "max_tokens: must be at least 1, not 0"),
        ({"max_tokens": -3}, "max_tokens: must be at least 1, not -3"),
        (
            {"rehearsal": {"history": "all"}},
            "rehearsal: history: 'all' is not a history window",
        ),
        ({"rehearsal": {"dialect": "elvish"}}, "rehearsal: dialect: there is no dialect 'elvish'"),
        (
            {"rehearsal": {"windows": "x"}},
            "the body is not a chat request: Object contains unknown",
        ),
        (
            {"rehearsal": {"dialect": "awm"}, "tools": [TOOL]},
            "tools: the model was trained in the dialect awm",
        ),
    ],
)
async def test_unsupported_requests_are_refused(
    chat: ChatTokenizer, body: dict[str, Any], fault: str
) -> None:
    """A request with a field that the server cannot follow is refused by a sentence that names the
    field, and the model generates nothing."""
    backend = ScriptedTokens(chat, [])
    async with served(service_of(backend, chat, card_of(chat))) as url:
        status, _, content = await post(url, HELLO | body if body else {})
    assert status == 400
    assert content["error"]["message"].startswith(fault)
    assert content["error"]["type"] == "invalid_request_error"
    assert backend.prompts == []


async def test_a_body_that_is_not_utf8_is_refused(chat: ChatTokenizer) -> None:
    """A body that is not UTF-8 is refused as the client's fault."""
    service = service_of(ScriptedTokens(chat, []), chat, card_of(chat))
    body = b'{"messages": [{"role": "user", "content": "\xff"}]}'
    async with (
        served(service) as url,
        aiohttp.ClientSession() as session,
        session.post(f"{url}/chat/completions", data=body) as response,
    ):
        assert response.status == 400
        fault = (await response.json())["error"]["message"]
    assert fault.startswith("the body is not a chat request: 'utf-8' codec can't decode byte 0xff")


async def test_other_models_and_paths_are_not_found(chat: ChatTokenizer) -> None:
    """The error for another model names the model that is served; other paths are 404."""
    async with served(service_of(ScriptedTokens(chat, []), chat, card_of(chat))) as url:
        status, _, content = await post(url, HELLO | {"model": "gpt"})
        assert (status, content["error"]["code"]) == (404, "model_not_found")
        assert content["error"]["message"] == "there is no model 'gpt' here (expected 'm')"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{url}/models") as response:
                (model,) = (await response.json())["data"]
            async with session.get(url.removesuffix("/v1") + "/health") as response:
                assert await response.json() == {"status": "ok"}
            async with session.get(f"{url}/chat/completions") as response:
                assert response.status == 404
    assert (model["id"], model["max_model_len"]) == ("m", CONTEXT)
    assert model["rehearsal"] == {"history": "last:1", "dialect": "hermes", "warnings": []}


async def test_a_window_that_is_too_long(chat: ChatTokenizer) -> None:
    """A window that is too long gives the error code of OpenAI, which clients understand."""
    backend = ScriptedTokens(chat, [])
    service = service_of(backend, chat, card_of(chat), context=10)
    async with (
        served(service) as url,
        OpenAIPolicy(OpenAISettings("m", base_url=url, max_attempts=1)) as policy,
    ):
        with pytest.raises(ContextLengthError, match="maximum context length is 10"):
            await policy.reply_to(Window((Message("user", "Hello there, you model."),)), None)


async def test_what_a_provider_withholds(chat: ChatTokenizer) -> None:
    """A reply that a provider withholds is refused as a filter refuses, and not asked for again."""
    backend, asked = ScriptedTokens(chat, []), 0

    def withholds() -> None:
        nonlocal asked
        asked += 1
        raise ModelRefusedError("the provider withheld the reply")

    backend.before = withholds
    async with (
        served(service_of(backend, chat, card_of(chat))) as url,
        OpenAIPolicy(OpenAISettings("m", base_url=url, max_attempts=3)) as policy,
    ):
        with pytest.raises(ModelRefusedError):
            await policy.reply_to(Window((Message("user", "Hi"),)), None)
    assert asked == 1


async def test_a_model_that_fails_is_a_503(chat: ChatTokenizer) -> None:
    """A failure of the backend is a server error, so that clients try again."""
    backend = ScriptedTokens(chat, [])

    def fails() -> None:
        raise PolicyError("the engine is gone")

    backend.before = fails
    with capture_logs() as logs:
        async with served(service_of(backend, chat, card_of(chat))) as url:
            status, _, content = await post(url, HELLO)
    assert (status, content["error"]["message"]) == (503, "the engine is gone")
    assert [log["event"] for log in logs] == ["not_answered"]


async def test_a_missing_summary_is_a_failure(chat: ChatTokenizer) -> None:
    """Where the model gives no summary although one is due, the request fails, and a repeated
    request asks the model again."""
    backend = ScriptedTokens(chat, [*CALLS[:2], CALLS[2]])
    backend.ids = lambda text: ScriptedTokens.ids(backend, text.partition("Summary")[0])  # type: ignore[method-assign]
    long = message("user", "word " * 300)
    messages = [long, message("assistant"), long, message("assistant", "y"), long]
    service = service_of(backend, chat, card_of(chat, "summary:800"))
    async with served(service) as url:
        with capture_logs():
            for asked_for in (1, 2):
                status, _, content = await post(url, {"messages": messages})
                assert (status, content["error"]["message"]) == (
                    503,
                    "asked for a summary before step 2, the model gave none",
                )
                assert len(backend.prompts) == asked_for


async def test_a_summary_is_of_its_own_conversation(chat: ChatTokenizer) -> None:
    """Conversations with equal replies and different answers to them have different summaries; one
    that is sent again gets the summary that it had."""
    backend = ScriptedTokens(chat, [CALLS[3]] * 3)
    own, other = (message("user", f"{word} " * 300) for word in ("quartz", "zinc"))
    shown = []
    async with served(service_of(backend, chat, card_of(chat, "summary:800"))) as url:
        for between in (own, other, own):
            messages = [
                message("user", "Hi"),
                message("assistant"),
                between,
                message("assistant", "y"),
                own,
            ]
            backend.prompts.clear()
            await complete(url, {"messages": messages})
            shown.append(["zinc" in chat.decode(prompt) for prompt in backend.prompts])
    assert shown == [[False, False], [True, False], [False]]


async def test_a_disconnected_client_frees_the_model(chat: ChatTokenizer) -> None:
    """The request of a client that has disconnected is cancelled."""
    backend = ScriptedTokens(chat, [])
    backend.stalls.set()
    async with served(service_of(backend, chat, card_of(chat))) as url:
        async with anyio.create_task_group() as group:
            group.start_soon(post, url, HELLO)
            await backend.has_stalled.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(10):
            await backend.was_cancelled.wait()


async def test_requests_without_the_token_are_refused(chat: ChatTokenizer) -> None:
    """With a token set, requests without it get 401; a page of another site gets 403."""
    service = service_of(ScriptedTokens(chat, ["ok"]), chat, card_of(chat))
    async with served(service, WorldServerSettings(token="s3")) as url:
        assert (await post(url, HELLO))[0] == 401
        assert (await post(url, HELLO, Origin="http://evil.example"))[0] == 403
        assert (await post(url, HELLO, Authorization="Bearer s3"))[0] == 200


async def test_a_body_that_is_too_long_is_refused(chat: ChatTokenizer) -> None:
    """Nothing is read beyond the limit."""
    service = service_of(ScriptedTokens(chat, []), chat, card_of(chat))
    async with served(service, WorldServerSettings(max_body=100)) as url:
        status, _, content = await post(url, HELLO | {"user": "u" * 200})
    assert (status, content["error"]["message"]) == (413, "the body has more than 100 bytes")
