"""Which requests are allowed: by their Host and Origin headers and their bearer token; and whose
token it is.

In DNS rebinding, an attacker's name points at this machine. The browser then sends that name as
Host, and the name of the attacker's page as Origin: neither is on the list.
"""

import hmac
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.server.settings import ServeSettings

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_ANY = ("", "0.0.0.0", "::", "[::]")  # nosec B104 # compared with, not bound


class AccessCheck:
    """Decides whether a request is allowed. Making one raises PoolError for a bad token file."""

    def __init__(self, settings: ServeSettings) -> None:
        host = settings.host
        own = () if host in _ANY else (f"[{host}]" if ":" in host and host[0] != "[" else host,)
        self._hosts = {_name_in(name) for name in (*_LOOPBACK, *own, *settings.allow_hosts)}
        # The Authorization header of each token -> the owner of what is leased with it.
        self._owners = {
            b"Bearer " + token.encode(): number for number, token in enumerate(tokens_of(settings))
        }

    @property
    def has_tokens(self) -> bool:
        """Whether clients need a token."""
        return bool(self._owners)

    def owner(self, headers: Mapping[bytes, bytes]) -> int | None:
        """The number of the token of a request; None: it has none, or a wrong one.

        Every token is compared in constant time, so that the time says nothing about them.
        """
        if not self._owners:
            return None
        sent = headers.get(b"authorization", b"")
        matches = [n for known, n in self._owners.items() if hmac.compare_digest(sent, known)]
        return matches[0] if matches else None

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
        if self._owners and not open_to_all and self.owner(headers) is None:
            return 401, "a bearer token is required, and this request has no token or a wrong one"
        return None

    def _is_known(self, origin: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and _name_in(parts.netloc) in self._hosts


def tokens_of(settings: ServeSettings) -> tuple[str, ...]:
    """The tokens of a server: the one of the settings, then those of the file. Empty lines and
    lines that begin with # are skipped. Raises PoolError."""
    tokens = [settings.token] if settings.token else []
    if settings.token_file:
        try:
            lines = Path(settings.token_file).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
            raise PoolError(f"{settings.token_file}: cannot read the tokens: {why}") from exc
        listed = [line.strip() for line in lines]
        found = [token for token in listed if token and not token.startswith("#")]
        for number, token in enumerate(found, start=1):
            if not (token.isascii() and token.isprintable()):
                raise PoolError(f"{settings.token_file}: token {number} is not printable ASCII")
        if not found:
            raise PoolError(f"{settings.token_file}: there is no token in this file")
        tokens += found
    return tuple(dict.fromkeys(tokens))


def _name_in(host: str) -> str:
    """The name in `name:port`. Example: "[::1]:8765" -> "[::1]" """
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
