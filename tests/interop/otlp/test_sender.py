"""Requests reach a real collector on the loopback, or one sentence reports why not."""

import time
from collections.abc import Mapping
from email.utils import formatdate

import anyio
import anyio.to_thread
import pytest
import structlog
from anyio.abc import TaskStatus
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from rehearsal_room.harness.chat.retry import Backoff
from rehearsal_room.harness.core.errors import CollectorError
from rehearsal_room.harness.profile.timeline import Timeline
from rehearsal_room.interop.otlp.encoding import SpanBatch, SpanRequest, bytes_of
from rehearsal_room.interop.otlp.sender import OtlpSender, headers_in, traces_url
from rehearsal_room.interop.otlp.spans import SpanMaker
from tests.support.broker import free_port
from tests.support.collector import OK, Answer, partly, running_collector
from tests.support.timed_records import begin, end, records, turn

FAST = Backoff(first_s=0.01, max_wait_s=0.02)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def request() -> SpanRequest:
    timeline, batch = Timeline(), SpanBatch("run")
    for record in records("a", [(0.0, begin()), (1.0, turn(0.5)), (1.0, end(1.0))]):
        for part in timeline.add(record):
            assert list(batch.add(SpanMaker("log", "run").spans_of(part))) == []
    return batch.take()


def sender(url: str, *, patience_s: float = 5.0, timeout_s: float = 0.5) -> OtlpSender:
    return OtlpSender(url, patience_s=patience_s, timeout_s=timeout_s, backoff=FAST, environment={})


async def test_a_request_arrives() -> None:
    """The body is the request in protobuf, compressed, at the path for traces; an empty request
    comes first."""
    with running_collector() as collector:
        async with sender(collector.url, timeout_s=10.0) as opened:
            await opened.send(request())
    assert collector.paths == ["/v1/traces"] * 2
    assert collector.accepted == [ExportTraceServiceRequest.FromString(bytes_of(request()))]
    assert [span.name for span in collector.spans] == ["chat m", "invoke_agent openai:m"]
    for headers in collector.headers:
        assert headers["content-type"] == "application/x-protobuf"
        assert headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    "busy",
    [
        Answer(429, {"Retry-After": "0"}),
        Answer(503, {"Retry-After": formatdate(time.time() - 5, usegmt=True)}),
        Answer(503),
        Answer(502),
        Answer(504),
    ],
)
async def test_a_busy_collector_is_asked_again(busy: Answer) -> None:
    """Until it takes the request, which arrives once."""
    with running_collector(OK, busy, busy, busy) as collector:
        async with sender(collector.url) as opened:
            await opened.send(request())
            assert opened.num_requests == 1
    assert len(collector.paths) == 5
    assert len(collector.accepted) == 1


async def test_the_collectors_wait_is_kept() -> None:
    """`Retry-After` is the least time between two attempts."""
    with running_collector(OK, Answer(429, {"Retry-After": "0.25"})) as collector:
        async with sender(collector.url) as opened:
            began = time.monotonic()
            await opened.send(request())
            assert time.monotonic() - began >= 0.25


@pytest.mark.parametrize("status", [301, 400, 401, 404, 413, 500])
async def test_a_refusal_is_final(status: int) -> None:
    """Another status is not tried again: the sentence has the status and the collector's words."""
    with running_collector(OK, Answer(status, body=b"not\x1b like this")) as collector:
        async with sender(collector.url) as opened:
            with pytest.raises(CollectorError) as caught:
                await opened.send(request())
    assert str(caught.value) == (
        f"{collector.url}/v1/traces: the collector refused the spans (status {status}): "
        "not\\x1b like this"
    )
    assert len(collector.paths) == 2


async def test_a_wrong_path_is_found_before_the_first_span() -> None:
    """A server that is not a collector refuses the empty request."""
    with (
        running_collector(Answer(404)) as collector,
        pytest.raises(CollectorError, match="status 404"),
    ):
        async with sender(f"{collector.url}/api"):
            raise AssertionError("it opened")
    assert collector.paths == ["/api/v1/traces"]


async def test_a_collector_that_stays_busy_is_given_up() -> None:
    """After the patience one sentence has the time and the number of attempts."""
    with running_collector(OK, *[Answer(503)] * 1000) as collector:
        async with sender(collector.url, patience_s=0.1) as opened:
            with pytest.raises(CollectorError, match=r"busy \(status 503\); given up after 0 s"):
                await opened.send(request())


async def test_a_collector_that_comes_back() -> None:
    """One that goes away in the middle of a run gets the request when it listens again."""
    async with anyio.create_task_group() as tasks:
        with running_collector() as first:
            opened = await tasks.start(_keep_open, first.url)
        with anyio.fail_after(20):
            tasks.start_soon(opened.send, request())
            await anyio.to_thread.run_sync(first.dropped.wait)
            with running_collector(port=first.port) as second:
                await anyio.to_thread.run_sync(second.arrived.wait)
        tasks.cancel_scope.cancel()
    assert (len(first.accepted), len(second.accepted)) == (0, 1)


async def _keep_open(url: str, *, task_status: TaskStatus[OtlpSender]) -> None:
    async with sender(url) as opened:
        task_status.started(opened)
        await anyio.sleep_forever()


async def test_nothing_listens() -> None:
    """One sentence, at once."""
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(CollectorError) as caught:
        async with sender(url):
            raise AssertionError("it opened")
    assert str(caught.value) == (
        f"{url}/v1/traces: the collector cannot be reached: connection refused"
    )


async def test_a_part_that_was_refused_is_a_warning() -> None:
    """A collector may take a request and refuse some spans: that is reported, not repeated."""
    with (
        running_collector(OK, partly(1, "too old")) as collector,
        structlog.testing.capture_logs() as lines,
    ):
        async with sender(collector.url, timeout_s=10.0) as opened:
            await opened.send(request())
    assert len(collector.paths) == 2
    assert [(line["event"], line["why"]) for line in lines] == [
        ("otlp_partly_refused", "1 spans: too old")
    ]


async def test_credentials_come_from_the_environment() -> None:
    """The variables of OpenTelemetry's own exporters become headers."""
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20abc,tenant=x"}
    with running_collector() as collector:
        async with OtlpSender(collector.url, environment=environment) as opened:
            await opened.send(request())
    for headers in collector.headers:
        assert (headers["authorization"], headers["tenant"]) == ("Basic abc", "x")


@pytest.mark.parametrize(
    ("environment", "headers"),
    [
        ({}, {}),
        ({"OTEL_EXPORTER_OTLP_HEADERS": " a = b%2C , c=d=e ,"}, {"a": "b,", "c": "d=e"}),
        (
            {"OTEL_EXPORTER_OTLP_HEADERS": "a=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=2"},
            {"a": "2"},
        ),
    ],
)
def test_headers(environment: Mapping[str, str], headers: dict[str, str]) -> None:
    """Names and values are separated by `=` and `,`; values may be percent-encoded."""
    assert headers_in(environment) == headers


def test_a_header_without_a_value() -> None:
    """The sentence names the variable and does not repeat what may be a secret."""
    with pytest.raises(CollectorError) as caught:
        headers_in({"OTEL_EXPORTER_OTLP_HEADERS": "secret"})
    assert str(caught.value) == (
        "OTEL_EXPORTER_OTLP_HEADERS: an item has no '=' (expected name=value)"
    )


@pytest.mark.parametrize(
    ("url", "traces"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
        ("https://h/api/public/otel", "https://h/api/public/otel/v1/traces"),
        ("https://h/v1/traces", "https://h/v1/traces"),
        ("https://h/otel?x=1", "https://h/otel/v1/traces?x=1"),
    ],
)
def test_the_path_for_traces(url: str, traces: str) -> None:
    """A collector's base URL and its full one both work."""
    assert traces_url(url) == traces


@pytest.mark.parametrize(
    "url", ["", "localhost:4318", "ftp://h", "http://", "http://h:99999", "http://[h"]
)
def test_a_url_that_is_not_one(url: str) -> None:
    """The sentence names the flag, what was found and an example."""
    with pytest.raises(CollectorError, match="is not the URL of a collector"):
        traces_url(url)


def test_a_password_in_the_url() -> None:
    """It is refused, and not repeated."""
    with pytest.raises(CollectorError) as caught:
        traces_url("https://me:secret@host")
    assert "secret" not in str(caught.value)
    assert "OTEL_EXPORTER_OTLP_HEADERS" in str(caught.value)
