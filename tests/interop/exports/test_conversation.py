"""Conversations: windows as ranges of one list of messages."""

from itertools import chain

import msgspec
from hypothesis import given

from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.history.windows import HistoryFold, windows_of
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.interop.exports.conversation import EpisodeConversation, spoken
from tests.contracts.test_history import ANY_SPEC as SPECS
from tests.contracts.test_history import Episode, episodes
from tests.support.episode_logs import WORLD, started
from tests.support.prompts import BRIEFING


def _world() -> ScenarioSnapshot:
    return msgspec.structs.replace(
        WORLD, rules=BRIEFING.rules, user=BRIEFING.user, now=BRIEFING.now, tools=BRIEFING.tools
    )


def _trajectory(episode: Episode) -> Trajectory:
    """The episode as it is logged: its replies have the first turn of their windows."""
    dialect, policy, replies = episode
    windows = windows_of(HistoryFold(policy, dialect, BRIEFING), replies)
    logged = []
    for event, window in zip(replies, windows, strict=True):
        fields = {"first_turn": window.first_turn}
        if isinstance(event, StepTaken):
            fields["recalled"] = window.recalled
        logged.append(msgspec.structs.replace(event, **fields))
    start = msgspec.structs.replace(
        started(), dialect=dialect.name, history=policy.spec, instruction=BRIEFING.instruction
    )
    return Trajectory(
        episode="e",
        attempt=1,
        started=start,
        steps=tuple(one for one in logged if isinstance(one, StepTaken)),
        ended=None,
        summaries=tuple(one for one in logged if not isinstance(one, StepTaken)),
    )


@given(episodes(SPECS))
def test_ranges_give_the_windows_that_were_shown(episode: Episode) -> None:
    """Under every history window and dialect the ranges of a reply are the messages of its window,
    with its tools; no message is stored more than twice."""
    dialect, policy, replies = episode
    conversation = EpisodeConversation(_trajectory(episode), _world())
    windows = list(windows_of(HistoryFold(policy, dialect, BRIEFING), replies))
    assert len(conversation.replies) == len(windows)
    for shown, window in zip(conversation.replies, windows, strict=True):
        ranges = [conversation.messages[first:last] for first, last in shown.window]
        assert tuple(chain(*ranges)) == window.messages
        assert shown.tools == window.tools
        assert len(shown.window) <= 6 + len(window.recalled)
    assert len(conversation.messages) <= 2 * len(conversation.history()) + 4 * len(replies)


def test_the_spoken_text_has_no_calls_and_no_thoughts() -> None:
    """The spoken text of a reply is what is left without thoughts and calls."""
    assert (
        spoken('<think>hm</think> I look.\n<tool_call>\n{"name": "x"}\n</tool_call>') == "I look."
    )
    assert spoken("Done.") == "Done."
