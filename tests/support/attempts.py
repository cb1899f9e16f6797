"""What the attempts at an episode must have in common: nothing logged is asked or made again."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from rehearsal_room.harness.core.events import (
    EpisodeStarted,
    Event,
    HistorySummarized,
    Record,
    StepTaken,
)
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log


def records_of(folder: Path) -> list[Record]:
    """All records of a log."""
    with open_reader(folder) as reader:
        return [record for _, record in reader.records_after(0, 1_000_000)]


def check_attempts(records: Iterable[Record]) -> int:
    """Check that each attempt at an episode begins with every reply that an earlier attempt has
    logged, as it was logged; returns the number of attempts that went on after some.

    So no reply that the log has was asked for again, and no call of such a reply is made again as
    a new one.
    """
    attempts: dict[tuple[str, int], list[Event]] = {}
    for record in records:
        attempts.setdefault((record.episode, record.attempt), []).append(record.event)
    known: dict[str, list[Event]] = {}  # the longest list of replies of earlier attempts
    num_continued = 0
    for (episode, _), events in sorted(attempts.items()):
        started = events[0]
        if not isinstance(started, EpisodeStarted):
            continue
        replies: list[Event] = [
            event for event in events if isinstance(event, StepTaken | HistorySummarized)
        ]
        logged = known.get(episode, [])
        if not started.forked_from:
            assert started.kept == len(logged), (episode, started.kept, len(logged))
        common = min(len(logged), len(replies))
        assert replies[:common] == logged[:common], episode
        num_continued += bool(logged)
        if len(replies) > len(logged):
            known[episode] = replies
    return num_continued


def outcomes_of(folder: Path) -> dict[str, object]:
    """What each episode did: its calls' results and the digests after them, its end and its final
    state. Equal for runs with the same course, whenever they were interrupted."""
    with open_reader(folder) as reader:
        return {
            one.episode: (
                [(step.decision, step.results) for step in one.steps],
                None if one.ended is None else (one.ended.ending, one.ended.answer),
                one.ended.state.digest if one.ended is not None and one.ended.state else None,
            )
            for one in reader.trajectories()
        }


async def cut_off(whole: Path, folder: Path, num_records: int) -> None:
    """The first records of a run, as a crash would leave them."""
    with open_reader(whole) as reader:
        records = [record for _, record in reader.records_after(0, num_records)]
    async with open_log(folder) as log:
        for record in records:
            log.append(record)
    shutil.copy(whole / "run.toml", folder)
