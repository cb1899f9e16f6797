"""The log of a run: every appended record is stored once and in order, whatever happens."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.types import StoredState, ToolResult
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, Event, Label, Record, StepTaken
from rehearsal_room.harness.core.messages import AgentCall, Answer, Reply
from rehearsal_room.harness.core.trajectory import assemble
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import (
    LOG_NAME,
    SCHEMA,
    EpisodeProgress,
    EpisodeRow,
    record_of,
    replacing,
    row_of,
    write_atomically,
)
from rehearsal_room.harness.log.writer import CAPACITY, open_log
from rehearsal_room.scenarios.api import RowChange
from tests.support.episode_logs import WORLD, ended, judged, started, step, story, whole
from tests.support.log_victim import EPISODES


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the only event loop that aiosqlite supports


async def _write_log(folder: Path, records: list[Record], *, resume: bool = False) -> None:
    async with open_log(folder, resume=resume) as log:
        log.add_scenario(WORLD)
        for record in records:
            log.append(record)


def _row(episode: str, **changes: Any) -> EpisodeRow:
    """The row of an episode made by `whole`."""
    row = EpisodeRow(
        episode=episode,
        attempt=0,
        scenario="shop",
        task="void-7",
        group="g0",
        member=0,
        policy="oracle",
        scenario_digest="p" * 32,
        started_at=1_700_000_000.0,
        seed=3,
        num_steps=2,
        ending=Ending.ANSWERED,
        seconds=1.5,
        judge="code",
        label=Label.COMPLETED,
        reward=1.0,
    )
    return msgspec.structs.replace(row, **changes)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text() | st.floats(0, 1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_STATES = st.builds(
    StoredState,
    template=st.text(),
    pages=st.dictionaries(st.integers(1, 2**32), st.binary(max_size=20), max_size=3),
    num_pages=st.integers(0, 2**32),
    digest=st.text(),
)


@given(_JSON, st.none() | _STATES, st.text())
def test_rows_give_their_records_back(arguments: Any, state: StoredState | None, text: str) -> None:
    """A record read back from its row of the table equals the record that was written."""
    call = AgentCall("tool", arguments, "c0")
    events: list[Event] = [
        StepTaken(Reply(text, (call,)), Answer(text)),
        EpisodeEnded(Ending.ANSWERED, text, 1, state),
    ]
    for position, record in enumerate(story("e", events), 1):
        assert record_of(row_of(position, record)) == record


def test_values_that_messagepack_cannot_hold_are_stored() -> None:
    """An integer beyond 64 bits becomes its digits and half a surrogate pair a question mark: no
    reply of a model can stop a run."""
    call = AgentCall("pay", {"cents": 10**30, "to": ["\ud83d!", -(2**63)]}, "c0")
    row = row_of(1, story("e", [StepTaken(Reply("half \ud83d", (call,)), Answer("x"))])[0])
    event = record_of(row).event
    assert isinstance(event, StepTaken)
    assert event.reply == Reply(
        "half ?", (AgentCall("pay", {"cents": str(10**30), "to": ["?!", -(2**63)]}, "c0"),)
    )


async def test_everything_comes_back_in_order(tmp_path: Path) -> None:
    """Records that episodes append in turns are read back complete, by position and by episode."""
    stories = [whole(f"e{number}") for number in range(50)]
    records = [record for together in zip(*stories, strict=True) for record in together]
    await _write_log(tmp_path, records)

    with open_reader(tmp_path) as reader:
        assert reader.records_after(0, 1_000) == list(enumerate(records, 1))
        assert list(reader.trajectories()) == [assemble(records) for records in stories]
        assert reader.trajectory("e7") == assemble(stories[7])
        assert reader.episodes() == [_row(f"e{number}") for number in range(50)]
        assert reader.scenarios() == {WORLD.scenario_digest: WORLD}


async def test_records_after_pages_through_the_log(tmp_path: Path) -> None:
    """Repeated calls, each from the last position read, return each record once."""
    records = [record for number in range(30) for record in whole(f"e{number}")]
    await _write_log(tmp_path, records)
    found: list[tuple[int, Record]] = []
    with open_reader(tmp_path) as reader:
        while page := reader.records_after(found[-1][0] if found else 0, limit=7):
            found += page
    assert found == list(enumerate(records, 1))


async def test_flushed_records_are_seen_by_a_reader_while_the_writer_works(
    tmp_path: Path,
) -> None:
    """After `flush` any reader finds the records, although the writer is still open."""
    async with open_log(tmp_path) as log:
        for record in whole("a"):
            log.append(record)
        assert await log.flush() == 5
        with open_reader(tmp_path) as reader:
            assert reader.episodes() == [_row("a")]
            for record in whole("b"):
                log.append(record)
            assert await log.flush() == 10
            assert reader.episodes() == [_row("a"), _row("b")]
        assert await log.flush() == 10


async def test_waiters_share_commits(tmp_path: Path) -> None:
    """Hundreds of episodes that flush at once need a few commits, not hundreds."""
    positions: list[int] = []

    async def play(name: str) -> None:
        for record in whole(name):
            log.append(record)
        positions.append(await log.flush())

    async with open_log(tmp_path) as log:
        async with anyio.create_task_group() as tasks:
            for number in range(300):
                tasks.start_soon(play, f"e{number}")
        assert sorted(positions) == list(range(5, 1_501, 5))
        assert log.statistics()["position"] == 1_500
        assert log.statistics()["waiting"] == 0
        assert log.statistics()["commits"] < 30


async def test_commit_handlers_get_what_the_log_stores(tmp_path: Path) -> None:
    """Each commit passes its durable records and their positions to the handlers."""
    seen: list[tuple[int, Record]] = []

    def take(batch: list[tuple[int, Record]]) -> None:
        with open_reader(tmp_path) as reader:
            assert reader.records_after(batch[0][0] - 1, len(batch)) == batch
        seen.extend(batch)

    async with open_log(tmp_path) as log:
        log.on_commit(take)
        for number in range(20):
            for record in whole(f"e{number}"):
                log.append(record)
            await log.flush()
    with open_reader(tmp_path) as reader:
        assert seen == reader.records_after(0, 1_000)
    assert len(seen) == 100


async def test_a_slow_handler_delays_the_next_commit(tmp_path: Path) -> None:
    """While a commit handler waits, the records it got are durable and nothing more is committed;
    then it gets the rest."""
    finish = anyio.Event()
    seen: list[int] = []

    async def take(batch: list[tuple[int, Record]]) -> None:
        seen.extend(position for position, _ in batch)
        await finish.wait()

    async with open_log(tmp_path) as log, anyio.create_task_group() as tasks:
        log.on_commit(take)
        for record in whole("a"):
            log.append(record)
        await log.flush()
        for record in whole("b"):
            log.append(record)
        tasks.start_soon(log.flush)
        with anyio.move_on_after(0.1):  # many times what a commit takes
            await anyio.sleep_forever()
        assert log.statistics()["position"] == 5
        finish.set()
    assert seen == list(range(1, 11))


@pytest.mark.slow
async def test_waiting_for_room(tmp_path: Path) -> None:
    """`wait_for_room` does not suspend while there is room, and waits while the buffer is full."""
    async with open_log(tmp_path) as log:
        with pytest.raises(StopIteration):
            log.wait_for_room().send(None)
        records = [Record(f"e{number}", 0, 0, 0.0, started()) for number in range(CAPACITY + 1)]
        for record in records:
            log.append(record)
        assert log.statistics()["waiting"] == CAPACITY + 1
        await log.wait_for_room()
        assert log.statistics()["waiting"] < CAPACITY
    with open_reader(tmp_path) as reader:
        assert len(reader.episodes()) == CAPACITY + 1


async def test_a_cancelled_block_stores_what_was_appended(tmp_path: Path) -> None:
    """Cancellation loses no record that was appended before it."""
    with anyio.CancelScope() as scope:
        async with open_log(tmp_path) as log:
            for record in whole("a"):
                log.append(record)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    with open_reader(tmp_path) as reader:
        assert reader.episodes() == [_row("a")]


async def test_an_error_in_the_block_is_not_wrapped(tmp_path: Path) -> None:
    """An exception of the block leaves it unwrapped, and every appended record is stored."""
    fault = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        async with open_log(tmp_path) as log:
            for record in whole("a"):
                log.append(record)
            raise fault
    assert caught.value is fault
    with open_reader(tmp_path) as reader:
        assert reader.episodes() == [_row("a")]


@pytest.mark.slow
async def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """A second writer is refused, in this process and in another, until the first has left."""
    async with open_log(tmp_path):
        with pytest.raises(LogError, match="another process is writing to this run"):
            async with open_log(tmp_path, resume=True):
                pass
        done = await anyio.run_process(
            [sys.executable, "-m", "tests.support.log_victim", str(tmp_path)], check=False
        )
        assert done.returncode == 1
        assert b"another process is writing to this run" in done.stderr
    async with open_log(tmp_path, resume=True) as log:
        assert await log.flush() == 0


async def test_a_log_is_continued_only_on_purpose(tmp_path: Path) -> None:
    """Without `resume` an existing log is refused and unchanged; with it, positions continue."""
    await _write_log(tmp_path, whole("a"))
    with pytest.raises(LogError, match=rf"{LOG_NAME}: a log already exists"):
        await _write_log(tmp_path, whole("b"))
    await _write_log(tmp_path, whole("b"), resume=True)
    with open_reader(tmp_path) as reader:
        assert reader.records_after(0) == list(enumerate(whole("a") + whole("b"), 1))
        assert reader.scenarios() == {WORLD.scenario_digest: WORLD}


async def test_resume_begins_a_new_log(tmp_path: Path) -> None:
    """A run that was killed before it had a log begins with the same command."""
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / LOG_NAME).touch()  # as a kill between creation and first commit leaves
    for name in ("new", "killed"):
        await _write_log(tmp_path / name, whole("a"), resume=True)
        with open_reader(tmp_path / name) as reader:
            assert reader.episodes() == [_row("a")]


async def test_cut_off_episodes_are_repeated(tmp_path: Path) -> None:
    """Progress reports what is missing, and the next attempt replaces the one that was cut off."""
    cut = story("cut", [started(), step(0), step(1), step(2)])
    unjudged = story("late", [started(), step(0), ended(1)])
    await _write_log(tmp_path, whole("done") + cut + unjudged)
    with open_reader(tmp_path) as reader:
        assert reader.progress() == {
            "done": EpisodeProgress(0, 5, ended=True, judged=True),
            "cut": EpisodeProgress(0, 4, ended=False, judged=False),
            "late": EpisodeProgress(0, 3, ended=True, judged=False),
        }
        assert reader.episodes()[1] == _row(
            "cut", num_steps=3, ending=None, seconds=0.0, judge=None, label=None, reward=None
        )
        assert reader.trajectory("cut") == assemble(cut)
        assert reader.progress()["cut"].next_attempt == 1

    again = whole("cut", attempt=1)
    await _write_log(tmp_path, again, resume=True)
    with open_reader(tmp_path) as reader:
        assert reader.trajectory("cut") == assemble(again)
        assert [t.episode for t in reader.trajectories()] == ["done", "cut", "late"]
        assert reader.episodes()[1] == _row("cut", attempt=1)
        assert reader.progress()["cut"] == EpisodeProgress(1, 5, ended=True, judged=True)


async def test_the_latest_verdict_counts(tmp_path: Path) -> None:
    """Judging again appends: the list shows the last verdict, the trajectory each judge's last."""
    verdicts = [
        judged(Label.AGENT_ERROR),
        judged(Label.COMPLETED),
        judged(None, judge="hybrid"),
    ]
    await _write_log(tmp_path, story("e", [started(), step(0), ended(1), *verdicts]))
    with open_reader(tmp_path) as reader:
        assert reader.trajectory("e").judged == (verdicts[1], verdicts[2])
        assert reader.episodes() == [
            _row(
                "e",
                num_steps=1,
                judge="hybrid",
                label=None,
                reward=None,
                unjudged="the model server died",
            )
        ]


async def test_a_finished_log_is_one_plain_file(tmp_path: Path) -> None:
    """A closed log is a single file, and reading it leaves no other files behind."""
    await _write_log(tmp_path, whole("a"))
    with open_reader(tmp_path) as reader:
        reader.episodes()
    assert sorted(os.listdir(tmp_path)) == [LOG_NAME, "writer.lock"]


async def test_an_unknown_episode_is_named(tmp_path: Path) -> None:
    """The error for an episode that does not exist names the episode and the file."""
    await _write_log(tmp_path, whole("a"))
    with (
        open_reader(tmp_path) as reader,
        pytest.raises(LogError, match=rf"{LOG_NAME}: there is no episode 'b'"),
    ):
        reader.trajectory("b")


async def test_a_fact_logged_twice_stops_the_run(tmp_path: Path) -> None:
    """The key of a record is unique: a second record with the same key is an error."""
    with pytest.raises(LogError, match=r"cannot be written: UNIQUE constraint failed"):
        async with open_log(tmp_path) as log:
            for record in whole("a"):
                log.append(record)
            await log.flush()
            log.append(whole("a")[2])
            await anyio.sleep_forever()
    with open_reader(tmp_path) as reader:
        assert reader.records_after(0) == list(enumerate(whole("a"), 1))


@pytest.mark.slow
async def test_full_disk_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    """When the disk is full, waiting episodes do not hang: the run ends with one LogError, and
    every episode that was reported durable is stored."""
    done = await anyio.run_process(
        [sys.executable, "-m", "tests.support.log_full_disk", str(tmp_path)]
    )
    lines = done.stdout.decode().splitlines()
    assert lines[-1].startswith(f"LogError {tmp_path / LOG_NAME}: the log cannot be written: ")
    durable = {line.split()[1] for line in lines if line.startswith("durable ")}
    assert durable
    with open_reader(tmp_path) as reader:
        stored = {row.episode for row in reader.episodes() if row.ending is not None}
    assert stored >= durable


async def _write_damaged_log(folder: Path, how: str) -> None:
    path = folder / LOG_NAME
    await _write_log(folder, [record for number in range(200) for record in whole(f"e{number}")])
    if how == "no log":
        path.unlink()
    elif how == "no database":
        path.write_text("Dear diary,\n" * 1_000)
    elif how == "cut short":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        with sqlite3.connect(path) as database:
            database.execute(
                {
                    "other format": "UPDATE meta SET value = '99'",
                    "foreign database": "DROP TABLE events",
                    "broken record": "UPDATE events SET data = x'c1' WHERE position = 9",
                    "broken scenario": "UPDATE scenarios SET data = x'93'",
                }[how]
            )
        database.close()


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("no log", r"there is no log \(episodes.sqlite\) in this folder"),
        ("no database", "episodes.sqlite: the log cannot be read: file is not a database"),
        ("cut short", "episodes.sqlite: the log cannot be read: .*malformed"),
        ("empty", "episodes.sqlite: the log is empty: its run never began"),
        ("foreign database", "episodes.sqlite: the file is a database, but not a log"),
        ("broken record", "episodes.sqlite: the log is damaged: record 9 cannot be read"),
        ("broken scenario", "episodes.sqlite: the log is damaged: a scenario cannot be read"),
    ],
)
async def test_a_damaged_log_gives_one_sentence(tmp_path: Path, how: str, sentence: str) -> None:
    """Every fault of the file is one LogError that names it."""
    await _write_damaged_log(tmp_path, how)
    with pytest.raises(LogError, match=sentence), open_reader(tmp_path) as reader:
        reader.scenarios()
        list(reader.trajectories())


@pytest.mark.parametrize("how", ["no database", "cut short", "other format", "foreign database"])
async def test_a_damaged_log_is_not_continued(tmp_path: Path, how: str) -> None:
    """A writer refuses a file that it cannot continue, and names it."""
    await _write_damaged_log(tmp_path, how)
    with pytest.raises(LogError, match=LOG_NAME):
        await _write_log(tmp_path, whole("new"), resume=True)


def _write_log_of_format_1(folder: Path) -> None:
    """A log as the version before format 2 laid out its tables."""
    with sqlite3.connect(folder / LOG_NAME) as database:
        for statement in (
            "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
            "CREATE TABLE worlds (package TEXT PRIMARY KEY, data BLOB NOT NULL)",
            *(one for one in SCHEMA if "events" in one),
            "INSERT INTO meta VALUES ('format', '1')",
        ):
            database.execute(statement)
    database.close()


async def test_a_log_of_another_format_is_refused(tmp_path: Path) -> None:
    """Reader and writer refuse a run folder of format 1 by one sentence that names the file, both
    formats and what to do, and change nothing in the folder's log."""
    _write_log_of_format_1(tmp_path)
    before = (tmp_path / LOG_NAME).read_bytes()
    expected = (
        f"{tmp_path / LOG_NAME}: the log has format 1, and this version reads and writes format 2;"
        " open it with the version of Rehearsal that wrote it"
    )
    with pytest.raises(LogError) as refused, open_reader(tmp_path):
        pass
    assert str(refused.value) == expected
    with pytest.raises(LogError) as refused:
        await _write_log(tmp_path, whole("new"), resume=True)
    assert str(refused.value) == expected
    assert (tmp_path / LOG_NAME).read_bytes() == before


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A run folder whose path is an existing file gives one sentence."""
    (tmp_path / "taken").touch()
    with pytest.raises(LogError, match="taken: the run folder cannot be written"):
        await _write_log(tmp_path / "taken", whole("a"))


def test_files_are_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    """A write that fails leaves the old file and no other file beside it."""
    path = tmp_path / "run.toml"
    write_atomically(path, b"seed = 1\n")
    with pytest.raises(KeyError), replacing(path) as file:
        file.write(b"seed =")
        raise KeyError("stop")
    assert path.read_bytes() == b"seed = 1\n"
    write_atomically(path, b"seed = 2\n")
    assert path.read_bytes() == b"seed = 2\n"
    assert list(tmp_path.iterdir()) == [path]


def _killed_after(folder: Path, num_lines: int | None) -> list[str]:
    """Run log_victim, kill it after `num_lines` printed lines; return the episodes it printed."""
    command = [sys.executable, "-m", "tests.support.log_victim", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        lines = []
        for line in victim.stdout:
            lines.append(line)
            if len(lines) == num_lines:
                victim.send_signal(signal.SIGKILL)
    assert victim.returncode == (0 if num_lines is None else -signal.SIGKILL)
    return [line.split()[1].decode() for line in lines if line.startswith(b"durable ")]


@pytest.mark.slow
def test_durable_episodes_survive_kill_9(tmp_path: Path) -> None:
    """After six kills at seeded moments, each followed by a resume, every episode that was reported
    durable is in the log, none was repeated, and in the end each is there once."""
    moments = random.Random(7)
    reported: list[str] = []
    for _ in range(6):
        reported += _killed_after(tmp_path, moments.randint(1, 40))
        with open_reader(tmp_path) as reader:
            finished = {name for name, got in reader.progress().items() if got.judged}
        assert finished >= set(reported)
    reported += _killed_after(tmp_path, None)

    assert len(reported) == len(set(reported))
    with open_reader(tmp_path) as reader:
        rows = reader.episodes()
        assert sorted(row.episode for row in rows) == EPISODES
        assert all(row.ending is Ending.ANSWERED and row.label is not None for row in rows)
        keys = [record.key for _, record in reader.records_after(0, 100_000)]
        assert len(keys) == len(set(keys))
        for trajectory in reader.trajectories():
            assert trajectory == assemble(whole(trajectory.episode, attempt=trajectory.attempt))
        assert list(reader.scenarios()) == [WORLD.scenario_digest]


def test_a_damaged_row_is_a_decode_error() -> None:
    """A row whose columns have other types, whose kind is not its event's, or whose event has text
    that is not UTF-8, endless nesting or keys that are not SQL's, is damaged and no other error."""
    row = row_of(1, whole("e")[1])
    position, episode, attempt, seq, kind, at, data, state = row
    hole = RowChange("orders", ({"id": 7},), None, {"id": 7})
    odd = StepTaken(Reply(""), Answer(""), (ToolResult("", changes=(hole,)),))
    damaged = [
        (position, b"e", attempt, seq, kind, at, data, state),
        (position, episode, attempt, seq, kind, "now", data, state),
        *(
            (position, episode, attempt, seq, kind, odd, data, state)
            for odd in (-1.0, 1e300, float("inf"), float("nan"))
        ),
        (position, episode, attempt, seq, kind, at, 7, state),
        (position, episode, attempt, seq, kind, at, "text", state),
        (position, episode, attempt, seq, "ended", at, data, state),
        (position, episode, attempt, seq, kind, at, data.replace(b"void", b"\xff\xfeid"), state),
        (position, episode, attempt, seq, kind, at, b"\x91" * 5_000 + data, state),
        row_of(1, story("e", [odd])[0]),
    ]
    assert record_of(row) == whole("e")[1]
    for other in damaged:
        with pytest.raises(msgspec.DecodeError):
            record_of(other)  # type: ignore[arg-type]
