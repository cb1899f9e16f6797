"""The history policy that searches what fell out.

    retrieve:k    the last 3 turns, and before them, in order, the k best of the older ones

What is searched for are the words of the task and of the newest turn. Turns are ranked by BM25 as
SQLite's full-text index FTS5 computes it, which comes with apsw: it needs no array library, and for
20 turns of 120 words takes 0.25 ms where rank-bm25 takes 1.1 ms and bm25s 1.2 ms.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import msgspec

from envpool.core.types import ToolSpec
from harness.core.messages import Message
from harness.history.base import Keeper, Kept, fingerprint_of, joined

_NUM_LAST = 3  # turns that are always shown, as many as AWM (arXiv:2602.10090) trains with
_MOST_WORDS = 256  # that are searched for; a thousand take 1.4 ms
_WORD = re.compile(r"[^\W_]+")


class Retrieve:
    """The last turns and the `num_turns` best of those before.

    Until more than that have fallen out, all turns are shown; from then on always `num_turns` + 3.
    Where too few turns share a word with what is searched for, the newest of the others are taken.
    """

    def __init__(self, num_turns: int) -> None:
        self.num_turns = num_turns
        self.spec = f"retrieve:{num_turns}"
        self.fingerprint = fingerprint_of(self.spec, "fts5 unicode61")
        self.index = TurnIndex()

    def keeper(self, head: Sequence[Message], tools: tuple[ToolSpec, ...]) -> Keeper:
        """Keeps all turns, to search in."""
        task = next((message.content for message in head if message.role == "user"), "")
        return _RetrieveKeeper(self, words_of(task))


class TurnIndex:
    """Ranks texts in one full-text index that is filled anew for each question.

    So a ranking follows from its arguments alone, and an episode costs no memory here. For one
    thread at a time.
    """

    def __init__(self) -> None:
        self._database = apsw.Connection(":memory:")
        # Without content of its own, the table is emptied in one go; row by row costs ten times
        # as much as all the rest.
        self._database.execute("CREATE VIRTUAL TABLE turns USING fts5(words, content='')")

    def ranking(self, texts: Sequence[str], words: Iterable[str]) -> list[int]:
        """The places of the texts that hold one of the words, the best first; of equal ones the
        later first.

        Example: ranking(["order 7", "order 8", "a 7 and a 7"], ["7"]) -> [2, 0]
        """
        wanted = " OR ".join(f'"{word}"' for word in words)
        if not wanted:
            return []
        with self._database as database:
            database.execute("INSERT INTO turns (turns) VALUES ('delete-all')")
            database.executemany("INSERT INTO turns (rowid, words) VALUES (?, ?)", enumerate(texts))
            rows: list[Any] = database.execute(
                "SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY bm25(turns), rowid DESC",
                (wanted,),
            ).fetchall()
        return [place for (place,) in rows]


class _RetrieveKeeper:
    __slots__ = ("_policy", "_task", "_texts", "_turns")

    def __init__(self, policy: Retrieve, task: list[str]) -> None:
        self._policy = policy
        self._task = task
        self._turns: list[Sequence[Message]] = []
        self._texts: list[str] = []  # of the turns that fell out, in order

    def keep(self, turn: Sequence[Message]) -> None:
        self._turns.append(turn)
        if len(self._turns) > _NUM_LAST:
            fallen = self._turns[-1 - _NUM_LAST]
            self._texts.append(" ".join(words_of(text_of(fallen))))

    def summarised(self, text: str) -> None:
        """Nothing changes."""

    def kept(self) -> Kept:
        best = self._best()
        first = len(self._texts)
        while best and best[-1] == first - 1:
            first = best.pop()
        if not first:
            return Kept(0, joined(self._turns))
        shown = [self._turns[turn] for turn in best]
        return Kept(first, joined([*shown, *self._turns[first:]]), tuple(best))

    def _best(self) -> list[int]:
        """The turns that are shown of those that fell out, in order."""
        most, count = self._policy.num_turns, len(self._texts)
        if count <= most:
            return list(range(count))
        asked = dict.fromkeys([*self._task, *words_of(text_of(self._turns[-1]))])
        ranking = self._policy.index.ranking(self._texts, list(asked)[:_MOST_WORDS])
        found = dict.fromkeys([*ranking, *reversed(range(count))])
        return sorted(list(found)[:most])


def text_of(turn: Sequence[Message]) -> str:
    """All that a turn says, its calls included."""
    parts = []
    for message in turn:
        parts.append(message.content)
        for call in message.calls:
            parts += (call.name, msgspec.json.encode(call.arguments).decode())
    return "\n".join(parts)


def words_of(text: str) -> list[str]:
    """Runs of letters and digits, in lower case.

    Example: words_of('{"order_id": 7}') -> ["order", "id", "7"]
    """
    return _WORD.findall(text.lower())
