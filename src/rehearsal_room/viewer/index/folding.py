"""Folding a page of a log's records into the index: one transaction, all of it or nothing.

A page that was folded by another process in the meantime is not folded twice: the position is read
inside the transaction.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.mistakes import Diagnosis
from rehearsal_room.harness.log.reader import StoredRecord
from rehearsal_room.viewer.index import facts, moments
from rehearsal_room.viewer.index.episode_fold import EpisodeFold
from rehearsal_room.viewer.index.moments import Moments
from rehearsal_room.viewer.index.name_sets import NameSets
from rehearsal_room.viewer.index.tables import (
    ADD_CALL_ERROR,
    ADD_MOMENT,
    INSERT_EPISODE,
    SELECT_EPISODE,
    SET_DIAGNOSIS,
    TEXTS_PER_EPISODE,
)

_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)
_MAX_KNOWN = 50_000  # episodes in memory; those that are over are forgotten first


class Folding:
    """Folds records into one index, in the order of the log. Not for concurrent use."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self._path = database, path
        self.forget()

    def forget(self) -> None:
        """Read from the index again what was folded: something else has changed it."""
        self._page = _Page()
        self._known: dict[str, EpisodeFold] = {}
        self._names = NameSets(self._database.execute("SELECT id, names FROM names").fetchall())
        ((last,),) = self._database.execute("SELECT coalesce(max(number), 0) FROM episodes")
        self._next_number = last + 1
        self._knows_all = last == 0  # no episode has to be looked up

    def add(self, records: Sequence[StoredRecord]) -> None:
        """Add records that follow those before; the caller has begun the transaction. Raises
        LogError for a record that is damaged."""
        by_episode: defaultdict[str, list[StoredRecord]] = defaultdict(list)
        for record in records:
            by_episode[record[1]].append(record)
        if not self._knows_all:
            self._read([episode for episode in by_episode if episode not in self._known])
        for of_episode in by_episode.values():
            self._add_to_one(of_episode)

    def _add_to_one(self, records: list[StoredRecord]) -> None:
        """Add records of one episode."""
        page, fold = self._page, self._known.get(records[0][1])
        turns: list[tuple[float, facts.StepFact]] = []  # those that are not in `fold` yet
        position = 0
        try:
            for record in records:
                position, _, attempt, kind, at, data, _ = record
                if kind == "fault":
                    page.num_faults += 1
                elif kind == "started":
                    fold = self._start(record, fold)
                elif fold is not None and fold.attempt == attempt:
                    fold.position = position
                    if kind == "step":
                        turns.append((at, facts.step_of(data)))
                        continue
                    fold.add_turns(turns, page.moments)
                    turns = []
                    _add_milestone(fold, record, page.moments)
            if fold is not None:
                fold.add_turns(turns, page.moments)
                page.touched[fold.episode] = fold
        except _DAMAGE as exc:
            raise LogError(
                f"{self._path}: the log is damaged: record {position} cannot be read: {exc}"
            ) from exc

    def _start(self, record: StoredRecord, before: EpisodeFold | None) -> EpisodeFold:
        """Begin an attempt at an episode; returns the latest one."""
        position, episode, attempt, _, at, data, _ = record
        counts = self._page.moments.at(at)
        if before is not None:
            if before.attempt >= attempt:
                return before
            self._page.replaced.append(before.number)
            if before.ending is None:  # it is not live any more
                counts[moments.ENDED] += 1
                counts[moments.RESTARTED] += 1
        fold = EpisodeFold.begin(self._next_number, episode, attempt, at, facts.started_of(data))
        fold.position = position
        self._next_number += 1
        self._known[episode] = fold
        counts[moments.STARTED] += 1
        return fold

    def store(self) -> int:
        """Write what was added since the last time; returns the number of faults in it."""
        page, self._page = self._page, _Page()
        run = self._database.executemany
        for table in ("episodes", "call_errors"):
            sql = f"DELETE FROM {table} WHERE number = ?"  # nosec B608 # a constant
            run(sql, [(number,) for number in page.replaced])
        texts, errors = [], Counter[tuple[int, str, str]]()
        for fold in page.touched.values():
            if fold.words and fold.num_texts < TEXTS_PER_EPISODE:
                texts.append((fold.number * TEXTS_PER_EPISODE + fold.num_texts, *fold.take_texts()))
                fold.num_texts += 1
            if fold.failed_calls:
                errors.update((fold.number, *one) for one in fold.failed_calls)
                fold.failed_calls = []
        rows = [fold.row(self._names) for fold in page.touched.values()]
        run("INSERT INTO names VALUES (?, ?)", self._names.added)
        self._names.added = []
        run(INSERT_EPISODE, rows)
        run(ADD_CALL_ERROR, [(*key, number) for key, number in errors.items()])
        run(ADD_MOMENT, [(moment, *values) for moment, values in page.moments.items()])
        # The words come last: a statement with OR REPLACE makes FTS5 write what it has gathered.
        run("INSERT INTO texts (rowid, text, results) VALUES (?, ?, ?)", texts)
        if len(self._known) > _MAX_KNOWN:
            self._known = {name: one for name, one in self._known.items() if one.ending is None}
            self._knows_all = False
        return page.num_faults

    def add_diagnoses(self, found: Sequence[tuple[str, int, Diagnosis]]) -> int:
        """Write the mistakes of episodes that are over, each with the position of its latest
        record: one that has a later record by now is left as it is. Returns how many were
        written."""
        rows = []
        for episode, position, diagnosis in found:
            kinds = tuple(map(str, diagnosis.kinds))
            turn = min([one.turn for one in diagnosis.mistakes], default=-1)
            rows.append((self._names[kinds], turn, episode, position))
            fold = self._known.get(episode)
            if fold is not None and fold.position == position:
                fold.add_diagnosis(kinds, turn)
        self._database.executemany("INSERT INTO names VALUES (?, ?)", self._names.added)
        self._names.added = []
        return self._database.executemany(SET_DIAGNOSIS, rows).rowcount

    def _read(self, episodes: list[str]) -> None:
        """Read what the index has of these episodes."""
        sql = f"{SELECT_EPISODE} WHERE episode IN (SELECT value FROM json_each(?))"
        listed = msgspec.json.encode(episodes).decode()
        for row in self._database.execute(sql, (listed,)).fetchall():
            fold = EpisodeFold.of_row(row, self._names)
            self._known[fold.episode] = fold


class _Page:
    """What the records that were added change."""

    __slots__ = ("moments", "num_faults", "replaced", "touched")

    def __init__(self) -> None:
        self.touched: dict[str, EpisodeFold] = {}
        self.replaced: list[int] = []  # numbers of attempts that a later one replaces
        self.moments = Moments()
        self.num_faults = 0


def _add_milestone(fold: EpisodeFold, record: StoredRecord, at_moments: Moments) -> None:
    """Add a record that is neither a start nor a turn."""
    _, _, _, kind, at, data, has_state = record
    fold.last_at = at
    if kind == "ended":
        fold.end(facts.ended_of(data), has_state=bool(has_state))
        at_moments.at(at)[moments.ENDED] += 1
    elif kind == "summary":
        fold.add_summary(facts.summary_of(data))
    elif kind == "judged":
        is_first = fold.judge is None
        fold.judge_by(facts.judged_of(data))
        if is_first and fold.label is not None:
            at_moments.add_verdict(at, fold.label, fold.reward)
