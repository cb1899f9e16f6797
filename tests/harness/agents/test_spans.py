"""The spans that an agent sends to its episode. OpenTelemetry's own SDK sends them, its own
messages read the answers, and enemies send what they like."""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.rpc.status_pb2 import Status
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages

from rehearsal_room.harness.agents import otlp_requests
from rehearsal_room.harness.agents.otlp_requests import (
    JSON,
    MAX_BODY,
    PROTOBUF,
    OtlpRefused,
    read_spans,
)
from rehearsal_room.harness.core.events import AgentSpan, AgentSpans, decode_event, encode
from rehearsal_room.harness.core.span_tree import in_tree_order
from rehearsal_room.viewer.reading.episode import episode_page
from tests.harness.agents import tracing
from tests.harness.agents.test_runs import episodes_of, played
from tests.harness.agents.tracing import request_of
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY

TRACING = "tests.harness.agents.tracing"
PROGRAM = f"{sys.executable} {Path(__file__).parent / 'tracing.py'}"
# The example of the specification (opentelemetry-proto, examples/trace.json).
EXAMPLE = """{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name",
"value": {"stringValue": "my.service"}}]}, "scopeSpans": [{"scope": {"name": "my.library",
"version": "1.0.0", "attributes": [{"key": "my.scope.attribute", "value": {"stringValue":
"some scope attribute"}}]}, "spans": [{"traceId": "5B8EFFF798038103D269B633813FC60C",
"spanId": "EEE19B7EC3C1B174", "parentSpanId": "EEE19B7EC3C1B173", "name": "I'm a server span",
"startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000", "kind": 2,
"attributes": [{"key": "my.span.attr", "value": {"stringValue": "some value"}}]}]}]}]}"""


@pytest.fixture(autouse=True)
def seen() -> Iterator[dict[str, Any]]:
    """What the functions of tracing.py send, and were answered."""
    tracing.SEEN.clear()
    yield tracing.SEEN
    tracing.SEEN.clear()


def span(number: int, **fields: Any) -> dict[str, Any]:
    """A span in JSON."""
    return {"traceId": "ab" * 16, "spanId": f"{number + 1:016x}", "name": f"s{number}", **fields}


def protobuf_of(*spans: dict[str, Any]) -> bytes:
    """The same in protobuf, by OpenTelemetry's messages."""
    request = messages.ExportTraceServiceRequest()
    sent = request.resource_spans.add().scope_spans.add().spans
    for one in spans:
        id = bytes.fromhex(one["spanId"])
        sent.add(trace_id=bytes.fromhex(one["traceId"]), span_id=id, name=one["name"])
    return request.SerializeToString()


@pytest.mark.parametrize("packing", ["none", "gzip"])
def test_the_sdk_of_a_command(packing: str, tmp_path: Path, rehearse: Rehearse) -> None:
    """What OpenTelemetry's SDK sends from a command is in the log, as a tree, without the headers
    and the host; `show` prints it."""
    command = f"OTEL_EXPORTER_OTLP_COMPRESSION={packing} {PROGRAM}"
    (one,) = played(rehearse, tmp_path / "run", "-n", 1, "--agent", command)
    assert one.spans is not None
    assert (one.spans.left_out, one.spans.num_refused) == (0, 0)
    tree = [(depth, span.name, span.status) for depth, span in in_tree_order(one.spans.spans)]
    assert tree == [(0, "work", ""), (1, "think", ""), (1, "fail", "error")]
    by_name = {span.name: span for span in one.spans.spans}
    assert by_name["work"].attributes == {
        "number": 3,
        "names": '["a","b"]',
        "ratio": 0.5,
        "is_it": True,
        "long": "x" * 1_000 + "…",
    }
    assert by_name["fail"].message == "ValueError: out of paper"
    assert by_name["fail"].events[0].attributes["exception.type"] == "ValueError"
    assert {(span.service, span.scope, span.kind) for span in one.spans.spans} == {
        ("bot", "my.library", "internal")
    }
    status, out, _ = rehearse("show", tmp_path / "run", one.episode)
    assert status == 0
    assert "the agent's spans (3)" in out
    assert "ValueError: out of paper" in out


def test_where_the_user_sends_them(
    tmp_path: Path, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector of the user's own, which --agent-env passes on, stays the one; without it the
    command finds its episode's, and in which form to send."""
    command = 'echo "$OTEL_EXPORTER_OTLP_ENDPOINT $OTEL_EXPORTER_OTLP_PROTOCOL"'
    (one,) = played(rehearse, tmp_path / "a", "-n", 1, "--agent", command)
    assert one.ended is not None
    assert one.ended.answer.startswith("http://127.0.0.1:")
    assert one.ended.answer.endswith(" http/protobuf")
    assert one.spans is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://mine:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    words = ("--agent", command, "--agent-env", "OTEL_EXPORTER_OTLP_PROTOCOL")
    (one,) = played(rehearse, tmp_path / "c", "-n", 1, *words)
    assert one.ended is not None
    assert one.ended.answer.startswith("http://127.0.0.1:")
    assert one.ended.answer.endswith(" http/json")
    words = ("--agent", command, "--agent-env", "OTEL_EXPORTER_OTLP_ENDPOINT")
    (one,) = played(rehearse, tmp_path / "b", "-n", 1, *words)
    assert one.ended is not None
    assert one.ended.answer == "http://mine:4318"


def test_json_as_the_specification_has_it() -> None:
    """Its example is read: ids are hexadecimal, times are texts."""
    read = read_spans(EXAMPLE.encode(), kind=JSON, packing="", room=9)
    assert read.spans == [
        AgentSpan(
            trace="5b8efff798038103d269b633813fc60c",
            id="eee19b7ec3c1b174",
            name="I'm a server span",
            began=1544712660.0,
            seconds=1.0,
            parent="eee19b7ec3c1b173",
            kind="server",
            attributes={"my.span.attr": "some value"},
            scope="my.library",
            service="my.service",
        )
    ]


def nested(depth: int) -> bytes:
    """An attribute within attributes."""
    value = '{"arrayValue":{"values":[' * depth + "]}}" * depth
    begin = request_of(span(0, attributes=[]))
    return begin.replace(b"[]", f'[{{"key": "a", "value": {value}}}]'.encode())


BOMB = gzip.compress(bytes(64 << 20))
BAD: dict[str, tuple[bytes, dict[str, str], int, str]] = {
    "not JSON": (b"{", {}, 400, "the body is not a request of OTLP: Input data was truncated"),
    "a list": (b"[]", {}, 400, "Expected `object`, got `array`"),
    "a wrong type": (request_of(span(0, name=[])), {}, 400, "Expected `str`, got `array`"),
    "no UTF-8": (b'{"resourceSpans": "\xff"}', {}, 400, "the body is not a request of OTLP"),
    "no UTF-8 inside": (
        request_of(span(0, name="NAME")).replace(b"NAME", b"\xff"),
        {},
        400,
        "utf-8",
    ),
    "half a pair": (request_of(span(0, name="\ud800x")), {}, 400, "hex escape"),
    "not protobuf": (b"\xff\xff", {"Content_Type": PROTOBUF}, 400, "in protobuf"),
    "no UTF-8 in protobuf": (
        protobuf_of(span(0, name="NAME")).replace(b"NAME", b"\xff\xff\xff\xff"),
        {"Content_Type": PROTOBUF},
        400,
        "in protobuf",
    ),
    "text": (b"hello", {"Content_Type": "text/plain"}, 415, "the Content-Type is 'text/plain'"),
    "no gzip": (b"hello", {"Content_Encoding": "gzip"}, 400, "the body is not gzip"),
    "half a gzip": (
        gzip.compress(request_of(span(0)))[:-9],
        {"Content_Encoding": "gzip"},
        400,
        "not one complete gzip stream",
    ),
    "a bomb": (BOMB, {"Content_Encoding": "gzip"}, 413, "the body has more than 8 MiB"),
    "brotli": (b"", {"Content_Encoding": "br"}, 415, "the Content-Encoding is 'br', not gzip"),
    "large": (bytes(MAX_BODY + 1), {}, 413, "the body has more than 8 MiB"),
    "a short id": (request_of(span(0, spanId="abcd")), {}, 400, "expected 8 bytes, not all zero"),
    "no id": (request_of(span(0, traceId="")), {}, 400, "traceId of the span 's0'"),
    "zeros": (request_of(span(0, spanId="0" * 16)), {}, 400, "not all zero"),
    "no hexadecimal": (request_of(span(0, spanId="x" * 16)), {}, 400, "is none"),
    "a long parent": (request_of(span(0, parentSpanId="ab" * 9)), {}, 400, "it has 9"),
    "deep": (nested(50_000), {}, 400, "the body is nested too deeply"),
}


def test_what_cannot_be_read_is_refused(
    tmp_path: Path, rehearse: Rehearse, seen: dict[str, Any]
) -> None:
    """Each gets a status and one sentence, in the form in which it was sent; they are counted; the
    episode goes on, and takes the next span."""
    seen["bodies"] = [("traces", body, headers) for body, headers, _, _ in BAD.values()]
    seen["bodies"].append(("traces", request_of(span(7)), {}))
    (one,) = played(rehearse, tmp_path / "run", "-n", 1, "--agent", f"{TRACING}:sends")
    for (status, answer), (name, wanted) in zip(seen["answers"], BAD.items(), strict=False):
        assert status == wanted[2], (name, answer)
        is_binary = wanted[1].get("Content_Type") == PROTOBUF
        said = Status.FromString(answer).message if is_binary else json.loads(answer)["message"]
        assert wanted[3] in said, name
    assert seen["answers"][-1] == (200, b"{}")
    assert one.spans is not None
    assert [span.name for span in one.spans.spans] == ["s7"]
    assert (one.spans.num_refused, one.spans.left_out) == (len(BAD), 0)
    assert one.spans.why == "the body is nested too deeply"


def test_a_flood_of_what_cannot_be_read(
    tmp_path: Path, rehearse: Rehearse, seen: dict[str, Any]
) -> None:
    """After 100 requests that were refused, and after 32 MiB, the episode's requests are not even
    read."""
    large = request_of(span(0, events=[{"name": "x" * 1_000_000}])) + b" " * 7_000_000
    seen["bodies"] = [("traces", b"{", {})] * 100 + [("traces", request_of(span(0)), {})]
    (one,) = played(rehearse, tmp_path / "a", "-n", 1, "--agent", f"{TRACING}:sends")
    assert [status for status, _ in seen["answers"]] == [400] * 100 + [413]
    assert one.spans == AgentSpans(
        num_refused=101,
        why="100 requests of this episode could not be read, and no more are taken",
    )
    seen["bodies"] = [("traces", large, {})] * 6
    (one,) = played(rehearse, tmp_path / "b", "-n", 1, "--agent", f"{TRACING}:sends")
    assert [status for status, _ in seen["answers"]] == [200] * 4 + [413] * 2
    assert one.spans is not None
    assert (len(one.spans.spans), one.spans.num_refused) == (1, 2)


def test_a_flood(tmp_path: Path, rehearse: Rehearse, seen: dict[str, Any]) -> None:
    """An episode has 2,000 spans; the SDK learns how many more there is no room for, by OTLP's
    partial success; spans that are sent again, after a lost answer, are there once. Logs and
    metrics are accepted and dropped."""
    many = [span(number) for number in range(2_500)]
    binary = {"Content_Type": PROTOBUF}
    seen["bodies"] = [
        ("traces", protobuf_of(*many[:1_000]), binary),
        ("traces", protobuf_of(*many[:1_000]), binary),
        ("traces", protobuf_of(*many[500:1_990]), binary),
        ("traces", protobuf_of(*many[1_900:]), binary),
        ("traces", request_of(many[2_400]), {}),
        ("logs", b"\xff", binary),
        ("metrics", b"{", {}),
    ]
    (one,) = played(rehearse, tmp_path / "run", "-n", 1, "--agent", f"{TRACING}:sends")
    assert one.spans is not None
    assert [span.name for span in one.spans.spans] == [f"s{number}" for number in range(2_000)]
    assert (one.spans.left_out, one.spans.num_refused) == (501, 0)
    assert [status for status, _ in seen["answers"]] == [200] * 7
    page = episode_page(None, one, {}, None, None)["spans"]
    assert {(row["depth"], row["seconds"], row["after"]) for row in page["spans"]} == {
        (0, 0.0, 0.0)
    }
    assert (len(page["spans"]), page["left_out"]) == (2_000, 501)
    answers = [answer for _, answer in seen["answers"]]
    partial = messages.ExportTraceServiceResponse.FromString(answers[3]).partial_success
    assert partial.rejected_spans == 500
    assert partial.error_message.startswith("an episode has at most 2,000 spans")
    assert json.loads(answers[4])["partialSuccess"]["rejectedSpans"] == "1"
    assert (answers[:3], answers[5:]) == ([b""] * 3, [b"", b"{}"])


def test_spans_have_limits() -> None:
    """Texts, attributes and events are cut, odd numbers are texts, and a span of more than 1 MiB
    is left out, alone."""
    values = [
        *({"intValue": str(2**63)}, {"doubleValue": "NaN"}, {"boolValue": False}, {}),
        *({"bytesValue": "AAAA"}, {"kvlistValue": {"values": [{"key": "a", "value": {}}]}}),
    ]
    odd = [{"key": f"k{index}", "value": one} for index, one in enumerate(values)]
    many = [{"key": f"k{index}", "value": {"intValue": index}} for index in range(100)]
    sent = request_of(
        span(0, attributes=odd, startTimeUnixNano="9", endTimeUnixNano="8", kind=99),
        span(1, attributes=many, events=[{"name": "e"}] * 40, name="n" * 500),
        span(2, attributes=[{"key": "a", "value": {"stringValue": "x" * (1 << 20)}}]),
        span(3),
    )
    read = read_spans(sent, kind=JSON, packing="", room=9)
    assert [one.name[:3] for one in read.spans] == ["s0", "nnn", "s3"]
    assert read.left_out == 1
    assert read.spans[0].attributes == {
        "k0": str(2**63),
        "k1": "nan",
        "k2": False,
        "k4": "3 bytes",
        "k5": '{"a":null}',
    }
    assert (read.spans[0].seconds, read.spans[0].kind) == (0.0, "")
    assert (len(read.spans[1].attributes), len(read.spans[1].events)) == (64, 16)
    assert len(read.spans[1].name) == 201


def test_late_spans_are_counted(tmp_path: Path, rehearse: Rehearse, seen: dict[str, Any]) -> None:
    """Spans for an episode that has ended are refused and counted in a notice; no other episode
    gets them, and a key that never was reaches nothing."""
    seen["body"] = request_of(span(0), span(1))
    words = ("-o", tmp_path / "run", "-n", 2, "-c", 1, "--agent", f"{TRACING}:sends_late")
    status, _, err = rehearse("run", LIBRARY, *words)
    assert status == 0, err
    ((status, answer),) = seen["answers"]
    assert (status, b"the episode has ended" in answer) == (410, True)
    assert "spans_after_the_end" in err
    assert "spans=2" in err
    assert [one.spans for one in episodes_of(tmp_path / "run")] == [None, None]


def test_spans_pay_nothing(tmp_path: Path, rehearse: Rehearse, seen: dict[str, Any]) -> None:
    """Spans that claim that all work was done change no label and no reward."""
    claim = span(0, name="task completed", status={"code": 1, "message": "all goals are met"})
    labels = []
    for number, bodies in enumerate([[], [("traces", request_of(claim), {})]]):
        seen["bodies"] = bodies
        runs = played(rehearse, tmp_path / str(number), "--agent", f"{TRACING}:sends")
        labels.append([(one.judged[-1].label, one.judged[-1].reward) for one in runs])
        assert all((one.spans is not None) is bool(bodies) for one in runs)
    assert labels[0] == labels[1]


def test_without_the_messages_of_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protobuf is refused by a sentence that says what to install; the protocol
    that commands find is JSON's, which is read."""
    monkeypatch.delitem(sys.modules, "rehearsal_room.harness.agents.otlp_protobuf", raising=False)
    monkeypatch.setitem(sys.modules, "google.protobuf.json_format", None)
    with pytest.raises(OtlpRefused, match=r"pip install 'rehearsal-room\[otlp\]'") as refused:
        read_spans(protobuf_of(span(0)), kind=PROTOBUF, packing="", room=9)
    assert refused.value.status == 415
    assert read_spans(request_of(span(0)), kind=JSON, packing="", room=9).spans
    monkeypatch.setattr(otlp_requests, "find_spec", lambda name: None)
    otlp_requests.span_protocol.cache_clear()
    assert otlp_requests.span_protocol() == "http/json"
    otlp_requests.span_protocol.cache_clear()


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 3)), max_size=12))
def test_a_tree_has_each_span_once(drawn: list[tuple[int, int, int]]) -> None:
    """Whatever the parents are, circles too: each span is there once, right below its parent's
    depth, or at depth 0."""
    unique = {id: (parent, began) for id, parent, began in drawn}
    spans = [
        AgentSpan("t", str(id), "n", float(began), parent=str(parent))
        for id, (parent, began) in unique.items()
    ]
    found = list(in_tree_order(spans))
    assert sorted(one.id for _, one in found) == sorted(one.id for one in spans)
    depths = {one.id: depth for depth, one in found}
    for depth, one in found:
        assert depth == 0 or depth == depths[one.parent] + 1
        if one.parent not in depths:
            assert depth == 0


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["key", "value", "values", "stringValue", "intValue", "arrayValue"])
            | st.sampled_from(["doubleValue", "kvlistValue", "bytesValue", "code", "name"]),
            inner,
            max_size=3,
        )
    ),
)
FIELDS = ("name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes", "events", "status")


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES) | st.binary(max_size=200))
def test_anything(sent: dict[str, Any] | bytes) -> None:
    """Whatever comes is read or refused, and what is read can be logged and is logged equal."""
    body = sent if isinstance(sent, bytes) else request_of(span(0, **sent))
    for kind in (JSON, PROTOBUF):
        for packing in ("", "gzip"):
            try:
                read = read_spans(body, kind=kind, packing=packing, room=9)
            except OtlpRefused as exc:
                assert exc.status in (400, 413)
            else:
                fact = AgentSpans(tuple(read.spans))
                assert decode_event(encode(fact)) == fact
