"""Settings, passwords and TLS of the MQTT bus: secrets stay secret, refusals are sentences."""

import base64
import gc
import hashlib
import logging
import os
import subprocess
import traceback
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
import pytest
import structlog
from rich.pretty import pretty_repr

from rehearsal_room.harness.bus.mqtt_client import LIBRARY_LOG
from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_runs import runs_on
from rehearsal_room.harness.bus.mqtt_settings import BusSettings, MqttSettings, Secret, broker_of
from rehearsal_room.harness.core.errors import BusError, SettingsError
from rehearsal_room.harness.core.events import Record
from tests.support.broker import Mosquitto, free_port, running_broker
from tests.support.events import episode
from tests.support.mqtt_bus import PublishingBus
from tests.support.mqtt_runs import Log, by_episode, following, mixed, settings_for, take, until

PASSWORD = "p4ss w/rd@:%?"


def password_line(user: str, password: str) -> str:
    """A line of mosquitto's password file (PBKDF2 with SHA-512)."""
    salt = b"salt for test"[:12]
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return f"{user}:$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker that admits ada, with her password, and bob, who may only read."""
    passwords, rights = tmp_path / "passwords", tmp_path / "rights"
    passwords.write_text(password_line("ada", PASSWORD) + password_line("bob", "b"))
    rights.write_text("user ada\ntopic readwrite #\nuser bob\ntopic read rehearse/other/#\n")
    os.chmod(passwords, 0o600)
    os.chmod(rights, 0o600)
    lines = f"password_file {passwords}\nacl_file {rights}\nallow_anonymous false"
    with running_broker(tmp_path, lines) as running:
        yield running


async def test_user_and_password(guarded: Mosquitto, monkeypatch: pytest.MonkeyPatch) -> None:
    """User and password are taken from the URL, the settings or the environment."""
    escaped = guarded.url.replace("//", "//ada:p4ss%20w%2Frd%40%3A%25%3F@")
    await runs_on(settings_for(guarded, url=escaped))
    await runs_on(settings_for(guarded, user="ada", password=PASSWORD))
    monkeypatch.setenv("REHEARSE_MQTT_USER", "ada")
    monkeypatch.setenv("REHEARSE_MQTT_PASSWORD", PASSWORD)
    await runs_on(settings_for(guarded))


@pytest.mark.parametrize("credentials", [{}, {"user": "ada", "password": PASSWORD + "!"}])
async def test_a_refused_connection(guarded: Mosquitto, credentials: dict[str, str]) -> None:
    """The error for a refused connection is one sentence that names the broker and contains no
    password."""
    sentence = rf"the broker at mqtt://127.0.0.1:{guarded.port} refused the connection: .*Not auth"
    with pytest.raises(BusError, match=sentence) as caught:
        await runs_on(settings_for(guarded, **credentials))
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


async def test_a_refused_publication(guarded: Mosquitto) -> None:
    """A broker that accepts the connection and refuses a publication ends the publishing with a
    sentence."""
    settings = settings_for(guarded, user="bob", password="b")
    with pytest.raises(BusError, match="does not allow writing rehearse/r/status"):
        async with MqttLink(settings, "r", log="a", read_log=Log().read):
            pass


async def test_a_missing_broker() -> None:
    """Where no broker listens, entering fails with a sentence that names the address."""
    settings = MqttSettings(url=f"mqtt://127.0.0.1:{free_port()}")
    with pytest.raises(BusError, match=r"mqtt://127.0.0.1:\d+ cannot be reached: .*refused"):
        await runs_on(settings)
    with pytest.raises(BusError, match="cannot be reached"):
        async with MqttLink(settings, "r", log="a", read_log=Log().read):
            pass
    with pytest.raises(BusError, match="cannot be reached"):
        async with following(settings):
            pass


async def test_a_silent_broker_keeps_no_connection() -> None:
    """Where a server never answers, the connection to it is closed as soon as entering fails."""
    is_closed = anyio.Event()

    async def say_nothing(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            async for _ in stream:
                pass
            is_closed.set()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, say_nothing)
        with pytest.raises(BusError, match="cannot be reached: Operation timed out"):
            await runs_on(MqttSettings(url=f"mqtt://127.0.0.1:{port}", connect_s=0.2))
        with anyio.fail_after(5):
            await is_closed.wait()
        tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_broker_that_hangs_up(caplog: pytest.LogCaptureFixture) -> None:
    """A server that hangs up after its greeting gives a sentence, and leaves no unread error."""

    async def greet(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"\x20\x03\x00\x00\x00")  # connected
            await stream.receive()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, greet)
        with pytest.raises(BusError, match=f"mqtt://127.0.0.1:{port} cannot be reached"):
            await runs_on(MqttSettings(url=f"mqtt://127.0.0.1:{port}", connect_s=0.3))
        tasks.cancel_scope.cancel()
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_the_password_is_never_shown(
    guarded: Mosquitto, caplog: pytest.LogCaptureFixture
) -> None:
    """No repr, log line, message or stored setting contains the password, also when the broker dies
    and everything is logged."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger=LIBRARY_LOG.name)
    escaped = "p4ss%20w%2Frd%40%3A%25%3F"
    in_url = settings_for(guarded, url=guarded.url.replace("//", f"//ada:{escaped}@"), close_s=0.1)
    beside = settings_for(guarded, user="ada", password=PASSWORD)
    shown: list[object] = []
    with structlog.testing.capture_logs() as logs:
        link = MqttLink(in_url, "r", log="a", read_log=Log().read)
        async with link:
            guarded.kill()
            link.put([(1, episode("e", 0)[0])])
            await until(lambda: any(line["event"] == "mqtt_connection_lost" for line in logs))
            shown += [link, link.statistics(), vars(link)]
    assert any(line["event"] == "mqtt_closed_unsent" for line in logs)
    for settings in (in_url, beside):
        shown += [settings, broker_of(settings), str(broker_of(settings)), pretty_repr(settings)]
        shown += [msgspec.json.encode(settings.public()), f"{settings}", [settings]]
        shown += [PublishingBus(settings, "r"), Secret(PASSWORD)]
    text = "\n".join([caplog.text, *map(str, logs), *map(repr, shown)])
    assert "mqtt_connection_lost" in text
    assert "Sending CONNECT" in text
    assert PASSWORD not in text
    assert escaped not in text


@pytest.mark.parametrize(
    "url",
    [
        "http://broker",
        "broker:1883",
        "mqtt://",
        "mqtt://ada:se/cret@broker",
        "mqtt://ada:secret@broker:port",
        "mqtt://ada:secret@broker/topic",
        "mqtt://ada:secret@broker?x=1",
        "mqtt://ada:secret@broker#part",
        "mqtt://ada:secret@[::1",
    ],
)
def test_a_bad_url_is_not_quoted(url: str) -> None:
    """The error for a bad URL states the form and quotes nothing of the URL, because a part of the
    password may be anywhere in it."""
    expected = "the broker's URL does not have the form mqtt://"
    with pytest.raises(SettingsError, match=expected) as caught:
        broker_of(MqttSettings(url=url), environ={})
    assert "cret" not in "".join(traceback.format_exception(caught.value))
    assert "se/cret" not in repr(MqttSettings(url=url))


def test_public_settings_can_be_used_again() -> None:
    """Settings that were stored without their password take it from the environment."""
    settings = MqttSettings(url="mqtt://ada:secret@host", ahead=2)
    assert settings.public() == MqttSettings(url="mqtt://ada@host", ahead=2)
    assert MqttSettings(user="ada", password="secret").public() == MqttSettings(user="ada")
    assert "url='mqtt://ada:***@host'" in repr(settings)
    assert "password='***'" in repr(MqttSettings(password="secret"))
    again = broker_of(settings.public(), environ={"REHEARSE_MQTT_PASSWORD": "secret"})
    assert again.user == "ada"
    assert again.password is not None
    assert again.password.reveal() == "secret"


def test_settings_are_strict() -> None:
    """Unknown fields, impossible numbers, missing files and a password without a user are refused,
    each by its name."""
    with pytest.raises(msgspec.ValidationError, match="pasword"):
        msgspec.convert({"pasword": "x"}, BusSettings)
    with pytest.raises(msgspec.ValidationError, match=r">= 1 - at `\$.keepalive_s`"):
        msgspec.convert({"keepalive_s": 0}, BusSettings)
    with pytest.raises(SettingsError, match=r"ca_file: there is no file nowhere\.pem"):
        broker_of(MqttSettings(url="mqtts://broker", ca_file="nowhere.pem"), environ={})
    with pytest.raises(SettingsError, match="but no user name"):
        broker_of(MqttSettings(password="x"), environ={})


def test_the_address_of_the_broker() -> None:
    """Ports have defaults; IPv6 addresses and escaped characters are understood."""
    environ = {"REHEARSE_MQTT_USER": "eve", "REHEARSE_MQTT_PASSWORD": "e"}
    plain = broker_of(MqttSettings(url="mqtt://[::1]"), environ=environ)
    assert (str(plain), plain.user) == ("mqtt://[::1]:1883", "eve")
    named = broker_of(MqttSettings(url="mqtt://a%40b:c%2Fd@host:1999"), environ=environ)
    assert (str(named), named.user) == ("mqtt://host:1999", "a@b")
    assert named.password is not None
    assert named.password.reveal() == "c/d"
    secure = broker_of(MqttSettings(url="mqtts://host"), environ={})
    assert (str(secure), secure.user, secure.password) == ("mqtts://host:8883", None, None)


async def test_tls_with_certificates_on_both_sides(tmp_path: Path) -> None:
    """Over mqtts broker and client must each show a certificate of the authority; without the
    authority the connection is refused with a sentence."""
    make_certificates(tmp_path)
    lines = (
        f"cafile {tmp_path}/ca.pem\ncertfile {tmp_path}/broker.pem\nkeyfile {tmp_path}/broker.key\n"
        "require_certificate true\nallow_anonymous true"
    )
    with running_broker(tmp_path, lines) as running:
        settings = settings_for(
            running,
            url=f"mqtts://localhost:{running.port}",
            ca_file=f"{tmp_path}/ca.pem",
            cert_file=f"{tmp_path}/client.pem",
            key_file=f"{tmp_path}/client.key",
        )
        got: list[Record] = []
        facts = mixed(5, 40)
        async with (
            PublishingBus(settings, "r") as bus,
            bus.subscribe() as follower,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(take, follower, got)
            for record in facts:
                await bus.publish(record)
            await bus.close()
        assert by_episode(got) == by_episode(facts)
        without_authority = msgspec.structs.replace(settings, ca_file="")
        with pytest.raises(BusError, match=r"cannot be reached: .*certificate"):
            await runs_on(without_authority)


def make_certificates(folder: Path) -> None:
    """An authority, and certificates that it signed for a broker on localhost and for a client."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test authority")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("broker", "client"):
        openssl(*new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        sign = ("x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
        openssl(*sign, "-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", "names")
