"""What a pool and its fork server say to each other: one MessagePack map a packet.

`Begin` comes first and is answered by `Up` or, where the fork server cannot work, by its death.
A `Spawn` bears the worker's end of a socket pair, and its `Spawned` the worker's pidfd.
"""

import msgspec

from envpool.workers.sandbox import Limits

MAX_PACKET = 64 * 1024  # bytes


class Begin(msgspec.Struct, frozen=True, tag=True):
    """How workers are to be held."""

    sandbox: str  # as in envpool.workers.sandbox.require
    wrapped: bool  # bubblewrap is around the fork server
    scratch: str  # the folder of the workers' scratch folders
    limits: Limits


class Spawn(msgspec.Struct, frozen=True, tag=True):
    """Fork a worker onto the socket that comes along."""

    id: int


Order = Begin | Spawn


class Up(msgspec.Struct, frozen=True, tag=True):
    """The fork server is warm."""

    level: str  # of the sandbox
    missing: tuple[str, ...]  # why it is not a better one


class Spawned(msgspec.Struct, frozen=True, tag=True):
    """A worker runs. Its pidfd comes along."""

    id: int
    pid: int  # as the fork server knows it, in its namespace


class Died(msgspec.Struct, frozen=True, tag=True):
    """A worker has ended."""

    pid: int
    status: int  # its exit status; negative: the signal that ended it
    cpu_s: float  # seconds that it used


Word = Up | Spawned | Died
