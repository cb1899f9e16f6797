"""Kills a command at one of its system calls, chosen by number.

The kernel stops the victim at each system call that changes a file (seccomp's user notification),
before it is executed, in whichever thread or library it is made: Python's own files and SQLite's
alike. A supervisor counts them, lets them pass, and at the chosen one sends SIGKILL. So a kill
point is found by counting, not by time, and the product contains nothing for it.
"""

import array
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.cli.main import main
from rehearsal_room.envpool.workers.confine import seccomp
from tests.support.warm_process import Job, WarmProcess

KINDS = {
    "fsync": ("fsync", "fdatasync"),
    "rename": ("rename", "renameat", "renameat2"),
    "unlink": ("unlink", "unlinkat"),
    "ftruncate": ("ftruncate",),
    "pwrite": ("pwrite64",),
}
_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV and _SEND (linux/seccomp.h)
_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE


class Death(msgspec.Struct, frozen=True):
    """How a victim ended."""

    status: int  # exit status, or the negative number of the signal
    counts: dict[str, int]  # its system calls of each kind, the last one included


def run_until(warm: WarmProcess, *arguments: object, kind: str, number: int, output: Path) -> Death:
    """Run `rehearse` with these arguments and kill it at its `number`-th call of this kind, counted
    from 1; with 0 it is never killed."""
    result = output.with_suffix(".json")
    words = tuple(map(str, (result, kind, number, *arguments)))
    job = Job(__name__, "supervise", words, str(output), dict(os.environ), is_whole=True)
    status = warm.start(job).wait(timeout=300.0)
    assert status == 0, output.read_text(errors="replace")[-3000:]
    return msgspec.json.decode(result.read_bytes(), type=Death)


def supervise() -> None:
    """The job of a child of the warm process: start the victim, count, kill, write the result."""
    result, kind, number, *arguments = sys.argv[1:]
    ours, theirs = socket.socketpair()
    victim = os.fork()
    if not victim:
        ours.close()
        sys.argv = ["rehearse", *arguments]
        _hand_off(_stop_at_changes(), theirs)
        main()
        sys.exit(0)
    theirs.close()
    counts = _count_until(_take_over(ours), victim, kind, int(number))
    _, status = os.waitpid(victim, 0)
    death = {"status": os.waitstatus_to_exitcode(status), "counts": counts}
    Path(result).write_text(json.dumps(death))


def is_available() -> bool:
    """Whether this system can stop a process at its system calls: Linux with libseccomp."""
    if seccomp is None:
        return False
    pid = os.fork()
    if not pid:
        try:
            _stop_at_changes()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def _stop_at_changes() -> int:
    """Stop at each call of `KINDS` from now on; returns the descriptor of the notifications."""
    rules: Any = seccomp.SyscallFilter(seccomp.ALLOW)
    for names in KINDS.values():
        for name in names:
            rules.add_rule(seccomp.NOTIFY, name)
    rules.load()
    # pyseccomp has no public way to the descriptor; libseccomp closes its own with the rules.
    return os.dup(seccomp._libseccomp.seccomp_notify_fd(rules._filter))


def _hand_off(descriptor: int, theirs: socket.socket) -> None:
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))
    theirs.sendmsg([b"x"], [rights])
    theirs.close()
    os.close(descriptor)


def _take_over(ours: socket.socket) -> int:
    _, rights, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
    return int(array.array("i", rights[0][2])[0])


def _count_until(notifications: int, victim: int, kind: str, number: int) -> dict[str, int]:
    """Let the victim's calls pass and count them, until it ends or is killed."""
    kinds = {_number_of(name): kind for kind, names in KINDS.items() for name in names}
    counts: Counter[str] = Counter()
    pidfd = os.pidfd_open(victim)
    poll = select.poll()
    poll.register(notifications, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if pidfd in ready:
            return dict(counts)
        request = bytearray(80)  # struct seccomp_notif
        try:
            fcntl.ioctl(notifications, _RECEIVE, request)
        except (FileNotFoundError, InterruptedError):  # the thread has ended meanwhile
            continue
        identity, _, _, call = struct.unpack_from("=QIIi", request)
        counts[kinds[call]] += 1
        if kinds[call] == kind and counts[kind] == number:
            os.kill(victim, signal.SIGKILL)
            return dict(counts)
        try:
            fcntl.ioctl(notifications, _SEND, struct.pack("=QqiI", identity, 0, 0, _CONTINUE))
        except FileNotFoundError:
            continue


def _number_of(name: str) -> int:
    return int(seccomp.resolve_syscall(seccomp.Arch.NATIVE, name))
