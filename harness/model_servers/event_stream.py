"""A streamed chat completion, put together from server-sent events as they arrive: without any I/O.

The result is the completion that the same server sends in one piece, so everything after it is the
same. Servers differ here too, and are read leniently: lines end in CR, LF or both; an event may
lack the empty line after it, and the stream its `[DONE]`; ids and names of calls may be repeated in
each event, and calls lack their index, their id or both, or share them; content may come in parts,
and the whole message once more at the end. Comments (`: keep-alive`), empty events and single words
(`data: ping`) are heartbeats and say nothing. An error may have a field of its own (`error: {…}`,
llama.cpp's), or be a line of JSON alone.
"""

import json
import re
from typing import Any

import msgspec

from rehearsal_room.harness.model_servers.error_bodies import error_of
from rehearsal_room.harness.model_servers.finish_reasons import is_blank

_BOM = b"\xef\xbb\xbf"
_WORD = re.compile(rb"[a-zA-Z_ -]*")  # in place of data: a heartbeat
_decode = msgspec.json.Decoder().decode
_LINE_END = re.compile(rb"\r\n|\n|\r(?!$)")  # a CR at the end may be half of a line's end
_BYTES_PER_TOKEN = 8  # more than the tokens of any text have on average
_MOST_LINES = 64  # of one event
_MOST_PIECES = 1000  # of the arguments of a call that has no id
_TOO_DEEP = "the stream's data is nested too deeply"
_ONCE = frozenset({"id", "type", "role", "format", "index"})  # whole values, however often sent


class StreamLimits(msgspec.Struct, frozen=True):
    """The limits of a reply that is streamed."""

    stall_s: float  # the longest time in which nothing arrives, once it has begun
    max_tokens: int | None  # what was asked for; a server that does not stop there is cut off


class EventStream:
    """One answer. `max_tokens` is the limit that was asked for; None: there was none.

    Example: feed(b'data: {"choices": [{"delta": {"content": "Hi"}}]}\\n\\ndata: [DONE]\\n\\n');
        completion() -> b'{"choices": [{"message": {"content": "Hi"}, "finish_reason": null}], ...'
    """

    __slots__ = (
        *("_buffer", "_choices", "_ended", "_error", "_event", "_is_stream", "_max_tokens"),
        *("_num_pieces", "_pending", "_size", "_usage", "fault"),
    )

    def __init__(self, max_tokens: int | None = None) -> None:
        self._max_tokens = max_tokens
        self._buffer = bytearray()  # an incomplete line
        self._pending: list[bytes] = []  # data of the present event
        self._event = ""
        self._is_stream: bool | None = None  # None: nothing that tells has arrived
        self._choices: dict[int, dict[str, Any]] = {}
        self._usage: Any = None
        self._error: Any = None
        self._ended = False
        self._num_pieces = 0  # events that brought a part of the reply
        self._size = 0  # bytes of the reply, about
        self.fault = ""  # why it cannot be read; empty: it can

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream of events, and not one piece of JSON."""
        return self._is_stream is True

    @property
    def has_reply(self) -> bool:
        """Whether the first part of the reply has arrived."""
        return self._num_pieces > 0

    @property
    def has_ended(self) -> bool:
        """Whether the server has said that nothing follows."""
        return self._ended

    @property
    def has_failed(self) -> bool:
        """Whether the server has reported an error."""
        return bool(self._error)

    @property
    def is_over_limit(self) -> bool:
        """Whether the reply has more tokens than were asked for, whatever its tokens are: more
        parts, and more bytes than so many tokens have."""
        limit = self._max_tokens
        if limit is None or self._num_pieces <= limit:
            return False
        return self._size > limit * _BYTES_PER_TOKEN

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._is_stream is False:
            return
        if self._is_stream is None and (begin := data.removeprefix(_BOM).lstrip()):
            self._is_stream = begin[:1] not in (b"{", b"[", b"<", b'"')
        self._buffer += data
        if b"\n" not in data and b"\r" not in data:
            return
        *lines, rest = _LINE_END.split(bytes(self._buffer))
        self._buffer = bytearray(rest)
        for line in lines:
            self._take_line(line)

    def completion(self, *, cut: bool = False) -> bytes:
        """What has arrived as one completion; `cut`: we ended it at its limit of tokens."""
        if self._buffer or self._pending:  # the last event lacks its end
            self._take_line(bytes(self._buffer).rstrip(b"\r"))
            self._take_line(b"")
        choices = [self._choices[index] for index in sorted(self._choices)]
        if cut and choices:
            choices[-1]["finish_reason"] = "length"
        found = {"choices": choices, "usage": self._usage, "error": self._error}
        try:  # halves of a character in two events become a whole one
            return json.dumps(found, default=str).encode()
        except RecursionError:
            self.fault = _TOO_DEEP
            return b"{}"

    def _take_line(self, line: bytes) -> None:
        if not line:
            if self._pending and not self.fault:
                self.fault = "an event of the stream is not JSON"
            self._pending, self._event = [], ""
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field != b"data":
            self._take_other(line, field.removeprefix(_BOM), value)
        else:
            self._take_data(value)

    def _take_other(self, line: bytes, field: bytes, value: bytes) -> None:
        if field == b"data":  # after a byte order mark
            self._take_data(value)
        elif field == b"event":
            self._event = value.decode(errors="replace").strip()
        elif line[:1] == b"{" or field == b"error":
            found = _decoded(line if line[:1] == b"{" else value)
            if found and (field == b"error" or error_of(found) is not None):
                self._error = error_of(found) or found

    def _take_data(self, value: bytes) -> None:
        if value[:1] != b"{":
            if value.strip(b' "\t') == b"[DONE]":
                self._ended = True
                return
            if not self._pending and _WORD.fullmatch(value):
                return
        chunk = None if self._pending else _decoded(value)
        if chunk is None:
            self._pending.append(value)
            if len(self._pending) == 1:
                return
            chunk = _decoded(b"\n".join(self._pending[-_MOST_LINES:]))
            if chunk is None:
                return
        self._pending = []
        try:
            self._take_chunk(chunk)
        except RecursionError:
            self.fault = _TOO_DEEP

    def _take_chunk(self, chunk: dict[str, Any]) -> None:
        choices = chunk.get("choices")
        if self._event == "error":
            self._error = chunk.get("error") or chunk
        elif not choices or chunk.get("error"):
            self._error = error_of(chunk) or self._error
        usage = chunk.get("usage")
        if usage is None and isinstance(groq := chunk.get("x_groq"), dict):
            usage = groq.get("usage")
        if usage is not None:
            self._usage = usage
        before = self._size
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._take_choice(choice)
        self._num_pieces += self._size > before

    def _take_choice(self, choice: dict[str, Any]) -> None:
        index = choice.get("index")
        found = self._choices.setdefault(
            index if isinstance(index, int) else 0,
            {"message": {"role": "assistant"}, "finish_reason": None},
        )
        delta = choice.get("delta")
        word = choice.get("finish_reason")
        is_last = word is not None and not is_blank(word)
        if not delta and isinstance(whole := choice.get("message"), dict):
            delta = whole
            if is_last and _is_repeated(found["message"], whole):
                found["message"] = {}
        if isinstance(delta, dict):
            self._merge(found["message"], delta)
        if is_last:
            found["finish_reason"] = word
            found["native_finish_reason"] = choice.get("native_finish_reason")
            self._ended = True
        if choice.get("error"):
            found["error"] = choice["error"]

    def _merge(self, whole: dict[str, Any], delta: dict[str, Any]) -> None:
        """Add what a delta brings to a message, or to a part of one."""
        for name, new in delta.items():
            old = whole.get(name)
            if new is None or (name in _ONCE and old not in (None, "")):
                continue
            if isinstance(new, str | list):
                self._size += len(new)
            if old is None or old == "":
                whole[name] = self._merged_list([], name, new) if isinstance(new, list) else new
            elif isinstance(old, _Pieces) and isinstance(new, str):
                old.texts.append(new)
            elif isinstance(old, list) or isinstance(new, list):
                whole[name] = self._merged_list(_as_list(old), name, _as_list(new))
            elif isinstance(old, dict) and isinstance(new, dict):
                self._merge(old, new)
            elif isinstance(old, str) and isinstance(new, str):
                if name == "arguments" and old == "{}":
                    whole[name] = new  # an empty object as the first piece
                elif name != "name":
                    whole[name] = _Pieces([old, new])
                elif new != old:
                    whole[name] = old + new
            else:
                whole[name] = new

    def _merged_list(self, whole: list[Any], name: str, delta: list[Any]) -> list[Any]:
        for new in delta:
            old = _continued(whole, new, is_call=name == "tool_calls")
            if old is None:
                whole.append(new)
                self._size += len(str(new)) if isinstance(new, dict) else 0
            else:
                self._merge(old, new)
        return whole


def _is_repeated(so_far: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether a message is what has been streamed, once more and as a whole (MiniMax)."""
    text, streamed = whole.get("content"), so_far.get("content")
    if streamed:
        return isinstance(text, str) and text.startswith(str(streamed))
    first = _first_call(so_far)
    return first is not None and first == _first_call(whole)


def _first_call(message: dict[str, Any]) -> tuple[Any, str] | None:
    """The first call's name and arguments; None: there is none."""
    calls = message.get("tool_calls")
    first = calls[0] if type(calls) is list and calls else None
    function = first.get("function") if isinstance(first, dict) else None
    if not isinstance(function, dict):
        return None
    return function.get("name"), str(function.get("arguments"))


class _Pieces:
    """A text that grows; `str` joins it."""

    __slots__ = ("texts",)

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def __str__(self) -> str:
        return "".join(self.texts)


def _decoded(data: bytes) -> dict[str, Any] | None:
    """An event's data; None: it is not, or not yet, an object."""
    try:
        found = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:  # halves of characters, which the library refuses
            found = json.loads(data.decode(errors="replace"))
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) else {}


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, str | _Pieces):
        return [{"type": "text", "text": str(value)}]
    return [value]


def _continued(whole: list[Any], new: Any, *, is_call: bool) -> dict[str, Any] | None:
    """The entry of a list that a new one continues; None: it is the next one.

    Ids tell the calls of a server apart that gives all of them the same index, or none.
    """
    entries = [one for one in whole if isinstance(one, dict)]
    if not isinstance(new, dict) or not entries:
        return None
    index, id = new.get("index"), new.get("id")
    if index is not None:
        entries = [one for one in entries if one.get("index") == index]
    if not entries:
        return None
    if id:
        named = [one for one in entries if one.get("id") == id]
        free = [one for one in entries[-1:] if not one.get("id")] if index is not None else []
        return next(iter(named or free), None)
    last: dict[str, Any] = entries[-1]
    if is_call and _is_whole(last) and _is_named(new):
        return None
    if is_call or index is not None:
        return last
    return last if new.get("type") and new["type"] == last.get("type") else None


def _is_named(call: dict[str, Any]) -> bool:
    function = call.get("function")
    return isinstance(function, dict) and bool(function.get("name"))


def _is_whole(call: dict[str, Any]) -> bool:
    """Whether a call has a name and all of its arguments, so that a name after it begins another
    one, where there are no ids (Gemini's)."""
    if not _is_named(call) or call.get("id"):
        return False
    arguments = call["function"].get("arguments")
    if isinstance(arguments, _Pieces) and len(arguments.texts) > _MOST_PIECES:
        return False  # to decode so many again with each further one takes long
    if not arguments or isinstance(arguments, dict):
        return bool(arguments)
    return _decoded(str(arguments).encode(errors="replace")) is not None
