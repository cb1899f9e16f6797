"""Structs that cross a process boundary when a world's code runs elsewhere: states and results.

The pool holds the state of each world. An executor (a worker process, a server on another machine)
runs the code and returns these structs; a Snapshot also goes to the executor with a call.
"""

from typing import Any, Literal

import msgspec

from rehearsal_room.envpool.core.types import ToolErrorKind, ToolSpec
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The state of a world between two calls."""

    pages: dict[int, bytes]  # page number (from 0) -> bytes, where it differs from the template
    num_pages: int
    digest: str
    num_calls: int = 0  # calls made in this world so far; they seed the random numbers of its code
    module_state: bytes = b""  # globals of its Python modules, pickled; only workers unpickle it
    mac: bytes = b""  # by which a server knows the states that it made; empty: not from a server


class SeedFault(msgspec.Struct, frozen=True):
    """A seed statement that failed and was skipped."""

    stage: Literal["schema", "seed"]
    table: str
    statement: int  # index within its table and stage, from 0
    error: str


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """The scenario is hosted."""

    id: int
    image: bytes  # the template's pages, counters zeroed
    tools: tuple[ToolSpec, ...]
    module_state: bytes = b""  # as in Snapshot, at the start of every world
    num_statements: int = 0  # statements of the seed
    seed_faults: tuple[SeedFault, ...] = ()
    notes: tuple[str, ...] = ()  # sentences about what was ignored or isolated
    rss: int = 0  # resident memory of the worker, in bytes


class CallOutcome(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The result of a call and its effect on the state."""

    id: int
    text: str
    error: ToolErrorKind | None
    changes: tuple[RowChange, ...]
    digest: str
    pages: dict[int, bytes] = {}  # pages that this call wrote
    num_pages: int = 0
    module_state: bytes | None = None  # as in Snapshot; None: unchanged
    violation: str = ""  # the forbidden action that the code tried; the worker must be replaced
    seconds: float = 0.0  # CPU seconds of the call
    mac: bytes = b""  # as in Snapshot, of the state after the call


class Verified(msgspec.Struct, frozen=True, tag=True):
    """The result of a verifier. AWM sets `label` and `detail`; our own format sets `findings`."""

    id: int
    label: str = ""  # AWM's: complete, others, incomplete (evidence for a judge), judge_error
    detail: Any = None  # the verifier's return value, as JSON can represent it
    findings: tuple[Finding, ...] = ()
    printed: str = ""  # at most 64 KiB
    fault: str = ""  # why there is no verdict; empty: there is one
    violation: str = ""  # as in CallOutcome
    # Set by the pool: the process that ran the verifier (0: none, or it is not known), and its
    # sandbox level (see envpool.workers.sandbox).
    pid: int = 0
    sandbox: str = ""
