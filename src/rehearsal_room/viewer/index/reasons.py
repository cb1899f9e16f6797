"""What went wrong in the episodes of an old log, found in its steps and kept in the index."""

from collections.abc import Callable
from pathlib import Path

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.judge.failures.reading import open_finder
from rehearsal_room.viewer.index.run_index import RunIndex

_BATCH = 100  # episodes, some 60 ms


def find_reasons(
    folder: Path,
    index: RunIndex,
    is_stopped: Callable[[], bool] = lambda: False,
    *,
    batches: int | None = None,
) -> None:
    """Find what went wrong in those episodes of a log's index whose verdicts do not say it, in at
    most so many batches (None: in all), until `is_stopped`. Blocks, so it has a thread of its own.
    Raises HarnessError."""
    if index.undiagnosed(1):
        run(_find, folder, index, is_stopped, batches)


async def _find(
    folder: Path, index: RunIndex, is_stopped: Callable[[], bool], batches: int | None
) -> None:
    with open_reader(folder) as reader:
        async with open_finder(folder, reader) as finder:
            while batches != 0 and not is_stopped() and (listed := index.undiagnosed(_BATCH)):
                found = []
                for episode, position in listed:
                    one = reader.trajectory(episode)
                    verdict = one.judged[-1] if one.judged else None
                    found.append((episode, position, await finder.find(one, verdict)))
                if not index.add_diagnoses(found):  # another process was faster
                    return
                batches = None if batches is None else batches - 1
