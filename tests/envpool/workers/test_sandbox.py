"""The promises of envpool.workers.sandbox, kept by the kernel alone, without the audit hook."""

import functools
import os
from pathlib import Path

import pytest

from envpool.core.errors import PoolError
from envpool.workers import confine
from envpool.workers.sandbox import require, why_no_bubblewrap
from tests.support.confined import outcomes

INNER, _ = confine.available_layers("best")
LEVELS = [INNER] if why_no_bubblewrap() else [INNER, f"bubblewrap+{INNER}", "bubblewrap+seccomp"]
HERE = str(Path(__file__).resolve())
needs_seccomp = pytest.mark.skipif("seccomp" not in INNER, reason="libseccomp is not installed")
needs_files = pytest.mark.skipif(
    LEVELS == ["seccomp"], reason="neither Landlock nor bubblewrap guards files here"
)

ABSENT = "FileNotFoundError"
DENIED = "PermissionError"

# Promise -> snippets and their possible outcomes.
PROMISES: dict[str, list[tuple[str, set[str]]]] = {
    "no network": [
        ("import socket; socket.socket()", {DENIED}),
        ("import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)", {DENIED}),
        ("import socket; socket.socket(socket.AF_UNIX)", {DENIED}),
        ("import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", {DENIED}),
        ("import socket; socket.getaddrinfo('example.org', 80)", {"gaierror"}),
        ("import socket; socket.socketpair(socket.AF_INET)", {DENIED, "OSError"}),
        ("import asyncio; result = asyncio.run(asyncio.sleep(0, 'a pair is harmless'))",
         {"'a pair is harmless'"}),
    ],
    "no other process": [
        ("import os; os.fork()", {DENIED}),
        ("import os; os.posix_spawn('/bin/true', ['true'], {})", {DENIED, ABSENT}),
        ("import os, sys; os.execv(sys.executable, ['python'])", {DENIED}),
        ("import subprocess, sys; subprocess.run([sys.executable, '-V'])", {DENIED}),
        ("import os, threading, _thread; os.posix_spawn(os.devnull, ['x'], {})", {DENIED}),
    ],
    "no signals to others": [
        ("import os; os.kill(os.getppid(), 0)", {DENIED}),
        ("import os; os.kill(1, 0)", {DENIED}),
        ("import os; os.kill(-1, 0)", {DENIED}),
        ("import os; os.killpg(0, 0)", {DENIED}),
        ("import os; os.kill(os.getpid(), 0)", {"None"}),
        ("import os; os.pidfd_open(os.getppid())", {DENIED}),
        ("import signal; signal.setitimer(signal.ITIMER_REAL, 5)", {"ItimerError", "itimer_error"}),
        ("import signal; signal.alarm(1); import time; time.sleep(0.001)", {"None"}),
    ],
    "no way to more rights": [
        ("import os; os.setuid(12345)", {DENIED}),
        ("import os; os.setgroups([])", {DENIED}),
        ("import os; os.chown('.', 0, 0)", {DENIED}),
        ("import os; os.nice(-5)", {DENIED}),
        ("import os; os.sched_setaffinity(0, {0})", {DENIED}),
        ("import os; os.mknod('x')", {DENIED}),
        ("import os; os.chroot('.')", {"SIGSYS"}),
        ("import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (1, 1))", {"OSError", DENIED}),
    ],
    "no calls that only an attack makes": [
        (f"import ctypes; ctypes.CDLL(None).syscall({number}, 0, 0, 0, 0, 0)", {"SIGSYS"})
        for number in (
            *(101, 165, 155, 272, 308, 161, 310, 311),  # ptrace mount pivot_root unshare setns …
            *(321, 250, 298, 425, 323, 313, 175, 169, 304),  # bpf keyctl io_uring …
        )
    ] if os.uname().machine == "x86_64" else [],
    "a few threads": [
        ("import threading as t; x = t.Thread(target=list); x.start(); x.join()", {"None"}),
    ],
    "little memory": [
        ("bytearray(2**31)", {"MemoryError"}),
        ("import mmap\nkept = []\nwhile True: kept.append(mmap.mmap(-1, 2**26))", {"OSError"}),
    ],
    "small files": [
        ("with open('big', 'wb') as f:\n while True: f.write(b'x' * 2**22)", {"OSError"}),
        ("import os; f = os.open('x', os.O_CREAT | os.O_WRONLY); os.ftruncate(f, 2**40)",
         {"OSError"}),
    ],
    "limited CPU time": [("while True: pass", {"SIGXCPU"})],
    "few descriptors": [("import os\nwhile True: os.dup(0)", {"OSError"})],
    "a scrubbed environment": [
        ("import os; result = sorted(k for k in os.environ if k not in ('PWD', 'LC_CTYPE'))",
         {"['HOME', 'LANG', 'PYTHONDONTWRITEBYTECODE', 'PYTHONHASHSEED', 'PYTHONPATH', "
          "'PYTHONSAFEPATH', 'TMPDIR', 'TZ']"}),
        ("result = hash('a') == hash('a') and __import__('sys').flags.hash_randomization", {"0"}),
    ],
}  # fmt: skip
FILES: dict[str, list[tuple[str, set[str]]]] = {
    "reads its libraries only": [
        ("open('/etc/passwd')", {DENIED, ABSENT}),
        (f"open({HERE!r})", {DENIED, ABSENT}),
        ("open('/proc/self/environ')", {DENIED, ABSENT}),
        ("import os; os.listdir('/proc')", {DENIED, ABSENT}),
        ("import os; os.listdir('..')", {DENIED}),
        ("import os; os.symlink('/etc/passwd', 'link'); open('link')", {DENIED, ABSENT}),
        ("import os; os.listdir(os.path.dirname(os.__file__)); result = 1", {"1"}),
        ("import this_is_not_there", {"ModuleNotFoundError"}),
        ("import sqlite3; sqlite3.connect('/etc/passwd').execute('SELECT 1 FROM sqlite_master')",
         {"OperationalError"}),
        ("result = len(open('/dev/urandom', 'rb', 0).read(4))", {"4"}),
    ],
    "writes its scratch folder only": [
        ("open('mine', 'w').write('x'); result = open('mine').read()", {"'x'"}),
        ("import tempfile; tempfile.TemporaryFile().write(b'x')", {"None", ABSENT, DENIED}),
        ("open('/tmp/not-mine', 'w')", {DENIED, ABSENT, "OSError"}),
        (f"open({HERE!r}, 'a')", {DENIED, ABSENT, "OSError"}),
        ("import os; os.remove(os.__file__)", {DENIED, "OSError"}),
        ("import os; os.rename(os.__file__, 'os.py')", {DENIED, "OSError"}),
        ("import os; os.mkdir('/opt/mine')", {DENIED, ABSENT}),
        ("open('/mine', 'w')", {DENIED, "OSError"}),
        ("import os, envpool as e; os.chmod(e.__file__, 0o600); os.utime(e.__file__, (1, 1)); "
         "s = os.stat(e.__file__); result = s.st_mode & 0o777 == 0o600 or s.st_mtime == 1",
         {"False"}),
        ("import os; os.chmod('..', 0o777); os.listdir('..')", {DENIED}),
    ],
}  # fmt: skip
EVERY = [
    pytest.param(level, snippet, may, id=f"{level}: {promise}: {snippet[:60]}")
    for level in LEVELS
    for promise, cases in {**PROMISES, **FILES}.items()
    for snippet, may in cases
]


@functools.cache
def _came(level: str) -> dict[str, str]:
    """The outcome of every snippet at a level, run by one process."""
    snippets = [snippet for cases in {**PROMISES, **FILES}.values() for snippet, _ in cases]
    return dict(zip(snippets, outcomes(level, snippets, memory_mb=200, cpu_seconds=1), strict=True))


@needs_seccomp
@needs_files
@pytest.mark.parametrize(("level", "snippet", "may"), EVERY)
def test_promise(level: str, snippet: str, may: set[str]) -> None:
    """At this level the kernel keeps the promise."""
    assert _came(level)[snippet] in may


def test_a_level_is_required_or_refused() -> None:
    """`required` means a kernel that keeps every promise; a level's name means at least its
    layers."""
    for required in (
        "best",
        "off",
        "required",
        "seccomp",
        "bubblewrap+seccomp+landlock",
        "rlimits",
    ):
        require(required, "bubblewrap+seccomp+landlock")
    require("required", "seccomp+landlock")
    require("best", "rlimits")
    for required, level, message in (
        ("required", "seccomp", "sandbox 'required' is not available here: the level is 'seccomp'"),
        ("bubblewrap", "seccomp", "sandbox 'bubblewrap' is not available here: the level is 'secc"),
        (
            "castle",
            "seccomp",
            "sandbox: 'castle' is not a sandbox layer; expected bubblewrap, secc",
        ),
    ):
        with pytest.raises(PoolError) as caught:
            require(required, level)
        assert str(caught.value).startswith(message)
    with pytest.raises(PoolError) as caught:
        require("required", "rlimits", ["seccomp: no library", "bubblewrap: bwrap is missing"])
    assert str(caught.value) == (
        "sandbox 'required' is not available here: the level is 'rlimits'; seccomp: no library; "
        "bubblewrap: bwrap is missing"
    )
