"""From labels to rewards."""

import pytest

from harness.events import Ending, Label
from judge.rewards import AWM, PROFILES, SPARSE, RewardProfile, rewards_of
from scenarios.format import Call
from tests.worlds import episode, library

CALLS = [Call("list_overdue")] * 3


@pytest.mark.parametrize(
    ("label", "awm", "sparse"),
    [
        (Label.COMPLETED, 1.0, 1.0),
        (Label.PARTIALLY_COMPLETED, 0.1, 0.0),
        (Label.AGENT_ERROR, 0.0, 0.0),
        (Label.ENVIRONMENT_ERROR, 0.0, 0.0),
    ],
)
def test_every_step_of_a_normal_end_gets_the_reward_of_the_task(
    label: Label, awm: float, sparse: float
) -> None:
    """The agent's own answer spreads the label's worth over all steps."""
    trajectory = episode(library(), "overdue", CALLS, "302")
    assert rewards_of(label, trajectory, AWM) == (awm, (awm,) * 3)
    assert rewards_of(label, trajectory, SPARSE) == (sparse, (sparse,) * 3)


@pytest.mark.parametrize("ending", [ending for ending in Ending if ending is not Ending.ANSWERED])
def test_another_end_spreads_nothing(ending: Ending) -> None:
    """Steps of an episode that was cut off get 0, whatever the task is worth."""
    trajectory = episode(library(), "overdue", CALLS, ending=ending)
    expected = (0.1, (0.0, 0.0, 0.0))
    assert rewards_of(Label.PARTIALLY_COMPLETED, trajectory, AWM) == expected


def test_a_format_error_costs_its_own_step() -> None:
    """The step that broke the format has the reward that the format rules gave it."""
    trajectory = episode(
        library(), "overdue", CALLS, ending=Ending.FORMAT_ERROR, step_rewards={2: -1.0}
    )
    assert rewards_of(Label.AGENT_ERROR, trajectory, AWM) == (0.0, (0.0, 0.0, -1.0))
    assert rewards_of(Label.AGENT_ERROR, trajectory, SPARSE) == (0.0, (0.0, 0.0, 0.0))


def test_a_format_error_that_did_not_end_the_episode() -> None:
    """The other steps of an episode that went on and was completed have the task's reward."""
    trajectory = episode(library(), "overdue", CALLS, "302", step_rewards={1: -1.0})
    assert rewards_of(Label.COMPLETED, trajectory, AWM) == (1.0, (1.0, -1.0, 1.0))


def test_no_steps() -> None:
    """An episode without a step has a reward and no step rewards."""
    assert rewards_of(Label.AGENT_ERROR, episode(library(), "overdue"), AWM) == (0.0, ())


def test_profiles_are_found_by_name() -> None:
    """A profile is a value; each is complete."""
    assert PROFILES == {"awm": AWM, "sparse": SPARSE}
    for profile in PROFILES.values():
        assert isinstance(profile, RewardProfile)
        assert set(profile.labels) == set(Label)
