"""The request features that a model server accepts, found out by trying: all of them first, and one
fewer after each refusal."""

import re
from collections.abc import Collection, Iterable
from typing import Any, Literal, Self

import msgspec

from rehearsal_room.harness.chat.completions import THOUGHTS
from rehearsal_room.harness.chat.retry import AttemptFailure, is_context_overflow, is_withheld
from rehearsal_room.harness.chat.wire import HistoryForm
from rehearsal_room.harness.model_servers.parameter_words import (
    is_about_ids,
    is_about_thoughts,
    refused_parameter,
    refuses_system,
    wants_result_names,
    wants_single_calls,
    wants_stream,
    wants_text_content,
)

_REFUSALS = frozenset({400, 404, 415, 422, 500, 501})
_FORMAT = re.compile(
    r"response.?format|json.?(schema|object|mode)|schema|structured|guided|grammar", re.IGNORECASE
)


_WORDS = (
    *("without:NAME", "max_completion_tokens", "thoughts", "thoughts:FIELD"),
    *("short_ids", "stream", "text_content", "no_system", "single_calls", "result_names"),
)
_FLAGS = ("short_ids", "stream", "text_content", "no_system", "single_calls", "result_names")
# With usage, which servers of this API leave out of streams unless they are asked for it.
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


class ServerFeatures(msgspec.Struct, frozen=True):
    """What may be sent to a server. Each refusal takes one feature away; none comes back."""

    format: Literal["json_schema", "json_object", "text"] = "json_schema"
    temperature: bool = True  # OpenAI's reasoning models allow their default only
    seed: bool = True  # some gateways refuse fields that they do not know
    max_tokens: bool = True  # False: the server calls it `max_completion_tokens`
    without: frozenset[str] = frozenset()  # other parameters and fields that it refuses
    # Whether it refuses a history without what it sent beside its replies, and the name under which
    # it wants thoughts, as in `reasoning_content`; empty: under the name that they had.
    wants_thoughts: bool = False
    thought_name: str = ""
    short_ids: bool = False  # it takes ids of calls of nine letters or digits only
    stream: bool = False  # it answers in a stream only
    text_content: bool = False  # a message with calls has an empty text, and not null
    single_calls: bool = False  # its model's template takes one call a message
    result_names: bool = False  # it wants the tool's name beside a result
    no_system: bool = False  # its model knows no system messages; the user's first has their text

    @classmethod
    def adapted(cls, words: Iterable[str], **fields: Any) -> Self:
        """The features of a server of which these words are known. Raises ValueError for a word
        that is none (see `words`)."""
        without: set[str] = set()
        for word in words:
            name, colon, value = word.partition(":")
            if name == "without" and value:
                without.add(value)
            elif word == "max_completion_tokens":
                fields["max_tokens"] = False
            elif name == "thoughts" and bool(colon) == bool(value):
                fields |= {"wants_thoughts": True, "thought_name": value}
            elif word in _FLAGS:
                fields[word] = True
            else:
                raise ValueError(f"{word!r} is none of {', '.join(_WORDS)}")
        return cls(without=frozenset(without), **fields)

    @property
    def words(self) -> tuple[str, ...]:
        """What is known of the server, in the words of a run's settings.

        Example: without seed, and thoughts go back as `reasoning` ->
            ("without:seed", "thoughts:reasoning")
        """
        thoughts = f"thoughts:{self.thought_name}" if self.thought_name else "thoughts"
        return (
            *(f"without:{name}" for name in sorted(self.without)),
            *(("max_completion_tokens",) if not self.max_tokens else ()),
            *((thoughts,) if self.wants_thoughts else ()),
            *(flag for flag in _FLAGS if getattr(self, flag)),
        )

    def after_refusal(self, failure: AttemptFailure) -> "ServerFeatures | None":
        """The features that a refusal leaves; None: the refusal is not about a feature.

        Example: 400 "response_format of type json_schema is not supported" -> json_object
        """
        if failure.status not in _REFUSALS or is_context_overflow(failure) or is_withheld(failure):
            return None
        refusal = f"{failure.code} {failure.message}"
        changes: dict[str, Any] = {}
        less: Any = "json_object" if self.format == "json_schema" else "text"
        sent = {"temperature": self.temperature, "seed": self.seed}
        sent |= {self._limit: bool(self._limit), "response_format": self.format != "text"}
        name = refused_parameter(refusal, [name for name, is_sent in sent.items() if is_sent])
        if not self.stream and wants_stream(refusal):
            changes["stream"] = True
        elif self.max_tokens and (name == "max_tokens" or "max_completion_tokens" in refusal):
            changes["max_tokens"] = False
        elif name in ("temperature", "seed"):
            changes[name] = False
        elif name == "response_format":
            changes["format"] = less
        elif name is not None and name == self._limit:
            changes["without"] = self.without | {name}
        elif self.temperature and "temperature" in refusal:
            changes["temperature"] = False
        elif not self.no_system and refuses_system(refusal):
            changes["no_system"] = True
        elif self.format != "text" and _FORMAT.search(refusal):
            changes["format"] = less
        elif self.seed and re.search(r"\bseed\b", refusal):
            changes["seed"] = False
        return msgspec.structs.replace(self, **changes) if changes else None

    @property
    def _limit(self) -> str:
        """The name under which the limit of tokens is sent; empty: it is not."""
        name = "max_tokens" if self.max_tokens else "max_completion_tokens"
        return "" if name in self.without else name

    @property
    def form(self) -> HistoryForm:
        """How a history without replies is shown to the server."""
        return HistoryForm(has_system=not self.no_system)

    def without_refused(
        self, failure: AttemptFailure, sent: Collection[str], *, has_replies: bool
    ) -> "ServerFeatures | None":
        """The features that a refusal leaves, of a request with these parameters and fields;
        None: the refusal is not about a feature. `has_replies`: the request shows earlier replies.

        Example: 422 "seed: Extra inputs are not permitted" -> without seed
        """
        if failure.status not in _REFUSALS or is_context_overflow(failure) or is_withheld(failure):
            return None
        refusal = f"{failure.code} {failure.message}"
        changes: dict[str, Any] = {}
        name = refused_parameter(refusal, sent)
        if "max_tokens" in sent and "max_completion_tokens" in refusal:
            name = "max_tokens"
        if name == "max_tokens" and self.max_tokens:
            changes["max_tokens"] = False
        elif not self.stream and "stream" not in sent and wants_stream(refusal):
            changes["stream"] = True
        elif name is not None:
            changes["without"] = self.without | {name}
        elif not self.no_system and refuses_system(refusal):
            changes["no_system"] = True
        elif has_replies and wants_text_content(refusal) and not self.text_content:
            changes["text_content"] = True
        elif has_replies and wants_single_calls(refusal) and not self.single_calls:
            changes["single_calls"] = True
        elif has_replies and wants_result_names(refusal) and not self.result_names:
            changes["result_names"] = True
        elif has_replies and is_about_ids(refusal) and not self.short_ids:
            changes["short_ids"] = True
        elif has_replies and is_about_thoughts(refusal) and not self.wants_thoughts:
            named = next((name for name in THOUGHTS if re.search(rf"\b{name}\b", refusal)), "")
            changes = {"wants_thoughts": True, "thought_name": named}
        return msgspec.structs.replace(self, **changes) if changes else None

    def change_since(self, before: "ServerFeatures") -> str:
        """What changed since there were more features, in words.

        Example: "seed is left out"
        """
        if self.max_tokens != before.max_tokens:
            return "max_tokens is sent as max_completion_tokens"
        if self.stream != before.stream:
            return "replies are streamed"
        if self.short_ids != before.short_ids:
            return "ids of calls are sent as nine letters and digits"
        if self.text_content != before.text_content:
            return "the content of calls is sent as an empty text"
        if self.single_calls != before.single_calls:
            return "calls are shown one a message"
        if self.result_names != before.result_names:
            return "results are sent with their tools' names"
        if self.no_system != before.no_system:
            return "system messages are sent as the user's"
        if self.wants_thoughts != before.wants_thoughts:
            return "thoughts are sent back"
        if left_out := sorted(self.without - before.without):
            return f"{', '.join(left_out)} is left out"
        return "fewer features are used"

    def apply(
        self, fields: dict[str, Any], answer_schema: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """A request's fields with what the server accepts, and the format of the answer.

        `answer_schema` is `{"name", "schema"}`, the answer's JSON Schema and its name; it is needed
        where the format is "json_schema".
        """
        sent = dict(fields)
        if not self.temperature:
            sent.pop("temperature", None)
        if not self.max_tokens and "max_tokens" in sent:
            sent["max_completion_tokens"] = sent.pop("max_tokens")
        if "max_completion_tokens" in self.without and "max_completion_tokens" in sent:
            limit = sent.pop("max_completion_tokens")
            if self.max_tokens:
                sent["max_tokens"] = limit
        if self.stream:
            sent |= STREAMED
        for name in self.without:
            sent.pop(name, None)
        if "stream" in self.without:
            sent.pop("stream_options", None)
        if self.format == "json_schema":
            assert answer_schema is not None, "the format json_schema needs a schema"
            named = {**answer_schema, "strict": True}
            sent["response_format"] = {"type": "json_schema", "json_schema": named}
        elif self.format == "json_object":
            sent["response_format"] = {"type": "json_object"}
        return sent
