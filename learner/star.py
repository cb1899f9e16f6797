"""From groups to the layout of one optimiser step: shared prefixes once, each sampled token once.

Two things are saved, and neither changes a number that is trained:

merging    within an episode, a prompt that begins with the prompt before and what was sampled then,
           token for token, goes on in the same leaf (histories that were only appended to)
sharing    what all leaves of a group begin with is its prefix (windows that were cut still begin
           with system prompt, tools and task)

Where the episodes of a group differ early (in AWM's dialect the agent's own first reply stands
before the tool list), each episode makes a star of its own, if that is fewer tokens.

The work is per sample and in arrays, never per token.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from learner.batch import Batch, Leaf, Star
from learner.samples import Group, Ids, Sample

PerSample = Sequence[Sequence[Sequence[float]]]  # a number for each sample: group, rollout, sample


class _Placed(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A sample and what is trained with it."""

    sample: Sample
    advantage: float
    weight: float  # of each of its tokens
    step: int  # its number in the batch
    episode: int  # its episode's

    @property
    def prompt(self) -> Ids:
        return self.sample.prompt

    @property
    def end(self) -> int:
        """Tokens up to and with the last sampled one."""
        return len(self.sample.prompt) + len(self.sample.tokens)


_Chain = list[_Placed]  # samples of one leaf: each extends the one before


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
    stars: list[Star] = []
    num_steps = num_episodes = num_row_tokens = 0
    for group, group_advantages, group_weights in zip(groups, advantages, weights, strict=True):
        episodes: list[list[_Chain]] = []
        for rollout, of_samples, of_tokens in zip(
            group.rollouts, group_advantages, group_weights, strict=True
        ):
            placed = [
                _Placed(sample, advantage, weight, num_steps + number, num_episodes)
                for number, (sample, advantage, weight) in enumerate(
                    zip(rollout.samples, of_samples, of_tokens, strict=True)
                )
            ]
            num_steps += len(placed)
            num_episodes += 1
            num_row_tokens += sum(one.end for one in placed)
            episodes.append(_chains(placed) if merge else [[one] for one in placed])
        stars += [_star(chains, shared) for chains, shared in _shared(episodes, share=share)]
    return Batch(tuple(stars), num_steps, num_episodes, num_row_tokens)


def shared_token_ratio(batch: Batch) -> float:
    """Tokens computed by tokens of per-step rows: 1 where nothing is saved, 0.2 where four fifths
    are. A batch without samples has 1."""
    return batch.num_tokens / batch.num_row_tokens if batch.num_row_tokens else 1.0


def _chains(placed: Sequence[_Placed]) -> list[_Chain]:
    """One episode's samples, joined where one extends the one before."""
    if not placed:
        return []
    chains = [[placed[0]]]
    for before, after in pairwise(placed):
        if _extends(after.sample, before.sample):
            chains[-1].append(after)
        else:
            chains.append([after])
    return chains


def _extends(after: Sample, before: Sample) -> bool:
    """Whether a prompt begins with an earlier one and what was sampled then."""
    start = len(before.prompt)
    end = start + len(before.tokens)
    prompt = after.prompt
    if len(prompt) < end or prompt[start:end].tobytes() != before.tokens.tobytes():
        return False
    return prompt[:start].tobytes() == before.prompt.tobytes()


def _shared(episodes: Sequence[list[_Chain]], *, share: bool) -> Iterable[tuple[list[_Chain], int]]:
    """The stars of a group: their chains, and how many tokens of them are shared."""
    together = [chain for chains in episodes for chain in chains]
    if not together:
        return []
    if not share:
        return [(together, 0)]
    one = [(together, _num_shared(together))]
    each = [(chains, _num_shared(chains)) for chains in episodes if chains]
    return each if sum(map(_cost, each)) < sum(map(_cost, one)) else one


def _cost(star: tuple[list[_Chain], int]) -> int:
    chains, shared = star
    return shared + sum(chain[-1].end - shared for chain in chains)


def _num_shared(chains: Sequence[_Chain]) -> int:
    """How many tokens all leaves begin with; at least one token of each prompt stays in its leaf,
    so that the leaf itself predicts its first sampled token. Nothing is shared by one leaf."""
    if len(chains) < 2:
        return 0
    # What stands later in a chain begins with its first prompt.
    prompts = [chain[0].prompt for chain in chains]
    length = min(map(len, prompts)) - 1
    head = prompts[0][:length]
    same = head.tobytes()
    for prompt in prompts:
        if prompt[:length].tobytes() == same:
            continue
        length = int((prompt[:length] != head).argmax())
        head = head[:length]
        same = head.tobytes()
    return length


def _star(chains: Sequence[_Chain], shared: int) -> Star:
    """The arrays of all leaves are made at once and cut into leaves."""
    order = [one for chain in chains for one in chain]
    lengths = np.array([len(one.sample.tokens) for one in order], dtype=np.int64)
    ends = np.cumsum(lengths)
    # Token n of all stands n - (ends - lengths) places behind its sample's first one.
    first = np.array([len(one.prompt) - shared for one in order], dtype=np.int64)
    trained = np.arange(ends[-1]) + np.repeat(first - (ends - lengths), lengths)
    sampler = np.concatenate([one.sample.logprobs for one in order])
    advantages = np.repeat(np.array([one.advantage for one in order], np.float32), lengths)
    weights = np.repeat(np.array([one.weight for one in order], np.float32), lengths)
    steps = np.repeat(np.array([one.step for one in order], np.int64), lengths)
    episodes = np.repeat(np.array([one.episode for one in order], np.int64), lengths)
    leaves: list[Leaf] = []
    begin = samples = 0
    for chain in chains:
        samples += len(chain)
        end = int(ends[samples - 1])
        leaf = Leaf(
            np.concatenate((chain[-1].prompt[shared:], chain[-1].sample.tokens)),
            trained[begin:end],
            sampler[begin:end],
            advantages[begin:end],
            weights[begin:end],
            steps[begin:end],
            episodes[begin:end],
        )
        leaves.append(leaf)
        begin = end
    return Star(chains[0][0].prompt[:shared].copy(), tuple(leaves))
