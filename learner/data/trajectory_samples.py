"""From a judged trajectory to the samples that are trained on.

The episode's reward, by which the members of a group are compared, is R in {1, 0.1, 0, -1} as AWM
has it (arXiv:2602.10090): the reward of the task where the agent answered; of an episode that a
format error ended what that error costs (-1, or 0 under reward profile `sparse`); and 0 where a
limit cut it off. Step rewards stay with their steps.

What the sampler said is taken as it is: its ids, its log-probabilities, the version of its weights.
"""

from collections.abc import Sequence

from harness.core.events import Ending, HistorySummarized, Judged, StepTaken
from harness.core.trajectory import Trajectory
from learner.core.errors import SampleError
from learner.core.samples import NOTHING, Ids, Rollout, Sample
from learner.data.reply_arrays import Complaint, arrays_of

Shown = Sequence[Ids | None]  # prompts, one for each reply; None: the reply is not trained
_Events = Sequence[StepTaken | HistorySummarized]


def verdict_on(trajectory: Trajectory) -> Judged | None:
    """The latest verdict that has a label; None: there is none."""
    return next(
        (judged for judged in reversed(trajectory.judged) if judged.label is not None), None
    )


def rollout_of(
    trajectory: Trajectory, *, where: str, vocab: int | None = None, shown: Shown | None = None
) -> Rollout:
    """The samples of an episode that has ended and has a label.

    `where` names the log for messages. Ids of `vocab` (None: not known) and above are refused.
    `shown` takes the place of the logged prompts; where it leaves replies out, there may be no
    sample. Raises SampleError naming log, episode, turn and field.

    Example: a step with prompt_ids 1 2 3, token_ids 4 5, logprobs -0.1 -0.2, an episode answered
    and completed -> reward 1.0, one sample of prompt [1 2 3] and tokens [4 5]
    """
    judged = verdict_on(trajectory)
    if trajectory.ended is None or judged is None or judged.label is None:
        raise SampleError(
            f"{where}: episode {trajectory.episode!r} has not ended, or has no verdict with a label"
        )
    if not trajectory.steps and not trajectory.summaries:
        raise SampleError(f"{where}: episode {trajectory.episode!r} has no reply")
    events = trajectory.replies()
    turns = _turns(events)
    replies = [event.reply for event in events]
    arrays = arrays_of(replies, vocab, _complaint(trajectory, events, turns, where))
    head, prompts = (arrays.head, arrays.shown) if shown is None else (NOTHING, shown)
    reward = _episode_reward(trajectory.ended.ending, judged)
    rewards = _step_rewards(trajectory, judged, reward, where)
    samples = [
        Sample(
            prompt,
            sampled,
            logprobs,
            rewards[turn],
            turn,
            event.reply.weights,
            isinstance(event, HistorySummarized),
            head,
        )
        for event, turn, prompt, sampled, logprobs in zip(
            events, turns, prompts, arrays.tokens, arrays.logprobs, strict=True
        )
        if prompt is not None
    ]
    return Rollout(
        trajectory.episode,
        trajectory.started.member,
        reward,
        tuple(samples),
        trajectory.ended.ending.value,
        judged.label.value,
        trajectory.ended.ending.is_truncation,
    )


def _complaint(
    trajectory: Trajectory, events: _Events, turns: Sequence[int], where: str
) -> Complaint:
    """Makes errors that name the place."""

    def complaint(place: int, field: str, why: str) -> SampleError:
        what = "summary before turn" if isinstance(events[place], HistorySummarized) else "turn"
        policy = trajectory.started.policy
        return SampleError(
            f"{where}: episode {trajectory.episode!r} (policy {policy}), {what} {turns[place]}:"
            f" {field}: {why}"
        )

    return complaint


def _turns(events: _Events) -> list[int]:
    """The turn of each reply: of a summary that of the step which comes next."""
    turns, turn = [], 0
    for event in events:
        turns.append(turn)
        turn += isinstance(event, StepTaken)
    return turns


def _episode_reward(ending: Ending, judged: Judged) -> float:
    if ending is Ending.ANSWERED:
        return judged.reward or 0.0
    if ending is Ending.FORMAT_ERROR and judged.step_rewards:
        return judged.step_rewards[-1]
    return 0.0


def _step_rewards(
    trajectory: Trajectory, judged: Judged, reward: float, where: str
) -> tuple[float, ...]:
    """The rewards of the steps, and one more for a summary behind the last."""
    num_steps = len(trajectory.steps)
    if not judged.step_rewards:  # the verdict says nothing of steps
        return (reward,) * (num_steps + 1)
    if len(judged.step_rewards) != num_steps:
        raise SampleError(
            f"{where}: episode {trajectory.episode!r}: step_rewards: judge {judged.judge!r} gave"
            f" {len(judged.step_rewards)} rewards for {num_steps} steps"
        )
    return (*judged.step_rewards, reward)
