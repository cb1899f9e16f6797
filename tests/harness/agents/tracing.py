"""Agents that send spans, for test_spans. As a program it is one with OpenTelemetry's SDK."""

import os
import sys
import urllib.error
import urllib.request
from typing import Any

SEEN: dict[str, Any] = {}  # what the functions below were answered; a test clears it


def post(url: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    """Post a body; the status and the answer. JSON, unless `headers` name another Content-Type."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **named})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def sends(task: Any) -> str:
    """Sends the bodies that a test has put there, and keeps the answers."""
    SEEN["answers"] = [
        post(f"{task.otlp_url}/v1/{name}", body, **headers)
        for name, body, headers in SEEN["bodies"]
    ]
    return "done"


def sends_late(task: Any) -> str:
    """Sends a span to the episode before it, if there is one."""
    if "url" in SEEN:
        SEEN["answers"] = [post(f"{SEEN['url']}/v1/traces", SEEN["body"])]
    SEEN["url"] = task.otlp_url
    return "done"


def main() -> None:
    """Spans within spans, one of which fails."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource({"service.name": "bot", "host.name": "ada"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("my.library")
    about = {"number": 3, "names": ["a", "b"], "long": "x" * 3_000, "ratio": 0.5, "is_it": True}
    with tracer.start_as_current_span("work", attributes=about) as span:
        span.set_attribute("http.request.header.authorization", "Bearer secret")
        with tracer.start_as_current_span("think"):
            pass
        try:
            with tracer.start_as_current_span("fail"):
                raise ValueError("out of paper")
        except ValueError:
            pass
    provider.shutdown()
    sys.stdout.write(os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"])


if __name__ == "__main__":
    main()
