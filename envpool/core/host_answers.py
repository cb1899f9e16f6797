"""What whoever hosts worlds away from the pool answers: a loaded scenario, a call, a state."""

from typing import Literal

import msgspec

from envpool.core.types import ToolError, ToolSpec
from scenarios.api import RowChange


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A world between two calls."""

    pages: dict[int, bytes]  # page number (from 0) -> bytes, where it differs from the template
    num_pages: int
    digest: str
    num_calls: int = 0  # made in this world so far: what chance in its code follows from
    memory: bytes = b""  # module state of its code, pickled; only workers open it


class SeedFault(msgspec.Struct, frozen=True):
    """A seed statement that failed and was skipped."""

    stage: Literal["schema", "seed"]
    table: str
    statement: int  # of its table and stage, from 0
    error: str


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """The scenario is hosted."""

    id: int
    image: bytes  # the template's pages, counters zeroed
    tools: tuple[ToolSpec, ...]
    memory: bytes = b""  # module state at the start of every world
    num_statements: int = 0  # of the seed
    seed_faults: tuple[SeedFault, ...] = ()
    notes: tuple[str, ...] = ()  # what was set aside or isolated, in words
    rss: int = 0  # bytes, of the worker


class Answer(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A call's result and what it did to the state."""

    id: int
    text: str
    error: ToolError | None
    changes: tuple[RowChange, ...]
    digest: str
    pages: dict[int, bytes] = {}  # pages written by this call
    num_pages: int = 0
    memory: bytes | None = None  # None: as before
    violation: str = ""  # what the code tried that is forbidden; the worker is to be replaced
    seconds: float = 0.0  # CPU seconds of the call
