"""The audit hook of a worker: it refuses forbidden actions of hosted code and reports the first.

It refuses by raising PermissionError inside the code, and remembers: `AuditHook.violation` becomes
part of the worker's answer. It runs in the same process as the code, so it is not a sandbox layer
(see envpool.workers.sandbox). After every call the worker checks that it still works, with
`is_disabled`.

Source: the audit events of docs.python.org/3.11/library/audit_events.html.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import envpool
from envpool.workers.sandbox import DEVICES, readable

_CANARY = "rehearsal.canary"
_OWN_CODE = os.path.dirname(envpool.__file__ or "") + "/"
_MAX_NAME = 200  # characters of a name in a sentence

# Forbidden in any case: event -> what the code tried, as part of a sentence.
_FORBIDDEN = {
    "ctypes.dlopen": "load a library with ctypes",
    "ctypes.dlsym": "search a library with ctypes",
    "ctypes.dlsym/handle": "search a library with ctypes",
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
    "sys._current_frames": "inspect other threads",
    "sys._current_exceptions": "inspect other threads",
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
# Events whose first arguments are paths to be changed: event -> how many of them.
_PATH_CHANGES = {
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
_LISTINGS = ("os.listdir", "os.scandir", "os.chdir")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

Check = Callable[
    [tuple[Any, ...]], str
]  # arguments of an event -> what is forbidden; empty: nothing


class AuditHook:
    """The audit hook of this process. `connection` is the descriptor of the worker's own socket."""

    def __init__(self, scratch: str, connection: int) -> None:
        self.violation = ""  # the first forbidden action since `begin`; empty: none
        self._last_canary: object = None  # the argument of the last canary event
        self._connection = connection
        self._writable = _with_real_paths(scratch, *DEVICES)
        self._readable = (*_with_real_paths(*readable()), *self._writable)
        self.checks: dict[str, Check] = {
            **{event: _forbid(what) for event, what in _FORBIDDEN.items()},
            **{event: self._path_changes(count) for event, count in _PATH_CHANGES.items()},
            **dict.fromkeys(_LISTINGS, self._listing),
            **dict.fromkeys(("gc.get_objects", "gc.get_referrers"), _all_objects),
            "object.__setattr__": _code_replacement,
            "open": self._opening,
            "sqlite3.connect": self._database,
            "socket.__new__": _socket,
            _CANARY: self._note_canary,
        }

    def install(self) -> None:
        """Check every event of this process from now on; it cannot be uninstalled."""
        check_of = self.checks.get

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            check = check_of(event)  # nearly always None: `id` is an event too
            if check is not None and (tried := check(arguments)):
                self.violation = self.violation or f"the code tried to {tried}"
                raise PermissionError(f"a worker may not {tried}")

        sys.addaudithook(hook)

    def begin(self) -> None:
        """Forget the violation of an earlier request."""
        self.violation = ""

    def is_disabled(self) -> bool:
        """Whether the hook no longer sees events: the code interfered with it."""
        canary = object()
        sys.audit(_CANARY, canary)
        return self._last_canary is not canary

    def _note_canary(self, arguments: tuple[Any, ...]) -> str:
        self._last_canary = arguments[0]
        return ""

    def _opening(self, arguments: tuple[Any, ...]) -> str:
        path, mode, flags = arguments
        if isinstance(path, int):
            return "use the worker's own socket" if path == self._connection else ""
        writes = flags & _WRITE_FLAGS if isinstance(flags, int) else False
        if isinstance(mode, str) and not writes:
            writes = any(letter in mode for letter in "wax+")
        if writes:
            return self._outside(path, self._writable, "write")
        return self._outside(path, self._readable, "open")

    def _listing(self, arguments: tuple[Any, ...]) -> str:
        return self._outside(arguments[0], self._readable, "list")

    def _path_changes(self, count: int) -> Check:
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

    def _outside(self, path: Any, allowed: tuple[str, ...], verb: str) -> str:
        if path is None or isinstance(path, int):
            return ""
        name = str.__str__(os.fsdecode(path))  # a subclass could lie about its text
        if name in allowed:
            return ""
        full = os.path.realpath(name)
        if any(full == each or full.startswith(each + "/") for each in allowed):
            return ""
        return f"{verb} {full[:_MAX_NAME]}"


def _with_real_paths(*paths: str) -> tuple[str, ...]:
    return (*paths, *map(os.path.realpath, paths))


def _forbid(what: str) -> Check:
    def check(arguments: tuple[Any, ...]) -> str:
        name = next((item for item in arguments if isinstance(item, str) and item), "")
        return f"{what} ({name[:_MAX_NAME]})" if name else what

    return check


def _all_objects(_: tuple[Any, ...]) -> str:
    """Our own code may, while it loads a scenario (envpool.hosting.determinism.state_discovery)."""
    caller = sys._getframe(2).f_code.co_filename  # 0: here, 1: the hook
    return "" if caller.startswith(_OWN_CODE) else "list all objects of the process"


def _code_replacement(arguments: tuple[Any, ...]) -> str:
    return "replace the code of a function" if arguments[1] == "__code__" else ""


def _socket(arguments: tuple[Any, ...]) -> str:
    family = arguments[1]
    return "" if family == 1 else "open a network socket"  # AF_UNIX: a pair inside the process
