"""Summaries: in live episodes, in the log, in replays, exports and displays."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # ships no type hints
import pytest
from rich.console import Console

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.chat.wire import RequestWriter
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    Event,
    HistorySummarized,
    Record,
    StepTaken,
    encode,
)
from rehearsal_room.harness.core.messages import Message, Reply, Usage, Window
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.registry import NAMES, dialect_of
from rehearsal_room.harness.history.summary import GO_ON, PROMPT, with_summary_request
from rehearsal_room.harness.history.windows import HistoryFold, parse_history, windows_of
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.policies.random_calls import RandomPolicy
from rehearsal_room.harness.replay.run import ReplayReport, replay
from rehearsal_room.harness.reports.episode_view import render_episode
from rehearsal_room.harness.reports.live_view import event_line
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.interop.exports.formats import export
from rehearsal_room.scenarios.format import Scenario, read
from tests.support.decoded_records import decode_record
from tests.support.immediate import finished
from tests.support.paths import LIBRARY
from tests.support.prompts import BRIEFING
from tests.support.run_context import (
    DONE,
    LOOK,
    MemorySink,
    Move,
    MovesPolicy,
    calls,
    make_run_context,
    never,
    plans,
    watchdog_running,
)

NOTE = Reply(
    "One fine is open.",
    usage=Usage(completion_tokens=40),
    token_ids=encode_ids([1]),
    logprobs=encode_logprobs([-1.0]),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def _episode(*moves: Move, limits: Limits | None = None) -> tuple[list[Event], list[Window]]:
    """The facts and the windows of an episode in which every turn is followed by a summary."""
    sink, policy = MemorySink(), MovesPolicy(*moves)
    context = make_run_context(policy, sink, history=parse_history("summary:1"), limits=limits)
    (plan,) = plans()
    async with watchdog_running(context):
        await run_episode(plan, context)
    return sink.events(plan.episode), policy.agents[plan.episode].windows


def _end(events: Sequence[Event]) -> tuple[Ending, str | None, int]:
    ended = events[-1]
    assert isinstance(ended, EpisodeEnded)
    return ended.ending, ended.error, ended.num_steps


async def test_the_agent_summarises_the_older_turns() -> None:
    """The agent is asked once the history is too long; its reply is a fact with tokens and
    log-probabilities, and replaces all turns but the newest in the next window."""
    events, windows = await _episode(LOOK, LOOK, NOTE, DONE)
    first, second, summary, last = events[1:-1]
    assert isinstance(first, StepTaken) and isinstance(second, StepTaken)
    assert isinstance(summary, HistorySummarized) and isinstance(last, StepTaken)
    assert (summary.reply, summary.turn, summary.first_turn) == (NOTE, 2, 0)
    assert [window.asks_for_summary for window in windows] == [False, False, True, False]
    asked, shown = windows[2:]
    assert asked.messages == (*windows[1].messages, Message("user", PROMPT))
    assert asked.tools == shown.tools
    assert shown.messages[:2] == windows[0].messages
    assert shown.messages[2:4] == (Message("assistant", NOTE.text), Message("user", GO_ON))
    assert [message.role for message in shown.messages[4:]] == ["assistant", "tool"]
    assert (last.first_turn, shown.first_turn) == (1, 1)
    assert _end(events) == (Ending.ANSWERED, None, 3)


async def test_a_cut_summary_is_a_truncation() -> None:
    """A summary that was cut at its limit of tokens ends the episode as a truncation."""
    cut = msgspec.structs.replace(NOTE, finish="length")
    events, _ = await _episode(LOOK, LOOK, cut, DONE)
    why = "the reply was cut off at its limit of tokens, after 40 tokens"
    assert _end(events) == (Ending.TOKEN_LIMIT, why, 2)


async def test_a_summary_is_summarised_in_turn() -> None:
    """The second summary is made of the first and the turn after it."""
    events, windows = await _episode(LOOK, LOOK, NOTE, LOOK, Reply("Two fines."), DONE)
    second = [window for window in windows if window.asks_for_summary][1]
    assert [message.content for message in second.messages[2:4]] == [NOTE.text, GO_ON]
    assert [message.content for message in windows[-1].messages[2:4]] == ["Two fines.", GO_ON]
    assert windows[-1].first_turn == 2
    assert _end(events)[2] == 4


@pytest.mark.parametrize("failed", [Reply(""), Reply("<think>no end"), LOOK], ids=str)
async def test_a_reply_that_is_not_a_summary(failed: Reply) -> None:
    """Calls or nothing instead of a summary end the episode as the agent's format error; the reply
    is recorded, and none of its calls is executed."""
    events, _ = await _episode(LOOK, LOOK, failed)
    recorded = events[-2]
    assert isinstance(recorded, HistorySummarized) and recorded.reply == failed
    why = "asked for a summary before step 2, the agent gave none"
    assert _end(events) == (Ending.FORMAT_ERROR, why, 2)


async def test_a_summary_that_fails() -> None:
    """A model that fails or does not answer at a summary ends the episode, as at a step."""
    events, _ = await _episode(LOOK, LOOK, PolicyError("the server is gone"))
    assert _end(events) == (Ending.POLICY_ERROR, "the server is gone", 2)
    assert len(events) == 4
    events, _ = await _episode(LOOK, LOOK, never, limits=Limits(reply_timeout=0.05))
    assert _end(events) == (Ending.POLICY_ERROR, "no reply within 0.05 s", 2)


async def test_tokens_of_summaries_count() -> None:
    """Tokens of a summary count against the episode's token limit; a summary is not a step."""
    look = calls("list_overdue", tokens=5)
    limits = Limits(token_limit=50, max_steps=3)
    events, _ = await _episode(look, look, NOTE, limits=limits)
    assert _end(events) == (Ending.TOKEN_LIMIT, "50 tokens were generated", 2)
    limits = Limits(max_steps=3)
    events, _ = await _episode(LOOK, LOOK, NOTE, LOOK, limits=limits)
    assert _end(events) == (Ending.STEP_LIMIT, None, 3)


def test_the_request_goes_into_the_users_message() -> None:
    """Where the last message is the user's, the request becomes a part of it."""
    messages = [Message("assistant", "a"), Message("user", "b")]
    asked = Message("user", f"b\n\n{PROMPT}")
    assert with_summary_request(messages) == [messages[0], asked]
    assert with_summary_request(messages[:1]) == [messages[0], Message("user", PROMPT)]


def test_a_request_for_a_summary_allows_no_calls() -> None:
    """The tools stay in the request, so that the prompt's prefix is the same, and `tool_choice` is
    none, whatever is set for steps."""
    writer = RequestWriter({"model": "m", "tool_choice": "required"})
    step = Window((Message("user", "Go."),), BRIEFING.tools)
    summary = msgspec.structs.replace(step, asks_for_summary=True)
    for _ in range(2):
        asked, before = (json.loads(writer.body(window)) for window in (summary, step))
        assert asked == {**before, "tool_choice": "none"}
        assert before["tool_choice"] == "required"
    textual = msgspec.structs.replace(summary, tools=())
    assert "tool_choice" not in json.loads(RequestWriter({}).body(textual))


def test_a_summary_without_a_request_is_ignored() -> None:
    """A log of a run whose policy asked for a summary earlier gives this policy's own windows."""
    native = dialect_of("native")
    fold = HistoryFold(parse_history("summary:100000"), native, BRIEFING)
    for turn in range(3):
        fold.apply(StepTaken(DONE, native.read(DONE, turn=turn)))
    before = fold.window()
    fold.apply(HistorySummarized(NOTE, 3))
    assert fold.window() == before


def test_roles_alternate() -> None:
    """In text dialects assistant and user alternate in every window, summaries included."""
    hermes, broken = dialect_of("hermes"), Reply("<tool_call>")
    fold = HistoryFold(parse_history("summary:1"), hermes, BRIEFING)
    shown = []
    for turn in range(4):
        shown.append(fold.window())
        if fold.window().asks_for_summary:
            fold.apply(HistorySummarized(NOTE, turn))
            shown.append(fold.window())
        fold.apply(StepTaken(broken, hermes.read(broken, turn=turn)))
    roles = [[message.role[0] for message in window.messages] for window in shown]
    assert ["".join(one) for one in roles] == [
        *("su", "suau", "suau", "suauau", "suauau", "suauau"),
    ]


async def _run(folder: Path, dialect: str, history: str, *, policy: str = "oracle") -> Scenario:
    scenario = read(LIBRARY)
    run_dialect = dialect_of(dialect)
    chosen = [(scenario, task) for task in scenario.tasks]
    actor = (
        OraclePolicy(run_dialect) if policy == "oracle" else RandomPolicy(run_dialect, num_calls=12)
    )
    with closing(LocalPool()) as pool:
        parts = RunParts(
            pool=pool,
            policy=actor,
            dialect=run_dialect,
            history=parse_history(history),
            format=FormatSettings(stop=False),
            limits=Limits(),
        )
        plan = plan_of(chosen, episodes=None, group_size=1, seed=0)
        await run_session(folder, plan, parts, concurrency=8, meters=Meters())
    return scenario


def _replayed(folder: Path, scenario: Scenario) -> ReplayReport:
    with open_reader(folder) as reader, closing(LocalPool()) as pool:
        return finished(replay(reader, pool, lambda name, package: scenario))


@pytest.mark.parametrize("policy", ["oracle", "random"])
@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize(
    "history", ["last:1+2", "retrieve:1", "summary:900", "summary:1", "summary:800-900", "fold"]
)
async def test_runs_replay(tmp_path: Path, dialect: str, history: str, policy: str) -> None:
    """Episodes under every history window replay without a model, and their windows agree."""
    scenario = await _run(tmp_path, dialect, history, policy=policy)
    report = _replayed(tmp_path, scenario)
    assert (report.divergences, report.cut_off, report.windows_unchecked) == ((), 0, 0)
    with open_reader(tmp_path) as reader:
        logged = list(reader.trajectories())
        rows = {row.episode: row for row in reader.episodes()}
    assert all(one.ended is not None and one.ended.error is None for one in logged)
    assert {one.episode: len(one.steps) for one in logged} == {
        name: row.num_steps for name, row in rows.items()
    }
    if history == "summary:1":
        pinned = 1 if dialect.startswith("awm") else 0
        counts = [(len(one.summaries), len(one.steps) - 2 - pinned) for one in logged]
        assert all(found == max(0, expected) for found, expected in counts)
    if history == "retrieve:1" and dialect != "tau2":  # which shows no instruction to look for
        assert any(step.recalled for one in logged for step in one.steps)


async def _rewrite(folder: Path, copy: Path, change: dict[type, dict[str, object]]) -> Path:
    """Copy a log with other field values in every fact of these types."""
    with open_reader(folder) as reader:
        snapshots = list(reader.scenarios().values())
        records = [record for _, record in reader.records_after(0, limit=100_000)]
    async with open_log(copy) as log:
        for snapshot in snapshots:
            log.add_scenario(snapshot)
        for record in records:
            fields = change.get(type(record.event), {})
            event = msgspec.structs.replace(record.event, **fields)
            log.append(msgspec.structs.replace(record, event=event))
    return copy


async def test_a_tampered_window_is_named(tmp_path: Path) -> None:
    """A replay finds windows with other turns than logged, and a summary at a wrong turn."""
    scenario = await _run(tmp_path / "r", "native", "retrieve:1")
    copy = await _rewrite(tmp_path / "r", tmp_path / "r2", {StepTaken: {"recalled": ()}})
    found = _replayed(copy, scenario).divergences
    assert {(one.what, one.expected) for one in found} == {("window", "from turn 2")}
    assert {one.found for one in found} == {"turns 0 and from turn 2"}
    scenario = await _run(tmp_path / "s", "native", "summary:1")
    copy = await _rewrite(tmp_path / "s", tmp_path / "s2", {HistorySummarized: {"first_turn": 9}})
    found = _replayed(copy, scenario).divergences
    assert {(one.what, one.step, one.expected, one.found) for one in found} == {
        ("window", 2, "from turn 9, to be summed up", "from turn 0, to be summed up")
    }
    copy = await _rewrite(tmp_path / "s", tmp_path / "s3", {HistorySummarized: {"turn": 1}})
    assert {one.step for one in _replayed(copy, scenario).divergences} == {1}


async def test_windows_from_the_log(tmp_path: Path) -> None:
    """A log gives the window of every reply: one for each step and each summary."""
    await _run(tmp_path, "hermes", "summary:1")
    with open_reader(tmp_path) as reader:
        for trajectory in reader.trajectories():
            fold = HistoryFold(parse_history("summary:1"), dialect_of("hermes"), BRIEFING)
            replies = trajectory.replies()
            asked = [window.asks_for_summary for window in windows_of(fold, replies)]
            assert asked == [isinstance(event, HistorySummarized) for event in replies]
            assert len(replies) == len(trajectory.steps) + len(trajectory.summaries)


async def test_summaries_are_shown_and_exported(tmp_path: Path) -> None:
    """`show` prints summaries between the turns; exports have them in a field of their own."""
    await _run(tmp_path / "run", "native", "summary:1")
    with open_reader(tmp_path / "run") as reader:
        episodes = list(reader.trajectories())
        export(reader, tmp_path / "out.jsonl")
        export(reader, tmp_path / "out.parquet", to="parquet")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    for episode, line, row in zip(episodes, lines, rows, strict=True):
        expected = [{"step": one.turn, "text": one.reply.text} for one in episode.summaries]
        assert line["summaries"] == row["summaries"] == expected
    console = Console(width=120, record=True, file=(tmp_path / "shown").open("w"))
    with closing(console.file):
        render_episode(max(episodes, key=lambda one: len(one.summaries)), console)
        shown = console.export_text()
    before, _, after = shown.partition("summary of earlier turns  0.00 s")
    assert "turn 2" in before and "turn 3" not in before
    assert after.lstrip().startswith("I did what came first, and go on with what comes next.")


def test_a_summary_travels() -> None:
    """A summary is equal after encoding and decoding, and one line in the live view."""
    record = Record("e1", 0, 3, 1.0, HistorySummarized(NOTE, 2, 1, 0.5))
    assert decode_record(encode(record)) == record
    assert event_line(record) == "e1 #3 summary: One fine is open."
