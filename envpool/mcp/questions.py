"""The requests of one server to its client, answered as the run says.

The client declares that it can be asked (the capabilities `elicitation` and `sampling`) where
somebody answers. A server that asks all the same gets a sentence, and the user one warning.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import mcp_types
import structlog

from rehearsal_room.envpool.core.types import ServerRequest
from rehearsal_room.envpool.mcp.asks import (
    ELICITATION,
    REFUSED,
    SAMPLING,
    Answerer,
    AskMode,
    NotAnswered,
)
from rehearsal_room.scenarios.core.short_text import shortened

NOT_ANSWERED = -1  # MCP's code of a request that the user rejects
_MAX_QUOTE = 200
_log = structlog.get_logger(__name__)

_Result = mcp_types.ElicitResult | mcp_types.CreateMessageResult


class Warnings:
    """Warnings for the user of a run, each given once, whatever number of connections notice it."""

    def __init__(self) -> None:
        self._given: set[tuple[str, ...]] = set()

    def warn(self, event: str, *about: str, **values: str) -> None:
        """Log an event; `about` is what makes it another one than before."""
        if (event, *about) not in self._given:
            self._given.add((event, *about))
            _log.warning(event, **values)


class Questions:
    """What one server asks during the calls of one connection."""

    def __init__(self, server: str, asks: AskMode, warnings: Warnings) -> None:
        self._server = server
        self.asks = asks
        self._warnings = warnings
        self.answerer: Answerer | None = None  # None: nobody answers
        self._calls: list[list[ServerRequest]] = []  # of the calls that run, the oldest first

    @contextmanager
    def during_call(self) -> Iterator[list[ServerRequest]]:
        """A block in which a call runs; gives what the server asked meanwhile. MCP does not say to
        which call a request belongs: of several calls, the oldest gets it."""
        asked: list[ServerRequest] = []
        self._calls.append(asked)
        try:
            yield asked
        finally:
            self._calls = [one for one in self._calls if one is not asked]

    async def answer(
        self, request: mcp_types.CreateMessageRequest | mcp_types.ElicitRequest
    ) -> _Result | mcp_types.ErrorData:
        """The result that the server gets, which is noted for the log; an error with a sentence
        where nobody answers."""
        is_sampling = isinstance(request, mcp_types.CreateMessageRequest)
        method = SAMPLING if is_sampling else ELICITATION
        dumped = request.params.model_dump(mode="json", by_alias=True, exclude_none=True)
        params = {name: value for name, value in dumped.items() if name != "_meta"}
        kind = mcp_types.CreateMessageResult if is_sampling else mcp_types.ElicitResult
        noted = self._calls[0] if self._calls else []
        try:
            answer = await self._answer(method, params)
            result = kind.model_validate(answer)
        except (NotAnswered, ValueError) as exc:
            refusal = shortened(str(exc), _MAX_QUOTE)
            noted.append(ServerRequest(method, params, refusal=refusal))
            return mcp_types.ErrorData(code=NOT_ANSWERED, message=refusal)
        noted.append(ServerRequest(method, params, answer))
        return result

    def was_refused(self, method: str, words: str) -> None:
        """Warn the user, once for a server and a kind of request."""
        self._warnings.warn(
            "mcp_server_asks",
            self._server,
            method,
            server=self._server,
            request=method,
            says=shortened(words, _MAX_QUOTE),
            advice="it got no answer; --mcp-ask user or --mcp-ask model gives one",
        )

    async def _answer(self, method: str, params: dict[str, object]) -> dict[str, object]:
        if self.answerer is None or not self._calls:
            if self.asks == "refuse":
                self.was_refused(method, str(params.get("message", "")))
            raise NotAnswered(REFUSED.format(method=method))
        return await self.answerer(method, params)
