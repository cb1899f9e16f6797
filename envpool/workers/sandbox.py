"""What a worker may do. Each promise has a test of the same name in
tests/envpool/workers/test_sandbox.py.

A worker runs code that a model wrote. It may:

- read     the interpreter's own libraries, our own packages, the system's shared libraries and time
           zones, and four devices (null, zero, random, urandom); nothing else
- write    its scratch folder, `MAX_FILE` bytes a file; no other file, device or log
- talk     over the one socket that it holds; no network, no DNS, no other socket of any family
           (a connected pair inside the process is allowed, and reaches no other process)
- run      itself: no fork and no exec; its threads end with the call
- signal   itself only; no timers that outlive a call
- use      `memory_mb` of memory, `cpu_seconds` of CPU in its life, `MAX_DESCRIPTORS` descriptors,
           `MAX_TEXT` characters an answer; the pool limits how long a call takes
- know     nothing about its surroundings: a scrubbed environment, closed descriptors, hashes seeded
           with 0
- become   nothing else: no new privileges, no capabilities, no ptrace, no mounting or namespaces,
           no keyring, bpf, perf events, io_uring, userfaultfd or kernel modules

Three layers in the kernel enforce this, and an audit hook in the process reports what was tried:

- bubblewrap puts all workers into namespaces of their own (users, processes, network, mounts, IPC,
  host name) with nothing mounted but what may be read; it works for root and for ordinary users.
- seccomp (envpool.workers.confine) allows the system calls that Python, SQLite and threads need. A
  call that no library makes innocently ends the worker; others fail.
- Landlock (same module) guards files, and from its sixth version signals and abstract sockets too.
- Resource limits always apply; at the lowest level they are all there is.
- The audit hook (envpool.workers.audit_hook) refuses with a sentence, which ends the episode as a
  world's failure. Determined code gets round it, and then the layers in the kernel stop it.

Landlock does not restrict a file's mode, owner and times, so changing them fails or does nothing.

Not covered:
- faults of the kernel, the processor (side channels) or of SQLite and Python themselves;
- worlds that share a worker share a process. A tool that gets round the audit hook can lie about
  the world it serves and about the next answers of other worlds; its answers are checked (digests,
  pages, one answer a request, our own functions unchanged), and the first violation ends the
  worker;
- using up what is allowed: the CPU until the deadline, memory until the limit;
- without bubblewrap: the total size of the files in a scratch folder;
- without Landlock: the scratch folders of other workers are hidden by unguessable names only;
- without bubblewrap and Landlock: only the audit hook guards files; at level `rlimits` it guards
  everything except memory, file size, CPU and descriptors.
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
LIBRARIES_MB = 256  # address space that the libraries map before our code runs

LOWEST = "rlimits"
LAYERS = ("bubblewrap", "seccomp", "landlock")  # a level names its layers, joined by "+"

_SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo"),
    *("/etc/ld.so.cache", "/etc/localtime"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one worker."""

    memory_mb: int = 1024  # address space beyond what the libraries map, in MiB
    cpu_seconds: int = 24 * 3600  # in its whole life
    scratch: str = ""  # parent of the scratch folders; empty: the system's temporary folder


@functools.cache
def readable() -> tuple[str, ...]:
    """The files and folders that a worker may read: they exist, and none contains another."""
    python = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable)]
    paths = [path for path in (*map(Path, _SYSTEM), *python, *_own_code()) if path.exists()]
    folders = {path for path in paths if path != Path("/")}
    outermost = (path for path in paths if path in folders and not folders & set(path.parents))
    return tuple(dict.fromkeys(map(str, outermost)))


def _own_code() -> list[Path]:
    """Our own code, without the bundled worlds: their tasks reveal the answers."""
    inside = Path(scenarios.__path__[0]).iterdir()
    return [Path(envpool.__path__[0]), *(path for path in inside if path.name != "bundled")]


def import_root() -> str:
    """The folder from which workers import our code."""
    return str(Path(envpool.__path__[0]).parent)


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


@functools.cache
def why_no_bubblewrap() -> str:
    """Why bubblewrap does not work here; empty: it works. Tries it, which takes milliseconds."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    command = bubblewrap("/scratch", [sys.executable, "-I", "-S", "-c", "pass"])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"bwrap does not run: {exc}"
    errors = done.stderr.strip().splitlines() or ["it wrote no error"]
    return "" if done.returncode == 0 else f"bwrap does not work here: {errors[-1]}"


def require(required: str, level: str, missing: Sequence[str] = ()) -> None:
    """Raise PoolError unless a level is at least as good as the required one.

    `required` is `best` or `off` (any level), `required` (the kernel enforces every promise, with
    seccomp, and bubblewrap or Landlock for the files) or the name of a level. `missing` has the
    reason why the level is not a better one.
    """
    if required in {"best", "off"}:
        return
    available = set(level.split("+"))
    if required == "required":
        is_enough = "seccomp" in available and bool(available & {"bubblewrap", "landlock"})
    else:
        layers = set(required.split("+")) - {LOWEST}
        if unknown := layers - set(LAYERS):
            raise PoolError(
                f"sandbox: {min(unknown)!r} is not a sandbox layer; expected {', '.join(LAYERS)}"
            )
        is_enough = layers <= available
    if not is_enough:
        why = "".join(f"; {reason}" for reason in missing)
        raise PoolError(f"sandbox {required!r} is not available here: the level is {level!r}{why}")
