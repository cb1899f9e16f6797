"""Reading a run's log: while it is written, after a crash, and long after.

Reading changes no record. Every fault of the file becomes a LogError that names it.
`rehearsal_room.harness.log.log_file` has how the file is opened.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import (
    EpisodeEnded,
    EpisodeStarted,
    Event,
    FaultInjected,
    Judged,
    Record,
    is_of_unknown_kind,
)
from rehearsal_room.harness.core.trajectory import Trajectory, assemble
from rehearsal_room.harness.log.log_file import READ_ERRORS, LogFile
from rehearsal_room.harness.log.schema import (
    LOG_NAME,
    EncodedRecord,
    EpisodeProgress,
    EpisodeRow,
    LogRow,
    ScenarioSnapshot,
    check_format,
    decode_snapshot,
    log_error,
    record_of,
    require_columns,
    spent_on,
)
from rehearsal_room.harness.log.sessions import SessionMeasured, session_of

_COLUMNS = "position, episode, attempt, seq, kind, at, data, state"
# Position, episode, attempt, kind, time and event of a row of the log, and whether it has a state.
StoredRecord = tuple[int, str, int, str, float, bytes, int]


_NOTHING = msgspec.msgpack.encode(None)


class _CalledName(msgspec.Struct, gc=False):
    name: str


class _CalledDecision(msgspec.Struct, gc=False):
    calls: tuple[_CalledName, ...] = ()


class _Called(msgspec.Struct, gc=False):
    """What `called_tools` reads of a step."""

    decision: _CalledDecision
    results: tuple[msgspec.Raw, ...] = ()
    user: msgspec.Raw = msgspec.Raw(_NOTHING)


_decode_called = msgspec.msgpack.Decoder(_Called).decode


class LogReader:
    """Reads one log. `open_reader` makes it; any thread may use it, one at a time.

    Each method answers from what the log contains at that moment.
    """

    def __init__(self, file: LogFile, path: Path) -> None:
        self._file = file
        self.path = path

    def scenarios(self) -> dict[str, ScenarioSnapshot]:
        """The snapshots of the scenarios that the episodes used, by scenario digest."""
        rows = self._rows("SELECT scenario_digest, data FROM scenarios ORDER BY rowid")
        try:
            return {digest: decode_snapshot(data) for digest, data in rows}
        except msgspec.DecodeError as exc:
            what = "the log is damaged: a scenario cannot be read"
            raise log_error(self.path, what, exc) from exc

    def episodes(self) -> list[EpisodeRow]:
        """A row for the latest attempt at each episode, in the order in which the episodes
        first began. Steps and final states are not read."""
        rows: dict[str, EpisodeRow] = {}
        for record in self.milestones():
            event, row = record.event, rows.get(record.episode)
            if isinstance(event, EpisodeStarted):
                rows[record.episode] = _row_of_start(record, event)
            elif row is not None and row.attempt == record.attempt:
                rows[record.episode] = _row_after(row, event)
        lengths = self.lengths() if any(row.ending is None for row in rows.values()) else {}
        return [
            row
            if row.ending is not None
            else msgspec.structs.replace(row, num_steps=lengths[row.episode, row.attempt] - 1)
            for row in rows.values()
        ]

    def progress(self) -> dict[str, EpisodeProgress]:
        """How far the latest attempt at each episode got, by episode."""
        lengths = self.lengths()
        return {
            row.episode: EpisodeProgress(
                row.attempt,
                lengths[row.episode, row.attempt],
                row.ending is not None,
                row.judge is not None,
            )
            for row in self.episodes()
        }

    def trajectory(
        self, episode: str, *, attempt: int | None = None, first_verdict: bool = False
    ) -> Trajectory:
        """An attempt at an episode (None: the latest), with `first_verdict` without the
        verdicts after the first one. Raises LogError where the log does not have it."""
        records = self.records_of(episode, attempt=attempt)
        try:
            return assemble(_up_to_verdict(records) if first_verdict else records)
        except ValueError as exc:
            raise log_error(self.path, "the log is damaged", exc) from exc

    def records_of(self, episode: str, *, attempt: int | None = None) -> list[Record]:
        """The records of an attempt at an episode (None: the latest), in order. Raises
        LogError where the log does not have it."""
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM events WHERE episode = ?1 AND attempt = coalesce(?2,"
            " (SELECT max(attempt) FROM events WHERE episode = ?1)) ORDER BY seq",
            episode,
            attempt,
        )
        records = [record for _, record in self._known(rows)]
        if not records:
            which = "" if attempt is None else f", attempt {attempt}"
            raise LogError(f"{self.path}: there is no episode {episode!r}{which}")
        return records

    def has_episode(self, episode: str) -> bool:
        """Whether the log has a record of this episode."""
        return bool(self._rows("SELECT 1 FROM events WHERE episode = ? LIMIT 1", episode))

    def turn_times(self, episode: str, attempt: int) -> list[float]:
        """Return when each turn of an attempt was complete, in Unix seconds."""
        sql = "SELECT at FROM events WHERE episode = ? AND attempt = ? AND kind = 'step'"
        return [at for (at,) in self._rows(f"{sql} ORDER BY seq", episode, attempt)]

    def attempts(self, episode: str, last: int) -> list[EncodedRecord]:
        """The records of an episode's attempts up to this one, as they are stored."""
        columns = _COLUMNS.removeprefix("position, ")
        sql = f"SELECT {columns} FROM events WHERE episode = ? AND attempt <= ?"
        return list(self._rows(f"{sql} ORDER BY attempt, seq", episode, last))

    def trajectories(self) -> Iterator[Trajectory]:
        """Yield the latest attempt at each episode, in the order in which the episodes first began;
        one is in memory at a time."""
        sql = (
            "SELECT episode FROM events WHERE seq = 0 AND kind = 'started'"
            " GROUP BY episode ORDER BY min(position)"
        )
        for (episode,) in self._rows(sql):
            yield self.trajectory(episode)

    def called_tools(self) -> dict[tuple[str, int], tuple[str, ...]]:
        """The tools that the agent called in each attempt, by (episode, attempt), as far as its
        calls have results. Little of a step is decoded, so a large log takes a second."""
        found: dict[tuple[str, int], dict[str, None]] = {}
        position = 0
        while rows := self.stored_after(position, 1000):
            position = rows[-1][0]
            for at, episode, attempt, kind, _, data, _ in rows:
                if kind == "step":
                    found.setdefault((episode, attempt), {}).update(self._called(at, data))
        return {key: tuple(names) for key, names in found.items()}

    def _called(self, position: int, data: bytes) -> dict[str, None]:
        try:
            step = _decode_called(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError) as exc:
            what = f"the log is damaged: record {position} cannot be read"
            raise log_error(self.path, what, exc) from exc
        if bytes(step.user) != _NOTHING:
            return {}
        return dict.fromkeys([call.name for call in step.decision.calls[: len(step.results)]])

    def counts(self) -> dict[str, int]:
        """The number of records of each kind."""
        return dict(self._rows("SELECT kind, count(*) FROM events GROUP BY kind"))

    def records_after(self, position: int, limit: int = 500) -> list[tuple[int, Record]]:
        """The records that follow a position, each with its own position; empty at the end
        of the log."""
        sql = f"SELECT {_COLUMNS} FROM events WHERE position > ? ORDER BY position LIMIT ?"
        while rows := self._rows(sql, position, limit):
            if known := self._known(rows):
                return known
            position = rows[-1][0]
        return []

    def stored_after(self, position: int, limit: int) -> list[StoredRecord]:
        """The records that follow a position as they are stored, not decoded and without
        final states; empty at the end of the log."""
        sql = (
            "SELECT position, episode, attempt, kind, at, data, state IS NOT NULL FROM events"
            " WHERE position > ? ORDER BY position LIMIT ?"
        )
        rows: list[StoredRecord] = self._rows(sql, position, limit)
        for at, episode, attempt, _, when, data, _ in rows:
            try:
                require_columns(episode, attempt, when, data)
            except msgspec.DecodeError as exc:
                raise self._damage(at, exc) from exc
        return rows

    def num_records(self) -> int:
        """The position of the last record; 0: there is none."""
        ((last,),) = self._rows("SELECT coalesce(max(position), 0) FROM events")
        return int(last)

    def faults(self) -> list[tuple[int, FaultInjected]]:
        """The faults that were injected on purpose, each with its position."""
        sql = (
            f"SELECT {_COLUMNS} FROM events INDEXED BY milestones"
            " WHERE kind <> 'step' AND kind = 'fault' ORDER BY position"
        )
        return [
            (position, record.event)
            for position, record in self._known(self._rows(sql))
            if isinstance(record.event, FaultInjected)
        ]

    def last_position(self) -> int:
        """The position of the last record that is not a fault; 0: there is none."""
        sql = "SELECT position FROM events WHERE kind <> 'fault' ORDER BY position DESC LIMIT 1"
        return next((position for (position,) in self._rows(sql)), 0)

    def records(self) -> Iterator[Record]:
        """Yield every record in the order of the log, ends without their states; a page of them is
        in memory at a time."""
        sql = (
            "SELECT position, episode, attempt, seq, kind, at, data, NULL FROM events"
            " WHERE position > ? ORDER BY position LIMIT 1000"
        )
        position = 0
        while rows := self._rows(sql, position):
            for _, record in self._known(rows):
                yield record
            position = rows[-1][0]

    def sessions(self) -> list[SessionMeasured]:
        """What the processes measured that worked on the run, in their order. A process that
        works now or was killed is not among them, nor is one of an older version."""
        if not self._rows("SELECT 1 FROM sqlite_master WHERE name = 'sessions'"):
            return []
        rows = self._rows("SELECT data FROM sessions ORDER BY rowid")
        try:
            return [session_of(data) for (data,) in rows]
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as exc:
            what = "the log is damaged: a session cannot be read"
            raise log_error(self.path, what, exc) from exc

    def milestones(self) -> Iterator[Record]:
        """Yield starts, ends (without their states), verdicts and published weights, in order."""
        position = 0
        while rows := self.milestones_after(position):
            for _, record in rows:
                yield record
            position = rows[-1][0]

    def milestones_after(self, position: int, limit: int = 1000) -> list[tuple[int, Record]]:
        """The next of the `milestones` after a position, each with its own position; empty
        at the end of the log."""
        sql = (
            "SELECT position, episode, attempt, seq, kind, at, data, NULL FROM events"
            " INDEXED BY milestones WHERE kind <> 'step' AND kind <> 'summary' AND kind <> 'fault'"
            " AND kind <> 'model' AND kind <> 'output' AND kind <> 'spans' AND position > ?"
            " ORDER BY position LIMIT ?"
        )
        while rows := self._rows(sql, position, limit):
            if known := self._known(rows):
                return known
            position = rows[-1][0]
        return []

    def lengths(self) -> dict[tuple[str, int], int]:
        """The number of records of each attempt, by (episode, attempt)."""
        sql = "SELECT episode, attempt, max(seq) + 1 FROM events GROUP BY episode, attempt"
        return {(episode, attempt): length for episode, attempt, length in self._rows(sql)}

    def _known(self, rows: Iterable[LogRow]) -> list[tuple[int, Record]]:
        """The records in rows, with their positions, but for those of a kind that only a
        later version has."""
        return [
            (row[0], self._record(row)) for row in rows if not is_of_unknown_kind(row[4], row[6])
        ]

    def _record(self, row: LogRow) -> Record:
        try:
            return record_of(row)
        except msgspec.DecodeError as exc:
            raise self._damage(row[0], exc) from exc

    def _damage(self, position: int, exc: Exception) -> LogError:
        what = f"the log is damaged: record {position} cannot be read"
        return log_error(self.path, what, exc)

    def _rows(self, sql: str, *params: Any) -> list[Any]:
        try:
            return self._file.rows(sql, *params)
        except READ_ERRORS as exc:
            raise log_error(self.path, "the log cannot be read", exc) from exc


@contextmanager
def open_reader(folder: str | Path) -> Iterator[LogReader]:
    """Open a reader of a run folder's log, until the block is left. Raises LogError."""
    path = Path(folder) / LOG_NAME
    if not path.is_file():
        raise LogError(f"{folder}: there is no log ({LOG_NAME}) in this folder")
    try:
        file = LogFile(path)
    except READ_ERRORS as exc:
        raise log_error(path, "the log cannot be read", exc) from exc
    with closing(file):
        reader = LogReader(file, path)
        _check(reader)
        yield reader


def require_format(folder: Path) -> None:
    """Raise LogError where the folder has a log of another format, before anything else of the
    folder is read; what else is wrong with a log is found when it is opened."""
    path = folder / LOG_NAME
    if not path.is_file():
        return
    try:
        with closing(LogFile(path)) as file:
            found = file.rows("SELECT value FROM meta WHERE key = 'format'")
    except READ_ERRORS:
        return
    if found:
        check_format(path, found[0][0])


def _check(reader: LogReader) -> None:
    """Refuse a file that is not a log, and a log of another format. SQLite itself detects a file
    that was cut short."""
    tables = {name for (name,) in reader._rows("SELECT name FROM sqlite_master")}
    if not tables:
        raise LogError(f"{reader.path}: the log is empty: its run never began")
    if not tables >= {"meta", "events", "milestones"}:
        raise LogError(f"{reader.path}: the file is a database, but not a log of Rehearsal")
    rows = reader._rows("SELECT value FROM meta WHERE key = 'format'")
    check_format(reader.path, rows[0][0] if rows else None)


def _up_to_verdict(records: Iterable[Record]) -> Iterator[Record]:
    """Yield an attempt's records up to its first verdict."""
    for record in records:
        yield record
        if isinstance(record.event, Judged):
            return


def _row_of_start(record: Record, event: EpisodeStarted) -> EpisodeRow:
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
        tags=event.tags,
        seed=event.seed,
    )


def _row_after(row: EpisodeRow, event: Event) -> EpisodeRow:
    """The row with what a later fact of the attempt adds."""
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
            diagnosis=event.diagnosis,
            judging=row.judging.plus(spent_on(event))
            if event.judgements or event.asked or event.profile
            else row.judging,
            profile=event.profile,
            share=event.share,
        )
    return row
