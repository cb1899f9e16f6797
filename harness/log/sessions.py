"""What a process measured of its own work on a run: one row of the log, written at its end.

The events have the times of episodes. What the process itself spent on log, listeners and event
loop belongs to no episode, and is summed up once. A process that was killed leaves no such row.
"""

from typing import Any

import msgspec

from rehearsal_room.harness.core.events import encode

_COLUMNS = "(began_at REAL NOT NULL, data BLOB NOT NULL)"
MAKE_TABLE = f"CREATE TABLE sessions {_COLUMNS}"
MAKE_MISSING_TABLE = f"CREATE TABLE IF NOT EXISTS sessions {_COLUMNS}"  # logs of older versions
INSERT = "INSERT INTO sessions VALUES (?, ?)"


class SessionMeasured(msgspec.Struct, frozen=True):
    """What one process measured, from the opening of the log to the last episode; with rollout
    processes, what all of them did. Sums over episodes may exceed the elapsed time."""

    began_at: float  # Unix seconds
    ended_at: float
    wall_s: float
    cpu_s: float  # rollout processes and workers included
    admission_s: float = 0.0  # time that episodes waited to begin, summed over episodes
    room_s: float = 0.0  # time that episodes waited while the log was full, summed over episodes
    commit_s: float = 0.0  # time in which the log wrote
    commits: int = 0
    listeners_s: float = 0.0  # time in which the log waited for judge, link and other listeners
    loops: int = 1  # event loops whose lag was measured, one for each process
    lag_s: float = 0.0  # time by which samples of the loops came late, summed over loops
    lag_max_s: float = 0.0
    culprit: str = ""  # what blocked a loop for longest; empty: nothing did, for long
    held_back_s: float = 0.0  # time that live episodes were paused by admission, summed over them


_decoder = msgspec.msgpack.Decoder(SessionMeasured)


def row_of_session(session: SessionMeasured) -> tuple[float, bytes]:
    """The row of a session in the table `sessions`."""
    return (session.began_at, encode(session))


def session_of(data: Any) -> SessionMeasured:
    """The session in a row. Raises msgspec.DecodeError."""
    return _decoder.decode(data)
