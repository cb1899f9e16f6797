"""The trace is JSON in the form that Perfetto reads, written while the log is read."""

import io
import json
from typing import Any

from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.profile.chrome_trace import ChromeTrace
from rehearsal_room.harness.profile.timeline import Timeline
from tests.support.timed_records import begin, end, merged, records, summary, turn, verdict

A = records(
    "a",
    [
        (1.0, begin()),
        (4.0, turn(2.0, 0.5, 0.5)),
        (4.5, summary(0.4, 1)),
        (6.0, turn(1.5)),
        (6.5, end(6.0)),
        (7.0, verdict()),
    ],
)
B = records("b", [(2.0, begin()), (3.5, turn(1.0, 0.1)), (4.5, turn(0.5)), (4.5, end(2.5))])


def trace(*runs: list[Record]) -> Any:
    file = io.BytesIO()
    writer = ChromeTrace(file)
    for number, stored in enumerate(runs):
        timeline = Timeline()
        parts = [part for record in stored for part in timeline.add(record)]
        for part in parts + timeline.finish():
            writer.add(f"run{number}", part)
    writer.close()
    return json.loads(file.getvalue())


def slices(found: Any) -> list[Any]:
    return [event for event in found["traceEvents"] if event["ph"] == "X"]


def test_each_episode_is_a_row_of_slices_inside_of_each_other() -> None:
    """Slices of one row are apart or one is inside of the other, as the format asks; rows and runs
    have names."""
    found = trace(merged(A, B), merged(B))
    for pid, tid in {(one["pid"], one["tid"]) for one in slices(found)}:
        row = [one for one in slices(found) if (one["pid"], one["tid"]) == (pid, tid)]
        open_until: list[int] = []
        for one in sorted(row, key=lambda one: (one["ts"], -one["dur"])):
            while open_until and open_until[-1] <= one["ts"]:
                open_until.pop()
            assert not open_until or one["ts"] + one["dur"] <= open_until[-1], one
            open_until.append(one["ts"] + one["dur"])
    names = {
        (one["name"], one["pid"], one["tid"]): one["args"]["name"]
        for one in found["traceEvents"]
        if one["ph"] == "M"
    }
    assert names == {
        ("process_name", 1, 0): "run0",
        ("process_name", 2, 0): "run1",
        ("thread_name", 1, 1): "a",
        ("thread_name", 1, 2): "b",
        ("thread_name", 2, 1): "b",
    }


def test_the_slices_of_an_episode() -> None:
    """Turns with model and tools, summaries, the wait for the world and the verdict."""
    at = 1_700_000_000_000_000
    found = [
        (one["cat"], one["name"], (one["ts"] - at) // 1000, one["dur"] // 1000)
        for one in slices(trace(A))
    ]
    assert found == [
        ("turn", "turn 0", 1000, 3000),
        ("model", "model", 1000, 2000),
        ("tool", "void_order", 3000, 500),
        ("tool", "void_order", 3500, 500),
        ("turn", "summary", 4100, 400),
        ("model", "model", 4100, 400),
        ("turn", "turn 1", 4500, 1500),
        ("model", "model", 4500, 1500),
        ("episode", "shop:void-7", 500, 6000),
        ("world", "world", 500, 500),
        ("judge", "judge code", 6500, 500),
    ]


def test_rows_stay_when_the_log_grows() -> None:
    """An earlier trace of the same run has the same slices, except for the episodes that were
    live."""
    stored = merged(A, B)
    whole = [json.dumps(one) for one in slices(trace(stored))]
    for count in range(len(stored)):
        early = [json.dumps(one) for one in slices(trace(stored[:count]))]
        finished = [one for one in early if '"ending": null' not in one]
        assert set(finished) - set(whole) == set()


def test_nothing_is_held_back() -> None:
    """A slice is in the file as soon as it is known, so memory does not grow with the trace."""
    file = io.BytesIO()
    writer, timeline = ChromeTrace(file), Timeline()
    for record in merged(A, B):
        for part in timeline.add(record):
            before = len(file.getvalue())
            writer.add("run", part)
            assert len(file.getvalue()) > before
