"""What a worker may do. Each promise has a test of the same name in
tests/envpool/workers/test_sandbox.py, which runs at every level that `required` accepts.

A worker runs code that anybody may have written. It may:

- read     the contents of the interpreter's own libraries, our own packages, the system's shared
           libraries and time zones, and four devices (null, zero, random, urandom)
- write    its scratch folder, `MAX_FILE` bytes a file; no other file, device or log
- talk     over the one socket that it holds; no network, no DNS, no other socket of any family
           (a connected stream pair inside the process is allowed, and reaches no other process)
- run      itself: no fork and no exec; its threads end with the call
- signal   itself only, `MAX_SIGNALS` waiting; no timers that outlive a call, no signals from
           descriptors (owners, leases, notices)
- use      `memory_mb` of memory, `cpu_seconds` of CPU in its life, `MAX_DESCRIPTORS` descriptors,
           `MAX_TEXT` characters an answer; the pool limits how long a call takes
- know     little about its surroundings: a scrubbed environment, closed descriptors, hashes seeded
           with 0, nothing about other processes
- become   nothing else: no new privileges, no capabilities, no ptrace, no mounting or namespaces,
           no keyring, bpf, perf events, io_uring, userfaultfd or kernel modules

Three layers in the kernel enforce this:

- bubblewrap puts all workers into namespaces of their own (users, processes, network, mounts, IPC,
  host name) with nothing mounted but what may be read; it works for root and for ordinary users.
- seccomp (envpool.kernel.system_calls) allows the system calls that Python, SQLite and threads
  need, and of some calls only the forms that they need. A call that no library makes innocently
  ends the worker; others fail.
- Landlock (envpool.workers.confine) guards files; from version 4 of its interface (ABI) TCP, and
  from version 6 signals and abstract sockets too, which seccomp guards at every level.

Resource limits always apply; at the lowest level they are all there is. `required` accepts the
levels at which the kernel alone keeps every promise: seccomp, with bubblewrap or with Landlock from
version `LEAST_ABI` on (versions 1 and 2 let a file be cut short by its path).

Outside of the code's reach, the pool counts the threads of the process after each answer
(envpool.kernel.thread_count). Inside, an audit hook (envpool.workers.audit_hook) refuses what is
forbidden with a sentence, which ends the episode as a world's failure. Determined code gets round
the audit hook, and then the layers in the kernel stop it.

Landlock does not restrict a file's mode, owner and times, so changing them fails or does nothing.

Not covered:
- faults of the kernel, the processor (side channels) or of SQLite and Python themselves;
- what a process does to itself: code that gets round the audit hook can lie about the world that it
  serves. Each worker serves one scenario only, each verdict has a process of its own, and answers
  are checked (digests, pages, one answer a request, our own functions unchanged), so that it
  changes nothing else;
- agreements between workers of hostile authors: locks on a library's file, the load of the
  processor;
- using up what is allowed: the CPU until the deadline, memory until the limit, threads until the
  call ends;
- without bubblewrap: the total size of the files in a scratch folder; whether a file of a known
  path exists, its size and times; the host's name;
- without Landlock: the scratch folders of other workers are hidden by unguessable names only;
- without bubblewrap and Landlock: only the audit hook guards files; at level `rlimits` it guards
  everything except memory, file size, CPU and descriptors. `required` refuses both.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rehearsal_room.envpool.core.errors import PoolError

_PACKAGE = Path(sys.modules["rehearsal_room"].__file__ or "").parent  # the one that is installed
_ENVPOOL = Path(__file__).parent.parent  # in a checkout the five packages lie elsewhere
_SCENARIOS = _ENVPOOL.parent / "scenarios"
MAX_FILE = 64 * 2**20  # bytes
MAX_SCRATCH = 512 * 2**20  # bytes, of all workers together, under bubblewrap
MAX_DESCRIPTORS = 128
MAX_SIGNALS = 64  # that wait for the process; they are counted for all processes of a user
MAX_TEXT = 16 * 2**20  # characters
LIBRARIES_MB = 256  # address space that the libraries map before our code runs

LOWEST = "rlimits"
# A level names its layers, joined by "+"; landlock with the version of its interface, for example
# "bubblewrap+seccomp+landlock:6".
LAYERS = ("bubblewrap", "seccomp", "landlock")
LEAST_ABI = 4  # of Landlock, for `required` without bubblewrap
AT_MOST = "REHEARSE_SANDBOX_AT_MOST"  # environment variable: a level, for tests; it only lowers

_SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo"),
    *("/etc/ld.so.cache", "/etc/localtime"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


class WorkerLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one worker."""

    memory_mb: int = 1024  # address space beyond what the libraries map, in MiB
    cpu_seconds: int = 24 * 3600  # in its whole life
    scratch: str = ""  # parent of the scratch folders; empty: the system's temporary folder
    # The highest level to use; empty: the best.
    at_most: str = msgspec.field(default_factory=lambda: os.environ.get(AT_MOST, ""))


@functools.cache
def readable() -> tuple[str, ...]:
    """The files and folders that a worker may read: they exist, and none contains another."""
    python = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable)]
    ours = _PACKAGE.resolve()
    libraries = [part for path in (*map(Path, _SYSTEM), *python) for part in _without(path, ours)]
    paths = [path for path in (*libraries, *_own_code()) if path.exists()]
    folders = {path for path in paths if path != Path("/")}
    outermost = (path for path in paths if path in folders and not folders & set(path.parents))
    return tuple(dict.fromkeys(map(str, outermost)))


def _without(path: Path, hidden: Path) -> list[Path]:
    """A path; where it contains a hidden folder, as an installed package's prefix does, what
    stands beside that folder and beside its parents. Links there that lead back to one of these,
    such as an environment's `lib64`, are left out: what is behind them has another path."""
    real = path.resolve()
    if real == hidden:
        return []
    if real not in hidden.parents:
        return [path]
    beside = [child for child in sorted(path.iterdir()) if not _leads_to(child, hidden)]
    return [part for child in beside for part in _without(child, hidden)]


def _leads_to(path: Path, hidden: Path) -> bool:
    """Whether a path is a link to a hidden folder, to something in it or to a parent of it."""
    real = path.resolve()
    return path.is_symlink() and (hidden in (real, *real.parents) or real in hidden.parents)


def _own_code() -> list[Path]:
    """Our own code that workers need: the package's first file, envpool, and scenarios without the
    bundled worlds, whose tasks reveal the answers."""
    return [
        _PACKAGE / "__init__.py",
        _ENVPOOL,
        *(path for path in _SCENARIOS.iterdir() if path.name != "bundled"),
    ]


def import_root() -> str:
    """The folder from which workers import our code."""
    return str(_PACKAGE.parent)


def environment(scratch: str) -> dict[str, str]:
    """The complete environment of a worker."""
    return {
        "HOME": scratch,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": import_root(),
        "PYTHONSAFEPATH": "1",
        "TMPDIR": scratch,
        "TZ": "UTC",
    }


def bubblewrap(scratch: str, command: Sequence[str]) -> list[str]:
    """The command wrapped by bubblewrap; `scratch` becomes an empty file system in memory."""
    read = [word for path in readable() for word in ("--ro-bind", path, path)]
    devices = [word for path in DEVICES for word in ("--dev-bind", path, path)]
    variables = [word for item in environment(scratch).items() for word in ("--setenv", *item)]
    return [
        *("bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"),
        *("--unshare-uts", "--unshare-cgroup-try", "--hostname", "worker", "--disable-userns"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *(*variables, *read, *devices),
        *("--size", str(MAX_SCRATCH), "--tmpfs", scratch, "--remount-ro", "/"),
        *("--chdir", "/", "--", *command),
    ]


def why_no_bubblewrap(at_most: str = "") -> str:
    """Why bubblewrap is not used here; empty: it works. `at_most` is a level that has to be kept
    to. Tries it once, which takes milliseconds."""
    if at_most and "bubblewrap" not in layers_of(at_most):
        return f"the level is limited to {at_most}"
    return _why_bubblewrap_fails()


@functools.cache
def _why_bubblewrap_fails() -> str:
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    command = bubblewrap("/scratch", [sys.executable, "-I", "-S", "-c", "pass"])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"bwrap does not run: {exc}"
    errors = done.stderr.strip().splitlines() or ["it wrote no error"]
    return "" if done.returncode == 0 else f"bwrap does not work here: {errors[-1]}"


def layers_of(level: str) -> dict[str, int]:
    """The layers of a level; of Landlock the version of its interface (0: any). Raises PoolError.

    Example: "seccomp+landlock:6" -> {"seccomp": 0, "landlock": 6}
    """
    layers = {}
    for text in level.split("+"):
        name, _, version = text.partition(":")
        if name not in LAYERS and text != LOWEST:
            raise PoolError(
                f"sandbox: {name!r} is not a sandbox layer; expected {', '.join(LAYERS)}"
            )
        if version and (name != "landlock" or not version.isdecimal()):
            raise PoolError(f"sandbox: {text!r} is not a layer with a version, such as landlock:6")
        layers[name] = int(version or 0)
    layers.pop(LOWEST, None)
    return layers


def lower(level: str, at_most: str) -> str:
    """A level without what exceeds another one. Raises PoolError.

    Example: "bubblewrap+seccomp+landlock:7", "seccomp+landlock:4" -> "seccomp+landlock:4"
    """
    limit, kept = layers_of(at_most), []
    for name, version in layers_of(level or LOWEST).items():
        if name in limit:
            version = min(version, limit[name] or version)
            kept.append(f"{name}:{version}" if version else name)
    return "+".join(kept)


def keeps_every_promise(level: str) -> bool:
    """Whether the kernel alone keeps every promise of this module at a level."""
    layers = layers_of(level)
    return "seccomp" in layers and (
        "bubblewrap" in layers or layers.get("landlock", 0) >= LEAST_ABI
    )


def require(required: str, level: str, missing: Sequence[str] = ()) -> None:
    """Raise PoolError unless a level is at least as good as the required one.

    `required` is `best` or `off` (any level), `required` (the kernel keeps every promise) or the
    name of a level. `missing` has the reason why the level is not a better one.
    """
    if required in {"best", "off"}:
        return
    if required == "required":
        is_enough = keeps_every_promise(level)
    else:
        available = layers_of(level)
        is_enough = all(
            available.get(layer, -1) >= version for layer, version in layers_of(required).items()
        )
    if not is_enough:
        why = "".join(f"; {reason}" for reason in missing)
        raise PoolError(f"sandbox {required!r} is not available here: the level is {level!r}{why}")
