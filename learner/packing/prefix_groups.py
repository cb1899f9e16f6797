"""From groups to the layout of one optimiser step: shared prefixes once, each sampled token once.

Two things are saved, and neither changes a number that is trained:

merging    within an episode, a prompt that begins with the prompt before and what was sampled then,
           token for token, goes on in the same leaf (histories that were only appended to)
sharing    what all leaves of a group begin with is its prefix (windows that were cut still begin
           with system prompt, tools and task)

Where the episodes of a group differ early, each makes a star of its own, if that is fewer tokens;
or all but its opening, which makes a star with the openings of the others. So it is in AWM's
dialect, where the agent asks for the tool list: its own first reply stands before what is long.

The work is per sample and in arrays, never per token.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from learner.core.samples import Group, Ids, Sample
from learner.packing.batch import Batch, Leaf, Numbers, Star

PerSample = Sequence[Sequence[Sequence[float]]]  # a number for each sample: group, rollout, sample


class _Rows(msgspec.Struct):
    """The samples of a batch in order, S of them; their places are their numbers as steps."""

    samples: list[Sample] = []
    advantages: list[float] = []
    weights: list[float] = []  # of each token
    episodes: list[int] = []  # their numbers
    lengths: list[int] = []  # of the prompts, in tokens


class _Chain(msgspec.Struct, gc=False):
    """Samples that make one leaf: each extends the one before."""

    begin: int  # the number of its first sample in the batch
    end: int  # and of the one behind its last
    length: int  # tokens up to and with the last one sampled


def batch_of(
    groups: Sequence[Group],
    advantages: PerSample,
    weights: PerSample,
    *,
    share: bool = True,
    merge: bool = True,
) -> Batch:
    """The groups' samples as stars. Advantages and weights (of each token) stand sample by sample.

    Without `share` prefixes are empty: leaves are whole rows. Without `merge` each sample is a leaf
    of its own. Steps and episodes are numbered in the order given. Raises ValueError where
    advantages or weights are not as many as the samples.

    Example: prompt 1 2 3, sampled 4; and in another episode prompt 1 2 5, sampled 6 ->
        prefix 1 2, leaves [3 4] and [5 6], of each the token at place 1 is trained
    """
    rows = _Rows()
    shared: list[list[_Shared]] = []
    num_episodes = 0
    for group, of_rollouts, of_tokens in zip(groups, advantages, weights, strict=True):
        episodes: list[list[_Chain]] = []
        for rollout, *numbers in zip(group.rollouts, of_rollouts, of_tokens, strict=True):
            count = len(rollout.samples)
            if [len(numbers[0]), len(numbers[1])] != [count, count]:
                raise ValueError(
                    f"episode {rollout.episode!r} has {count} samples, {len(numbers[0])} advantages"
                    f" and {len(numbers[1])} weights"
                )
            lengths = [len(one.head) + len(one.shown) for one in rollout.samples]
            episodes.append(_chains(rollout.samples, lengths, len(rows.samples), merge=merge))
            rows.samples += rollout.samples
            rows.lengths += lengths
            rows.advantages += numbers[0]
            rows.weights += numbers[1]
            rows.episodes += [num_episodes] * count
            num_episodes += 1
        shared.append(_shared(rows.samples, episodes, share=share))
    num_row_tokens = sum(rows.lengths) + sum(len(one.tokens) for one in rows.samples)
    return Batch(tuple(_stars(rows, shared)), len(rows.samples), num_episodes, num_row_tokens)


def shared_token_ratio(batch: Batch) -> float:
    """Tokens computed by tokens of per-step rows: 1 where nothing is saved, 0.2 where four fifths
    are. A batch without samples has 1."""
    return batch.num_tokens / batch.num_row_tokens if batch.num_row_tokens else 1.0


def _chains(
    samples: Sequence[Sample], lengths: Sequence[int], first: int, *, merge: bool
) -> list[_Chain]:
    """One episode's samples, with prompts of these lengths, joined where one extends the one
    before. They are counted from `first`."""
    assert all(one.head is samples[0].head for one in samples), "an episode has one head"
    chains: list[_Chain] = []
    end = 0  # tokens up to and with the last one sampled before
    for place, (sample, length) in enumerate(zip(samples, lengths, strict=True)):
        goes_on = merge and place and _extends(sample, samples[place - 1], end)
        end = length + len(sample.tokens)
        if goes_on:
            chains[-1].end += 1
            chains[-1].length = end
        else:
            chains.append(_Chain(first + place, first + place + 1, end))
    return chains


def _extends(sample: Sample, before: Sample, end: int) -> bool:
    """Whether a prompt begins with the one before and what was sampled then, `end` tokens
    together."""
    end -= len(sample.head)
    start = end - len(before.tokens)
    # Seldom so, and then seen at the sampled tokens.
    if sample.shown[start:end].tobytes() != before.tokens.tobytes():
        return False
    return sample.shown[:start].tobytes() == before.shown.tobytes()


_Shared = tuple[list[_Chain], int]  # the chains of one star, and how many tokens they share


def _shared(
    samples: Sequence[Sample], episodes: Sequence[list[_Chain]], *, share: bool
) -> list[_Shared]:
    """The stars of a group."""
    together = [chain for chains in episodes for chain in chains]
    if not together:
        return []
    if not share:
        return [(together, 0)]
    kept = [chains for chains in episodes if chains]
    openings = [chains[0] for chains in kept]
    behind = [chains[1:] for chains in kept if len(chains) > 1]
    each = [(chains, len(_head(samples, chains))) for chains in kept]
    first = _common([_head(samples, [chain]) for chain in openings])
    least = min(shared for _, shared in each)
    one = [(together, min(len(first), least))]
    parted = [(openings, len(first)), *((rest, len(_head(samples, rest))) for rest in behind)]
    stars = min(one, each, parted, key=lambda stars: sum(map(_cost, stars)))
    # A single leaf shares with nobody.
    return [(chains, shared if len(chains) > 1 else 0) for chains, shared in stars]


def _cost(star: _Shared) -> int:
    chains, shared = star
    return sum(chain.length for chain in chains) - (len(chains) - 1) * shared


def _head(samples: Sequence[Sample], chains: Sequence[_Chain]) -> Ids:
    """What the leaves of these chains of one episode begin with (in a chain, what stands later
    begins with its first prompt). At least one token of each prompt stays in its leaf, so that the
    leaf itself predicts its first sampled token."""
    head = samples[chains[0].begin].head
    more = _common([samples[chain.begin].shown[:-1] for chain in chains])
    return np.concatenate((head, more)) if len(more) else head


def _common(arrays: Sequence[Ids]) -> Ids:
    """What all begin with."""
    common = arrays[0][: min(map(len, arrays))]
    same = common.tobytes()
    for other in arrays:
        begin = other[: len(common)]
        if begin.tobytes() != same:
            common = common[: int((begin != common).argmax())]
            same = common.tobytes()
    return common


def _stars(rows: _Rows, groups: Sequence[Sequence[_Shared]]) -> Iterator[Star]:
    """The stars of some groups. The arrays of all leaves are made at once and cut into leaves: N
    sampled tokens in all.

    Large arrays are also cheaper by the byte, since numpy asks for huge pages from 4 MB on: on
    a virtual machine most of this work is the kernel giving out fresh pages.
    """
    shared = [(number, *star) for number, stars in enumerate(groups) for star in stars]
    if not shared:
        return
    chains = [(chain, num) for _, star, num in shared for chain in star]
    lengths = np.array([len(one.tokens) for one in rows.samples])  # [S]
    ends = np.cumsum(lengths)
    trained, steps, episodes = _places(rows, chains, lengths, ends - lengths)
    sampler = np.concatenate([one.logprobs for one in rows.samples])
    advantages = np.repeat(np.array(rows.advantages, np.float32), lengths)
    weights = np.repeat(np.array(rows.weights, np.float32), lengths)
    # Of each leaf what its last sample was shown behind the prefix, and what it sampled.
    pieces: list[Ids] = []
    for chain, num in chains:
        last = rows.samples[chain.end - 1]
        if num < len(last.head):
            pieces.append(last.head[num:])
        pieces += (last.shown[max(0, num - len(last.head)) :], last.tokens)
    tokens = np.concatenate(pieces)
    bounds = [0, *ends.tolist()]
    place = 0
    for group, star, num in shared:
        leaves = []
        for chain in star:
            begin, end = bounds[chain.begin], bounds[chain.end]
            leaf = Leaf(
                tokens[place : place + chain.length - num],
                trained[begin:end],
                sampler[begin:end],
                advantages[begin:end],
                weights[begin:end],
                steps[begin:end],
                episodes[begin:end],
            )
            leaves.append(leaf)
            place += chain.length - num
        prefix = rows.samples[star[0].begin].prompt[:num]
        yield Star(prefix.copy(), tuple(leaves), group)


def _places(
    rows: _Rows, chains: Sequence[tuple[_Chain, int]], lengths: Numbers, starts: Numbers
) -> Numbers:
    """Of each sampled token its place in its leaf, its step and its episode: `[3, N]`.

    Running sums in one array: all three stay as they are, or go up by one, from token to token,
    but where a sample begins (at `starts`, with `lengths` tokens).
    """
    first = np.array(rows.lengths)
    for chain, num in chains:
        first[chain.begin : chain.end] -= num
    values = np.stack([first, np.arange(len(lengths)), np.array(rows.episodes)])
    jumps = np.diff(values, axis=1, prepend=0)
    jumps[0, 1:] -= lengths[:-1] - 1  # the places that the sample before went up
    sums = np.zeros((3, int(lengths.sum())), np.int64)
    sums[0] = 1
    sums[:, starts] = jumps
    return np.cumsum(sums, axis=1, out=sums)
