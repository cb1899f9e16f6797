"""Publishing a log on a broker: the log of a run, and that of a judge in a process of its own."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from hashlib import blake2b
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.core.events import Record, encode
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.settings.run import log_id_of

Near = Callable[[MqttSettings], AbstractAsyncContextManager[MqttSettings]]


class PublishedLog(msgspec.Struct, frozen=True):
    """Opens the link which publishes the log of a folder, from a position of the log on."""

    bus: MqttSettings
    folder: Path
    name: str  # on the broker
    log: str  # the id of the log
    about: dict[str, Any]  # further arguments of the link
    near: Near = nullcontext  # the way to the broker

    def __call__(self, position: int) -> AbstractAsyncContextManager[MqttLink]:
        """The link. Raises BusError when it is entered."""
        return self._open(position)

    def through(self, near: Near) -> "PublishedLog":
        """The same on another way to the broker."""
        return msgspec.structs.replace(self, near=near)

    @asynccontextmanager
    async def _open(self, position: int) -> AsyncIterator[MqttLink]:
        with open_reader(self.folder) as reader:
            counts = reader.counts()
        async with self.near(self.bus) as way:
            link = MqttLink(
                way,
                self.name,
                log=self.log,
                read_log=self._read_log,
                position=position,
                counts=counts,
                **self.about,
            )
            async with link:
                yield link

    async def _read_log(self, after: int) -> Sequence[tuple[int, Record]]:
        return await anyio.to_thread.run_sync(_records_after, self.folder, after)


def published_run(bus: MqttSettings, folder: Path, *, episodes: int, judge: str) -> PublishedLog:
    """The log of a run of so many planned episodes; `judge` is the setting of that name. Raises
    SettingsError."""

    async def read_part(part: str) -> bytes | None:
        return await anyio.to_thread.run_sync(_part_of, folder, part)

    about = {
        "episodes": episodes,
        "judge": judge,
        "digest": blake2b((folder / "run.toml").read_bytes(), digest_size=8).hexdigest(),
        "read_part": read_part,
    }
    return PublishedLog(bus, folder, folder.name, log_id_of(folder / "run.toml"), about)


def published_verdicts(bus: MqttSettings, folder: Path, name: str, log_id: str) -> PublishedLog:
    """A judge's log in `folder`, under the name `verdicts_topic`."""
    return PublishedLog(bus, folder, name, log_id, {"owner": False})


def _records_after(folder: Path, after: int) -> Sequence[tuple[int, Record]]:
    with open_reader(folder) as reader:
        return reader.records_after(after)


def _part_of(folder: Path, part: str) -> bytes | None:
    """A part of a run (see harness.bus.mqtt_wire.PartRequest); None: it has no such part."""
    if part == "run.toml":
        return (folder / part).read_bytes()
    with open_reader(folder) as reader:
        snapshot = reader.scenarios().get(part)
    return None if snapshot is None else encode(snapshot)
