"""The address of the Ray cluster that a run joins, and whether a server listens there."""

import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.cluster import ClusterSettings

_CONNECT_S = 5.0
_SETTINGS = 4  # type of an HTTP/2 frame, its fourth byte
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])


def address_of(cluster: ClusterSettings, environment: Mapping[str, str]) -> str:
    """The address of the cluster to join; empty: one is started. Raises SettingsError for one that
    cannot be joined."""
    address = cluster.address or environment.get("RAY_ADDRESS", "")
    if address in ("", "local"):
        return ""
    if address == "auto":
        return address
    if address.startswith("ray://"):
        raise SettingsError(
            f"address: {address} is a port of the Ray Client, which cannot stream records; start "
            "the command on a node of the cluster (`ray job submit`) with --address auto"
        )
    parts = _split(address)
    if parts is None:
        raise SettingsError(
            f"address: {address!r} is not an address of a Ray cluster (expected HOST:PORT or auto)"
        )
    try:
        _require_grpc(parts, has_tls=environment.get("RAY_USE_TLS", "0") not in ("", "0"))
    except OSError as exc:
        raise SettingsError(
            f"address: no Ray cluster answers at {address} ({exc}); start one with `ray start "
            "--head`, or leave --address out for a local one"
        ) from exc
    return address


def _require_grpc(parts: tuple[str, int], *, has_tls: bool) -> None:
    """Raise OSError where no gRPC server listens: `ray.init` waits for minutes for one and then
    kills the process. A gRPC server greets with an HTTP/2 frame of settings (RFC 9113, 3.4)."""
    with socket.create_connection(parts, timeout=_CONNECT_S) as connection:
        if has_tls:
            return
        connection.sendall(_PREFACE)
        header = connection.recv(9, socket.MSG_WAITALL)
        if len(header) < 9 or header[3] != _SETTINGS:
            raise OSError("another server listens there")


def _split(address: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(f"//{address}")
        return (parts.hostname, parts.port) if parts.hostname and parts.port else None
    except ValueError:
        return None
