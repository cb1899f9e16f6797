"""The times of turns, episodes and verdicts follow from the records."""

from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.profile.timeline import (
    EpisodeSpan,
    Timeline,
    TimelineSpan,
    TurnSpan,
    VerdictSpan,
)
from tests.support.timed_records import (
    BEGAN,
    At,
    begin,
    end,
    merged,
    records,
    summary,
    turn,
    verdict,
)

Times = tuple[float, ...]


def parts_of(stored: list[Record]) -> list[TimelineSpan]:
    timeline = Timeline()
    parts = [part for record in stored for part in timeline.add(record)]
    return parts + timeline.finish()


def times_of(part: TimelineSpan) -> Times:
    """The times of a part, in milliseconds after the beginning."""
    times = [part.began, part.ended]
    if isinstance(part, TurnSpan):
        times[1:1] = [part.replied]
    if isinstance(part, EpisodeSpan):
        times[1:1] = [part.started_at]
    return tuple(round((at - BEGAN) * 1000) for at in times)


def shown(parts: list[TimelineSpan]) -> list[tuple[str, str, int, Times]]:
    names = {TurnSpan: "turn", EpisodeSpan: "episode", VerdictSpan: "verdict"}
    return [
        (
            part.episode,
            names[type(part)],
            part.number if isinstance(part, TurnSpan) else part.attempt,
            times_of(part),
        )
        for part in parts
    ]


def test_times_of_an_episode() -> None:
    """A turn is the wait for the reply, then the calls; an episode begins with the wait for its
    world, and its verdict with its end. Episodes may be mixed."""
    one = [
        (1.0, begin()),
        (4.0, turn(2.0, 0.5, 0.5)),
        (6.0, turn(1.5)),
        (6.5, end(6.0)),
        (7.0, verdict()),
    ]
    other = [(2.0, begin()), (3.5, turn(1.0)), (4.5, end(2.5))]
    parts = parts_of(merged(records("a", one), records("b", other)))
    assert shown(parts) == [
        ("b", "turn", 0, (2500, 3500, 3500)),
        ("a", "turn", 0, (1000, 3000, 4000)),
        ("b", "episode", 1, (2000, 2000, 4500)),
        ("a", "turn", 1, (4500, 6000, 6000)),
        ("a", "episode", 1, (500, 1000, 6500)),
        ("a", "verdict", 1, (6500, 7000)),
    ]
    assert [part.row for part in parts] == [2, 1, 2, 1, 1, 1]
    assert isinstance(parts[1], TurnSpan)
    assert [round(at - BEGAN, 3) for call in parts[1].calls() for at in call] == [3, 3.5, 3.5, 4]


def test_kept_turns_are_not_turns_again() -> None:
    """Copies are counted and not played; the attempt before ends with its last record, and a
    resumed episode has no time before its start, whose seconds are those of both attempts."""
    before = [(0.0, begin()), (1.0, turn(1.0, 0.1)), (2.0, summary(0.5, 1))]
    after = [
        (9.0, begin(kept=2)),
        (9.0, before[1][1]),
        (9.0, before[2][1]),
        (10.0, turn(0.6, 0.2)),
        (10.5, turn(0.1)),
        (11.0, end(4.0)),
    ]
    parts = parts_of([*records("a", before), *records("a", after, attempt=2)])
    assert shown(parts) == [
        ("a", "turn", 0, (0, 900, 1000)),
        ("a", "turn", 1, (1500, 2000, 2000)),
        ("a", "episode", 1, (0, 0, 2000)),
        ("a", "turn", 1, (9200, 9800, 10000)),
        ("a", "turn", 2, (10400, 10500, 10500)),
        ("a", "episode", 2, (9000, 9000, 11000)),
    ]
    assert [part.event is None for part in parts if isinstance(part, EpisodeSpan)] == [True, False]
    assert [part.num_turns for part in parts if isinstance(part, EpisodeSpan)] == [1, 3]


def test_tokens_are_those_of_own_replies() -> None:
    """The tokens of resumed turns belong to the attempt that made them."""
    kept = turn(1.0, 0.1, tokens=7)
    story = [(0.0, begin(kept=1)), (0.0, kept), (1.0, turn(0.5, tokens=2)), (1.0, end(1.0))]
    span = parts_of(records("a", story))[-1]
    assert isinstance(span, EpisodeSpan)
    assert (span.prompt_tokens, span.completion_tokens) == (20, 2)


def test_a_later_judging_is_not_a_long_verdict() -> None:
    """A verdict after a silence of the run, and each further one, has its models' time only."""
    story = [
        (0.0, begin()),
        (1.0, turn(1.0)),
        (1.0, end(1.0)),
        (500.0, verdict(model_s=2.0)),
        (501.0, verdict(model_s=0.5)),
    ]
    found = [part for part in parts_of(records("a", story)) if isinstance(part, VerdictSpan)]
    assert [(times_of(part), part.delays) for part in found] == [
        ((498_000, 500_000), False),
        ((500_500, 501_000), False),
    ]


def test_a_live_episode_ends_with_its_last_record() -> None:
    """A run is readable at any moment: an episode without an end is one up to its last record."""
    parts = parts_of(records("a", [(0.0, begin()), (3.0, turn(2.0, 0.5))]))
    assert shown(parts)[-1] == ("a", "episode", 1, (0, 0, 3000))


def test_records_without_a_beginning_are_left_out() -> None:
    """A follower that lost the start of an attempt does not invent one."""
    assert parts_of(records("a", [(0.0, turn(1.0)), (1.0, end(1.0))])) == []


seconds = st.floats(0.0, 5.0)


@given(st.lists(st.tuples(st.floats(-1.0, 5.0), seconds, seconds), max_size=6), seconds, seconds)
def test_spans_never_overlap(
    steps: list[tuple[float, float, float]], lease: float, more: float
) -> None:
    """Whatever clocks do: turns follow each other inside of their episode, and none is negative."""
    at = 5.0
    story: list[At] = [(at, begin())]
    for step, model_s, calls_s in steps:
        at += step
        story.append((at, turn(model_s, calls_s)))
    story.append((at + more, end(lease)))
    parts = parts_of(records("a", story))
    span = parts.pop()
    assert isinstance(span, EpisodeSpan)
    until = span.started_at
    assert span.began <= until
    for part in parts:
        assert isinstance(part, TurnSpan)
        assert until <= part.began <= part.replied <= part.ended
        until = part.ended
    assert until <= span.ended
