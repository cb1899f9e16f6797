"""Groups: when they are whole, and what is set aside for which reason."""

from typing import Any

import msgspec
import pytest

from harness.core.events import Ending, Label, Record
from harness.core.trajectory import assemble
from learner.config.settings import DataSettings, LossSettings
from learner.core.errors import SampleError
from learner.core.samples import Group
from learner.data.grouping import DroppedGroup, Grouping, version_number, versions_of
from tests.support.episode_logs import started, story
from tests.support.token_logs import ended, episode, judged, reply, took

_NONE_DROPPED = {"incomplete": 0, "unjudged": 0, "few": 0, "equal": 0, "stale": 0}
_NONE_EXCLUDED = {"world": 0, "truncated": 0, "silent": 0}


def fed(grouping: Grouping, *members: list[Record], where: str = "run") -> list[Any]:
    """What the grouping says to each member."""
    return [grouping.add(assemble(records), where=where) for records in members]


def told(outcome: Any) -> Any:
    """A group in short: its members and their rewards."""
    if not isinstance(outcome, Group):
        return outcome
    return outcome.group, [(one.member, one.reward) for one in outcome.rollouts]


def test_a_group_is_given_with_its_last_member() -> None:
    """Members come in any order and beside those of other groups; they stand by number."""
    grouping = Grouping()
    outcomes = fed(
        grouping,
        episode(1, reward=0.0),
        episode(0, reward=0.0, group="g1"),
        episode(0, reward=1.0),
        episode(1, reward=1.0, group="g1"),
    )
    assert list(map(told, outcomes)) == [
        None,
        None,
        ("g0", [(0, 1.0), (1, 0.0)]),
        ("g1", [(0, 0.0), (1, 1.0)]),
    ]
    assert (outcomes[2].scenario, outcomes[2].task, outcomes[2].versions) == (
        "shop",
        "void-7",
        ("v1",),
    )
    found = grouping.statistics()
    assert (found.episodes, found.rollouts, found.completed, found.reward) == (4, 4, 2, 2.0)
    assert (found.groups, found.dropped, found.left_out) == (2, _NONE_DROPPED, _NONE_EXCLUDED)
    assert grouping.close() == []


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([episode(0), episode(1, reward=None)], "unjudged"),
        ([episode(0), episode(1)], "equal"),
        ([episode(0, reward=0.0), episode(1, reward=0.0)], "equal"),
        ([episode(0), episode(1, reward=None, ending=Ending.POLICY_ERROR)], "incomplete"),
        ([episode(0), episode(1, reward=0.0, label=Label.ENVIRONMENT_ERROR)], "few"),
    ],
)
def test_groups_are_set_aside_by_reason(members: list[list[Record]], reason: str) -> None:
    """What cannot be compared is not trained, and is counted."""
    grouping = Grouping()
    assert fed(grouping, *members) == [None, DroppedGroup("g0", reason)]  # type: ignore[arg-type]
    assert grouping.statistics().dropped == {**_NONE_DROPPED, reason: 1}
    assert grouping.statistics().groups == 0


def test_a_group_whose_members_did_not_all_come_is_incomplete() -> None:
    """Cancelled and cut off episodes may be tried again, so they are waited for until the end."""
    grouping = Grouping()
    cancelled = episode(1, reward=None, ending=Ending.CANCELLED)
    cut_off = episode(1, group="g1")[:2]
    alone = episode(0, group="g2")
    outcomes = fed(grouping, episode(0), cancelled, episode(0, group="g1"), cut_off, alone)
    assert outcomes == [None] * 5
    assert told(fed(grouping, episode(1, reward=0.0))[0]) == ("g0", [(0, 1.0), (1, 0.0)])
    assert grouping.close() == [DroppedGroup("g1", "incomplete"), DroppedGroup("g2", "incomplete")]
    assert grouping.close() == []
    assert grouping.statistics().dropped == {**_NONE_DROPPED, "incomplete": 2}


def test_a_failed_world_leaves_the_rest_of_its_group() -> None:
    """It is not the agent's doing; the others are compared with each other, and it is counted."""
    grouping = Grouping()
    outcomes = fed(
        grouping,
        episode(0, size=4),
        episode(1, size=4, reward=0.0, label=Label.ENVIRONMENT_ERROR),
        episode(2, size=4, reward=None, ending=Ending.WORLD_ERROR),
        episode(3, size=4, reward=0.0),
    )
    assert told(outcomes[-1]) == ("g0", [(0, 1.0), (3, 0.0)])
    assert grouping.statistics().left_out == {**_NONE_EXCLUDED, "world": 2}


def test_episodes_without_a_reply_are_left_out() -> None:
    """A time limit may come before the first reply: there is no token to train."""
    grouping = Grouping()
    silent = episode(1, size=3, reward=0.0, ending=Ending.TIME_LIMIT)
    del silent[1]
    members = [episode(0, size=3), silent, episode(2, size=3, reward=0.0)]
    assert told(fed(grouping, *members)[-1]) == ("g0", [(0, 1.0), (2, 0.0)])
    assert grouping.statistics().left_out == {**_NONE_EXCLUDED, "silent": 1}


def test_truncated_episodes_count_unless_they_are_dropped() -> None:
    """An episode that a limit cut off is a rollout of reward 0; a setting leaves it out."""
    members = [
        episode(0, size=3),
        episode(1, size=3, reward=0.0, ending=Ending.STEP_LIMIT),
        episode(2, size=3, reward=0.0),
    ]
    kept, dropping = Grouping(), Grouping(DataSettings(drop_truncated=True))
    assert told(fed(kept, *members)[-1]) == ("g0", [(0, 1.0), (1, 0.0), (2, 0.0)])
    assert told(fed(dropping, *members)[-1]) == ("g0", [(0, 1.0), (2, 0.0)])
    assert dropping.statistics().left_out == {**_NONE_EXCLUDED, "truncated": 1}


def test_cloning_keeps_equal_and_single_members() -> None:
    """Where nothing is compared, groups of one and of equal rewards are trained."""
    grouping = Grouping(DataSettings(keep_equal=True), loss=LossSettings(advantage="reward"))
    assert told(fed(grouping, episode(0, size=1))[0]) == ("g0", [(0, 1.0)])
    two = fed(grouping, episode(0, group="g1"), episode(1, group="g1"))
    assert told(two[-1]) == ("g1", [(0, 1.0), (1, 1.0)])


def test_single_members_are_not_kept_where_they_would_be_compared() -> None:
    """Whatever is kept: an advantage that leaves one out has nothing left of a group of one."""
    grouping = Grouping(DataSettings(keep_equal=True), loss=LossSettings(advantage="leave_one_out"))
    broken = episode(1, reward=0.0, label=Label.ENVIRONMENT_ERROR)
    assert fed(grouping, episode(0), broken) == [None, DroppedGroup("g0", "few")]


def test_steps_rewards_are_compared_where_they_are_trained() -> None:
    """A group whose episodes earned the same, and whose steps did not, says which steps were bad:
    it is equal only where episodes' rewards are what counts."""

    def failed(member: int, *steps: float) -> list[Record]:
        begun = msgspec.structs.replace(started(group="g0", member=member), group_size=2)
        turns = [took(reply(), reward or None) for reward in steps]
        over = ended(num_steps=len(steps))
        return story(f"g0-{member}", [begun, *turns, over, judged(0.0, steps)])

    steps = Grouping(loss=LossSettings(rewards="step"))
    members = [failed(0, -1.0, 0.0), failed(1, 0.0, 0.0)]
    assert told(fed(steps, *members)[-1]) == ("g0", [(0, 0.0), (1, 0.0)])
    assert fed(steps, failed(0, 0.0, 0.0), failed(1, 0.0)) == [None, DroppedGroup("g0", "equal")]
    assert fed(Grouping(), *members) == [None, DroppedGroup("g0", "equal")]


def test_groups_of_two_logs_are_two() -> None:
    """Every log counts its groups from 0."""
    grouping = Grouping()
    assert fed(grouping, episode(0), where="one") == [None]
    assert fed(grouping, episode(1), where="other") == [None]
    assert len(grouping.close()) == 2


def test_members_that_began_differently_are_no_group() -> None:
    """Rewards of another world or task are not compared."""
    grouping = Grouping()
    other = episode(1)
    changed = msgspec.structs.replace(other[0].event, start_digest="x" * 32)
    other[0] = msgspec.structs.replace(other[0], event=changed)
    fed(grouping, episode(0))
    with pytest.raises(SampleError, match=r"^run: group 'g0': its episodes do not begin alike"):
        fed(grouping, other)


def test_stale_groups_are_those_too_far_behind() -> None:
    """The oldest weights of a group decide, and the present version is given when it is taken."""
    grouping = Grouping()
    mixed = fed(grouping, episode(0, weights="v10"), episode(1, reward=0.0, weights="v9"))[-1]
    assert mixed.versions == ("v9", "v10")
    assert not grouping.is_stale(mixed, present=9, staleness=0)
    assert not grouping.is_stale(mixed, present=10, staleness=1)
    assert grouping.statistics().groups == 1
    assert grouping.is_stale(mixed, present=11, staleness=1)
    assert grouping.statistics().dropped == {**_NONE_DROPPED, "stale": 1}
    assert grouping.statistics().groups == 0


def test_weights_without_a_version_are_refused_where_it_matters() -> None:
    """Logs may be without versions; a run that bounds staleness is not."""
    assert versions_of([]) == ()
    grouping = Grouping()
    group = fed(grouping, episode(0, weights=""), episode(1, reward=0.0, weights=""))[-1]
    assert group.versions == ("",)
    with pytest.raises(SampleError, match="group 'g0': weights: '' is no version"):
        grouping.is_stale(group, present=1, staleness=1)
    assert [version_number(name) for name in ("v0", "v12")] == [0, 12]
    for name in ("12", "v", "v1.5", "v-1"):
        with pytest.raises(SampleError):
            version_number(name)


def test_replies_without_tokens_are_refused_with_log_and_episode() -> None:
    """The error says which log, which episode, which turn, which field."""
    records = episode(0)
    bare = took(msgspec.structs.replace(reply(), token_ids=b""))
    records[1] = msgspec.structs.replace(records[1], event=bare)
    with pytest.raises(SampleError, match=r"^run: episode 'g0-0' .* turn 0: token_ids: the reply"):
        fed(Grouping(), records)
