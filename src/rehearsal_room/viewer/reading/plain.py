"""Values as a browser can read them from JSON."""

from typing import Any

import msgspec

_LARGEST = 2**53  # integers up to here are exact in JavaScript


def plain(value: Any) -> Any:
    """Builtin data with bytes as "0x…" and integers beyond 2**53 as their digits.

    Example: {"id": 2**60, "blob": b"\\x01"} -> {"id": "1152921504606846976", "blob": "0x01"}
    """
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        return str(value)
    if isinstance(value, dict):
        return {_text(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return _text(value)
    return value


def built(value: Any) -> Any:
    """The same for structs."""
    return plain(msgspec.to_builtins(value, builtin_types=(bytes,)))


def _text(value: Any) -> str:
    """A text that UTF-8 can hold: JSON in a log may have had half a surrogate pair."""
    text = value if isinstance(value, str) else str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
