"""Records of invented episodes with times, for tests of what is computed from them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    HistorySummarized,
    Judged,
    Label,
    ModelJudgement,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply, Usage
from tests.support.episode_logs import started

BEGAN = 1_700_000_000.0  # Unix seconds
At = tuple[float, Any]  # seconds after BEGAN, and an event


def begin(*, policy: str = "openai:m", kept: int = 0) -> EpisodeStarted:
    return msgspec.structs.replace(started(), policy=policy, kept=kept)


def turn(model_s: float, *calls_s: float, number: int = 0, tokens: int = 0) -> StepTaken:
    """A reply, and a call for each of `calls_s`; without one it is an answer."""
    usage = Usage(prompt_tokens=10 * tokens, completion_tokens=tokens)
    if not calls_s:
        return StepTaken(Reply("Done.", usage=usage), Answer("Done."), policy_s=model_s)
    calls = tuple(AgentCall("void_order", {"n": n}, f"c{number}-{n}") for n in range(len(calls_s)))
    results = tuple(ToolResult("{}") for _ in calls)
    reply = Reply("I look.", calls, "tool_calls", usage)
    return StepTaken(reply, Act(calls), results, policy_s=model_s, calls_s=sum(calls_s))


def summary(model_s: float, number: int) -> HistorySummarized:
    return HistorySummarized(Reply("So far."), number, policy_s=model_s)


def end(
    seconds: float, *, ending: Ending = Ending.ANSWERED, error: str | None = None
) -> EpisodeEnded:
    return EpisodeEnded(ending, "Done.", 1, None, error, seconds)


def verdict(*, model_s: float = 0.0) -> Judged:
    judged = Judged("code", Label.COMPLETED, 1.0)
    if not model_s:
        return judged
    one = ModelJudgement("j", Label.COMPLETED, seconds=model_s)
    return msgspec.structs.replace(judged, judge="hybrid:j", judgements=(one,))


def records(episode: str, events: Sequence[At], *, attempt: int = 1) -> list[Record]:
    return [
        Record(episode, attempt, seq, BEGAN + at, event) for seq, (at, event) in enumerate(events)
    ]


def merged(*stories: Sequence[Record]) -> list[Record]:
    """The records of several episodes, as a log has them."""
    return sorted((one for story in stories for one in story), key=lambda one: one.at)
