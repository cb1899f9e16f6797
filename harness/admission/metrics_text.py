"""A model server's metrics in the text format of Prometheus.

Names of vLLM 0.32 (vllm/v1/metrics/loggers.py; `gpu_cache_usage_perc` before 0.10) and of SGLang
(sglang/srt/metrics/collector.py). A server with several engines has one line for each: requests and
preemptions are added, of the shares of the caches the largest counts.
"""

import math
import re
from collections.abc import Sequence

from rehearsal_room.harness.admission.signals import ServerMetrics

_LINE = re.compile(r"^(?:vllm|sglang):(\w+)(?:\{.*\})?\s+(\S+)", re.MULTILINE)
_RUNNING = ("num_requests_running", "num_running_reqs")
_WAITING = ("num_requests_waiting", "num_queue_reqs")
_CACHE = ("kv_cache_usage_perc", "gpu_cache_usage_perc", "token_usage")
_PREEMPTIONS = ("num_preemptions_total", "num_preemptions", "num_retracted_reqs")
_KNOWN = {*_RUNNING, *_WAITING, *_CACHE, *_PREEMPTIONS}
MAX_CHARS = 4_000_000  # of a text that is read


def read_metrics(text: str) -> ServerMetrics | None:
    """The metrics in a text; None: it does not say how many requests run and wait.

    Example: 'vllm:num_requests_running{engine="0"} 3.0\\nvllm:num_requests_waiting{engine="0"} 1.0'
        -> ServerMetrics(running=3, waiting=1, cache_used=None, preemptions=0)
    """
    found: dict[str, list[float]] = {}
    for name, value in _LINE.findall(text[:MAX_CHARS]):
        if name in _KNOWN and (number := _number(value)) is not None:
            found.setdefault(name, []).append(number)
    running, waiting = _first(found, _RUNNING), _first(found, _WAITING)
    if not running or not waiting:
        return None
    cache = _first(found, _CACHE)
    return ServerMetrics(
        running=int(sum(running)),
        waiting=int(sum(waiting)),
        cache_used=max(cache) if cache and max(cache) <= 1.0 else None,
        preemptions=int(sum(_first(found, _PREEMPTIONS))),
    )


def _first(found: dict[str, list[float]], names: Sequence[str]) -> list[float]:
    return next((found[name] for name in names if name in found), [])


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and 0 <= number < 2**53 else None
