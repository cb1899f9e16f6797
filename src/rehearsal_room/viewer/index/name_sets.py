"""Sets of names (tools, tables, tags, causes of errors, kinds of failure), each under an id.

Thousands of episodes share a few sets, so a row has the ids; see the table `names`.
"""

from collections.abc import Iterable

import msgspec

Names = tuple[str, ...]
_MAX_ORDERS = 50_000  # that are remembered


class NameSets(dict[Names, int]):
    """The id of each set of names, whatever their order. A set that is asked for the first time
    gets an id, and waits in `added` until it is stored."""

    def __init__(self, stored: Iterable[tuple[int, str]]) -> None:
        self.by_id = {number: tuple(msgspec.json.decode(text)) for number, text in stored}
        self.added: list[tuple[int, str]] = []
        super().__init__((names, number) for number, names in self.by_id.items())

    def __missing__(self, names: Names) -> int:
        ordered = tuple(sorted(names))
        number = self.get(ordered)
        if number is None:
            number = self[ordered] = len(self.by_id) + 1
            self.by_id[number] = ordered
            self.added.append((number, msgspec.json.encode(ordered).decode()))
        if len(self) < _MAX_ORDERS:
            self[names] = number
        return number
