"""Reads a model server's own metrics, if it shows some that are understood.

The path is that of vLLM and SGLang: /metrics beside /v1. A server without it is asked again less
and less often; whatever it answers, the run goes on. One small request a second costs this process
about a millisecond, and no connection is kept.
"""

import msgspec

from rehearsal_room.harness.admission.metrics_text import MAX_CHARS, read_metrics
from rehearsal_room.harness.admission.signals import ServerMetrics
from rehearsal_room.harness.chat.answer_limits import AnswerLimits
from rehearsal_room.harness.chat.transport import Endpoint, LeanTransport, TransportError

EVERY_S = 1.0
_WAIT_S = 5.0  # for one answer
_RAREST_S = 60.0  # between two requests to a server without metrics


class _Metrics(Endpoint, frozen=True):
    @property
    def url(self) -> str:
        return self.base_url.removesuffix("/v1") + "/metrics"


class MetricsPoller:
    """Asks one server. `base_url` is that of its API, as in `http://127.0.0.1:8000/v1`. The key of
    the API is not sent."""

    def __init__(self, base_url: str) -> None:
        self._endpoint = _Metrics(
            base_url=base_url.rstrip("/"),
            api_key=None,
            organization=None,
            project=None,
            timeout_s=_WAIT_S,
            concurrency=1,
            method="GET",
            answers=msgspec.structs.replace(AnswerLimits(), each=MAX_CHARS),
        )
        self.every_s = EVERY_S  # until the next reading

    async def read(self) -> ServerMetrics | None:
        """The metrics now; None: there are none that can be read."""
        metrics = await self._read()
        self.every_s = EVERY_S if metrics else min(_RAREST_S, 2 * self.every_s)
        return metrics

    async def _read(self) -> ServerMetrics | None:
        try:
            async with LeanTransport(self._endpoint) as transport:
                response = await transport.post(b"")
        except TransportError:
            return None
        if response.status != 200:
            return None
        return read_metrics(response.body.decode("utf-8", "replace"))
