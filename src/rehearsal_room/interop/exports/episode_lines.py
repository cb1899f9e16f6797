"""The fields of an exported episode."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ServerRequest, ToolResult
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.harness.core.events import Ending, ForkedFrom, Judged, Label, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, FormatError, Usage, UserTurn
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.judge.reliability.annotations import HumanLabel
from rehearsal_room.scenarios.api import Row, RowChange


class CallLine(msgspec.Struct, frozen=True):
    """An exported call."""

    name: str
    arguments: Any


class ResultLine(msgspec.Struct, frozen=True):
    """The exported result of a call."""

    text: str
    is_error: bool
    error: str | None  # the cause, see envpool.core.types; None: the call succeeded
    # What the world's server asked during the call, and what it was answered; left out: nothing.
    asked: tuple[ServerRequest, ...] | msgspec.UnsetType = msgspec.UNSET


class UserTurnLine(msgspec.Struct, frozen=True):
    """What the user of a dialogue did in a turn."""

    text: str  # what the user said; empty where the user ended the talk without a word
    ended: bool  # the user ended the talk
    calls: list[CallLine]  # the user's own
    results: list[ResultLine]


class StepLine(msgspec.Struct, frozen=True):
    """An exported turn."""

    text: str  # the text of the agent's reply
    calls: list[CallLine]
    results: list[ResultLine]
    format_error: str | None  # how the reply broke the dialect's rules; None: it did not
    user: UserTurnLine | None = None  # None: the reply was not said to a user
    # What the server sent beside the reply's text and calls, as it came; left out: nothing.
    fields: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class SummaryLine(msgspec.Struct, frozen=True):
    """An exported summary that the agent made of its history."""

    step: int  # the step (from 0) before which it was requested
    text: str  # the text of the agent's reply


class HandLabelLine(msgspec.Struct, frozen=True):
    """What a person said about an episode."""

    labeller: str
    label: Label | None  # None: a note alone
    note: str
    at: float  # Unix seconds


class EpisodeLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exported episode. `state_diff` is the net change of all its calls."""

    episode: str
    attempt: int
    scenario: str
    task: str
    instruction: str
    group: str
    member: int
    seed: int
    policy: str
    dialect: str
    history: str
    ending: Ending | None  # None: cut off
    error: str | None
    answer: str
    label: Label | None  # of the latest verdict; None: not judged
    reward: float | None
    share: float | None  # of the task; None: it is all or nothing, or not judged
    step_rewards: tuple[float, ...]
    judge: str | None
    unjudged: str | None
    steps: list[StepLine]
    state_diff: tuple[RowChange, ...]
    start_digest: str
    end_digest: str | None
    summaries: list[SummaryLine]  # requested by the history window
    forked_from: ForkedFrom | None  # a fork's first turns are another episode's; None: it is none
    by_hand: tuple[HandLabelLine, ...]  # labels and notes by people
    seconds: float  # from its start to its end
    prompt_tokens: int  # of the agent's replies
    cached_tokens: int  # the part of prompt_tokens that came from the server's prefix cache
    completion_tokens: int
    final: dict[str, list[Row]] | msgspec.UnsetType | None = msgspec.UNSET  # with `dumps`


def episode_line(
    row: EpisodeRow, trajectory: Trajectory, by_hand: Iterable[HumanLabel] = ()
) -> EpisodeLine:
    """The exported form of an episode, without its final tables."""
    started, ended = trajectory.started, trajectory.ended
    verdict = _latest_verdict(row, trajectory)
    usages = _usages(trajectory)
    results = (result.changes for step in trajectory.steps for result in step.executed_results)
    return EpisodeLine(
        episode=trajectory.episode,
        attempt=trajectory.attempt,
        scenario=started.scenario,
        task=started.task,
        instruction=started.instruction,
        group=started.group,
        member=started.member,
        seed=started.seed,
        policy=started.policy,
        dialect=started.dialect,
        history=started.history,
        ending=ended.ending if ended else None,
        error=ended.error if ended else None,
        answer=ended.answer if ended else "",
        label=row.label,
        reward=row.reward,
        share=row.share,
        step_rewards=verdict.step_rewards if verdict else (),
        judge=row.judge,
        unjudged=row.unjudged,
        steps=[_step_line(step) for step in trajectory.steps],
        state_diff=net_changes(results),
        start_digest=started.start_digest,
        end_digest=ended.state.digest if ended and ended.state else None,
        summaries=[SummaryLine(one.turn, one.reply.text) for one in trajectory.summaries],
        forked_from=started.forked_from,
        by_hand=tuple(HandLabelLine(one.labeller, one.label, one.note, one.at) for one in by_hand),
        seconds=row.seconds,
        prompt_tokens=sum(one.prompt_tokens for one in usages),
        cached_tokens=sum(one.cached_tokens for one in usages),
        completion_tokens=sum(one.completion_tokens for one in usages),
    )


def _usages(trajectory: Trajectory) -> list[Usage]:
    """What the replies of the episode took: those of a fork's first turns are another one's."""
    own = trajectory.replies()[trajectory.num_context :]
    replies = [one.reply for one in (trajectory.asked or own)]
    return [reply.usage for reply in replies if reply is not None]


def _latest_verdict(row: EpisodeRow, trajectory: Trajectory) -> Judged | None:
    return next((verdict for verdict in trajectory.judged if verdict.judge == row.judge), None)


def _step_line(step: StepTaken) -> StepLine:
    decision = step.decision
    calls = decision.calls if isinstance(decision, Act) else ()
    return StepLine(
        text=step.reply.text,
        calls=_call_lines(calls),
        results=_result_lines(step.results),
        format_error=decision.reason if isinstance(decision, FormatError) else None,
        user=None if step.user is None else _user_line(step.user),
        fields=step.reply.fields or msgspec.UNSET,
    )


def _user_line(user: UserTurn) -> UserTurnLine:
    return UserTurnLine(user.text, user.ended, _call_lines(user.calls), _result_lines(user.results))


def _call_lines(calls: Sequence[AgentCall]) -> list[CallLine]:
    return [CallLine(call.name, call.arguments) for call in calls]


def _result_lines(results: Sequence[ToolResult]) -> list[ResultLine]:
    return [
        ResultLine(one.text, one.is_error, one.error, one.asked or msgspec.UNSET) for one in results
    ]
