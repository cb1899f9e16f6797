"""The request features that a model server accepts, found out by trying: all of them first, and one
fewer after each refusal."""

import re
from typing import Any, Literal

import msgspec

from rehearsal_room.harness.chat.retry import AttemptFailure, is_context_overflow

_REFUSALS = frozenset({400, 404, 415, 422, 500, 501})
_FORMAT = re.compile(
    r"response.?format|json.?(schema|object|mode)|schema|structured|guided|grammar", re.IGNORECASE
)


class ServerFeatures(msgspec.Struct, frozen=True):
    """What may be sent to a server. Each refusal takes one feature away; none comes back."""

    format: Literal["json_schema", "json_object", "text"] = "json_schema"
    temperature: bool = True  # OpenAI's reasoning models allow their default only
    seed: bool = True  # some gateways refuse fields that they do not know
    max_tokens: bool = True  # False: the server calls it `max_completion_tokens`

    def after_refusal(self, failure: AttemptFailure) -> "ServerFeatures | None":
        """The features that a refusal leaves; None: the refusal is not about a feature.

        Example: 400 "response_format of type json_schema is not supported" -> json_object
        """
        if failure.status not in _REFUSALS or is_context_overflow(failure):
            return None
        refusal = f"{failure.code} {failure.message}"
        changes: dict[str, Any] = {}
        if self.max_tokens and "max_completion_tokens" in refusal:
            changes["max_tokens"] = False
        elif self.temperature and "temperature" in refusal:
            changes["temperature"] = False
        elif self.format != "text" and _FORMAT.search(refusal):
            changes["format"] = "json_object" if self.format == "json_schema" else "text"
        elif self.seed and re.search(r"\bseed\b", refusal):
            changes["seed"] = False
        return msgspec.structs.replace(self, **changes) if changes else None

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
        if self.format == "json_schema":
            assert answer_schema is not None, "the format json_schema needs a schema"
            named = {**answer_schema, "strict": True}
            sent["response_format"] = {"type": "json_schema", "json_schema": named}
        elif self.format == "json_object":
            sent["response_format"] = {"type": "json_object"}
        return sent
