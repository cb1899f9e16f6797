"""Messages between a pool and its fork server: one MessagePack map a packet.

`Configure` comes first. The fork server answers with `Up`, or ends where it cannot work. A `Spawn`
carries the worker's end of a socket pair; the `Spawned` that answers it carries the worker's pidfd.
"""

import msgspec

from rehearsal_room.envpool.workers.sandbox import WorkerLimits

MAX_PACKET = 64 * 1024  # bytes


class Configure(msgspec.Struct, frozen=True, tag=True):
    """How the workers are confined."""

    sandbox: str  # as in envpool.workers.sandbox.require
    wrapped: bool  # bubblewrap runs the fork server
    scratch: str  # the folder of the workers' scratch folders
    limits: WorkerLimits


class Spawn(msgspec.Struct, frozen=True, tag=True):
    """Fork a worker that uses the socket in this packet."""

    id: int


ClientMessage = Configure | Spawn


class Up(msgspec.Struct, frozen=True, tag=True):
    """The fork server is warm."""

    level: str  # of the sandbox
    missing: tuple[str, ...]  # why the level is not a better one


class Spawned(msgspec.Struct, frozen=True, tag=True):
    """A worker runs. Its pidfd is in this packet."""

    id: int
    pid: int  # in the fork server's process namespace


class Died(msgspec.Struct, frozen=True, tag=True):
    """A worker has ended."""

    pid: int
    status: int  # its exit status; negative: the signal that ended it
    cpu_s: float  # CPU seconds that it used


ServerMessage = Up | Spawned | Died
