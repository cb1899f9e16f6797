"""How a worker applies the sandbox to itself, after its fork and before any hosted code.

envpool.workers.sandbox states what the sandbox guarantees; this module implements it. The order
matters: scratch folder and limits first, then privileges, then Landlock, and seccomp last, because
it takes away the system calls that the others need.
"""

import contextlib
import ctypes
import ctypes.util
import os
import resource
import sys
from collections.abc import Iterator
from typing import Any

from rehearsal_room.envpool.kernel.landlock_rules import FileRules, version
from rehearsal_room.envpool.kernel.seccomp_program import SeccompProgram
from rehearsal_room.envpool.workers.sandbox import (
    DEVICES,
    LIBRARIES_MB,
    LOWEST,
    MAX_DESCRIPTORS,
    MAX_FILE,
    MAX_SIGNALS,
    WorkerLimits,
    layers_of,
    lower,
    readable,
)

_SONAMES = {"c": "libc.so.6", "seccomp": "libseccomp.so.2"}


@contextlib.contextmanager
def _known_sonames() -> Iterator[None]:
    """Replace `find_library`: it asks ldconfig and gcc, which do not exist inside bubblewrap."""
    find = ctypes.util.find_library
    setattr(ctypes.util, "find_library", _SONAMES.get)  # noqa: B010 - for mypy
    try:
        yield
    finally:
        setattr(ctypes.util, "find_library", find)  # noqa: B010


seccomp: Any = None
landlock: Any = None
with _known_sonames():
    try:
        import pyseccomp as seccomp  # type: ignore[import-untyped, no-redef]
    except (ImportError, RuntimeError, OSError, AttributeError) as exc:
        WHY_NO_SECCOMP = f"seccomp: {exc}"
    else:
        WHY_NO_SECCOMP = ""
try:
    from landlock import plumbing as landlock  # type: ignore[import-untyped, no-redef]
except ImportError as exc:
    WHY_NO_LANDLOCK = f"landlock: {exc}"
else:
    WHY_NO_LANDLOCK = ""

# The process ------------------------------------------------------------------------------------

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24
_CAPABILITIES = range(64)
_CAPABILITY_VERSION_3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread of the parent that forked it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)
    if os.getppid() != parent:  # it ended before this call
        os._exit(1)


class Privileges:
    """The capabilities that processes forked from this one may still get: none is left to them."""

    def __init__(self) -> None:
        bounding = (each for each in _CAPABILITIES if _libc.prctl(_PR_CAPBSET_READ, each) == 1)
        self._bounding = list(bounding)
        self._version = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        self._none = (ctypes.c_uint32 * 6)()

    def drop(self) -> None:
        """Drop all capabilities, prevent new ones, and hide this process's memory from siblings."""
        prctl = _libc.prctl
        for capability in self._bounding:
            prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        _libc.capset(ctypes.byref(self._version), ctypes.byref(self._none))
        prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def ceilings_of(limits: WorkerLimits, alone: bool) -> list[tuple[int, tuple[int, int]]]:
    """The resource limits of a worker, each not above this process's own. `alone`: they are the
    only layer of the sandbox."""
    memory = (LIBRARIES_MB + limits.memory_mb) * 2**20
    ceilings = {
        resource.RLIMIT_AS: (memory, memory),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (limits.cpu_seconds, limits.cpu_seconds + 1),
        resource.RLIMIT_FSIZE: (MAX_FILE, MAX_FILE),
        resource.RLIMIT_MEMLOCK: (0, 0),
        resource.RLIMIT_MSGQUEUE: (0, 0),
        resource.RLIMIT_NOFILE: (MAX_DESCRIPTORS, MAX_DESCRIPTORS),
        resource.RLIMIT_SIGPENDING: (MAX_SIGNALS, MAX_SIGNALS),  # it counts those of the user
    }
    if alone:  # it counts all processes of the user, so it is not used where seccomp works
        ceilings[resource.RLIMIT_NPROC] = (0, 0)
    for kind, (soft, hard) in ceilings.items():
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            ceilings[kind] = min(soft, most), min(hard, most)
    return list(ceilings.items())


def available_layers(required: str, at_most: str = "") -> tuple[str, list[str]]:
    """The sandbox layers that this process's children can apply, joined by "+" ("": none), and why
    the others are not available. `at_most` is a level that they stay below; empty: the best."""
    if required == "off":
        return "", []
    reasons = {"seccomp": WHY_NO_SECCOMP, "landlock": WHY_NO_LANDLOCK or _why_no_landlock()}
    layers = [layer for layer, reason in reasons.items() if not reason]
    level = "+".join(f"{each}:{landlock_abi()}" if each == "landlock" else each for each in layers)
    missing = [reason for reason in reasons.values() if reason]
    if at_most:
        level = lower(level, at_most)
        missing.append(f"the level is limited to {at_most}")
    return level, missing


def landlock_abi() -> int:
    """The version of this kernel's Landlock. Raises OSError where it has none."""
    return version(landlock)


def _why_no_landlock() -> str:
    try:
        landlock_abi()
    except OSError as exc:
        return f"landlock: {os.strerror(exc.errno) if exc.errno else exc}"
    return ""


class Confinement:
    """The layers of a level, prepared once for all processes that are forked from this one.

    `apply` confines one of them. What does not depend on the process is done here: a worker that
    only makes the system calls needs a millisecond where it took ten, and copies few pages.
    Raises OSError and PoolError where a layer is not available.
    """

    def __init__(self, level: str, limits: WorkerLimits) -> None:
        layers = layers_of(level)
        self._ceilings = ceilings_of(limits, alone=level == LOWEST)
        self._privileges = Privileges()
        self._files: FileRules | None = None
        self._system_calls: SeccompProgram | None = None
        if "landlock" in layers:
            abi = layers["landlock"] or landlock_abi()
            self._files = FileRules(landlock, abi, readable=readable(), devices=DEVICES)
        if "seccomp" in layers:
            self._system_calls = SeccompProgram(seccomp)

    @property
    def descriptors(self) -> list[int]:
        """Descriptors that `apply` needs, and closes."""
        return self._files.descriptors if self._files else []

    def apply(self, scratch: str) -> None:
        """Confine this process, whose scratch folder this is. Raises OSError."""
        for kind, ceiling in self._ceilings:
            resource.setrlimit(kind, ceiling)
        self._privileges.drop()
        if self._files:
            self._files.restrict(scratch)
        if self._system_calls:
            self._system_calls.load()
        sys.dont_write_bytecode = True


def confine(level: str, scratch: str, limits: WorkerLimits) -> None:
    """Apply the layers of a level to this process. Raises OSError where one fails."""
    Confinement(level, limits).apply(scratch)
