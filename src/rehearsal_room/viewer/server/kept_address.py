"""The viewer's address on this machine, which stays: port and token come from a key of the user, so
that links, bookmarks and open tabs survive a restart.

Before the command line sends the token, it asks who serves there: only a viewer that has the same
key can answer for this port (a keyed BLAKE2b, RFC 7693, of the port and a random word), so another
program on the port gets nothing, and nor does one that passes the question on to a viewer on
another port.
"""

import hmac
import json
import secrets
import socket
import urllib.error
import urllib.request
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import closing
from hashlib import blake2b
from http.client import HTTPException
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.user_state import user_key
from rehearsal_room.scenarios import distribution

HOST = "127.0.0.1"
_KEY = "view.key"
_PORTS = range(20_000, 30_000)  # below the ports that systems give to connections
_WAIT_S = 3.0
_NO_ANSWER = (OSError, ValueError, HTTPException)  # nothing there, or another program
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class KeptAddress(msgspec.Struct, frozen=True):
    """Where this user's viewer is served, and what gives access to it."""

    port: int
    token: str

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.port}/?token={self.token}"


def kept_address() -> KeptAddress | None:
    """This user's address; None: no key can be kept, so there is none that stays."""
    key = user_key(_KEY)
    if key is None:
        return None
    token = urlsafe_b64encode(blake2b(b"token", key=key, digest_size=24).digest()).decode()
    number = int.from_bytes(blake2b(b"port", key=key, digest_size=8).digest())
    return KeptAddress(_PORTS[number % len(_PORTS)], token)


def proof_of(token: str, port: int, word: str) -> str:
    """The word by which a server proves that it has the token and serves this port; the token does
    not follow from it."""
    text = f"{port}:{word}".encode()
    return blake2b(text, key=token.encode()[:64], digest_size=32).hexdigest()


def is_free(port: int) -> bool:
    """Whether a server can listen on this port of 127.0.0.1 now."""
    with closing(socket.socket()) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except OSError:
            return False
        return True


def is_served(address: KeptAddress) -> bool:
    """Whether this user's viewer answers at the address."""
    word = secrets.token_hex(16)
    try:
        found = _ask(f"http://{HOST}:{address.port}/hello?word={word}")
    except (*_NO_ANSWER, SettingsError):
        return False
    proof = found.get("proof") if isinstance(found, dict) else None
    return isinstance(proof, str) and hmac.compare_digest(
        proof.encode(), proof_of(address.token, address.port, word).encode()
    )


def show_there(
    address: KeptAddress,
    *,
    folders: Sequence[Path],
    bases: Sequence[Path],
    worlds: Sequence[Path],
) -> None:
    """Have the viewer that serves there show these, too. Raises SettingsError where it refuses or
    is of another version."""
    body = {
        "version": distribution.version(),
        "folders": [str(one.absolute()) for one in folders],
        "bases": [str(one.absolute()) for one in bases],
        "worlds": [str(one.absolute()) for one in worlds],
    }
    try:
        _ask(f"http://{HOST}:{address.port}/api/shown", address.token, body)
    except _NO_ANSWER as exc:
        raise SettingsError(f"the viewer that runs at port {address.port}: {exc}") from exc


def _ask(url: str, token: str | None = None, body: Any = None) -> Any:
    """What the server answers. Raises one of _NO_ANSWER, and SettingsError with its sentence."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    try:
        with _NO_PROXY.open(request, timeout=_WAIT_S) as answer:
            return json.loads(answer.read(1 << 16))
    except urllib.error.HTTPError as exc:
        with exc:
            found = json.loads(exc.read(1 << 16))
        sentence = found.get("error") if isinstance(found, dict) else None
        raise SettingsError(sentence or f"it answered {exc.code}") from exc
