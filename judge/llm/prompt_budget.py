"""The prompt's budget: which items are shown, and how much of each.

The kinds get room in order of importance. Each may take half of what is left, so that the next ones
get something too; what is left at the end goes to those that got too little, in the same order.
Within a kind, the room is shared by a water level: short texts stay whole and long ones are
shortened in the middle to one length. Where not even the minimum of each fits, the least preferred
items are left out.

Everything is counted in bytes of UTF-8. The same items and room give the same selection.
"""

from collections.abc import Sequence

import msgspec

from rehearsal_room.judge.llm.prompt_items import EvidenceItem, ItemKind
from rehearsal_room.judge.llm.quoting import (
    Quote,
    excerpt,
    is_shortened,
    num_bytes,
    quote_cost,
    shorten,
)

LEAST_TEXT = 160  # bytes to which a text may be shortened; shorter texts stay whole
# Where items are left out, the others may get a little more than the minimum.
_DRAFT_TEXT = 4 * LEAST_TEXT
# Bytes for all items that give task, ending and answer their minimum, whatever their texts: one
# half is enough for a task (with user and time), a quarter for an ending (with its reason) and an
# eighth for an answer.
LEAST_ROOM = 2_400
_LATEST_FIRST = frozenset(
    (
        ItemKind.FAILED_CALL,
        ItemKind.WRITING_CALL,
        ItemKind.LAST_CALL,
        ItemKind.READ,
        ItemKind.MESSAGE,
        ItemKind.THOUGHT,
    )
)


class _Draft(msgspec.Struct, frozen=True, gc=False):
    """An item with its texts made visible; `index` is its index among all items."""

    index: int
    quotes: tuple[Quote, ...]
    sizes: tuple[int, ...]  # bytes of the texts
    frame: int  # bytes of the words around them

    @property
    def whole(self) -> int:
        """The bytes that it takes unshortened."""
        return self.frame + sum(self.sizes)

    @property
    def least(self) -> int:
        """The fewest bytes that it takes."""
        return self.frame + sum([min(size, LEAST_TEXT) for size in self.sizes])


class _Share(msgspec.Struct, frozen=True, gc=False):
    """What one kind gets: the drafts that are shown, the most bytes of a text, and the bytes of all
    of them."""

    drafts: tuple[_Draft, ...]
    level: int
    used: int


class PromptBudget:
    """Items that compete for `room` bytes."""

    def __init__(self, items: Sequence[EvidenceItem], room: int) -> None:
        self._num_items = len(items)
        self._room = room
        self._drafts: dict[ItemKind, list[_Draft]] = {}
        left = room
        for kind in sorted({item.kind for item in items}):
            indices = [index for index, item in enumerate(items) if item.kind is kind]
            if kind in _LATEST_FIRST:
                indices.reverse()
            length = sum([len(text) for index in indices for _, text in items[index].texts])
            self._drafts[kind] = _drafts(items, indices, left)
            left -= min(length, left // 2)  # this kind takes at least that much

    @property
    def fits(self) -> bool:
        """Whether all items can be shown without shortening."""
        drafts = [draft for drafts in self._drafts.values() for draft in drafts]
        return (
            len(drafts) == self._num_items
            and sum([draft.whole for draft in drafts]) <= self._room
            and not any(is_shortened(quote.text) for draft in drafts for quote in draft.quotes)
        )

    def select(self, room: int) -> list[tuple[Quote, ...] | None]:
        """The quotes of each item, within `room` bytes; None: the item is left out."""
        shown: list[tuple[Quote, ...] | None] = [None] * self._num_items
        for share in _shares(self._drafts, room):
            for draft in share.drafts:
                shown[draft.index] = _at_most(draft, share.level)
        return shown


def water_level(sizes: Sequence[int], room: int) -> int:
    """The largest number to which sizes may be cut so that their sum is no more than `room`; the
    largest size where all fit.

    Example: sizes [10, 50, 90], room 100 -> 45 (10 + 45 + 45)
    """
    left = room
    for index, size in enumerate(ordered := sorted(sizes)):
        each = left // (len(ordered) - index)
        if size > each:
            return max(each, 0)
        left -= size
    return ordered[-1] if sizes else 0


def _drafts(items: Sequence[EvidenceItem], indices: Sequence[int], room: int) -> list[_Draft]:
    """The drafts of one kind that may be shown. A log may hold megabytes, so what cannot fit,
    whatever else is left out, is not processed: neither the least preferred of too many items, nor
    the middle of too long texts."""
    chosen: list[EvidenceItem] = []
    least = 0
    for index in indices:
        item = items[index]
        least += sum([min(len(text), LEAST_TEXT) for _, text in item.texts])
        if least > room:
            break
        chosen.append(item)
    lengths = [len(text) for item in chosen for _, text in item.texts]
    most = room if sum(lengths) <= room else max(water_level(lengths, room), _DRAFT_TEXT)
    return [_draft(index, item, most) for index, item in zip(indices, chosen, strict=False)]


def _draft(index: int, item: EvidenceItem, most: int) -> _Draft:
    quotes = tuple(
        [Quote(item.evidence_id, about, excerpt(text, most)) for about, text in item.texts]
    )
    sizes = tuple([num_bytes(quote.text) for quote in quotes])
    frame = sum([quote_cost(quote) for quote in quotes]) - sum(sizes)
    return _Draft(index, quotes, sizes, frame)


def _at_most(draft: _Draft, level: int) -> tuple[Quote, ...]:
    """The draft's quotes with texts of at most `level` bytes."""
    return tuple(
        [
            quote
            if size <= level
            else Quote(quote.evidence_id, quote.about, shorten(quote.text, level))
            for quote, size in zip(draft.quotes, draft.sizes, strict=True)
        ]
    )


def _shares(kinds: dict[ItemKind, list[_Draft]], room: int) -> list[_Share]:
    """Each kind's share: half of what the kinds before it leave, then what all of them leave."""
    left = room
    used: dict[ItemKind, int] = {}
    for kind, drafts in kinds.items():
        used[kind] = _share(drafts, left // 2).used
        left -= used[kind]
    shares = []
    for kind, drafts in kinds.items():
        share = _share(drafts, used[kind] + left)
        left -= share.used - used[kind]
        shares.append(share)
    return shares


def _share(drafts: Sequence[_Draft], room: int) -> _Share:
    """As many drafts as fit at their minimum, and the level that shares the room among them."""
    chosen: list[_Draft] = []
    least = 0
    for draft in drafts:
        least += draft.least
        if least > room:
            break
        chosen.append(draft)
    frame = sum(draft.frame for draft in chosen)
    sizes = [size for draft in chosen for size in draft.sizes]
    level = water_level(sizes, room - frame)
    return _Share(tuple(chosen), level, frame + sum(min(size, level) for size in sizes))
