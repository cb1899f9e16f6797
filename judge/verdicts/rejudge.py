"""Judging a run from its log: again, under other rewards, or only what is missing.

Verdicts are appended; nothing is taken back. A judging that was cut off loses nothing: what was
given is in the log, what was asked is in the verdict cache, and `only="unjudged"` does the rest.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import anyio
import anyio.lowlevel
import msgspec

from harness.core.events import Judged
from harness.core.trajectory import Trajectory
from harness.log.reader import LogReader
from harness.log.recorder import Recorder
from harness.log.schema import Progress
from harness.log.writer import LogWriter
from judge.core.rewards import RewardProfile, rewarded_again
from judge.verdicts.disagreements import is_disagreement
from judge.verdicts.live import Judge
from judge.verdicts.summary import Summary, Tally

Only = Literal["all", "unjudged", "disagreements"]
Done = Callable[[], None]  # called for each episode that is finished


class Rejudging(msgspec.Struct, frozen=True):
    """Where one judging reads and writes."""

    reader: LogReader
    log: LogWriter
    progress: dict[str, Progress]  # by episode
    recorder: Recorder

    async def keep(self, trajectory: Trajectory, judged: Judged) -> None:
        """Append a verdict, but for one that says again why there is none."""
        last = latest(trajectory, judged.judge)
        if last is not None and not judged.opinions and _says_again(judged, last):
            return
        self.recorder.open(trajectory.episode, seq=self.progress[trajectory.episode].next_seq)
        await self.recorder.record(trajectory.episode, trajectory.attempt, judged)
        self.recorder.close(trajectory.episode)

    def ended(self) -> Iterator[Trajectory]:
        """The episodes that are over, one in memory at a time; a resumed run does the others."""
        return (one for one in self.reader.trajectories() if one.ended is not None)


def rejudging(reader: LogReader, log: LogWriter) -> Rejudging:
    """The judging of a log that can be read and written."""
    return Rejudging(reader, log, reader.progress(), Recorder(log))


async def judge_again(
    work: Rejudging,
    judge: Judge,
    *,
    name: str,
    rewards: str,
    at_once: int,
    only: Only = "all",
    done: Done = lambda: None,
) -> Summary:
    """Judge the episodes of a log and append the verdicts; gives what now holds of the run.

    `name` is the judge's, under which its earlier verdicts are found; `at_once` verdicts are
    waited for. Raises what the judge does.
    """
    tally = Tally(judge=name, rewards=rewards)
    chairs = anyio.CapacityLimiter(at_once)

    async def finish(trajectory: Trajectory, judged: Judged) -> None:
        await work.keep(trajectory, judged)
        tally.add(trajectory, judged)
        done()

    async with anyio.create_task_group() as tasks:
        for trajectory in work.ended():
            if not is_wanted(trajectory, name, only):
                if (last := latest(trajectory, name)) is not None:
                    tally.add(trajectory, last, is_new=False)
                done()
                continue
            given = judge.judge(trajectory)
            if isinstance(given, Judged):
                await finish(trajectory, given)
                await anyio.lowlevel.checkpoint()
                continue
            await chairs.acquire_on_behalf_of(trajectory.episode)

            async def wait(trajectory: Trajectory = trajectory, given: object = given) -> None:
                assert callable(given)
                try:
                    await finish(trajectory, await given())
                finally:
                    chairs.release_on_behalf_of(trajectory.episode)

            tasks.start_soon(wait)
    await work.log.flush()
    return tally.summary()


async def reward_again(
    work: Rejudging, profile: RewardProfile, *, done: Done = lambda: None
) -> Summary:
    """The latest verdicts under another reward profile, from stored facts alone: no verifier runs
    and no model is asked. What was not judged stays so. Raises JudgeError, before anything is
    written, where the facts are missing."""
    names: set[str] = set()
    tally = Tally(rewards=profile.name)
    for trajectory in work.ended():  # nothing is written before it is clear that all can be
        if trajectory.judged:
            rewarded_again(trajectory, trajectory.judged[-1], profile)
    for trajectory in work.ended():
        if not trajectory.judged:
            nothing = Judged("", None, None, unjudged="it has not been judged yet")
            tally.add(trajectory, nothing, is_new=False)
        else:
            judged = rewarded_again(trajectory, trajectory.judged[-1], profile)
            names.add(judged.judge)
            if judged.label is not None:
                await work.keep(trajectory, judged)
            tally.add(trajectory, judged, is_new=False)
        done()
        await anyio.lowlevel.checkpoint()
    await work.log.flush()
    return msgspec.structs.replace(tally.summary(), judge=", ".join(sorted(names)))


def latest(trajectory: Trajectory, name: str) -> Judged | None:
    """The latest verdict of the judge of this name; None: it has given none."""
    return next((judged for judged in trajectory.judged if judged.judge == name), None)


def _says_again(judged: Judged, last: Judged) -> bool:
    """Whether both say that there is no verdict, and why, in the same words."""
    return judged.label is None and last.label is None and judged.unjudged == last.unjudged


def is_wanted(trajectory: Trajectory, name: str, only: Only) -> bool:
    """Whether the judge of this name shall judge the episode. Disagreements are those of any
    judge, so that another one can be asked about them."""
    if only == "unjudged":
        last = latest(trajectory, name)
        return last is None or last.label is None
    return only == "all" or any(map(is_disagreement, trajectory.judged))
