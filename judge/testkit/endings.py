"""The kinds of cases of the judge test kit, and those that differ only in how an episode ends.

oracle       the task is solved as its author does it
noop         nothing is done, and the answer is empty or claims success
mutant       the oracle with one mistake (see harness.policies.mutants)
near_miss    almost the oracle: work left out, another task's, or more than was asked for
unreported   all is done, but the answer does not say so
refused      a call breaks a rule of the world and is refused
world_fault  a tool breaks (see envpool.inprocess.fault_injection), or the world dies
malformed    a reply that cannot be read ends the episode
cut_off      a limit of the run ends the episode
unjudged     it was cancelled, or the model died: not the agent's fault
"""

from collections.abc import Iterator
from typing import Literal, get_args

import msgspec

from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, Label, StepTaken
from rehearsal_room.harness.core.messages import FormatError, Reply
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.policies.mutations import DONE
from rehearsal_room.judge.playback.playback import started_event
from rehearsal_room.scenarios.format import Task

CaseKind = Literal[
    "oracle",
    "noop",
    "mutant",
    "near_miss",
    "unreported",
    "refused",
    "world_fault",
    "malformed",
    "cut_off",
    "unjudged",
]
KINDS: tuple[CaseKind, ...] = get_args(CaseKind)
LabelSet = frozenset[Label | None]  # None: unjudged

COMPLETED: LabelSet = frozenset({Label.COMPLETED})
NOT_COMPLETED: LabelSet = frozenset({Label.PARTIALLY_COMPLETED, Label.AGENT_ERROR})
WORK_DONE: LabelSet = frozenset({Label.COMPLETED, Label.PARTIALLY_COMPLETED})
AGENT: LabelSet = frozenset({Label.AGENT_ERROR})
WORLD: LabelSet = frozenset({Label.ENVIRONMENT_ERROR})
UNJUDGED: LabelSet = frozenset({None})

_UNREADABLE = "A tool call has no name."
_WHY_MALFORMED = "a reply that cannot be read is the agent's fault, whatever was done before"
_WHY_CUT = "an episode that was cut off has no answer, but the world did not fail"


class StagedEpisode(msgspec.Struct, frozen=True):
    """One episode, and the labels that a judge may give it."""

    kind: CaseKind
    what: str  # in a few words; different for all episodes of one kind and task
    trajectory: Trajectory
    expected: LabelSet
    why: str  # a sentence


def idle_episodes(world: States, task: Task) -> Iterator[StagedEpisode]:
    """The episodes of a task without calls, which need no oracle."""
    empty = _empty(world, task)
    noop = "doing nothing completes no task"
    yield StagedEpisode("noop", "silent", ended_as(empty, answer=""), AGENT, noop)
    claim = "a claim of success is not success"
    yield StagedEpisode("noop", "claim", ended_as(empty, answer=DONE), NOT_COMPLETED, claim)
    died = ended_as(empty, Ending.WORLD_ERROR, "the worker died", stateless=True)
    yield StagedEpisode(
        "world_fault", "died", died, WORLD, "a world that died is not the agent's fault"
    )
    yield StagedEpisode("malformed", "at once", _malformed(empty), AGENT, _WHY_MALFORMED)
    yield StagedEpisode(
        "cut_off", "at once", ended_as(empty, Ending.STEP_LIMIT), NOT_COMPLETED, _WHY_CUT
    )
    yield from _unjudged(empty)


def _unjudged(played: Trajectory) -> Iterator[StagedEpisode]:
    cancelled = ended_as(played, Ending.CANCELLED, "the run was cancelled")
    yield StagedEpisode(
        "unjudged", "cancelled", cancelled, UNJUDGED, "a cancelled run is not the agent's fault"
    )
    died = ended_as(played, Ending.POLICY_ERROR, "no answer after 8 attempts: status 503")
    yield StagedEpisode(
        "unjudged", "no model", died, UNJUDGED, "a dead model server is not the agent's fault"
    )
    refused = ended_as(played, Ending.MODEL_REFUSED, "the provider withheld the reply")
    yield StagedEpisode(
        "unjudged", "withheld", refused, UNJUDGED, "a provider's filter is not the agent's fault"
    )


def interrupted_episodes(oracle: Trajectory) -> Iterator[StagedEpisode]:
    """The oracle's episode, interrupted after all its calls and before its answer."""
    yield StagedEpisode("malformed", "at the end", _malformed(oracle), AGENT, _WHY_MALFORMED)
    for ending in (Ending.STEP_LIMIT, Ending.TOKEN_LIMIT, Ending.TIME_LIMIT):
        cut = ended_as(oracle, ending)
        yield StagedEpisode("cut_off", f"{ending} unanswered", cut, NOT_COMPLETED, _WHY_CUT)
    for one in _unjudged(oracle):
        yield msgspec.structs.replace(one, what=f"{one.what} at the end")


def _empty(world: States, task: Task) -> Trajectory:
    """An episode without calls."""
    ended = EpisodeEnded(Ending.ANSWERED, "", 0, world.start)
    return Trajectory("played", 1, started_event(world, task), (), ended)


def ended_as(
    trajectory: Trajectory,
    ending: Ending = Ending.ANSWERED,
    error: str | None = None,
    *,
    answer: str = "",
    stateless: bool = False,
) -> Trajectory:
    """The episode with another end."""
    assert trajectory.ended is not None
    state = None if stateless else trajectory.ended.state
    ended = EpisodeEnded(ending, answer, len(trajectory.steps), state, error)
    return msgspec.structs.replace(trajectory, ended=ended)


def _malformed(trajectory: Trajectory) -> Trajectory:
    """The episode, ended by one more reply, which cannot be read."""
    step = StepTaken(Reply("{"), FormatError(_UNREADABLE), reward=-1.0)
    longer = msgspec.structs.replace(trajectory, steps=(*trajectory.steps, step))
    return ended_as(longer, Ending.FORMAT_ERROR, _UNREADABLE)
