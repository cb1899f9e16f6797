"""The settings of `rehearse serve`."""

import msgspec


class ServeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How worlds are served over HTTP."""

    host: str = "127.0.0.1"
    port: int = 8765  # 0: any free one
    token: str = ""  # clients must send it (Authorization: Bearer …); empty: no token is required
    allow_hosts: tuple[str, ...] = ()  # Host and Origin names that are allowed, besides this
    # machine's own (localhost, 127.0.0.1, [::1]) and `host`
    idle_s: float = 900.0  # seconds without a call after which a world is released; 0: never
    max_worlds: int = 16_384  # live at once, for all clients
    worlds_per_client: int = 4_096  # a client is an address
    calls_per_client: int = 1_024  # in flight at once
    max_body: int = 32 * 2**20  # bytes of a request
    drain_s: float = 30.0  # seconds to wait for live worlds after SIGTERM

    def __post_init__(self) -> None:
        for name in ("max_worlds", "worlds_per_client", "calls_per_client", "max_body"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, not {getattr(self, name)}")
        for name in ("idle_s", "drain_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: must not be negative, not {getattr(self, name)}")
        if not 0 <= self.port < 65_536:
            raise ValueError(f"port: must be 0 to 65535, not {self.port}")
        if not (self.token.isascii() and self.token.isprintable()):
            raise ValueError("token: must be printable ASCII")
