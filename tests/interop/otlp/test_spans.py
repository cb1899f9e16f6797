"""Exported spans, decoded by opentelemetry-proto, are the episodes of the log."""

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeStarted,
    ForkedFrom,
    Judged,
    Label,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Act, FormatError, Reply, Usage
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.profile.timeline import Timeline
from rehearsal_room.interop.otlp.encoding import SpanBatch, bytes_of
from rehearsal_room.interop.otlp.export import export_spans
from rehearsal_room.interop.otlp.spans import SpanMaker
from tests.support.cli import Rehearse
from tests.support.collector import spans_in
from tests.support.ledger_world import write_package
from tests.support.timed_records import BEGAN, begin, end, records, summary, turn, verdict

Attributes = dict[str, Any]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def value_of(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(each) for each in value.array_value.values]
    return getattr(value, str(kind))


def attributes_of(span: Span) -> Attributes:
    return {each.key: value_of(each.value) for each in span.attributes}


def decoded(path: Path) -> list[Span]:
    return spans_in(ExportTraceServiceRequest.FromString(path.read_bytes()))


def exported(folder: Path, stored: list[Record], *, content: bool = False) -> list[Span]:
    async def write() -> None:
        async with open_log(folder) as log:
            for record in stored:
                log.append(record)

    anyio.run(write)
    episodes = {record.episode for record in stored}
    with open_reader(folder) as reader:
        maker = SpanMaker("log", "run", content=content)
        export_spans(reader, folder / "spans.otlp", maker, episodes)
    return decoded(folder / "spans.otlp")


def shape_of(trajectory: Trajectory) -> list[str]:
    """The names of an episode's spans, in the order in which they end."""
    names = []
    for step in trajectory.steps:
        names.append(f"chat {trajectory.started.policy}")
        if isinstance(step.decision, Act):
            names += [f"execute_tool {call.name}" for call in step.decision.calls]
    names.append(f"invoke_agent {trajectory.started.policy}")
    return names + [f"evaluate {judged.judge}" for judged in trajectory.judged]


@pytest.fixture
def run(rehearse: Rehearse, tmp_path: Path) -> Path:
    """A run of the oracle, several episodes at once."""
    folder = tmp_path / "run"
    package = write_package(tmp_path / "ledger")
    status, _, err = rehearse("run", package, "-p", "oracle", "-n", 8, "-c", 4, "-o", folder)
    assert status == 0, err
    return folder


def test_the_tree_of_spans_is_the_episode(rehearse: Rehearse, run: Path, tmp_path: Path) -> None:
    """One trace for each episode: its agent as the root, below it the replies, calls and verdicts
    of the log, in their order, inside of its time."""
    file = tmp_path / "spans.otlp"
    status, out, _ = rehearse("export", run, "--to", "otlp", "-o", file)
    assert (status, out) == (0, f"8 episodes in {file}\n")
    spans = decoded(file)
    with open_reader(run) as reader:
        trajectories = {one.episode: one for one in reader.trajectories()}
    by_episode: dict[str, list[Span]] = {}
    for span in spans:
        by_episode.setdefault(attributes_of(span)["rehearsal.episode"], []).append(span)
    assert by_episode.keys() == trajectories.keys()
    assert len({span.span_id for span in spans}) == len(spans)
    assert len({span.trace_id for span in spans}) == len(by_episode)
    for episode, found in by_episode.items():
        assert [span.name for span in found] == shape_of(trajectories[episode])
        (root,) = (span for span in found if not span.parent_span_id)
        assert root.name == "invoke_agent oracle"
        for span in found:
            assert (len(span.trace_id), len(span.span_id)) == (16, 8)
            assert span.trace_id == root.trace_id
            assert span is root or span.parent_span_id == root.span_id
            assert span.start_time_unix_nano <= span.end_time_unix_nano
            if not span.name.startswith("evaluate"):
                assert root.start_time_unix_nano <= span.start_time_unix_nano
                assert span.end_time_unix_nano <= root.end_time_unix_nano


def ids_in(path: Path) -> set[bytes]:
    return {one for span in decoded(path) for one in (span.trace_id, span.span_id)}


def test_ids_are_equal_on_every_export(rehearse: Rehearse, run: Path, tmp_path: Path) -> None:
    """Another export of the run has the same bytes, and one after its folder was renamed the same
    ids; another run of the same tasks has none of them."""
    one, two, moved = (tmp_path / name for name in ("one", "two", "moved"))
    for path in (one, two):
        assert rehearse("export", run, "--to", "otlp", "-o", path)[0] == 0
    assert one.read_bytes() == two.read_bytes()
    run.rename(moved)
    assert rehearse("export", moved, "--to", "otlp")[0] == 0
    assert ids_in(moved / "spans.otlp") == ids_in(one)
    other = tmp_path / "other"
    assert rehearse("run", tmp_path / "ledger", "-p", "oracle", "-n", 8, "-o", other)[0] == 0
    assert rehearse("export", other, "--to", "otlp")[0] == 0
    others = ids_in(other / "spans.otlp")
    assert len(others) == len(ids_in(one))
    assert not others & ids_in(one)


def test_ids_stay_when_the_log_grows(tmp_path: Path) -> None:
    """What was exported of a live run has the same ids, times and attributes later."""
    stored = records(
        "a",
        [
            (0.0, begin()),
            (2.0, turn(1.0, 0.1, 0.2)),
            (3.0, summary(0.5, 1)),
            (4.0, turn(0.5)),
            (4.0, end(4.0)),
            (5.0, verdict()),
        ],
    )
    whole = {span.span_id: span for span in exported(tmp_path / "whole", stored)}
    for count in range(1, len(stored)):
        for span in exported(tmp_path / str(count), stored[:count]):
            if span.parent_span_id:
                assert span == whole[span.span_id]
            else:
                assert span.trace_id == whole[span.span_id].trace_id


def test_only_the_selected_episodes(rehearse: Rehearse, run: Path, tmp_path: Path) -> None:
    """`--label` and `--ending` choose episodes, as for the other formats."""
    file = tmp_path / "spans.otlp"
    status, out, _ = rehearse("export", run, "--to", "otlp", "-o", file, "--label", "agent_error")
    assert (status, out, decoded(file)) == (0, f"0 episodes in {file}\n", [])


STARTED = msgspec.structs.replace(
    begin(policy="openai:gpt-5"), forked_from=ForkedFrom("runs/x", "e7", 2)
)
STORY: list[tuple[float, Any]] = [
    (0.0, STARTED),
    (
        2.0,
        msgspec.structs.replace(
            turn(1.0, 0.2, 0.3),
            reply=Reply(
                "I look.",
                turn(1.0, 0.2, 0.3).reply.calls,
                "tool_calls",
                Usage(900, 40, 512),
                weights="v3",
                attempts=2,
            ),
            results=(ToolResult("secret 1"), ToolResult("secret 2", "refused")),
        ),
    ),
    (3.0, StepTaken(Reply("??"), FormatError("no call"), policy_s=0.5)),
    (4.0, end(4.0, ending=Ending.POLICY_ERROR, error="connection refused")),
    (5.0, Judged("hybrid:j", Label.AGENT_ERROR, 0.25, reasoning="It stopped.")),
    (6.0, Judged("code", None, None, unjudged="no state")),
]


def test_the_attributes_follow_the_conventions(tmp_path: Path) -> None:
    """Names and values of the conventions for generative AI and MCP; failures have a status and
    `error.type`. Without --content no text of the episode is in them."""
    spans = exported(tmp_path, records("e1", STORY))
    common = {
        "gen_ai.conversation.id": "run/e1",
        "rehearsal.episode": "e1",
        "rehearsal.attempt": 1,
    }
    model = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5"}
    call = {
        **common,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "void_order",
        "gen_ai.tool.type": "function",
        "mcp.method.name": "tools/call",
        "rehearsal.turn": 0,
        "rehearsal.changed_rows": 0,
        "rehearsal.equal_part_of_turn": True,
    }
    assert [(span.name, attributes_of(span)) for span in spans] == [
        (
            "chat gpt-5",
            {
                **common,
                **model,
                "gen_ai.operation.name": "chat",
                "gen_ai.response.finish_reasons": ["tool_calls"],
                "gen_ai.usage.input_tokens": 900,
                "gen_ai.usage.output_tokens": 40,
                "gen_ai.usage.cache_read.input_tokens": 512,
                "rehearsal.turn": 0,
                "rehearsal.requests": 2,
                "rehearsal.weights": "v3",
            },
        ),
        ("execute_tool void_order", {**call, "gen_ai.tool.call.id": "c0-0"}),
        (
            "execute_tool void_order",
            {**call, "gen_ai.tool.call.id": "c0-1", "error.type": "refused"},
        ),
        (
            "chat gpt-5",
            {
                **common,
                **model,
                "gen_ai.operation.name": "chat",
                "gen_ai.response.finish_reasons": ["stop"],
                "rehearsal.turn": 1,
                "rehearsal.requests": 1,
                "rehearsal.malformed": True,
            },
        ),
        (
            "invoke_agent openai:gpt-5",
            {
                **common,
                **model,
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "openai:gpt-5",
                "gen_ai.usage.input_tokens": 900,
                "gen_ai.usage.output_tokens": 40,
                "error.type": "policy_error",
                "rehearsal.run": "run",
                "rehearsal.scenario": "shop",
                "rehearsal.task": "void-7",
                "rehearsal.group": "g0",
                "rehearsal.member": 0,
                "rehearsal.seed": 3,
                "rehearsal.turns": 2,
                "rehearsal.kept_turns": 0,
                "rehearsal.ending": "policy_error",
                "rehearsal.forked_from": "runs/x/e7@2",
            },
        ),
        (
            "evaluate hybrid:j",
            {
                **common,
                "gen_ai.operation.name": "evaluate",
                "gen_ai.evaluation.name": "hybrid:j",
                "gen_ai.evaluation.score.label": "agent_error",
                "gen_ai.evaluation.score.value": 0.25,
                "gen_ai.evaluation.explanation": "It stopped.",
            },
        ),
        (
            "evaluate code",
            {
                **common,
                "gen_ai.operation.name": "evaluate",
                "gen_ai.evaluation.name": "code",
                "gen_ai.evaluation.explanation": "no state",
                "error.type": "unjudged",
            },
        ),
    ]
    failed = [(span.name, span.status.message) for span in spans if span.status.code == 2]
    assert failed == [
        ("execute_tool void_order", "refused"),
        ("invoke_agent openai:gpt-5", "connection refused"),
        ("evaluate code", "no state"),
    ]
    kinds = {span.name.partition(" ")[0]: Span.SpanKind.Name(span.kind) for span in spans}
    assert kinds == {
        "chat": "SPAN_KIND_CLIENT",
        "execute_tool": "SPAN_KIND_INTERNAL",
        "invoke_agent": "SPAN_KIND_INTERNAL",
        "evaluate": "SPAN_KIND_INTERNAL",
    }
    data = (tmp_path / "spans.otlp").read_bytes()
    for text in (b"secret", b"I look", b"??", b"Please void", b"Done."):
        assert text not in data
    times = [(span.start_time_unix_nano, span.end_time_unix_nano) for span in spans[:3]]
    assert [[round(at / 1e6 - BEGAN * 1e3) for at in pair] for pair in times] == [
        [500, 1500],
        [1500, 1750],
        [1750, 2000],
    ]


def test_texts_are_there_on_request(tmp_path: Path) -> None:
    """With --content: the instruction, replies with their calls, arguments and results."""
    spans = exported(tmp_path, records("e1", STORY), content=True)
    chat, first, second, _, root = (attributes_of(span) for span in spans[:5])
    (message,) = json.loads(chat["gen_ai.output.messages"])
    assert message["role"] == "assistant"
    assert message["finish_reason"] == "tool_calls"
    assert message["parts"] == [
        {"type": "text", "content": "I look."},
        {"type": "tool_call", "id": "c0-0", "name": "void_order", "arguments": {"n": 0}},
        {"type": "tool_call", "id": "c0-1", "name": "void_order", "arguments": {"n": 1}},
    ]
    assert json.loads(first["gen_ai.tool.call.arguments"]) == {"n": 0}
    assert first["gen_ai.tool.call.result"] == "secret 1"
    assert second["gen_ai.tool.call.result"] == spans[2].status.message == "secret 2"
    assert json.loads(root["gen_ai.input.messages"])[0]["parts"][0]["content"] == (
        STARTED.instruction
    )


def test_attempts_are_traces_of_one_conversation(tmp_path: Path) -> None:
    """A resumed episode has a trace for each attempt; its resumed turns are in the first one only,
    and their number stays."""
    first = [(0.0, begin()), (1.0, turn(1.0, 0.1))]
    second = [(9.0, begin(kept=1)), (9.0, first[1][1]), (10.0, turn(0.5)), (10.0, end(2.0))]
    stored = [*records("a", first), *records("a", second, attempt=2)]
    spans = exported(tmp_path, stored)
    assert [span.name for span in spans] == [
        "chat m",
        "execute_tool void_order",
        "invoke_agent openai:m",
        "chat m",
        "invoke_agent openai:m",
    ]
    one, two = spans[2], spans[4]
    assert [span.trace_id for span in spans] == [one.trace_id] * 3 + [two.trace_id] * 2
    assert one.trace_id != two.trace_id
    assert attributes_of(spans[3])["rehearsal.turn"] == 1
    assert "rehearsal.ending" not in attributes_of(one)
    assert {attributes_of(span)["gen_ai.conversation.id"] for span in spans} == {"run/a"}


def test_awms_list_of_tools_is_a_list(tmp_path: Path) -> None:
    """In AWM's dialect `list_tools` is MCP's tools/list; elsewhere it is a tool like others."""
    call = msgspec.structs.replace(turn(1.0, 0.1).reply.calls[0], name="list_tools")
    step = msgspec.structs.replace(turn(1.0, 0.1), decision=Act((call,)))
    for dialect, method in (("awm", "tools/list"), ("native", "tools/call")):
        started: EpisodeStarted = msgspec.structs.replace(begin(), dialect=dialect)
        spans = exported(tmp_path / dialect, records("a", [(0.0, started), (1.0, step)]))
        assert attributes_of(spans[1])["mcp.method.name"] == method


def test_a_large_export_is_one_request(tmp_path: Path) -> None:
    """A file is written in parts of some hundred spans, and is one message all the same."""
    stored = records("a", [(0.0, begin()), *((n + 1.0, turn(0.5, number=n)) for n in range(1300))])
    spans = exported(tmp_path, stored)
    assert [span.name for span in spans] == ["chat m"] * 1300 + ["invoke_agent openai:m"]
    request = ExportTraceServiceRequest.FromString((tmp_path / "spans.otlp").read_bytes())
    assert len(request.resource_spans) == 3
    assert {
        attribute.key: attribute.value.string_value
        for attribute in request.resource_spans[2].resource.attributes
        if attribute.key != "service.version"
    } == {"service.name": "rehearsal", "rehearsal.run": "run"}


def test_requests_have_a_bounded_size() -> None:
    """Collectors refuse long bodies: a request has at most a megabyte, one large span apart, and
    no span is lost."""
    maker, batch, timeline = SpanMaker("log", "run", content=True), SpanBatch("run"), Timeline()
    large, huge = "x" * 300_000, "y" * 3_000_000
    steps = [msgspec.structs.replace(turn(0.5), reply=Reply(text)) for text in [large] * 9 + [huge]]
    story = [(0.0, begin()), *((n + 1.0, step) for n, step in enumerate(steps))]
    requests = [
        bytes_of(request)
        for record in records("a", story)
        for part in timeline.add(record)
        for request in batch.add(maker.spans_of(part))
    ]
    requests.append(bytes_of(batch.take()))
    assert [len(request) // 300_000 for request in requests] == [3, 3, 3, 10]
    whole = ExportTraceServiceRequest.FromString(b"".join(requests))
    assert len(spans_in(whole)) == 10
    assert batch.is_empty
    assert bytes_of(batch.take()) == b""
