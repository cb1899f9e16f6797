"""What every history policy keeps to, under every dialect.

An episode here is what the log has of one: steps, and a summary before each step for which the
policy asks for one.
"""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.events import HistorySummarized, StepTaken
from harness.core.messages import Message, Reply, Window
from harness.dialects.awm import Awm
from harness.dialects.base import Dialect
from harness.dialects.hermes import Hermes
from harness.dialects.native import Native
from harness.history.base import HistoryPolicy
from harness.history.summary import PROMPT
from harness.history.token_budget import Measure
from harness.history.windows import HistoryFold, parse_history, windows_of
from tests.support.prompts import BRIEFING, steps, texts

SPECS = [
    *("full", "last:1", "last:3", "last:1+1", "last:2+3", "tokens:1", "tokens:800", "tokens:900"),
    *("retrieve:1", "retrieve:2", "summary:1", "summary:800", "summary:900"),
]
DIALECTS: list[Dialect] = [Native(), Hermes(), Awm()]
Episode = tuple[Dialect, HistoryPolicy, list[StepTaken | HistorySummarized]]


ANY = st.sampled_from(SPECS)


@st.composite
def episodes(draw: Any, specs: st.SearchStrategy[str] = ANY) -> Episode:
    dialect = draw(st.sampled_from(DIALECTS))
    policy = parse_history(draw(specs))
    fold = HistoryFold(policy, dialect, BRIEFING)
    replies: list[StepTaken | HistorySummarized] = []
    for turn in range(draw(st.integers(0, 9))):
        if fold.window().asks_for_summary:
            replies.append(HistorySummarized(Reply(draw(texts)), turn, fold.window().first_turn))
            fold.apply(replies[-1])
        replies.append(draw(steps(dialect, turn)))
        fold.apply(replies[-1])
    return dialect, policy, replies


def folded(episode: Episode) -> HistoryFold:
    dialect, policy, replies = episode
    fold = HistoryFold(policy, dialect, BRIEFING)
    for event in replies:
        fold.apply(event)
    return fold


def steps_of(episode: Episode) -> list[StepTaken]:
    return [event for event in episode[2] if isinstance(event, StepTaken)]


def num_pinned(episode: Episode) -> int:
    taken = steps_of(episode)
    return 1 if taken and episode[0].pins(taken[0]) else 0


def head_of(episode: Episode) -> list[Message]:
    """The opening, and the turn that is pinned where one is."""
    dialect, taken = episode[0], steps_of(episode)
    head = list(dialect.opening_messages(BRIEFING))
    return head + [m for step in taken[: num_pinned(episode)] for m in dialect.turn_messages(step)]


def told_turns(episode: Episode, window: Window) -> list[Message]:
    """The messages of the turns that a window says it shows."""
    dialect, taken = episode[0], steps_of(episode)
    first = max(window.first_turn, num_pinned(episode))
    turns = [*window.recalled, *range(first, len(taken))]
    return [message for turn in turns for message in dialect.turn_messages(taken[turn])]


@given(episodes(), st.integers(0, 12))
def test_a_window_follows_from_the_events(episode: Episode, cut: int) -> None:
    """A prefix of the log gives the window that was seen live at that time, also to a policy that
    is made anew from the setting."""
    dialect, policy, replies = episode
    live = HistoryFold(policy, dialect, BRIEFING)
    seen = [live.window()]
    for event in replies:
        live.apply(event)
        seen.append(live.window())
    again = folded((dialect, parse_history(policy.spec), replies[:cut]))
    assert again.window() == again.window() == seen[min(cut, len(replies))]
    assert list(windows_of(HistoryFold(policy, dialect, BRIEFING), replies)) == seen[:-1]


@given(episodes(), episodes())
def test_episodes_do_not_meet(one: Episode, other: Episode) -> None:
    """Episodes that share a policy object see what each would see alone."""
    shared = (other[0], one[1], other[2])
    alone = folded((other[0], parse_history(one[1].spec), other[2])).window()
    first, second = folded(one), folded(shared)
    assert first.window() == folded((one[0], parse_history(one[1].spec), one[2])).window()
    assert second.window() == alone


@given(episodes())
def test_the_head_is_pinned(episode: Episode) -> None:
    """Head, tools and pinned tool list are in every window, and the newest turn is, too, unless a
    summary of what came before it is asked for."""
    dialect, taken = episode[0], steps_of(episode)
    window, head = folded(episode).window(), head_of(episode)
    assert list(window.messages[: len(head)]) == head
    assert window.tools == dialect.request_tools(BRIEFING)
    if len(taken) > num_pinned(episode) and not window.asks_for_summary:
        newest = dialect.turn_messages(taken[-1])
        assert window.messages[-len(newest) :] == newest


@given(episodes())
def test_a_window_tells_its_turns(episode: Episode) -> None:
    """After the head, and a summary where there is one, a window shows the turns that it says, in
    order: `recalled`, then all from `first_turn`, which is 0 while nothing has fallen out."""
    window = folded(episode).window()
    summaries = [event for event in episode[2] if isinstance(event, HistorySummarized)]
    shown = list(window.messages[len(head_of(episode)) :])
    if window.asks_for_summary:
        assert shown[-1].role == "user" and shown[-1].content.endswith(PROMPT)
        return
    if summaries:
        note, shown = shown[:2], shown[2:]
        read = episode[0].read(summaries[-1].reply, turn=summaries[-1].turn)
        assert [message.role for message in note] == ["assistant", "user"]
        assert note[0].content == getattr(read, "text", "")
    assert shown == told_turns(episode, window)
    assert all(num_pinned(episode) <= turn < window.first_turn - 1 for turn in window.recalled)


@given(episodes(st.integers(1, 4).map("last:{}".format)))
def test_last_turns_are_no_more(episode: Episode) -> None:
    """`last:w` never shows more than w turns, and w as soon as there are so many."""
    taken, pinned = steps_of(episode), num_pinned(episode)
    left = len(taken) - max(folded(episode).window().first_turn, pinned)
    assert left == min(int(episode[1].spec[5:]), len(taken) - pinned)


@given(episodes(st.builds("last:{}+{}".format, st.integers(1, 3), st.integers(1, 3))))
def test_windows_with_slack_only_grow_between_cuts(episode: Episode) -> None:
    """`last:w+s` shows at least w and at most w + s turns, and each window begins with the one
    before but for one cut in s + 1 turns."""
    dialect, policy, replies = episode
    fewest, slack = map(int, policy.spec[5:].split("+"))
    since_cut = 0
    windows = list(windows_of(HistoryFold(policy, dialect, BRIEFING), replies))
    for number, (before, after) in enumerate(pairwise(windows), 1):
        turns = number - max(after.first_turn, num_pinned(episode))
        assert turns <= fewest + slack
        if after.messages[: len(before.messages)] == before.messages:
            since_cut += 1
        else:
            assert turns == fewest
            assert since_cut >= slack
            since_cut = 0


@given(episodes(st.integers(1, 2000).map("tokens:{}".format)))
def test_a_budget_is_kept(episode: Episode) -> None:
    """`tokens:n` shows at most n tokens unless one turn alone is more, and one turn more would
    be too many."""
    dialect, policy, _ = episode
    taken, pinned = steps_of(episode), num_pinned(episode)
    num_tokens, measure = int(policy.spec[7:]), Measure()
    window = folded(episode).window()
    first = max(window.first_turn, pinned)
    total = measure.messages(window.messages) + measure.tools(window.tools)
    assert total <= num_tokens or first >= len(taken) - 1
    if first > pinned:
        assert total + measure.messages(dialect.turn_messages(taken[first - 1])) > num_tokens


@given(episodes(st.integers(1, 4).map("retrieve:{}".format)))
def test_what_is_recalled_is_no_more(episode: Episode) -> None:
    """`retrieve:k` shows the last three turns and k of the others, all while there are no more."""
    taken, pinned = steps_of(episode), num_pinned(episode)
    window = folded(episode).window()
    first = max(window.first_turn, pinned)
    shown = {*window.recalled, *range(first, len(taken))}
    assert len(shown) == min(int(episode[1].spec[9:]) + 3, len(taken) - pinned)
    assert shown >= set(range(max(pinned, len(taken) - 3), len(taken)))


@given(episodes(st.integers(1, 2000).map("summary:{}".format)))
def test_a_summary_is_asked_for_in_time(episode: Episode) -> None:
    """`summary:n` shows at most n tokens unless one turn alone is more, and asks for a summary
    with a window that was shown before."""
    dialect, policy, replies = episode
    num_tokens, measure = int(policy.spec[8:]), Measure()
    shown: list[Window] = []
    taken = 0
    for event, window in zip(
        replies, windows_of(HistoryFold(policy, dialect, BRIEFING), replies), strict=True
    ):
        assert window.asks_for_summary == isinstance(event, HistorySummarized)
        if isinstance(event, HistorySummarized):
            before = list(shown[-1].messages)
            last = window.messages[len(before) - 1].content
            assert list(window.messages[: len(before) - 1]) == before[:-1]
            assert last.startswith(before[-1].content)
            continue
        total = measure.messages(window.messages) + measure.tools(window.tools)
        assert total <= num_tokens or taken - max(window.first_turn, num_pinned(episode)) <= 1
        shown.append(window)
        taken += 1


@given(episodes(), st.sampled_from(SPECS).filter(lambda spec: not spec.startswith("summary")))
def test_summaries_of_another_run_are_ignored(episode: Episode, spec: str) -> None:
    """A policy that asks for no summary shows the same with the summaries of a log and without."""
    dialect, _, replies = episode
    policy = parse_history(spec)
    without: list[StepTaken | HistorySummarized] = [*steps_of(episode)]
    with_them = folded((dialect, policy, replies)).window()
    assert with_them == folded((dialect, policy, without)).window()


@given(st.lists(st.sampled_from([*SPECS, "last:30", "last:2", "tokens:30"]), min_size=2))
def test_fingerprints_tell_policies_apart(specs: list[str]) -> None:
    """Fingerprints differ exactly when specs differ."""
    made = [parse_history(spec) for spec in specs]
    assert len({policy.fingerprint for policy in made}) == len(set(specs))


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_is_canonical(spec: str) -> None:
    """A policy's spec is the setting that makes it again."""
    assert parse_history(spec).spec == spec
    assert len(parse_history(spec).fingerprint) == 16
