"""A real collector of OTLP over HTTP on the loopback, whose answers a test chooses."""

import gzip
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Answer(msgspec.Struct, frozen=True):
    """One answer of the collector."""

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b""


OK = Answer()


def partly(rejected: int, why: str) -> Answer:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = rejected
    response.partial_success.error_message = why
    return Answer(body=response.SerializeToString())


class Collector:
    """What arrived. The n-th answer is the n-th of `answers`, then `OK`."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []  # by lower-case name
        self.accepted: list[ExportTraceServiceRequest] = []
        self.port = 0
        self.arrived = threading.Event()  # set with the first spans
        self.is_closed = False
        self.dropped = threading.Event()  # set with the first request on a connection of before

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[Span]:
        return [span for request in self.accepted for span in spans_in(request)]

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        answer = self.answers.pop(0) if self.answers else OK
        self.paths.append(path)
        self.headers.append({name.lower(): value for name, value in headers.items()})
        if answer.status == 200:
            request = ExportTraceServiceRequest.FromString(gzip.decompress(body))
            if request.resource_spans:
                self.accepted.append(request)
                self.arrived.set()
        return answer


def spans_in(request: ExportTraceServiceRequest) -> list[Span]:
    return [
        span
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


@contextmanager
def running_collector(*answers: Answer, port: int = 0) -> Iterator[Collector]:
    """A collector that listens as long as the block, on a free port where `port` is 0."""
    collector = Collector(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if collector.is_closed:
                collector.dropped.set()
                self.close_connection = True
                return
            answer = collector.take(self.path, self.headers, body)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    collector.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield collector
    finally:
        collector.is_closed = True
        server.shutdown()
        thread.join()
        server.server_close()
