"""The evidence of a verdict: facts about one episode, from its trajectory and its world alone."""

from hashlib import blake2b
from typing import Any

import msgspec

from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    ModelJudgement,
    StepTaken,
    VerifierRun,
)
from rehearsal_room.harness.core.messages import Act, FormatError
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import ScenarioSnapshot, make_storable
from rehearsal_room.harness.rollout.episode import user_of
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario

_encode = msgspec.msgpack.Encoder().encode


class ScenarioInfo(msgspec.Struct, frozen=True):
    """What the agent knew of its world before it began."""

    rules: str  # the world's rules, Markdown; empty: no rules
    user: str  # for whom the agent acts, in words
    now: str  # the scenario's clock
    tools: dict[str, str] = {}  # descriptions of its tools, by name; empty: they are not known


class CallFact(msgspec.Struct, frozen=True, gc=False):
    """One tool call and its result."""

    name: str
    arguments: Any
    text: str  # the tool's answer
    error: str | None  # the cause (see envpool.core.types); None: the call succeeded
    changes: tuple[RowChange, ...]


class Turn(msgspec.Struct, frozen=True, gc=False):
    """One step as a judge sees it. Format faults are listed separately (see Evidence)."""

    text: str  # the agent's, thoughts included
    calls: tuple[CallFact, ...]
    user: str = ""  # what the user of a dialogue said to it


class FormatFault(msgspec.Struct, frozen=True, gc=False):
    """A step that broke the format rules, and why (empty where the log has no reason)."""

    step: int  # from 0
    reason: str


class Verification(msgspec.Struct, frozen=True):
    """The result of a task's verifier on the end of an episode."""

    findings: tuple[Finding, ...] = ()
    unverified: str | None = None  # why there are no findings; None: the verifier ran
    observed: str = ""  # JSON that an AWM verifier of kind `sql` returned: evidence, not a verdict
    run: VerifierRun | None = None  # where it ran; None: it did not run
    # The rows whose texts the bounds are about; None: those that the episode changed.
    texts: tuple[RowChange, ...] | None = None
    # What the answers of a model took on which the findings depend; None: nobody was asked.
    asked: ModelJudgement | None = None


class Evidence(msgspec.Struct, frozen=True):
    """All that is known about an episode that is over."""

    instruction: str
    info: ScenarioInfo
    turns: tuple[Turn, ...]
    ending: Ending
    error: str | None  # the logged reason of the ending
    answer: str
    changes: tuple[RowChange, ...]  # the world's rows, end against start
    findings: tuple[Finding, ...]
    unverified: str | None  # why there are no findings; None: the verifier ran
    tool_errors: dict[str, int]  # cause (see envpool.core.types) -> failed calls
    format_faults: tuple[FormatFault, ...]
    world_failed: bool  # the world or one of its tools failed, or its final state is not known
    observed: str = ""  # see Verification
    verifier_run: VerifierRun | None = None  # where the verifier ran; None: it did not run


def scenario_info(world: Scenario | ScenarioSnapshot) -> ScenarioInfo:
    """What agents know of a scenario's world, or knew of a logged one's."""
    if isinstance(world, Scenario):
        return ScenarioInfo(world.rules, user_of(world), world.clock)
    tools = {tool.name: tool.description for tool in world.tools}
    return ScenarioInfo(world.rules, world.user, world.now, tools)


def gather(
    trajectory: Trajectory,
    verification: Verification,
    info: ScenarioInfo,
    changes: tuple[RowChange, ...] | None = None,
) -> Evidence:
    """The evidence of an episode that is over. `changes` are those of `changes_of`; None: they are
    computed here. Raises ValueError for an episode that is not over."""
    ended = ended_of(trajectory)
    errors: dict[str, int] = {}
    faults: list[FormatFault] = []
    turns: list[Turn] = []
    for index, step in enumerate(trajectory.steps):
        turns.append(_turn(step))
        for result in step.results:
            if result.error is not None:
                errors[result.error] = errors.get(result.error, 0) + 1
        if isinstance(step.decision, FormatError):
            faults.append(FormatFault(index, step.decision.reason))
        elif step.reward is not None:
            last = index == len(trajectory.steps) - 1
            faults.append(FormatFault(index, (ended.error or "") if last else ""))
    return Evidence(
        instruction=trajectory.started.instruction,
        info=info,
        turns=tuple(turns),
        ending=ended.ending,
        error=ended.error,
        answer=ended.answer,
        changes=changes_of(trajectory) if changes is None else changes,
        findings=verification.findings,
        unverified=verification.unverified,
        tool_errors=errors,
        format_faults=tuple(faults),
        world_failed=(
            ended.ending is Ending.WORLD_ERROR
            or ended.state is None
            or "internal" in errors
            or "timeout" in errors
        ),
        observed=verification.observed,
        verifier_run=verification.run,
    )


def _turn(step: StepTaken) -> Turn:
    calls = step.decision.calls if isinstance(step.decision, Act) else ()
    return Turn(
        step.reply.text,
        tuple(
            [
                CallFact(call.name, call.arguments, result.text, result.error, result.changes)
                for call, result in zip(calls, step.results, strict=False)
            ]
        ),
        "" if step.user is None else step.user.text,
    )


def ended_of(trajectory: Trajectory) -> EpisodeEnded:
    """The end of the episode. Raises ValueError for an episode that is not over."""
    if trajectory.ended is None:
        raise ValueError(f"episode {trajectory.episode} is not over")
    return trajectory.ended


def changes_of(trajectory: Trajectory) -> tuple[RowChange, ...]:
    """The world's rows, end against start."""
    moves = calls_of(trajectory)
    return net_changes(moves) if moves else ()


def calls_of(trajectory: Trajectory) -> list[tuple[RowChange, ...]]:
    """The rows that each call changed, in order, without calls that changed none. Failed calls
    count: where tools commit by themselves, a call may change rows and then fail."""
    return [
        result.changes
        for step in trajectory.steps
        for result in step.executed_results
        if result.changes
    ]


def episode_digest(trajectory: Trajectory) -> str:
    """The digest of the facts that are judged, 32 hexadecimal digits.

    Equal for an episode judged live and from its log, and for two episodes with the same messages
    and calls: names, times, token counts and earlier verdicts are left out.
    """
    started, ended = trajectory.started, trajectory.ended
    facts = (
        started.scenario,
        started.task,
        started.instruction,
        started.scenario_digest,
        started.start_digest,
        [
            (
                step.reply.text,
                step.decision,
                [(one.text, one.error, one.digest) for one in step.executed_results],
                step.reward,
                *(() if step.user is None else (step.user.text, step.user.calls)),
            )
            for step in trajectory.steps
        ],
        None
        if ended is None
        else (
            ended.ending,
            ended.answer,
            ended.error,
            None if ended.state is None else (ended.state.template, ended.state.digest),
            *ended.checked,
        ),
    )
    try:
        data = _encode(facts)
    except (OverflowError, UnicodeEncodeError):  # values that no log can hold, as the log has them
        data = _encode(make_storable(msgspec.to_builtins(facts)))
    return blake2b(data, digest_size=16).hexdigest()
