"""Tests for how people speak of what has a title."""

import pytest

from rehearsal_room.scenarios.generate.vocabulary.spoken_titles import SpokenTitle
from rehearsal_room.scenarios.generate.vocabulary.trades import trade, trade_names


def test_a_known_title_is_spoken_of_and_another_is_quoted() -> None:
    """A title with a phrase becomes that phrase; one without stands in quotation marks."""
    ticket, appointment = SpokenTitle("Wrong name on the bill"), SpokenTitle("Tax return")
    assert f"about {ticket.about}" == "about the wrong name on the bill"
    assert f"the {appointment.meeting}" == "the tax return meeting"
    assert f"about {SpokenTitle('Xyz').about}" == "about “Xyz”"
    assert f"{ticket}" == "Wrong name on the bill"


@pytest.mark.parametrize("name", trade_names())
def test_every_title_of_a_trade_has_a_phrase(name: str) -> None:
    """People can speak of every ticket, thread and case of a trade without its title."""
    content = trade(name).content
    titles = [
        title
        for pool in ("ticket_subjects", "thread_subjects", "case_subjects")
        for title in content.get(pool, ())
    ]
    assert [title for title in titles if SpokenTitle(title).about.startswith("“")] == []
