"""Episode groups as prefix groups: what is shared and merged, and that no token is lost or trained
twice."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rehearsal_room.learner.core.samples import Branching, Group, Ids, Rollout, Sample
from rehearsal_room.learner.packing.batch import Batch, Suffix
from rehearsal_room.learner.packing.prefix_groups import batch_of, shared_token_ratio
from tests.support.budgets import examples

Known = dict[int, tuple[Any, ...]]  # by step: prompt, tokens, logprobs, advantage, weight, episode


Pairs = Sequence[tuple[Sequence[int], Sequence[int]]]  # prompts and sampled tokens


def samples(pairs: Pairs, max_head: int) -> tuple[Sample, ...]:
    """An episode's samples, with different log-probabilities for different tokens. Up to
    `max_head` tokens of the common beginning of all prompts become the shared head."""
    prompts = [ids(prompt) for prompt, _ in pairs]
    length = min(max_head, *(len(prompt) - 1 for prompt in prompts))
    while any(prompt[:length].tolist() != prompts[0][:length].tolist() for prompt in prompts):
        length -= 1
    head = prompts[0][:length]
    found = []
    for turn, (prompt, (_, tokens)) in enumerate(zip(prompts, pairs, strict=True)):
        logprobs = np.array([-0.5 * token for token in tokens], np.float32)
        logprobs.flags.writeable = False
        found.append(Sample(prompt[length:], ids(tokens), logprobs, 0.0, turn, "v1", head=head))
    return tuple(found)


def ids(numbers: Sequence[int]) -> Ids:
    array = np.array(numbers, np.int32)
    array.flags.writeable = False  # like arrays that are read from a log
    return array


def group(*episodes: Pairs, name: str = "g0", max_head: int = 100) -> Group:
    rollouts = tuple(
        Rollout(f"e{member}", member, 0.0, samples(pairs, max_head), "answered", "completed")
        for member, pairs in enumerate(episodes)
    )
    return Group(name, "shop", "void", rollouts)


def numbered(groups: Sequence[Group], start: float) -> list[list[list[float]]]:
    """A different number for each sample."""
    numbers = iter(np.arange(start, start + 10_000, 1.0))
    return [
        [[float(next(numbers)) for _ in rollout.samples] for rollout in one.rollouts]
        for one in groups
    ]


def packed_batch(groups: Sequence[Group], *, share: bool = True, merge: bool = True) -> Batch:
    return batch_of(
        groups, numbered(groups, 1.0), numbered(groups, 20_000.0), share=share, merge=merge
    )


def expected_samples(groups: Sequence[Group]) -> Known:
    """Every sample of the groups, by its step number."""
    advantages, weights = numbered(groups, 1.0), numbered(groups, 20_000.0)
    found: Known = {}
    episode = 0
    for g, one in enumerate(groups):
        for r, rollout in enumerate(one.rollouts):
            for s, each in enumerate(rollout.samples):
                arrays = (each.prompt, each.tokens, each.logprobs)
                lists = tuple(array.tolist() for array in arrays)
                found[len(found)] = (*lists, advantages[g][r][s], weights[g][r][s], episode)
            episode += 1
    return found


def rebuilt(batch: Batch) -> Known:
    """Every sample of a batch, reconstructed from its prefix groups: a prompt is all tokens before
    a step's first trained token. Fails if a token is trained twice or a position is skipped."""
    found: Known = {}
    for prefix_group in batch.prefix_groups:
        for suffix in prefix_group.suffixes:
            row = np.concatenate((prefix_group.prefix, suffix.tokens))
            assert suffix.trained.tolist() == sorted(set(suffix.trained.tolist()))
            assert not len(suffix.trained) or suffix.trained[0] >= 1
            for step in np.unique(suffix.steps).tolist():
                (chosen,) = np.nonzero(suffix.steps == step)
                indices = suffix.trained[chosen] + len(prefix_group.prefix)
                assert np.diff(indices).tolist() == [1] * (len(indices) - 1)
                assert step not in found
                found[step] = (
                    row[: indices[0]].tolist(),
                    row[indices].tolist(),
                    suffix.sampler[chosen].tolist(),
                    *(_one(values[chosen]) for values in (suffix.advantages, suffix.weights)),
                    _one(suffix.episodes[chosen]),
                )
    return found


def _one(values: Any) -> Any:
    (value,) = set(values.tolist())
    return value


def lists(suffix: Suffix) -> tuple[list[int], list[int]]:
    return suffix.tokens.tolist(), suffix.trained.tolist()


def test_windows_share_their_common_beginning() -> None:
    """The prefix is the common beginning of all prompts; each suffix starts with a token of its
    prompt."""
    batch = packed_batch([group([([1, 2, 3, 4], [5, 6])], [([1, 2, 3, 7], [8])])])
    (prefix_group,) = batch.prefix_groups
    assert prefix_group.prefix.tolist() == [1, 2, 3]
    assert [lists(suffix) for suffix in prefix_group.suffixes] == [
        ([4, 5, 6], [1, 2]),
        ([7, 8], [1]),
    ]
    assert (batch.num_steps, batch.num_episodes, batch.num_row_tokens) == (2, 2, 11)
    assert (batch.num_tokens, batch.num_trained) == (8, 3)
    assert shared_token_ratio(batch) == 8 / 11


def test_equal_prompts_keep_their_last_token_in_the_suffix() -> None:
    """If one prompt is the beginning of all others, its last token is not shared, because it
    predicts a trained token."""
    batch = packed_batch([group([([1, 2, 3], [5])], [([1, 2, 3], [6])], [([1, 2, 3, 4], [7])])])
    (prefix_group,) = batch.prefix_groups
    assert prefix_group.prefix.tolist() == [1, 2]
    assert [lists(suffix) for suffix in prefix_group.suffixes] == [
        ([3, 5], [1]),
        ([3, 6], [1]),
        ([3, 4, 7], [2]),
    ]


def test_a_history_that_was_appended_to_is_one_suffix() -> None:
    """Steps that extend the previous one are merged into one suffix; a cut starts another one."""
    episode = [
        ([1, 2], [10]),
        ([1, 2, 10, 3], [11, 12]),
        ([1, 2, 10, 3, 11, 12, 4], [13]),
        ([1, 2, 11, 12, 4, 13, 5], [14]),
    ]
    (prefix_group,) = packed_batch([group(episode)]).prefix_groups
    assert prefix_group.prefix.tolist() == [1]
    assert [lists(suffix) for suffix in prefix_group.suffixes] == [
        ([2, 10, 3, 11, 12, 4, 13], [1, 3, 4, 6]),
        ([2, 11, 12, 4, 13, 5, 14], [6]),
    ]
    first = prefix_group.suffixes[0]
    assert first.steps.tolist() == [0, 1, 1, 2]
    assert first.sampler.tolist() == [-5.0, -5.5, -6.0, -6.5]
    assert first.advantages.tolist() == [1.0, 2.0, 2.0, 3.0]


def test_a_different_sampled_token_is_not_a_continuation() -> None:
    """A prompt with other tokens than were sampled before becomes a separate suffix, even if the
    prompt before them is the same; so does a prompt that starts differently."""
    other_sampled = [([1, 2], [10]), ([1, 2, 11, 3], [12])]
    other_prompt = [([1, 2], [10]), ([1, 9, 10, 3], [12])]
    for episode in (other_sampled, other_prompt):
        assert len(packed_batch([group(episode)]).prefix_groups[0].suffixes) == 2


def test_a_single_suffix_shares_nothing() -> None:
    """A single suffix is a whole row: a prefix would save nothing."""
    (prefix_group,) = packed_batch(
        [group([([1, 2, 3], [4]), ([1, 2, 3, 4, 5], [6])])]
    ).prefix_groups
    assert prefix_group.prefix.tolist() == []
    assert [lists(suffix) for suffix in prefix_group.suffixes] == [([1, 2, 3, 4, 5, 6], [3, 5])]


def test_episodes_that_differ_early_become_separate_prefix_groups() -> None:
    """If two episodes share little, and the windows of each share much, this computes fewer
    tokens."""
    episodes = [
        [([1, own, 5, 5, 5, 5, last], [7]) for last in (8, 9)]  # own: a pinned early reply
        for own in (2, 3)
    ]
    batch = packed_batch([group(*episodes)])
    assert [prefix_group.prefix.tolist() for prefix_group in batch.prefix_groups] == [
        [1, 2, 5, 5, 5, 5],
        [1, 3, 5, 5, 5, 5],
    ]
    assert batch.num_tokens == 20
    assert rebuilt(batch) == expected_samples([group(*episodes)])


def test_openings_before_a_pinned_first_turn_become_one_prefix_group() -> None:
    """If each agent's first reply comes before the common part of its later windows, the openings
    share the task, and each episode's later windows share that reply and its results."""
    tools = [5] * 20
    episodes = [
        [
            ([1, 1, 1], [own]),
            *(([1, 1, 1, own, *tools, *turn], [7]) for turn in ([8, 8], [9, 9], [10, 10])),
        ]
        for own in (2, 3)
    ]
    batch = packed_batch([group(*episodes)])
    assert [prefix_group.prefix.tolist() for prefix_group in batch.prefix_groups] == [
        [1, 1],
        [1, 1, 1, 2, *tools],
        [1, 1, 1, 3, *tools],
    ]
    assert [len(prefix_group.suffixes) for prefix_group in batch.prefix_groups] == [2, 2, 2]
    assert rebuilt(batch) == expected_samples([group(*episodes)])


def test_without_sharing_and_merging_each_sample_is_a_row() -> None:
    """These rows are the reference for the number of tokens."""
    groups = [group([([1, 2], [3]), ([1, 2, 3, 4], [5])], [([1, 6], [7])])]
    batch = packed_batch(groups, share=False, merge=False)
    (prefix_group,) = batch.prefix_groups
    assert prefix_group.prefix.tolist() == []
    assert [lists(suffix) for suffix in prefix_group.suffixes] == [
        ([1, 2, 3], [2]),
        ([1, 2, 3, 4, 5], [4]),
        ([1, 6, 7], [2]),
    ]
    assert batch.num_tokens == batch.num_row_tokens == 11


def test_no_groups_make_an_empty_batch() -> None:
    """It has no prefix groups and no tokens."""
    batch = batch_of([], [], [])
    assert (batch.prefix_groups, batch.num_tokens, shared_token_ratio(batch)) == ((), 0, 1.0)


def test_arrays_may_be_written_to() -> None:
    """Arrays from a log are read-only, and torch accepts only writeable arrays."""
    (prefix_group,) = packed_batch([group([([1, 2, 3], [4])], [([1, 2, 5], [6])])]).prefix_groups
    arrays: list[Any] = [prefix_group.prefix]
    for suffix in prefix_group.suffixes:
        arrays += [suffix.tokens, suffix.trained, suffix.sampler, suffix.advantages, suffix.weights]
    assert all(array.flags.writeable for array in arrays)


def test_a_missing_advantage_is_refused() -> None:
    """There must be as many advantages as samples."""
    one = group([([1], [2]), ([1, 3], [4])])
    with pytest.raises(ValueError, match="'e0' has 2 samples, 1 advantages and 2 weights"):
        batch_of([one], [[[1.0]]], [[[1.0, 1.0]]])
    with pytest.raises(ValueError, match="zip"):
        batch_of([one], [[]], [[[1.0, 1.0]]])


tokens = st.lists(st.integers(10, 12), min_size=1, max_size=3)


@st.composite
def episodes(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """An episode whose windows grow, are cut, or are completely different."""
    head = [1, 2, 3][: draw(st.integers(1, 3))] + draw(st.lists(st.integers(4, 5), max_size=2))
    history: list[int] = []
    pairs = []
    for _ in range(draw(st.integers(1, 5))):
        match draw(st.sampled_from(["grow", "grow", "cut", "other"])):
            case "cut":
                history = history[draw(st.integers(0, len(history))) :]
            case "other":
                history = draw(st.lists(st.integers(4, 12), max_size=4))
        sampled = draw(tokens)
        pairs.append((head + history, sampled))
        history = history + sampled + draw(st.lists(st.integers(20, 21), max_size=2))
    return pairs


groups_of = st.lists(
    st.tuples(st.lists(episodes(), min_size=1, max_size=3), st.integers(0, 6)),
    min_size=1,
    max_size=3,
).map(lambda drawn: [group(*pairs, name=f"g{n}", max_head=m) for n, (pairs, m) in enumerate(drawn)])


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(groups_of, st.booleans(), st.booleans())
def test_no_token_is_lost_or_trained_twice(groups: list[Group], share: bool, merge: bool) -> None:
    """Exactly the original samples can be reconstructed from the prefix groups, each once and at
    its positions, and there are never more tokens than in rows."""
    batch = packed_batch(groups, share=share, merge=merge)
    assert rebuilt(batch) == expected_samples(groups)
    assert batch.num_steps == len(expected_samples(groups))
    assert batch.num_episodes == sum(len(one.rollouts) for one in groups)
    assert batch.num_row_tokens == sum(len(one[0]) + len(one[1]) for one in rebuilt(batch).values())
    assert batch.num_tokens <= batch.num_row_tokens
    assert batch.num_trained == sum(len(one[1]) for one in expected_samples(groups).values())


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(episodes(), min_size=1, max_size=3))
def test_a_shared_head_changes_nothing(pairs: list[Pairs]) -> None:
    """Prompts that are stored with a shared head give the same prefix groups as full prompts."""
    whole, parted = packed_batch([group(*pairs, max_head=0)]), packed_batch([group(*pairs)])
    assert [prefix_group.prefix.tolist() for prefix_group in whole.prefix_groups] == [
        prefix_group.prefix.tolist() for prefix_group in parted.prefix_groups
    ]
    assert [list(map(lists, prefix_group.suffixes)) for prefix_group in whole.prefix_groups] == [
        list(map(lists, prefix_group.suffixes)) for prefix_group in parted.prefix_groups
    ]


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(groups_of, st.randoms())
def test_the_order_of_episodes_changes_only_their_order(groups: list[Group], random: Any) -> None:
    """Groups and episodes in another order give the same suffixes after the same prefixes."""
    shuffled = []
    for one in random.sample(groups, len(groups)):
        rollouts = random.sample(one.rollouts, len(one.rollouts))
        shuffled.append(Group(one.group, one.scenario, one.task, tuple(rollouts)))

    def layout(batch: Batch) -> list[Any]:
        return sorted(
            (prefix_group.prefix.tolist(), sorted(map(lists, prefix_group.suffixes)))
            for prefix_group in batch.prefix_groups
        )

    assert layout(packed_batch(shuffled)) == layout(packed_batch(groups))
    assert packed_batch(shuffled).num_tokens == packed_batch(groups).num_tokens


@settings(max_examples=examples(40), deadline=None)
@given(groups_of, st.randoms())
def test_branches_lose_no_token_and_need_no_more(groups: list[Group], random: Any) -> None:
    """Whichever episodes branch, and wherever: exactly the original samples can be reconstructed,
    each once, and knowing the branches never costs tokens."""

    def somewhere(one: Rollout, of: Group) -> Rollout:
        source = random.choice(of.rollouts).episode
        at = Branching(source, random.randint(1, 3)) if random.random() < 0.7 else None
        return msgspec.structs.replace(one, branching=at)

    branched = [
        msgspec.structs.replace(of, rollouts=tuple(somewhere(one, of) for one in of.rollouts))
        for of in groups
    ]
    batch = packed_batch(branched)
    assert rebuilt(batch) == expected_samples(groups)
    assert batch.num_tokens <= packed_batch(groups).num_tokens


def test_the_reconstruction_finds_faults() -> None:
    """The properties above fail for a batch whose suffix is shifted or trains a token twice."""
    groups = [group([([1, 2, 3, 4], [5, 6])], [([1, 2, 3, 7], [8])])]
    (prefix_group,) = packed_batch(groups).prefix_groups
    suffix = prefix_group.suffixes[0]
    shifted = type(suffix)(
        suffix.tokens,
        suffix.trained - 1 + np.array([1, 0]),
        suffix.sampler,
        suffix.advantages,
        suffix.weights,
        suffix.steps,
        suffix.episodes,
    )
    with pytest.raises(AssertionError):
        rebuilt(
            Batch(
                (type(prefix_group)(prefix_group.prefix, (shifted, *prefix_group.suffixes[1:])),),
                2,
                2,
                11,
            )
        )
    twice = Batch((type(prefix_group)(prefix_group.prefix, (suffix, suffix)),), 2, 2, 11)
    with pytest.raises(AssertionError):
        rebuilt(twice)
    early = Batch((type(prefix_group)(prefix_group.prefix[:-1], prefix_group.suffixes),), 2, 2, 11)
    assert rebuilt(early) != expected_samples(groups)


@pytest.mark.parametrize(("trained", "span"), [([0, 1], "0 to 1"), ([1, 3], "1 to 3")])
def test_a_suffix_that_trains_a_token_it_cannot_predict_is_refused(
    trained: list[int], span: str
) -> None:
    """The token at index 0 has no token of the suffix before it, and index 3 does not exist."""
    values = np.zeros(2, np.float32)
    numbers = np.zeros(2, np.int64)
    tokens = np.arange(3, dtype=np.int32)
    with pytest.raises(ValueError, match=f"trains the tokens at {span}: expected indices from 1"):
        Suffix(tokens, np.array(trained), values, values, values, numbers, numbers)
