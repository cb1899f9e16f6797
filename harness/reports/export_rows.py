"""An episode as other programs get it."""

from typing import Any

import msgspec

from envpool.store.changes import net_changes
from harness.core.events import Ending, Judged, Label, StepTaken
from harness.core.messages import Act, FormatError
from harness.core.trajectory import Trajectory
from harness.log.schema import EpisodeRow
from scenarios.api import Row, RowChange


class CallLine(msgspec.Struct, frozen=True):
    """A call, as exported."""

    name: str
    arguments: Any


class ResultLine(msgspec.Struct, frozen=True):
    """What a call gave."""

    text: str
    is_error: bool
    error: str | None  # the cause, see envpool.core.types; None: the call succeeded


class StepLine(msgspec.Struct, frozen=True):
    """One turn."""

    text: str  # what the agent said
    calls: list[CallLine]
    results: list[ResultLine]
    format_error: str | None  # how the reply broke the dialect's rules; None: it did not


class SummaryLine(msgspec.Struct, frozen=True):
    """What the agent made of its history."""

    step: int  # before which it was asked for it, from 0
    text: str  # what the agent said


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """An episode, as exported. `state_diff` is the net of all its calls."""

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
    step_rewards: tuple[float, ...]
    judge: str | None
    unjudged: str | None
    steps: list[StepLine]
    state_diff: tuple[RowChange, ...]
    start_digest: str
    end_digest: str | None
    summaries: list[SummaryLine]  # those that the history policy asked for
    final: dict[str, list[Row]] | msgspec.UnsetType | None = msgspec.UNSET  # with `dumps`


def line_of(row: EpisodeRow, trajectory: Trajectory) -> Line:
    """An episode, as exported, without its final tables."""
    started, ended = trajectory.started, trajectory.ended
    verdict = _verdict(row, trajectory)
    results = (result.changes for step in trajectory.steps for result in step.results)
    return Line(
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
        step_rewards=verdict.step_rewards if verdict else (),
        judge=row.judge,
        unjudged=row.unjudged,
        steps=[_step_line(step) for step in trajectory.steps],
        state_diff=net_changes(results),
        start_digest=started.start_digest,
        end_digest=ended.state.digest if ended and ended.state else None,
        summaries=[SummaryLine(one.turn, one.reply.text) for one in trajectory.summaries],
    )


def _verdict(row: EpisodeRow, trajectory: Trajectory) -> Judged | None:
    return next((verdict for verdict in trajectory.judged if verdict.judge == row.judge), None)


def _step_line(step: StepTaken) -> StepLine:
    decision = step.decision
    calls = decision.calls if isinstance(decision, Act) else ()
    return StepLine(
        text=step.reply.text,
        calls=[CallLine(call.name, call.arguments) for call in calls],
        results=[ResultLine(r.text, r.is_error, r.error) for r in step.results],
        format_error=decision.reason if isinstance(decision, FormatError) else None,
    )
