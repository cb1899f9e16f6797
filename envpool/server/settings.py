"""What `rehearse serve` can be told."""

import msgspec


class ServeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How worlds are served over HTTP."""

    host: str = "127.0.0.1"
    port: int = 8765  # 0: any free one
    token: str = ""  # clients must present it (Authorization: Bearer …); empty: none is asked for
    allow_hosts: tuple[str, ...] = ()  # names under which browsers and clients may come, besides
    # this machine's own (localhost, 127.0.0.1, [::1]) and `host`
    idle_s: float = 900.0  # seconds without a call after which a world is given back
    max_worlds: int = 16_384  # live at once, of all clients
    worlds_per_client: int = 4_096  # a client is an address
    calls_per_client: int = 1_024  # in flight at once
    max_body: int = 32 * 2**20  # bytes of a request
    drain_s: float = 30.0  # seconds that live worlds are left after SIGTERM

    def __post_init__(self) -> None:
        for name in ("max_worlds", "worlds_per_client", "calls_per_client", "max_body"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, not {getattr(self, name)}")
        for name in ("idle_s", "drain_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: must not be negative, as {getattr(self, name)} is")
        if not 0 <= self.port < 65_536:
            raise ValueError(f"port: must be 0 to 65535, not {self.port}")
        if not (self.token.isascii() and self.token.isprintable()):
            raise ValueError("token: must be printable ASCII")
