"""Requests of a run in the form that its server accepts, which is learned from what it sends.

- A parameter that the server refuses is left out or sent under its other name.
- Fields that the server sent beside its replies go back to it, thoughts only where it demands
  them. A server that did not send a field does not get it.
- Ids and names of calls are such as the server accepts; the log has those that were sent.

Each change is logged once, and stays for the run. The refusal does not count as an attempt.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import structlog

from rehearsal_room.harness.chat.retry import AttemptFailure
from rehearsal_room.harness.chat.server_features import ServerFeatures
from rehearsal_room.harness.chat.wire import HistoryForm, RequestWriter
from rehearsal_room.harness.core.messages import AgentCall, Reply, Window

_log = structlog.get_logger(__name__)


class AdaptiveWriter:
    """Writes the requests to one server. `fields` are those of each body, besides messages, tools
    and seed; `secret` is kept out of what is logged; `known` is what is known of the server, in the
    words of ServerFeatures."""

    def __init__(
        self, fields: Mapping[str, Any], *, secret: str | None = None, known: Sequence[str] = ()
    ) -> None:
        self._fields = dict(fields)
        self._secret = secret
        self._returned: frozenset[str] = frozenset()  # names of fields that the server has sent
        self.features = ServerFeatures.adapted(known, format="text")
        self._rebuild()

    @property
    def streams(self) -> bool:
        """Whether replies are asked for as streams."""
        return self._streams

    def body(self, window: Window, seed: int | None) -> bytes:
        """A request's body; `seed` None: the server chooses the seed."""
        if window.fields:
            fields = self.features.apply(window.fields)
            seed = None if "seed" in fields else seed
            window = msgspec.structs.replace(window, fields=fields)
        if "seed" in self._fields:
            seed = None
        return self._writer.body(window, seed=seed if self._sends_seed else None, form=self._form)

    def adapt(
        self, asked: ServerFeatures, failure: AttemptFailure, window: Window, seed: int | None
    ) -> bool:
        """Whether another request can succeed, since this one, written with the features `asked`,
        was refused for its form."""
        fields = asked.apply({**(window.fields or {}), **self._fields})
        sent = [name for name in fields if name != "model"]
        if seed is not None and "seed" not in asked.without:
            sent.append("seed")
        if window.tools and window.asks_for_summary and "tool_choice" not in asked.without:
            sent.append("tool_choice")
        sent += self._returned - asked.without
        has_replies = any(message.role == "assistant" for message in window.messages)
        fewer = asked.without_refused(failure, sent, has_replies=has_replies)
        if fewer is None:
            return False
        if self.features == asked:  # else another request has found the same, or something else
            refusal = failure.message
            if self._secret:
                refusal = refusal.replace(self._secret, "***")
            _log.warning("request_adapted", change=fewer.change_since(asked), refusal=refusal)
            self.features = fewer
            self._rebuild()
        return True

    def read(self, window: Window, reply: Reply) -> Reply:
        """A reply with the tools' own names."""
        if reply.fields:
            self._learn(reply)
        for call in reply.calls:
            if call.fields:
                self._learn(reply)
                break
        if not reply.calls or not self._writer.changes_names:
            return reply
        names = self._writer.tool_names(window)
        calls = [
            AgentCall(names.read(call.name), call.arguments, call.id, call.fields)
            for call in reply.calls
        ]
        return msgspec.structs.replace(reply, calls=tuple(calls))

    def _learn(self, reply: Reply) -> None:
        """Remember which fields the server sends."""
        names = {*(reply.fields or ())}
        for call in reply.calls:
            if call.fields:
                names.update(call.fields, call.fields.get("function", ()))
        if not names <= self._returned:
            self._returned |= names
            self._rebuild()

    def _rebuild(self) -> None:
        features = self.features
        self._sends_seed = "seed" not in features.without
        fields = features.apply(self._fields)
        self._streams = bool(fields.get("stream"))
        self._writer = RequestWriter(fields, without=features.without)
        self._form = HistoryForm(
            returned=self._returned,
            wants_thoughts=features.wants_thoughts,
            thought_name=features.thought_name,
            without=features.without,
            short_ids=features.short_ids,
            no_content="" if features.text_content else None,
            has_system=not features.no_system,
            single_calls=features.single_calls,
            result_names=features.result_names,
        )
