"""The address of the MQTT broker and the credentials there. No repr, message or log line contains
the password.

The password can be in the URL, in the settings, or in REHEARSE_MQTT_PASSWORD. Messages about a bad
URL do not quote it: in `mqtt://ada:se/cret@host` a URL parser takes a part of the password for a
port, and would show it.
"""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Meta

from rehearsal_room.harness.core.errors import SettingsError

_SHAPE = (
    "mqtt://[user[:password]@]host[:port] or mqtts://…, with special characters of user and "
    "password written as %XX"
)
_PORTS = {"mqtt": 1883, "mqtts": 8883}
_HIDDEN = "***"


class BusSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a process connects to a broker, and how long it waits there: what a user can set.

    User and password are taken from the URL, else from these settings, else from the environment
    (REHEARSE_MQTT_USER, REHEARSE_MQTT_PASSWORD).
    """

    url: Annotated[
        str,
        Meta(
            description="URL of an MQTT broker on which the run is published: "
            "mqtt[s]://user@host:port.",
            extra={"metavar": "URL", "default": "this process only", "secret": True},
        ),
    ] = ""
    user: Annotated[str, Meta(description="User name at the broker.")] = ""
    password: Annotated[
        str,
        Meta(
            description="Password at the broker; the environment variable REHEARSE_MQTT_PASSWORD "
            "is safer.",
            extra={"secret": True},
        ),
    ] = ""
    ca_file: Annotated[
        str,
        Meta(
            description="PEM file of the authority that signed the broker's certificate; empty: "
            "those of the system."
        ),
    ] = ""
    cert_file: Annotated[str, Meta(description="PEM file of this client's certificate.")] = ""
    key_file: Annotated[
        str, Meta(description="PEM file of this client's key; empty: it is in cert_file.")
    ] = ""
    connect_s: Annotated[float, Meta(gt=0, description="Seconds for one attempt to connect.")] = 5.0
    keepalive_s: Annotated[
        int, Meta(ge=1, description="Seconds of silence after which the broker counts as lost.")
    ] = 20
    session_s: Annotated[
        int,
        Meta(
            ge=0,
            description="Seconds that the broker keeps messages for a follower that is away, and "
            "that the end of a run waits for a copy that is away.",
        ),
    ] = 60
    close_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Maximum seconds at the end of a run for sending the records that the "
            "broker lacks.",
        ),
    ] = 10.0
    linger_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Maximum seconds at the end of a run to wait for followers that are behind "
            "and request nothing.",
        ),
    ] = 5.0

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        fields["url"] = _with_password(self.url, _HIDDEN)
        fields["password"] = _HIDDEN if self.password else ""
        return list(fields.items())

    def public(self) -> Self:
        """The settings without the password: they can be stored, and read again where the
        password comes from the environment."""
        return msgspec.structs.replace(self, url=_with_password(self.url, ""), password="")


class MqttSettings(BusSettings, frozen=True, kw_only=True):
    """What the modules of the bus work with: the settings, and limits that no user sets."""

    url: str = "mqtt://localhost"
    max_backoff_s: float = 10.0  # between two attempts to connect again
    in_flight: int = 16  # sent messages that the broker has not acknowledged
    ahead: int = 1  # messages that a follower has received and not acknowledged
    batch: int = 256  # records in one message
    gather_s: float = 0.02  # that a record waits for others to share a message
    outbox: int = 4096  # records that wait for the broker; above it, publishers wait
    status_s: float = 1.0  # between two messages about the run's progress
    answer_s: float = 1.0  # until a request for missing records is repeated, doubled each time


def mqtt_settings(bus: BusSettings) -> MqttSettings:
    """What the modules of the bus work with where a user has set this."""
    return MqttSettings(**msgspec.structs.asdict(bus))


class Secret:
    """A text that its repr does not show."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text; only the code that connects needs it."""
        return self._text

    def __repr__(self) -> str:
        return _HIDDEN


class Broker(msgspec.Struct, frozen=True):
    """A broker's address, with the credentials for it."""

    host: str
    port: int
    tls: ssl.SSLContext | None  # None: without encryption
    user: str | None
    password: Secret | None

    def __str__(self) -> str:
        scheme = "mqtt" if self.tls is None else "mqtts"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"


def broker_of(settings: BusSettings, *, environ: Mapping[str, str] = os.environ) -> Broker:
    """The broker that the settings name. Reads certificates. Raises SettingsError."""
    try:
        url = urlsplit(settings.url)
        host, port = url.hostname, url.port
    except ValueError:
        host, port, url = None, None, urlsplit("")
    if url.scheme not in _PORTS or not host or url.path.strip("/") or url.query or url.fragment:
        raise SettingsError(f"bus: the broker's URL does not have the form {_SHAPE}") from None
    user = unquote(url.username or "") or settings.user or environ.get("REHEARSE_MQTT_USER", "")
    password = (
        unquote(url.password or "")
        or settings.password
        or environ.get("REHEARSE_MQTT_PASSWORD", "")
    )
    if password and not user:
        raise SettingsError("bus: there is a password for the broker, but no user name")
    return Broker(
        host,
        port or _PORTS[url.scheme],
        _tls(settings) if url.scheme == "mqtts" else None,
        user or None,
        Secret(password) if password else None,
    )


class _SelfClosingSocket(ssl.SSLSocket):
    """A socket that closes when its handshake fails; the MQTT library would leave it open."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


def _tls(settings: BusSettings) -> ssl.SSLContext:
    for field in ("ca_file", "cert_file", "key_file"):
        path = getattr(settings, field)
        if path and not Path(path).is_file():
            raise SettingsError(f"bus: {field}: there is no file {path}")
    if settings.key_file and not settings.cert_file:
        raise SettingsError("bus: key_file: set without cert_file")
    try:
        context = ssl.create_default_context(cafile=settings.ca_file or None)
    except (OSError, ssl.SSLError) as exc:
        raise SettingsError(f"bus: ca_file: {settings.ca_file} cannot be used: {exc}") from exc
    context.sslsocket_class = _SelfClosingSocket
    if settings.cert_file:
        try:
            # A key with a passphrase is refused; OpenSSL would ask for it on the terminal.
            context.load_cert_chain(settings.cert_file, settings.key_file or None, lambda: "")
        except (OSError, ssl.SSLError) as exc:
            raise SettingsError(
                f"bus: cert_file: {settings.cert_file} cannot be used with its key: {exc}"
            ) from exc
    return context


def _with_password(url: str, password: str) -> str:
    """The URL with another password, if it has one; an empty password removes it.

    Example: mqtt://ada:secret@host:1883 -> mqtt://ada:***@host:1883 or mqtt://ada@host:1883
    """
    scheme, separator, rest = url.partition("://")
    credentials, at, address = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if not colon:
        return url
    return f"{scheme}{separator}{user}{password and ':' + password}{at}{address}"
