"""Turn a judged trajectory into the samples that are trained on.

The episode's reward, by which the members of a group are compared, is R in {1, 0.1, 0, -1} as in
AWM (arXiv:2602.10090): the task's reward if the agent answered; the cost of the format error if one
ended the episode (-1, or 0 under reward profile `sparse`); 0 if a limit ended it. Step rewards
belong to their steps.

The sampler's own data is used unchanged: its ids, its log-probabilities, its weights' version.
"""

from collections.abc import Sequence

import msgspec
import structlog

from rehearsal_room.harness.core.events import (
    WITH_ERRORS,
    Ending,
    EpisodeEnded,
    HistorySummarized,
    Judged,
    Label,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.core.token_bytes import ID_BYTES
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.learner.core.errors import SampleError
from rehearsal_room.learner.core.samples import NO_IDS, Branching, Ids, Rollout, Sample
from rehearsal_room.learner.data.reply_arrays import MakeSampleError, arrays_of

PromptIds = Sequence[Ids | None]  # one for each reply; None: the reply is not trained
_log = structlog.get_logger(__name__)
_Events = Sequence[StepTaken | HistorySummarized]


def latest_verdict(trajectory: Trajectory) -> Judged | None:
    """The latest verdict that has a label; None: no verdict has one."""
    return next(
        (judged for judged in reversed(trajectory.judged) if judged.label is not None), None
    )


def rollout_of(
    trajectory: Trajectory,
    *,
    where: str,
    vocab: int | None = None,
    prompts: PromptIds | None = None,
) -> Rollout:
    """The samples of an episode that has ended and has a label.

    The turns that a fork keeps are context: they are trained in the run in which they were sampled,
    and never here. `where` names the log for messages. Ids of `vocab` (None: unknown) and above are
    refused.
    `prompts` replaces the logged prompts; if it has None for every reply, there are no samples.
    Raises SampleError naming log, episode, turn and field.

    Example: a step with prompt_ids 1 2 3, token_ids 4 5, logprobs -0.1 -0.2, in an episode that was
    answered and completed -> reward 1.0, one sample of prompt [1 2 3] and tokens [4 5]
    """
    ended, judged, label = _require_verdict(trajectory, where)
    if trajectory.asked:
        reward = episode_reward(ended.ending, judged)
        samples = _asked_samples(trajectory, reward, vocab, where)
        return _rollout(trajectory, ended, label, reward, samples)
    events = trajectory.replies()
    turns = _turns(events)
    first = trajectory.num_context
    events, turns = events[first:], turns[first:]
    replies = _own_replies(trajectory)
    arrays = arrays_of(replies, vocab, _error_maker(trajectory, events, turns, where))
    head, tails = (arrays.head, arrays.tails) if prompts is None else (NO_IDS, prompts[first:])
    reward = episode_reward(ended.ending, judged)
    rewards = _step_rewards(trajectory, judged, reward, where)
    states = _states(trajectory)
    samples = [
        Sample(
            tail,
            sampled,
            logprobs,
            rewards[turn],
            turn,
            event.reply.weights,
            isinstance(event, HistorySummarized),
            head,
            states[turn],
        )
        for event, turn, tail, sampled, logprobs in zip(
            events, turns, tails, arrays.tokens, arrays.logprobs, strict=True
        )
        if tail is not None
    ]
    return _rollout(trajectory, ended, label, reward, samples)


def _rollout(
    trajectory: Trajectory,
    ended: EpisodeEnded,
    label: Label,
    reward: float,
    samples: Sequence[Sample],
) -> Rollout:
    started = trajectory.started
    source = started.forked_from if started.is_branch else None
    return Rollout(
        trajectory.episode,
        started.member,
        reward,
        tuple(samples),
        ended.ending.value,
        label.value,
        ended.ending.is_truncation,
        folds=sum(step.folds for step in trajectory.steps[trajectory.first_own_turn :]),
        branching=None if source is None else Branching(source.episode, source.turn),
    )


def _asked_samples(
    trajectory: Trajectory, reward: float, vocab: int | None, where: str
) -> list[Sample]:
    """A sample of each reply that an agent of the user's own got from its model, in the context in
    which it was sampled, whatever branch of the agent's conversations that is. A reply whose
    context is not known is left out, with a warning: it has no tokens although others have, or its
    prompt is stated against one of which no reply is logged (an agent that went away, a fault)."""
    answered = [one for one in trajectory.asked if one.reply is not None]
    asked = [one for one in answered if one.reply is not None and one.reply.token_ids] or answered
    replies = [one.reply for one in asked if one.reply is not None]
    if replies and replies[0].prompt_shared:
        asked = [one for one in asked if one.reply is not None and not one.reply.prompt_shared]
        replies = [one.reply for one in asked if one.reply is not None]
    if len(asked) < len(answered):
        _log.warning(
            "replies_left_out",
            why="it is not known in which context they were sampled",
            episode=f"{where}: {trajectory.episode}",
            left_out=len(answered) - len(asked),
            of=len(answered),
        )

    def make_error(index: int, field: str, fault: str) -> SampleError:
        return SampleError(
            f"{where}: episode {trajectory.episode!r} (policy {trajectory.started.policy}), request"
            f" {asked[index].request} of the agent: {field}: {fault}"
        )

    if not replies:
        return []
    arrays = arrays_of(replies, vocab, make_error)
    states = _states(trajectory)
    return [
        Sample(
            *(tail, sampled, logprobs, reward, one.turn, reply.weights),
            head=arrays.head,
            state=states[one.turn],
        )
        for one, reply, tail, sampled, logprobs in zip(
            asked, replies, arrays.tails, arrays.tokens, arrays.logprobs, strict=True
        )
    ]


def has_own_replies(trajectory: Trajectory) -> bool:
    """Whether the agent replied in this episode itself: its model, where it asks one."""
    if trajectory.asked or trajectory.asks_model:
        return any(one.reply is not None for one in trajectory.asked)
    return len(trajectory.steps) + len(trajectory.summaries) > trajectory.num_context


def _own_replies(trajectory: Trajectory) -> list[Reply]:
    """The replies that may be trained. Their prompts are logged against the episode's first prompt;
    in a fork that is in the context, so they are stated here against the first of their own.

    Example: first prompt 1 2 3 4 in the context; own prompts 1 2 (shared) 7 and 1 2 3 (shared) 8
        -> prompt_ids 1 2 7, and prompt_shared 2 with prompt_ids 3 8
    """
    replies = [event.reply for event in trajectory.replies()]
    own = replies[trajectory.num_context :]
    if len(own) == len(replies) or not own:
        return own
    shown = replies[0].prompt_ids
    most = own[0].prompt_shared
    return [_restated(reply, shown, most if number else 0) for number, reply in enumerate(own)]


def _restated(reply: Reply, shown: bytes, most: int) -> Reply:
    """A reply whose prompt shares at most `most` tokens with another prompt; `shown` is the one
    against which it was logged."""
    shared = min(most, reply.prompt_shared)
    missing = shown[shared * ID_BYTES : reply.prompt_shared * ID_BYTES]
    return msgspec.structs.replace(
        reply, prompt_shared=shared, prompt_ids=missing + reply.prompt_ids
    )


def _require_verdict(trajectory: Trajectory, where: str) -> tuple[EpisodeEnded, Judged, Label]:
    """The end, the latest verdict and its label, of an episode with replies. Raises SampleError."""
    ended, judged = trajectory.ended, latest_verdict(trajectory)
    if ended is None or judged is None or judged.label is None:
        raise SampleError(
            f"{where}: episode {trajectory.episode!r} has not ended or has no verdict with a label"
        )
    if not has_own_replies(trajectory):
        raise SampleError(f"{where}: episode {trajectory.episode!r} has no reply")
    return ended, judged, judged.label


def _error_maker(
    trajectory: Trajectory, events: _Events, turns: Sequence[int], where: str
) -> MakeSampleError:
    """A function that makes errors which name log, episode, policy, turn and field."""

    def make_error(index: int, field: str, fault: str) -> SampleError:
        kind = "summary before turn" if isinstance(events[index], HistorySummarized) else "turn"
        policy = trajectory.started.policy
        return SampleError(
            f"{where}: episode {trajectory.episode!r} (policy {policy}), {kind} {turns[index]}:"
            f" {field}: {fault}"
        )

    return make_error


def _turns(events: _Events) -> list[int]:
    """The turn of each reply; for a summary, the turn of the step that follows it."""
    turns, turn = [], 0
    for event in events:
        turns.append(turn)
        turn += isinstance(event, StepTaken)
    return turns


def _states(trajectory: Trajectory) -> list[str]:
    """The digest of the world before each step, and after the last one."""
    states = [trajectory.started.start_digest]
    for step in trajectory.steps:
        digests = [one.digest for one in step.executed_results if one.digest]
        states.append(digests[-1] if digests else states[-1])
    return states


def episode_reward(ending: Ending, judged: Judged) -> float:
    """The reward of a whole episode, by which the members of a group are compared. Errors that are
    planted into verdicts count for every ending: what ended an episode would else put them right.
    """
    if ending is Ending.ANSWERED or WITH_ERRORS in judged.judge:
        return judged.reward or 0.0
    if ending is Ending.FORMAT_ERROR and judged.step_rewards:
        return judged.step_rewards[-1]
    return 0.0


def _step_rewards(
    trajectory: Trajectory, judged: Judged, reward: float, where: str
) -> tuple[float, ...]:
    """The rewards of the steps, and one more for a summary after the last step."""
    num_steps = len(trajectory.steps)
    if not judged.step_rewards:  # the judge rewards whole episodes only
        return (reward,) * (num_steps + 1)
    if len(judged.step_rewards) != num_steps:
        raise SampleError(
            f"{where}: episode {trajectory.episode!r}: step_rewards: judge {judged.judge!r} gave"
            f" {len(judged.step_rewards)} rewards for {num_steps} steps"
        )
    return (*judged.step_rewards, reward)
