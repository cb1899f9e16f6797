"""The JSON bodies of the lease API.

    POST   /worlds              NewWorld -> 201 WorldLease
    GET    /worlds              -> list of WorldStatus: those leased with the caller's token;
                                   WorldCount on a server without tokens
    GET    /worlds/<id>         -> WorldStatus
    DELETE /worlds/<id>         -> 204
    POST   /worlds/<id>/reset   -> WorldStatus
    POST   /worlds/<id>/fork    -> 201 WorldLease
    POST   /worlds/<id>/mcp     the world's MCP endpoint
    GET    /scenarios           -> list of ServedScenario
    GET    /scenarios/<name>    -> HostedInfo
    GET    /scenarios/<name>/image  -> the template's pages, application/octet-stream
    GET    /health              -> Health

Every error is an ErrorBody with its HTTP status.
"""

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec


class NewWorld(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request for a world."""

    scenario: str
    task: str | None = None  # None: no particular task
    seed: int | None = None  # a number of the caller's choice; worlds have no randomness


class WorldLease(msgspec.Struct, frozen=True):
    """A world that was leased."""

    id: str
    mcp: str  # the URL of its MCP endpoint


class WorldStatus(msgspec.Struct, frozen=True):
    """A live world."""

    id: str
    scenario: str
    task: str | None
    seed: int | None
    calls: int
    digest: str
    start_digest: str
    idle_s: float


class WorldCount(msgspec.Struct, frozen=True):
    """The worlds of a server without tokens."""

    worlds: int  # live


class ServedScenario(msgspec.Struct, frozen=True):
    """A scenario that is served."""

    name: str
    title: str
    digest: str  # of its package


class HostedInfo(msgspec.Struct, frozen=True):
    """A hosted scenario, for a client that holds the states of its worlds itself."""

    name: str
    digest: str  # of its package
    template: str  # digest of the template's pages
    tools: tuple[ToolSpec, ...]
    module_state: bytes = (
        b""  # at the start of every world (see envpool.core.remote_states.Snapshot)
    )


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of the server."""

    status: str  # ok, draining
    worlds: int  # live
    leases: int  # so far
    calls: int  # so far
    sessions: int | None = None  # open over other protocols than MCP; None: there are none


class ErrorBody(msgspec.Struct, frozen=True):
    """An error."""

    error: str  # a sentence
