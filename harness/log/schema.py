"""What a run folder holds, and the words in which its log is written.

    runs/<name>/
      run.toml          resolved settings, versions, seeds
      episodes.sqlite   the log: every fact of every episode, append-only
      report.json       the result

`log_writer` writes the log and `log_reader` reads it; here is what the two agree on. The log's
tables:

    events   one row a record; `position` is its place in the whole log, from 1. The final state
             of an episode stands in a column of its own, so that lists are read without it.
    worlds   what an episode's world was, once for each scenario package
    meta     the version of this format
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from envpool.core.types import StoredState, ToolSpec
from harness.core.errors import LogError
from harness.core.events import (
    Ending,
    EpisodeEnded,
    Event,
    Judged,
    Label,
    Record,
    decode_event,
    encode,
    kind_of,
)

LOG_NAME = "episodes.sqlite"
FORMAT = "2"
SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE worlds (scenario_digest TEXT PRIMARY KEY, data BLOB NOT NULL)",
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
    "CREATE INDEX milestones ON events (position) WHERE kind <> 'step'",
    f"INSERT INTO meta VALUES ('format', '{FORMAT}')",
)

Row = tuple[int, str, int, int, str, float, bytes, bytes | None]  # one of `events`


class ScenarioSnapshot(msgspec.Struct, frozen=True):
    """What a log must know of a world to be read without its package: how it began, and what the
    agent was told of it."""

    scenario_digest: str  # of the scenario package
    scenario: str
    version: str
    template: str  # the database template's digest
    image: bytes  # the database template
    rules: str  # Markdown; empty: no rules
    user: str
    now: str
    tools: tuple[ToolSpec, ...]
    source_path: str = ""  # the package's folder when the run began


class Spending(msgspec.Struct, frozen=True):
    """What models were asked for, and what it cost."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0  # of the prompts', those that servers had kept
    completion_tokens: int = 0
    cost_usd: float | None = 0.0  # None: a model had no price

    def plus(self, other: "Spending") -> "Spending":
        """Both together."""
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
    """What one verdict took."""
    total = NOTHING_SPENT
    for one in judged.judgements:
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


class EpisodeRow(msgspec.Struct, frozen=True):
    """An episode's latest attempt, as a list of episodes shows it."""

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
    ending: Ending | None = None  # None: still live, or cut off
    error: str | None = None
    seconds: float = 0.0
    judge: str | None = None  # whose verdict is the latest; None: there is none yet
    label: Label | None = None  # of the latest verdict
    reward: float | None = None
    unjudged: str | None = None  # why the judge could not judge
    judging: Spending = NOTHING_SPENT  # of all verdicts on this attempt


class Progress(msgspec.Struct, frozen=True):
    """How far an episode got, for a run that goes on."""

    attempt: int  # the latest
    next_seq: int  # of the attempt's next record
    ended: bool
    judged: bool

    @property
    def next_attempt(self) -> int:
        """Under which number an episode that was cut off is tried again."""
        return self.attempt + 1


_state_decoder: msgspec.msgpack.Decoder[StoredState] = msgspec.msgpack.Decoder(StoredState)
_world_decoder: msgspec.msgpack.Decoder[ScenarioSnapshot] = msgspec.msgpack.Decoder(
    ScenarioSnapshot
)


def row_of(position: int, record: Record) -> Row:
    """A record as a row of the table of events.

    A model can say what MessagePack cannot: an integer beyond 64 bits, half a surrogate pair. No
    reply may stop a run, so these are stored as their digits and as a question mark.
    """
    event, state = record.event, None
    if isinstance(event, EpisodeEnded) and event.state is not None:
        state = encode(event.state)
        event = msgspec.structs.replace(event, state=None)
    try:
        data = encode(event)
    except (OverflowError, UnicodeEncodeError):
        data = encode(storable(msgspec.to_builtins(event, builtin_types=(bytes,))))
    kind = kind_of(event)
    return (position, record.episode, record.attempt, record.seq, kind, record.at, data, state)


def storable(value: Any) -> Any:
    """Builtin data as the log can hold it: integers beyond 64 bits as digits, half surrogate
    pairs as question marks."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value


def record_of(row: Row) -> Record:
    """The record of a row. Raises msgspec.DecodeError."""
    _, episode, attempt, seq, _, at, data, state = row
    event: Event = decode_event(data)
    if state is not None and isinstance(event, EpisodeEnded):
        event = msgspec.structs.replace(event, state=_state_decoder.decode(state))
    return Record(episode, attempt, seq, at, event)


def world_of(data: bytes) -> ScenarioSnapshot:
    """A mounted world from MessagePack. Raises msgspec.DecodeError."""
    return _world_decoder.decode(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends well, and vanishes otherwise.

    It is on the disk before it is renamed, so whoever looks sees the old file or the whole new
    one, even after a power cut.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a whole file at once, durably (see `replacing`). Raises OSError."""
    with replacing(path) as file:
        file.write(data)


def _sync_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot and need not
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def log_error(path: Path, what: str, exc: Any) -> LogError:
    """A sentence about a log that names the file, what failed, and SQLite's or msgspec's reason."""
    return LogError(f"{path}: {what}: {exc}")
