"""Penalties for length, which change the rewards of a group's episodes before they are compared.

    overlong   DAPO's soft punishment (arXiv:2503.14476): with L the tokens of an episode's longest
               reply, its reward loses nothing up to `overlong_from`, a share that grows linearly
               from there, and all of `overlong_penalty` from `overlong_to` on; a reward above 0
               falls to 0 at most
    length     of the episodes with a reward above 0, the longest loses `length_penalty` of it, the
               shortest nothing, the others in between, by sampled tokens; failures lose nothing

An agent that says nothing is the shortest of all, and must not be paid for it. So a group in which
no episode has a reward above 0 gets no penalty: the only thing to learn from it would be to be
brief. And a rewarded episode never falls to what a failure has by `length`, however long it is, nor
by `overlong` below what silence has.
"""

from collections.abc import Sequence

import msgspec

from rehearsal_room.learner.config.settings import LossSettings
from rehearsal_room.learner.core.samples import Rollout


def penalised(rollouts: Sequence[Rollout], settings: LossSettings) -> tuple[Rollout, ...]:
    """The episodes of a group, with the rewards by which they are compared.

    Example: rewards 1, 1, 0 for 100, 300 and 20 tokens, length_penalty 0.2 -> 1, 0.8, 0
    """
    if not (settings.overlong_from or settings.length_penalty):
        return tuple(rollouts)
    rewarded = [rollout.num_tokens for rollout in rollouts if rollout.reward > 0]
    if not rewarded:
        return tuple(rollouts)
    shortest, longest = min(rewarded), max(rewarded)

    def reward_of(rollout: Rollout) -> float:
        overlong = _overlong(rollout, settings)
        if rollout.reward <= 0:
            return rollout.reward - overlong
        place = (rollout.num_tokens - shortest) / max(1, longest - shortest)
        return max(0.0, rollout.reward * (1 - settings.length_penalty * place) - overlong)

    return tuple(
        msgspec.structs.replace(rollout, reward=reward_of(rollout)) for rollout in rollouts
    )


def _overlong(rollout: Rollout, settings: LossSettings) -> float:
    if not settings.overlong_from:
        return 0.0
    longest = max(len(sample.tokens) for sample in rollout.samples)
    share = (longest - settings.overlong_from) / (settings.overlong_to - settings.overlong_from)
    return settings.overlong_penalty * min(1.0, max(0.0, share))
