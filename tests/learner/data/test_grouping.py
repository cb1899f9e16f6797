"""Groups: when they are complete, and which are dropped for which reason."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from transformers import AutoModelForCausalLM

from rehearsal_room.harness.core.events import Ending, Label, Record
from rehearsal_room.harness.core.trajectory import assemble
from rehearsal_room.learner.config.settings import DataSettings, LossSettings
from rehearsal_room.learner.core.errors import SampleError
from rehearsal_room.learner.core.samples import Group, GroupSize
from rehearsal_room.learner.data.batch_queue import BatchQueue
from rehearsal_room.learner.data.grouping import DroppedGroup, Grouping, version_number, versions_of
from rehearsal_room.learner.data.sample_lengths import TokenLimits
from tests.support.episode_logs import started, story
from tests.support.tiny_model import write_model
from tests.support.token_logs import ended, episode, judged, reply, step

_NONE_DROPPED = {"incomplete": 0, "unjudged": 0, "few": 0, "equal": 0, "stale": 0}
_NONE_EXCLUDED = {"world": 0, "truncated": 0, "failed": 0, "silent": 0, "too_long": 0}


def add(grouping: Grouping, *members: list[Record], where: str = "run") -> list[Any]:
    """The grouping's result for each member."""
    return [grouping.add(assemble(records), where=where) for records in members]


def summarize(result: Any) -> Any:
    """A group's members and their rewards."""
    if not isinstance(result, Group):
        return result
    return result.group, [(one.member, one.reward) for one in result.rollouts]


def test_a_group_is_complete_with_its_last_member() -> None:
    """Members may arrive in any order and mixed with other groups; they are sorted by number."""
    grouping = Grouping()
    results = add(
        grouping,
        episode(1, reward=0.0),
        episode(0, reward=0.0, group="g1"),
        episode(0, reward=1.0),
        episode(1, reward=1.0, group="g1"),
    )
    assert list(map(summarize, results)) == [
        None,
        None,
        ("g0", [(0, 1.0), (1, 0.0)]),
        ("g1", [(0, 0.0), (1, 1.0)]),
    ]
    assert (results[2].scenario, results[2].task, results[2].versions) == (
        "shop",
        "void-7",
        ("v1",),
    )
    found = grouping.statistics()
    assert (found.episodes, found.rollouts, found.completed, found.reward) == (4, 4, 2, 2.0)
    assert (found.groups, found.dropped, found.excluded) == (2, _NONE_DROPPED, _NONE_EXCLUDED)
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
def test_groups_are_dropped_by_reason(members: list[list[Record]], reason: str) -> None:
    """A group that cannot be compared is not trained, and is counted."""
    grouping = Grouping()
    assert add(grouping, *members) == [None, DroppedGroup("g0", reason)]  # type: ignore[arg-type]
    assert grouping.statistics().dropped == {**_NONE_DROPPED, reason: 1}
    assert grouping.statistics().groups == 0


def test_only_completed_episodes_are_kept_where_asked() -> None:
    """The others are left out of their group and counted with what was played; a group without a
    completed episode shows nothing, as one of equal rewards, and is not a failure."""
    grouping = Grouping(
        DataSettings(completed_only=True, keep_equal=True),
        loss=LossSettings(policy="likelihood", advantage="reward"),
    )
    results = add(
        grouping,
        episode(0, reward=0.0),
        episode(1, reward=1.0),
        episode(0, reward=0.0, group="g1"),
        episode(1, reward=0.0, group="g1"),
    )
    assert list(map(summarize, results)) == [
        None,
        ("g0", [(1, 1.0)]),
        None,
        DroppedGroup("g1", "equal"),
    ]
    found = grouping.statistics()
    assert (found.rollouts, found.completed, found.reward) == (4, 1, 1.0)
    assert found.excluded == {**_NONE_EXCLUDED, "failed": 3}


@pytest.mark.parametrize(
    ("too_long", "context", "lengths"),
    [
        ("leave_out", 5, [[2], [2]]),
        ("leave_out", 4, []),
        ("cut", 4, [[1], [1]]),
        ("cut", 3, []),  # the prompt alone fills the context
    ],
)
def test_replies_beyond_the_context_are_left_out_or_cut(
    too_long: Any, context: int, lengths: list[list[int]]
) -> None:
    """And counted; an episode of which nothing is left is none. (Prompts of 3, replies of 2.)"""
    limits = TokenLimits(context=context)
    grouping = Grouping(DataSettings(too_long=too_long), limits=limits)
    with capture_logs() as logs:
        _, group = add(grouping, episode(0), episode(1, reward=0.0))
    left_out = 0 if lengths else 2
    assert grouping.statistics().excluded == {**_NONE_EXCLUDED, "too_long": left_out}
    counts = [one["replies"] for one in logs if one["event"] == "replies_too_long"]
    assert counts == ([] if context == 5 else [1, 2])
    if not lengths:
        assert group == DroppedGroup("g0", "few")
        return
    assert [[len(one.tokens) for one in each.samples] for each in group.rollouts] == lengths
    assert [[len(one.logprobs) for one in each.samples] for each in group.rollouts] == lengths
    assert {one.too_long for one in group.rollouts} == {0 if context == 5 else 1}


def test_the_limits_are_those_of_the_model(tmp_path: Path) -> None:
    """Read from a model that transformers has opened."""
    folder = write_model(tmp_path / "model", hidden=16, head_dim=8)
    model = AutoModelForCausalLM.from_pretrained(folder)
    limits = TokenLimits.of(model)
    assert limits == TokenLimits(model.config.vocab_size, model.config.max_position_embeddings)


def test_a_group_with_missing_members_is_incomplete() -> None:
    """Cancelled and cut off episodes may be tried again, so the group waits for them until the
    end."""
    grouping = Grouping()
    cancelled = episode(1, reward=None, ending=Ending.CANCELLED)
    cut_off = episode(1, group="g1")[:2]
    alone = episode(0, group="g2")
    results = add(grouping, episode(0), cancelled, episode(0, group="g1"), cut_off, alone)
    assert results == [None] * 5
    assert summarize(add(grouping, episode(1, reward=0.0))[0]) == ("g0", [(0, 1.0), (1, 0.0)])
    assert grouping.close() == [DroppedGroup("g1", "incomplete"), DroppedGroup("g2", "incomplete")]
    assert grouping.close() == []
    assert grouping.statistics().dropped == {**_NONE_DROPPED, "incomplete": 2}


def test_an_episode_whose_world_failed_is_excluded() -> None:
    """It is not the agent's fault: the other members are compared, and the episode is counted."""
    grouping = Grouping()
    results = add(
        grouping,
        episode(0, size=4),
        episode(1, size=4, reward=0.0, label=Label.ENVIRONMENT_ERROR),
        episode(2, size=4, reward=None, ending=Ending.WORLD_ERROR),
        episode(3, size=4, reward=0.0),
    )
    assert summarize(results[-1]) == ("g0", [(0, 1.0), (3, 0.0)])
    assert grouping.statistics().excluded == {**_NONE_EXCLUDED, "world": 2}


def test_episodes_without_a_reply_are_excluded() -> None:
    """A time limit may end an episode before its first reply: there is no token to train."""
    grouping = Grouping()
    silent = episode(1, size=3, reward=0.0, ending=Ending.TIME_LIMIT)
    del silent[1]
    members = [episode(0, size=3), silent, episode(2, size=3, reward=0.0)]
    assert summarize(add(grouping, *members)[-1]) == ("g0", [(0, 1.0), (2, 0.0)])
    assert grouping.statistics().excluded == {**_NONE_EXCLUDED, "silent": 1}


def test_truncated_episodes_count_unless_they_are_dropped() -> None:
    """An episode that a limit ended is a rollout of reward 0; a setting excludes it."""
    members = [
        episode(0, size=3),
        episode(1, size=3, reward=0.0, ending=Ending.STEP_LIMIT),
        episode(2, size=3, reward=0.0),
    ]
    keeping, dropping = Grouping(), Grouping(DataSettings(drop_truncated=True))
    assert summarize(add(keeping, *members)[-1]) == ("g0", [(0, 1.0), (1, 0.0), (2, 0.0)])
    assert summarize(add(dropping, *members)[-1]) == ("g0", [(0, 1.0), (2, 0.0)])
    assert dropping.statistics().excluded == {**_NONE_EXCLUDED, "truncated": 1}


def test_cloning_keeps_equal_and_single_members() -> None:
    """If nothing is compared, groups of one member and of equal rewards are trained."""
    grouping = Grouping(DataSettings(keep_equal=True), loss=LossSettings(advantage="reward"))
    assert summarize(add(grouping, episode(0, size=1))[0]) == ("g0", [(0, 1.0)])
    two = add(grouping, episode(0, group="g1"), episode(1, group="g1"))
    assert summarize(two[-1]) == ("g1", [(0, 1.0), (1, 1.0)])


def test_single_members_are_dropped_if_they_would_be_compared() -> None:
    """Also with keep_equal: leave_one_out has nothing to compare in a group of one."""
    grouping = Grouping(DataSettings(keep_equal=True), loss=LossSettings(advantage="leave_one_out"))
    broken = episode(1, reward=0.0, label=Label.ENVIRONMENT_ERROR)
    assert add(grouping, episode(0), broken) == [None, DroppedGroup("g0", "few")]


def test_step_rewards_are_compared_if_they_are_trained() -> None:
    """A group whose episodes have equal rewards and whose steps do not shows which steps were bad:
    it counts as equal only if episode rewards are compared."""

    def failed(member: int, *steps: float) -> list[Record]:
        start = msgspec.structs.replace(started(group="g0", member=member), group_size=2)
        turns = [step(reply(), reward or None) for reward in steps]
        end = ended(num_steps=len(steps))
        return story(f"g0-{member}", [start, *turns, end, judged(0.0, steps)])

    steps = Grouping(loss=LossSettings(rewards="step"))
    members = [failed(0, -1.0, 0.0), failed(1, 0.0, 0.0)]
    assert summarize(add(steps, *members)[-1]) == ("g0", [(0, 0.0), (1, 0.0)])
    assert add(steps, failed(0, 0.0, 0.0), failed(1, 0.0)) == [None, DroppedGroup("g0", "equal")]
    assert add(Grouping(), *members) == [None, DroppedGroup("g0", "equal")]


def test_equal_groups_count_where_the_loss_counts_them() -> None:
    """A group that is dropped because its rewards are equal has its size: 2 episodes, their samples
    and tokens; groups that are dropped for another reason do not count."""
    grouping = Grouping(loss=LossSettings(count_equal=True))
    _, dropped = add(grouping, episode(0), episode(1))
    rollouts = add(Grouping(DataSettings(keep_equal=True)), episode(0), episode(1))[1].rollouts
    size = GroupSize.of(rollouts)
    assert (dropped.reason, dropped.size, size.episodes) == ("equal", size, 2)
    assert size.samples == sum(len(one.samples) for one in rollouts) > 0
    assert size.tokens == sum(one.num_tokens for one in rollouts) > 0
    broken = episode(1, group="g1", reward=0.0, label=Label.ENVIRONMENT_ERROR)
    assert add(grouping, episode(0, group="g1"), broken)[1].size is None
    assert grouping.statistics().equal_size == size
    assert add(Grouping(), episode(0), episode(1))[1].size is None


async def test_a_batch_knows_the_equal_groups_that_count() -> None:
    """The sizes of a batch's equal groups are added up; those of the next batch are its own."""
    queue = BatchQueue(size=2)
    for number, size in enumerate([GroupSize(5, 2, 2), None, GroupSize(7, 3, 2), None]):
        reason: Any = "few" if size is None else "equal"
        queue.put(number, DroppedGroup(f"g{number}", reason, size))
    sizes = [(await queue.take(lambda group: False)).equal_size for _ in range(2)]
    assert sizes == [GroupSize(5, 2, 2), GroupSize(7, 3, 2)]


def test_groups_of_different_logs_are_different() -> None:
    """Every log names its groups from 0 on, so equal names in two logs are two groups."""
    grouping = Grouping()
    assert add(grouping, episode(0), where="one") == [None]
    assert add(grouping, episode(1), where="other") == [None]
    assert len(grouping.close()) == 2


def test_members_that_started_differently_are_refused() -> None:
    """Rewards of different worlds or tasks are not compared."""
    grouping = Grouping()
    other = episode(1)
    changed = msgspec.structs.replace(other[0].event, start_digest="x" * 32)
    other[0] = msgspec.structs.replace(other[0], event=changed)
    add(grouping, episode(0))
    with pytest.raises(SampleError, match=r"^run: group 'g0': its episodes start differently"):
        add(grouping, other)


def test_a_group_is_stale_if_its_oldest_weights_are_too_old() -> None:
    """It is compared with the version at the time when the group is taken."""
    grouping = Grouping()
    mixed = add(grouping, episode(0, weights="v10"), episode(1, reward=0.0, weights="v9"))[-1]
    assert mixed.versions == ("v9", "v10")
    assert not grouping.is_stale(mixed, current=9, staleness=0)
    assert not grouping.is_stale(mixed, current=10, staleness=1)
    assert grouping.statistics().groups == 1
    assert grouping.is_stale(mixed, current=11, staleness=1)
    assert grouping.statistics().dropped == {**_NONE_DROPPED, "stale": 1}
    assert grouping.statistics().groups == 0


def test_weights_without_a_version_are_refused_if_staleness_is_bounded() -> None:
    """Logs may have no versions; checking the staleness of such a group is an error."""
    assert versions_of([]) == ()
    grouping = Grouping()
    group = add(grouping, episode(0, weights=""), episode(1, reward=0.0, weights=""))[-1]
    assert group.versions == ("",)
    with pytest.raises(SampleError, match="group 'g0': weights: '' is not a version"):
        grouping.is_stale(group, current=1, staleness=1)
    assert [version_number(name) for name in ("v0", "v12")] == [0, 12]
    for name in ("12", "v", "v1.5", "v-1"):
        with pytest.raises(SampleError):
            version_number(name)


def test_replies_without_tokens_are_refused_with_log_and_episode() -> None:
    """The error names log, episode, turn and field."""
    records = episode(0)
    bare = step(msgspec.structs.replace(reply(), token_ids=b""))
    records[1] = msgspec.structs.replace(records[1], event=bare)
    with pytest.raises(SampleError, match=r"^run: episode 'g0-0' .* turn 0: token_ids: the reply"):
        add(Grouping(), records)
