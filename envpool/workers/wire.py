"""What a pool and its workers say to each other: msgspec structs, one MessagePack map a frame.

A frame is a length (4 bytes, big-endian) and that many bytes. Requests may be sent ahead; a worker
executes one at a time and answers each exactly once, in order. Each answer bears its request's id.

The pool holds the truth of every world: a worker is a function from a state and a call to a result
and the next state. It remembers the states of the worlds it served last, so that a request names
the world and its version only; where it does not have that version, it says `Stale` and the pool
sends the state along. So a worker may die at any moment: nothing but the call in its hands is lost.
"""

from typing import Any, Literal

import msgspec

from envpool.core.host_answers import Answer, Loaded, Snapshot
from scenarios.checks import Finding
from scenarios.format import Scenario

MAX_FRAME = 256 * 2**20  # bytes


# Requests ---------------------------------------------------------------------------------------


class Load(msgspec.Struct, frozen=True, tag=True):
    """Host a scenario. Answer: Loaded or Refused."""

    id: int
    scenario: Scenario
    sources: dict[str, str] = {}  # tools.py and verify.py of a package of ours: name -> text
    image: bytes = b""  # the template's pages, where another worker built it; empty: build it


class Call(msgspec.Struct, frozen=True, tag=True):
    """Execute a tool call. Answer: Answer, or Stale."""

    id: int
    scenario_digest: str  # of a loaded scenario
    world: int  # unique in the pool
    version: int  # of the world's state; the answer's state is version + 1
    name: str
    arguments: bytes  # JSON
    state: Snapshot | None = None  # None: the worker has this version


class Verify(msgspec.Struct, frozen=True, tag=True):
    """Ask a task's verifier. Answer: Verified."""

    id: int
    scenario_digest: str
    task: str
    state: Snapshot  # at the episode's end
    answer: str
    which: Literal["code", "sql"] = "code"  # of an AWM task; a package of ours has `code` only


class Replay(msgspec.Struct, frozen=True, tag=True):
    """Execute calls back to back, each list on a fresh world, and measure. Answer: Replayed."""

    id: int
    scenario_digest: str
    episodes: tuple[tuple[tuple[str, bytes], ...], ...]  # (tool, arguments as JSON)


class Forget(msgspec.Struct, frozen=True, tag=True):
    """Drop the states of some worlds. No answer."""

    worlds: tuple[int, ...]


class Unload(msgspec.Struct, frozen=True, tag=True):
    """Drop a scenario and its states. No answer."""

    scenario_digest: str


Request = Load | Call | Verify | Replay | Forget | Unload

# Replies ----------------------------------------------------------------------------------------


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The first frame of a worker: it is up, and what holds it."""

    pid: int
    level: str  # of the sandbox (see envpool.workers.sandbox)
    rss: int  # bytes


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The scenario cannot be hosted, and why."""

    id: int
    reason: str
    kind: Literal["seed", "toolset"] = "toolset"
    violation: str = ""  # as in Answer; the reason says it too


class Stale(msgspec.Struct, frozen=True, tag=True):
    """The worker does not have this state of the world: send it along."""

    id: int


class Verified(msgspec.Struct, frozen=True, tag=True):
    """What a verifier said. Of AWM: `label` and `detail`; of ours: `findings`."""

    id: int
    label: str = ""  # AWM's: complete, others, incomplete (evidence for a judge), judge_error
    detail: Any = None  # what it returned, as JSON can say it
    findings: tuple[Finding, ...] = ()
    printed: str = ""  # at most 64 KiB
    fault: str = ""  # why there is no verdict; empty: there is one
    violation: str = ""  # as in Answer


class Replayed(msgspec.Struct, frozen=True, tag=True):
    """How long the calls took."""

    id: int
    cpu_s: float
    fault: str = ""  # empty: done


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The worker itself broke on a request: a bug of ours, or code that got in its way."""

    id: int
    why: str


Reply = Ready | Loaded | Refused | Answer | Stale | Verified | Replayed | Failed
