"""History windows that count turns or tokens, and the histories of live episodes."""

import msgspec
import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Briefing, Reply, Window
from rehearsal_room.harness.dialects.awm import Awm
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.token_budget import TokenMeasure
from rehearsal_room.harness.history.windows import HistoryFold, parse_history
from rehearsal_room.scenarios.format import Call
from tests.support.prompts import BRIEFING

NATIVE = Native()


def fold(spec: str, briefing: Briefing = BRIEFING) -> HistoryFold:
    return HistoryFold(parse_history(spec), NATIVE, briefing)


def step(number: int) -> StepTaken:
    reply = Reply(f"Text {number}.")
    return StepTaken(reply, NATIVE.read(reply, turn=number))


def texts(window: Window) -> list[str]:
    return [message.content for message in window.messages[2:]]


def test_last_turns() -> None:
    """After four turns `last:2` shows the head and turns 2 and 3."""
    history = fold("last:2")
    for number in range(4):
        history.apply(step(number))
    window = history.window()
    assert texts(window) == ["Text 2.", "Text 3."]
    assert window.first_turn == 2
    assert window.messages[:2] == NATIVE.opening_messages(BRIEFING)
    assert window.tools is BRIEFING.tools


def test_full() -> None:
    """`full` shows all turns, and before the first turn only the head."""
    history = fold("full")
    assert history.window() == Window(NATIVE.opening_messages(BRIEFING), BRIEFING.tools)
    for number in range(4):
        history.apply(step(number))
    assert texts(history.window()) == [f"Text {number}." for number in range(4)]


@pytest.mark.parametrize("spec", ["full", "last:2"])
def test_a_talk_that_begins_again_shows_nothing_of_before(spec: str) -> None:
    """After a turn with `again` only the head is shown, and then the turns that follow it, which
    keep their numbers."""
    history = fold(spec)
    history.apply(step(0))
    history.apply(msgspec.structs.replace(step(1), again=True))
    assert history.window() == Window(NATIVE.opening_messages(BRIEFING), BRIEFING.tools, 2)
    for number in (2, 3, 4):
        history.apply(step(number))
    window = history.window()
    expected = (
        (["Text 2.", "Text 3.", "Text 4."], 2)
        if spec == "full"
        else (
            ["Text 3.", "Text 4."],
            3,
        )
    )
    assert (texts(window), window.first_turn) == expected


def test_a_window_is_not_changed_by_later_turns() -> None:
    """A window that was returned earlier does not change."""
    history = fold("full")
    history.apply(step(0))
    window = history.window()
    history.apply(step(1))
    assert texts(window) == ["Text 0."]


class Words:
    """Counts words."""

    name = "words"

    def __call__(self, text: str) -> int:
        return len(text.split())


def test_another_token_counter() -> None:
    """A policy counts tokens with the given counter, whose name is part of its fingerprint."""
    briefing = msgspec.structs.replace(BRIEFING, tools=())
    head = TokenMeasure(Words()).messages(NATIVE.opening_messages(briefing))
    policy = parse_history(f"tokens:{head + 4}", Words())
    history = HistoryFold(policy, NATIVE, briefing)
    for number in range(4):
        history.apply(step(number))
    assert texts(history.window()) == ["Text 2.", "Text 3."]
    assert policy.fingerprint != parse_history(policy.spec).fingerprint


def test_a_turn_that_is_too_large_is_shown_alone() -> None:
    """The newest turn is shown even where it does not fit."""
    history = fold("tokens:1")
    for number in range(3):
        history.apply(step(number))
    assert (texts(history.window()), history.window().first_turn) == (["Text 2."], 2)


def test_the_tool_list_of_awm_stays_visible() -> None:
    """AWM's list_tools exchange stays in every window, and the last turns follow it."""
    awm = Awm()
    history = HistoryFold(parse_history("last:1"), awm, BRIEFING)
    for turn, call in enumerate([*awm.opening_calls(), Call("ping"), Call("get_order")]):
        reply = awm.write((call,), "", turn=turn)
        history.apply(StepTaken(reply, awm.read(reply, turn=turn), (ToolResult(call.name),)))
    window = history.window()
    results = [m.content for m in window.messages if m.content.startswith("Tool response")]
    assert results == ["Tool response:\nlist_tools", "Tool response:\nget_order"]
    assert window.first_turn == 2


@pytest.mark.parametrize(
    "text",
    [
        *("", "last", "last:", "last:0", "last:-1", "last:03", "last:٣", "tokens:1.5", "Full"),
        *("last:3+", "last:3+0", "last:+3", "last:3+1+1", "tokens:3+1", "retrieve:0", "summary"),
    ],
)
def test_a_bad_setting(text: str) -> None:
    """The error for a wrong setting is one sentence with the right forms."""
    with pytest.raises(SettingsError) as caught:
        parse_history(text)
    assert str(caught.value) == (
        f"history: {text!r} is not a history window (expected full, last:W, last:W+S, tokens:N,"
        " retrieve:K, summary:N, summary:N-M or fold, with turns W, S and K and tokens N and M, all"
        " from 1)"
    )


@pytest.mark.parametrize(
    ("spec", "fingerprint"),
    [
        ("full", "d053fcde13deb102"),
        ("last:3", "08eda16eb6912556"),
        ("tokens:8000", "db7663ba75680758"),
    ],
)
def test_fingerprints_of_earlier_versions(spec: str, fingerprint: str) -> None:
    """The fingerprints in logs and model cards of earlier versions stay valid."""
    assert parse_history(spec).fingerprint == fingerprint


def test_last_turns_with_slack() -> None:
    """`last:2+2` grows to four turns and is then cut to two."""
    history = fold("last:2+2")
    shown = []
    for number in range(8):
        history.apply(step(number))
        shown.append("".join(text[5] for text in texts(history.window())))
    assert shown == ["0", "01", "012", "0123", "34", "345", "3456", "67"]
    assert history.window().first_turn == 6
