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
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from harness.core.errors import SettingsError

_SHAPE = (
    "mqtt://[user[:password]@]host[:port] or mqtts://…, with special characters of user and "
    "password written as %XX"
)
_PORTS = {"mqtt": 1883, "mqtts": 8883}
_HIDDEN = "***"


class MqttSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a process connects to a broker, and the limits of what it sends and receives there.

    User and password are taken from the URL, else from these settings, else from the environment
    (REHEARSE_MQTT_USER, REHEARSE_MQTT_PASSWORD).
    """

    url: str = "mqtt://localhost"  # mqtt:// or, with TLS, mqtts://
    user: str = ""  # empty: none
    password: str = ""  # empty: none
    ca_file: str = ""  # PEM of the authority of the broker's certificate; empty: the system's
    cert_file: str = ""  # PEM of the client's certificate; empty: none
    key_file: str = ""  # PEM of the client's key; empty: it is in cert_file
    connect_s: float = 5.0  # timeout of one attempt to connect
    keepalive_s: int = 20  # a broker that is silent for longer counts as lost
    max_backoff_s: float = 10.0  # longest wait between two attempts to reconnect
    in_flight: int = 16  # maximum of sent messages that the broker has not acknowledged
    ahead: int = 1  # maximum of messages that a follower has received and not acknowledged
    batch: int = 256  # maximum of records in one message
    gather_s: float = 0.02  # longest wait of records for others to share their message
    outbox: int = 4096  # records that wait for the broker before publishers wait
    session_s: int = 60  # how long the broker stores messages for a follower that is disconnected
    status_s: float = 1.0  # interval of the messages about the run's state
    answer_s: float = 1.0  # until a request for missing records is repeated; then twice as long
    close_s: float = 10.0  # longest time to send the rest of the outbox at the end
    linger_s: float = 5.0  # wait at the end for followers that are behind and do not ask

    def __post_init__(self) -> None:
        for field in ("in_flight", "ahead", "batch", "outbox", "keepalive_s"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, not {getattr(self, field)}")
        for field in ("connect_s", "max_backoff_s", "status_s", "answer_s"):
            if not getattr(self, field) > 0:
                raise ValueError(f"{field} must be more than 0, not {getattr(self, field)}")
        for field in ("gather_s", "session_s", "close_s", "linger_s"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"{field} must be at least 0, not {getattr(self, field)}")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"MqttSettings({fields})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        fields["url"] = _with_password(self.url, _HIDDEN)
        fields["password"] = _HIDDEN if self.password else ""
        return list(fields.items())

    def public(self) -> "MqttSettings":
        """Return the settings without the password: they can be stored, and read again where the
        password comes from the environment."""
        return msgspec.structs.replace(self, url=_with_password(self.url, ""), password="")


class Secret:
    """A text that its repr does not show."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; only the code that connects needs it."""
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


def broker_of(settings: MqttSettings, *, environ: Mapping[str, str] = os.environ) -> Broker:
    """Return the broker that the settings name. Reads certificates. Raises SettingsError."""
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


def _tls(settings: MqttSettings) -> ssl.SSLContext:
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
    """Return the URL with another password, if it has one; an empty password removes it.

    Example: mqtt://ada:secret@host:1883 -> mqtt://ada:***@host:1883 or mqtt://ada@host:1883
    """
    scheme, separator, rest = url.partition("://")
    credentials, at, address = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if not colon:
        return url
    return f"{scheme}{separator}{user}{password and ':' + password}{at}{address}"
