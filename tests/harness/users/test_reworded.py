"""Users whose lines a model puts into other words: what is used, what is not, and how often."""

import pytest

from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import Reply, UserTurn
from rehearsal_room.harness.users.reworded import RewordedUser, Wordings
from rehearsal_room.scenarios.core.dialogue import UserAutomaton, UserLine
from tests.harness.users.test_simulated import Model, World

pytestmark = pytest.mark.anyio
USER = UserAutomaton((UserLine("seat", "I would like seat 5D, please.", asked=("seat",)),))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def user_of(model: Model) -> RewordedUser:
    return RewordedUser(USER, Wordings(model))  # type: ignore[arg-type]


async def test_a_line_gets_other_words_once() -> None:
    """One wording for each text, and none for the end of the talk."""
    model = Model(Reply("Seat 5D would be lovely, please."))
    user = user_of(model)
    assert await user.reply("Which seat?", World()) == UserTurn("Seat 5D would be lovely, please.")
    assert await user.reply("Which seat?", World()) == UserTurn("Seat 5D would be lovely, please.")
    assert await user.reply("Done.", World()) == UserTurn("Thank you.", ended=True)
    assert len(model.windows) == 1
    assert model.windows[0].messages[-1].content == "I would like seat 5D, please."


@pytest.mark.parametrize(
    "wording", ["Seat 6D for me.", "A seat, please.", "", "For Ada: 5D, please."]
)
async def test_a_wrong_wording_is_not_used(wording: str) -> None:
    """Another number, none, nothing at all, or a name that is not in the line."""
    turn = await user_of(Model(Reply(wording))).reply("Which seat?", World())
    assert turn == UserTurn("I would like seat 5D, please.")


async def test_a_model_that_fails_changes_nothing() -> None:
    """The user says the line as it is."""
    turn = await user_of(Model(PolicyError("no key"))).reply("Which seat?", World())
    assert turn == UserTurn("I would like seat 5D, please.")


async def test_it_goes_on_after_an_interruption() -> None:
    """The logged wording does not matter for what comes next."""
    user = user_of(Model())
    user.keep("Which seat?", UserTurn("5D would be great."))
    assert (await user.reply("Done.", World())).ended
