"""Metrics in the text format of Prometheus."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rehearsal_room.harness.admission.metrics_text import read_metrics
from rehearsal_room.harness.admission.signals import ServerMetrics
from tests.support.budgets import examples

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 12.0
vllm:num_requests_running{engine="1",model_name="m"} 10.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.91
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.4
vllm:num_preemptions_total{engine="0",model_name="m"} 7.0
vllm:num_preemptions_total{engine="1",model_name="m"} 1.0
vllm:num_preemptions_created{engine="0",model_name="m"} 1.7e+09
"""
SGLANG = """\
sglang:num_running_reqs{model_name="m"} 5.0
sglang:num_queue_reqs{model_name="m"} 2.0
sglang:token_usage{model_name="m"} 0.25
"""


def test_metrics_of_vllm() -> None:
    """Requests and preemptions of the engines are added; the fullest cache counts."""
    assert read_metrics(VLLM) == ServerMetrics(22, 3, 0.91, 8)
    older = VLLM.replace("kv_cache", "gpu_cache")
    assert read_metrics(older) == ServerMetrics(22, 3, 0.91, 8)


def test_metrics_of_sglang() -> None:
    """The same figures have other names there."""
    assert read_metrics(SGLANG) == ServerMetrics(5, 2, 0.25, 0)


def test_text_without_metrics() -> None:
    """Another server's page, half of the metrics, and values that are not numbers give nothing."""
    for text in (
        "",
        "<html>404</html>",
        "process_cpu_seconds_total 3.0\n",
        "vllm:num_requests_running 3.0\n",
        SGLANG.replace("5.0", "NaN"),
        SGLANG.replace("5.0", "-1"),
        SGLANG.replace("5.0", "1e400"),
    ):
        assert read_metrics(text) is None
    odd = SGLANG.replace("0.25", "25.0")
    assert read_metrics(odd) == ServerMetrics(5, 2, None, 0)


@given(st.lists(st.sampled_from([*VLLM.splitlines(), "vllm:", "{}", "é", "1e999"])) | st.text())
@settings(max_examples=examples(200))
def test_any_text_is_read(lines: list[str] | str) -> None:
    """No text breaks the reader."""
    read_metrics(lines if isinstance(lines, str) else "\n".join(lines))
