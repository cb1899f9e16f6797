"""The settings of `rehearse serve`."""

from typing import Annotated

import msgspec
from msgspec import Meta


class ServeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    drain_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds to wait after SIGTERM until live worlds are released.",
            extra={"flag": "drain", "metavar": "SECONDS"},
        ),
    ] = 30.0

    def __post_init__(self) -> None:
        if not (self.token.isascii() and self.token.isprintable()):
            raise ValueError("token: must be printable ASCII")
