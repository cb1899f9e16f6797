"""Training files of groups that branch: what goes together."""

from typing import Any

import pytest

from rehearsal_room.learner.config.loader import settings_of
from rehearsal_room.learner.config.runs import runs_of
from rehearsal_room.learner.core.errors import ConfigError

BRANCHED = {"scenarios": ["shop_support"], "group_size": 8, "branch": {"roots": 2, "width": 3}}


def settings(rollouts: dict[str, Any], **loss: Any) -> Any:
    return settings_of({"model": "m", "rollouts": rollouts, "loss": loss})


def test_branches_are_settings_of_the_rollouts() -> None:
    """As a table or by their flat names; an evaluation does not branch."""
    flat = {"scenarios": ["shop_support"], "group_size": 8, "branch_roots": 2, "branch_width": 3}
    for table in (BRANCHED, flat):
        given = {"model": "m", "rollouts": table, "loss": {"advantage": "vine"}}
        runs = runs_of(settings_of({**given, "loop": {"evaluate_every": 1}}))
        assert (runs.rollouts.branch.roots, runs.rollouts.branch.width) == (2, 3)
        assert runs.evaluation is not None and runs.evaluation.branch.roots == 0


PLAIN = {"scenarios": ["shop_support"], "group_size": 8}


@pytest.mark.parametrize(
    ("rollouts", "loss", "sentence"),
    [
        (BRANCHED, {}, "loss.advantage: 'mean_std' compares whole episodes, and those that branch"),
        (PLAIN, {"advantage": "tree"}, "rollouts.branch_roots: advantage 'tree' compares episodes"),
        (PLAIN, {"advantage": "vine"}, "rollouts.branch_roots: advantage 'vine' compares episodes"),
        (BRANCHED, {"advantage": "tree", "rewards": "step"}, "loss.rewards: advantage 'tree'"),
        (PLAIN, {"advantage": "gigpo", "rewards": "step"}, "loss.rewards: advantage 'gigpo'"),
        (
            *(BRANCHED, {"advantage": "tree", "length_penalty": 0.1}),
            "loss.overlong_from, loss.length_penalty: compare the lengths of whole episodes",
        ),
        (
            *(BRANCHED, {"advantage": "gigpo", "overlong_from": 1, "overlong_to": 2}),
            "loss.overlong_from, loss.length_penalty: compare the lengths of whole episodes",
        ),
        (PLAIN, {"gigpo_weight": 2.0}, "loss.gigpo_weight: has an effect only with advantage"),
        (PLAIN, {"gigpo_discount": 0.5}, "loss.gigpo_discount: has an effect only with advantage"),
        (PLAIN, {"advantage": "gigpo", "gigpo_discount": 2}, "loss.gigpo_discount: must be at"),
    ],
)
def test_what_does_not_go_together_is_refused(
    rollouts: dict[str, Any], loss: dict[str, Any], sentence: str
) -> None:
    """With a sentence that names the setting."""
    with pytest.raises(ConfigError) as caught:
        settings(rollouts, **loss)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("branch", "sentence"),
    [
        ({"roots": 8}, "[rollouts] branch_roots: all 8 episodes of a group begin at the start"),
        ({"roots": 3, "width": 2}, "[rollouts] branch_width: the 5 branches of a group"),
    ],
)
def test_the_sizes_of_a_group_are_checked(branch: dict[str, Any], sentence: str) -> None:
    """Before anything is played."""
    given = settings({**PLAIN, "branch": branch}, advantage="tree")
    with pytest.raises(ConfigError) as caught:
        runs_of(given)
    assert str(caught.value).startswith(sentence)


def test_gigpo_needs_no_branches_and_may_have_some() -> None:
    """Its anchors are found in any group."""
    assert settings(PLAIN, advantage="gigpo").loss.gigpo_discount == 0.95
    assert settings(BRANCHED, advantage="gigpo").loss.advantage == "gigpo"
