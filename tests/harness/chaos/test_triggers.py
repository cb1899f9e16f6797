"""When a fault comes: by a share that follows from the seed, or by the clock."""

from itertools import islice

from rehearsal_room.harness.chaos.settings import Fault
from rehearsal_room.harness.chaos.triggers import Trigger, draw, times_of


def test_a_share_follows_from_seed_and_key_alone() -> None:
    """The same keys are hit in whatever order they come, others with another seed or name."""
    keys = [(f"e{episode:06d}", 1, f"c{call}-0") for episode in range(100) for call in range(10)]

    def hit(seed: int, name: str, order: list[tuple[str, int, str]]) -> set[tuple[str, int, str]]:
        trigger = Trigger(name, Fault(share=0.1), seed)
        return {key for key in order if trigger.hits(0.0, *key)}

    first = hit(7, "tools.error", keys)
    assert hit(7, "tools.error", keys[::-1]) == first
    assert 70 < len(first) < 130
    assert len(first & hit(8, "tools.error", keys)) < 30
    assert len(first & hit(7, "tools.delay", keys)) < 30
    assert 0.0 <= draw(7, "x") < 1.0


def test_times_are_counted_from_the_start() -> None:
    """`every` has no end, unless `most` gives it one; `at` is sorted."""
    assert list(islice(times_of(Fault(every=2.5)), 3)) == [2.5, 5.0, 7.5]
    assert list(times_of(Fault(every=2.0, most=2))) == [2.0, 4.0]
    assert list(times_of(Fault(at=(5.0, 1.0)))) == [1.0, 5.0]
    assert list(times_of(Fault(share=0.1))) == []


def test_a_due_fault_hits_what_comes_next_once() -> None:
    """Without a duration one thing is hit for all times that have passed."""
    trigger = Trigger("tools.delay", Fault(at=(1.0, 2.0, 9.0)), 7)
    assert [trigger.hits(now) for now in (0.5, 3.0, 3.1, 8.9, 9.0, 50.0)] == [
        *(False, True, False),
        *(False, True, False),
    ]


def test_a_storm_hits_everything_while_it_lasts() -> None:
    """With a duration everything is hit from each time on."""
    trigger = Trigger("policy.rate_limit", Fault(every=10.0), 7, lasts=2.0)
    hits = {now: trigger.hits(now) for now in (9.9, 10.5, 11.9, 12.1, 20.0, 21.9, 22.5)}
    assert [now for now, hit in hits.items() if hit] == [10.5, 11.9, 20.0, 21.9]
