"""What servers that people use say of a request that they refuse for its form, and what is sent
from then on; the forms that no request has, since some server refuses them."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.chat.completions import read_error
from rehearsal_room.harness.chat.server_features import ServerFeatures
from rehearsal_room.harness.chat.wire import ToolNames, sent_tool, without_system
from rehearsal_room.harness.core.messages import AgentCall, Message, Window
from tests.harness.chat.test_adaptive import Answers
from tests.harness.policies.test_openai import agent_of, asking, no_environment
from tests.support.model_server import Completes, ModelServer

__all__ = ["no_environment"]
SENT = ("temperature", "top_p", "max_tokens", "seed", "parallel_tool_calls", "tool_choice", "top_k")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


def error(message: str) -> Any:
    return {"error": {"message": message}}


LISTS = "expected one of `model`, `messages`, `temperature`, `max_tokens`, `seed`"
REFUSALS: list[tuple[int, Any, str]] = [
    # Servers that list what they know, with other parameters of the request among it
    (422, error(f"unknown field `top_k`, {LISTS} at line 1 column 99"), "without:top_k"),
    (
        400,
        error('Unrecognized field "top_k" (class x.Chat), not marked as ignorable (4 known '
              'properties: "model", "messages", "temperature", "seed"])'),
        "without:top_k",
    ),
    (400, {"message": ["property seed should not exist"], "error": "Bad Request"}, "without:seed"),
    (400, {"errors": [{"message": "seed is not a valid field"}]}, "without:seed"),
    (400, error("Malformed input request: #: extraneous key [seed] is not ..."), "without:seed"),
    # xAI's spelling
    (
        400,
        {"code": "c", "error": "Argument not supported on this model: parallelToolCalls"},
        "without:parallel_tool_calls",
    ),
    # Moonshot, OpenRouter, DashScope, Fireworks
    (400, error("invalid temperature: only 0.6 is allowed for this model"), "without:temperature"),
    (
        404,
        error("No endpoints found that support the provided 'tool_choice' value."),
        "without:tool_choice",
    ),
    (400, error("parameter.enable_thinking must be false for non-streaming calls"), "stream"),
    (400, error("Requests with max_tokens > 4096 must have stream=true"), "stream"),
    # Bedrock and Anthropic, of ids
    (
        400,
        {"message": "Value 'c:0' at 'messages.2.member.content.1.member.toolUse.toolUseId' failed "
         "to satisfy constraint: Member must satisfy regular expression pattern"},
        "short_ids",
    ),
    (400, error("messages.1.content.0.tool_use.id: String should match pattern"), "short_ids"),
    # A message of calls without a text
    (
        422,
        {"detail": [{"loc": ["body", "messages", 2, "content"], "msg": "Input should be a valid "
         "string", "input": None}]},
        "text_content",
    ),
    (
        400,
        error("AiError: Bad input: Type mismatch of '/messages/2/content', 'string' not in 'null'"),
        "text_content",
    ),
    (400, error("Invalid type for 'messages[2].content': expected a string"), "text_content"),
    # Templates without a system's message (Gemma), and models that refuse it
    (400, error("System role not supported"), "no_system"),
    (400, error("'messages[0].role' does not support 'system' with this model."), "no_system"),
    (400, error("Developer instruction is not enabled for models/gemma-3-27b-it"), "no_system"),
    # Llama's template, and Gemini's endpoint
    (500, error("This model only supports single tool-calls at once!"), "single_calls"),
    (
        400,
        error("contents[2].parts[0].function_response.name: Name cannot be empty."),
        "result_names",
    ),
    # Values, and what no other form helps
    (400, error("Invalid 'top_p': decimal above maximum value. Expected a value <= 1"), ""),
    (400, error("Conversation roles must alternate user/assistant/user/assistant/..."), ""),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "word"), REFUSALS, ids=lambda one: str(one)[:60])
def test_what_a_refusal_is_about(status: int, body: Any, word: str) -> None:
    """One feature is given up, and the right one."""
    failure = read_error(status, {}, json.dumps(body).encode())
    left = ServerFeatures(format="text").without_refused(failure, SENT, has_replies=True)
    assert (left.words if left is not None else ()) == ((word,) if word else ())
    if left is not None:
        assert ServerFeatures.adapted(left.words, format="text") == left
        assert left.change_since(ServerFeatures(format="text")) != "fewer features are used"


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (f"unknown field `seed`, {LISTS}", {"seed": False}),
        (f"unknown field `response_format`, {LISTS}", {"format": "json_object"}),
        ("Unsupported parameter: 'max_tokens' is not supported.", {"max_tokens": False}),
        ("invalid temperature: only 1 is allowed for this model", {"temperature": False}),
        ("System role not supported", {"no_system": True}),
        ("failed to parse grammar", {"format": "json_object"}),
        ("enable_thinking must be set to false for non-streaming calls", {"stream": True}),
        ("prompt is too long", {}),
        ("Content Exists Risk (schema)", {}),
        ("Failed to generate JSON. See 'failed_generation'", {}),
    ],
)
def test_what_a_judges_request_is_refused_for(message: str, changes: dict[str, Any]) -> None:
    """Judges and authors give up the same features, and the format of the answer."""
    left = ServerFeatures().after_refusal(read_error(400, {}, json.dumps(error(message)).encode()))
    names = ServerFeatures.__struct_fields__ if left is not None else ()
    usual = ServerFeatures()
    found = {one: getattr(left, one) for one in names if getattr(left, one) != getattr(usual, one)}
    assert found == changes


TALK = Window(
    (
        Message("system", "Rules."),
        Message("user", "Hi"),
        Message("assistant", "", (AgentCall("look", {}, "a"),)),
        Message("tool", "blue", (), "a"),
    )
)


async def test_a_server_that_knows_no_system_messages(server: ModelServer) -> None:
    """The user's first message begins with the system's text, from the refusal on."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if any(one["role"] == "system" for one in body["messages"]):
            return 400, error("System role not supported")
        return 200, Completes("ok").completion()

    server.default = Answers(answer)
    async with asking(server) as policy:
        for _ in range(2):
            assert (await agent_of(policy).reply(TALK)).text == "ok"
    assert len(server.requests) == 3
    shown = server.requests[-1].body["messages"]
    assert [one["role"] for one in shown] == ["user", "assistant", "tool"]
    assert shown[0]["content"] == "Rules.\n\nHi"


async def test_a_server_that_wants_a_text_beside_calls(server: ModelServer) -> None:
    """A message that has only calls gets an empty text, from the refusal on."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if any(one["content"] is None for one in body["messages"]):
            return 400, error("Invalid type for 'messages[2].content': got null instead.")
        return 200, Completes("ok").completion()

    server.default = Answers(answer)
    async with asking(server) as policy:
        assert (await agent_of(policy).reply(TALK)).text == "ok"
    assert [asked.body["messages"][2]["content"] for asked in server.requests] == [None, ""]


TWO = Window(
    (
        Message("user", "Hi"),
        Message(
            "assistant",
            "I look.",
            (AgentCall("look", {}, "a"), AgentCall("2fa.reset", {}, "b")),
            fields={"reasoning_details": [1]},
        ),
        Message("tool", "two", (), "b"),
        Message("tool", "one", (), "a"),
    )
)


async def test_a_server_whose_template_takes_one_call_a_message(server: ModelServer) -> None:
    """Each call has a message of its own, and its result stands behind it."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if any(len(one.get("tool_calls") or ()) > 1 for one in body["messages"]):
            return 500, error("This model only supports single tool-calls at once!")
        return 200, Completes("ok").completion()

    server.default = Answers(answer)
    async with asking(server) as policy:
        assert (await agent_of(policy).reply(TWO)).text == "ok"
    _, first, one, second, two = server.requests[-1].body["messages"]
    assert [first["content"], one["content"], second["content"], two["content"]] == [
        "I look.",
        "one",
        None,
        "two",
    ]
    for call, result in ((first, one), (second, two)):
        assert call["tool_calls"][0]["id"] == result["tool_call_id"]


async def test_a_server_that_wants_the_names_of_results(server: ModelServer) -> None:
    """A result has the name under which its call was sent, from the refusal on."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if any(one["role"] == "tool" and "name" not in one for one in body["messages"]):
            return 400, error("function_response.name: Name cannot be empty.")
        return 200, Completes("ok").completion()

    server.default = Answers(answer)
    async with asking(server) as policy:
        assert (await agent_of(policy).reply(TWO)).text == "ok"
    sent = server.requests[-1].body["messages"]
    assert [one["name"] for one in sent if one["role"] == "tool"] == ["_2fa_reset", "look"]


def test_system_messages_without_a_user_behind_them() -> None:
    """Their text is a message of the user's."""
    rules, more = Message("system", "Rules."), Message("system", "More.")
    said = Message("assistant", "x")
    assert without_system([rules, said, more]) == [
        Message("user", "Rules."),
        said,
        Message("user", "More."),
    ]


@pytest.mark.parametrize("name", ["2fa_reset", "-x", "9" * 64])
def test_names_that_begin_with_no_letter(name: str) -> None:
    """Gemini refuses them, so they have other names on the wire."""
    names = ToolNames([name, "ok"])
    sent = names.sent(name)
    assert sent[0] == "_" and len(sent) <= 64 and names.read(sent) == name


A, B = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (
            {"anyOf": [{"type": "object", "properties": {"a": A}, "required": ["a"]},
                       {"type": "object", "properties": {"b": B}, "required": ["b"]}]},
            {"type": "object", "properties": {"a": A, "b": B}},
        ),
        (
            {"type": "object", "properties": {"a": A, "b": B}, "required": ["a"],
             "oneOf": [{"required": ["a", "b"]}, {"required": ["b"]}]},
            {"type": "object", "properties": {"a": A, "b": B}, "required": ["a", "b"]},
        ),
        (
            {"allOf": [{"properties": {"a": A}, "required": ["a"]}, {"properties": {"b": B}}]},
            {"type": "object", "properties": {"a": A, "b": B}, "required": ["a"]},
        ),
        (
            {"anyOf": [{"type": "object", "properties": {"a": A}, "required": ["a"]},
                       {"type": "null"}]},
            {"type": "object", "properties": {"a": A}, "required": ["a"]},
        ),
        ({"type": ["object", "null"], "properties": {"a": A}},
         {"type": "object", "properties": {"a": A}}),
        ({"anyOf": 7, "oneOf": [7, {"properties": [1], "required": 3}], "properties": "x",
          "required": "ab", "allOf": [{"required": [1]}]},
         {"type": "object", "properties": {}, "required": ["1"]}),
        ({"type": "object", "properties": None, "required": None},
         {"type": "object", "properties": {}}),
    ],
)  # fmt: skip
def test_schemas_that_chat_apis_refuse(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    """What is sent is an object with properties and no choice at its top; it refuses no call that
    the tool takes, and the tool keeps its own schema."""
    before = json.dumps(schema)
    tool = ToolSpec("f", "", schema)
    assert sent_tool(tool, "f")["function"]["parameters"] == sent
    assert json.dumps(tool.schema) == before
