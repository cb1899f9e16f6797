"""The fork server, run as `python -m rehearsal_room.envpool.workers.fork_server`: one warm process
per pool.

It has imported the modules that workers need (two seconds of work) and forks a worker on request
(milliseconds). Its standard input is the control socket. It runs no code of others, only a record
of our own once (envpool.hosting.warm_up), and has one thread. All workers are forked from it, never
from a worker: so none inherits anything from hosted code.
It ends, with all of its workers, when the pool closes the control socket or dies.
"""

import contextlib
import fcntl
import gc
import os
import random
import secrets
import selectors
import signal
import socket
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec

from rehearsal_room.envpool.hosting.warm_up import warm_up
from rehearsal_room.envpool.kernel.huge_pages import HugePages
from rehearsal_room.envpool.workers import confine
from rehearsal_room.envpool.workers.audit_hook import AuditHook, shared_paths
from rehearsal_room.envpool.workers.fork_wire import (
    MAX_PACKET,
    ClientMessage,
    Configure,
    Died,
    ServerMessage,
    Spawn,
    Spawned,
    Up,
)
from rehearsal_room.envpool.workers.heap import fill_free_blocks
from rehearsal_room.envpool.workers.integrity import IntegrityCheck
from rehearsal_room.envpool.workers.messages.codec import frame
from rehearsal_room.envpool.workers.messages.wire import WorkerFailed
from rehearsal_room.envpool.workers.sandbox import LOWEST, environment
from rehearsal_room.envpool.workers.scenario_hosts import ScenarioHosts
from rehearsal_room.envpool.workers.worker import EXIT_UNCONFINED, ToolWorker, describe, serve

_read_message = msgspec.msgpack.Decoder(ClientMessage).decode
_WORKER_SOCKET = 3  # the descriptor of its socket in a worker


def main() -> None:
    """Serve the pool until it closes the control socket."""
    control = socket.socket(fileno=0)
    confine.die_with_parent(os.getppid())
    configure = _read_message(control.recv(MAX_PACKET))
    assert isinstance(configure, Configure)
    os.environ.clear()
    os.environ.update(environment(configure.scratch))
    layers, missing = confine.available_layers(configure.sandbox, configure.limits.at_most)
    outer = "bubblewrap" if configure.wrapped else ""
    level = "+".join(filter(None, (outer, layers))) or LOWEST
    run_verifier = warm_up(_warm_folder(configure.scratch))
    server = _Server(control, configure, level, run_verifier)
    server.send(Up(level, tuple(missing)))
    server.serve()


def _warm_folder(scratch: str) -> Path:
    folder = Path(scratch, "warm")
    folder.mkdir()
    return folder


class _Server:
    def __init__(
        self,
        control: socket.socket,
        configure: Configure,
        level: str,
        run_verifier: Callable[[Path], None],
    ) -> None:
        self._control = control
        self._settings = configure
        self._level = level
        self._confinement = confine.Confinement(level, configure.limits)
        shared_paths()
        self._run_verifier = run_verifier
        self._huge_pages = HugePages()
        self._integrity = IntegrityCheck()  # of what the workers inherit
        self._integrity.changed_name()
        gc.freeze()
        fill_free_blocks()
        self._pid = os.getpid()
        self._workers: dict[int, tuple[int, str]] = {}  # pidfd -> pid, scratch folder
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        os.chmod(configure.scratch, 0o300)  # workers cannot list it, nor guess each other's folders

    def send(self, message: ServerMessage, descriptors: tuple[int, ...] = ()) -> None:
        socket.send_fds(self._control, [msgspec.msgpack.encode(message)], list(descriptors))

    def serve(self) -> None:
        """Fork and reap until the control socket ends."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._control:
                    self._reap(key.fd)
                elif not self._handle_request():
                    return self._end()

    def _handle_request(self) -> bool:
        """Fork a worker; False: the control socket was closed."""
        packet, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET, 1)
        if not packet:
            return False
        spawn = _read_message(packet)
        assert isinstance(spawn, Spawn)
        scratch = os.path.join(self._settings.scratch, secrets.token_hex(8))
        pid = os.fork()
        if pid == 0:
            self._become_worker(descriptors[0], scratch)
        os.close(descriptors[0])
        pidfd = os.pidfd_open(pid)
        self._workers[pidfd] = (pid, scratch)
        self._selector.register(pidfd, selectors.EVENT_READ)
        self.send(Spawned(spawn.id, pid), (pidfd,))
        return True

    def _become_worker(self, connection: int, scratch: str) -> None:
        """Close the other descriptors, apply the sandbox, serve. Never returns."""
        status = EXIT_UNCONFINED
        try:
            confine.die_with_parent(self._pid)
            _close_all_but(connection, self._confinement.descriptors)
            status = self._serve(socket.socket(fileno=_WORKER_SOCKET), scratch)
        finally:
            os._exit(status)

    def _serve(self, connection: socket.socket, scratch: str) -> int:
        try:
            os.environ["HOME"] = os.environ["TMPDIR"] = scratch
            os.mkdir(scratch, 0o700)
            os.chdir(scratch)
            random.seed()
            self._confinement.apply(scratch)
            audit_hook = AuditHook(scratch, _WORKER_SOCKET)
            audit_hook.install()
            hosts = ScenarioHosts(scratch)
            self._run_verifier(Path(scratch))  # our own; see envpool.hosting.warm_up
            self._integrity.changed_name()
        except Exception as exc:
            why = f"a worker cannot be confined: {describe(exc)}"
            connection.sendall(frame(WorkerFailed(0, why)))
            return EXIT_UNCONFINED
        limits = self._settings.limits
        worker = ToolWorker(hosts, audit_hook, self._integrity, limits, self._huge_pages)
        return serve(connection, worker, self._level)

    def _reap(self, pidfd: int) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        pid, scratch = self._workers.pop(pidfd)
        _, status, used = os.wait4(pid, 0)
        remove_tree(scratch)
        self.send(Died(pid, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime))

    def _end(self) -> None:
        for pidfd, (pid, scratch) in self._workers.items():
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.waitpid(pid, 0)
            remove_tree(scratch)


def _close_all_but(connection: int, kept: list[int]) -> None:
    """Leave a worker only its socket, three null devices and what its confinement needs."""
    null = os.open("/dev/null", os.O_RDWR)
    connection = fcntl.fcntl(connection, fcntl.F_DUPFD, 16)
    for standard in range(_WORKER_SOCKET):
        os.dup2(null, standard)
    os.dup2(connection, _WORKER_SOCKET, inheritable=False)
    for first, last in pairwise([_WORKER_SOCKET, *sorted(kept), 65536]):
        os.closerange(first + 1, last)


def remove_tree(folder: str) -> None:
    """Delete a folder with its contents, however deep: inner folders are moved up first, so that
    neither recursion nor the length of a path is a limit. What cannot be deleted stays."""
    pending, number = [folder], 0
    emptied = []
    while pending:
        current = pending.pop()
        emptied.append(current)
        with contextlib.suppress(OSError):
            os.chmod(current, 0o700)
            for entry in list(os.scandir(current)):
                if entry.is_dir(follow_symlinks=False):
                    number += 1
                    os.chmod(entry.path, 0o700)
                    moved = f"{folder}.{number}"
                    os.rename(entry.path, moved)
                    pending.append(moved)
                else:
                    os.unlink(entry.path)
    for path in emptied:
        with contextlib.suppress(OSError):
            os.rmdir(path)


if __name__ == "__main__":
    main()
