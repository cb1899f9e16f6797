"""Judging a run from its log: again, under other rewards, or only what is missing.

Verdicts are appended; none is removed. A judging that was cut off loses nothing: its verdicts are
in the log, the models' judgements are in the verdict cache, and `only="unjudged"` does the rest.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import anyio
import anyio.lowlevel
import msgspec

from rehearsal_room.harness.core.events import Judged
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.log.schema import EpisodeProgress
from rehearsal_room.harness.log.writer import LogWriter
from rehearsal_room.judge.core.live_judging import EpisodeJudge
from rehearsal_room.judge.core.rewards import RewardProfile, recompute_rewards
from rehearsal_room.judge.verdicts.disagreements import beside_code, is_disagreement
from rehearsal_room.judge.verdicts.summary import JudgingSummary, VerdictTally

RejudgeOnly = Literal["all", "unjudged", "disagreements"]
Done = Callable[[], None]  # called for each episode that is finished


class Rejudging(msgspec.Struct, frozen=True):
    """The log that a judging reads from and appends to."""

    reader: LogReader
    log: LogWriter
    progress: dict[str, EpisodeProgress]  # by episode
    recorder: Recorder

    async def append(self, trajectory: Trajectory, judged: Judged) -> None:
        """Append a verdict, unless it only repeats why there is no label."""
        last = latest(trajectory, judged.judge)
        is_same = last is not None and judged.profile == last.profile
        asked = judged.judgements or judged.asked
        if last is not None and is_same and not asked and _same_reason(judged, last):
            return
        self.recorder.open(trajectory.episode, seq=self.progress[trajectory.episode].next_seq)
        await self.recorder.record(trajectory.episode, trajectory.attempt, judged)
        self.recorder.close(trajectory.episode)

    def ended(self) -> Iterator[Trajectory]:
        """The episodes that are over, one in memory at a time; a resumed run does the others."""
        return (episode for episode in self.reader.trajectories() if episode.ended is not None)


def start_rejudging(reader: LogReader, log: LogWriter) -> Rejudging:
    """The judging of a log that is open for reading and writing."""
    return Rejudging(reader, log, reader.progress(), Recorder(log))


async def judge_again(
    work: Rejudging,
    judge: EpisodeJudge,
    *,
    name: str,
    rewards: str,
    concurrency: int,
    only: RejudgeOnly = "all",
    has_profile: bool = False,
    done: Done = lambda: None,
) -> JudgingSummary:
    """Judge the episodes of a log, append the verdicts, and return the summary of the run.

    `name` is the judge's, under which its earlier verdicts are found; at most `concurrency`
    verdicts are waited for at once. `has_profile`: see `is_selected`. Raises what the judge raises.
    """
    tally = VerdictTally(judge=name, rewards=rewards)
    in_progress = anyio.CapacityLimiter(concurrency)

    async def finish(trajectory: Trajectory) -> None:
        judged = await judge.verdict(trajectory)
        await work.append(trajectory, judged)
        tally.add(trajectory, judged)
        done()

    async def finish_later(trajectory: Trajectory) -> None:
        try:
            await finish(trajectory)
        finally:
            in_progress.release_on_behalf_of(trajectory.episode)

    async with anyio.create_task_group() as tasks:
        for trajectory in work.ended():
            if not is_selected(trajectory, name, only, has_profile=has_profile):
                if (last := latest(trajectory, name)) is not None:
                    tally.add(trajectory, last, is_new=False)
                done()
            elif judge.suspends(trajectory):
                await in_progress.acquire_on_behalf_of(trajectory.episode)
                tasks.start_soon(finish_later, trajectory)
            else:
                await finish(trajectory)
                await anyio.lowlevel.checkpoint()
    await work.log.flush()
    return tally.summary()


async def reward_again(
    work: Rejudging, profile: RewardProfile, *, done: Done = lambda: None
) -> JudgingSummary:
    """Append the latest verdicts under another reward profile, from stored facts alone: no verifier
    runs and no model is asked. Unjudged episodes stay unjudged. Raises JudgeError, before anything
    is written, where the facts are missing."""
    names: set[str] = set()
    tally = VerdictTally(rewards=profile.name)
    for trajectory in work.ended():  # raises before the first verdict is written
        if trajectory.judged:
            recompute_rewards(trajectory, trajectory.judged[-1], profile)
    for trajectory in work.ended():
        if not trajectory.judged:
            missing = Judged("", None, None, unjudged="it has not been judged yet")
            tally.add(trajectory, missing, is_new=False)
        else:
            judged = recompute_rewards(trajectory, trajectory.judged[-1], profile)
            names.add(judged.judge)
            if judged.label is not None:
                await work.append(trajectory, judged)
            tally.add(trajectory, judged, is_new=False)
        done()
        await anyio.lowlevel.checkpoint()
    await work.log.flush()
    return msgspec.structs.replace(tally.summary(), judge=", ".join(sorted(names)))


def latest(trajectory: Trajectory, name: str) -> Judged | None:
    """The latest verdict of the judge with this name; None: it has given none."""
    return next((judged for judged in trajectory.judged if judged.judge == name), None)


def _same_reason(judged: Judged, last: Judged) -> bool:
    """Whether neither has a label, for the same reason."""
    return judged.label is None and last.label is None and judged.unjudged == last.unjudged


def is_selected(
    trajectory: Trajectory, name: str, only: RejudgeOnly, *, has_profile: bool = False
) -> bool:
    """Whether the judge with this name shall judge the episode. Disagreements of every judge count,
    so that another judge can be asked about them. `has_profile`: an episode that the profile's
    judge has not classified is unjudged, too."""
    if only == "unjudged":
        last = latest(trajectory, name)
        if last is None or last.label is None:
            return True
        theirs = last.profile
        return has_profile and (theirs is None or theirs.classification in ("", "judge_error"))
    return only == "all" or any(map(is_disagreement, beside_code(trajectory)))
