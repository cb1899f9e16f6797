"""Episodes as samples: which data comes from the log, and which logs are refused."""

from typing import Any

import msgspec
import pytest

from rehearsal_room.harness.core.events import Ending, Judged, Label
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.learner.core.errors import SampleError
from rehearsal_room.learner.core.samples import Rollout
from rehearsal_room.learner.data.trajectory_samples import rollout_of
from tests.support.token_logs import attempt, ended, judged, reply, step, summary


def samples_of(rollout: Rollout) -> list[Any]:
    """A rollout's samples as plain values."""
    return [
        (
            one.prompt.tolist(),
            one.tokens.tolist(),
            [round(value, 3) for value in one.logprobs.tolist()],
            one.reward,
            one.turn,
            one.weights,
            one.is_summary,
        )
        for one in rollout.samples
    ]


def test_each_reply_is_a_sample_with_its_exact_tokens() -> None:
    """Prompts are assembled from the part shared with the first one. Summaries are samples, too,
    and have the reward of the step that followed."""
    trajectory = attempt(
        step(reply([1, 2, 3], [4, 5], weights="v1")),
        summary(reply([1, 2, 9], [6], shared=2, weights="v2"), turn=1),
        step(reply([1, 2, 3, 7], [8], shared=3, weights="v2")),
        ended(num_steps=2),
        judged(0.1, [0.05, 0.1]),
    )
    rollout = rollout_of(trajectory, where="runs/x")
    assert samples_of(rollout) == [
        ([1, 2, 3], [4, 5], [-0.4, -0.5], 0.05, 0, "v1", False),
        ([1, 2, 9], [6], [-0.6], 0.1, 1, "v2", True),
        ([1, 2, 3, 7], [8], [-0.8], 0.1, 1, "v2", False),
    ]
    assert {id(one.head) for one in rollout.samples} == {id(rollout.samples[0].head)}
    assert rollout.samples[0].head.tolist() == [1, 2]  # stored once
    facts = (rollout.episode, rollout.member, rollout.reward, rollout.ending, rollout.label)
    assert facts == ("e0", 0, 0.1, "answered", "agent_error")
    assert rollout.is_truncated is False


def test_a_completely_shared_prompt_keeps_its_last_token() -> None:
    """A suffix starts with a token of its prompt, so every sample has one after the head."""
    trajectory = attempt(
        step(reply([1, 2, 3], [4])),
        step(reply([1, 2, 3], [5], shared=3)),
        ended(num_steps=2),
        judged(1.0),
    )
    rollout = rollout_of(trajectory, where="x")
    assert [one.head.tolist() for one in rollout.samples] == [[1, 2], [1, 2]]
    assert [one.tail.tolist() for one in rollout.samples] == [[3], [3]]
    assert [one.prompt.tolist() for one in rollout.samples] == [[1, 2, 3], [1, 2, 3]]


@pytest.mark.parametrize(
    ("ending", "verdict", "reward"),
    [
        (Ending.ANSWERED, judged(1.0, [1.0, 1.0]), 1.0),
        (Ending.FORMAT_ERROR, judged(0.0, [0.0, -1.0]), -1.0),
        (Ending.FORMAT_ERROR, judged(0.0, [0.0, 0.0]), 0.0),  # reward profile sparse
        (Ending.STEP_LIMIT, judged(0.1, [0.0, 0.0]), 0.0),
        (Ending.TOKEN_LIMIT, judged(0.1, [0.0, -1.0]), 0.0),  # an error that ended nothing
    ],
)
def test_the_ending_determines_the_episodes_reward(
    ending: Ending, verdict: Judged, reward: float
) -> None:
    """It is the task's reward if the agent answered, the format error's if one ended the episode,
    and 0 if a limit did; steps keep their own rewards."""
    trajectory = attempt(step(reply()), step(reply()), ended(ending, 2), verdict)
    rollout = rollout_of(trajectory, where="runs/x")
    assert rollout.reward == reward
    assert tuple(one.reward for one in rollout.samples) == verdict.step_rewards
    assert rollout.is_truncated is ending.is_truncation


def test_a_verdict_without_step_rewards_gives_each_step_the_episodes() -> None:
    """Some judges do not reward steps."""
    trajectory = attempt(step(reply()), step(reply()), ended(num_steps=2), judged(1.0))
    assert [one.reward for one in rollout_of(trajectory, where="x").samples] == [1.0, 1.0]


def test_a_summary_after_the_last_step_has_the_episodes_reward() -> None:
    """No step follows it."""
    trajectory = attempt(
        step(reply()),
        summary(reply(), turn=1),
        ended(Ending.TOKEN_LIMIT),
        judged(0.0, [-1.0]),
    )
    rollout = rollout_of(trajectory, where="x")
    assert [(one.reward, one.turn) for one in rollout.samples] == [(-1.0, 0), (0.0, 1)]


def test_the_latest_verdict_with_a_label_counts() -> None:
    """A later judge that could not judge does not invalidate an earlier verdict."""
    other = Judged("hybrid:m", Label.AGENT_ERROR, 0.0, (0.0,))
    silent = Judged("llm:m", None, None, unjudged="no answer")
    trajectory = attempt(step(reply()), ended(), judged(1.0, [1.0]), other, silent)
    assert rollout_of(trajectory, where="x").reward == 0.0


def broken(**changes: Any) -> Reply:
    return msgspec.structs.replace(reply(), **changes)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (Reply("plain"), r"turn 1: token_ids: the reply has no token ids"),
        (broken(logprobs=encode_logprobs([-0.1])), r"turn 1: logprobs: 2 tokens have 1 log-prob"),
        (
            broken(logprobs=encode_logprobs([-0.1, float("nan")])),
            r"turn 1: logprobs: token 1 has nan, which is not a log-probability",
        ),
        (
            broken(logprobs=encode_logprobs([float("-inf"), -0.1])),
            r"turn 1: logprobs: token 0 has -inf",
        ),
        (broken(logprobs=encode_logprobs([0.5, -0.1])), r"turn 1: logprobs: token 0 has 0.5"),
        (broken(prompt_ids=b""), r"turn 1: prompt_ids: the reply has no prompt"),
        (broken(prompt_ids=b"12345"), r"turn 1: prompt_ids: 5 bytes are not a whole number of ids"),
        (
            broken(prompt_shared=4),
            r"turn 1: prompt_shared: 4 tokens .* has 3 tokens before this reply",
        ),
        (broken(prompt_shared=-1), r"turn 1: prompt_shared: -1 tokens"),
        (
            broken(token_ids=encode_ids([4, 512])),
            r"turn 1: token_ids: 512 is not a token of the model",
        ),
        (
            broken(token_ids=encode_ids([-1, 4])),
            r"turn 1: token_ids: -1 is not a token of the model",
        ),
        (
            broken(prompt_ids=encode_ids([600])),
            r"turn 1: prompt_ids: 600 is not a token of the model",
        ),
    ],
)
def test_unusable_token_data_is_refused(second: Reply, message: str) -> None:
    """The error names log, episode, turn and field."""
    trajectory = attempt(step(reply()), step(second), ended(num_steps=2), judged(1.0, [1.0, 1.0]))
    with pytest.raises(SampleError, match=r"^runs/x: episode 'e0' \(policy oracle\), " + message):
        rollout_of(trajectory, where="runs/x", vocab=512)


def test_negative_ids_are_refused() -> None:
    """Also if the model's vocabulary is unknown."""
    trajectory = attempt(step(broken(token_ids=encode_ids([-7, 4]))), ended(), judged(1.0, [1.0]))
    with pytest.raises(SampleError, match=r"turn 0: token_ids: -7 is not a token"):
        rollout_of(trajectory, where="x")


def test_a_log_probability_slightly_above_0_is_accepted() -> None:
    """Servers that compute in 16 bits return such values because of rounding."""
    trajectory = attempt(step(reply(logprobs=[0.0004, -0.5])), ended(), judged(1.0, [1.0]))
    (sample,) = rollout_of(trajectory, where="x").samples
    assert sample.logprobs.tolist() == [pytest.approx(0.0004), -0.5]


def test_a_first_reply_shares_nothing() -> None:
    """There is no earlier prompt."""
    trajectory = attempt(step(broken(prompt_shared=1)), ended(), judged(1.0, [1.0]))
    with pytest.raises(SampleError, match=r"turn 0: prompt_shared: 1 tokens .* has 0 tokens befor"):
        rollout_of(trajectory, where="x")


def test_an_episode_without_a_reply_is_refused() -> None:
    """There is nothing to train."""
    trajectory = attempt(ended(Ending.TIME_LIMIT, 0), judged(0.0))
    with pytest.raises(SampleError, match=r"^x: episode 'e0' has no reply$"):
        rollout_of(trajectory, where="x")


def test_a_verdict_on_other_steps_is_refused() -> None:
    """There must be as many step rewards as steps."""
    trajectory = attempt(step(reply()), ended(), judged(1.0, [1.0, 1.0]))
    with pytest.raises(SampleError, match=r"'e0': step_rewards: judge 'code' gave 2 .* for 1 step"):
        rollout_of(trajectory, where="x")


@pytest.mark.parametrize(
    "events",
    [
        [step(reply()), judged(1.0, [1.0])],
        [step(reply()), ended()],
        [step(reply()), ended(), judged(None)],
    ],
)
def test_only_ended_and_judged_episodes_are_rollouts(events: list[Any]) -> None:
    """Without an end or a label an episode has no reward."""
    with pytest.raises(SampleError, match="has not ended or has no verdict with a label"):
        rollout_of(attempt(*events), where="x")
