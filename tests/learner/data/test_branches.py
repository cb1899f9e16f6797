"""Groups that branch, from a real run to gradients: every sampled token is trained once, in the
episode in which it was sampled, and what is shared changes no number."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import (
    Ending,
    ForkedFrom,
    Label,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Act, AgentCall
from rehearsal_room.harness.core.trajectory import Trajectory, assemble
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.learner.advantages.registry import advantages_of
from rehearsal_room.learner.backends.naive import Naive
from rehearsal_room.learner.backends.twopass import TwoPass
from rehearsal_room.learner.config.settings import LossSettings
from rehearsal_room.learner.core.errors import SampleError
from rehearsal_room.learner.core.samples import Branching, Group, Ids, Rollout
from rehearsal_room.learner.data.alignment import Alignment
from rehearsal_room.learner.data.group_feed import groups_of_logs
from rehearsal_room.learner.data.grouping import DroppedGroup, Grouping
from rehearsal_room.learner.data.trajectory_samples import rollout_of
from rehearsal_room.learner.losses.aggregation import weights_of
from rehearsal_room.learner.packing.batch import Batch, PrefixGroup
from rehearsal_room.learner.packing.prefix_groups import batch_of
from tests.learner.packing import test_prefix_groups as packing
from tests.support.cli import Rehearse
from tests.support.episode_logs import started, story
from tests.support.paths import LIBRARY
from tests.support.prefix_groups import compute
from tests.support.tiny_lm import TinyLM
from tests.support.tiny_model import write_tokenizer
from tests.support.token_logs import ended, judged, reply, step

HERMES = dialect_of("hermes")
TREE = LossSettings(advantage="tree")


@pytest.fixture
def branched(rehearse: Rehearse, tmp_path: Path, request: Any) -> tuple[Path, ChatTokenizer, str]:
    """The run of a group of six mutants with tokens, two of which begin at the start."""
    model, history = tmp_path / "model", request.param
    write_tokenizer(model)
    status, _, err = rehearse(
        *("run", f"{LIBRARY}:lend-two", "-p", "mutant", "--tokens", model, "--dialect", "hermes"),
        *("-g", 6, "--branch-roots", 2, "--branch-width", 2, "--history", history, "--seed", 3),
        *("-o", tmp_path / "run"),
    )
    assert status == 0, err
    return tmp_path / "run", ChatTokenizer.open(model), history


def groups_of(folder: Path, chat: ChatTokenizer, history: str, loss: LossSettings) -> list[Group]:
    """The groups of a log, every prompt of which was computed again."""
    aligner = Alignment(parse_history(history), HERMES, chat)
    return list(groups_of_logs([folder], Grouping(loss=loss, aligner=aligner)))


def trajectories_of(folder: Path) -> dict[str, Trajectory]:
    with open_reader(folder) as reader:
        return {one.episode: one for one in reader.trajectories()}


HISTORIES = pytest.mark.parametrize(
    "branched", ["full", "last:1", "retrieve:1", "summary:900"], indirect=True
)


@HISTORIES
def test_every_sampled_token_is_trained_once(branched: tuple[Path, ChatTokenizer, str]) -> None:
    """The tokens of the turns that a branch keeps are its source's; all others are its own."""
    folder, *rest = branched
    (group,) = groups_of(folder, *rest, TREE)
    logged = trajectories_of(folder)
    own = {
        (name, number): event.reply.token_ids
        for name, one in logged.items()
        for number, event in enumerate(one.replies())
        if number >= one.num_context
    }
    trained = [
        ((rollout.episode, number), sample.tokens.tobytes())
        for rollout in group.rollouts
        for number, sample in enumerate(rollout.samples, logged[rollout.episode].num_context)
    ]
    assert len(trained) == len(dict(trained)) and dict(trained) == own
    assert any(one.summaries for one in logged.values()) == (rest[-1] == "summary:900")
    sources = [one.branching for one in group.rollouts]
    assert sources[:2] == [None, None] and len({one for one in sources if one}) == 2
    assert sum(len(one.samples) for one in group.rollouts) < sum(
        len(one.replies()) for one in logged.values()
    )
    by_name = {one.episode: one for one in group.rollouts}
    for one in group.rollouts[2:]:  # in the same state, shown the same window
        assert one.branching is not None
        first, source = one.samples[0], by_name[one.branching.episode]
        other = next(each for each in source.samples if each.turn == one.branching.turn)
        assert (first.state, first.prompt.tolist()) == (other.state, other.prompt.tolist())
    batch = packing.packed_batch([group])
    assert packing.rebuilt(batch) == packing.expected_samples([group])
    assert batch.num_trained == sum(map(len, own.values())) // 4


@pytest.mark.parametrize("branched", ["full"], indirect=True)
def test_an_episode_that_hides_its_source_is_noticed(
    branched: tuple[Path, ChatTokenizer, str],
) -> None:
    """The check above has something to find: a branch that claims to begin at the start has the
    samples of its source's turns, too."""
    one = next(one for one in trajectories_of(branched[0]).values() if one.started.is_branch)
    hidden = msgspec.structs.replace(one.started, forked_from=None)
    honest, lying = (
        rollout_of(msgspec.structs.replace(one, started=started), where="run").samples
        for started in (one.started, hidden)
    )
    assert len(lying) == len(honest) + one.first_own_turn


def shortened(group: Group, *, left: int = 8) -> Group:
    """The group with all but a few of the tokens with which all its prompts begin cut off: there
    are thousands (the tools)."""
    heads = [rollout.samples[0].head for rollout in group.rollouts]
    shortest = min(map(len, heads))
    equal = [len({int(head[index]) for head in heads}) == 1 for index in range(shortest)]
    cut = (equal.index(False) if False in equal else shortest) - left

    def one(rollout: Rollout, head: Ids) -> Rollout:
        samples = [msgspec.structs.replace(each, head=head) for each in rollout.samples]
        return msgspec.structs.replace(rollout, samples=tuple(samples))

    rollouts = [
        one(rollout, head[cut:]) for rollout, head in zip(group.rollouts, heads, strict=True)
    ]
    return msgspec.structs.replace(group, rollouts=tuple(rollouts))


def in_small_vocabulary(batch: Batch) -> list[PrefixGroup]:
    """The prefix groups with ids that the test's model has; equal beginnings stay equal."""
    return [
        PrefixGroup(
            one.prefix % 23,
            tuple(msgspec.structs.replace(each, tokens=each.tokens % 23) for each in one.suffixes),
        )
        for one in batch.prefix_groups
    ]


@pytest.mark.parametrize(
    ("branched", "advantage"),
    [
        pytest.param("full", "tree", marks=pytest.mark.slow),  # 14,000 tokens as rows
        ("last:1", "vine"),
        ("last:1", "gigpo"),
    ],
    indirect=["branched"],
)
def test_shared_trees_have_the_gradient_of_plain_rows(
    branched: tuple[Path, ChatTokenizer, str], advantage: Any
) -> None:
    """In float64, to rounding, over the whole batch; and fewer tokens are computed."""
    folder, *rest = branched
    loss = LossSettings(advantage=advantage)
    groups = [shortened(one) for one in groups_of(folder, *rest, loss)]
    advantages = [advantages_of(one, loss) for one in groups]
    assert any(value for of in advantages[0] for value in of)
    weights = weights_of(groups, "token")
    shared = batch_of(groups, advantages, weights)
    rows = batch_of(groups, advantages, weights, share=False, merge=False)
    assert shared.num_tokens < (0.5 if rest[-1] == "full" else 0.9) * rows.num_tokens
    assert shared.num_trained == rows.num_trained
    model = TinyLM().double()
    found, expected = (
        [compute(backend, model, one) for one in in_small_vocabulary(batch)]
        for backend, batch in ((TwoPass(4000), shared), (Naive(), rows))
    )
    assert sum(one.loss for one in found) == pytest.approx(sum(one.loss for one in expected))
    largest = max(one.largest_grad for one in expected)
    for name in expected[0].grads:
        gap = sum(one.grads[name] for one in found) - sum(one.grads[name] for one in expected)
        assert gap.abs().max().item() < 1e-10 * max(1.0, largest), name


def test_branches_of_one_state_share_what_they_keep() -> None:
    """Under full histories each state's branches begin with the same turns, which are computed once
    for all of them and once where they are trained."""
    start = [1, 2, 3]
    trunk = [(start, [4] * 10), ([*start, *[4] * 10, 5], [6] * 10)]
    kept = [*start, *[4] * 10, 5]
    branches = [[(kept, [number] * 3)] for number in (7, 8, 9)]
    plain = packing.group(trunk, [(start, [11])], *branches)
    rollouts = tuple(
        msgspec.structs.replace(one, branching=Branching("e0", 1)) if number > 1 else one
        for number, one in enumerate(plain.rollouts)
    )
    branching = msgspec.structs.replace(plain, rollouts=rollouts)
    batch = packing.packed_batch([branching])
    assert [one.prefix.tolist() for one in batch.prefix_groups] == [start[:-1], kept[:-1]]
    assert [len(one.suffixes) for one in batch.prefix_groups] == [2, 3]
    assert batch.num_tokens < packing.packed_batch([plain]).num_tokens
    assert packing.rebuilt(batch) == packing.expected_samples([branching])


# Groups -------------------------------------------------------------------------------------------


def look(number: int, prompt: tuple[int, ...] = (1, 2, 3)) -> StepTaken:
    """A turn with a call, after which the world is in a state of its own."""
    call = AgentCall("look", {}, f"c{number}")
    result = ToolResult("ok", digest=f"after {number}")
    return StepTaken(reply(prompt), Act((call,)), (result,))


def member(
    number: int,
    *turns: StepTaken,
    reward: float = 0.0,
    after: tuple[str, int] | None = None,
    size: int = 4,
    ending: Ending = Ending.ANSWERED,
    label: Label | None = None,
    start_digest: str = "w" * 32,
) -> list[Record]:
    """The records of an episode; `after`: the episode that it branches from, and how many of the
    turns are that one's."""
    source = None if after is None else ForkedFrom("", *after)
    start = msgspec.structs.replace(
        started(group="g0", member=number),
        group_size=size,
        kept=0 if after is None else after[1],
        forked_from=source,
        start_digest=start_digest,
    )
    events = [start, *turns, ended(ending, len(turns))]
    return story(f"g0-{number}", [*events, judged(reward, label=label)])


def grouped(loss: LossSettings, *members: list[Record]) -> Group | DroppedGroup | None:
    grouping = Grouping(loss=loss)
    return [grouping.add(assemble(records), where="run") for records in members][-1]


def trunk_and_branches(**trunk: Any) -> list[list[Record]]:
    """A trunk of three turns; two branches after its first turn; another episode from the start."""
    turns = [look(0), look(1), step(reply())]
    return [
        member(0, *turns, **{"reward": 1.0, **trunk}),
        member(1, *turns),
        member(2, look(0), step(reply()), reward=1.0, after=("g0-0", 1)),
        member(3, look(0), look(1), step(reply()), after=("g0-0", 1)),
    ]


def credits(group: Any, loss: LossSettings) -> dict[int, list[float]]:
    return {
        rollout.member: values
        for rollout, values in zip(group.rollouts, advantages_of(group, loss), strict=True)
    }


def test_turns_have_the_advantage_of_their_segment() -> None:
    """The trunk's first turn leads to a state of value 2/3, its others are worth 1 against 1/2 of
    the branches; a branch trains the turns after those that it keeps."""
    group = grouped(TREE, *trunk_and_branches())
    found = credits(group, TREE)
    assert found[0] == pytest.approx([2 / 3 - 0, 1 - 1 / 2, 1 - 1 / 2])
    assert found[1] == pytest.approx([-2 / 3] * 3)
    assert (found[2], found[3]) == ([1 - 1 / 2], [0 - 1.0, 0 - 1.0])
    assert isinstance(group, Group)
    assert [[one.turn for one in each.samples] for each in group.rollouts] == [
        *([0, 1, 2], [0, 1, 2], [1], [1, 2])
    ]


@pytest.mark.parametrize(
    "died",
    [
        {"ending": Ending.WORLD_ERROR, "reward": 0.0},
        {"label": Label.ENVIRONMENT_ERROR, "reward": 0.0},
    ],
)
def test_a_trunk_whose_world_failed_leaves_its_branches(died: dict[str, Any]) -> None:
    """They are compared with each other: of what the trunk did nothing is trained."""
    found = credits(grouped(TREE, *trunk_and_branches(**died)), TREE)
    assert found == {1: [0.0] * 3, 2: [1.0], 3: [-1.0, -1.0]}


def test_a_branch_that_died_is_as_if_it_had_not_begun() -> None:
    """A world that failed does not count as a reward of 0. Where it was the only branch of its
    state, the trunk is one segment again."""
    members = trunk_and_branches()
    dead = member(
        *(3, look(0), look(1), step(reply())),
        after=("g0-0", 1),
        ending=Ending.WORLD_ERROR,
    )
    assert credits(grouped(TREE, *members[:3], dead), TREE) == {
        0: [1.0, 0.0, 0.0],
        1: [-1.0] * 3,
        2: [0.0],
    }
    both = member(2, look(0), step(reply()), after=("g0-0", 1), ending=Ending.WORLD_ERROR)
    found = credits(grouped(TREE, *members[:2], both, dead), TREE)
    assert found == {0: [1.0] * 3, 1: [-1.0] * 3}


def test_a_branch_without_a_verdict_drops_its_group() -> None:
    """As any member does: that is not a reward of zero."""
    members = trunk_and_branches()
    unjudged = member(3, look(0), step(reply()), after=("g0-0", 1))
    unjudged[-1] = msgspec.structs.replace(unjudged[-1], event=judged(None))
    assert grouped(TREE, *members[:3], unjudged) == DroppedGroup("g0", "unjudged")


def test_a_branch_that_the_budget_refused_is_silent() -> None:
    """It took no turn: the group goes on without it."""
    members = trunk_and_branches()
    refused = member(3, ending=Ending.TOKEN_LIMIT)
    group = grouped(TREE, *members[:3], refused)
    assert isinstance(group, Group) and [one.member for one in group.rollouts] == [0, 1, 2]


@pytest.mark.parametrize("advantage", ["tree", "vine"])
def test_a_group_of_equal_rewards_is_dropped(advantage: Any) -> None:
    """However it branches."""
    members = trunk_and_branches(reward=0.0)
    members[2] = member(2, look(0), step(reply()), after=("g0-0", 1))
    loss = LossSettings(advantage=advantage)
    assert grouped(loss, *members) == DroppedGroup("g0", "equal")


@pytest.mark.parametrize("advantage", ["mean_std", "mean", "leave_one_out"])
def test_whole_episodes_are_not_compared_with_branches(advantage: Any) -> None:
    """Also in logs, where the training file does not know that they branch. Cloning may use
    them."""
    with pytest.raises(SampleError, match="'g0-2' branches from 'g0-0', and advantage"):
        grouped(LossSettings(advantage=advantage), *trunk_and_branches())
    assert isinstance(grouped(LossSettings(advantage="reward"), *trunk_and_branches()), Group)


def test_branches_have_no_length_to_compare() -> None:
    """Of a branch only the turns after those that it keeps are counted: it would seem shorter than
    the episode that it goes on from."""
    loss = LossSettings(advantage="gigpo", length_penalty=0.5)
    with pytest.raises(SampleError, match="'g0-2' branches from 'g0-0', so its length is that"):
        grouped(loss, *trunk_and_branches())


# GiGPO --------------------------------------------------------------------------------------------


def gigpo(**changes: Any) -> LossSettings:
    return LossSettings(advantage="gigpo", **changes)


def test_anchors_are_the_digest_and_the_window() -> None:
    """The second turns of all four episodes are in worlds of one digest. Two of them were shown one
    window, and are compared; the third saw another one, and the fourth saw the same in a world of
    another digest."""
    other = msgspec.structs.replace(look(0), results=(ToolResult("ok", digest="elsewhere"),))
    shown = (1, 2, 4)
    group = grouped(
        gigpo(gigpo_discount=1.0),
        member(0, look(0), step(reply(shown)), reward=1.0),
        member(1, look(0), step(reply(shown))),
        member(2, look(0), step(reply((1, 2, 5)))),
        member(3, other, step(reply(shown))),
    )
    found = credits(group, gigpo(gigpo_discount=1.0))
    first = 2 * (1 - 1 / 4), 2 * (0 - 1 / 4)
    assert found == {
        0: [first[0], 3 / 4 + 1 / 2],
        1: [first[1], -1 / 4 - 1 / 2],
        2: [first[1], -1 / 4],
        3: [first[1], -1 / 4],
    }


def test_equal_rewards_may_differ_step_by_step() -> None:
    """Discounted, the shorter way from a state is the better one, and the group is trained; with a
    discount of 1, or with rewards of 0, nothing is left."""
    ways = [
        member(0, look(0), step(reply((9,))), reward=1.0, size=2),
        member(1, look(0), look(1, (8,)), step(reply((9,))), reward=1.0, size=2),
    ]
    found = credits(grouped(gigpo(gigpo_discount=0.5), *ways), gigpo(gigpo_discount=0.5))
    assert found == {0: [(1 / 2 - 1 / 4) / 2, 0.0], 1: [-(1 / 2 - 1 / 4) / 2, 0.0, 0.0]}
    assert grouped(gigpo(gigpo_discount=1.0), *ways) == DroppedGroup("g0", "equal")
    failed = [member(0, step(reply()), size=2), member(1, look(0), step(reply()), size=2)]
    assert grouped(gigpo(), *failed) == DroppedGroup("g0", "equal")


def test_a_world_without_a_digest_has_no_anchors() -> None:
    """Equal windows would then seem to be equal states."""
    with pytest.raises(SampleError, match="'g0-0': its world does not reveal its state"):
        grouped(gigpo(), member(0, step(reply()), start_digest=""))
    assert grouped(TREE, member(0, step(reply()), start_digest="")) is None
