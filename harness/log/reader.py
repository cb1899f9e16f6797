"""Reading a run's log: while it is written, after a crash, and long after.

Reading changes nothing that is stored. Whatever is wrong with the file becomes a LogError that
names it.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from harness.core.errors import LogError
from harness.core.events import EpisodeEnded, EpisodeStarted, Event, Judged, Record
from harness.core.trajectory import Trajectory, assemble
from harness.log.schema import (
    FORMAT,
    LOG_NAME,
    EpisodeRow,
    Progress,
    Row,
    ScenarioSnapshot,
    log_error,
    record_of,
    spent_on,
    world_of,
)

_COLUMNS = "position, episode, attempt, seq, kind, at, data, state"


class LogReader:
    """Reads one log. Made by `open_reader`; may go from thread to thread, one at a time.

    Each question is answered from the log as it stands at that moment.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path

    def worlds(self) -> dict[str, ScenarioSnapshot]:
        """What the episodes' worlds were, by package digest."""
        rows = self._rows("SELECT scenario_digest, data FROM worlds ORDER BY rowid")
        try:
            return {digest: world_of(data) for digest, data in rows}
        except msgspec.DecodeError as exc:
            raise log_error(self.path, "the log is damaged: a world cannot be read", exc) from exc

    def episodes(self) -> list[EpisodeRow]:
        """Every episode's latest attempt, in the order in which the episodes began first. Steps
        and final states are not read."""
        rows: dict[str, EpisodeRow] = {}
        for record in self._milestones():
            event, row = record.event, rows.get(record.episode)
            if isinstance(event, EpisodeStarted):
                rows[record.episode] = _started(record, event)
            elif row is not None and row.attempt == record.attempt:
                rows[record.episode] = _continued(row, event)
        lengths = self._lengths() if any(row.ending is None for row in rows.values()) else {}
        return [
            row
            if row.ending is not None
            else msgspec.structs.replace(row, num_steps=lengths[row.episode, row.attempt] - 1)
            for row in rows.values()
        ]

    def progress(self) -> dict[str, Progress]:
        """How far each episode's latest attempt got, by episode."""
        lengths = self._lengths()
        return {
            row.episode: Progress(
                row.attempt,
                lengths[row.episode, row.attempt],
                row.ending is not None,
                row.judge is not None,
            )
            for row in self.episodes()
        }

    def trajectory(self, episode: str) -> Trajectory:
        """The latest attempt at an episode. Raises LogError when there is no such episode."""
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM events WHERE episode = ?1 AND attempt ="
            " (SELECT max(attempt) FROM events WHERE episode = ?1) ORDER BY seq",
            episode,
        )
        records = [self._record(row) for row in rows]
        if not records:
            raise LogError(f"{self.path}: there is no episode {episode!r}")
        try:
            return assemble(records)
        except ValueError as exc:
            raise log_error(self.path, "the log is damaged", exc) from exc

    def trajectories(self) -> Iterator[Trajectory]:
        """The latest attempt at each episode, in the order in which they began first; one is in
        memory at a time."""
        sql = (
            "SELECT episode FROM events WHERE seq = 0 AND kind = 'started'"
            " GROUP BY episode ORDER BY min(position)"
        )
        for (episode,) in self._rows(sql):
            yield self.trajectory(episode)

    def counts(self) -> dict[str, int]:
        """How many records of each kind there are."""
        return dict(self._rows("SELECT kind, count(*) FROM events GROUP BY kind"))

    def records_after(self, position: int, limit: int = 500) -> list[tuple[int, Record]]:
        """The next records behind a position, with theirs; empty at the end of the log."""
        sql = f"SELECT {_COLUMNS} FROM events WHERE position > ? ORDER BY position LIMIT ?"
        return [(row[0], self._record(row)) for row in self._rows(sql, position, limit)]

    def _milestones(self) -> Iterator[Record]:
        """Starts, ends (without their states) and verdicts, in order."""
        sql = (
            "SELECT position, episode, attempt, seq, kind, at, data, NULL FROM events"
            " INDEXED BY milestones WHERE kind <> 'step' AND kind <> 'summary' AND position > ?"
            " ORDER BY position LIMIT 1000"
        )
        position = 0
        while rows := self._rows(sql, position):
            yield from map(self._record, rows)
            position = rows[-1][0]

    def _lengths(self) -> dict[tuple[str, int], int]:
        """How many records each attempt has."""
        sql = "SELECT episode, attempt, max(seq) + 1 FROM events GROUP BY episode, attempt"
        return {(episode, attempt): length for episode, attempt, length in self._rows(sql)}

    def _record(self, row: Row) -> Record:
        try:
            return record_of(row)
        except msgspec.DecodeError as exc:
            what = f"the log is damaged: record {row[0]} cannot be read"
            raise log_error(self.path, what, exc) from exc

    def _rows(self, sql: str, *params: Any) -> list[Any]:
        try:
            return self._connection.execute(sql, params).fetchall()
        except sqlite3.DatabaseError as exc:
            raise log_error(self.path, "the log cannot be read", exc) from exc


@contextmanager
def open_reader(folder: Path) -> Iterator[LogReader]:
    """A reader of a run folder's log. Raises LogError."""
    path = folder / LOG_NAME
    if not path.is_file():
        raise LogError(f"{folder}: there is no log ({LOG_NAME}) in this folder")
    try:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.Error as exc:
        raise log_error(path, "the log cannot be opened", exc) from exc
    with closing(connection):
        reader = LogReader(connection, path)
        _check(reader)
        yield reader


def _check(reader: LogReader) -> None:
    """Refuse what is no log, or one of another format. SQLite itself notices a file that was cut
    short."""
    tables = {name for (name,) in reader._rows("SELECT name FROM sqlite_master")}
    if not tables:
        raise LogError(f"{reader.path}: the log is empty: its run never began")
    if not tables >= {"meta", "worlds", "events", "milestones"}:
        raise LogError(f"{reader.path}: the file is a database, but not a log of Rehearsal")
    found = [value for (value,) in reader._rows("SELECT value FROM meta WHERE key = 'format'")]
    if found != [FORMAT]:
        raise LogError(
            f"{reader.path}: the log has format {', '.join(found) or 'unknown'};"
            f" this program reads {FORMAT}"
        )


def _started(record: Record, event: EpisodeStarted) -> EpisodeRow:
    return EpisodeRow(
        episode=record.episode,
        attempt=record.attempt,
        scenario=event.scenario,
        task=event.task,
        group=event.group,
        member=event.member,
        policy=event.policy,
        scenario_digest=event.scenario_digest,
        started_at=record.at,
        num_steps=0,
    )


def _continued(row: EpisodeRow, event: Event) -> EpisodeRow:
    if isinstance(event, EpisodeEnded):
        return msgspec.structs.replace(
            row,
            num_steps=event.num_steps,
            ending=event.ending,
            error=event.error,
            seconds=event.seconds,
        )
    if isinstance(event, Judged):
        return msgspec.structs.replace(
            row,
            judge=event.judge,
            label=event.label,
            reward=event.reward,
            unjudged=event.unjudged,
            judging=row.judging.plus(spent_on(event)) if event.judgements else row.judging,
        )
    return row
