"""From episode groups to the layout of one optimiser step: every shared prefix is computed once,
every sampled token is trained once.

Two methods save work, and neither changes a trained number:

merging    within an episode, a prompt that starts with the previous prompt and its sampled tokens,
           token for token, continues the same suffix (histories that were only appended to)
sharing    the common beginning of all suffixes of a group becomes its prefix (windows that were cut
           still start with system prompt, tools and task)

When the episodes of a group differ early, each one becomes a separate prefix group if that computes
fewer tokens. Or the first suffixes of all episodes form one prefix group, and each episode's later
suffixes form another one. The latter happens in AWM's dialect, where the agent asks for the tool
list: there the agent's own first reply comes before the long part of the prompt.

The work is per sample and in arrays, never per token.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from rehearsal_room.learner.core.samples import Branching, Group, Ids, Sample
from rehearsal_room.learner.packing.batch import Batch, Int64Array, PrefixGroup, Suffix

PerSample = Sequence[Sequence[Sequence[float]]]  # a number for each sample: group, rollout, sample


class _Rows(msgspec.Struct):
    """The S samples of a batch, in order; the index of a sample is its step number."""

    samples: list[Sample] = []
    advantages: list[float] = []
    weights: list[float] = []  # of each token of the sample
    episodes: list[int] = []  # episode numbers
    lengths: list[int] = []  # of the prompts, in tokens


class _Chain(msgspec.Struct, gc=False):
    """Consecutive samples that form one suffix: each extends the previous one."""

    begin: int  # the number of its first sample in the batch
    end: int  # the number after its last sample
    length: int  # tokens from the start of the prompt to the last sampled token


def batch_of(
    groups: Sequence[Group],
    advantages: PerSample,
    weights: PerSample,
    *,
    share: bool = True,
    merge: bool = True,
) -> Batch:
    """The groups' samples as prefix groups.

    `advantages` has one number per sample, `weights` the weight of each token of a sample. Without
    `share`, prefixes are empty and suffixes are whole rows. Without `merge`, each sample is a
    separate suffix. Steps and episodes are numbered in the given order. Raises ValueError when the
    number of advantages or weights is not the number of samples.

    Example: prompt 1 2 3, sampled 4; and in another episode prompt 1 2 5, sampled 6 ->
        prefix 1 2, suffixes [3 4] and [5 6]; in each, the token at index 1 is trained
    """
    rows = _Rows()
    layouts: list[list[_PrefixChains]] = []
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
            lengths = [len(one.head) + len(one.tail) for one in rollout.samples]
            episodes.append(_chains(rollout.samples, lengths, len(rows.samples), merge=merge))
            rows.samples += rollout.samples
            rows.lengths += lengths
            rows.advantages += numbers[0]
            rows.weights += numbers[1]
            rows.episodes += [num_episodes] * count
            num_episodes += 1
        branchings = [rollout.branching for rollout in group.rollouts]
        layouts.append(_choose_layout(rows.samples, episodes, branchings, share=share))
    num_row_tokens = sum(rows.lengths) + sum(len(one.tokens) for one in rows.samples)
    prefix_groups = tuple(_build_prefix_groups(rows, layouts))
    return Batch(prefix_groups, len(rows.samples), num_episodes, num_row_tokens)


def shared_token_ratio(batch: Batch) -> float:
    """The tokens that are computed, divided by the tokens of one row per step: 1 if nothing is
    saved, 0.2 if four fifths are. It is 1 for a batch without samples."""
    return batch.num_tokens / batch.num_row_tokens if batch.num_row_tokens else 1.0


def _chains(
    samples: Sequence[Sample], lengths: Sequence[int], first: int, *, merge: bool
) -> list[_Chain]:
    """One episode's samples, whose prompts have these lengths, as chains. Samples are numbered from
    `first`."""
    assert all(one.head is samples[0].head for one in samples), "an episode has one head"
    chains: list[_Chain] = []
    end = 0  # tokens of the previous sample, from the start of its prompt
    for index, (sample, length) in enumerate(zip(samples, lengths, strict=True)):
        extends = merge and index and _extends(sample, samples[index - 1], end)
        end = length + len(sample.tokens)
        if extends:
            chains[-1].end += 1
            chains[-1].length = end
        else:
            chains.append(_Chain(first + index, first + index + 1, end))
    return chains


def _extends(sample: Sample, before: Sample, end: int) -> bool:
    """Whether a prompt starts with the previous prompt and its sampled tokens, `end` tokens in
    total."""
    end -= len(sample.head)
    start = end - len(before.tokens)
    # Compared first, because a difference is most often found in the sampled tokens.
    if sample.tail[start:end].tobytes() != before.tokens.tobytes():
        return False
    return sample.tail[:start].tobytes() == before.tail.tobytes()


_PrefixChains = tuple[list[_Chain], int]  # the chains of one prefix group, and the prefix's length


def _choose_layout(
    samples: Sequence[Sample],
    episodes: Sequence[list[_Chain]],
    branchings: Sequence[Branching | None],
    *,
    share: bool,
) -> list[_PrefixChains]:
    """The prefix groups of one episode group, with the fewest tokens: laid out as a whole, or the
    episodes from the start and the branches of each state separately."""
    all_chains = [chain for chains in episodes for chain in chains]
    if not all_chains:
        return []
    if not share:
        return [(all_chains, 0)]
    by_state: dict[tuple[str, int] | None, list[list[_Chain]]] = {}
    for chains, at in zip(episodes, branchings, strict=True):
        if chains:
            state = None if at is None else (at.episode, at.turn)
            by_state.setdefault(state, []).append(chains)
    whole = _lay_out(samples, [chains for chains in episodes if chains])
    if len(by_state) == 1:
        return whole
    apart = [one for together in by_state.values() for one in _lay_out(samples, together)]
    return min(whole, apart, key=_cost_of)


def _lay_out(samples: Sequence[Sample], nonempty: Sequence[list[_Chain]]) -> list[_PrefixChains]:
    """The prefix groups of some episodes: of three layouts, the one with the fewest tokens."""
    all_chains = [chain for chains in nonempty for chain in chains]
    openings = [chains[0] for chains in nonempty]
    later = [chains[1:] for chains in nonempty if len(chains) > 1]
    per_episode = [(chains, len(_common_head(samples, chains))) for chains in nonempty]
    opening = _common_prefix([_common_head(samples, [chain]) for chain in openings])
    shortest = min(shared for _, shared in per_episode)
    together = [(all_chains, min(len(opening), shortest))]
    split = [
        (openings, len(opening)),
        *((rest, len(_common_head(samples, rest))) for rest in later),
    ]
    layout = min(together, per_episode, split, key=_cost_of)
    # A single suffix has nothing to share.
    return [(chains, shared if len(chains) > 1 else 0) for chains, shared in layout]


def _cost_of(layout: Sequence[_PrefixChains]) -> int:
    return sum(map(_cost, layout))


def _cost(prefix_group: _PrefixChains) -> int:
    """The number of tokens that are computed."""
    chains, shared = prefix_group
    return sum(chain.length for chain in chains) - (len(chains) - 1) * shared


def _common_head(samples: Sequence[Sample], chains: Sequence[_Chain]) -> Ids:
    """The common beginning of these chains of one episode.

    The later prompts of a chain start with its first prompt, so only that one is compared. At least
    one token of each prompt is left for its suffix, which must itself predict its first sampled
    token.
    """
    head = samples[chains[0].begin].head
    more = _common_prefix([samples[chain.begin].tail[:-1] for chain in chains])
    return np.concatenate((head, more)) if len(more) else head


def _common_prefix(arrays: Sequence[Ids]) -> Ids:
    """The longest common prefix of the arrays."""
    common = arrays[0][: min(map(len, arrays))]
    same = common.tobytes()
    for other in arrays:
        begin = other[: len(common)]
        if begin.tobytes() != same:
            common = common[: int((begin != common).argmax())]
            same = common.tobytes()
    return common


def _build_prefix_groups(
    rows: _Rows, groups: Sequence[Sequence[_PrefixChains]]
) -> Iterator[PrefixGroup]:
    """The prefix groups of some episode groups. The arrays of all suffixes, N sampled tokens in
    total, are made at once and then cut into suffixes.

    Large arrays are also cheaper per byte, because numpy asks for huge pages from 4 MB on: on a
    virtual machine most of this work is the kernel's, which hands out fresh pages.
    """
    layouts = [(number, *chosen) for number, layout in enumerate(groups) for chosen in layout]
    if not layouts:
        return
    chains = [(chain, num_shared) for _, chosen, num_shared in layouts for chain in chosen]
    lengths = np.array([len(one.tokens) for one in rows.samples])  # [S]
    ends = np.cumsum(lengths)
    trained, steps, episodes = _token_indices(rows, chains, lengths, ends - lengths)
    sampler = np.concatenate([one.logprobs for one in rows.samples])
    advantages = np.repeat(np.array(rows.advantages, np.float32), lengths)
    weights = np.repeat(np.array(rows.weights, np.float32), lengths)
    # For each suffix: the prompt of its last sample after the prefix, and that sample's tokens.
    pieces: list[Ids] = []
    for chain, num_shared in chains:
        last = rows.samples[chain.end - 1]
        if num_shared < len(last.head):
            pieces.append(last.head[num_shared:])
        pieces += (last.tail[max(0, num_shared - len(last.head)) :], last.tokens)
    tokens = np.concatenate(pieces)
    bounds = [0, *ends.tolist()]
    start = 0
    for group, chosen, num_shared in layouts:
        suffixes = []
        for chain in chosen:
            begin, end = bounds[chain.begin], bounds[chain.end]
            suffix = Suffix(
                tokens[start : start + chain.length - num_shared],
                trained[begin:end],
                sampler[begin:end],
                advantages[begin:end],
                weights[begin:end],
                steps[begin:end],
                episodes[begin:end],
            )
            suffixes.append(suffix)
            start += chain.length - num_shared
        prefix = rows.samples[chosen[0].begin].prompt[:num_shared]
        yield PrefixGroup(prefix.copy(), tuple(suffixes), group)


def _token_indices(
    rows: _Rows, chains: Sequence[tuple[_Chain, int]], lengths: Int64Array, starts: Int64Array
) -> Int64Array:
    """For each sampled token: its index in its suffix, its step and its episode, as `[3, N]`.

    Computed as running sums in one array: from token to token, each of the three stays equal or
    grows by one, except where a sample starts (at `starts`, with `lengths` tokens).
    """
    first = np.array(rows.lengths)
    for chain, num_shared in chains:
        first[chain.begin : chain.end] -= num_shared
    values = np.stack([first, np.arange(len(lengths)), np.array(rows.episodes)])
    jumps = np.diff(values, axis=1, prepend=0)
    jumps[0, 1:] -= lengths[:-1] - 1  # by which the previous sample's indices grew
    sums = np.zeros((3, int(lengths.sum())), np.int64)
    sums[0] = 1
    sums[:, starts] = jumps
    return np.cumsum(sums, axis=1, out=sums)
