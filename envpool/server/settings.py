"""The settings of `rehearse serve`."""

from typing import Annotated

import msgspec
from msgspec import Meta


class HttpLimits(msgspec.Struct, frozen=True):
    """What clients may hold of a server before their requests are complete."""

    max_connections: int = 4_096
    max_headers: int = 16_384  # bytes
    headers_s: float = 10.0  # seconds until the headers are complete
    body_s: float = 30.0  # seconds without a byte of an incomplete body


class WorldServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How worlds are served over HTTP. A client is an address."""

    host: Annotated[str, Meta(description="Address to listen on.", extra={"flag": ""})] = (
        "127.0.0.1"
    )
    port: Annotated[
        int,
        Meta(ge=0, le=65_535, description="Port to listen on; 0: a free one.", extra={"flag": ""}),
    ] = 8765
    token: Annotated[
        str,
        Meta(
            description="Token that clients must send (Authorization: Bearer ...).",
            extra={
                "default": "REHEARSE_TOKEN of the environment, else none is asked for",
                "envvar": "REHEARSE_TOKEN",
                "secret": True,
            },
        ),
    ] = ""
    token_file: Annotated[
        str,
        Meta(
            description="File with further tokens, one a line; each token has its own leases.",
            extra={"metavar": "FILE"},
        ),
    ] = ""
    state_key: Annotated[
        str,
        Meta(
            description="File with the key that signs states, created if it does not exist; with "
            "it, states from before a restart are accepted.",
            extra={"metavar": "FILE", "default": "a new key for each start"},
        ),
    ] = ""
    # Besides this machine's own names (localhost, 127.0.0.1, [::1]) and `host`.
    allow_hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Host name under which clients and browsers may reach this server, besides "
            "localhost; may be repeated.",
            extra={"flag": "allow-host", "metavar": "NAME"},
        ),
    ] = ()
    idle_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds without a call after which a world is released; 0: never.",
            extra={"flag": "idle", "metavar": "SECONDS"},
        ),
    ] = 900.0
    max_worlds: Annotated[
        int, Meta(ge=1, description="Maximum number of live worlds, for all clients together.")
    ] = 16_384
    worlds_per_client: Annotated[
        int, Meta(ge=1, description="Maximum number of live worlds for one client address.")
    ] = 4_096
    calls_per_client: Annotated[
        int, Meta(ge=1, description="Maximum number of calls in flight from one client address.")
    ] = 1_024
    max_body: Annotated[
        int,
        Meta(
            ge=1, description="Maximum size of one request, in bytes.", extra={"metavar": "BYTES"}
        ),
    ] = 32 * 2**20
    max_connections: Annotated[
        int, Meta(ge=1, description="Maximum number of open connections, for all clients together.")
    ] = 4_096
    max_headers: Annotated[
        int,
        Meta(
            ge=1_024,
            description="Maximum size of a request's headers, in bytes.",
            extra={"metavar": "BYTES"},
        ),
    ] = 16_384
    headers_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds in which the headers of a request must be complete.",
            extra={"flag": "headers-timeout", "metavar": "SECONDS"},
        ),
    ] = 10.0
    body_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds without a byte after which an incomplete request is refused.",
            extra={"flag": "body-timeout", "metavar": "SECONDS"},
        ),
    ] = 30.0
    drain_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds to wait after SIGTERM until live worlds are released.",
            extra={"flag": "drain", "metavar": "SECONDS"},
        ),
    ] = 30.0

    @property
    def http_limits(self) -> HttpLimits:
        """The limits of connections and of incomplete requests."""
        return HttpLimits(self.max_connections, self.max_headers, self.headers_s, self.body_s)

    def __post_init__(self) -> None:
        if not (self.token.isascii() and self.token.isprintable()):
            raise ValueError("token: must be printable ASCII")
