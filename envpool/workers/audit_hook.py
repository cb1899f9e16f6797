"""The audit hook of a worker: it refuses forbidden actions of hosted code and reports the first.

It refuses by raising PermissionError inside the code, and remembers: `AuditHook.violation` becomes
part of the worker's answer. It runs in the same process as the code, so it is not a sandbox layer
(see envpool.workers.sandbox). After every call the worker checks that it still works, with
`is_disabled`: the hook must refuse a canary.

Invariant: nothing that the code can reach changes what the hook does. Its functions use no globals
and no closures: all that they need are default values, and these are immutable (strings, tuples,
frozensets, builtins, and functions of the same kind, whose defaults cannot be replaced either). So
a frame of the hook, which the code finds in the traceback of each refusal, has nothing to change.
The count of refusals only rises; a text that is removed leaves a violation without a description.

Source: the audit events of docs.python.org/3.11/library/audit_events.html.
"""

import functools
import itertools
import os
import posix
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from rehearsal_room.envpool.hosting.determinism.state_discovery import LISTS_OBJECTS
from rehearsal_room.envpool.workers.sandbox import DEVICES, readable

_CANARY = "rehearsal.canary"

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
# Events whose first arguments are paths to be changed, and how many of them.
_PATH_CHANGES = (
    ("os.chmod", 1),
    ("os.chown", 1),
    ("os.link", 2),
    ("os.mkdir", 1),
    ("os.remove", 1),
    ("os.rename", 2),
    ("os.rmdir", 1),
    ("os.setxattr", 1),
    ("os.truncate", 1),
    ("os.utime", 1),
)
_LISTINGS = ("os.listdir", "os.scandir", "os.chdir")
_ALL_OBJECTS = ("gc.get_objects", "gc.get_referrers")
_OTHERS = ("object.__setattr__", "open", "import", "sqlite3.connect", "socket.__new__", _CANARY)
_WATCHED = frozenset(
    (*_FORBIDDEN, *(event for event, _ in _PATH_CHANGES), *_LISTINGS, *_ALL_OBJECTS, *_OTHERS)
)
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REMOVED = "the code did something forbidden and removed its description"


class AuditHook:
    """The audit hook of this process. `connection` is the descriptor of the worker's own socket."""

    __slots__ = ("_connection", "_count", "_scratch", "_texts")

    def __init__(self, scratch: str, connection: int) -> None:
        self._scratch = scratch
        self._connection = connection
        self._count = itertools.count()  # of refusals: it cannot be lowered
        self._texts: list[str] = []  # the first refusal

    @property
    def violation(self) -> str:
        """The first forbidden action since the hook was installed; empty: none."""
        count = self._count.__reduce__()[1][0]  # without advancing it
        return "" if not count else self._texts[0] if self._texts else _REMOVED

    def install(self) -> None:
        """Check every event of this process from now on; it cannot be uninstalled."""
        libraries, devices = shared_paths()
        writable = (*_with_real_paths(self._scratch), *devices)
        outside = _without_globals(_outside, real=_without_globals(_real))
        sys.addaudithook(
            _without_globals(
                _hook,
                outside=outside,
                own=(outside, *outside.__defaults__),
                writable=writable,
                readable=(*libraries, *writable),
                libraries=libraries,
                connection=self._connection,
                count=self._count,
                texts=self._texts,
            )
        )

    def is_disabled(self, audit: Any = sys.audit) -> bool:
        """Whether the hook no longer refuses: the code interfered with it."""
        try:
            audit(_CANARY)
        except PermissionError:
            return False
        return True


# The functions of the hook: no globals, no closures (see the module's docstring) -----------------


def _hook(
    event: str,
    arguments: tuple[Any, ...],
    outside: Any = None,
    own: tuple[Any, ...] = (),
    writable: tuple[str, ...] = (),
    readable: tuple[str, ...] = (),
    libraries: tuple[str, ...] = (),
    connection: int = -1,
    count: Iterator[int] = itertools.count(),  # noqa: B008 - replaced in `install`
    texts: Any = None,
    watched: frozenset[str] = _WATCHED,
    forbidden: tuple[tuple[str, str], ...] = tuple(_FORBIDDEN.items()),
    path_changes: tuple[tuple[str, int], ...] = _PATH_CHANGES,
    listings: tuple[str, ...] = _LISTINGS,
    all_objects: tuple[str, ...] = _ALL_OBJECTS,
    loader: CodeType = LISTS_OBJECTS,
    write_flags: int = _WRITE_FLAGS,
    canary: str = _CANARY,
    refusal: type[Exception] = PermissionError,
    frame: Any = sys._getframe,
    advance: Any = next,
    is_a: Any = isinstance,
    number: type[int] = int,
    text: type[str] = str,
    binary: type[bytes] = bytes,
    length: Any = len,
) -> None:
    """Refuse an event with PermissionError, or return."""
    if event not in watched:  # nearly always: `id` is an event too
        return
    if event == canary:
        raise refusal(event)
    tried = ""
    for name, what in forbidden:
        if name == event:
            tried = what
            for item in arguments:
                if is_a(item, text) and item and tried == what:
                    tried = what + " (" + text.__str__(item)[:200] + ")"
    for name, many in path_changes:
        if name == event:
            for path in arguments[:many]:
                tried = tried or outside(path, writable, "change")
    if event in listings:
        tried = outside(arguments[0], readable, "list")
    elif event in all_objects:
        # Our own code may, while it loads a scenario.
        tried = "" if frame(1).f_code is loader else "list all objects of the process"
    elif event == "open":
        path, mode, flags = arguments
        writes = is_a(flags, number) and flags & write_flags
        if is_a(mode, text) and not writes:
            for letter in text.__str__(mode):
                writes = writes or letter in "wax+"
        if is_a(path, number):
            tried = "use the worker's own socket" if path == connection else ""
        elif writes:
            tried = outside(path, writable, "write")
        else:
            tried = outside(path, readable, "open")
    elif event == "import" and length(arguments) > 1:  # the second is a compiled library's file
        tried = outside(arguments[1], libraries, "load the library")
    elif event == "sqlite3.connect":
        name = arguments[0]
        if is_a(name, binary):
            name = binary.decode(name, "utf-8", "surrogateescape")
        if is_a(name, text):
            name = text.__str__(name)
            path = name.removeprefix("file:").partition("?")[0]
            if path and path != ":memory:" and "mode=memory" not in name:
                tried = outside(path, writable, "open the database")
    elif event == "socket.__new__" and arguments[1] != 1:  # AF_UNIX: a pair inside the process
        tried = "open a network socket"
    elif event == "object.__setattr__":
        if arguments[1] == "__code__":
            tried = "replace the code of a function"
        for function in own:
            if arguments[0] is function:
                tried = "change the audit hook"
    if tried:
        advance(count)
        if not texts:
            texts.append("the code tried to " + tried)
        raise refusal("a worker may not " + tried)


def _outside(
    path: Any,
    allowed: tuple[str, ...],
    verb: str,
    real: Any = None,
    fspath: Any = os.fspath,
    is_a: Any = isinstance,
    number: type[int] = int,
    text: type[str] = str,
    binary: type[bytes] = bytes,
) -> str:
    """What is forbidden about a path, as part of a sentence; empty: nothing."""
    if path is None or is_a(path, number):
        return ""
    name = fspath(path)
    if is_a(name, binary):
        name = binary.decode(name, "utf-8", "surrogateescape")
    name = text.__str__(name)  # a subclass could lie about its text
    if name in allowed:
        return ""
    full: str = real(name)
    for each in allowed:
        if full == each or full.startswith(each + "/"):
            return ""
    return verb + " " + full[:200]


def _real(
    path: str,
    readlink: Any = posix.readlink,
    getcwd: Any = posix.getcwd,
    not_a_link: tuple[type[Exception], ...] = (OSError, ValueError),
) -> str:
    """A path from the root without links, as os.path.realpath gives it."""
    pending = (path if path.startswith("/") else getcwd() + "/" + path).split("/")[::-1]
    full, links = "", 0
    while pending:
        name = pending.pop()
        if name == "" or name == ".":
            continue
        if name == "..":
            full = full.rpartition("/")[0]
            continue
        step = full + "/" + name
        try:
            target = readlink(step)
        except not_a_link:
            full = step
            continue
        links += 1
        if links > 40:  # as the kernel does: a circle
            return step
        full = "" if target.startswith("/") else full
        pending += target.split("/")[::-1]
    return full or "/"


def _without_globals(function: Any, **values: Any) -> Any:
    """The function with an empty dict of globals, and with these default values."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    first = len(names) - len(function.__defaults__)
    defaults = zip(names[first:], function.__defaults__, strict=True)
    bound = tuple(values.get(name, value) for name, value in defaults)
    return FunctionType(function.__code__, {}, function.__name__, bound)


@functools.cache
def shared_paths() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The libraries and the devices that all workers may use. The fork server looks them up, so
    that its workers need not."""
    return _with_real_paths(*readable()), _with_real_paths(*DEVICES)


def _with_real_paths(*paths: str) -> tuple[str, ...]:
    return (*paths, *map(os.path.realpath, paths))
