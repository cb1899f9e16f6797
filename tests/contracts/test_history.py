"""The promises of every history window, under every dialect.

An episode here is what a log contains of one: steps, and a summary before each step for which the
policy asks for one. Hypothesis chooses episodes by small numbers alone: which of nine kinds of
step is next. Drawing the arguments and texts of every step took 80 % of the suite's time.
"""

from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import HistorySummarized, StepTaken
from rehearsal_room.harness.core.folding import FOLDED
from rehearsal_room.harness.core.messages import AgentCall, Message, Reply, Window
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.summary import PROMPT
from rehearsal_room.harness.history.token_budget import TokenMeasure
from rehearsal_room.harness.history.windows import HistoryFold, parse_history, windows_of
from rehearsal_room.scenarios.format import Call
from tests.support.prompts import BRIEFING, DIALECTS

SPECS = [
    *("full", "last:1", "last:3", "last:1+1", "last:2+3", "tokens:1", "tokens:800", "tokens:900"),
    *("retrieve:1", "retrieve:2", "summary:1", "summary:800", "summary:900"),
    *("summary:700-1200", "fold"),
]
Episode = tuple[Dialect, HistoryWindow, list[StepTaken | HistorySummarized]]

# What an agent calls (None: it answers) and the result, or the answer.
STEPS: list[tuple[Call | None, str]] = [
    (Call("get_order", {"order_id": 7}), "Order 7 is open."),
    (Call("void_order", {"order_id": 7, "note": "late " * 40}), "x" * 900),
    (Call("ping"), ""),
    (Call("find_customer", {"names": [["Zoë", None], {"é": 1.5}]}), "Ann Lee\x00 and 日本 \ud800"),
    (Call("fold", {"summary": "Order 7 is open."}), FOLDED),
    (None, "Order 7 is void."),
    (None, ""),
    (None, "</tools> {not a call} " * 20),
]
ANY_SPEC = st.sampled_from(SPECS)
SUMMARIES = ["Order 7 is open.", "", "<think>no end", "so far " * 60]
KINDS = st.integers(0, len(STEPS) + 1)  # beyond STEPS: the opening call, and a malformed reply


@cache
def step_of(dialect: Dialect, turn: int, kind: int) -> StepTaken:
    """A step as the loop records it: a reply of one kind, as read, with results for its calls."""
    call, text = STEPS[kind] if kind < len(STEPS) else (None, "")
    opening = dialect.opening_calls()
    if kind == len(STEPS) and opening:
        call = opening[0]
    if call is not None:
        reply = dialect.write((call,), "", turn=turn)
    elif kind > len(STEPS):
        reply = Reply("<tool_call>{", (AgentCall("x", "not JSON", ""),))
    else:
        reply = dialect.write((), text, turn=turn)
    decision = dialect.read(reply, turn=turn)
    results = tuple(ToolResult(text) for _ in getattr(decision, "calls", ()))
    return StepTaken(reply, decision, results)


@st.composite
def episodes(draw: Any, specs: st.SearchStrategy[str] = ANY_SPEC) -> Episode:
    """An episode under a policy: the dialect, the policy, and its steps and summaries."""
    dialect = DIALECTS[draw(st.integers(0, len(DIALECTS) - 1))]
    policy = parse_history(draw(specs))
    fold = HistoryFold(policy, dialect, BRIEFING)
    replies: list[StepTaken | HistorySummarized] = []
    for turn, kind in enumerate(draw(st.lists(KINDS, max_size=9))):
        window = fold.window()
        if window.asks_for_summary:
            summary = Reply(SUMMARIES[(turn + kind) % len(SUMMARIES)])
            replies.append(HistorySummarized(summary, turn, window.first_turn))
            fold.apply(replies[-1])
        replies.append(step_of(dialect, turn, kind))
        fold.apply(replies[-1])
    return dialect, policy, replies


def fold_of(episode: Episode) -> HistoryFold:
    dialect, policy, replies = episode
    fold = HistoryFold(policy, dialect, BRIEFING)
    for event in replies:
        fold.apply(event)
    return fold


def steps_of(episode: Episode) -> list[StepTaken]:
    return [event for event in episode[2] if isinstance(event, StepTaken)]


def num_pinned(episode: Episode) -> int:
    steps = steps_of(episode)
    return 1 if steps and episode[0].pins(steps[0]) else 0


def head_of(episode: Episode) -> list[Message]:
    """The opening messages, and the pinned turn where there is one."""
    dialect, steps = episode[0], steps_of(episode)
    head = list(dialect.opening_messages(BRIEFING))
    return head + [m for step in steps[: num_pinned(episode)] for m in dialect.turn_messages(step)]


def messages_of_turns(episode: Episode, window: Window) -> list[Message]:
    """The messages of the turns that a window reports by `recalled` and `first_turn`."""
    dialect, steps = episode[0], steps_of(episode)
    first = max(window.first_turn, num_pinned(episode))
    turns = [*window.recalled, *range(first, len(steps))]
    return [message for turn in turns for message in dialect.turn_messages(steps[turn])]


@given(episodes(), st.integers(0, 12))
def test_a_window_follows_from_the_events(episode: Episode, cut: int) -> None:
    """A prefix of the log gives the window that was shown live at that time, also under a policy
    that is made again from its setting."""
    dialect, policy, replies = episode
    live = HistoryFold(policy, dialect, BRIEFING)
    seen = [live.window()]
    for event in replies:
        live.apply(event)
        seen.append(live.window())
    again = fold_of((dialect, parse_history(policy.spec), replies[:cut]))
    assert again.window() == again.window() == seen[min(cut, len(replies))]
    assert list(windows_of(HistoryFold(policy, dialect, BRIEFING), replies)) == seen[:-1]


@given(episodes(), episodes())
def test_episodes_are_independent(one: Episode, other: Episode) -> None:
    """Episodes that share a policy object get the windows that each would get alone."""
    shared = (other[0], one[1], other[2])
    alone = fold_of((other[0], parse_history(one[1].spec), other[2])).window()
    first, second = fold_of(one), fold_of(shared)
    assert first.window() == fold_of((one[0], parse_history(one[1].spec), one[2])).window()
    assert second.window() == alone


@given(episodes())
def test_the_head_is_pinned(episode: Episode) -> None:
    """Head, tools and pinned tool list are in every window; so is the newest turn, unless the
    window asks for a summary of the turns before it."""
    dialect, steps = episode[0], steps_of(episode)
    window, head = fold_of(episode).window(), head_of(episode)
    assert list(window.messages[: len(head)]) == head
    assert window.tools == dialect.request_tools(BRIEFING)
    if len(steps) > num_pinned(episode) and not window.asks_for_summary:
        newest = dialect.turn_messages(steps[-1])
        assert window.messages[-len(newest) :] == newest


@given(episodes())
def test_a_window_reports_its_turns(episode: Episode) -> None:
    """After the head, and a summary where there is one, a window shows the turns that it reports,
    in order: `recalled`, then all from `first_turn`, which is 0 while no turn is missing."""
    window = fold_of(episode).window()
    summaries = [event for event in episode[2] if isinstance(event, HistorySummarized)]
    shown = list(window.messages[len(head_of(episode)) :])
    if window.asks_for_summary:
        assert shown[-1].role == "user" and shown[-1].content.endswith(PROMPT)
        return
    if summaries:
        summary, shown = shown[:2], shown[2:]
        read = episode[0].read(summaries[-1].reply, turn=summaries[-1].turn)
        assert [message.role for message in summary] == ["assistant", "user"]
        assert summary[0].content == getattr(read, "text", "")
    assert shown == messages_of_turns(episode, window)
    assert all(num_pinned(episode) <= turn < window.first_turn - 1 for turn in window.recalled)


@given(episodes(st.integers(1, 4).map("last:{}".format)))
def test_last_turns_are_counted(episode: Episode) -> None:
    """`last:w` never shows more than w turns, and always w once there are w."""
    steps, pinned = steps_of(episode), num_pinned(episode)
    left = len(steps) - max(fold_of(episode).window().first_turn, pinned)
    assert left == min(int(episode[1].spec[5:]), len(steps) - pinned)


@given(episodes(st.builds("last:{}+{}".format, st.integers(1, 3), st.integers(1, 3))))
def test_windows_with_slack_only_grow_between_cuts(episode: Episode) -> None:
    """`last:w+s` shows at least w and at most w + s turns, and each window begins with the previous
    one, except at one cut in s + 1 turns."""
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
def test_a_token_budget_holds(episode: Episode) -> None:
    """`tokens:n` shows at most n tokens, unless one turn alone has more; one more turn would exceed
    them."""
    dialect, policy, _ = episode
    steps, pinned = steps_of(episode), num_pinned(episode)
    num_tokens, measure = int(policy.spec[7:]), TokenMeasure()
    window = fold_of(episode).window()
    first = max(window.first_turn, pinned)
    total = measure.messages(window.messages) + measure.tools(window.tools)
    assert total <= num_tokens or first >= len(steps) - 1
    if first > pinned:
        assert total + measure.messages(dialect.turn_messages(steps[first - 1])) > num_tokens


@given(episodes(st.just("full")))
def test_a_budget_is_an_exact_limit(episode: Episode) -> None:
    """A history of exactly n tokens is shown whole under `tokens:n` and `summary:n`; with one token
    less, and more than one turn, a summary is asked for. Turns that have exactly n tokens together
    with the head are all shown under `tokens:n`, and no earlier one is."""
    dialect, _, replies = episode
    whole = fold_of(episode).window()
    measure = TokenMeasure()
    total = measure.messages(whole.messages) + measure.tools(whole.tools)
    can_shrink = len(steps_of(episode)) - num_pinned(episode) > 1
    for word in ("tokens", "summary"):
        exact = fold_of((dialect, parse_history(f"{word}:{total}"), replies)).window()
        assert exact == whole
    less = fold_of((dialect, parse_history(f"summary:{total - 1}"), replies)).window()
    assert less.asks_for_summary is can_shrink
    steps = steps_of(episode)
    for first in range(num_pinned(episode), len(steps) - 1):  # without each next turn
        count = measure.messages(dialect.turn_messages(steps[first]))
        total -= count
        exact = fold_of((dialect, parse_history(f"tokens:{total}"), replies)).window()
        assert count == 0 or exact.first_turn == first + 1


@given(episodes(st.integers(1, 4).map("retrieve:{}".format)))
def test_recalled_turns_are_counted(episode: Episode) -> None:
    """`retrieve:k` shows the last three turns and k of the older ones, or all while there are at
    most k."""
    steps, pinned = steps_of(episode), num_pinned(episode)
    window = fold_of(episode).window()
    first = max(window.first_turn, pinned)
    shown = {*window.recalled, *range(first, len(steps))}
    assert len(shown) == min(int(episode[1].spec[9:]) + 3, len(steps) - pinned)
    assert shown >= set(range(max(pinned, len(steps) - 3), len(steps)))


@given(episodes(st.integers(1, 2000).map("summary:{}".format)))
def test_a_summary_is_asked_for_in_time(episode: Episode) -> None:
    """`summary:n` shows at most n tokens, unless one turn alone has more, and its request for a
    summary extends a window that was shown before."""
    dialect, policy, replies = episode
    num_tokens, measure = int(policy.spec[8:]), TokenMeasure()
    shown: list[Window] = []
    num_steps = 0
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
        assert total <= num_tokens or num_steps - max(window.first_turn, num_pinned(episode)) <= 1
        shown.append(window)
        num_steps += 1


@given(episodes(), st.sampled_from(SPECS).filter(lambda spec: not spec.startswith("summary")))
def test_summaries_of_another_run_are_ignored(episode: Episode, spec: str) -> None:
    """A policy that asks for no summary shows the same windows with a log's summaries as without
    them."""
    dialect, _, replies = episode
    policy = parse_history(spec)
    without: list[StepTaken | HistorySummarized] = [*steps_of(episode)]
    with_them = fold_of((dialect, policy, replies)).window()
    assert with_them == fold_of((dialect, policy, without)).window()


@given(st.lists(st.sampled_from([*SPECS, "last:30", "last:2", "tokens:30"]), min_size=2))
def test_fingerprints_differ_with_specs(specs: list[str]) -> None:
    """Fingerprints differ exactly when specs differ."""
    made = [parse_history(spec) for spec in specs]
    assert len({policy.fingerprint for policy in made}) == len(set(specs))


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_is_canonical(spec: str) -> None:
    """A policy's spec is the setting from which it can be made again."""
    assert parse_history(spec).spec == spec
    assert len(parse_history(spec).fingerprint) == 16
