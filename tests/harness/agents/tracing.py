"""Agents that send spans, for test_spans. As a program it is one with OpenTelemetry's SDK."""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

from tests.harness.agents import own

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


def span_of(number: int, name: str, began: int, **fields: Any) -> dict[str, Any]:
    """A span that ends now, in JSON; its id is a number, and it belongs to number 1."""
    parent = {} if number == 1 else {"parentSpanId": f"{1:016x}"}
    times = {"startTimeUnixNano": str(began), "endTimeUnixNano": str(time.time_ns())}
    return {
        "traceId": "ab" * 16,
        "spanId": f"{number:016x}",
        "name": name,
        **parent,
        **times,
        **fields,
    }


def request_of(*spans: dict[str, Any]) -> bytes:
    """A request in JSON."""
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


class _TracedEnv:
    """The world, with a span for each call."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.spans: list[dict[str, Any]] = []

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool."""
        began = time.time_ns()
        result = self._env.call(name, arguments)
        said = {"key": "gen_ai.tool.call.result", "value": {"stringValue": result.text}}
        failed = {"status": {"code": 2, "message": result.text}} if result.error else {}
        number = len(self.spans) + 2
        one = span_of(number, f"execute_tool {name}", began, attributes=[said], **failed)
        self.spans.append(one)
        return result


def works(task: Any, env: Any) -> str:
    """Does what the model says, and sends a span for all of it and for each call."""
    traced, began = _TracedEnv(env), time.time_ns()
    answer = own.loop(task, traced)
    whole = span_of(1, "invoke_agent", began)
    post(f"{task.otlp_url}/v1/traces", request_of(whole, *traced.spans))
    return answer


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
