"""The messages between a pool and its workers: msgspec structs, one MessagePack map a frame.

A frame is a length (4 bytes, big-endian) and that many bytes. Requests may be sent ahead; a worker
executes one at a time and answers each exactly once, in order. Each answer has its request's id.

A worker that receives `Load` hosts that scenario, and no other, until it ends. One that receives
`Verify` runs that verifier and ends. So no process ever executes the code of two scenarios, and a
verifier's process has executed nothing else.

The pool holds the state of every world: a worker is a function from a state and a call to a result
and the next state. It caches the states of the worlds that it served last, so that a request names
only the world and its version; where it does not have that version, it answers `Stale` and the pool
sends the state along. So a worker may die at any moment: only the call in flight is lost.
"""

from typing import Literal

import msgspec

from rehearsal_room.envpool.core.remote_states import CallOutcome, Loaded, Snapshot, Verified
from rehearsal_room.scenarios.format import Scenario

MAX_FRAME = 256 * 2**20  # bytes
HOT = 200  # calls after which a worker puts its heap into huge pages: it takes as long as 50 calls


# Requests ---------------------------------------------------------------------------------------


class Load(msgspec.Struct, frozen=True, tag=True):
    """Host a scenario, for the worker's life. Answer: Loaded or Refused."""

    id: int
    scenario: Scenario  # without tasks and verifiers
    source: str = ""  # the text of a package's tools.py; an AWM record contains its code
    image: bytes = b""  # the template's pages, where another worker built them; empty: build them


class WorkerCall(msgspec.Struct, frozen=True, tag="Call"):
    """Execute a tool call. Answer: CallOutcome or Stale."""

    id: int
    scenario_digest: str  # the scenario is loaded
    world: int  # unique in the pool
    version: int  # of the world's state; the outcome's state is version + 1
    name: str
    arguments: bytes  # JSON
    state: Snapshot | None = None  # None: the worker has this version


class Verify(msgspec.Struct, frozen=True, tag=True):
    """Run a task's verifier in a worker that has executed nothing. Answer: Verified.

    The pool made all of it: the scenario's own process has no part in its verdicts.
    """

    id: int
    scenario: Scenario  # of an AWM record: without code and rows, with this task's verifier only
    task: str
    image: bytes  # the template's pages
    state: Snapshot  # at the episode's end
    answer: str
    which: Literal["code", "sql"] = "code"  # of an AWM task; our own format has `code` only
    source: str = ""  # the text of a package's verify.py


class Replay(msgspec.Struct, frozen=True, tag=True):
    """Execute calls back to back, each list on a fresh world, and measure. Answer: Replayed."""

    id: int
    scenario_digest: str
    episodes: tuple[tuple[tuple[str, bytes], ...], ...]  # (tool, arguments as JSON)


class Forget(msgspec.Struct, frozen=True, tag=True):
    """Drop the states of some worlds. No answer."""

    worlds: tuple[int, ...]


WorkerRequest = Load | WorkerCall | Verify | Replay | Forget

# Replies ----------------------------------------------------------------------------------------


class WorkerReady(msgspec.Struct, frozen=True, tag="Ready"):
    """The first frame of a worker: it is ready, at this sandbox level."""

    pid: int
    level: str  # of the sandbox (see envpool.workers.sandbox)
    rss: int  # resident memory, in bytes


class HostingRefused(msgspec.Struct, frozen=True, tag="Refused"):
    """The scenario cannot be hosted."""

    id: int
    reason: str
    kind: Literal["seed", "toolset"] = "toolset"
    violation: str = ""  # as in CallOutcome; the reason names it too


class Stale(msgspec.Struct, frozen=True, tag=True):
    """The worker does not have this state of the world: send the call again with the state."""

    id: int


class Replayed(msgspec.Struct, frozen=True, tag=True):
    """The CPU time of the calls."""

    id: int
    cpu_s: float
    fault: str = ""  # empty: done


class WorkerFailed(msgspec.Struct, frozen=True, tag="Failed"):
    """The worker itself broke on a request: a bug in our code, or hosted code interfered."""

    id: int
    why: str


WorkerReply = (
    WorkerReady | Loaded | HostingRefused | CallOutcome | Stale | Verified | Replayed | WorkerFailed
)
