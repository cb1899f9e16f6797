"""Folding a page of a log's records into the index: one transaction, all of it or nothing.

A page that was folded by another process in the meantime is not folded twice: the position is read
inside the transaction.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.core.errors import LogError
from harness.log.reader import StoredRecord
from harness.viewer.index import facts
from harness.viewer.index.episode_fold import EpisodeFold, Names
from harness.viewer.index.tables import (
    ADD_MOMENT,
    COLUMNS,
    INSERT_EPISODE,
    MOMENT_COLUMNS,
    MOMENTS_PER_SECOND,
    TEXTS_PER_EPISODE,
)

_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)
_MAX_KNOWN = 50_000  # episodes in memory; those that are over are forgotten first


class Folding:
    """Folds records into one index, in the order of the log. Not for concurrent use."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self._path = database, path
        self._known: dict[str, EpisodeFold] = {}
        self._ids: dict[Names, int] = {}
        self._names: dict[int, Names] = {}
        self._next_number = 0
        self.forget()

    def forget(self) -> None:
        """Read from the index again what was folded: something else has changed it."""
        self._known.clear()
        rows = self._database.execute("SELECT id, names FROM names").fetchall()
        self._names = {number: tuple(msgspec.json.decode(text)) for number, text in rows}
        self._ids = {names: number for number, names in self._names.items()}
        ((last,),) = self._database.execute("SELECT coalesce(max(number), 0) FROM episodes")
        self._next_number = last + 1

    def fold(self, records: Sequence[StoredRecord]) -> int:
        """Fold records that follow each other; returns the position of the last one. The caller
        has begun the transaction. Raises LogError for a record that is damaged."""
        page = _Page()
        position = 0
        self._read({record[1] for record in records} - self._known.keys())
        try:
            for record in records:
                position = record[0]
                add = _ADD.get(record[4])
                if add is not None:
                    add(self, page, record)
        except _DAMAGE as exc:
            raise LogError(
                f"{self._path}: the log is damaged: record {position} cannot be read: {exc}"
            ) from exc
        self._store(page)
        return position

    def _started(self, page: "_Page", record: StoredRecord) -> None:
        position, episode, attempt, _, _, at, data, _ = record
        before = self._known.get(episode)
        if before is not None:
            if before.attempt >= attempt:
                return
            page.replaced.append(before.number)
            page.touched.pop(before.number, None)
            if before.ending is None:  # it is not live any more
                page.moment(at)[_AT_ENDED] += 1
                page.moment(at)[_AT_RESTARTED] += 1
        fold = EpisodeFold.begin(self._next_number, episode, attempt, at, facts.started_of(data))
        self._next_number += 1
        self._known[episode] = fold
        fold.position = position
        page.touched[fold.number] = fold
        page.moment(at)[_AT_STARTED] += 1

    def _step(self, page: "_Page", record: StoredRecord) -> None:
        position, episode, attempt, _, _, at, data, _ = record
        fold = self._known.get(episode)  # most records are steps, so `_of` is written out here
        if fold is None or fold.attempt != attempt:
            return
        step = facts.step_of(data)
        moment = page.moments.get(int(at * MOMENTS_PER_SECOND)) or page.moment(at)
        moment[_AT_STEPS] += 1
        if fold.turns >= fold.kept:  # the seconds of a kept turn passed in another episode
            policy_s, calls_s = step.policy_s, step.calls_s
            moment[_AT_POLICY_S] += policy_s
            moment[_AT_CALLS_S] += calls_s
            waited = at - fold.last_at - policy_s - calls_s - step.user_s
            if waited > 0:
                moment[_AT_WAITED_S] += waited
        fold.position, fold.last_at = position, at
        page.touched[fold.number] = fold
        fold.add_step(step)

    def _summary(self, page: "_Page", record: StoredRecord) -> None:
        if (fold := self._of(page, record)) is not None:
            fold.add_summary(facts.summary_of(record[6]))

    def _ended(self, page: "_Page", record: StoredRecord) -> None:
        if (fold := self._of(page, record)) is not None:
            fold.end(facts.ended_of(record[6]), has_state=bool(record[7]))
            page.moment(record[5])[_AT_ENDED] += 1

    def _judged(self, page: "_Page", record: StoredRecord) -> None:
        if (fold := self._of(page, record)) is None:
            return
        is_first = fold.judge is None
        fold.judge_by(facts.judged_of(record[6]))
        if is_first and fold.label is not None:
            moment = page.moment(record[5])
            moment[_AT_JUDGED] += 1
            moment[_AT_COMPLETED] += fold.label == "completed"
            if fold.reward is not None:
                moment[_AT_REWARDED] += 1
                moment[_AT_REWARDS] += fold.reward

    def _of(self, page: "_Page", record: StoredRecord) -> EpisodeFold | None:
        """The episode of a record; None: a later attempt has begun, or it never began."""
        fold = self._known.get(record[1])
        if fold is None or fold.attempt != record[2]:
            return None
        page.touched[fold.number] = fold
        fold.position = record[0]
        fold.last_at = record[5]
        return fold

    def _read(self, episodes: set[str]) -> None:
        """Read what the index has of these episodes."""
        sql = (
            f"SELECT {', '.join(COLUMNS)} FROM episodes"
            " WHERE episode IN (SELECT value FROM json_each(?))"
        )
        listed = msgspec.json.encode(list(episodes)).decode()
        for row in self._database.execute(sql, (listed,)).fetchall():
            fold = EpisodeFold.of_row(row, self._names)
            self._known[fold.episode] = fold

    def _store(self, page: "_Page") -> None:
        run = self._database.executemany
        run("DELETE FROM episodes WHERE number = ?", [(number,) for number in page.replaced])
        texts = []
        for fold in page.touched.values():
            if fold.words and fold.num_texts < TEXTS_PER_EPISODE:
                rowid = fold.number * TEXTS_PER_EPISODE + fold.num_texts
                text = "\n".join(dict.fromkeys(fold.words))  # tools' names and results come again
                if not text.isascii():
                    text = text.encode("utf-8", "replace").decode()  # without lone surrogates
                texts.append((rowid, text))
                fold.num_texts += 1
            fold.words = []
        run(INSERT_EPISODE, [fold.row(self._id_of) for fold in page.touched.values()])
        run(ADD_MOMENT, [(moment, *values) for moment, values in page.moments.items()])
        # The words come last: a statement with OR REPLACE makes FTS5 write what it has gathered.
        run("INSERT INTO texts (rowid, text) VALUES (?, ?)", texts)
        if len(self._known) > _MAX_KNOWN:
            self._known = {name: one for name, one in self._known.items() if one.ending is None}

    def _id_of(self, names: Names) -> int:
        """The id of a set of names, whatever their order."""
        number = self._ids.get(names)
        if number is not None:
            return number
        ordered = tuple(sorted(names))
        number = self._ids.get(ordered)
        if number is None:
            number = len(self._names) + 1
            text = msgspec.json.encode(ordered).decode()
            self._database.execute("INSERT INTO names VALUES (?, ?)", (number, text))
            self._names[number] = ordered
            self._ids[ordered] = number
        if len(self._ids) < _MAX_KNOWN:
            self._ids[names] = number
        return number


class _Page:
    """What a page of records changes."""

    __slots__ = ("moments", "replaced", "touched")

    def __init__(self) -> None:
        self.touched: dict[int, EpisodeFold] = {}
        self.replaced: list[int] = []  # numbers of attempts that a later one replaces
        self.moments: dict[int, list[float]] = {}

    def moment(self, at: float) -> list[float]:
        """The counts of the moment of a time."""
        number = int(at * MOMENTS_PER_SECOND)
        found = self.moments.get(number)
        if found is None:
            found = self.moments[number] = [0] * len(MOMENT_COLUMNS)
        return found


_AT_STARTED, _AT_ENDED, _AT_RESTARTED, _AT_STEPS, _AT_JUDGED = range(5)
_AT_COMPLETED, _AT_REWARDS, _AT_REWARDED = range(5, 8)
_AT_POLICY_S, _AT_CALLS_S, _AT_WAITED_S = range(8, 11)
_Add = Callable[[Folding, _Page, Any], None]
_ADD: dict[str, _Add] = {
    "started": Folding._started,
    "step": Folding._step,
    "summary": Folding._summary,
    "ended": Folding._ended,
    "judged": Folding._judged,
}
