"""A run as a Chrome trace: JSON that Perfetto and chrome://tracing show.

Each run is a process, each episode a row of it, with slices for the episode, its turns, and in a
turn the model and the tools; the verdict follows the episode. Rows are numbered in the order in
which the episodes first began, so an episode keeps its row when the log has grown. Times are whole
microseconds since 1970. The format: "Trace Event Format" of the Catapult project.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act
from rehearsal_room.harness.profile.timeline import EpisodeSpan, TimelineSpan, TurnSpan, VerdictSpan

_encode = msgspec.json.Encoder().encode
_Slice = dict[str, Any]


class ChromeTrace:
    """Writes a trace into a file, a slice as soon as it is known; `close` makes the file whole."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._runs: dict[str, int] = {}  # run -> number of its process, from 1
        self._rows: dict[tuple[str, str], int] = {}  # (run, episode) -> row
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        self._separator = b"\n"

    def add(self, run: str, part: TimelineSpan) -> None:
        """Write the slices of a span of a run."""
        process = self._process(run)
        row = self._row(run, process, part)
        for one in _slices(part):
            self._write({"ph": "X", "pid": process, "tid": row, **one})

    def close(self) -> None:
        """Write the end."""
        self._file.write(b"\n]}\n")

    def _process(self, run: str) -> int:
        if run not in self._runs:
            self._runs[run] = len(self._runs) + 1
            self._name("process_name", self._runs[run], 0, run)
        return self._runs[run]

    def _row(self, run: str, process: int, part: TimelineSpan) -> int:
        row = self._rows.get((run, part.episode))
        if row is None:
            row = self._rows[run, part.episode] = part.row
            self._name("thread_name", process, row, part.episode)
        return row

    def _name(self, what: str, process: int, row: int, name: str) -> None:
        self._write({"ph": "M", "pid": process, "tid": row, "name": what, "args": {"name": name}})

    def _write(self, event: _Slice) -> None:
        self._file.write(self._separator + _encode(event))
        self._separator = b",\n"


def _slices(part: TimelineSpan) -> Iterator[_Slice]:
    """The slices of a span, from the outside in."""
    where = {"episode": part.episode, "attempt": part.attempt}
    if isinstance(part, EpisodeSpan):
        started, ended = part.started, part.event
        label = f"{started.scenario}:{started.task}"
        args = where | {
            "policy": started.policy,
            "turns": part.num_turns,
            "ending": None if ended is None else ended.ending,
        }
        yield _slice(label, "episode", part.began, part.ended, args)
        if part.started_at > part.began:
            yield _slice("world", "world", part.began, part.started_at, where)
    elif isinstance(part, VerdictSpan):
        args = where | {"label": part.event.label, "reward": part.event.reward}
        yield _slice(f"judge {part.event.judge}", "judge", part.began, part.ended, args)
    else:
        yield from _turn_slices(part, where | {"turn": part.number})


def _turn_slices(turn: TurnSpan, args: _Slice) -> Iterator[_Slice]:
    event, usage = turn.event, turn.event.reply.usage
    name = f"turn {turn.number}" if isinstance(event, StepTaken) else "summary"
    yield _slice(name, "turn", turn.began, turn.ended, args)
    tokens = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "attempts": event.reply.attempts,
    }
    yield _slice("model", "model", turn.began, turn.replied, args | tokens)
    if not isinstance(event, StepTaken) or not isinstance(event.decision, Act):
        return
    made = zip(event.decision.calls, event.results, turn.calls(), strict=False)
    for call, result, (began, ended) in made:
        yield _slice(call.name, "tool", began, ended, args | {"id": call.id, "error": result.error})


def _slice(name: str, category: str, began: float, ended: float, args: _Slice) -> _Slice:
    # Both ends are rounded, not the duration: so slices that touch still do, and none crosses.
    start = round(began * 1e6)
    return {
        "name": name,
        "cat": category,
        "ts": start,
        "dur": round(ended * 1e6) - start,
        "args": args,
    }
