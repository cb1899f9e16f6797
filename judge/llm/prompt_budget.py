"""What is shown under a budget: which items, and how much of each.

The kinds are served in order of importance. Each may take half of what is left, so that the next
ones get something, too; what is left in the end goes to those that got too little, in the same
order. Within a kind, the room is shared as water fills a basin: short texts stay whole and long
ones are shortened in the middle to one length. Where not even the least of each fits, the last
ones of the preference are left out.

Everything is counted in bytes of UTF-8. The same items and room give the same choice.
"""

from collections.abc import Sequence

import msgspec

from judge.llm.prompt_items import Item, Kind
from judge.llm.quoting import Quote, excerpt, is_shortened, num_bytes, quote_cost, shortened

LEAST_TEXT = 160  # bytes to which a text may be shortened; shorter ones stay
# Where some are left out, the others may get a little more than the least.
_DRAFT_TEXT = 4 * LEAST_TEXT
# Bytes for all items with which task, ending and answer have their least, whatever they hold:
# halves of it, of its half and of its quarter take a task (with user and time), an ending (with
# its reason) and an answer.
LEAST_ROOM = 2_400
_LATEST_FIRST = frozenset(
    (Kind.FAILED_CALL, Kind.WRITING_CALL, Kind.LAST_CALL, Kind.READ, Kind.SAID, Kind.THOUGHT)
)


class _Draft(msgspec.Struct, frozen=True, gc=False):
    """An item with its texts made visible; `index` is its place among all."""

    index: int
    quotes: tuple[Quote, ...]
    sizes: tuple[int, ...]  # bytes of the texts
    frame: int  # bytes of what stands around them

    @property
    def whole(self) -> int:
        """The bytes that it takes as it is."""
        return self.frame + sum(self.sizes)

    @property
    def least(self) -> int:
        """The bytes that it takes at least."""
        return self.frame + sum([min(size, LEAST_TEXT) for size in self.sizes])


class _Share(msgspec.Struct, frozen=True, gc=False):
    """What one kind gets: its drafts that are shown, the most bytes for a text, and the bytes that
    all take."""

    drafts: tuple[_Draft, ...]
    level: int
    used: int


class Fitting:
    """Items that are to be shown, in no more than `room` bytes."""

    def __init__(self, items: Sequence[Item], room: int) -> None:
        self._num_items = len(items)
        self._room = room
        self._drafts: dict[Kind, list[_Draft]] = {}
        left = room
        for kind in sorted({item.kind for item in items}):
            places = [index for index, item in enumerate(items) if item.kind is kind]
            if kind in _LATEST_FIRST:
                places.reverse()
            length = sum([len(text) for index in places for _, text in items[index].texts])
            self._drafts[kind] = _drafts(items, places, left)
            left -= min(length, left // 2)  # which is what this kind takes at least

    @property
    def fits(self) -> bool:
        """Whether all can be shown, whole."""
        drafts = [draft for drafts in self._drafts.values() for draft in drafts]
        return (
            len(drafts) == self._num_items
            and sum([draft.whole for draft in drafts]) <= self._room
            and not any(is_shortened(quote.text) for draft in drafts for quote in draft.quotes)
        )

    def shown(self, room: int) -> list[tuple[Quote, ...] | None]:
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


def _drafts(items: Sequence[Item], places: Sequence[int], room: int) -> list[_Draft]:
    """The drafts of one kind that may get a place. A log may hold megabytes, so what can have no
    place in the room, whatever else is left out, is not looked at: neither the last ones of too
    many, nor what is cut from the middle of too long ones."""
    chosen: list[Item] = []
    least = 0
    for index in places:
        item = items[index]
        least += sum([min(len(text), LEAST_TEXT) for _, text in item.texts])
        if least > room:
            break
        chosen.append(item)
    lengths = [len(text) for item in chosen for _, text in item.texts]
    most = room if sum(lengths) <= room else max(water_level(lengths, room), _DRAFT_TEXT)
    return [_draft(index, item, most) for index, item in zip(places, chosen, strict=False)]


def _draft(index: int, item: Item, most: int) -> _Draft:
    quotes = tuple([Quote(item.exhibit, about, excerpt(text, most)) for about, text in item.texts])
    sizes = tuple([num_bytes(quote.text) for quote in quotes])
    frame = sum([quote_cost(quote) for quote in quotes]) - sum(sizes)
    return _Draft(index, quotes, sizes, frame)


def _at_most(draft: _Draft, level: int) -> tuple[Quote, ...]:
    """The draft's quotes with texts of at most so many bytes."""
    return tuple(
        [
            quote
            if size <= level
            else Quote(quote.exhibit, quote.about, shortened(quote.text, level))
            for quote, size in zip(draft.quotes, draft.sizes, strict=True)
        ]
    )


def _shares(kinds: dict[Kind, list[_Draft]], room: int) -> list[_Share]:
    """Each kind's share: half of what the ones before have left, and then what all have left."""
    left = room
    used: dict[Kind, int] = {}
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
    """As many drafts as fit with their least, and the level that shares the room among them."""
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
