"""Export of a run's spans to a file: one OTLP request in protobuf, written in parts."""

from collections.abc import Collection, Iterator
from pathlib import Path

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.log.outputs import writing
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.profile.timeline import Timeline, TimelineSpan
from rehearsal_room.interop.otlp.encoding import SpanBatch, bytes_of
from rehearsal_room.interop.otlp.spans import SpanMaker


def export_spans(
    reader: LogReader, path: Path, maker: SpanMaker, episodes: Collection[str]
) -> None:
    """Write the spans of these episodes, of all their attempts. Raises LogError."""
    batch = SpanBatch(maker.run)
    selected = set(episodes)
    records = (record for record in reader.records() if record.episode in selected)
    try:
        with writing(path) as file:
            for part in _parts(records):
                for request in batch.add(maker.spans_of(part)):
                    file.write(bytes_of(request))
            file.write(bytes_of(batch.take()))
    except OSError as exc:
        raise LogError(f"{path}: the export cannot be written: {exc}") from exc


def _parts(records: Iterator[Record]) -> Iterator[TimelineSpan]:
    timeline = Timeline()
    for record in records:
        yield from timeline.add(record)
    yield from timeline.finish()
