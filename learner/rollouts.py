"""From a judged trajectory to the samples that are trained on.

The episode's reward, by which the members of a group are compared, is R in {1, 0.1, 0, -1} as AWM
has it (arXiv:2602.10090): the reward of the task where the agent answered; of an episode that a
format error ended what that error costs (-1, or 0 under reward profile `sparse`); and 0 where a
limit cut it off. Step rewards stay with their steps.

What the sampler said is taken as it is: its ids, its log-probabilities, the version of its weights.
"""

from collections.abc import Iterator, Sequence
from math import isfinite

import msgspec
import numpy as np

from harness.events import Ending, Judged, StepTaken, Summarised
from harness.tokens import ID_BYTES
from harness.trajectory import Trajectory
from learner.errors import SampleError
from learner.samples import Floats, Ids, Rollout, Sample

Bytes = bytes | memoryview
Shown = Sequence[Ids | None]  # prompts, one for each reply; None: the reply is not trained
_ANY_ID = 2**31  # no id is larger than this, whatever the model
_NO_TOKENS = (
    "the reply has no token ids; only policies that tell their tokens can be trained on (local,"
    " vllm, or any with `tokens` set)"
)
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
    complaint = _Complaint(trajectory, events, where)
    bytes_of = _bytes_of(events, complaint)
    sampled = _ids(bytes_of.tokens, bytes_of.sizes, "token_ids", vocab, complaint)
    logprobs = _logprobs(bytes_of, complaint)
    if shown is None:
        shown = _ids(bytes_of.prompts, bytes_of.prompt_sizes, "prompt_ids", vocab, complaint)
    reward = _episode_reward(trajectory.ended.ending, judged)
    rewards = _step_rewards(trajectory, judged, reward, where)
    samples = [
        Sample(
            prompt,
            ids,
            given,
            rewards[turn],
            turn,
            event.reply.weights,
            isinstance(event, Summarised),
        )
        for event, turn, prompt, ids, given in zip(
            events, _turns(events), shown, sampled, logprobs, strict=True
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


class _BytesOf(msgspec.Struct):
    """An episode's replies as the log has them."""

    tokens: list[Bytes] = []  # one a reply
    logprobs: list[Bytes] = []
    sizes: list[int] = []  # of either, in bytes
    prompts: list[Bytes] = []  # the pieces of `Trajectory.prompts`, not yet put together
    prompt_sizes: list[int] = []  # of the prompts, one a reply


def _bytes_of(events: _Events, complaint: _Complaint) -> _BytesOf:
    """What the replies bear, after a look at their sizes."""
    found = _BytesOf()
    first = memoryview(events[0].reply.prompt_ids)
    for place, event in enumerate(events):
        reply = event.reply
        size, shared = len(reply.token_ids), reply.prompt_shared * ID_BYTES
        if not size:
            raise complaint(place, "token_ids", _NO_TOKENS)
        if len(reply.logprobs) != size:
            given = f"{len(reply.logprobs) // ID_BYTES} log-probabilities"
            raise complaint(place, "logprobs", f"{size // ID_BYTES} tokens have {given}")
        if not 0 <= shared <= (len(first) if place else 0):
            raise complaint(
                place,
                "prompt_shared",
                f"{reply.prompt_shared} tokens of an earlier prompt cannot be shared: the episode's"
                f" first prompt has {len(first) // ID_BYTES if place else 0} before this reply",
            )
        if not shared + len(reply.prompt_ids):
            raise complaint(place, "prompt_ids", "the reply has no prompt")
        found.tokens.append(reply.token_ids)
        found.logprobs.append(reply.logprobs)
        found.sizes.append(size)
        found.prompts += (first[:shared], reply.prompt_ids) if shared else (reply.prompt_ids,)
        found.prompt_sizes.append(shared + len(reply.prompt_ids))
    return found


def _ids(
    pieces: Sequence[Bytes],
    sizes: Sequence[int],
    field: str,
    vocab: int | None,
    complaint: _Complaint,
) -> list[Ids]:
    """Each reply's ids, so many bytes of the pieces: views into one array, which is checked at
    once."""
    for place, size in enumerate(sizes):
        if size % ID_BYTES:
            raise complaint(place, field, f"{size} bytes are no whole number of ids")
    joined = np.frombuffer(b"".join(pieces), "<i4").astype(np.int32, copy=False)
    cut = [joined[begin:end] for begin, end in _places(sizes)]
    limit = vocab or _ANY_ID
    if int(joined.view(np.uint32).max()) >= limit:  # negative ids are large ones here
        place = next(n for n, ids in enumerate(cut) if int(ids.view(np.uint32).max()) >= limit)
        wrong = next(one for one in cut[place].tolist() if not 0 <= one < limit)
        raise complaint(place, field, f"{wrong} is no token of the model, which has {limit:,}")
    return cut


def _logprobs(bytes_of: _BytesOf, complaint: _Complaint) -> list[Floats]:
    joined = np.frombuffer(b"".join(bytes_of.logprobs), "<f4").astype(np.float32, copy=False)
    cut = [joined[begin:end] for begin, end in _places(bytes_of.sizes)]
    # NaN is not below anything, and it is the least and the largest of all.
    if not (joined.max() <= _ROUNDING and isfinite(joined.min())):
        for place, values in enumerate(cut):
            for number, value in enumerate(values.tolist()):
                if not (isfinite(value) and value <= _ROUNDING):
                    why = f"token {number} has {value:g}, which is no log-probability"
                    raise complaint(place, "logprobs", why)
    return cut


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where each reply's numbers begin and end, of so many bytes each."""
    begin = 0
    for size in sizes:
        end = begin + size // ID_BYTES
        yield begin, end
        begin = end


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
