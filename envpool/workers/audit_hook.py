"""The witness: an audit hook that tells in a sentence what hosted code tried and may not.

It refuses by raising PermissionError inside the code, and remembers: `Witness.seen` is what the
worker's answer says. It stands in the same process as the code, so it is no wall (see
envpool.workers.sandbox); whether it still stands is asked after every call (`is_silenced`).

Source: the audit events of docs.python.org/3.11/library/audit_events.html.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import envpool
from envpool.workers.sandbox import DEVICES, readable

_CANARY = "rehearsal.canary"
_OURS = os.path.dirname(envpool.__file__ or "") + "/"
_SHOWN = 200  # characters of a name that a sentence shows

# What may not be done at all: event -> what the sentence says the code tried.
_NEVER = {
    "ctypes.dlopen": "load a library with ctypes",
    "ctypes.dlsym": "look into a library with ctypes",
    "ctypes.dlsym/handle": "look into a library with ctypes",
    "ctypes.string_at": "read memory with ctypes",
    "ctypes.wstring_at": "read memory with ctypes",
    "ctypes.cdata": "read memory with ctypes",
    "ctypes.cdata/buffer": "read memory with ctypes",
    "ctypes.call_function": "call a foreign function with ctypes",
    "ctypes.set_errno": "use ctypes",
    "os.exec": "execute a program",
    "os.fork": "fork",
    "os.forkpty": "fork",
    "os.posix_spawn": "start a process",
    "os.spawn": "start a process",
    "os.system": "run a shell command",
    "pty.spawn": "start a process",
    "subprocess.Popen": "start a process",
    "os.kill": "send a signal",
    "os.killpg": "send a signal",
    "signal.pthread_kill": "send a signal",
    "resource.setrlimit": "change its limits",
    "resource.prlimit": "change its limits",
    "sys.addaudithook": "add an audit hook",
    "sys.settrace": "trace the worker",
    "sys.setprofile": "trace the worker",
    "sys._current_frames": "look into other threads",
    "sys._current_exceptions": "look into other threads",
    "sqlite3.enable_load_extension": "load an extension into SQLite",
    "sqlite3.load_extension": "load an extension into SQLite",
    "urllib.Request": "open a URL",
    "http.client.connect": "connect to a server",
    "smtplib.connect": "connect to a mail server",
    "ftplib.connect": "connect to a server",
    "socket.connect": "connect a socket",
    "socket.bind": "bind a socket",
    "socket.sendto": "send over a socket",
    "socket.sendmsg": "send over a socket",
    "socket.getaddrinfo": "resolve a name",
    "socket.gethostbyname": "resolve a name",
    "socket.gethostbyaddr": "resolve a name",
    "socket.getnameinfo": "resolve a name",
    "socket.sethostname": "rename the host",
    "syslog.openlog": "write to the system's log",
    "syslog.syslog": "write to the system's log",
}
# Whose first arguments are paths that are changed: event -> how many of them.
_CHANGES = {
    "os.chmod": 1,
    "os.chown": 1,
    "os.link": 2,
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rename": 2,
    "os.rmdir": 1,
    "os.setxattr": 1,
    "os.truncate": 1,
    "os.utime": 1,
}
_LISTS = ("os.listdir", "os.scandir", "os.chdir")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

Check = Callable[[tuple[Any, ...]], str]


class Witness:
    """What was seen in this process. `connection` is the worker's own descriptor."""

    def __init__(self, scratch: str, connection: int) -> None:
        self.seen = ""  # the first forbidden thing that was tried since `begin`; empty: nothing
        self._heard: object = None  # what the last canary brought
        self._connection = connection
        self._writable = _and_real(scratch, *DEVICES)
        self._readable = (*_and_real(*readable()), *self._writable)
        self.checks: dict[str, Check] = {
            **{event: _never(what) for event, what in _NEVER.items()},
            **{event: self._changes(count) for event, count in _CHANGES.items()},
            **dict.fromkeys(_LISTS, self._listed),
            **dict.fromkeys(("gc.get_objects", "gc.get_referrers"), _all_objects),
            "object.__setattr__": _code_replaced,
            "open": self._opened,
            "sqlite3.connect": self._database,
            "socket.__new__": _socket,
            _CANARY: self._hear,
        }

    def install(self) -> None:
        """Hear every event of this process from now on, for good."""
        check_of = self.checks.get

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            check = check_of(event)  # nearly always None: `id` is an event too
            if check is not None and (tried := check(arguments)):
                self.seen = self.seen or f"the code tried to {tried}"
                raise PermissionError(f"a worker may not {tried}")

        sys.addaudithook(hook)

    def begin(self) -> None:
        """Forget what was seen."""
        self.seen = ""

    def is_silenced(self) -> bool:
        """Whether the hook does not hear events any more: the code got in its way."""
        canary = object()
        sys.audit(_CANARY, canary)
        return self._heard is not canary

    def _hear(self, arguments: tuple[Any, ...]) -> str:
        self._heard = arguments[0]
        return ""

    def _opened(self, arguments: tuple[Any, ...]) -> str:
        path, mode, flags = arguments
        if isinstance(path, int):
            return "use the worker's own socket" if path == self._connection else ""
        writes = flags & _WRITE_FLAGS if isinstance(flags, int) else False
        if isinstance(mode, str) and not writes:
            writes = any(letter in mode for letter in "wax+")
        return self._outside(path, self._writable, "write") if writes else self._reads(path)

    def _reads(self, path: Any) -> str:
        return self._outside(path, self._readable, "open")

    def _listed(self, arguments: tuple[Any, ...]) -> str:
        return self._outside(arguments[0], self._readable, "look into")

    def _changes(self, count: int) -> Check:
        def check(arguments: tuple[Any, ...]) -> str:
            tried = (self._outside(path, self._writable, "change") for path in arguments[:count])
            return next(filter(None, tried), "")

        return check

    def _database(self, arguments: tuple[Any, ...]) -> str:
        name = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else ""
        path = name.removeprefix("file:").partition("?")[0]
        if not path or path == ":memory:" or "mode=memory" in name:
            return ""
        return self._outside(path, self._writable, "open the database")

    def _outside(self, path: Any, places: tuple[str, ...], verb: str) -> str:
        if path is None or isinstance(path, int):
            return ""
        name = str.__str__(os.fsdecode(path))  # not a subclass's idea of itself
        if name in places:
            return ""
        full = os.path.realpath(name)
        if any(full == place or full.startswith(place + "/") for place in places):
            return ""
        return f"{verb} {full[:_SHOWN]}"


def _and_real(*paths: str) -> tuple[str, ...]:
    return (*paths, *map(os.path.realpath, paths))


def _never(what: str) -> Check:
    def check(arguments: tuple[Any, ...]) -> str:
        named = next((item for item in arguments if isinstance(item, str) and item), "")
        return f"{what} ({named[:_SHOWN]})" if named else what

    return check


def _all_objects(_: tuple[Any, ...]) -> str:
    """Ours do it while a scenario is loaded (envpool.hosting.determinism.state_discovery)."""
    asks = sys._getframe(2).f_code.co_filename  # 0: here, 1: the hook
    return "" if asks.startswith(_OURS) else "look through all objects of the process"


def _code_replaced(arguments: tuple[Any, ...]) -> str:
    return "replace the code of a function" if arguments[1] == "__code__" else ""


def _socket(arguments: tuple[Any, ...]) -> str:
    family = arguments[1]
    return "" if family == 1 else "open a network socket"  # AF_UNIX: a pair inside the process
