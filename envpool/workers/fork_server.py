"""The fork server, run as `python -m envpool.workers.fork_server`: one warm process per pool.

It has imported what workers need (two seconds of work) and forks one on request (milliseconds). Its
standard input is the control socket. It runs no hosted code, has one thread, and ends with all of
its workers when the pool closes the control socket or dies.
"""

import contextlib
import fcntl
import gc
import mimetypes
import os
import random
import secrets
import selectors
import signal
import socket

import msgspec

from envpool.workers import confine
from envpool.workers.audit_hook import Witness
from envpool.workers.codec import frame
from envpool.workers.fork_wire import MAX_PACKET, Begin, Died, Order, Spawn, Spawned, Up, Word
from envpool.workers.hosts import Hosts
from envpool.workers.sandbox import LOWEST, environment
from envpool.workers.wire import Failed
from envpool.workers.worker import UNCONFINED, serve, told

_order = msgspec.msgpack.Decoder(Order).decode
_WORKER_SOCKET = 3  # its descriptor in a worker


def main() -> None:
    """Serve the pool until it goes."""
    control = socket.socket(fileno=0)
    confine.die_with_parent(os.getppid())
    begin = _order(control.recv(MAX_PACKET))
    assert isinstance(begin, Begin)
    walls, missing = confine.standing(begin.sandbox)
    outer = "bubblewrap" if begin.wrapped else ""
    level = "+".join(filter(None, (outer, walls))) or LOWEST
    server = _Server(control, begin, level)
    _warm_up()
    server.say(Up(level, tuple(missing)))
    server.serve()


def _warm_up() -> None:
    """Have what workers would look for outside of what they may read; keep it out of their garbage
    collector, so that their memory stays shared."""
    mimetypes.init()
    gc.collect()
    gc.freeze()


class _Server:
    def __init__(self, control: socket.socket, begin: Begin, level: str) -> None:
        self._control = control
        self._begin = begin
        self._level = level
        self._pid = os.getpid()
        self._workers: dict[int, tuple[int, str]] = {}  # pidfd -> pid, scratch folder
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        os.chmod(begin.scratch, 0o300)  # workers cannot list it, nor guess each other's folders

    def say(self, word: Word, descriptors: tuple[int, ...] = ()) -> None:
        socket.send_fds(self._control, [msgspec.msgpack.encode(word)], list(descriptors))

    def serve(self) -> None:
        """Fork and reap until the control socket ends."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._control:
                    self._reap(key.fd)
                elif not self._obey():
                    return self._end()

    def _obey(self) -> bool:
        packet, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET, 1)
        if not packet:
            return False
        order = _order(packet)
        assert isinstance(order, Spawn)
        scratch = os.path.join(self._begin.scratch, secrets.token_hex(8))
        pid = os.fork()
        if pid == 0:
            self._become_worker(descriptors[0], scratch)
        os.close(descriptors[0])
        pidfd = os.pidfd_open(pid)
        self._workers[pidfd] = (pid, scratch)
        self._selector.register(pidfd, selectors.EVENT_READ)
        self.say(Spawned(order.id, pid), (pidfd,))
        return True

    def _become_worker(self, given: int, scratch: str) -> None:
        """Close what is not the worker's, raise the walls, serve. Never returns."""
        status = UNCONFINED
        try:
            confine.die_with_parent(self._pid)
            _keep_only(given)
            status = self._serve(socket.socket(fileno=_WORKER_SOCKET), scratch)
        finally:
            os._exit(status)

    def _serve(self, connection: socket.socket, scratch: str) -> int:
        try:
            os.environ.clear()
            os.environ.update(environment(scratch))
            os.mkdir(scratch, 0o700)
            os.chdir(scratch)
            random.seed()
            witness = Witness(scratch, _WORKER_SOCKET)
            confine.confine(self._level, scratch, self._begin.limits)
            witness.install()
            hosts = Hosts(scratch)
        except Exception as exc:
            connection.sendall(frame(Failed(0, f"a worker cannot be confined: {told(exc)}")))
            return UNCONFINED
        return serve(connection, hosts, witness, self._level, self._begin.limits)

    def _reap(self, pidfd: int) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        pid, scratch = self._workers.pop(pidfd)
        _, status, used = os.wait4(pid, 0)
        remove_tree(scratch)
        self.say(Died(pid, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime))

    def _end(self) -> None:
        for pidfd, (pid, scratch) in self._workers.items():
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.waitpid(pid, 0)
            remove_tree(scratch)


def _keep_only(connection: int) -> None:
    """The socket and three null devices are all the descriptors of a worker."""
    null = os.open("/dev/null", os.O_RDWR)
    connection = fcntl.fcntl(connection, fcntl.F_DUPFD, 16)
    for standard in range(_WORKER_SOCKET):
        os.dup2(null, standard)
    os.dup2(connection, _WORKER_SOCKET, inheritable=False)
    os.closerange(_WORKER_SOCKET + 1, 65536)


def remove_tree(folder: str) -> None:
    """Delete a folder and all in it, however deep it goes: inner folders are moved up first, so
    that neither recursion nor a path's length is a limit. What cannot be deleted is left."""
    pending, number = [folder], 0
    emptied = []
    while pending:
        place = pending.pop()
        emptied.append(place)
        with contextlib.suppress(OSError):
            os.chmod(place, 0o700)
            for entry in list(os.scandir(place)):
                if entry.is_dir(follow_symlinks=False):
                    number += 1
                    os.chmod(entry.path, 0o700)
                    moved = f"{folder}.{number}"
                    os.rename(entry.path, moved)
                    pending.append(moved)
                else:
                    os.unlink(entry.path)
    for place in emptied:
        with contextlib.suppress(OSError):
            os.rmdir(place)


if __name__ == "__main__":
    main()
