"""An episode as the sequences that a trainer trains on.

A reply whose prompt continues the sequence before it (its prompt and reply, then a tool's result)
is appended to that sequence, so an episode with `history full` is one segment. Where the window
moved, a new segment begins. The ids and log-probabilities are those that were sampled; no text is
tokenized again.

    reply 1: prompt 1 2, sampled 3 4        ->  segment: prompt 1 2
    reply 2: prompt 1 2 3 4 9, sampled 5                 response 3 4 9 5, mask 1 1 0 1
"""

import msgspec

from rehearsal_room.harness.core.errors import HarnessError
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.learner.core.samples import Sample
from rehearsal_room.learner.data.trajectory_samples import (
    episode_reward,
    has_own_replies,
    latest_verdict,
    rollout_of,
)

# What the agent does not cause: such an episode is left out, as in the learner's own groups.
_FAILED = {
    *(Ending.POLICY_ERROR, Ending.MODEL_REFUSED),
    *(Ending.WORLD_ERROR, Ending.CANCELLED),
}


class UnjudgedError(HarnessError):
    """The episode has no reward: the world or the model failed, or no judge could judge it; or its
    agent got no reply of the model, so that there is nothing to reward. It must not be trained on.
    """


class Segment(msgspec.Struct, frozen=True):
    """One sequence. `mask` and `logprobs` have an entry for each token of the response."""

    prompt_ids: list[int]
    response_ids: list[int]
    mask: list[int]  # 1: the model sampled the token; 0: it is a part of a prompt
    logprobs: list[float]  # 0.0 where the mask is 0
    reward: float  # of the whole episode
    weights: str  # the version that sampled its last reply; empty: not known
    first_turn: int = 0  # of its first reply, from 0


class TrainerEpisode(msgspec.Struct, frozen=True):
    """One finished episode, for a trainer."""

    reward: float
    segments: tuple[Segment, ...]  # at least one
    ending: str  # as in `answered` or `step_limit`
    label: str  # of the judge, as in `completed`
    num_turns: int
    is_truncated: bool  # a limit ended it


def reward_of(trajectory: Trajectory) -> float | None:
    """The reward of an episode; None: the world or the model failed, no judge could judge it, or an
    agent of the user's own got no reply of the model."""
    judged, ended = latest_verdict(trajectory), trajectory.ended
    if judged is None or ended is None or ended.ending in _FAILED:
        return None
    if _is_silent(trajectory):
        return None
    if judged.label is Label.ENVIRONMENT_ERROR:
        return None
    return episode_reward(ended.ending, judged)


def reason_of(trajectory: Trajectory) -> str:
    """Why an episode has no reward, as a sentence."""
    ended, reasons = trajectory.ended, [judged.unjudged for judged in trajectory.judged]
    why = "" if ended is None else ended.error or ""
    if _is_silent(trajectory):
        why = f"its agent got no reply of the model; {why}".removesuffix("; ")
    why = why or "; ".join(filter(None, reasons)) or "the run has no judge"
    ending = "not ended" if ended is None else ended.ending.value
    return f"episode {trajectory.episode} has no reward ({ending}): {why}"


def _is_silent(trajectory: Trajectory) -> bool:
    """Whether an agent of the user's own played without a reply of the model."""
    return trajectory.asks_model and not has_own_replies(trajectory)


def episode_of(trajectory: Trajectory, *, where: str) -> TrainerEpisode:
    """The segments of an episode; `where` names the run for messages.

    Raises UnjudgedError, and SampleError for an episode in which nothing was sampled.

    An agent of the user's own may have several conversations under way: a reply goes on with the
    newest segment that its prompt continues. Equal conversations are segments of their own.
    """
    if reward_of(trajectory) is None:
        raise UnjudgedError(f"{where}: {reason_of(trajectory)}")
    rollout = rollout_of(trajectory, where=where)
    segments: list[Segment] = []
    for sample in rollout.samples:
        earlier = range(len(segments) - 1, -1 if trajectory.asked else len(segments) - 2, -1)
        for index in earlier:
            if index >= 0 and (more := _appended(segments[index], sample)) is not None:
                segments[index] = more
                break
        else:
            segments.append(_first(sample, rollout.reward))
    if not segments:
        raise UnjudgedError(f"{where}: episode {trajectory.episode} has no reply with its context")
    return TrainerEpisode(
        rollout.reward,
        tuple(segments),
        rollout.ending,
        rollout.label,
        len(trajectory.steps),
        rollout.is_truncated,
    )


def sole_segment(episode: TrainerEpisode, *, trainer: str) -> Segment:
    """The segment of an episode that must be one sequence. Raises ValueError where it is not."""
    if len(episode.segments) != 1:
        raise ValueError(
            f"{trainer} takes one sequence an episode, but this one has {len(episode.segments)}:"
            " the chat template, or a tool that came later, changed the earlier part of a prompt"
        )
    return episode.segments[0]


def _first(sample: Sample, reward: float) -> Segment:
    sampled = sample.tokens.tolist()
    return Segment(
        sample.prompt.tolist(),
        sampled,
        [1] * len(sampled),
        sample.logprobs.tolist(),
        reward,
        sample.weights,
        sample.turn,
    )


def _appended(segment: Segment, sample: Sample) -> Segment | None:
    """The segment with one more reply; None: its prompt does not continue the segment."""
    before = segment.prompt_ids + segment.response_ids
    prompt = sample.prompt.tolist()
    if prompt[: len(before)] != before:
        return None
    shown, sampled = prompt[len(before) :], sample.tokens.tolist()
    return msgspec.structs.replace(
        segment,
        response_ids=segment.response_ids + shown + sampled,
        mask=segment.mask + [0] * len(shown) + [1] * len(sampled),
        logprobs=segment.logprobs + [0.0] * len(shown) + sample.logprobs.tolist(),
        weights=sample.weights,
    )
