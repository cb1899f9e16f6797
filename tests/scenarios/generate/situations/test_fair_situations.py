"""Situations that readers found unfair: what they ask for agrees with the world's own rules."""

import re

import pytest

from rehearsal_room.scenarios.generate.content.drawn_world import draw_world
from rehearsal_room.scenarios.generate.plan.situation_files import situations
from rehearsal_room.scenarios.generate.tasks.dressed_drafts import instruction_of
from tests.support.try_situations import plans_of


def voices_of(situation: str) -> list[str]:
    """The instruction in each voice, in the first world that has the situation."""
    for plan in plans_of(situations()[situation], 30, []):
        world = draw_world(plan)
        if world.staged:
            draft = world.staged[0].draft
            return [
                instruction_of(world, draft, text if isinstance(text, str) else text[0])
                for text in (getattr(draft.ask, voice) for voice in draft.ask.__struct_fields__)
            ]
    raise AssertionError(f"no world has {situation}")


@pytest.mark.parametrize(
    ("situation", "says", "says_not"),
    [
        # "A booking is changed … only at the request of the customer who made it."
        ("booking_desk.a_room_that_is_painted", r"\b(?:asks|asked|wants)\b", r"so move"),
        # The order has another line, which is in order.
        ("returns_desk.send_back_all_the_rest", r"\bline\b", r"from that order|everything"),
    ],
)
def test_what_is_asked_for_is_allowed_and_is_all_that_is_done(
    situation: str, says: str, says_not: str
) -> None:
    """Every voice says who asks for it, or what exactly is meant."""
    for text in voices_of(situation):
        assert re.search(says, text), text
        assert not re.search(says_not, text), text
