"""The judge of a run whose verdicts come from another process, `rehearse judge --follow`.

To the session it is a judge like any other (harness.rollout.session.Judge): it gives each episode
that ended one verdict. It takes them from the folder `judge` of the run, where a judge on the same
file system writes them, and from the broker, if the run is published. A judge may start late, stop
and come back; the run plays on meanwhile, and ends when every episode has its verdict.

The first verdict on an attempt counts. Others, and those that the run's log has already, are passed
over: a judge offers all of its verdicts whenever run or judge start again.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import structlog

from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.bus.log_follower import LogFollower
from rehearsal_room.harness.bus.mqtt_bus import MqttBus
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import EpisodeEnded, EventKind, Judged, Record
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.following.signed_verdicts import (
    VARIABLE,
    VerdictSeal,
    key_file,
    verdict_key,
)
from rehearsal_room.harness.following.verdict_log import (
    FOLDER,
    AttemptKey,
    verdicts_in,
    verdicts_topic,
)
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.settings.run import log_id_of

_LOOK_S = 0.2  # between two looks for the log of verdicts
_RETRY_S = 1.0  # until a log of verdicts that could not be read is read again
_VERDICTS: tuple[EventKind, ...] = ("judged",)
_PATIENCE_S = 10.0  # without a verdict while episodes wait, after which the user is reminded

_log = structlog.get_logger(__name__)


class ExternalJudge:
    """Gives the verdicts that `take` has got. A Judge of a session."""

    def __init__(self, folder: Path, known: set[AttemptKey]) -> None:
        """`known`: the attempts on which the log of the run in `folder` has a verdict."""
        self._folder = folder
        self._known = known  # they need no verdict any more
        self._waiting: set[AttemptKey] = set()  # ended, and without a verdict
        self._num_asked = 0  # episodes of an earlier session that wait, too
        self._taken: dict[AttemptKey, Judged] = {}  # for attempts that do not wait yet
        self._reminded_at = -math.inf  # on anyio's clock
        self._arrived = anyio.Event()  # replaced when verdicts were taken

    def __repr__(self) -> str:
        return f"<ExternalJudge [{len(self._waiting)} waiting, {len(self._taken)} taken]>"

    def take(self, records: Sequence[Record]) -> None:
        """Take verdicts that a judge offers."""
        for record in records:
            key = (record.episode, record.attempt)
            if isinstance(record.event, Judged) and key not in self._known:
                self._taken.setdefault(key, record.event)
        arrived, self._arrived = self._arrived, anyio.Event()
        arrived.set()

    async def serve(
        self, subscription: Subscription, record: Callable[[str, int, Judged], Awaitable[None]]
    ) -> None:
        """Give each episode that ends its verdict, until the bus is closed."""
        async with OwnedTasks() as tasks:
            tasks.start_soon(self._record_taken, record)
            while True:
                try:
                    records = await subscription.receive()
                except anyio.EndOfStream:
                    return
                ended = [
                    (one.episode, one.attempt)
                    for one in records
                    if isinstance(one.event, EpisodeEnded)
                ]
                self._waiting.update(ended)
                if any(key in self._taken for key in ended):
                    self.take(())

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that ended before the run was resumed, once there is one."""
        key = (trajectory.episode, trajectory.attempt)
        self._num_asked += 1
        try:
            while key not in self._taken:
                await self._wait(self._arrived)
        finally:
            self._num_asked -= 1
        self._known.add(key)
        return self._taken.pop(key)

    async def _record_taken(self, record: Callable[[str, int, Judged], Awaitable[None]]) -> None:
        while True:
            arrived = self._arrived  # before they are looked through: more may come meanwhile
            for key in [key for key in self._taken if key in self._waiting]:
                self._waiting.discard(key)
                self._known.add(key)
                await record(*key, self._taken.pop(key))
            await self._wait(arrived)

    async def _wait(self, arrived: anyio.Event) -> None:
        """Wait for verdicts."""
        with anyio.move_on_after(_PATIENCE_S) as patience:
            await arrived.wait()
        num_waiting = len(self._waiting) + self._num_asked
        if patience.cancelled_caught and num_waiting and self._remind():
            _log.warning(
                "waiting_for_verdicts",
                episodes=num_waiting,
                start=f"rehearse judge {self._folder} --follow",
            )

    def _remind(self) -> bool:
        """Whether the user was not reminded a moment ago, by another task that waits."""
        now = anyio.current_time()
        is_due = now - self._reminded_at >= _PATIENCE_S
        if is_due:
            self._reminded_at = now
        return is_due


Near = Callable[[MqttSettings], AbstractAsyncContextManager[MqttSettings]]


class OpenExternalJudge(msgspec.Struct, frozen=True):
    """Opens the judge of a run, see `open_external_judge`."""

    bus: MqttSettings
    near: Near = nullcontext  # the way to the broker

    def __call__(self, *, folder: Path, **_: Any) -> AbstractAsyncContextManager[ExternalJudge]:
        """The judge of the run in `folder`."""
        return open_external_judge(self.bus, folder=folder, near=self.near)

    def through(self, near: Near) -> "OpenExternalJudge":
        """The same on another way to the broker."""
        return msgspec.structs.replace(self, near=near)


@asynccontextmanager
async def open_external_judge(
    bus: MqttSettings, *, folder: Path, near: Near = nullcontext
) -> AsyncIterator[ExternalJudge]:
    """The judge of the run in `folder`, which takes verdicts until the block is left; with a `bus`
    (its URL is not empty) from there, too, on the way that `near` opens, if they have the seal of
    the key (see signed_verdicts). Raises LogError, SettingsError and BusError."""
    known = {(record.episode, record.attempt) for record in verdicts_in(folder)}
    judge = ExternalJudge(folder, known)
    log = log_id_of(folder / "run.toml") if bus.url else ""
    seal = VerdictSeal(verdict_key(), log) if bus.url else None
    async with OwnedTasks() as tasks:
        tasks.start_soon(_take_from_folder, judge, folder / FOLDER)
        if seal is None:
            yield judge
            return
        name = verdicts_topic(folder.name, log)
        async with (
            near(bus) as way,
            MqttBus(way, name) as client,
            client.subscribe(kinds=_VERDICTS) as offers,
        ):
            tasks.start_soon(_take_from_broker, judge, offers, seal)
            yield judge


async def _take_from_broker(judge: ExternalJudge, offers: Subscription, seal: VerdictSeal) -> None:
    """Take the verdicts of a judge who has the key; others are passed over, with a warning now and
    then."""
    warned_at = -math.inf
    with suppress(anyio.EndOfStream):  # the run has left the subscription
        while True:
            offered = await offers.receive()
            genuine = [record for record in offered if seal.is_genuine(record)]
            judge.take(genuine)
            if len(genuine) < len(offered) and anyio.current_time() - warned_at >= _PATIENCE_S:
                warned_at = anyio.current_time()
                _log.warning(
                    "verdicts_refused",
                    why="they are not sealed with this run's key",
                    key=f"give the judge {key_file()}, and name it there with {VARIABLE}",
                )


async def _take_from_folder(judge: ExternalJudge, folder: Path) -> None:
    """Take the verdicts that a judge writes into a folder; it may come, go and come back."""
    while True:
        while not (folder / LOG_NAME).is_file():  # noqa: ASYNC110  # another process makes it
            await anyio.sleep(_LOOK_S)
        try:
            with open_reader(folder) as reader:
                follower = LogFollower(folder, reader)
                while True:
                    try:
                        judge.take(await follower.receive())
                    except anyio.EndOfStream:  # the judge has stopped, and may come back
                        await anyio.sleep(_LOOK_S)
        except LogError as exc:
            _log.warning("verdicts_cannot_be_read", why=str(exc))
            await anyio.sleep(_RETRY_S)
