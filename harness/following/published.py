"""Publishing a log on a broker: the log of a run, and that of a judge in a process of its own."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio.to_thread

from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.core.events import Record, encode
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.settings.run import log_id_of

MakeLink = Callable[[int], Any]  # makes the MqttLink of a log that is at this position


def published_run(bus: MqttSettings, folder: Path, *, episodes: int, judge: str) -> MakeLink:
    """A function that makes the link which publishes a run's log, for so many planned episodes;
    `judge` is the setting of that name. Raises SettingsError."""

    async def read_part(part: str) -> bytes | None:
        return await anyio.to_thread.run_sync(_part_of, folder, part)

    return _publishing(
        bus,
        folder,
        folder.name,
        log_id_of(folder / "run.toml"),
        episodes=episodes,
        judge=judge,
        digest=blake2b((folder / "run.toml").read_bytes(), digest_size=8).hexdigest(),
        read_part=read_part,
    )


def published_verdicts(bus: MqttSettings, folder: Path, name: str, log_id: str) -> MakeLink:
    """The same for a judge's log in `folder`, under the name `verdicts_topic`."""
    return _publishing(bus, folder, name, log_id, owner=False)


def _publishing(bus: MqttSettings, folder: Path, name: str, log_id: str, **about: Any) -> MakeLink:
    mqtt = import_module("rehearsal_room.harness.bus.mqtt_link")  # its library takes long to import

    def read(after: int) -> Sequence[tuple[int, Record]]:
        with open_reader(folder) as reader:
            return reader.records_after(after)

    async def read_log(after: int) -> Sequence[tuple[int, Record]]:
        return await anyio.to_thread.run_sync(read, after)

    def link(position: int) -> Any:
        with open_reader(folder) as reader:
            counts = reader.counts()
        return mqtt.MqttLink(
            bus, name, log=log_id, read_log=read_log, position=position, counts=counts, **about
        )

    return link


def _part_of(folder: Path, part: str) -> bytes | None:
    """A part of a run (see harness.bus.mqtt_wire.PartRequest); None: it has no such part."""
    if part == "run.toml":
        return (folder / part).read_bytes()
    with open_reader(folder) as reader:
        snapshot = reader.scenarios().get(part)
    return None if snapshot is None else encode(snapshot)
