"""The history window that searches the older turns.

    retrieve:k    the last 3 turns, and before them, in order, the k best matches of the older ones

The query consists of the words of the task and of the newest turn. Turns are ranked by BM25 as
SQLite's full-text index FTS5 computes it, which comes with apsw: it needs no array library, and for
20 turns of 120 words takes 0.25 ms where rank-bm25 takes 1.1 ms and bm25s 1.2 ms.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import Message
from rehearsal_room.harness.history.base import (
    HistoryState,
    VisibleHistory,
    fingerprint_of,
    messages_of,
)

_NUM_LAST = 3  # newest turns, always shown: as many as AWM (arXiv:2602.10090) trains with
_MAX_QUERY_WORDS = 256  # a query of a thousand words takes 1.4 ms
_WORD = re.compile(r"[^\W_]+")


class Retrieve:
    """Shows the last 3 turns and the `num_turns` best matches of the older ones.

    While there are at most `num_turns` older turns, all are shown; from then on always
    `num_turns` + 3. Where too few turns share a word with the query, the newest of the others are
    shown.
    """

    def __init__(self, num_turns: int) -> None:
        self.num_turns = num_turns
        self.spec = f"retrieve:{num_turns}"
        self.fingerprint = fingerprint_of(self.spec, "fts5 unicode61")
        self.index = TurnIndex()

    def new_state(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> HistoryState:
        """An empty history that stores all turns, to search in them."""
        task = next((message.content for message in head if message.role == "user"), "")
        return _SearchedHistory(self, words_of(task))


class TurnIndex:
    """Ranks texts in one full-text index that is filled again for each query.

    So a ranking depends on its arguments alone, and an episode uses no memory here. Only one thread
    may use it at a time.
    """

    def __init__(self) -> None:
        self._database = apsw.Connection(":memory:")
        # A contentless table can be emptied by one command; deleting row by row costs ten times
        # as much as everything else.
        self._database.execute("CREATE VIRTUAL TABLE turns USING fts5(words, content='')")

    def rank(self, texts: Sequence[str], words: Iterable[str]) -> list[int]:
        """The indexes of the texts that contain one of the words, the best match first; of
        equal ones the later first.

        Example: rank(["order 7", "order 8", "a 7 and a 7"], ["7"]) -> [2, 0]
        """
        query = " OR ".join(f'"{word}"' for word in words)
        if not query:
            return []
        with self._database as database:
            database.execute("INSERT INTO turns (turns) VALUES ('delete-all')")
            database.executemany("INSERT INTO turns (rowid, words) VALUES (?, ?)", enumerate(texts))
            rows: list[Any] = database.execute(
                "SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY bm25(turns), rowid DESC",
                (query,),
            ).fetchall()
        return [index for (index,) in rows]


class _SearchedHistory:
    __slots__ = ("_policy", "_task", "_texts", "_turns")

    def __init__(self, policy: Retrieve, task: list[str]) -> None:
        self._policy = policy
        self._task = task
        self._turns: list[Sequence[Message]] = []
        self._texts: list[str] = []  # words of the older turns, in order

    def add(self, turn: Sequence[Message]) -> None:
        self._turns.append(turn)
        if len(self._turns) > _NUM_LAST:
            older = self._turns[-1 - _NUM_LAST]
            self._texts.append(" ".join(words_of(text_of(older))))

    def add_summary(self, text: str) -> None:
        """Ignored: this policy asks for no summary."""

    def visible(self) -> VisibleHistory:
        recalled = self._recall()
        first = len(self._texts)
        while recalled and recalled[-1] == first - 1:
            first = recalled.pop()
        if not first:
            return VisibleHistory(0, messages_of(self._turns))
        shown = [self._turns[turn] for turn in recalled]
        messages = messages_of([*shown, *self._turns[first:]])
        return VisibleHistory(first, messages, tuple(recalled))

    def _recall(self) -> list[int]:
        """Which of the older turns are shown, in order."""
        limit, count = self._policy.num_turns, len(self._texts)
        if count <= limit:
            return list(range(count))
        query = dict.fromkeys([*self._task, *words_of(text_of(self._turns[-1]))])
        ranking = self._policy.index.rank(self._texts, list(query)[:_MAX_QUERY_WORDS])
        chosen = dict.fromkeys([*ranking, *reversed(range(count))])
        return sorted(list(chosen)[:limit])


def text_of(turn: Sequence[Message]) -> str:
    """All text of a turn, its calls included."""
    parts = []
    for message in turn:
        parts.append(message.content)
        for call in message.calls:
            parts += (call.name, msgspec.json.encode(call.arguments).decode())
    return "\n".join(parts)


def words_of(text: str) -> list[str]:
    """The runs of letters and digits in a text, in lower case.

    Example: words_of('{"order_id": 7}') -> ["order", "id", "7"]
    """
    return _WORD.findall(text.lower())
