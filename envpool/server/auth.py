"""Which requests are allowed: by their Host and Origin headers and their bearer token.

In DNS rebinding, an attacker's name points at this machine. The browser then sends that name as
Host, and the name of the attacker's page as Origin: neither is on the list.
"""

import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from envpool.server.settings import ServeSettings

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_ANY = ("", "0.0.0.0", "::", "[::]")  # nosec B104 # compared with, not bound


class AccessCheck:
    """Decides whether a request is allowed."""

    def __init__(self, settings: ServeSettings) -> None:
        host = settings.host
        own = () if host in _ANY else (f"[{host}]" if ":" in host and host[0] != "[" else host,)
        self._hosts = {_name_in(name) for name in (*_LOOPBACK, *own, *settings.allow_hosts)}
        self._token = b"Bearer " + settings.token.encode() if settings.token else b""

    def refusal(
        self, headers: Mapping[bytes, bytes], *, open_to_all: bool
    ) -> tuple[int, str] | None:
        """HTTP status and reason of a refusal; None: the request is allowed. With `open_to_all` no
        token is needed."""
        host = headers.get(b"host", b"").decode("latin-1")
        if _name_in(host) not in self._hosts:
            return 403, f"the Host {host!r} is not a name of this server"
        origin = headers.get(b"origin")
        if origin is not None and not self._is_known(origin.decode("latin-1")):
            return 403, f"the Origin {origin.decode('latin-1')!r} may not use this server"
        if self._token and not open_to_all:
            token = headers.get(b"authorization", b"")
            if not hmac.compare_digest(token, self._token):
                return (
                    401,
                    "a bearer token is required, and this request has no token or a wrong one",
                )
        return None

    def _is_known(self, origin: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and _name_in(parts.netloc) in self._hosts


def _name_in(host: str) -> str:
    """The name in `name:port`. Example: "[::1]:8765" -> "[::1]" """
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
