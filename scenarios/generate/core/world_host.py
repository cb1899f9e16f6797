"""What the generator asks of whoever can host a world: to seed it and to play calls on it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from scenarios.api import RowChange
from scenarios.generate.core.package import Package


class Outcome(msgspec.Struct, frozen=True):
    """What a call gave."""

    text: str  # JSON, or the refusal
    is_error: bool
    wrote: bool  # it changed rows


class Attempt(Protocol):
    """One fresh world on which calls are played."""

    def call(self, name: str, arguments: dict[str, Any]) -> Outcome:
        """Play one call."""

    def changes(self) -> Sequence[RowChange]:
        """What differs from the start, by table and key."""


class Stage(Protocol):
    """A seeded world."""

    def attempt(self) -> Attempt:
        """A fresh start."""


class Trial(Protocol):
    """Hosts worlds while they are made."""

    def __call__(self, package: Package) -> AbstractContextManager[Stage]:
        """Seed a package's schema and data and load its tools; it has no tasks yet. A fault of
        the package is raised as the host's own exception."""
