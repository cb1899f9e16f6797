"""What a worker may do. Each promise has a test of the same name in
tests/envpool/workers/test_sandbox.py.

A worker runs code that a model wrote. It may:

- read     the interpreter's own libraries, our own packages, the system's shared libraries and time
           zones, and four devices (null, zero, random, urandom); nothing else
- write    its scratch folder, `MAX_FILE` bytes a file; no other file, device or log
- talk     over the one socket that it holds; no network, no DNS, no socket of any family besides
           (a connected pair inside the process is one, and reaches nobody)
- run      itself: no fork and no exec; its threads end with the call
- signal   itself only; no timers that outlive a call
- use      `memory_mb` of memory, `cpu_seconds` of CPU in its life, `MAX_DESCRIPTORS` descriptors,
           `MAX_TEXT` characters an answer; how long a call takes is the pool's to limit
- know     nothing of ours: a scrubbed environment, closed descriptors, hashes seeded with 0
- become   nothing else: no new privileges, no capabilities, no ptrace, no mounting or namespaces,
           no keyring, bpf, perf events, io_uring, userfaultfd or kernel modules

Three walls in the kernel keep this, and a witness in the process says what was tried:

- bubblewrap puts all workers into namespaces of their own (users, processes, network, mounts, IPC,
  host name) with nothing mounted but what may be read; it works for root and for ordinary users.
- seccomp (envpool.workers.confine) allows the system calls that Python, SQLite and threads need. A
  call that no library makes innocently ends the worker; others fail.
- Landlock (same module) guards files, and from its sixth version signals and abstract sockets too.
- Resource limits hold always, and alone at the lowest level.
- The witness (envpool.workers.audit_hook) is an audit hook: it refuses with a sentence, which ends
the
  episode as a world's failure. Code that takes pains gets round it, and then meets the walls.

Landlock does not judge a file's mode, owner and times, so changing them fails or does nothing.

Not covered:
- faults of the kernel, the processor (side channels) or of SQLite and Python themselves;
- worlds that share a worker share a process. A tool that gets round the witness can lie about the
  world it serves and about its neighbours' next answers; what it says is checked (digests, pages,
  one answer a request, our own functions unchanged), and it is gone with its first violation;
- using up what is allowed: the CPU until the deadline, memory until the limit;
- without bubblewrap: how much all files of a scratch folder hold;
- without Landlock: the scratch folders of other workers are hidden by unguessable names only;
- without bubblewrap and Landlock: files are guarded by the witness alone, and at level `rlimits`
  all is, but for memory, file size, CPU and descriptors.
"""

import functools
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

import envpool
import scenarios
from envpool.core.errors import PoolError

MAX_FILE = 64 * 2**20  # bytes
MAX_SCRATCH = 512 * 2**20  # bytes, of all workers together, under bubblewrap
MAX_DESCRIPTORS = 128
MAX_TEXT = 16 * 2**20  # characters
LIBRARIES_MB = 256  # address space that the libraries map before any of our code runs

LOWEST = "rlimits"
WALLS = ("bubblewrap", "seccomp", "landlock")  # a level is the walls that stand, joined by "+"

_SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo"),
    *("/etc/ld.so.cache", "/etc/localtime"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a pool's owner may settle about its workers."""

    memory_mb: int = 1024  # of a worker, beyond what the libraries map
    cpu_seconds: int = 24 * 3600  # in a worker's whole life
    scratch: str = ""  # folder for the scratch folders; empty: the system's temporary folder


@functools.cache
def readable() -> tuple[str, ...]:
    """The files and folders that a worker may read: they exist, and none lies in another."""
    python = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable)]
    paths = [path for path in (*map(Path, _SYSTEM), *python, *_ours()) if path.exists()]
    folders = {path for path in paths if path != Path("/")}
    kept = (path for path in paths if path in folders and not folders & set(path.parents))
    return tuple(dict.fromkeys(map(str, kept)))


def _ours() -> list[Path]:
    """Our packages, without the bundled worlds: their tasks tell the answers."""
    inside = Path(scenarios.__path__[0]).iterdir()
    return [Path(envpool.__path__[0]), *(path for path in inside if path.name != "bundled")]


def root() -> str:
    """The folder from which workers import our packages."""
    return str(Path(envpool.__path__[0]).parent)


def environment(scratch: str) -> dict[str, str]:
    """All that a worker's environment holds."""
    return {
        "HOME": scratch,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": root(),
        "PYTHONSAFEPATH": "1",
        "TMPDIR": scratch,
        "TZ": "UTC",
    }


def bubblewrap(scratch: str, command: Sequence[str]) -> list[str]:
    """A command wrapped into namespaces of its own; `scratch` is a fresh file system in memory."""
    read = [word for path in readable() for word in ("--ro-bind", path, path)]
    devices = [word for path in DEVICES for word in ("--dev-bind", path, path)]
    known = [word for item in environment(scratch).items() for word in ("--setenv", *item)]
    return [
        *("bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"),
        *("--unshare-uts", "--unshare-cgroup-try", "--hostname", "worker", "--disable-userns"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *(*known, *read, *devices),
        *("--size", str(MAX_SCRATCH), "--tmpfs", scratch, "--remount-ro", "/"),
        *("--chdir", "/", "--", *command),
    ]


@functools.cache
def why_no_bubblewrap() -> str:
    """Why workers cannot be wrapped here; empty: they can. Tries it, which takes milliseconds."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    command = bubblewrap("/scratch", [sys.executable, "-I", "-S", "-c", "pass"])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"bwrap does not run: {exc}"
    said = done.stderr.strip().splitlines() or ["it said nothing"]
    return "" if done.returncode == 0 else f"bwrap does not work here: {said[-1]}"


def require(wanted: str, level: str, missing: Sequence[str] = ()) -> None:
    """Raise PoolError unless a level is as good as the wanted one.

    `wanted` is `best` or `off` (whatever holds), `required` (the kernel keeps every promise:
    seccomp, and bubblewrap or Landlock for the files) or a level's name.
    """
    if wanted in {"best", "off"}:
        return
    standing = set(level.split("+"))
    if wanted == "required":
        enough = "seccomp" in standing and bool(standing & {"bubblewrap", "landlock"})
    else:
        asked = set(wanted.split("+")) - {LOWEST}
        if unknown := asked - set(WALLS):
            raise PoolError(f"sandbox: {min(unknown)!r} is no wall; there are {', '.join(WALLS)}")
        enough = asked <= standing
    if not enough:
        why = "".join(f"; {reason}" for reason in missing)
        raise PoolError(f"sandbox {wanted!r} is not to be had here: the level is {level!r}{why}")
