"""What `rehearse judge RUN --follow` does: judge a run while another process plays it."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import msgspec
import structlog

from rehearsal_room.cli.core.interruption import resumed_run
from rehearsal_room.cli.core.judge_options import open_run_judge, settings_of
from rehearsal_room.harness.bus.log_follower import LogFollower
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.following.published import published_verdicts
from rehearsal_room.harness.following.signed_verdicts import VerdictSeal, verdict_key
from rehearsal_room.harness.following.verdict_log import judged_by, verdicts_topic
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.writer import has_writer
from rehearsal_room.harness.logged_runs.logged_run import is_complete
from rehearsal_room.harness.settings.judge import JudgeSettings, save_judge
from rehearsal_room.harness.setup.run_trust import marked
from rehearsal_room.judge.core.live_judging import EpisodeJudge
from rehearsal_room.judge.llm.llm_judge import LLMJudge
from rehearsal_room.judge.llm.released import ReleasedJudge
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.judge.verdicts.follow import (
    VerdictLog,
    append_missing,
    hand_off_of,
    judge_as_it_runs,
    open_verdict_log,
)
from rehearsal_room.judge.verdicts.planted_errors import PlantedErrors
from rehearsal_room.judge.verdicts.summary import JudgingSummary, VerdictTally

_LOOK_S = 0.1  # between two looks at a log without records
_WAIT_S = 0.5  # between two looks at a log that has no writer, and is not complete
_log = structlog.get_logger(__name__)


async def follow_run(folder: Path, flags: Mapping[str, object]) -> JudgingSummary:
    """Judge the run in this folder until it has ended and each of its episodes has a verdict. A run
    that was interrupted is waited for.

    Verdicts that the run did not take itself are appended to its log when it has ended. Raises
    JudgeError, HarnessError, and what opening the judge raises.
    """
    async with AsyncExitStack() as stack:
        following = await _open(stack, folder, flags)
        looked_at = -1  # the position up to which the log was looked at
        while True:
            await following.run()
            if following.source.position != looked_at and await following.append():
                if is_complete(folder, following.reader):
                    return following.summary()
                looked_at = following.source.position
                _log.warning(
                    "run_interrupted", run=str(folder), resume=resumed_run(folder), waits=True
                )
            await anyio.sleep(_WAIT_S)


async def follow_published(
    run: str, bus: str, folder: Path, flags: Mapping[str, object]
) -> JudgingSummary:
    """Judge the run of this name on a broker until it has ended. A copy of the run and the verdicts
    are in `folder`; the run takes the verdicts from the broker,
    if this judge has its key.

    Raises BusError also for a run that takes no verdicts, and for one that ended without all.
    """
    settings = MqttSettings(url=bus)
    # Imported here: aiomqtt takes long to import.
    from rehearsal_room.harness.bus.mqtt_runs import status_of
    from rehearsal_room.harness.following.run_copy import open_copy

    status = await status_of(settings, run)
    async with AsyncExitStack() as stack:
        if status.judge != "elsewhere":
            raise BusError(
                f"run {run!r} takes no verdicts from the broker (its judge is {status.judge!r}):"
                " play it with --judge elsewhere, or judge it in its own folder"
            )
        seal = VerdictSeal(verdict_key(), status.log)
        await stack.enter_async_context(open_copy(settings, status, folder))
        following = await _open(stack, folder, flags, seal)
        await _publish(stack, settings, verdicts_topic(run, status.log), following.verdicts)
        await following.run()
        left = hand_off_of(following.reader, following.verdicts.folder, following.judge.name)
        if left.missing:
            raise BusError(
                f"run {run!r} has ended without {plural(len(left.missing), 'verdict')}, which"
                f" {folder} has: resume the run, and start this command again"
            )
        return following.summary()


class _Following(msgspec.Struct, frozen=True):
    """One judge, and the run that it follows."""

    folder: Path
    settings: JudgeSettings
    reader: LogReader
    source: LogFollower
    judge: ScenarioJudges | PlantedErrors | LLMJudge | ReleasedJudge
    verdicts: VerdictLog
    known: set[tuple[str, int]]  # attempts that have their verdict

    async def run(self) -> None:
        """Judge until nothing writes the run's log any more."""
        judge: EpisodeJudge = self.judge
        await judge_as_it_runs(
            self.source,
            judge,
            self.verdicts,
            self.known,
            concurrency=self.settings.concurrency,
            backlog=self.settings.backlog,
        )

    async def append(self) -> bool:
        """Append to the log of a run that has ended the verdicts that it did not take. False: it
        goes on. Raises LogError."""
        return await append_missing(self.folder, self.verdicts.folder, self.judge.name)

    def summary(self) -> JudgingSummary:
        """The summary of the judge's verdicts in the run's log; those that this process has given
        are new."""
        name = self.judge.name
        tally = VerdictTally(judge=name, rewards=self.settings.rewards)
        for trajectory in self.reader.trajectories():
            key = (trajectory.episode, trajectory.attempt)
            for judged in trajectory.judged:
                if judged.judge == name:
                    tally.add(trajectory, judged, is_new=key in self.verdicts.new)
        return tally.summary()


async def _open(
    stack: AsyncExitStack,
    folder: Path,
    flags: Mapping[str, object],
    seal: VerdictSeal | None = None,
) -> _Following:
    """Open a judge of the run in this folder, or of its copy there, until the stack is closed. With
    a `seal` its verdicts can go over a broker."""
    reader = stack.enter_context(open_reader(folder))
    settings = settings_of(folder, dict(flags))
    verdicts = await stack.enter_async_context(open_verdict_log(folder, seal))
    while not reader.records_after(0, limit=1) and has_writer(folder):  # noqa: ASYNC110
        await anyio.sleep(_LOOK_S)  # the scenarios are in the log before its first record
    save_judge(folder, settings, marked)
    opened = open_run_judge(folder, reader, settings, spent=verdicts.spent)
    judge = await stack.enter_async_context(opened)
    known = judged_by(reader, judge.name) | verdicts.judged_by(judge.name)
    source = LogFollower(folder, reader)
    return _Following(folder, settings, reader, source, judge, verdicts, known)


async def _publish(
    stack: AsyncExitStack, bus: MqttSettings, name: str, verdicts: VerdictLog
) -> None:
    """Publish verdicts on a broker until the stack is closed: those that the log has, and those
    that it gets. Raises BusError."""
    make_link = published_verdicts(bus, verdicts.folder, name, verdicts.log_id)
    link = await stack.enter_async_context(make_link(verdicts.log.durable))

    async def publish(batch: list[tuple[int, Record]]) -> None:
        link.put(batch)
        await link.wait_for_room()

    verdicts.log.on_commit(publish)
