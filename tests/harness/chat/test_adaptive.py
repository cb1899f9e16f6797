"""A server that refuses the form of a request gets another form, which stays for the run."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.chat.completions import read_completion
from rehearsal_room.harness.chat.retry import AttemptFailure
from rehearsal_room.harness.chat.server_features import ServerFeatures
from rehearsal_room.harness.chat.wire import PLAIN, HistoryForm, ToolNames, wire_messages
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Briefing, Message, Reply, Window
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.last_turns import FullWindow
from rehearsal_room.harness.history.windows import HistoryFold
from tests.harness.policies.test_openai import HELLO, agent_of, asking, client, reply
from tests.support.model_server import (
    Completes,
    ModelServer,
    ReceivedRequest,
    Status,
    response,
)

__all__ = ["client"]
LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@dataclass(frozen=True)
class Answers:
    """The answer that a function makes of each request: a status and a body."""

    answer: Callable[[dict[str, Any]], tuple[int, Any]]

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        status, body = self.answer(request.body)
        writer.write(response(status, json.dumps(body).encode()))
        return True


def error(message: str, **fields: Any) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", **fields}}


def forbids(*names: str, refusal: Callable[[str], Any]) -> Answers:
    """A server that refuses these parameters, one at a time."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        for name in names:
            if name in body:
                return 400, refusal(name)
        return 200, Completes("ok").completion()

    return Answers(answer)


PARAMETERS = {
    "temperature": 0.5,
    "top_p": 0.9,
    "max_tokens": 9,
    "seed": 3,
    "parallel_tool_calls": False,
    "tool_choice": "auto",
    "logprobs": True,
    "stream_options": {},
}


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("without:seed", "without:temperature", "max_completion_tokens", "thoughts", "short_ids"),
        ("thoughts:reasoning", "stream"),
    ],
)
def test_what_is_known_of_a_server_has_words(words: tuple[str, ...]) -> None:
    """A run's settings name it, and name it back; other words are refused."""
    assert ServerFeatures.adapted(words).words == words
    for word in ("seed", "without:", "thoughts:", "stream:x", ""):
        with pytest.raises(ValueError, match="is none of without:NAME, "):
            ServerFeatures.adapted([*words, word])


REFUSALS: dict[str, Callable[[str], Any]] = {
    "pydantic": lambda name: {
        "detail": [
            {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not"}
        ]
    },
    "openai": lambda name: error(f"Unsupported parameter: '{name}' is not supported", param=name),
    "google": lambda name: [error(f'Unknown name "{name}": Cannot find field.', code=400)],
    "reasoning": lambda name: error(f"`{name}` is not supported with reasoning models"),
    "mistral": lambda name: {"message": {"detail": [{"loc": ["body", name], "msg": "not known"}]}},
    "unrecognized": lambda name: error(f"Unrecognized request argument supplied: {name}"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
async def test_refused_parameters_are_left_out(
    refusal: Callable[[str], Any], server: ModelServer
) -> None:
    """Each refused parameter is left out, said once, and not sent again; others still are."""
    server.default = forbids(*PARAMETERS, refusal=refusal)
    settings = {name: PARAMETERS[name] for name in ("temperature", "top_p", "max_tokens", "seed")}
    extra = {name: value for name, value in PARAMETERS.items() if name not in settings}
    with capture_logs() as logs:
        async with asking(server, **settings, extra={**extra, "user": "u"}) as policy:
            first = await agent_of(policy).reply(HELLO)
            num_asked = len(server.requests)
            await agent_of(policy).reply(HELLO)
    assert first.attempts == 1
    assert len(server.requests) == num_asked + 1
    sent = server.requests[-1].body
    assert sent.keys() == {"model", "messages", "user", "max_completion_tokens"}
    changes = [log["change"] for log in logs if log["event"] == "request_adapted"]
    assert sorted(changes) == sorted(
        [
            *(f"{name} is left out" for name in PARAMETERS if name != "max_tokens"),
            "max_tokens is sent as max_completion_tokens",
        ]
    )


@pytest.mark.parametrize(
    ("sent", "taken"),
    [("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")],
)
async def test_the_limit_has_two_names(sent: str, taken: str, server: ModelServer) -> None:
    """A server that knows one name for the limit of tokens gets it under that name."""
    server.default = forbids(
        sent, refusal=lambda name: error(f"'{name}' is not supported. Use '{taken}' instead.")
    )
    await reply(server, extra={sent: 500})
    assert server.requests[-1].body[taken] == 500


async def test_a_limit_under_neither_name(server: ModelServer) -> None:
    """A server that takes neither name gets no limit, after one refusal of each."""
    refusal = REFUSALS["openai"]
    server.default = forbids("max_tokens", "max_completion_tokens", refusal=refusal)
    await reply(server, max_tokens=500)
    assert [sorted(asked.body)[0] for asked in server.requests] == [
        "max_tokens",
        "max_completion_tokens",
        "messages",
    ]


@pytest.mark.parametrize(
    "refusal",
    [
        Status(400, "temperature must be between 0 and 2"),
        Status(400, "Invalid request: {'temperature': 9, 'messages': []}"),
        Status(400, "max_tokens is too large: 900000"),
        Status(401, "temperature is not supported"),
        Status(422, "messages: unknown role"),
    ],
)
async def test_a_wrong_value_is_not_left_out(refusal: Status, server: ModelServer) -> None:
    """A refusal of a value, or of something else, changes no request."""
    server.default = refusal
    with pytest.raises(PolicyError):
        await reply(server, temperature=9.0, max_tokens=900_000)
    assert len(server.requests) == 1


async def test_the_key_is_not_logged(server: ModelServer) -> None:
    """What is said of a refusal does not contain the key."""
    server.plan(Status(400, "seed is not supported for sk-1"))
    with capture_logs() as logs:
        await reply(server, seed=1, api_key="sk-1")
    assert "seed is not supported for ***" in [log.get("refusal") for log in logs]


@given(
    st.lists(st.sampled_from([*PARAMETERS, "max_completion_tokens"]), unique=True),
    st.sampled_from(
        [
            "seed max_tokens max_completion_tokens temperature are not supported",
            "tool_call_id is not supported",
            "reasoning_content tool call id unique unknown",
        ]
    ),
)
def test_adapting_ends(names: list[str], message: str) -> None:
    """A server that refuses everything is asked a finite number of times."""
    features: ServerFeatures | None = ServerFeatures(format="text")
    failure = AttemptFailure("status", message, 400)
    fields = dict.fromkeys(names, 1)
    for _ in range(20):
        assert features is not None
        sent = list(features.apply(fields))
        features = features.without_refused(failure, sent, has_replies=True)
        if features is None:
            return
    raise AssertionError("it goes on")


# Histories


def turn(*calls: AgentCall, **fields: Any) -> StepTaken:
    made = Act(
        tuple(AgentCall(call.name, call.arguments, f"c0-{i}") for i, call in enumerate(calls))
    )
    results = tuple(ToolResult("done", None, (), "") for _ in calls)
    return StepTaken(Reply("", calls, "tool_calls", **fields), made, results)


def window_of(*steps: StepTaken) -> Window:
    """What a model is shown after these steps."""
    fold = HistoryFold(FullWindow(), Native(), Briefing("Do it.", "", (LOOK,), "", ""))
    for step in steps:
        fold.apply(step)
    return fold.window()


def call(id: str, name: str = "look", **fields: Any) -> AgentCall:
    return AgentCall(name, {}, id, fields)


def sent_calls(body: dict[str, Any]) -> list[Any]:
    return [one for message in body["messages"] for one in message.get("tool_calls", ())]


async def play(server: ModelServer, num_turns: int = 2, **settings: Any) -> list[Reply]:
    """The replies of an episode whose turns are all calls; the last one is shown all of them."""
    replies: list[Reply] = []
    steps: list[StepTaken] = []
    async with asking(server, **settings) as policy:
        agent = agent_of(policy)
        for _ in range(num_turns):
            replies.append(await agent.reply(window_of(*steps)))
            calls, results = replies[-1].calls, [ToolResult("done", None, (), "")]
            made = tuple(AgentCall(one.name, one.arguments, f"c{len(steps)}-0") for one in calls)
            steps.append(StepTaken(replies[-1], Act(made), tuple(results * len(made))))
        replies.append(await agent.reply(window_of(*steps)))
    return replies


SIGNATURE = {"google": {"thought_signature": "s1"}}


def test_replies_keep_what_a_server_wants_back() -> None:
    """Fields for thoughts and signatures are in the reply as they came, others are not."""
    sent = {
        "role": "assistant",
        "content": "Look.",
        "reasoning_content": "I think.",
        "reasoning": "I think.",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
        "annotations": [{"a": 1}],
        "refusal": None,
        "tool_calls": [
            {
                "id": "a",
                "type": "function",
                "index": 0,
                "extra_content": SIGNATURE,
                "function": {"name": "look", "arguments": "{}", "thought_signature": "f"},
            }
        ],
    }
    body = json.dumps({"choices": [{"message": sent, "finish_reason": "tool_calls"}]}).encode()
    fields = {"extra_content": SIGNATURE, "function": {"thought_signature": "f"}}
    assert read_completion(body) == Reply(
        "<think>I think.</think>Look.",
        (AgentCall("look", {}, "a", fields),),
        "tool_calls",
        thought="reasoning_content",
        fields={"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
    )


def test_thoughts_in_the_content_are_thoughts() -> None:
    """A content in parts may have thoughts among them; a server gets it back as it was."""
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Blue."},
    ]
    body = json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]})
    assert read_completion(body.encode()) == Reply(
        "<think>Hm.</think>Blue.", fields={"content": content}
    )


@pytest.mark.parametrize("name", ["extra_content", "thought_signature", "provider_specific_fields"])
async def test_fields_of_calls_go_back(name: str, server: ModelServer, client: str) -> None:
    """What a server sent beside a call goes back with the call, unchanged."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if any(one.get(name) != SIGNATURE for one in sent_calls(body)):
            return 400, error("a function call lacks its signature")
        sent = Completes(None, (("a", "look", "{}"),)).completion()
        sent["choices"][0]["message"]["tool_calls"][0][name] = SIGNATURE
        return 200, sent

    server.default = Answers(answer)
    await play(server, client=client)
    assert len(sent_calls(server.requests[-1].body)) == 2
    assert len(server.requests) == 3


async def test_fields_of_messages_go_back(server: ModelServer) -> None:
    """So does what it sent beside a message, with calls or without."""
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    server.default = Completes(None, (("a", "look", "{}"),), message={"reasoning_details": details})
    await play(server, 1)
    shown = [m for m in server.requests[-1].body["messages"] if m["role"] == "assistant"]
    assert [message["reasoning_details"] for message in shown] == [details]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_thoughts_go_back_where_they_are_demanded(name: str, server: ModelServer) -> None:
    """A server that refuses a history without its thoughts gets them in their field, and not in
    the content too."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        shown = [m for m in body["messages"] if m["role"] == "assistant"]
        if any(message.get(name) != "I think." for message in shown):
            return 400, error(f"thinking mode: {name} must be passed back")
        return 200, Completes(
            "Look.", (("a", "look", "{}"),), message={name: "I think."}
        ).completion()

    server.default = Answers(answer)
    replies = await play(server)
    assert [one.thought for one in replies] == [name] * 3
    assert [one.text for one in replies] == ["<think>I think.</think>Look."] * 3
    shown = [m for m in server.requests[-1].body["messages"] if m["role"] == "assistant"]
    assert [message["content"] for message in shown] == ["Look.", "Look."]
    assert len(server.requests) == 4  # one was refused


async def test_a_server_gets_no_field_that_it_did_not_send(server: ModelServer) -> None:
    """A history from elsewhere is sent without its fields; so is one whose server demands none."""
    fields = {"reasoning_details": [1]}
    kept = turn(call("a", extra_content=SIGNATURE), fields=fields, thought="reasoning_content")
    await reply(server, window_of(kept))
    [_, message, _] = server.requests[0].body["messages"][-3:]
    assert message.keys() == {"role", "content", "tool_calls"}
    assert message["tool_calls"][0].keys() == {"id", "type", "function"}


async def test_a_field_that_is_refused_is_no_longer_sent(server: ModelServer) -> None:
    """A server that sends a field and refuses it does not get it again."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if any("reasoning_details" in message for message in body["messages"]):
            return 422, {"detail": "extra_forbidden: reasoning_details"}
        details = {"reasoning_details": [1]}
        return 200, Completes(None, (("a", "look", "{}"),), message=details).completion()

    server.default = Answers(answer)
    await play(server, 3)
    assert len(server.requests) == 5  # one was refused


# Ids


async def test_ids_that_a_server_repeats_are_unique_in_its_history(server: ModelServer) -> None:
    """A server that numbers its calls from 0 in each reply gets ids that are unique, and results
    that name them."""
    server.default = Completes(None, (("0", "look", "{}"), ("1", "look", "{}")))
    await play(server, 3)
    body = server.requests[-1].body
    ids = [one["id"] for one in sent_calls(body)]
    assert ids == ["0", "1", "0_2", "1_2", "0_3", "1_3"]
    assert [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"] == ids


@pytest.mark.parametrize(
    "refusal",
    [
        "Tool call id was c0-0 but must be a-z, A-Z, 0-9, with a length of 9.",
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9]+$'",
        "Invalid 'messages[1].tool_calls[0].id': string does not match pattern",
    ],
)
async def test_ids_of_nine_letters_and_digits(refusal: str, server: ModelServer) -> None:
    """A server that refuses the form of ids gets short ones, the same in every request."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if any(not re.fullmatch("[a-zA-Z0-9]{9}", one["id"]) for one in sent_calls(body)):
            return 400, error(refusal)
        return 200, Completes("ok").completion()

    server.default = Answers(answer)
    steps = [turn(call("functions.look:0"), call("call_" + "x" * 60)), turn(call("abcdefgh1"))]
    async with asking(server) as policy:
        for _ in range(2):
            await agent_of(policy).reply(window_of(*steps))
    bodies = [asked.body for asked in server.requests]
    assert len(bodies) == 3
    ids = [one["id"] for one in sent_calls(bodies[1])]
    assert [one["id"] for one in sent_calls(bodies[2])] == ids
    assert len(set(ids)) == 3 and ids[2] == "abcdefgh1"
    assert [m["tool_call_id"] for m in bodies[1]["messages"] if m["role"] == "tool"] == ids


_IDS = st.lists(
    st.lists(st.sampled_from(["", "a", "b", "a_2", "abcdefgh1", "ü", "x" * 70]), max_size=3),
    max_size=5,
)


@given(_IDS, st.booleans())
def test_ids_are_unique_and_results_name_them(ids: list[list[str]], short: bool) -> None:
    """Whatever ids a history has, each call has its own on the wire, and each result its call's."""
    steps = [turn(*(call(id) for id in row)) for row in ids if row]
    form = HistoryForm(short_ids=True) if short else PLAIN
    written = json.loads(
        _json(wire_messages(window_of(*steps).messages, form, ToolNames(["look"])))
    )
    made = [one["id"] for message in written for one in message.get("tool_calls", ())]
    assert len(made) == len(set(made)) == sum(map(len, ids))
    assert [m["tool_call_id"] for m in written if m["role"] == "tool"] == made
    assert not short or all(re.fullmatch("[a-zA-Z0-9]{9}", id) for id in made)


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


# Names


@given(
    st.lists(st.text(max_size=70) | st.sampled_from(["a.b", "a_b", "a/b", "a" * 65]), unique=True)
)
def test_names_of_tools_fit_and_come_back(names: list[str]) -> None:
    """Each tool has a valid name of its own on the wire, and a call of it names the tool again."""
    known = ToolNames(names)
    sent = [known.sent(name) for name in names]
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in sent)
    assert len(set(sent)) == len(sent)
    assert [known.read(name) for name in sent] == names


def test_names_that_a_model_made_up_name_no_tool() -> None:
    """A made-up name is valid on the wire, and is not that of a tool."""
    names = ToolNames(["list_notes", "a.b"])
    assert names.sent("list.notes") == "list_notes_2"
    assert names.sent("list_notes<|channel|>json") == "list_notes__channel__json"
    assert names.sent("") == "unnamed"
    assert (names.sent("a.b"), names.sent("a/b")) == ("a_b", "a_b_2")


async def test_calls_of_tools_with_other_names(server: ModelServer) -> None:
    """A tool whose name chat APIs refuse is sent with a valid one; the reply has its own name."""
    tools = (ToolSpec("notes.count", "", {}), ToolSpec("notes_count", "", {}))
    calls = (("a", "notes_count_2", "{}"), ("b", "notes_count", "{}"))
    server.default = Completes(None, calls)
    got = await reply(server, Window((Message("user", "Hi"),), tools))
    assert [one.name for one in got.calls] == ["notes.count", "notes_count"]
    sent = server.requests[0].body["tools"]
    assert [tool["function"]["name"] for tool in sent] == ["notes_count_2", "notes_count"]
