"""Shares of a run's time, from hand-made logs whose shares are known."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.sessions import SessionMeasured
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.profile.limits import bottleneck_of
from rehearsal_room.harness.profile.report import Profile, StageTime
from rehearsal_room.harness.profile.stages import Spans, Totals, add_run
from tests.support.timed_records import BEGAN, begin, end, merged, records, turn, verdict

ONE = records(
    "a",
    [
        (1.0, begin()),
        (9.0, turn(6.0, 2.0)),
        (11.0, turn(2.0)),
        (11.0, end(11.0)),
        (12.0, verdict()),
    ],
)
TWO = records("b", [(0.0, begin()), (8.0, turn(8.0)), (8.0, end(8.0)), (8.5, verdict())])
MEASURED = SessionMeasured(
    began_at=BEGAN,
    ended_at=BEGAN + 12.5,
    wall_s=12.5,
    cpu_s=3.0,
    admission_s=1.0,
    room_s=0.5,
    commit_s=2.5,
    commits=9,
    listeners_s=0.25,
    loops=2,
    lag_s=5.0,
    lag_max_s=1.5,
    culprit="tool slow (tools.py:3)",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def profile(folder: Path, stored: Sequence[Record], *sessions: SessionMeasured) -> Profile:
    async def write() -> None:
        async with open_log(folder) as log:
            for record in stored:
                log.append(record)
            for session in sessions:
                log.add_session(session)

    anyio.run(write)
    totals = Totals()
    with open_reader(folder) as reader:
        add_run("run", reader, [totals], lambda _run, _part: None)
    return totals.profile("run")


def rounded(found: Profile) -> dict[str, tuple[float, float, str]]:
    return {
        name: (round(one.seconds, 6), round(one.share, 4), one.of)
        for name, one in found.stages.items()
    }


def test_stages_of_a_run(tmp_path: Path) -> None:
    """Episode time is divided without a rest that is not named; what the process measured is of the
    wall time, for each of its loops."""
    found = profile(tmp_path, merged(ONE, TWO), MEASURED)
    assert rounded(found) == {
        "admission": (1.0, 0.05, "episodes"),
        "world": (1.0, 0.05, "episodes"),
        "model": (16.0, 0.8, "episodes"),
        "tools": (2.0, 0.1, "episodes"),
        "full_log": (0.5, 0.025, "episodes"),
        "rest": (0.0, 0.0, "episodes"),
        "judge": (1.0, 0.0833, "wall"),
        "log": (2.5, 0.2, "wall"),
        "bus": (0.25, 0.02, "wall"),
        "loop_lag": (5.0, 0.2, "wall"),
    }
    assert (found.wall_s, found.episode_s) == (12.0, 20.0)
    assert (found.episodes, found.turns, found.calls, found.unfinished) == (2, 3, 1, 0)
    assert (found.cpu_s, found.worst_lag_s, found.worst_lag) == (3.0, 1.5, MEASURED.culprit)
    assert round(found.verdict_wait_s, 6) == 0.75
    assert found.verdict == "the model server was the limit: 80 % of episode time"
    assert found.notes == ()


def test_what_the_log_lacks_is_left_out_and_named(tmp_path: Path) -> None:
    """Without a session's row (a live run, a killed one, an old log) the profile has the stages of
    the episodes, and one sentence names the others."""
    found = profile(tmp_path, merged(ONE[:2], TWO))
    assert set(found.stages) == {"world", "model", "tools", "rest", "judge"}
    assert round(sum(one.share for one in found.stages.values() if one.of == "episodes"), 9) == 1.0
    assert (found.unfinished, found.cpu_s) == (1, None)
    assert found.notes == (
        "1 attempt without an end, live or cut off, counted up to the last record",
        "what the process measured (admission, log, bus, loop lag) is not in the log: the run has "
        "not ended, it was killed, or an older version wrote the log",
    )


def test_a_session_that_was_killed_is_named(tmp_path: Path) -> None:
    """Of a resumed run the profile states for which part of the time the process's figures are."""
    later = [Record("c", 1, seq, record.at + 100.0, record.event) for seq, record in enumerate(ONE)]
    found = profile(tmp_path, [*merged(ONE, TWO), *later], MEASURED)
    assert found.wall_s == 24.0
    assert found.stages["log"].share == 0.2
    assert "is in the log for 52 % of the wall time" in found.notes[0]


def test_an_empty_run(tmp_path: Path) -> None:
    """A run in which nothing has happened has a profile, too."""
    assert profile(tmp_path, []).verdict == ("nothing was the limit: no episode has taken any time")


def stages(*, wall: dict[str, float] | None = None, **episodes: float) -> dict[str, StageTime]:
    found = {name: StageTime(share * 100, share, "episodes") for name, share in episodes.items()}
    wall = {"judge": 0.0, **(wall or {})}
    return found | {name: StageTime(share * 10, share, "wall") for name, share in wall.items()}


@pytest.mark.parametrize(
    ("given_stages", "policies", "sentence"),
    [
        (
            stages(model=0.92, rest=0.08),
            {"openai:m"},
            "the model server was the limit: 92 % of episode time",
        ),
        (
            stages(model=0.92, rest=0.08),
            {"local:m"},
            "the model was the limit: 92 % of episode time",
        ),
        (
            stages(model=0.92, rest=0.08),
            {"own:f"},
            "the policy (own:f) was the limit: 92 % of episode time",
        ),
        (
            stages(model=0.2, tools=0.8),
            {"vllm:m"},
            "the tools were the limit: 80 % of episode time",
        ),
        (
            stages(model=0.3, tools=0.4, rest=0.3),
            {"vllm:m"},
            "no stage was the limit: tools 40 % and model 30 % of episode time",
        ),
        (
            stages(model=0.9, rest=0.1, wall={"judge": 0.7}),
            {"vllm:m"},
            "the judge was the limit: no episode was left to play for 70 % of wall time",
        ),
        (
            stages(model=0.9, rest=0.1, wall={"bus": 0.9, "log": 0.9}),
            {"vllm:m"},
            "a listener (judge, link or learner) was the limit: the log waited for it for 90 % of "
            "wall time",
        ),
        (
            stages(model=0.9, rest=0.1, wall={"loop_lag": 0.9, "log": 0.9}),
            {"vllm:m"},
            "the event loop was the limit: it was late for 90 % of wall time (worst: tool f)",
        ),
    ],
)
def test_the_verdict(given_stages: dict[str, StageTime], policies: set[str], sentence: str) -> None:
    """One sentence names what limited the run, and by how much."""
    assert bottleneck_of(given_stages, policies, "tool f") == sentence


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), max_size=12))
def test_covered_time(found: list[tuple[int, int]]) -> None:
    """The time that some span covers, compared with counting."""
    spans = Spans()
    for began, length in found:
        spans.add(began, began + length)
    assert spans.covered() == len({at for began, n in found for at in range(began, began + n)})
