"""Addresses as flags have them."""

from rehearsal_room.harness.core.errors import SettingsError


def address(text: str | None) -> tuple[str | None, int | None]:
    """Host and port of `--http`; None: not given. Raises SettingsError."""
    if text is None:
        return None, None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise SettingsError(f"--http: {text!r} is not HOST:PORT, for example 127.0.0.1:8765")
    return host, int(port)
