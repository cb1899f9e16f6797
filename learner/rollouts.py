"""From a judged trajectory to the samples that are trained on.

The episode's reward, by which the members of a group are compared, is R in {1, 0.1, 0, -1} as AWM
has it (arXiv:2602.10090): the reward of the task where the agent answered; of an episode that a
format error ended what that error costs (-1, or 0 under reward profile `sparse`); and 0 where a
limit cut it off. Step rewards stay with their steps.

What the sampler said is taken as it is: its ids, its log-probabilities, the version of its weights.
"""

from collections.abc import Sequence
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from harness.events import Ending, Judged, StepTaken, Summarised
from harness.tokens import ID_BYTES
from harness.trajectory import Trajectory
from learner.errors import SampleError
from learner.samples import Floats, Ids, Rollout, Sample

Shown = Sequence[Ids | None]  # prompts, one for each reply; None: the reply is not trained
_ANY_ID = 2**31  # no id is larger than this, whatever the model
_ROUNDING = 1e-3  # a log-probability may be so much above 0 where servers count in 16 bits


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
    sample. Raises SampleError naming log, episode, turn and
    field.

    Example: a step with prompt_ids 1 2 3, token_ids 4 5, logprobs -0.1 -0.2, an episode answered
    and completed -> reward 1.0, one sample of prompt [1 2 3] and tokens [4 5]
    """
    judged = verdict_on(trajectory)
    if trajectory.ended is None or judged is None or judged.label is None:
        raise SampleError(
            f"{where}: episode {trajectory.episode!r} has not ended, or has no verdict with a label"
        )
    events = trajectory.replies()
    complaint = _Complaint(trajectory, events, where)
    if not events:
        raise SampleError(f"{where}: episode {trajectory.episode!r} has no reply")
    _check_lengths(events, complaint)
    tokens = _ids([event.reply.token_ids for event in events], "token_ids", vocab, complaint)
    logprobs = _logprobs(events, complaint)
    if shown is None:
        shown = _ids(trajectory.prompts(), "prompt_ids", vocab, complaint)
    reward = _episode_reward(trajectory.ended.ending, judged)
    rewards = _step_rewards(trajectory, judged, reward, where)
    samples = [
        Sample(
            prompt,
            sampled,
            given,
            rewards[turn],
            turn,
            event.reply.weights,
            isinstance(event, Summarised),
        )
        for event, turn, prompt, sampled, given in zip(
            events, _turns(events), shown, tokens, logprobs, strict=True
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


_Events = Sequence[StepTaken | Summarised]


class _Complaint:
    """Makes errors that name the place."""

    def __init__(self, trajectory: Trajectory, events: _Events, where: str) -> None:
        self._trajectory = trajectory
        self._events = events
        self._where = where

    def __call__(self, place: int, field: str, why: str) -> SampleError:
        event = self._events[place]
        turn = _turns(self._events)[place]
        what = "summary before turn" if isinstance(event, Summarised) else "turn"
        episode, policy = self._trajectory.episode, self._trajectory.started.policy
        return SampleError(
            f"{self._where}: episode {episode!r} (policy {policy}), {what} {turn}: {field}: {why}"
        )


def _turns(events: _Events) -> list[int]:
    """The turn of each reply: of a summary that of the step which comes next."""
    turns, turn = [], 0
    for event in events:
        turns.append(turn)
        turn += isinstance(event, StepTaken)
    return turns


def _check_lengths(events: _Events, complaint: _Complaint) -> None:
    num_first = len(events[0].reply.prompt_ids)
    for place, event in enumerate(events):
        reply = event.reply
        if not reply.token_ids:
            raise complaint(
                place,
                "token_ids",
                "the reply has no token ids; only policies that tell their tokens can be trained"
                " on (local, vllm, or any with `tokens` set)",
            )
        if len(reply.logprobs) != len(reply.token_ids):
            raise complaint(
                place,
                "logprobs",
                f"{len(reply.token_ids) // ID_BYTES} tokens have"
                f" {len(reply.logprobs) // ID_BYTES} log-probabilities",
            )
        shared = reply.prompt_shared * ID_BYTES
        if not 0 <= shared <= (num_first if place else 0):
            raise complaint(
                place,
                "prompt_shared",
                f"{reply.prompt_shared} tokens of an earlier prompt cannot be shared: the episode's"
                f" first prompt has {num_first // ID_BYTES if place else 0} before this reply",
            )
        if not shared + len(reply.prompt_ids):
            raise complaint(place, "prompt_ids", "the reply has no prompt")


def _ids(parts: Sequence[bytes], field: str, vocab: int | None, complaint: _Complaint) -> list[Ids]:
    """Each part's ids: views into one array, which is checked at once."""
    for place, part in enumerate(parts):
        if len(part) % ID_BYTES:
            raise complaint(place, field, f"{len(part)} bytes are no whole number of ids")
    joined = np.frombuffer(b"".join(parts), "<i4").astype(np.int32, copy=False)
    cut = _cut(joined, parts)
    limit = vocab or _ANY_ID
    if int(joined.view(np.uint32).max()) >= limit:  # negative ids are large ones here
        place = next(n for n, ids in enumerate(cut) if int(ids.view(np.uint32).max()) >= limit)
        wrong = int(next(one for one in cut[place].tolist() if not 0 <= one < limit))
        raise complaint(place, field, f"{wrong} is no token of the model, which has {limit:,}")
    return cut


def _logprobs(events: _Events, complaint: _Complaint) -> list[Floats]:
    parts = [event.reply.logprobs for event in events]
    joined = np.frombuffer(b"".join(parts), "<f4").astype(np.float32, copy=False)
    cut = _cut(joined, parts)
    # A comparison with NaN is false, and so is one of the two with an infinity.
    if not (joined.max() <= _ROUNDING and isfinite(joined.min())):
        for place, values in enumerate(cut):
            for number, value in enumerate(values.tolist()):
                if not (isfinite(value) and value <= _ROUNDING):
                    why = f"token {number} has {value:g}, which is no log-probability"
                    raise complaint(place, "logprobs", why)
    return cut


def _cut(joined: NDArray[np.generic], parts: Sequence[bytes]) -> list[NDArray]:  # type: ignore[type-arg]
    cut, begin = [], 0
    for part in parts:
        end = begin + len(part) // ID_BYTES
        cut.append(joined[begin:end])
        begin = end
    return cut


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
