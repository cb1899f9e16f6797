"""What the lease surface says: the bodies of POST /worlds and its sisters, as JSON.

    POST   /worlds              NewWorld -> 201 WorldLease
    GET    /worlds              -> list of WorldNow
    GET    /worlds/<id>         -> WorldNow
    DELETE /worlds/<id>         -> 204
    POST   /worlds/<id>/reset   -> WorldNow
    POST   /worlds/<id>/fork    -> 201 WorldLease
    POST   /worlds/<id>/mcp     the world's MCP endpoint
    GET    /scenarios           -> list of ScenarioServed
    GET    /scenarios/<name>    -> Hosted
    GET    /scenarios/<name>/image  -> the template's pages, application/octet-stream
    GET    /health              -> Health

Whatever goes wrong is a Complaint with its HTTP status.
"""

import msgspec

from envpool.core.types import ToolSpec


class NewWorld(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which world is wanted."""

    scenario: str
    task: str | None = None  # None: no task in particular
    seed: int | None = None  # the caller's own number for it; worlds know no chance


class WorldLease(msgspec.Struct, frozen=True):
    """A world that was leased."""

    id: str
    mcp: str  # the URL of its MCP endpoint


class WorldNow(msgspec.Struct, frozen=True):
    """A live world."""

    id: str
    scenario: str
    task: str | None
    seed: int | None
    calls: int
    digest: str
    start_digest: str
    idle_s: float


class ScenarioServed(msgspec.Struct, frozen=True):
    """A scenario that is served."""

    name: str
    title: str
    digest: str  # of its package


class Hosted(msgspec.Struct, frozen=True):
    """A hosted scenario, as a client needs it that holds the states of its worlds itself."""

    name: str
    digest: str  # of its package
    template: str  # digest of the template's pages
    tools: tuple[ToolSpec, ...]
    memory: bytes = b""  # module state at the start of every world (wire.Snapshot.memory)


class Health(msgspec.Struct, frozen=True):
    """How the server is."""

    status: str  # ok, draining
    worlds: int  # live
    leases: int  # so far
    calls: int  # so far


class Complaint(msgspec.Struct, frozen=True):
    """What is wrong."""

    error: str  # a sentence
