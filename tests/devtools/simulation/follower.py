"""A run that is followed over MQTT, through the lives of its process: the real link and the real
follower on a broker in memory. The follower is on a machine of its own: what it has stays."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import get_args

import anyio

from rehearsal_room.harness.bus.mqtt_client import first_of
from rehearsal_room.harness.bus.mqtt_follower import Follower
from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.bus.mqtt_wire import Heads, Presence
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.core.events import EventKind, Record
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.rollout.running import Link
from tests.devtools.simulation.broker import SimulatedBroker
from tests.devtools.simulation.parts.choices import Choices
from tests.devtools.simulation.parts.simulated_process import SimulatedProcess

LOG = "log"
KINDS: Sequence[EventKind] = ("started", "step", "ended", "judged")
_SETTINGS = MqttSettings(batch=16, gather_s=0.005, ahead=1, linger_s=20.0, close_s=300.0)
_RUN = "run"
_DEPTH = 64
_PATIENCE_S = 300.0  # with a run that has ended
assert set(KINDS) <= set(get_args(EventKind))


class FollowedRun:
    """One run and its follower."""

    def __init__(self, choices: Choices) -> None:
        self.broker = SimulatedBroker(choices)
        self.records: list[Record] = []  # that the follower has, in the order in which they came
        self.is_late = False  # the run had ended, and the rest is in its folder only
        self._choices = choices
        self._have: tuple[str, Heads] | None = None
        self._num_followers = 0  # that there were, one after the other
        self._has_ended = False  # this life of the run

    def link(self, process: SimulatedProcess) -> Link:
        """What opens the link of this life's log."""

        async def read_log(after: int) -> Sequence[tuple[int, Record]]:
            await anyio.sleep(0.001)
            with process.log_copy() as folder, open_reader(folder) as reader:
                return reader.records_after(after)

        def open_link(position: int) -> MqttLink:
            return MqttLink(_SETTINGS, _RUN, log=LOG, read_log=read_log, position=position)

        return open_link

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """A block in which the follower follows; when it is left in order, it has everything."""
        self.broker.forget_clients()
        self._has_ended = self.is_late = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow)
            yield
            self._has_ended = True

    async def _follow(self) -> None:
        """Follow until this life has ended. One that comes when the broker still says that the run
        has ended, before it is resumed, has nothing to do and comes again; so does one that did not
        reach the broker. One that hears nothing of a run that has ended gives up: the broker has
        restarted since, and forgotten it."""
        await anyio.sleep(self._choices.amount("follower_begins", 8.0, rate=0.3))
        while True:
            has_ended, was_reached = self._has_ended, True
            try:
                with anyio.move_on_after(_PATIENCE_S if has_ended else None) as scope:
                    await self._follow_once()
                self.is_late = scope.cancelled_caught
            except* BusError as group:
                why = str(first_of(group))
                self.is_late = "no process serves its log any more" in why
                was_reached = "cannot be reached" not in why
                if was_reached and not self.is_late:
                    raise
            if self.is_late or (has_ended and was_reached):
                return
            await anyio.sleep(1.0)

    async def _follow_once(self) -> None:
        self._num_followers += 1
        follower = Follower(
            broker_of(_SETTINGS),
            _SETTINGS,
            _RUN,
            kinds=KINDS,
            depth=_DEPTH,
            have=self._have,
            presence=Presence("copy", self._num_followers),
        )
        async with anyio.create_task_group() as tasks:
            await tasks.start(follower.run)
            while True:
                try:
                    records = await follower.receive()
                except anyio.EndOfStream:
                    break
                self.records += records
                self._have = LOG, follower.have(LOG)
                await anyio.sleep(self._choices.amount("slow_follower", 2.0, rate=0.05))
            await follower.leave()
