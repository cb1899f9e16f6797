"""For which followers a publisher waits at the end, and for how long."""

from rehearsal_room.harness.bus.mqtt_awaited import Awaited
from rehearsal_room.harness.bus.mqtt_wire import Presence

VISITOR = Presence()
FIRST, SECOND = Presence("c", 1), Presence("c", 2)  # two lives of one copy


def awaited() -> Awaited:
    return Awaited(linger_s=5, session_s=60)


def test_a_run_without_followers() -> None:
    """It ends at once."""
    followers = awaited()
    followers.end(100)
    assert followers.until() <= 100


def test_a_visitor() -> None:
    """A visitor is awaited for a while after the end and after its last request; no longer when it
    has left or is lost."""
    followers = awaited()
    assert followers.come("a", VISITOR, 10)
    followers.end(100)
    assert followers.until() == 105
    assert followers.note_active("a", 103)
    assert followers.until() == 108
    assert followers.lose("a", 104)
    assert followers.until() <= 100


def test_a_copy_that_is_killed() -> None:
    """A copy that is lost before the end has its time to come back, and its next life is awaited in
    its place: when that leaves, nobody is awaited."""
    followers = awaited()
    assert followers.come("a", FIRST, 10)
    assert followers.lose("a", 90)
    followers.end(100)
    assert followers.until() == 150
    assert followers.come("b", SECOND, 140)
    assert followers.until() == 200
    assert followers.leave("b")
    assert followers.until() <= 100


def test_the_will_of_an_earlier_life() -> None:
    """What the broker says late of an earlier life of a copy does not concern the later one,
    before its end or after it."""
    followers = awaited()
    followers.come("a", FIRST, 10)
    followers.come("b", SECOND, 20)
    assert not followers.lose("a", 30)
    followers.end(100)
    assert followers.until() == 160
    assert followers.leave("b")
    assert not followers.lose("a", 110)
    assert followers.until() <= 100


def test_messages_of_two_lives_in_the_other_order() -> None:
    """A publisher that is started again reads what the followers have left at the broker in any
    order: the later life stays."""
    followers = awaited()
    assert followers.come("b", SECOND, 10)
    assert not followers.come("a", FIRST, 10)
    assert len(followers) == 1
    followers.end(100)
    assert followers.leave("b")
    assert followers.until() <= 100


def test_a_copy_that_was_lost_long_ago() -> None:
    """A copy that never came back costs the run no more than the time for any follower."""
    followers = awaited()
    followers.come("a", FIRST, 10)
    followers.lose("a", 20)
    followers.end(1000)
    assert followers.until() == 1005


def test_a_silent_copy() -> None:
    """The broker has not noticed yet that a copy is cut off: it is awaited as one that is lost."""
    followers = awaited()
    followers.come("a", FIRST, 10)
    followers.end(100)
    assert followers.until() == 160
    assert followers.lose("a", 130)
    assert followers.until() == 190


def test_a_copy_that_is_back() -> None:
    """A copy that was lost and is there again, in the same process, is awaited as before."""
    followers = awaited()
    followers.come("a", FIRST, 10)
    followers.end(100)
    followers.lose("a", 110)
    assert followers.come("a", FIRST, 160)
    assert followers.until() == 220


def test_followers_that_come_after_the_end() -> None:
    """A follower that comes soon after the end is awaited, a later one is not; a copy that was
    there before is."""
    followers = awaited()
    followers.come("a", FIRST, 10)
    followers.end(100)
    assert followers.come("soon", VISITOR, 105)
    assert not followers.come("late", VISITOR, 106)
    assert not followers.come("other", Presence("d", 1), 106)
    assert followers.come("b", SECOND, 150)
    assert not followers.note_active("late", 151)
    assert len(followers) == 2
