"""What a verdict is based on: facts of one episode, from its trajectory and its world alone."""

from hashlib import blake2b

import msgspec

from envpool.changes import net_changes
from envpool.errors import StateError
from envpool.world import World
from harness.events import Ending, EpisodeEnded
from harness.messages import FormatError
from harness.store import storable
from harness.trajectory import Trajectory
from judge.errors import VerifierError
from judge.verifier import Verifier
from scenarios.api import RowChange
from scenarios.checks import Finding
from scenarios.format import Task

_encode = msgspec.msgpack.Encoder().encode


class FormatFault(msgspec.Struct, frozen=True, gc=False):
    """A step that broke the format rules, and why (empty where the log does not say)."""

    step: int  # from 0
    reason: str


class Evidence(msgspec.Struct, frozen=True):
    """What the code knows of an episode that is over."""

    ending: Ending
    error: str | None  # what the ending says of itself
    answer: str
    changes: tuple[RowChange, ...]  # the world's rows, end against start
    findings: tuple[Finding, ...]
    unverified: str | None  # why there are no findings; None: the verifier ran
    tool_errors: dict[str, int]  # cause (see envpool.types) -> calls that failed of it
    format_faults: tuple[FormatFault, ...]
    world_failed: bool  # the world broke, one of its tools did, or its state cannot be had


def gather(trajectory: Trajectory, *, task: Task, world: World, verifier: Verifier) -> Evidence:
    """The evidence of an episode that is over. Raises ValueError when it is not."""
    ended = trajectory.ended
    if ended is None:
        raise ValueError(f"episode {trajectory.episode} is not over")
    errors: dict[str, int] = {}
    faults: list[FormatFault] = []
    moves: list[tuple[RowChange, ...]] = []
    for index, step in enumerate(trajectory.steps):
        for result in step.results:
            if result.error is not None:
                errors[result.error] = errors.get(result.error, 0) + 1
            elif result.changes:
                moves.append(result.changes)
        if isinstance(step.decision, FormatError):
            faults.append(FormatFault(index, step.decision.reason))
        elif step.reward is not None:
            last = index == len(trajectory.steps) - 1
            faults.append(FormatFault(index, (ended.error or "") if last else ""))
    changes = net_changes(moves) if moves else ()
    findings, unverified = _verify(ended, changes, task=task, world=world, verifier=verifier)
    return Evidence(
        ending=ended.ending,
        error=ended.error,
        answer=ended.answer,
        changes=changes,
        findings=findings,
        unverified=unverified,
        tool_errors=errors,
        format_faults=tuple(faults),
        world_failed=(
            ended.ending is Ending.WORLD_ERROR
            or ended.state is None
            or "internal" in errors
            or "timeout" in errors
        ),
    )


def _verify(
    ended: EpisodeEnded,
    changes: tuple[RowChange, ...],
    *,
    task: Task,
    world: World,
    verifier: Verifier,
) -> tuple[tuple[Finding, ...], str | None]:
    """The findings, or why there are none."""
    if ended.state is None:
        return (), "the world could not tell its state"
    try:
        before, after = world.states(ended.state, changes)
        return verifier.run(task, before, after, ended.answer), None
    except (StateError, VerifierError) as exc:
        return (), str(exc)


def episode_digest(trajectory: Trajectory) -> str:
    """The digest of the facts that are judged, 32 hexadecimal digits.

    Equal for an episode judged live and from its log, and for two episodes in which the same was
    said and done: names, times, token counts and earlier verdicts are left out.
    """
    started, ended = trajectory.started, trajectory.ended
    facts = (
        started.scenario,
        started.task,
        started.instruction,
        started.package,
        started.world,
        [
            (
                step.reply.text,
                step.decision,
                [(result.text, result.error, result.digest) for result in step.results],
                step.reward,
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
        ),
    )
    try:
        data = _encode(facts)
    except (OverflowError, UnicodeEncodeError):  # what no log can hold, as the log holds it
        data = _encode(storable(msgspec.to_builtins(facts)))
    return blake2b(data, digest_size=16).hexdigest()
