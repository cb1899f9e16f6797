"""The files of a run folder, and the format of its log.

    runs/<name>/
      run.toml          resolved settings, versions, seeds
      episodes.sqlite   the log: every fact of every episode, append-only
      report.json       the result
    judge/            the log of a judge in a process of its own (harness.following.verdict_log)

`rehearsal_room.harness.log.writer` writes the log and `rehearsal_room.harness.log.reader` reads
it; this module defines what both use. The tables of the log:

    events      one row for each record; `position` numbers the rows of the whole log from 1. The
                final state of an episode has a column of its own, so that lists are read without it
    scenarios   the snapshot of each scenario package that the run's episodes used
    sessions    what each process that worked on the run measured (harness.log.sessions)
    meta        the version of this format
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from rehearsal_room.envpool.core.types import StoredState, ToolSpec
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    Event,
    Judged,
    Label,
    ProfileVerdict,
    Record,
    StepTaken,
    decode_event,
    encode,
    kind_of,
    require_episode_name,
)
from rehearsal_room.harness.core.mistakes import Diagnosis
from rehearsal_room.harness.log import sessions
from rehearsal_room.harness.log.drafts import finish_draft, open_draft, remove_abandoned_drafts
from rehearsal_room.scenarios.api import SqlValue
from rehearsal_room.scenarios.core.short_text import shortened

LOG_NAME = "episodes.sqlite"
FORMAT = "2"
SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE scenarios (scenario_digest TEXT PRIMARY KEY, data BLOB NOT NULL)",
    """CREATE TABLE events (
        position INTEGER PRIMARY KEY,
        episode TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        kind TEXT NOT NULL,
        at REAL NOT NULL,
        data BLOB NOT NULL,
        state BLOB,
        UNIQUE (episode, attempt, seq))""",
    sessions.MAKE_TABLE,
    "CREATE INDEX milestones ON events (position) WHERE kind <> 'step'",
    f"INSERT INTO meta VALUES ('format', '{FORMAT}')",
)

# The statements that the schema of a log may have: also of format 1, which is refused later, and of
# a log that somebody analysed.
SCHEMAS = (
    *SCHEMA,
    "CREATE TABLE worlds (package TEXT PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE TABLE worlds (scenario_digest TEXT PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
)

LogRow = tuple[int, str, int, int, str, float, bytes, bytes | None]  # of the table `events`
EncodedRecord = tuple[str, int, int, str, float, bytes, bytes | None]  # a row without position
_MAX_REASON = 300  # characters
# What msgspec raises beside its own errors: for text that is not UTF-8, for values that are nested
# too deeply, and for what is not bytes.
_YEAR_10000 = 253_402_300_800.0  # Unix seconds: there calendars end
_OTHER_DAMAGE = (UnicodeDecodeError, RecursionError, TypeError)


class ScenarioSnapshot(msgspec.Struct, frozen=True):
    """The part of a scenario package that a log contains, so that the log can be read without the
    package: the start state of its worlds, and what an agent reads about them."""

    scenario_digest: str  # of the scenario package
    scenario: str
    version: str
    template: str  # digest of the database template
    image: bytes  # the database template, as a SQLite file
    rules: str  # Markdown; empty: no rules
    user: str  # see Briefing.user
    now: str  # the scenario's clock
    tools: tuple[ToolSpec, ...]
    source_path: str = ""  # folder of the package when the run began


class Spending(msgspec.Struct, frozen=True):
    """Requests to models, their tokens and their cost."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0  # the part of prompt_tokens that came from the servers' prefix caches
    completion_tokens: int = 0
    cost_usd: float | None = 0.0  # None: the price of a model is unknown

    def plus(self, other: "Spending") -> "Spending":
        """The sum of both."""
        return Spending(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            None
            if self.cost_usd is None or other.cost_usd is None
            else self.cost_usd + other.cost_usd,
        )


NOTHING_SPENT = Spending()


def spent_on(judged: Judged) -> Spending:
    """The spending on one verdict."""
    total = NOTHING_SPENT
    theirs = () if judged.profile is None else (judged.profile.judgement,)
    for one in (*judged.judgements, *judged.asked, *filter(None, theirs)):
        total = total.plus(
            Spending(
                one.requests,
                one.prompt_tokens,
                one.cached_tokens,
                one.completion_tokens,
                one.cost_usd,
            )
        )
    return total


NO_SCORE = "it has no score: others begin where it ends"  # why an episode has no verdict


class EpisodeRow(msgspec.Struct, frozen=True):
    """The latest attempt at an episode, as one line of a list of episodes."""

    episode: str
    attempt: int
    scenario: str
    task: str
    group: str
    member: int
    policy: str
    scenario_digest: str
    started_at: float  # Unix seconds
    num_steps: int
    ending: Ending | None = None  # None: still live, or cut off by a crash
    error: str | None = None
    seconds: float = 0.0
    judge: str | None = None  # judge of the latest verdict; None: there is no verdict yet
    label: Label | None = None  # of the latest verdict
    reward: float | None = None
    unjudged: str | None = None  # reason why the judge could not judge
    judging: Spending = NOTHING_SPENT  # of all verdicts on this attempt
    tags: tuple[str, ...] = ()  # of the task
    seed: int = 0
    diagnosis: Diagnosis | None = None  # of the latest verdict; None: it has none
    profile: ProfileVerdict | None = None  # beside the latest verdict; None: it has none
    share: float | None = None  # of the task, by the latest verdict; None: it is all or nothing

    @property
    def has_score(self) -> bool:
        """Whether it counts in rates. Others were played for episodes that begin where they end."""
        return self.unjudged != NO_SCORE


class EpisodeProgress(msgspec.Struct, frozen=True):
    """How far the latest attempt at an episode got, for a run that is resumed."""

    attempt: int  # number of the latest attempt
    next_seq: int  # sequence number of its next record
    ended: bool
    judged: bool

    @property
    def next_attempt(self) -> int:
        """The attempt number under which an episode that was cut off is repeated."""
        return self.attempt + 1


_state_decoder: msgspec.msgpack.Decoder[StoredState] = msgspec.msgpack.Decoder(StoredState)
_snapshot_decoder: msgspec.msgpack.Decoder[ScenarioSnapshot] = msgspec.msgpack.Decoder(
    ScenarioSnapshot
)


def row_of(position: int, record: Record) -> LogRow:
    """A record as a row of the table `events`.

    A model's reply can contain values that MessagePack cannot hold: an integer beyond 64 bits, half
    a surrogate pair. No reply may stop a run, so they are stored as digits and as a question mark.
    """
    event, state = record.event, None
    if isinstance(event, EpisodeEnded) and event.state is not None:
        state = encode(event.state)
        event = msgspec.structs.replace(event, state=None)
    try:
        data = encode(event)
    except (OverflowError, UnicodeEncodeError):
        data = encode(make_storable(msgspec.to_builtins(event, builtin_types=(bytes,))))
    kind = kind_of(event)
    return (position, record.episode, record.attempt, record.seq, kind, record.at, data, state)


def encoded(record: Record) -> EncodedRecord:
    """A record as its row, without the position."""
    return row_of(0, record)[1:]


def make_storable(value: Any) -> Any:
    """Builtin data with what MessagePack cannot hold replaced: integers beyond 64 bits by
    their digits as text, halves of surrogate pairs by question marks."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    if isinstance(value, dict):
        return {make_storable(key): make_storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [make_storable(item) for item in value]
    return value


def record_of(row: LogRow) -> Record:
    """The record in a row of `events`. Raises msgspec.DecodeError for a damaged row."""
    _, episode, attempt, seq, kind, at, data, state = row
    require_columns(episode, attempt, at, data)
    if type(seq) is not int:
        raise msgspec.DecodeError("a column has a value of another type")
    try:
        event: Event = decode_event(data)
        if state is not None and isinstance(event, EpisodeEnded):
            event = msgspec.structs.replace(event, state=_state_decoder.decode(state))
    except _OTHER_DAMAGE as exc:
        raise msgspec.DecodeError(str(exc)) from exc
    if kind_of(event) != kind:
        raise msgspec.DecodeError(f"the row is of kind {kind!r}, its event {kind_of(event)!r}")
    if isinstance(event, StepTaken):
        _check_keys(event)
    return Record(episode, attempt, seq, at, event)


def require_columns(episode: object, attempt: object, at: object, data: object) -> None:
    """Raise msgspec.DecodeError unless the columns of a row of `events` have values that we write:
    a column of SQLite takes values of any type."""
    if type(episode) is not str or type(attempt) is not int or type(data) is not bytes:
        raise msgspec.DecodeError("a column has a value of another type")
    require_episode_name(episode)
    if type(at) is not float or not 0 <= at < _YEAR_10000:
        raise msgspec.DecodeError("its time is not one")


def _check_keys(step: StepTaken) -> None:
    """Raise msgspec.DecodeError unless the keys of the changed rows are what SQL has as values:
    readers sort by them."""
    for result in step.executed_results:
        for change in result.changes:
            for value in change.key:
                if not isinstance(value, SqlValue):
                    raise msgspec.DecodeError("the key of a changed row is not a key of SQL")


def decode_snapshot(data: bytes) -> ScenarioSnapshot:
    """The scenario snapshot in MessagePack bytes. Raises msgspec.DecodeError."""
    try:
        return _snapshot_decoder.decode(data)
    except _OTHER_DAMAGE as exc:
        raise msgspec.DecodeError(str(exc)) from exc


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` when the block ends without an exception, and is deleted
    otherwise.

    The data is on the disk before the file is renamed, so a reader finds the old file or the whole
    new one, even after a power cut. What killed processes left half-written in the folder is
    removed first (see `rehearsal_room.harness.log.drafts`).
    """
    remove_abandoned_drafts(path.parent)
    with open_draft(path) as (draft, file):
        yield file
        finish_draft(draft, file, path)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is replaced whole and durably (see `replacing`). Raises OSError."""
    with replacing(path) as file:
        file.write(data)


def empty_log() -> bytes:
    """A new log without records, as the bytes of its file: a database that is in WAL mode
    from the beginning, so that no rollback journal ever exists beside a log."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.execute("PRAGMA page_size = 8192")  # 4096 costs 15 % more
        for statement in SCHEMA:
            database.execute(statement)
        image = bytearray(database.serialize())
    image[18:20] = b"\x02\x02"  # write and read version 2: WAL (SQLite's file format, 1.3.3)
    return bytes(image)


def log_error(path: Path, what: str, exc: Any) -> LogError:
    """The error for a failed operation on a log: it names the file, what failed, and the
    reason that SQLite or msgspec gave, shortened where it quotes what is damaged."""
    return LogError(f"{path}: {what}: {shortened(str(exc), _MAX_REASON)}")


def check_format(path: Path, found: str | None) -> None:
    """Raise LogError unless the format number of a log is the one of this version; `found` None:
    the log has no format number."""
    if found != FORMAT:
        raise LogError(
            f"{path}: the log has format {found or 'unknown'}, and this version reads and writes"
            f" format {FORMAT}; open it with the version of Rehearsal that wrote it"
        )
