"""The index: what it says of a log, and that it is never wrong after whatever happened to it."""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.errors import LogError, SettingsError
from rehearsal_room.harness.core.events import Label, Record
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.viewer.index import run_index
from rehearsal_room.viewer.index.episode_fold import EpisodeFold
from rehearsal_room.viewer.index.run_index import RunIndex, index_path, open_index
from rehearsal_room.viewer.index.search import clauses_of
from rehearsal_room.viewer.index.tables import COLUMNS
from rehearsal_room.viewer.reading.episode_rows import episode_table
from tests.support.episode_logs import WORLD, judged, started, step, story, whole


@pytest.fixture(autouse=True)
def cache_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs without a run.toml of this user have their index in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


async def _write(folder: Path, *stories: Sequence[Record], resume: bool = False) -> None:
    async with open_log(folder, resume=resume) as log:
        log.add_scenario(WORLD)
        for records in stories:
            for record in records:
                log.append(record)


def _folded(folder: Path, limit: int = 10_000) -> list[tuple[Any, ...]]:
    """All rows of the index, folded in pages of this size."""
    with open_reader(folder) as reader, open_index(reader) as index:
        while index.fold(limit):
            pass
        return _content(index)


def _content(index: RunIndex) -> list[tuple[Any, ...]]:
    texts = "SELECT DISTINCT rowid / 65536 FROM texts WHERE texts MATCH 'void'"
    columns = (
        "episode, attempt, ending, label, reward, turns, calls, end_digest, position, error,"
        " unjudged, first_error_turn, cost_usd, forked_from, policy_s, calls_s, last_at, weights"
    )
    return [
        *index.rows(f"SELECT {columns} FROM episodes ORDER BY episode"),
        *index.rows("SELECT * FROM moments ORDER BY moment"),
        *index.rows(texts),
    ]


async def test_any_size_of_page_gives_the_same_index(tmp_path: Path) -> None:
    """Folding record by record, as a live run is folded, ends with the rows of one pass."""
    await _write(tmp_path, whole("a"), whole("b", Label.AGENT_ERROR), story("c", [started()]))
    in_one = _folded(tmp_path)
    index_path(tmp_path).unlink()

    assert _folded(tmp_path, limit=1) == in_one


def test_the_columns_are_those_of_an_episode() -> None:
    """Rows are written and read by place, so the order of the table is that of the struct."""
    extra = ("words", "results", "failed_calls")
    assert EpisodeFold.__struct_fields__ == (*COLUMNS, *extra)


async def test_what_is_absent_is_null(tmp_path: Path) -> None:
    """An episode without fault has no error, reason or price, however often its row is written."""
    await _write(tmp_path, whole("a"), story("b", [started(), step(0)]))
    absent = "SELECT error, unjudged, first_error_turn, cost_usd, forked_from FROM episodes"
    for limit in (1, 1_000):
        with open_reader(tmp_path) as reader, open_index(reader) as index:
            while index.fold(limit):
                pass
            assert index.rows(absent) == [(None,) * 5] * 2
        index_path(tmp_path).unlink()


async def test_any_text_of_an_episode_is_found(tmp_path: Path) -> None:
    """Instruction, replies, calls, results and the answer are all searched."""
    await _write(tmp_path, whole("a"))
    with open_reader(tmp_path) as reader, open_index(reader) as index:
        while index.fold(1):
            pass
        for text in ("please", '"I void it"', "void_order", "order_id", '"Done order 7 is void"'):
            assert episode_table(index, {"text": [text]}).total == 1, text


async def test_folding_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """What a later process adds to the log is folded without reading the first part again."""
    await _write(tmp_path, whole("a"), story("b", [started(), step(0)]))
    before = _folded(tmp_path)
    rest = [record for record in whole("b") if record.seq >= 2]
    await _write(tmp_path, rest, whole("c"), resume=True)
    after = _folded(tmp_path)
    index_path(tmp_path).unlink()

    assert before != after
    assert _folded(tmp_path) == after


async def test_a_crash_in_the_middle_of_a_page_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is folded whole or not at all, so the next fold begins with it."""
    await _write(tmp_path, whole("a"), whole("b"))
    with open_reader(tmp_path) as reader, open_index(reader) as index:
        index.fold(3)
        before = _content(index)
        with monkeypatch.context() as patch:
            patch.setattr(run_index, "_stamp", _crash)
            with pytest.raises(ZeroDivisionError):
                index.fold(4)
        assert _content(index) == before
        while index.fold(4):
            pass
        found = _content(index)
    index_path(tmp_path).unlink()

    assert found == _folded(tmp_path)


def _crash(record: object) -> str:
    raise ZeroDivisionError


async def test_two_processes_fold_one_log(tmp_path: Path) -> None:
    """A page that another process has folded is not folded twice."""
    await _write(tmp_path, whole("a"), whole("b"), whole("c"))
    with open_reader(tmp_path) as reader, open_index(reader) as one, open_index(reader) as other:
        turns = [one, other, other, one, one, other]
        while sum(index.fold(2) for index in turns):
            pass
        found = _content(one)
    index_path(tmp_path).unlink()

    assert found == _folded(tmp_path)


async def test_an_index_of_another_format_or_log_is_made_again(tmp_path: Path) -> None:
    """Neither a file of another version nor that of a log that was replaced is read."""
    await _write(tmp_path, whole("a"))
    right = _folded(tmp_path)
    with closing(sqlite3.connect(index_path(tmp_path))) as database, database:
        database.execute("UPDATE meta SET value = 'other' WHERE key = 'format'")
        database.execute("DELETE FROM episodes")
    assert _folded(tmp_path) == right
    index_path(tmp_path).write_bytes(b"not a database at all" * 100)
    assert _folded(tmp_path) == right
    _remove_log(tmp_path)
    await _write(tmp_path, whole("other", Label.AGENT_ERROR))

    assert _folded(tmp_path)[0][0] == "other"


def _remove_log(folder: Path) -> None:
    for path in folder.glob(f"{LOG_NAME}*"):
        path.unlink()


async def test_a_later_attempt_replaces_the_one_before(tmp_path: Path) -> None:
    """The row is that of the latest attempt, and late records of an older one change nothing."""
    cut = story("a", [started(), step(0), step(1)], attempt=1)
    await _write(tmp_path, cut, whole("a", attempt=2))

    with open_reader(tmp_path) as reader, open_index(reader) as index:
        index.fold()
        rows = index.rows("SELECT attempt, ending, label FROM episodes")
        live = index.rows("SELECT sum(started) - sum(ended) FROM moments")
    assert (rows, live) == ([(2, "answered", "completed")], [(0,)])


async def test_a_verdict_of_a_later_judging_replaces_the_label(tmp_path: Path) -> None:
    """Judging a run again changes the rows, not the curve of the run."""
    await _write(tmp_path, whole("a"))
    _folded(tmp_path)
    last = whole("a")[-1]
    again = Record("a", last.attempt, last.seq + 1, last.at + 999, judged(Label.AGENT_ERROR, "x"))
    await _write(tmp_path, [again], resume=True)

    with open_reader(tmp_path) as reader, open_index(reader) as index:
        index.fold()
        labels = index.rows("SELECT label, judge FROM episodes")
        judgings = index.rows("SELECT sum(judged), sum(completed) FROM moments")
    assert (labels, judgings) == ([("agent_error", "x")], [(1, 1)])


async def test_a_folder_that_is_read_only_has_its_index_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written beside the log of somebody else."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("rehearsal_room.viewer.index.run_index.os.access", lambda *_: False)

    assert index_path(tmp_path / "run").parent == tmp_path / "cache" / "rehearse" / "view"


async def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    """The sentence has the log and the record; what was folded before stays."""
    await _write(tmp_path, whole("a"))
    with closing(sqlite3.connect(tmp_path / LOG_NAME)) as database, database:
        database.execute("UPDATE events SET data = x'c1' WHERE position = 3")

    with (
        open_reader(tmp_path) as reader,
        open_index(reader) as index,
        pytest.raises(LogError, match="record 3 cannot be read"),
    ):
        index.fold()


FILTERS: list[tuple[dict[str, list[str]], list[str]]] = [
    ({}, ["a", "b", "c"]),
    ({"label": ["agent_error"]}, ["b"]),
    ({"label": ["completed", "none"]}, ["a", "c"]),
    ({"ending": ["live"]}, ["c"]),
    ({"table": ["orders"]}, ["a", "b", "c"]),
    ({"tool": ["nothing"]}, []),
    ({"min_reward": ["0.5"]}, ["a"]),
    ({"max_turns": ["1"]}, ["c"]),
    ({"text": ["void order"]}, ["a", "b", "c"]),
    ({"text": ['"order void"']}, []),
    ({"text": ['"void order 7"'], "label": ["completed"]}, ["a"]),
    ({"text": ["NEAR( ^void col:x"]}, []),
    ({"text": ["voi ord"]}, ["a", "b", "c"]),
    ({"text": ['"voi"']}, []),
    ({"text": ["-void"]}, []),
    ({"text": ["nothing OR voi*"]}, ["a", "b", "c"]),
    ({"text": ["tool:void"]}, []),
    ({"label": ["-completed"]}, ["b", "c"]),
    ({"label": ["completed", "agent_error", "-completed"]}, ["b"]),
    ({"ending": ["-live"]}, ["a", "b"]),
    ({"tool": ["-void_order"]}, []),
    ({"task": ["+void-7"]}, ["a", "b", "c"]),
    ({"sort": ["-reward"]}, ["a", "b", "c"]),
    ({"sort": ["-episode"], "limit": ["2"]}, ["c", "b"]),
]


@pytest.mark.parametrize(("query", "expected"), FILTERS)
async def test_filters(tmp_path: Path, query: dict[str, list[str]], expected: list[str]) -> None:
    """Each filter keeps what its name says; values of one filter are alternatives."""
    cut = story("c", [started(), step(0)])
    await _write(tmp_path, whole("a"), whole("b", Label.AGENT_ERROR), cut)
    with open_reader(tmp_path) as reader, open_index(reader) as index:
        index.fold()
        found = episode_table(index, query)

    assert [row.episode for row in found.rows] == expected


def test_searches_are_words_and_phrases() -> None:
    """No character of a search is an operator of FTS5 but those that the syntax has."""
    found = clauses_of('refund OR "order 1042" -tool:late* (NEAR')

    assert [(clause.fts, clause.is_not) for clause in found] == [
        ('"refund" * OR "order 1042"', False),
        ('results : "late" *', True),
        ('"(NEAR" *', False),
    ]


UNREADABLE = {
    'a "unbalanced': "the quote at character 3 is not closed",
    "a*b": "the * in 'a*b' at character 1 is not at the end of the word",
    "\U0001f389": "nothing to search for at character 1 in '\U0001f389'",
    "a -": "nothing to search for at character 3 in '-'",
    "* a": "nothing to search for at character 1",
    '""': "nothing to search for at character 1",
    "OR a": "OR at character 1 needs a word before it",
    "a OR": "OR at character 3 needs a word after it",
    "a OR -b": "OR at character 3 cannot be followed by a minus",
    "x" * 10_000: "at most 1,000 characters, and this one 10,000",
    "a " * 40: "at most 32 words, and this one 40",
}


@pytest.mark.parametrize(("text", "why"), UNREADABLE.items())
def test_a_search_that_cannot_be_read_is_an_error(text: str, why: str) -> None:
    """The error says what cannot be read, and where."""
    with pytest.raises(SettingsError, match=re.escape(why)):
        clauses_of(text)


async def test_a_count_is_that_of_the_index_as_it_is(tmp_path: Path) -> None:
    """What was counted before more of the log was folded is counted again."""
    await _write(tmp_path, whole("a"), whole("b"))
    with open_reader(tmp_path) as reader, open_index(reader) as index:
        counts = [episode_table(index, {"label": ["completed"]}).total]
        while index.fold(5):
            counts.append(episode_table(index, {"label": ["completed"]}).total)

    assert counts == [0, 1, 2]
