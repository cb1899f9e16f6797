"""The log of a judge that is a process of its own, and how its verdicts get into the run's log.

The run's log has one writer: the run. So the judge keeps a log of its own, with nothing but its
verdicts, from which they are handed to the run's writer:

    runs/<name>/judge/episodes.sqlite    the verdicts of a judge on the same file system
    <copy>/judge/episodes.sqlite         those of an external judge, in its copy of the run

The run reads the first itself; the second is published on the broker as a log of its own, under
`verdicts_topic`. A run with `judge = "elsewhere"` takes each verdict as it comes, one for each
attempt at an episode. What no run took, because it had ended or takes none, the judge appends
itself once the run's log has no writer. A verdict that a run has is known by its (episode, attempt,
judge), so it may be offered any number of times.
"""

from collections.abc import Iterator
from pathlib import Path

from rehearsal_room.harness.core.events import Judged, Record
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.schema import LOG_NAME

FOLDER = "judge"  # of the verdicts, in the folder of the run or of its copy

AttemptKey = tuple[str, int]  # an attempt at an episode: its name, and the attempt's number


def verdicts_topic(run: str, log: str) -> str:
    """The name under which the verdicts on a run are published. It names the run's log, too: a
    later run of the same name gets none of them."""
    return f"{run}/judge/{log}"


def verdicts_in(folder: Path) -> Iterator[Record]:
    """Yield the records of verdicts in a folder's log, in order; none where there is no log. Raises
    LogError."""
    if not (folder / LOG_NAME).is_file():
        return
    with open_reader(folder) as reader:
        yield from verdicts_of(reader)


def verdicts_of(reader: LogReader) -> Iterator[Record]:
    """Yield the records of verdicts in a log, in order. Raises LogError."""
    for record in reader.milestones():
        if isinstance(record.event, Judged):
            yield record


def judged_by(reader: LogReader, judge: str) -> set[AttemptKey]:
    """The attempts on which a log has a verdict of the judge with this name. Raises LogError."""
    return {
        (record.episode, record.attempt)
        for record in verdicts_of(reader)
        if isinstance(record.event, Judged) and record.event.judge == judge
    }
