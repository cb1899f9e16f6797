"""Made-up episodes with tokens, for the tests of the learner's feed."""

from collections.abc import Sequence

import msgspec

from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    Event,
    HistorySummarized,
    Judged,
    Label,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Answer, FormatError, Reply
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.harness.core.trajectory import Trajectory, assemble
from tests.support.episode_logs import STATE, started, story


def reply(
    prompt: Sequence[int] = (1, 2, 3),
    tokens: Sequence[int] = (4, 5),
    *,
    shared: int = 0,
    logprobs: Sequence[float] | None = None,
    weights: str = "v1",
    text: str = "",
) -> Reply:
    """A reply with tokens; it shares the first `shared` ids of its prompt with the first prompt."""
    values = [-0.1 * token for token in tokens] if logprobs is None else logprobs
    return Reply(
        text,
        prompt_ids=encode_ids(prompt[shared:]),
        prompt_shared=shared,
        token_ids=encode_ids(tokens),
        logprobs=encode_logprobs(values),
        weights=weights,
    )


def step(answer: Reply, reward: float | None = None) -> StepTaken:
    """A step that answers; with a reward, a malformed step."""
    if reward is None:
        return StepTaken(answer, Answer(answer.text))
    return StepTaken(answer, FormatError("It is malformed."), reward=reward)


def summary(answer: Reply, turn: int) -> HistorySummarized:
    return HistorySummarized(answer, turn)


def ended(ending: Ending = Ending.ANSWERED, num_steps: int = 1) -> EpisodeEnded:
    return EpisodeEnded(ending, "", num_steps, STATE)


def judged(reward: float | None, steps: Sequence[float] = (), label: Label | None = None) -> Judged:
    """A verdict; None: the judge could not judge."""
    if reward is None:
        return Judged("code", None, None, unjudged="the verifier broke")
    found = label or (Label.COMPLETED if reward == 1 else Label.AGENT_ERROR)
    return Judged("code", found, reward, tuple(steps))


def episode(
    member: int = 0,
    *,
    reward: float | None = 1.0,
    size: int = 2,
    group: str = "g0",
    weights: str = "v1",
    ending: Ending = Ending.ANSWERED,
    label: Label | None = None,
) -> list[Record]:
    """The records of an episode of one step: sampled, ended and judged."""
    start = msgspec.structs.replace(started(group=group, member=member), group_size=size)
    events: list[Event] = [start, step(reply(weights=weights)), ended(ending)]
    steps = () if reward is None else (reward,)
    return story(f"{group}-{member}", [*events, judged(reward, steps, label)])


def attempt(*events: Event, name: str = "e0") -> Trajectory:
    """The trajectory of an episode with these events after its start."""
    return assemble(story(name, [started(), *events]))
