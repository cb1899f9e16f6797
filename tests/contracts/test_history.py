"""What every history policy keeps to, under every dialect."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.dialects.awm import Awm
from harness.dialects.base import Dialect
from harness.dialects.hermes import Hermes
from harness.dialects.native import Native
from harness.events import StepTaken
from harness.history import HistoryFold, HistoryPolicy, TokenBudget, parse_history, windows_of
from tests.briefings import BRIEFING, steps

SPECS = ["full", "last:1", "last:3", "tokens:1", "tokens:800", "tokens:900"]
DIALECTS: list[Dialect] = [Native(), Hermes(), Awm()]

policies = st.sampled_from(SPECS).map(parse_history)


@st.composite
def episodes(draw: Any) -> tuple[Dialect, HistoryPolicy, list[StepTaken]]:
    dialect = draw(st.sampled_from(DIALECTS))
    count = draw(st.integers(0, 8))
    taken = [draw(steps(dialect, turn)) for turn in range(count)]
    return dialect, draw(policies), taken


@given(episodes(), st.integers(0, 8))
def test_a_window_follows_from_the_events(
    episode: tuple[Dialect, HistoryPolicy, list[StepTaken]], cut: int
) -> None:
    """A prefix of the log gives the window that was seen live at that time."""
    dialect, policy, taken = episode
    live = HistoryFold(policy, dialect, BRIEFING)
    seen = [live.window()]
    for step in taken:
        live.apply(step)
        seen.append(live.window())
    again = HistoryFold(parse_history(policy.spec), dialect, BRIEFING)
    for step in taken[:cut]:
        again.apply(step)
    assert again.window() == again.window() == seen[min(cut, len(taken))]
    replayed = windows_of(HistoryFold(policy, dialect, BRIEFING), taken)
    assert list(replayed) == seen[:-1]


@given(episodes())
def test_the_head_is_pinned(
    episode: tuple[Dialect, HistoryPolicy, list[StepTaken]],
) -> None:
    """Head, pinned tool list and the newest turn are in every window, the rest in order."""
    dialect, policy, taken = episode
    fold = HistoryFold(policy, dialect, BRIEFING)
    for step in taken:
        fold.apply(step)
    window = fold.window()
    head = dialect.opening(BRIEFING)
    turns = [dialect.turn(step) for step in taken]
    if taken and dialect.pins(taken[0]):
        head += turns.pop(0)
    messages = [message for turn in turns for message in turn]
    shown = list(window.messages[len(head) :])
    assert window.messages[: len(head)] == head
    assert window.tools == dialect.request_tools(BRIEFING)
    assert shown == messages[len(messages) - len(shown) :]
    assert not turns or shown[-len(turns[-1]) :] == list(turns[-1])


@given(episodes())
def test_the_first_turn_is_told(
    episode: tuple[Dialect, HistoryPolicy, list[StepTaken]],
) -> None:
    """`first_turn` is the oldest turn after the pinned ones, 0 while nothing has fallen out."""
    dialect, policy, taken = episode
    fold = HistoryFold(policy, dialect, BRIEFING)
    for step in taken:
        fold.apply(step)
    window = fold.window()
    pinned = 1 if taken and dialect.pins(taken[0]) else 0
    first = max(window.first_turn, pinned)
    rest = [message for step in taken[first:] for message in dialect.turn(step)]
    head = len(dialect.opening(BRIEFING)) + sum(len(dialect.turn(step)) for step in taken[:pinned])
    assert list(window.messages[head:]) == rest


@given(episodes(), st.integers(1, 4))
def test_last_turns_are_no_more(
    episode: tuple[Dialect, HistoryPolicy, list[StepTaken]], num_turns: int
) -> None:
    """`last:w` never shows more than w turns, and w as soon as there are so many."""
    dialect, _, taken = episode
    fold = HistoryFold(parse_history(f"last:{num_turns}"), dialect, BRIEFING)
    for step in taken:
        fold.apply(step)
    pinned = 1 if taken and dialect.pins(taken[0]) else 0
    left = len(taken) - max(fold.window().first_turn, pinned)
    assert left == min(num_turns, len(taken) - pinned)


@given(episodes(), st.integers(1, 2000))
def test_a_budget_is_kept(
    episode: tuple[Dialect, HistoryPolicy, list[StepTaken]], num_tokens: int
) -> None:
    """`tokens:n` shows at most n tokens unless one turn alone is more, and one turn more would
    be too many."""
    dialect, _, taken = episode
    policy = TokenBudget(num_tokens)
    fold = HistoryFold(policy, dialect, BRIEFING)
    for step in taken:
        fold.apply(step)
    window = fold.window()
    pinned = 1 if taken and dialect.pins(taken[0]) else 0
    first = max(window.first_turn, pinned)
    tools = policy.count_tools(window.tools)
    total = policy.count(window.messages) + tools
    assert total <= num_tokens or first >= len(taken) - 1
    if first > pinned:
        assert total + policy.count(dialect.turn(taken[first - 1])) > num_tokens


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
