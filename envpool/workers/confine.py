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

from envpool.kernel.system_calls import filter_of
from envpool.workers.sandbox import (
    DEVICES,
    LIBRARIES_MB,
    LOWEST,
    MAX_DESCRIPTORS,
    MAX_FILE,
    MAX_SIGNALS,
    Limits,
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

# Files ------------------------------------------------------------------------------------------


def _restrict_files(scratch: str, abi: int) -> None:
    """Landlock as it was in this version of its interface (ABI): allow reading the readable paths
    and writing the scratch folder, nothing else.

    The library supports files only. From ABI 4 the rule set has TCP ports and from ABI 6 abstract
    sockets and signals, so the struct is extended here; and the library takes an old errno for a
    new one, so errno is reset before each call.
    """
    access = landlock.FSAccess

    class Attributes(landlock.RulesetAttr):  # type: ignore[misc]
        _fields_ = [("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]  # noqa: RUF012

    since = {access.REFER: 2, access.TRUNCATE: 3, access.IOCTL_DEV: 5}
    everything = access(sum(right for right in access if since.get(right, 1) <= abi))
    attributes = Attributes(int(everything), 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    rules = _ruleset(ctypes.byref(attributes), size, 0)
    read = access.READ_FILE | access.READ_DIR
    write = everything & ~(access.EXECUTE | access.MAKE_SOCK | access.MAKE_CHAR | access.MAKE_BLOCK)
    for path in readable():
        _allow(rules, path, read)
    for path in DEVICES:
        _allow(rules, path, access.READ_FILE | access.WRITE_FILE)
    _allow(rules, scratch, write)
    ctypes.set_errno(0)
    landlock.get_restrict_self()(rules, 0)
    os.close(rules)


def landlock_abi() -> int:
    """The version of this kernel's Landlock. Raises OSError where it has none."""
    return _ruleset(None, 0, landlock.CREATE_RULESET_VERSION)


def _ruleset(attributes: Any, size: int, flags: int) -> int:
    ctypes.set_errno(0)
    ruleset: int = landlock.get_create_ruleset()(attributes, size, flags)
    return ruleset


def _allow(rules: int, path: str, access: Any) -> None:
    if not os.path.isdir(path):
        rights = landlock.FSAccess
        access &= rights.READ_FILE | rights.WRITE_FILE | rights.TRUNCATE | rights.IOCTL_DEV
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        beneath = landlock.PathBeneathAttr(int(access), descriptor)
        ctypes.set_errno(0)
        landlock.get_add_rule()(rules, 1, ctypes.byref(beneath), 0)
    finally:
        os.close(descriptor)


# The process ------------------------------------------------------------------------------------

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_CAPABILITY_VERSION_3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread of the parent that forked it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)
    if os.getppid() != parent:  # it ended before this call
        os._exit(1)


def _drop_privileges() -> None:
    """Drop all capabilities, prevent new ones, and hide this process's memory from siblings."""
    for capability in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _limit(limits: Limits, alone: bool) -> None:
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
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))


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


def _why_no_landlock() -> str:
    try:
        landlock_abi()
    except OSError as exc:
        return f"landlock: {os.strerror(exc.errno) if exc.errno else exc}"
    return ""


def confine(level: str, scratch: str, limits: Limits) -> None:
    """Apply the layers of a level to this process. Raises OSError where one fails."""
    layers = layers_of(level)
    _limit(limits, alone=level == LOWEST)
    _drop_privileges()
    if "landlock" in layers:
        _restrict_files(scratch, layers["landlock"] or landlock_abi())
    if "seccomp" in layers:
        filter_of(seccomp, os.getpid()).load()
    sys.dont_write_bytecode = True
