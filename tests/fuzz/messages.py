"""Messages of a stranger who may write on the broker: genuine ones of a run and its followers,
changed at random."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

import aiomqtt
import msgspec
import tomli_w
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from rehearsal_room.harness.bus.mqtt_wire import START, UNREADABLE, topic
from rehearsal_room.harness.core.events import Judged, Label, Record
from tests.fuzz.strangers import HOSTILE_NAMES, Lair

_VALUES = (
    *(None, True, -1, 0, 2**31, 2**63 - 1, 0.5, float("inf"), "", "completed", "ended", "lost"),
    *(b"", b"\x00" * 40, [], {}, [[[[[[]]]]]], "x" * 50_000, "9" * 500, "\x1b[2J"),
)


class Message(NamedTuple):
    """One message on the broker."""

    topic: str
    payload: bytes
    mark: str | None = None


def received(message: aiomqtt.Message) -> Message:
    """A message as it was received."""
    pairs = dict(getattr(message.properties, "UserProperty", ()))
    assert isinstance(message.payload, bytes)
    return Message(message.topic.value, message.payload, pairs.get("mark"))


def properties_of(message: Message) -> Properties:
    """Those with which it is published."""
    properties = Properties(PacketTypes.PUBLISH)
    if message.mark is not None:
        properties.UserProperty = ("mark", message.mark)
    return properties


def changed_message(genuine: list[Message], rng: Random) -> Message:
    """One of some messages, with another topic, mark, value or bytes."""
    one = rng.choice(genuine)
    kind = rng.random()
    if kind < 0.2:
        return one._replace(topic=rng.choice(genuine).topic)
    if kind < 0.3:
        levels = one.topic.split("/")
        at = rng.randrange(1, len(levels))
        levels[at] = rng.choice(("..", "%2E%2E%2Fx", "x", "%00", "_batch"))
        return one._replace(topic="/".join(levels))
    if kind < 0.4 and one.mark is not None:
        numbers = one.mark.split(" ")
        at = rng.randrange(len(numbers))
        numbers[at] = rng.choice(("-1", "0", str(2**63 - 1), "9" * 40, "x"))
        return one._replace(mark=" ".join(numbers))
    if kind < 0.6:
        return one._replace(payload=_bytes_changed(one.payload, rng))
    return one._replace(payload=_value_changed(one.payload, rng))


def forged_verdicts(
    run: str, log: str, attempts: list[tuple[str, int]], rng: Random
) -> Iterator[Message]:
    """Verdicts that each attempt at an episode is completed, as a judge without the key would send
    them."""
    for number, (episode, attempt) in enumerate(attempts, 1):
        mac = rng.choice(("", "0" * 64, f"{rng.getrandbits(256):064x}", "é"))
        judged = Judged("code", Label.COMPLETED, 1.0, reasoning="forged", mac=mac)
        record = Record(episode, attempt, 90 + number, 0.0, judged)
        data = msgspec.msgpack.encode(record)
        where = topic(f"{run}/judge/{log}", "judged", episode)
        heads = " ".join(map(str, START))
        yield Message(where, data, f"forged {number - 1} {number} {heads}")


def forged_part(asked: Message, lair: Lair, rng: Random) -> Message | None:
    """Settings that act, for a follower that asks for those of the run."""
    try:
        request = msgspec.msgpack.decode(asked.payload)
    except UNREADABLE:  # one of our own, which we receive, too
        return None
    if not isinstance(request, dict) or request.get("part") != "run.toml":
        return None
    text = tomli_w.dumps({"environment": {"log_id": str(request["log"])}, **lair.settings(rng)})
    part = {**request, "data": text.encode()}
    return Message(asked.topic.removesuffix("ask") + "part", msgspec.msgpack.encode(part))


def _bytes_changed(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not changed:
            break
        at = rng.randrange(len(changed))
        match rng.randrange(3):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                del changed[at : at + rng.randint(1, 40)]
            case _:
                changed[at:at] = rng.randbytes(rng.randint(1, 40))
    return bytes(changed)


def _value_changed(data: bytes, rng: Random) -> bytes:
    try:
        value = msgspec.msgpack.decode(data)
    except UNREADABLE:
        return _bytes_changed(data, rng)
    return msgspec.msgpack.encode(_replaced(value, rng))


def _replaced(value: Any, rng: Random) -> Any:
    """The value with one part of it replaced."""
    if isinstance(value, Mapping) and value and rng.random() < 0.95:
        key = rng.choice(list(value))
        return {**value, key: _replaced(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.95:
        at = rng.randrange(len(value))
        return [*value[:at], _replaced(value[at], rng), *value[at + 1 :]]
    return rng.choice((*_VALUES, *HOSTILE_NAMES))
