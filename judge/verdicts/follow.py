"""Judging a run while it is played, in a process of its own.

The judge reads the run's log, or a copy of it, from its beginning, judges each episode that has
ended, and writes the verdicts into a log of its own (harness.following.verdict_log). So it may
start late, be killed and come back: what is in its log is not judged again.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import msgspec

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, Judged, Record
from rehearsal_room.harness.following.signed_verdicts import VerdictSeal
from rehearsal_room.harness.following.verdict_log import FOLDER, AttemptKey, judged_by, verdicts_in
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.log.schema import spent_on, write_atomically
from rehearsal_room.harness.log.writer import LogWriter, has_writer, open_log
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.live_judging import EpisodeJudge, serve
from rehearsal_room.scenarios.files import own_fault

_LOG_ID = "log_id"  # a file in the folder of the verdicts


class VerdictLog:
    """The verdicts on one run of a judge in a process of its own. `open_verdict_log` makes it.

    `log_id` is the name under which the log is followed over a broker.
    """

    def __init__(self, folder: Path, log: LogWriter, seal: VerdictSeal | None) -> None:
        self.folder = folder
        self._seal = seal
        self.log_id = _log_id_of(folder)
        self.log = log
        self.new: set[AttemptKey] = set()  # attempts that this process has judged
        self.spent = 0.0  # on all verdicts, in USD
        self._recorder = Recorder(log)
        self._num_verdicts: Counter[AttemptKey] = Counter()  # of all judges, by attempt
        for record in verdicts_in(folder):
            assert isinstance(record.event, Judged)
            self._num_verdicts[record.episode, record.attempt] += 1
            self.spent += spent_on(record.event).cost_usd or 0.0

    def judged_by(self, judge: str) -> set[AttemptKey]:
        """The attempts on which the log has a verdict of the judge with this name."""
        return {
            (record.episode, record.attempt)
            for record in verdicts_in(self.folder)
            if isinstance(record.event, Judged) and record.event.judge == judge
        }

    async def record(self, episode: str, attempt: int, judged: Judged) -> None:
        """Write a verdict; wait while there is no room."""
        self._recorder.open(episode, seq=self._num_verdicts[episode, attempt])
        if self._seal is not None:
            judged = self._seal.sealed(episode, attempt, judged)
        self._recorder.stamp(episode, attempt, judged)
        self._recorder.close(episode)
        self._num_verdicts[episode, attempt] += 1
        self.new.add((episode, attempt))
        await self.log.wait_for_room()


def _log_id_of(folder: Path) -> str:
    """The id of a judge's log, which is chosen when the log is made. Raises LogError."""
    path = folder / _LOG_ID
    if fault := own_fault(path):
        raise LogError(f"{path}: {fault}")
    try:
        if not path.is_file():
            write_atomically(path, token_hex(8).encode())
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as exc:
        raise LogError(f"{path}: cannot be used: {exc}") from exc


@asynccontextmanager
async def open_verdict_log(run: Path, seal: VerdictSeal | None = None) -> AsyncIterator[VerdictLog]:
    """The log of the verdicts on the run in this folder, or on its copy there; `seal` is for
    verdicts that go over a broker.

    Raises JudgeError where another process writes it, and LogError.
    """
    folder = run / FOLDER
    if has_writer(folder):
        raise JudgeError(f"{run}: another process follows and judges this run already")
    async with open_log(folder, resume=True) as log:
        yield VerdictLog(folder, log, seal)


async def judge_as_it_runs(
    source: Subscription,
    judge: EpisodeJudge,
    verdicts: VerdictLog,
    known: set[AttemptKey],
    *,
    concurrency: int,
    backlog: int,
) -> None:
    """Judge every episode that ends in the records of `source`, until they end. `known`: the
    attempts that have their verdict; this process's own are added."""

    async def record(episode: str, attempt: int, judged: Judged) -> None:
        known.add((episode, attempt))
        await verdicts.record(episode, attempt, judged)

    unjudged = _ToBeJudged(source, frozenset(known))
    await serve(unjudged, judge, record, concurrency=concurrency, backlog=backlog)
    await verdicts.log.flush()


class _ToBeJudged:
    """A subscription without the records of attempts that have their verdict, and without the ends
    of interrupted ones: a resumed run plays these episodes again."""

    def __init__(self, source: Subscription, known: frozenset[AttemptKey]) -> None:
        self._source = source
        self._known = known

    async def receive(self) -> Sequence[Record]:
        records = await self._source.receive()
        return [
            one
            for one in records
            if (one.episode, one.attempt) not in self._known
            and not (isinstance(one.event, EpisodeEnded) and one.event.ending is Ending.CANCELLED)
        ]


class HandOff(msgspec.Struct, frozen=True):
    """Which verdicts of a judge the run's log has."""

    missing: list[Record]  # verdicts on its episodes that it has not
    num_elsewhere: int  # verdicts on episodes that the run's log has not, or has played again


def hand_off_of(reader: LogReader, verdicts: Path, judge: str) -> HandOff:
    """Compare the log of a run with the verdicts in this folder, of the judge with this name."""
    taken = judged_by(reader, judge)
    latest = {row.episode: row.attempt for row in reader.episodes() if row.ending is not None}
    missing, num_elsewhere = [], 0
    for record in verdicts_in(verdicts):
        key = (record.episode, record.attempt)
        if not isinstance(record.event, Judged) or record.event.judge != judge or key in taken:
            continue
        if latest.get(record.episode) == record.attempt:
            missing.append(record)
        else:
            num_elsewhere += 1
    return HandOff(missing, num_elsewhere)


async def append_missing(run: Path, verdicts: Path, judge: str) -> bool:
    """Append to the log of a run that has ended the verdicts that it has not. False: a process
    writes the log again. Raises LogError."""
    with open_reader(run) as reader:
        if not hand_off_of(reader, verdicts, judge).missing:
            return True
    try:
        async with open_log(run, resume=True) as log:
            with open_reader(run) as reader:  # nothing else writes it now
                missing = hand_off_of(reader, verdicts, judge).missing
                progress = reader.progress()
            recorder = Recorder(log)
            for record in missing:
                recorder.open(record.episode, seq=progress[record.episode].next_seq)
                await recorder.record(record.episode, record.attempt, record.event)
                recorder.close(record.episode)
            await log.flush()
    except LogError:
        if has_writer(run):
            return False
        raise
    return True
