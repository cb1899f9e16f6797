"""The tokens that an engine has computed already: live prompts and cached sequences.

A new prompt reuses the keys and values of its longest known beginning: the members of a group share
their task's prompt, and an episode whose window only grew continues from its previous reply.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Tokens = NDArray[np.int32]
_EMPTY = -1  # fills rows of the table after the end of a sequence; no token has this id


class PrefixTable:
    """Finds the row that shares the longest beginning with a prompt, by one comparison of all rows.

    Example: rows [5, 6, 7] and [5, 8], prompt [5, 6, 9] -> (row 0, 2 tokens)
    """

    def __init__(self) -> None:
        self._tokens: Tokens = np.full((8, 256), _EMPTY, np.int32)
        self._free = list(range(8))
        self._used: dict[int, int] = {}  # row -> its number of tokens

    def add(self, tokens: Tokens) -> int:
        """Add a sequence; returns its row."""
        self._make_room(len(tokens))
        row = self._free.pop()
        self._tokens[row, : len(tokens)] = tokens
        self._used[row] = len(tokens)
        return row

    def remove(self, row: int) -> None:
        """Remove a row."""
        self._tokens[row] = _EMPTY
        del self._used[row]
        self._free.append(row)

    def longest(self, prompt: Tokens) -> tuple[int, int]:
        """The row with the longest common beginning, and its length in tokens; (-1, 0): none."""
        if not self._used:
            return -1, 0
        width = min(len(prompt), self._tokens.shape[1])
        differs = np.ones((len(self._tokens), width + 1), bool)
        np.not_equal(self._tokens[:, :width], prompt[:width], out=differs[:, :width])
        lengths = differs.argmax(1)
        row = int(lengths.argmax())
        return (row, int(lengths[row])) if lengths[row] else (-1, 0)

    def _make_room(self, num_tokens: int) -> None:
        rows, width = self._tokens.shape
        if self._free and num_tokens <= width:
            return
        more = 0 if self._free else rows
        wider = max(width, -(-num_tokens // 256) * 256)
        grown: Tokens = np.full((rows + more, wider), _EMPTY, np.int32)
        grown[:rows, :width] = self._tokens
        self._tokens = grown
        self._free += range(rows, rows + more)


class SequenceCache:
    """Keys and values of finished sequences; the least recently used one is removed first.

    `budget` is in bytes. Rows are those of the table, to which it adds and from which it removes.
    """

    def __init__(self, table: PrefixTable, budget: int) -> None:
        self._table = table
        self._budget = budget
        self._rows: dict[int, Tensor] = {}  # in the order of their last use
        self.num_bytes = 0

    def __contains__(self, row: int) -> bool:
        return row in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, row: int) -> Tensor:
        """A sequence's keys and values `[layers, 2, G, tokens, D]`; this counts as a use."""
        stored = self._rows.pop(row)
        self._rows[row] = stored
        return stored

    def add(self, tokens: Tokens, stored: Tensor) -> None:
        """Cache a sequence. If it extends a cached one, that one is removed."""
        size = stored.element_size() * stored.nelement()
        if size > self._budget:
            return
        row, length = self._table.longest(tokens)
        if row in self._rows and length == self._rows[row].shape[3]:
            self._drop(row)
        while self.num_bytes + size > self._budget:
            self._drop(next(iter(self._rows)))
        self._rows[self._table.add(tokens)] = stored
        self.num_bytes += size

    def _drop(self, row: int) -> None:
        stored = self._rows.pop(row)
        self.num_bytes -= stored.element_size() * stored.nelement()
        self._table.remove(row)


def as_tokens(ids: Sequence[int]) -> Tokens:
    """Token ids as an array. Raises OverflowError for numbers that do not fit into int32."""
    return np.asarray(ids, np.int32)


def shared_length(one: Tokens, other: Tokens) -> int:
    """The length of the common beginning."""
    width = min(len(one), len(other))
    differs = np.flatnonzero(one[:width] != other[:width])
    return int(differs[0]) if len(differs) else width


def device_numbers(values: Sequence[int], device: torch.device) -> Tensor:
    """Numbers as an int64 tensor on the device."""
    return torch.tensor(values, dtype=torch.int64, device=device)
