"""Where in an episode the words of a search are: the turn, and the text around them.

The index has words only, so the episode's texts are read from the log and searched with the same
tokenizer, in a table in memory.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

import msgspec

from rehearsal_room.harness.core.messages import Act, FormatError
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.viewer.index.search import Clause, clauses_of
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.reading.plain import plain

MAX_EPISODES = 100  # of one question
_MARKS = "\x02", "\x03"  # around a word that was found
_WORDS = 14  # of a snippet


class Hit(msgspec.Struct, frozen=True):
    """The first place in an episode that has the most words of a search."""

    turn: int | None  # from 0; None: not in a turn
    place: str  # instruction, reply, call, result, user, answer, verdict
    snippet: Sequence[str]  # text, found, text, found, …, text
    num_places: int  # texts of the episode that have a word


def hits_in(run: ShownRun, text: str, episodes: Sequence[str]) -> dict[str, Hit]:
    """The hits of a search in episodes; one that has the words only in its id has none. Raises
    SettingsError and LogError."""
    wanted = [clause for clause in clauses_of(text) if not clause.is_not]
    found: dict[str, Hit] = {}
    if not wanted:
        return found
    for episode in episodes[:MAX_EPISODES]:
        with run.reading() as reader:
            trajectory = reader.trajectory(episode) if reader.has_episode(episode) else None
        if trajectory is not None and (hit := _hit(trajectory, wanted)):
            found[episode] = hit
    return found


def _hit(trajectory: Trajectory, wanted: Sequence[Clause]) -> Hit | None:
    any_of = " OR ".join(clause.fts for clause in wanted)
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE VIRTUAL TABLE t USING fts5(text, results, turn UNINDEXED, place UNINDEXED)"
        )
        database.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", _texts(trajectory))
        sql = (
            f"SELECT turn, place, snippet(t, -1, ?, ?, '…', {_WORDS}) FROM t WHERE t MATCH ?"  # nosec B608 # a constant
            " ORDER BY rowid"
        )
        rows = database.execute(sql, (*_MARKS, any_of)).fetchall()
    if not rows:
        return None
    turn, place, snippet = max(rows, key=lambda row: _found_in(row[2]))  # the first of the best
    begin, end = _MARKS
    return Hit(turn, place, snippet.replace(end, begin).split(begin), len(rows))


def _found_in(snippet: str) -> int:
    """How many different words are marked in a snippet."""
    return len(set(snippet.casefold().replace(_MARKS[1], _MARKS[0]).split(_MARKS[0])[1::2]))


def _texts(trajectory: Trajectory) -> Iterator[tuple[str, str, int | None, str]]:
    """The texts of an episode in the order of its page, each with its turn and place."""
    for turn, place, text in _places(trajectory):
        if text:
            clean = str(plain(text))
            for mark in _MARKS:
                clean = clean.replace(mark, " ")
            of_tool, other = (clean, "") if place == "result" else ("", clean)
            yield other, of_tool, turn, place


def _places(trajectory: Trajectory) -> Iterator[tuple[int | None, str, str]]:
    yield None, "instruction", trajectory.started.instruction
    yield None, "task", trajectory.started.task
    for turn, step in enumerate(trajectory.steps):
        decision = step.decision
        yield turn, "reply", step.reply.text
        if isinstance(decision, FormatError):
            yield turn, "reply", decision.reason
        calls = decision.calls if isinstance(decision, Act) else ()
        user = step.user
        for call in (*calls, *(() if user is None else user.calls)):
            yield turn, "call", f"{call.name} {msgspec.json.encode(call.arguments).decode()}"
        for result in (*step.results, *(() if user is None else user.results)):
            yield turn, "result", result.text
        if user is not None:
            yield turn, "user", user.text
    last = len(trajectory.steps) - 1
    for summary in trajectory.summaries:
        yield min(summary.turn, last), "summary", summary.reply.text
    ended = trajectory.ended
    if ended is not None:
        if last < 0 or ended.answer != trajectory.steps[last].reply.text:
            yield (last if last >= 0 else None), "answer", ended.answer
        yield None, "end", ended.error or ""
    for judged in trajectory.judged:
        yield None, "verdict", judged.reasoning
        yield None, "verdict", judged.unjudged or ""
        for one in judged.findings:
            if not one.passed:
                yield None, "verdict", f"{one.name}: {one.found}"
        for model in (*judged.judgements, *judged.asked):
            yield None, "verdict", f"{model.reasoning} {model.fault}"
