"""The promises of envpool.workers.sandbox as snippets, and the table of promises and levels.

`python -m tests.support.promises` tries all of them and prints the table; with the path of a page
it also writes the table there, between two marks (`just sandbox-table docs/sandbox.md`).
"""

import functools
import os
import platform
import sys
from pathlib import Path

from rehearsal_room.envpool.workers import confine
from rehearsal_room.envpool.workers.sandbox import (
    keeps_every_promise,
    layers_of,
    lower,
    why_no_bubblewrap,
)
from tests.support.confined import outcomes, why_no_ordinary_user

INNER, _ = confine.available_layers("best")
ABI = layers_of(INNER or "rlimits").get("landlock", 0)
BEGIN, END = "<!-- Made by `just sandbox-table docs/sandbox.md`. -->", "<!-- End of the table. -->"
ABSENT, DENIED = "FileNotFoundError", "PermissionError"

# The columns of the table: first the levels that `required` accepts, then two that it refuses.
ACCEPTED = (
    "bubblewrap+seccomp+landlock",
    "bubblewrap+seccomp",
    "seccomp+landlock",
    "seccomp+landlock:6",
    "seccomp+landlock:5",
    "seccomp+landlock:4",
)
REFUSED = ("seccomp+landlock:2", "seccomp")
SHORT = (ACCEPTED[0], ACCEPTED[-1])  # those that `just test` tries as an ordinary user too


def _call(number: int, *arguments: str) -> str:
    """A system call by its number on x86_64, without any library."""
    words = ", ".join((str(number), *arguments))
    return f"import ctypes, os; result = ctypes.CDLL(None).syscall({words})"


_ON_X86 = os.uname().machine == "x86_64"
_PARENT = "import os; p = os.getppid(); "
_FCNTL = "import fcntl, os; "
# getpid by the call gate of 32-bit programs, whose numbers mean other calls.
_INT80 = (
    "import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7); "
    "m.write(bytes.fromhex('b814000000cd80c3')); "
    "result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()"
)

# Promise -> snippets and their possible outcomes.
PROMISES: dict[str, list[tuple[str, set[str]]]] = {
    "read": [
        ("open('/etc/passwd')", {DENIED, ABSENT}),
        ("open(outside)", {DENIED, ABSENT}),
        ("result = open(library).read()", {"'not for workers'"}),
        ("open('/proc/self/environ')", {DENIED, ABSENT}),
        (f"{_PARENT}open(f'/proc/{{p}}/mem')", {DENIED, ABSENT}),
        (f"{_PARENT}os.readlink(f'/proc/{{p}}/exe')", {DENIED, ABSENT}),
        ("import os; os.listdir('/proc')", {DENIED, ABSENT}),
        ("import os; os.listdir('..')", {DENIED}),
        ("import os; os.symlink('/etc/passwd', 'link'); open('link')", {DENIED, ABSENT}),
        ("import os; os.listdir(os.path.dirname(os.__file__)); result = 1", {"1"}),
        ("import this_is_not_there", {"ModuleNotFoundError"}),
        ("import sqlite3; sqlite3.connect(outside).execute('SELECT 1 FROM sqlite_master')",
         {"OperationalError"}),
        ("result = len(open('/dev/urandom', 'rb', 0).read(4))", {"4"}),
    ],
    "write": [
        ("open('mine', 'w').write('x'); result = open('mine').read()", {"'x'"}),
        ("import tempfile; tempfile.TemporaryFile().write(b'x')", {"None", ABSENT, DENIED}),
        ("open(outside + '.new', 'w')", {DENIED, ABSENT, "OSError"}),
        ("open('../../new', 'w')", {DENIED, "OSError"}),
        ("open(outside, 'a')", {DENIED, ABSENT, "OSError"}),
        ("open(library, 'a')", {DENIED, "OSError"}),
        ("import os; os.truncate(outside, 0)", {DENIED, ABSENT}),
        ("import os; os.truncate(library, 0)", {DENIED, "OSError"}),
        ("import os; os.open(library, os.O_RDONLY | os.O_TRUNC)", {DENIED, "OSError"}),
        ("import os; os.link(library, 'mine')", {DENIED, "OSError"}),
        ("import os; os.mkdir(outside + '.folder')", {DENIED, ABSENT, "OSError"}),
        ("import os; os.chmod(library, 0o600); os.utime(library, (1, 1)); s = os.stat(library); "
         "result = s.st_mode & 0o777 == 0o600 or s.st_mtime == 1", {"False"}),
        ("import os; os.chmod('..', 0o777); os.listdir('..')", {DENIED}),
        ("import os; os.mknod('x')", {DENIED}),
        ("import os; os.mkfifo('x')", {DENIED}),
        ("import os; os.chown('.', 0, 0)", {DENIED}),
        ("import os; os.setxattr('.', 'user.x', b'')", {DENIED}),
        ("import fcntl, os; fcntl.flock(os.open(library, 0), fcntl.LOCK_EX)", {DENIED}),
        # These come last: where they succeed, the decoys are gone.
        ("import os; os.rename(outside, 'mine')", {DENIED, ABSENT, "OSError"}),
        ("import os; os.rename(library, 'mine')", {DENIED, "OSError"}),
        ("import os; os.remove(library)", {DENIED, "OSError"}),
        ("with open('big', 'wb') as f:\n while True: f.write(b'x' * 2**22)", {"OSError"}),
        ("import os; f = os.open('x', os.O_CREAT | os.O_WRONLY); os.ftruncate(f, 2**40)",
         {"OSError"}),
    ],
    "talk": [
        ("import socket; socket.socket()", {DENIED}),
        ("import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)", {DENIED}),
        ("import socket; socket.socket(socket.AF_UNIX)", {DENIED}),
        ("import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", {DENIED}),
        ("import socket; socket.socket(40, socket.SOCK_STREAM)", {DENIED}),  # vsock
        ("import socket; socket.getaddrinfo('example.org', 80)", {"gaierror"}),
        ("import socket; socket.socketpair(socket.AF_INET)", {DENIED, "OSError"}),
        ("import socket as s; s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)", {DENIED}),
        ("import socket as s; s.socketpair(s.AF_UNIX, s.SOCK_SEQPACKET)", {DENIED}),
        ("import socket as s; s.socketpair(s.AF_UNIX, s.SOCK_DGRAM | s.SOCK_NONBLOCK)", {DENIED}),
        ("import socket as s; s.socketpair(s.AF_UNIX, s.SOCK_RAW)", {DENIED, "OSError"}),
        ("import socket as s; s.socketpair()[0].sendto(b'x', '/dev/log')", {"OSError"}),
        ("import socket as s; s.socketpair()[0].sendto(b'x', chr(0) + 'abstract')", {"OSError"}),
        ("import socket as s; s.socketpair()[0].connect('/dev/log')", {DENIED}),
        ("import socket as s; s.socketpair()[0].bind('mine')", {DENIED}),
        ("import socket as s; s.socketpair()[0].setsockopt(s.SOL_SOCKET, s.SO_PASSCRED, 1)",
         {"OSError"}),
        ("import asyncio; result = asyncio.run(asyncio.sleep(0, 'a pair is harmless'))",
         {"'a pair is harmless'"}),
    ],
    "run": [
        ("import os; os.fork()", {DENIED}),
        ("import os; os.posix_spawn('/bin/true', ['true'], {})", {DENIED, ABSENT}),
        ("import os, sys; os.execv(sys.executable, ['python'])", {DENIED}),
        ("import subprocess, sys; subprocess.run([sys.executable, '-V'])", {DENIED}),
        ("import os, threading, _thread; os.posix_spawn(os.devnull, ['x'], {})", {DENIED}),
        ("import os; os.memfd_create('program')", {DENIED}),
        ("import threading as t; x = t.Thread(target=list); x.start(); x.join()", {"None"}),
    ],
    "signal": [
        ("import os; os.kill(os.getppid(), 0)", {DENIED}),
        ("import os; os.kill(1, 0)", {DENIED}),
        ("import os; os.kill(-1, 0)", {DENIED}),
        ("import os; os.killpg(0, 0)", {DENIED}),
        ("import os; os.kill(os.getpid(), 0)", {"None"}),
        ("import os; os.pidfd_open(os.getppid())", {DENIED}),
        ("import signal; signal.setitimer(signal.ITIMER_REAL, 5)", {"ItimerError", "itimer_error"}),
        ("import signal; signal.alarm(1); import time; time.sleep(0.001)", {"None"}),
        (f"{_FCNTL}fcntl.fcntl(0, 8, os.getppid())", {DENIED}),  # F_SETOWN
        (f"{_FCNTL}fcntl.fcntl(0, 10, 9)", {DENIED}),  # F_SETSIG
        (f"{_FCNTL}fcntl.fcntl(0, 15, bytes(8))", {DENIED}),  # F_SETOWN_EX
        (f"{_FCNTL}fcntl.fcntl(os.open('mine', os.O_CREAT), 1024, 0)", {DENIED}),  # F_SETLEASE
        (f"{_FCNTL}fcntl.fcntl(os.open('.', 0), 1026, 1)", {DENIED}),  # F_NOTIFY
        (f"{_FCNTL}fcntl.fcntl(os.pipe()[0], fcntl.F_SETFL, os.O_ASYNC)", {DENIED}),
        (f"{_FCNTL}fcntl.fcntl(os.pipe()[0], fcntl.F_SETFL, os.O_NONBLOCK)", {"None"}),
        ("import fcntl, os; fcntl.ioctl(os.pipe()[0], 0x8901, bytes(4))", {"OSError"}),  # FIOSETOWN
        ("import fcntl, os; fcntl.ioctl(os.pipe()[0], 0x8902, bytes(4))", {"OSError"}),  # SIOCSPGRP
        ("import fcntl, os; fcntl.ioctl(os.pipe()[0], 0x5452, bytes(4))", {"OSError"}),  # FIOASYNC
        ("import resource as r; result = r.getrlimit(r.RLIMIT_SIGPENDING)", {"(64, 64)"}),
        *([
            # The kernel reads the lower half of the command, 8.
            (_call(72, "0", "ctypes.c_long(2**32 + 8)", "os.getppid()"), {"-1"}),
            (_call(200, "os.getppid()", "0"), {"-1"}),  # tkill
            (_call(129, "os.getppid()", "0", "0"), {"-1"}),  # rt_sigqueueinfo
            (_call(424, "3", "0", "0", "0"), {"-1"}),  # pidfd_send_signal
            (_call(222, "0", "0", "0"), {"-1"}),  # timer_create
            (_call(283, "0", "0"), {"-1"}),  # timerfd_create
            (_call(241, "0", "0"), {"-1"}),  # mq_notify
        ] if _ON_X86 else []),
    ],
    "use": [
        ("bytearray(2**31)", {"MemoryError"}),
        ("import mmap\nkept = []\nwhile True: kept.append(mmap.mmap(-1, 2**26))", {"OSError"}),
        ("while True: pass", {"SIGXCPU"}),
        ("import os\nwhile True: os.dup(0)", {"OSError"}),
        ("import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (1, 1))", {"OSError", DENIED}),
    ],
    "know": [
        ("import os; result = sorted(k for k in os.environ if k not in ('PWD', 'LC_CTYPE', 'PATH', "
         "'OLDPWD'))",
         {"['HOME', 'LANG', 'PYTHONDONTWRITEBYTECODE', 'PYTHONHASHSEED', 'PYTHONPATH', "
          "'PYTHONSAFEPATH', 'TMPDIR', 'TZ']"}),
        ("result = hash('a') == hash('a') and __import__('sys').flags.hash_randomization", {"0"}),
        (f"{_PARENT}os.getpgid(p)", {"OSError"}),
        (f"{_PARENT}os.getsid(p)", {"OSError"}),
        (f"{_PARENT}os.getpriority(os.PRIO_PROCESS, p)", {"OSError"}),
        (f"{_PARENT}os.sched_getaffinity(p)", {"OSError"}),
        (f"{_PARENT}import resource as r; r.prlimit(p, r.RLIMIT_CPU)", {"OSError", DENIED}),
        ("import socket as s; s.socketpair()[0].getsockopt(s.SOL_SOCKET, s.SO_PEERCRED, 12)",
         {"OSError"}),
        ("import socket as s; s.socketpair()[0].getsockopt(s.SOL_SOCKET, 77)", {"OSError"}),
        ("import os; os.sched_getaffinity(0); os.getpgid(0); result = 0 * os.getpriority(0, 0)",
         {"0"}),
    ],
    "become": [
        ("import os; os.setuid(12345)", {DENIED}),
        ("import os; os.setgroups([])", {DENIED}),
        ("import os; os.nice(-5)", {DENIED}),
        ("import os; os.sched_setaffinity(0, {0})", {DENIED}),
        ("import os; os.chroot('.')", {"SIGSYS"}),
        *([
            (_call(number, "0", "0", "0", "0", "0", "0"), {"SIGSYS"})
            for number in (
                *(101, 165, 155, 272, 308, 161, 310, 311),  # ptrace mount pivot_root unshare setns
                *(321, 250, 298, 425, 323, 313, 175, 169, 304),  # bpf keyctl io_uring …
                2**30 + 39,  # getpid, as a program with short pointers (x32) calls it
            )
        ] if _ON_X86 else []),
        *([
            (_call(29, "0", "4096", "0o1666"), {"-1"}),  # shmget
            (_call(157, "4", "1", "0", "0", "0"), {"-1"}),  # prctl: dumpable again
            (_call(157, "1", "0", "0", "0", "0"), {"-1"}),  # prctl: outlive the parent
            (_call(256, "os.getppid()", "0", "0", "0"), {"-1"}),  # migrate_pages
            (_call(314, "os.getppid()", "0", "0"), {"-1"}),  # sched_setattr
            (_call(251, "1", "0", "0"), {"-1"}),  # ioprio_set
            (_INT80, {"SIGSYS", "SIGSEGV"}),
        ] if _ON_X86 else []),
    ],
}  # fmt: skip


def level_here(name: str) -> str:
    """The level of a column on this machine; empty: it cannot be tried here."""
    layers = layers_of(name)
    if "seccomp" not in INNER or ("bubblewrap" in layers and why_no_bubblewrap()):
        return ""
    if "landlock" not in layers:
        return name
    if not ABI or layers["landlock"] > ABI:
        return ""
    return lower(f"bubblewrap+{INNER}", name)


@functools.cache
def broken(name: str, *, ordinary: bool) -> dict[str, list[str]]:
    """Promise -> what broke it at a level: snippets and their outcomes."""
    cases = [case for promise in PROMISES.values() for case in promise]
    came = iter(
        outcomes(
            level_here(name),
            [snippet for snippet, _ in cases],
            ordinary=ordinary,
            memory_mb=200,
            cpu_seconds=1,
        )
    )
    return {
        promise: [
            f"{snippet}  ->  {outcome}"
            for snippet, may in snippets
            if (outcome := next(came)) not in may
        ]
        for promise, snippets in PROMISES.items()
    }


def users() -> list[str]:
    """Who can run workers on this machine."""
    here = ["root"] if os.getuid() == 0 else []
    return here + ([] if why_no_ordinary_user() else ["an ordinary user"])


def cell(name: str, promise: str) -> str:
    """The table's entry for a promise at a level, as all users of this machine."""
    open_ones = {
        snippet for user in users() for snippet in broken(name, ordinary=user != "root")[promise]
    }
    return f"{len(open_ones)} of {len(PROMISES[promise])} open" if open_ones else "kept"


def table() -> str:
    """The table of promises and levels, as Markdown."""
    tried = [name for name in (*ACCEPTED, *REFUSED) if level_here(name)]
    rows = [
        ["a worker's promise", *(f"`{name}`" for name in tried)],
        ["---"] * (len(tried) + 1),
        *([promise, *(cell(name, promise) for name in tried)] for promise in PROMISES),
        [
            "`required`",
            *("accepts" if keeps_every_promise(level_here(name)) else "refuses" for name in tried),
        ],
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    count = sum(map(len, PROMISES.values()))
    return "\n".join(
        [
            *lines,
            "",
            f"Measured on Linux {platform.release().partition('-')[0]} with version {ABI} of "
            f"Landlock: {count} attempts at each level, each in a process of its own without the "
            f"audit hook, as {' and as '.join(users())}.",
            "",
        ]
    )


def committed(page: Path) -> dict[tuple[str, str], str]:
    """The table of a page: (level, promise) -> entry."""
    text = page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    head, _, *rows = [[word.strip(" `") for word in line.split("|")[1:-1]] for line in lines]
    return {(name, row[0]): entry for row in rows for name, entry in zip(head, row, strict=True)}


def main() -> None:
    """Print the table; write it into the page that is given."""
    made = table()
    say = sys.stdout.write
    say(made)
    for name in (*ACCEPTED, *REFUSED):
        if not level_here(name):
            say(f"not tried here: {name}\n")
    if why := why_no_ordinary_user():
        say(f"not tried as an ordinary user: {why}\n")
    wrong = [
        f"{name}, {user}: {promise}: {each}"
        for name in ACCEPTED
        if level_here(name)
        for user in users()
        for promise, cases in broken(name, ordinary=user != "root").items()
        for each in cases
    ]
    if wrong:
        sys.exit("\n".join(["a level that `required` accepts breaks a promise:", *wrong]))
    if sys.argv[1:]:
        page = Path(sys.argv[1])
        before, _, after = page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, rest = after.partition(END)
        page.write_text(f"{before}{BEGIN}\n{made}{END}{rest}", encoding="utf-8")


if __name__ == "__main__":
    main()
