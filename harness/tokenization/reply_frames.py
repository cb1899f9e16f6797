"""What a chat template writes around a reply: where a sampled one is put into a rendered prompt.

A prompt is rendered with a stand-in for each sampled reply: a message with a mark as its text or,
if it makes calls, with their names and ids (templates name results by them) and marks as arguments.
A frame says which text around the marks belongs to the reply. It is read from short conversations:

    <|im_start|>assistant\\n<think>\\n     prompt: asks for a reply
    <|im_start|>assistant\\n              own: before the first mark of an earlier reply
    \\n</think>\\n\\n                       begins: before the text of a reply that was not sampled
    "}}\\n</tool_call>                    after: between the last mark and the end token
    <|im_end|>\\n<|im_start|>user\\n        follow: from there to the next message
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from tokenizers import Tokenizer

from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.tokenization.chat_template import ChatTemplate
from rehearsal_room.harness.tokenization.special_tokens import CLOSE, OPEN, alternatives

_OPENED, _CLOSED = "<think>", "</think>"
_CLOSED_THOUGHT = re.compile(r"\A\s*(<think>)?\s*</think>")
_USER, _RESULT, _REPLY, _NEXT, _NAME, _ID = (
    f"{OPEN}{name}{CLOSE}" for name in ("user", "result", "reply", "next", "name", "id")
)
_TAG = "tag-of-data>"  # plain letters: a template may write the arguments as Python does
_ASKS = {"role": "user", "content": _NEXT}
# Some templates render calls only where there are tools, or look for the tool of a call.
_SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
_TOOL = {"name": _NAME, "description": "x", "parameters": _SCHEMA}

_Chat = list[dict[str, Any]]  # messages in the form that chat templates expect
_Calls = Sequence[Mapping[str, Any]]  # calls in such a message


class Kind(NamedTuple):
    """What decides how a template frames a reply."""

    with_tools: bool  # the request has tools
    has_calls: bool
    after_result: bool  # the message before it is a tool's


class Frame(msgspec.Struct, frozen=True):
    """The texts around replies of one kind."""

    prompt: str
    own: tuple[str, ...]  # all that were found, longest first
    begins: str
    after: str
    follow: str
    end_id: int  # the token that ends a reply that was not sampled
    words: str  # with which `prompt` goes on where earlier replies begin, beside closed thoughts

    def before(self, text: str, calls: _Calls) -> str:
        """The text before the first mark of a reply, ending as the prompt ended from which the
        reply was sampled. Raises PolicyError."""
        for own in self.own:
            for filled in _filled(own, calls[:1]):
                if text.endswith(filled):
                    return text[: len(text) - len(filled)] + self.prompt
        raise cannot_insert("it begins a reply in another way than in a short conversation")

    def behind(self, text: str, calls: _Calls, end: str) -> str:
        """The text after the last mark of a reply, without what the agent sampled: `end` is the
        text of its end token; empty: it was cut. Raises PolicyError."""
        for after in _filled(self.after, calls[-1:]):
            if text.startswith(after + end) and (calls or end):
                return text[len(after) + len(end) :]
            if calls and text.startswith(after):
                return text[len(after) :]
        if not calls:
            return text.removeprefix(end)
        raise cannot_insert("it ends a call in another way than in a short conversation")

    def body(self, text: str) -> str:
        """A reply without calls that was not sampled, as it follows the text that asks for it,
        without its end; a thought that this text began is closed, or is the reply's own."""
        if _opens_thought(self.prompt) and text.startswith(_OPENED):
            return text.removeprefix(_OPENED).removeprefix("\n") + self.after
        return self.begins + text + self.after


def stand_in(mark: str, calls: _Calls = ()) -> dict[str, Any]:
    """A reply whose text, or the arguments of whose calls, are a mark."""
    if not calls:
        return {"role": "assistant", "content": mark}
    marked = [_with_arguments(call, lambda _: {mark: mark}) for call in calls]
    return {"role": "assistant", "content": "", "tool_calls": marked}


def cannot_insert(why: str) -> PolicyError:
    """The error for a window into which a reply cannot be put."""
    return PolicyError(f"the chat template does not show where a reply stands: {why}")


class ReplyFrames:
    """The frames of one template. `end_id` ends a reply without calls that was not sampled; `ends`
    are the tokens that may end a reply, by their texts."""

    def __init__(
        self, tokenizer: Tokenizer, template: ChatTemplate, end_ids: Sequence[int]
    ) -> None:
        """`end_ids` are the tokens that the model's folder names; those with which the template
        ends replies are added.

        Raises SettingsError where no token ends a reply, and PolicyError where the template
        refuses a conversation with one reply, both with tools and without.
        """
        self._tokenizer = tokenizer
        self._template = template
        self._known: dict[Kind, Frame | str] = {}  # a text says why there is none
        added = tokenizer.get_added_tokens_decoder().items()
        self._special = {token.content: number for number, token in added if token.special}
        self.ends: dict[str, int] = {}
        self._add_ends(end_ids)
        plain, with_tools = (Kind(tools, False, False) for tools in (False, True))
        if isinstance(self._try(plain), str) and isinstance(self._try(with_tools), Frame):
            plain = with_tools  # the template is for requests with tools only
        self.end_id = self.of(plain).end_id
        self._add_ends([self.end_id])
        if isinstance(frame := self._try(Kind(True, True, False)), Frame):
            self._add_ends([frame.end_id])

    def of(self, kind: Kind) -> Frame:
        """The frame of a kind of replies. Raises PolicyError where the template refuses a
        conversation with one, or it cannot be found in the text of that."""
        found = self._try(kind)
        if isinstance(found, str):
            raise PolicyError(found)
        return found

    @cached_property
    def takes_several_calls(self) -> bool:
        """Whether a reply may have more than one call."""
        kind = Kind(True, True, False)
        calls = _call(_REPLY)["tool_calls"] * 2
        try:
            self._render(
                [*_head(kind), stand_in(_REPLY, calls), _result(_NEXT), _result(_NEXT)], kind
            )
        except PolicyError:
            return False
        return True

    def body(self, kind: Kind, message: dict[str, Any]) -> str:
        """A reply with calls that was not sampled, as it follows the text that asks for it, without
        its end. Raises PolicyError."""
        frame, head, calls = self.of(kind), _head(kind), message["tool_calls"]
        mark = _RESULT if kind.after_result else _USER
        results = [_result(_NEXT, call["id"]) for call in calls]
        before, shown = self._before(kind), message
        if "think>" in repr(calls) and _TAG not in repr(calls):  # tags in arguments are data
            shown = {**message, "tool_calls": [_with_arguments(call, _hide) for call in calls]}
        text = self._render([*head, shown, *results], kind).rpartition(mark)[2]
        body = text.partition(_NEXT)[0]
        ends = [one for one in _filled(frame.follow, calls[:1]) if body.endswith(one)]
        if not body.startswith(before) or not ends:
            raise cannot_insert("it writes a call in another way than in a short conversation")
        body = self._beginning(frame.prompt, body[len(before) : len(body) - len(ends[0])])
        return body.replace(_TAG, "think>") if shown is not message else body

    def _add_ends(self, ids: Sequence[int]) -> None:
        for found in ids:  # one that the tokenizer does not know gets a text that no prompt has
            self.ends[self._tokenizer.id_to_token(found) or f"{OPEN}{found}{CLOSE}"] = found

    def _before(self, kind: Kind) -> str:
        """The text between the last data of a conversation and a reply. Some templates end every
        conversation that does not ask for a reply with the end token."""
        mark = _RESULT if kind.after_result else _USER
        text = self._render(_head(kind), kind).rpartition(mark)[2]
        return text.removesuffix(self._template.end_text)

    def _try(self, kind: Kind) -> Frame | str:
        if kind not in self._known:
            try:
                self._known[kind] = self._read(kind)
            except PolicyError as exc:
                self._known[kind] = str(exc)
        return self._known[kind]

    def _read(self, kind: Kind) -> Frame:
        head, mark = _head(kind), _RESULT if kind.after_result else _USER
        before = self._before(kind)
        asked = self._render(head, kind, asking=True).rpartition(mark)[2]
        if not asked.startswith(before):
            raise PolicyError(
                "the text that asks for a reply does not begin with the text of the conversation"
            )
        prompt = asked.removeprefix(before)
        found, last = self._found(kind, head, before)
        starts = self._render(head[:1], kind).partition(_USER)[0]
        after, end_id = self._end(found[0][1], last, starts, has_calls=kind.has_calls)
        return Frame(
            prompt,
            tuple(sorted({own for own, _ in found}, key=len, reverse=True)),
            self._beginning(prompt, self._usual(prompt, [own for own, _ in found])),
            after,
            found[0][1].removeprefix(after),
            end_id,
            self._words(prompt, found[0][0]),
        )

    def _found(self, kind: Kind, head: _Chat, before: str) -> tuple[list[tuple[str, str]], str]:
        """The texts on both sides of a reply, at least one pair, of one that other messages follow
        first; and the text after one that ends the conversation, empty where the template refuses
        that."""
        mark = _RESULT if kind.after_result else _USER
        reply = _call(_REPLY) if kind.has_calls else stand_in(_REPLY)
        nexts: list[_Chat] = (
            [[_result(_NEXT)], [_result(_NEXT), _ASKS]] if kind.has_calls else [[_ASKS]]
        )
        found, last = [], ""
        refusal = cannot_insert("it leaves out a reply, or rewrites the text before it")
        for more in (*nexts, []):
            try:
                text = self._render([*head, reply, *more], kind).rpartition(mark)[2]
            except PolicyError as exc:
                refusal = exc
                continue
            start, is_there, _ = text.partition(_REPLY)
            if is_there and start.startswith(before):
                behind = text.rpartition(_REPLY)[2].partition(_NEXT)[0]
                found.append((start.removeprefix(before), behind))
                last = "" if more else behind
        if not found:
            raise refusal
        return found, last

    def _beginning(self, prompt: str, text: str) -> str:
        """A reply without the text that asks for it, from what the template itself writes; a
        thought that was begun is closed.

        Example: "<|assistant|><think>", "<|assistant|></think>Hi" -> "</think>Hi"
        """
        if text.startswith(prompt):
            rest = text.removeprefix(prompt)
        else:
            rest = text[len(self._shared(prompt, text)) :]
            if not _opens_thought(prompt):
                if thought := _CLOSED_THOUGHT.match(rest):  # the prompt has one of its own
                    blanks = prompt[len(prompt.rstrip()) :]
                    return rest[thought.end() :].removeprefix(blanks)
                return rest
            rest = rest[max(0, rest.find(_CLOSED)) :]
        if _opens_thought(prompt) and _CLOSED not in rest:
            return (f"\n{_CLOSED}\n\n" if prompt.endswith("\n") else _CLOSED) + rest
        return rest

    def _usual(self, prompt: str, own: Sequence[str]) -> str:
        """The text before earlier replies that says best how one begins: with a closed thought, if
        the prompt begins one."""
        closed = [one for one in own if _CLOSED in one]
        return closed[0] if closed and _opens_thought(prompt) else own[0]

    def _words(self, prompt: str, own: str) -> str:
        rest = "" if own.startswith(prompt) else prompt[len(self._shared(prompt, own)) :]
        special = [*re.finditer(alternatives(self._special), rest)] if self._special else []
        is_closed = len(special) > 1 and special[-1].end() == len(rest.rstrip())
        return "" if is_closed or _OPENED in rest else rest.strip()

    def _shared(self, one: str, other: str) -> str:
        """The text with which both begin, in whole tokens."""
        first, second = (
            self._tokenizer.encode(text, add_special_tokens=False) for text in (one, other)
        )
        shared = ""
        for id, (_, end), its in zip(first.ids, first.offsets, second.ids, strict=False):
            if id != its:
                break
            if one[:end] == other[:end]:
                shared = one[:end]
        return shared

    def _end(self, earlier: str, last: str, starts: str, *, has_calls: bool) -> tuple[str, int]:
        """The text between a reply and its end token, and that token. `earlier` is the text up to
        the next message, `last` the one that ends the conversation, `starts` what ends as the text
        before a user's message."""
        closing = _shared_start(earlier, last)
        for text, tokens, index in (
            (closing, self.ends, 0),
            (closing, self._special, -1),  # after those that close the text or the calls
            (earlier, self.ends, 0),
            (last, self._special, 0),
            (_without_shared_end(earlier, starts), self._special, 0),
        ):
            found = [*re.finditer(alternatives(tokens), text)] if tokens else []
            if found:
                return text[: found[index].start()], tokens[found[index][0]]
        if not self.ends:
            raise SettingsError(
                "the tokenizer has no end token: neither does the chat template end a turn with a"
                " special token, nor does generation_config.json name an eos_token_id"
            )
        after = closing if has_calls else ""
        return after, next(iter(self.ends.values()))

    def _render(self, messages: _Chat, kind: Kind, *, asking: bool = False) -> str:
        tools = [{"type": "function", "function": _TOOL}] if kind.with_tools else []
        return self._template.render(messages, tools, add_generation_prompt=asking)


def _head(kind: Kind) -> _Chat:
    head: _Chat = [{"role": "user", "content": _USER}]
    if kind.after_result:
        reply = _call(_USER, "first") if kind.with_tools else stand_in(_USER)
        head += [reply, _result(_RESULT, "first")]
    return head


def _call(mark: str, id: str = _ID) -> dict[str, Any]:
    return stand_in(mark, [{"type": "function", "id": id, "function": {"name": _NAME}}])


def _result(text: str, id: str = _ID) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": id}


def _opens_thought(text: str) -> bool:
    return text.rfind(_OPENED) > text.rfind(_CLOSED)


def _with_arguments(call: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": change(function.get("arguments"))}}


def _hide(arguments: Any) -> Any:
    """Arguments in which no text is a thought's tag."""
    return json.loads(json.dumps(arguments, ensure_ascii=False).replace("think>", _TAG))


def _filled(text: str, calls: _Calls) -> list[str]:
    """A text beside a call, with the call's own name and id: as they are, and as JSON has them."""
    if not calls:
        return [text]
    name, id = calls[0]["function"]["name"], calls[0]["id"]
    quoted = json.dumps(name, ensure_ascii=False)[1:-1]
    return [text.replace(_ID, id).replace(_NAME, one) for one in dict.fromkeys((name, quoted))]


def _shared_start(one: str, other: str) -> str:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]


def _without_shared_end(one: str, other: str) -> str:
    return one[: len(one) - len(_shared_start(one[::-1], other[::-1]))]
