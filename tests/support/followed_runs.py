"""Runs that other processes follow: what a test waits for, and what must be true at the end."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import EpisodeEnded, EpisodeStarted, Judged, Record
from rehearsal_room.harness.following.verdict_log import FOLDER, verdicts_in
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from tests.support.judged_runs import records_of

_TIMEOUT_S = 120.0  # the limit of one test is shorter


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until other processes have brought about a condition."""
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not after {_TIMEOUT_S:.0f} seconds: {what}"
        time.sleep(0.01)


def num_of(folder: Path, kind: str) -> int:
    """How many records of a kind a folder's log has; 0 where there is no log yet."""
    if not (folder / LOG_NAME).exists():
        return 0
    try:
        with open_reader(folder) as reader:
            return reader.counts().get(kind, 0)
    except LogError:
        return 0


def until_num(folder: Path, kind: str, number: int) -> None:
    """Wait until a folder's log has so many records of a kind."""
    until(lambda: num_of(folder, kind) >= number, f"{number} {kind} in {folder}")


def check_judged_once(run: Path, verdicts: Path | None = None) -> None:
    """Every episode that started has one ending in its last attempt and one verdict on it; the
    judge of its own process, whose log is in `verdicts`, gave it and judged no attempt twice."""
    started: dict[str, int] = {}
    ends: Counter[tuple[str, int]] = Counter()
    judged: Counter[tuple[str, int]] = Counter()
    given: dict[tuple[str, int], Judged] = {}
    for record in records_of(run):
        key = (record.episode, record.attempt)
        if isinstance(record.event, EpisodeStarted):
            started[record.episode] = record.attempt
        elif isinstance(record.event, EpisodeEnded):
            ends[key] += 1
        elif isinstance(record.event, Judged):
            judged[key] += 1
            given[key] = record.event
    last = set(started.items())
    assert started
    assert all(count == 1 for count in ends.values())
    assert set(judged) == last <= set(ends)
    assert set(judged.values()) == {1}
    own = [
        ((record.episode, record.attempt), record.event)
        for record in verdicts_in(verdicts or run / FOLDER)
    ]
    assert max(Counter(key for key, _ in own).values()) == 1
    assert {key: event for key, event in own if key in last} == given


def check_copied(run: Path, copy: Path) -> None:
    """A copy has the records of a run, each once, and its episodes begin in the same order."""
    original, copied = records_of(run), records_of(copy)
    assert sorted(one.key for one in copied) == sorted(one.key for one in original)
    assert {one.key: one for one in copied} == {one.key: one for one in original}
    assert starts_of(copied) == starts_of(original)


def starts_of(log: Sequence[Record]) -> list[tuple[str, int, int]]:
    """The keys of the episodes' starts, in order."""
    return [record.key for record in log if isinstance(record.event, EpisodeStarted)]
