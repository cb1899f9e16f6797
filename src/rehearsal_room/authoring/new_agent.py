"""A new agent from a template: a loop that asks a model, and its tests."""

import re
from pathlib import Path

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.scaffold.new_world import copied, is_taken

TEMPLATE = Path(__file__).parent / "templates" / "agent"
_is_name = re.compile(r"[a-z][a-z0-9_]{0,63}").fullmatch


def write_agent(name: str, parent: Path) -> Path:
    """Write a new agent `name` below a folder, which is made where it is missing; returns its
    folder. It is there whole or not at all. Raises SettingsError."""
    if _is_name(name) is None:
        raise SettingsError(
            f"new agent: {name!r} cannot be its name; expected lower-case letters, digits and _, a "
            "letter first, at most 64 characters, for example refund_bot"
        )
    if is_taken(parent / name):
        raise SettingsError(
            f"new agent: {parent / name} exists already; choose another name or folder"
        )
    try:
        return copied(TEMPLATE, "my_agent", name, parent)
    except OSError as exc:
        raise SettingsError(f"new agent: {parent / name} cannot be written: {exc}") from exc
