"""Asking a run's publisher for what is not among its records: run.toml, scenarios of the log."""

import secrets

import anyio

from rehearsal_room.harness.bus.mqtt_client import BrokerConnection, Client
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.bus.mqtt_wire import (
    UNREADABLE,
    PartRequest,
    RunStatus,
    decode_part,
    encode,
    topic,
)
from rehearsal_room.harness.core.errors import BusError

_NUM_REQUESTS = 5


async def part_of(settings: MqttSettings, status: RunStatus, part: str) -> bytes:
    """A part of the run with this status (see mqtt_wire.PartRequest).

    Raises BusError where its publisher does not answer, or does not have the part.
    """
    name = f"rehearse-{secrets.token_hex(8)}"
    broker = broker_of(settings)
    connection = BrokerConnection(broker, settings, name, ahead=settings.in_flight)
    request = encode(PartRequest(status.log, part))
    found: bytes | None = None
    is_answered = False

    async def ask(client: Client) -> None:
        for attempt in range(_NUM_REQUESTS):
            await client.send(topic(status.run, "catchup", name, "ask"), request)
            await anyio.sleep(settings.answer_s * 2.0**attempt)

    async def listen(client: Client) -> None:
        nonlocal found, is_answered
        async for message in client.messages:
            client.ack(message)
            try:
                answer = decode_part(message.payload)
            except UNREADABLE:
                continue
            if (answer.log, answer.part) == (status.log, part):
                found, is_answered = answer.data, True
                return

    async def work(client: Client) -> None:
        await client.subscribe_to([topic(status.run, "catchup", name, "part")])
        connection.is_established = True  # from here on it is repeated when the connection is lost
        async with anyio.create_task_group() as tasks:

            async def stop_when_found() -> None:
                await listen(client)
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop_when_found)
            await ask(client)
            tasks.cancel_scope.cancel()

    await connection.run(work)
    if not is_answered:
        raise BusError(
            f"the process that plays run {status.run!r} does not answer on {broker}: it has ended,"
            " or its version cannot be copied from"
        )
    if found is None:
        raise BusError(f"run {status.run!r} on {broker} has no part {part!r}")
    return found
