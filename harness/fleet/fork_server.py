"""The process from which rollout processes are forked.

It is itself forked before the coordinator has an event loop, a thread or an open log, so what it
forks later, when the coordinator has all of these, inherits none of them: only the settings, the
plan and the imported modules. It does nothing else, and has one thread.

Each rollout process is the leader of its own session: a Ctrl-C of the terminal does not reach it,
and killing its group ends its sandbox workers, too. Everything here ends when the coordinator
closes the control socket or dies.
"""

import os
import random
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from rehearsal_room.envpool.workers.confine import die_with_parent

Main = Callable[[socket.socket, int], None]  # of a rollout process: its socket, its number
_MAX_REQUEST = 64  # bytes


class ForkServer:
    """The coordinator's side."""

    def __init__(self, main: Main) -> None:
        """Fork the server; call it before any thread is started."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            self._control.close()
            _end_with(lambda: _Server(theirs, main).serve())
        theirs.close()

    def spawn(self, number: int) -> tuple[int, socket.socket]:
        """Fork a rollout process; return its process id and the coordinator's end of its socket.
        Raises OSError when no process can be forked."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [f"spawn {number}".encode()], [theirs.fileno()])
        pid = int(self._reply())
        if pid < 0:
            ours.close()
            raise OSError(-pid, os.strerror(-pid))
        return pid, ours

    def end(self, pid: int) -> str:
        """Kill a rollout process and its group, if it still runs; return how it ended."""
        self._control.send(f"end {pid}".encode())
        status = os.waitstatus_to_exitcode(int(self._reply()))
        return f"signal {-status}" if status < 0 else f"exit status {status}"

    def close(self) -> None:
        """End the server and all rollout processes."""
        self._control.close()
        os.waitpid(self._pid, 0)

    def _reply(self) -> bytes:
        data = self._control.recv(_MAX_REQUEST)
        if not data:
            raise ChildProcessError("the process that forks rollout processes has ended")
        return data


def leave_signals_to_coordinator() -> None:
    """Let Ctrl-C and SIGTERM to the whole group of processes do nothing in this one. The programs
    that it starts are ended by SIGTERM, so that is not ignored, but handled."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: None)


class _Server:
    def __init__(self, control: socket.socket, main: Main) -> None:
        self._control = control
        self._main = main
        self._children: set[int] = set()  # not waited for yet, so that no other process has the id

    def serve(self) -> None:
        os.setsid()
        leave_signals_to_coordinator()
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        while True:
            data, descriptors, _, _ = socket.recv_fds(self._control, _MAX_REQUEST, 1)
            if not data:
                break
            word, number = data.decode().split()
            reply = self._spawn(int(number), descriptors[0]) if word == "spawn" else 0
            if word == "end":
                reply = self._end(int(number))
            self._control.send(str(reply).encode())
        for pid in tuple(self._children):
            self._end(pid)

    def _spawn(self, number: int, descriptor: int) -> int:
        """The new process's id, or the negative number of the error."""
        sock, server = socket.socket(fileno=descriptor), os.getpid()
        try:
            pid = os.fork()
        except OSError as exc:
            sock.close()
            return -(exc.errno or 1)
        if pid == 0:
            self._control.close()
            _end_with(lambda: self._run(sock, number, server))
        sock.close()
        self._children.add(pid)
        return pid

    def _run(self, sock: socket.socket, number: int, server: int) -> None:
        os.setsid()
        die_with_parent(server)
        random.seed()
        self._main(sock, number)

    def _end(self, pid: int) -> int:
        """Kill the process and its group; return its wait status."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):  # before its setsid it is in no group of its own
            os.kill(pid, signal.SIGKILL)
        self._children.discard(pid)
        return os.waitpid(pid, 0)[1]


def _end_with(function: Callable[[], None]) -> None:
    """End this forked process after the function, without the parent's handlers of its exit."""
    status = 1
    try:
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
