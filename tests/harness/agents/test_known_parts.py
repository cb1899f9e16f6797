"""What an agent's requests have in common is read once, and nothing depends on it."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from rehearsal_room.harness.agents.branches import Branches, Place
from rehearsal_room.harness.core.messages import AgentCall, Message, Reply
from rehearsal_room.harness.model_api import chat, messages, responses
from rehearsal_room.harness.model_api.known_parts import KnownParts, Read
from rehearsal_room.harness.model_api.request import UnsupportedRequest

Items = list[dict[str, Any]]
Reader = Callable[[bytes, KnownParts | None], Any]


def chat_items(number: int) -> Items:
    """A turn of a chat: a call and its result, or words."""
    function = {"name": "look", "arguments": json.dumps({"at": number})}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return (
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f'[{number}], \\ "ä" '},
        ]
        if number % 3
        else [{"role": "assistant", "content": "]"}, {"role": "user", "content": "go"}]
    )


def messages_items(number: int) -> Items:
    """The same in Anthropic's words."""
    use = {"type": "tool_use", "id": f"c{number}", "name": "look", "input": {"at": number}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"[{number}],"}
    text = {"type": "text", "text": "and?"}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [text, result]}]


def responses_items(number: int) -> Items:
    """The same in the Responses API's words, where items of one reply become one message."""
    call = {"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": f"c{number}", "output": f"[{number}],"}
    thought = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "hm"}] * (number % 2),
    }
    return [thought, {"role": "assistant", "content": "I look"}, call, result]


_FUNCTION = {"type": "function", "function": {"name": "look"}}
APIS = [
    (chat.read_request, "messages", chat_items, _FUNCTION),
    (messages.read_request, "messages", messages_items, {"input_schema": {}}),
    (responses.read_request, "input", responses_items, {"type": "function"}),
]


@pytest.mark.parametrize(("read", "field", "turn", "tool"), APIS)
def test_every_request_is_read_as_if_it_came_alone(
    read: Reader, field: str, turn: Callable[[int], Items], tool: dict[str, Any]
) -> None:
    """Conversations that grow, are rewritten, alternate and are sent twice, cut at any item."""
    for seed in range(20):
        draw, known = Random(seed), KnownParts()
        talks: list[Items] = [[{"role": "user", "content": name}] for name in "abcdef"]
        for number in range(25):
            talk = draw.choice(talks[: 1 + seed % 6])
            if draw.random() < 0.1:
                talk[draw.randrange(len(talk))] = {"role": "user", "content": f"until {number}"}
            talk += turn(number)[: draw.choice([4, 4, 4, 1, 0])]
            whole = {"system": f"{number % 2}", field: talk, "temperature": 0.5}
            whole["tools"] = [{**tool, "name": f"look{draw.randrange(2)}"}]
            body = json.dumps(whole, indent=draw.choice([None, None, 1])).encode()
            assert read(body, known) == read(body, None)


def test_only_what_is_new_is_read() -> None:
    """What a request begins with as an earlier one did is not read again, even if another
    conversation came between them; and equal tools are one object."""
    known, sent = KnownParts(), list[tuple[bytes, int]]()

    def read(text: bytes, before: int) -> Read:
        sent.append((text, before))
        items = json.loads(text)
        return Read(tuple([Message("user", item) for item in items]), len(items))

    for text in (b'["a", "b"]', b'["x"]', b'["a", "b", "c"]', b'["x","y"]'):
        known.messages(text, read)
    assert sent == [(b'["a", "b"]', 0), (b'["x"]', 0), (b'[ "c"]', 2), (b'["y"]', 1)]
    tool = b'[{"function": {"name": "look"}}]'
    body = b'{"messages": [], "tools": %b}' % tool
    assert chat.read_request(body, known).tools is chat.read_request(body, known).tools


def test_a_text_is_no_list() -> None:
    """The input of a response that is a text is the beginning of no list, and of no other text."""
    known = KnownParts()
    for text in ("hello", "hello, you", "[", "[]"):
        body = json.dumps({"input": text}).encode()
        read = responses.read_request(body, known)
        assert read.request.messages == (Message("user", text),)


@pytest.mark.parametrize(("read", "field"), [one[:2] for one in APIS])
def test_a_fault_is_named_by_its_place(read: Reader, field: str) -> None:
    """What is wrong after a known beginning is refused with the sentence of the whole request."""
    good: list[Any] = [{"role": "user", "content": "a"}]
    for bad in ({"role": "cook", "content": "a"}, {"role": "user", "content": 7}, 7, None):
        known = KnownParts()
        read(json.dumps({field: good}).encode(), known)
        body = json.dumps({field: [*good, {"role": "user", "content": "b"}, bad]}).encode()
        sentences = []
        for before in (known, None):
            with pytest.raises(UnsupportedRequest) as refused:
                read(body, before)
            sentences.append(str(refused.value))
        assert sentences[0] == sentences[1]
        assert "[2]" in sentences[0]


def place_of(
    earlier: list[tuple[tuple[Message, ...], Reply | None]], messages: tuple[Message, ...]
) -> tuple[int | None, int]:
    """Where a request begins, found by looking through all earlier ones."""
    begun: dict[tuple[Message, ...], int] = {}
    for number, (asked, reply) in enumerate(earlier):
        shown = () if reply is None else (Message("assistant", reply.text, reply.calls),)
        whole = (*asked, *shown)
        for size in range(1, len(whole) + 1):
            begun.setdefault(whole[:size], number)
    for size in range(len(messages), 0, -1):
        if messages[:size] in begun:
            return begun[messages[:size]], size
    return None, 0


def test_requests_find_their_place_in_the_tree() -> None:
    """Branches gives each request the place that a search through all earlier ones gives it."""
    for seed in range(50):
        draw, branches = Random(seed), Branches()
        earlier: list[tuple[tuple[Message, ...], Reply | None]] = []
        talks: list[tuple[Message, ...]] = [(Message("user", "a"),), (Message("user", "b"),)]
        for number in range(20):
            which = draw.randrange(len(talks))
            asked, reply = talks[which], Reply(f"r{draw.randrange(4)}")
            parent, shared = place_of(earlier, asked)
            found = branches.add(asked, (), reply)
            assert found == Place(number, parent, shared, parent is not None)
            earlier.append((asked, reply))
            said = Message("assistant", reply.text), Message("user", f"u{draw.randrange(2)}")
            talks[which] = (*asked, *said) if draw.random() < 0.8 else asked[: draw.randrange(3)]
            talks[which] = talks[which] or (Message("user", "c"),)


def test_arguments_that_python_takes_for_equal_are_two_histories() -> None:
    """A request with 1.0 where an earlier one had 1, or true, does not go on after it."""

    def called(value: object) -> tuple[Message, ...]:
        call = AgentCall("look", {"at": value}, "c")
        return (
            Message("user", "a"),
            Message("assistant", "", (call,)),
            Message("tool", "r", (), "c"),
        )

    branches = Branches()
    found = [branches.add(called(value), (), None) for value in (1, 1.0, True, 1)]
    assert [(place.parent, place.shared) for place in found] == [(None, 0), (0, 1), (0, 1), (0, 3)]
