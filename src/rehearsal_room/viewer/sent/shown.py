"""A request to a model as a page shows it: messages, tools, tokens by part, and the whole of it to
copy."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.token_bytes import decode_ids
from rehearsal_room.harness.history.token_budget import ByteCounter
from rehearsal_room.harness.policies.openai import check_url
from rehearsal_room.viewer.reading.plain import plain

_count = ByteCounter()
_END = "END_OF_REQUEST"


class ShownMessage(msgspec.Struct, frozen=True):
    """A message in the form of the chat API, and about how many tokens it has."""

    message: dict[str, Any]
    tokens: int


class LeftOut(msgspec.Struct, frozen=True):
    """A turn that the history window did not show."""

    turn: int  # from 0
    messages: list[ShownMessage]


class SentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, written again from the log."""

    what: str  # turn, summary or judge
    messages: list[ShownMessage]
    tools: list[dict[str, Any]] = []
    tools_tokens: int = 0  # about
    fields: dict[str, Any] = {}  # the others of the body
    head: int = 0  # how many of the messages are before the turns
    left_out: list[LeftOut] = []
    body: str = ""  # JSON, as it was sent; empty: it is not known
    curl: str = ""  # the command that sends it again; empty: it was not sent to a chat endpoint
    url: str = ""  # where it was sent; empty: it is not known
    prompt_tokens: int | None = None  # as the server counted them; None: it did not
    attempts: int = 1  # requests that were sent to get the reply
    ids: list[int] | None = None  # the prompt's token ids, as logged; None: there are none
    ids_text: str | None = None  # None: the tokenizer is not here
    notes: list[str] = []  # what is not certain, in sentences


class SentAtTurn(msgspec.Struct, frozen=True):
    """What a model was sent for a turn: the request for its reply, after one for a summary if there
    was one."""

    requests: list[SentRequest] = []
    missing: str = ""  # why there are none, or what they lack, a sentence; empty: nothing


def shown_body(what: str, data: bytes, **more: Any) -> SentRequest:
    """A request from its body."""
    fields = msgspec.json.decode(data, type=dict[str, Any])
    messages, tools = fields.pop("messages"), fields.pop("tools", [])
    return SentRequest(
        what=what,
        messages=shown_messages(messages),
        tools=plain(tools),
        tools_tokens=_count(msgspec.json.encode(tools).decode()) if tools else 0,
        fields=plain(fields),
        **more,
    )


def shown_messages(messages: Sequence[Mapping[str, Any]]) -> list[ShownMessage]:
    """Messages with about how many tokens they have: a quarter of their bytes."""
    return [ShownMessage(plain(one), _tokens(one)) for one in messages]


def with_ids(request: SentRequest, prompt: bytes, text_of: Any) -> SentRequest:
    """The request with the token ids of its prompt (see harness.core.token_bytes)."""
    ids = list(decode_ids(prompt))
    try:
        text = None if text_of is None else plain(text_of(ids))
    except (OverflowError, TypeError, ValueError):  # ids that are none of this tokenizer
        text = None
    return msgspec.structs.replace(request, ids=ids, ids_text=text)


def curl_of(url: str, body: str, *, sends_key: bool) -> str:
    """The command that sends a body to a chat endpoint; empty where the URL is none. The key is
    named, and never its value.

    Example: "http://h/v1", "{}" -> curl http://h/v1/chat/completions -H 'Content-Type: …'
    """
    try:
        check_url(url)
    except SettingsError:
        return ""
    key = ' \\\n  -H "Authorization: Bearer $OPENAI_API_KEY"' if sends_key else ""
    endpoint = shlex.quote(f"{url.rstrip('/')}/chat/completions")
    return (
        f"curl {endpoint} \\\n  -H 'Content-Type: application/json'{key} \\\n"
        f"  --data-binary @- <<'{_END}'\n{body}\n{_END}"
    )


def _tokens(message: Mapping[str, Any]) -> int:
    total = 0
    for name, value in message.items():
        if name in ("role", "tool_call_id") or value is None:
            continue
        total += _count(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    return total
