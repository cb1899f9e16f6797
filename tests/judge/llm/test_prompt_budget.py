"""The prompt's budget: what fits, and how the room is shared."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.judge.llm.prompt_budget import PromptBudget, water_level
from rehearsal_room.judge.llm.prompt_items import EvidenceItem, ItemKind
from rehearsal_room.judge.llm.quoting import is_shortened, num_bytes, quote_cost

ITEMS = st.lists(
    st.builds(
        EvidenceItem,
        st.sampled_from(ItemKind),
        st.just("S1"),
        st.lists(
            st.tuples(
                st.just("said"), st.sampled_from(["", "a", "é" * 90, "b\n" * 200, "\0" * 999])
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
    ),
    max_size=30,
)


def shown(items: Sequence[EvidenceItem], room: int) -> list[list[int] | None]:
    """The bytes of each text of each item."""
    return [
        None if quotes is None else [num_bytes(quote.text) for quote in quotes]
        for quotes in PromptBudget(items, room).select(room)
    ]


def read(length: int) -> EvidenceItem:
    """A reading call with a result of this size."""
    return EvidenceItem(ItemKind.READ, "S1", (("result", "a" * length),))


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(0, 200))
def test_water_level(sizes: list[int], room: int) -> None:
    """The level is the largest that fits, or the largest size where all fit."""
    level = water_level(sizes, room)
    assert sum(min(size, level) for size in sizes) <= room
    if sum(sizes) <= room:
        assert level == max(sizes, default=0)
    else:
        assert sum(min(size, level + 1) for size in sizes) > room


@given(ITEMS, st.integers(0, 9000))
def test_the_room_is_never_exceeded(items: list[EvidenceItem], room: int) -> None:
    """Whatever the items, the selection fits and is deterministic; where all fit, all are shown."""
    budget = PromptBudget(items, room)
    chosen = budget.select(room)
    assert sum(quote_cost(quote) for quotes in chosen for quote in quotes or ()) <= room
    assert PromptBudget(items, room).select(room) == chosen
    whole = all(
        quotes is not None and not any(is_shortened(quote.text) for quote in quotes)
        for quotes in chosen
    )
    assert whole == budget.fits


def test_long_texts_are_cut_to_one_length() -> None:
    """Short texts stay whole; the room they leave goes to the long ones."""
    items = [read(100), read(2000), read(3000)]
    sizes = [one[0] for one in shown(items, 1000) if one]
    assert sizes[0] == 100
    assert sizes[1] == sizes[2] > 350


def test_the_latest_reads_stay_where_not_all_fit() -> None:
    """Of many reads the latest are shown, each with a useful size."""
    chosen = shown([read(1000) for _ in range(10)], 600)
    assert [one is None for one in chosen] == [True] * 7 + [False] * 3
    assert [160 <= one[0] <= 200 for one in chosen if one] == [True] * 3


def test_more_important_kinds_come_first() -> None:
    """The less important kind gets at most half of what the other leaves."""
    answer = EvidenceItem(ItemKind.ANSWER, "A", (("final answer", "b" * 5000),))
    alone = shown([answer], 2000)
    beside = shown([read(5000), answer], 2000)
    small = shown([read(200), answer], 2000)
    assert alone[0] and beside[0] and beside[1] and small[0] and small[1]
    assert 1900 < alone[0][0] <= 2000
    assert 1400 < beside[1][0] <= 1500
    assert 400 < beside[0][0] <= 500
    assert small[0][0] == 200
    assert 1700 < small[1][0] < 1800
