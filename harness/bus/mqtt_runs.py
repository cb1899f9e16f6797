"""The runs that are announced on a broker."""

import secrets

import structlog

from rehearsal_room.harness.bus.mqtt_client import BrokerConnection, Client
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.bus.mqtt_wire import ROOT, UNREADABLE, RunStatus, decode_status
from rehearsal_room.harness.core.errors import BusError

_log = structlog.get_logger(__name__)


async def runs_on(settings: MqttSettings) -> list[RunStatus]:
    """The runs that are announced on a broker, the latest first.

    Raises BusError and SettingsError.
    """
    name = f"rehearse-{secrets.token_hex(8)}"
    probe = f"{ROOT}/_probe/{name}"
    found: dict[str, RunStatus] = {}

    async def work(client: Client) -> None:
        # The broker sends retained messages when the client subscribes, so before its own probe.
        await client.subscribe_to([f"{ROOT}/+/status", probe])
        await client.send(probe, b"probe")
        async for message in client.messages:
            client.ack(message)
            if message.topic.value == probe:
                return
            try:
                status = decode_status(message.payload)
                found[status.run] = status
            except UNREADABLE:
                _log.warning("mqtt_unreadable_status", topic=message.topic.value)

    await BrokerConnection(broker_of(settings), settings, name, ahead=settings.in_flight).run(work)
    return sorted(found.values(), key=lambda status: -status.at)


async def status_of(settings: MqttSettings, run: str | None = None) -> RunStatus:
    """The run of this name, or the only live run. Raises BusError where there is none, or
    where several runs are live."""
    runs = await runs_on(settings)
    broker = broker_of(settings)
    if run is not None:
        for status in runs:
            if status.run == run:
                return status
    live = [status for status in runs if status.state == "live"]
    if run is None and len(live) == 1:
        return live[0]
    names = ", ".join(f"{status.run} ({status.state})" for status in runs) or "none"
    if run is not None:
        raise BusError(f"there is no run {run!r} on {broker}; its runs: {names}")
    raise BusError(
        f"{len(live)} runs are live on {broker} (expected one, or the name of a run);"
        f" its runs: {names}"
    )
