"""Make a Python program's clock and random numbers follow from the number of the current call.

An interpreter loads this file at its start because the folder is first on PYTHONPATH. It uses the
standard library only (Python 3.8 and later) and works inside of programs that we did not write.
The file named by REHEARSAL_MOMENTS says the seed, the clock, and the number of the current call
(its layout: moments.py). All that is drawn follows from these three and from what was drawn before
in the same call of the same process, and not from earlier calls.

Covered: the wall clock of `time` and `datetime`; `random` with all its generators, `secrets`,
`os.urandom`, `uuid`, names of temporary files; and in connections that `sqlite3.connect` opens
CURRENT_TIMESTAMP (also as a DEFAULT), the date functions, random() and randomblob(); the dates of
commits of a `git` that `subprocess` starts. A generator that the program seeded keeps its sequence
during the call in which it was seeded; at a later call it starts again from its seed and the number
of the call.

Real: monotonic clocks, `sleep`, timers, file times, process ids. Not covered: C and Rust code that
asks the kernel itself (numpy's generators are seeded once, here, and then go on over calls; apsw
and DuckDB have their own clock), `sqlite3.Connection(...)` called directly, a schema with
trusted_schema=OFF, memory addresses, the order of threads. `python -I`, `-E` and `-S` do not load
this file, and the byte in the moments file by which our side knows stays 0.
"""

import _random
import _thread
import gc
import mmap
import os
import sys
import time

_NUMBER = 2**32 - 1  # the bits that are the number; those above count the resets
_MASK = (1 << 64) - 1
_STEP = 1_000_000_000  # nanoseconds between the beginnings of two calls
_TICK = 1_000_000  # nanoseconds by which a read moves the clock: no two reads are equal
_PACE_AFTER = 5_000_000_000  # nanoseconds that a call takes before a loop that waits may end
_PACE_READS = 8  # and the reads of the clock that make it a loop
_PYTHON_LOADED = 64  # offset of the byte by which we say that this file was loaded
_NODE_ID = 0x02_00_00_00_00_01  # for uuid1, instead of the machine's own address

_real_monotonic_ns = time.monotonic_ns


class _Moments:
    """The current moment, and what was drawn in it: reads of the clock, and streams by name."""

    def __init__(self, path):
        handle = os.open(path, os.O_RDWR)
        try:
            self._view = memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_READ)).cast("Q")
        finally:
            os.close(handle)
        self._path = path
        self._clock = self._view[3]
        self._seed = int.from_bytes(self._view[4:8], "little")
        self._lock = _thread.RLock()
        self._seen = -1
        self._forks = self._child = 0
        self.number()

    def number(self):
        """The number of the current call; 0: the start of the process."""
        mark = self._view[1]
        if mark != self._seen:
            with self._lock:
                while self._view[2] != mark ^ _MASK:  # it is being written
                    mark = self._view[1]
                if mark != self._seen:
                    self._streams = {}
                    self.reads = self._forks = self._child = 0
                    self._since = _real_monotonic_ns()
                    self._seen = mark
        return mark & _NUMBER

    def mark(self):
        """What differs between any two moments."""
        self.number()
        return self._seen

    def time_ns(self):
        """Unix time in nanoseconds. Each read moves it; it takes up the real pace when the program
        goes on reading it long after the call began: it waits for a time to come."""
        self.number()
        self.reads += 1
        return self.still_ns()

    def still_ns(self):
        """Unix time in nanoseconds, without moving it."""
        base = self._clock + self.number() * _STEP
        passed = self.reads * _TICK
        if self.reads >= _PACE_READS:
            waited = _real_monotonic_ns() - self._since - _PACE_AFTER
            if waited > 0:
                passed += waited // _TICK * _TICK
        return base + passed

    def key(self, name):
        """A key that follows from the moment and a name."""
        name = int.from_bytes(name.encode(), "little")
        words = (self._seed, self.number(), self._child, name)
        return int.from_bytes(b"".join(word.to_bytes(32, "little") for word in words), "little")

    def bits(self, name, count):
        """So many random bits, of the moment's stream with this name."""
        self.number()
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams.setdefault(name, _random.Random(self.key(name)))
        return stream.getrandbits(count)

    def bytes(self, name, count):
        return self.bits(name, 8 * count).to_bytes(count, "little") if count else b""

    def acknowledge(self):
        handle = os.open(self._path, os.O_WRONLY)
        try:
            os.pwrite(handle, b"\1", _PYTHON_LOADED)
        finally:
            os.close(handle)

    def before_fork(self):
        self.number()
        self._forks += 1

    def after_fork(self):
        """A child draws from streams of its own until the next call."""
        self._lock = _thread.RLock()
        self._child = self._child << 16 | self._forks & 0xFFFF
        self._child &= _MASK
        self._streams = {}


def _seed_clock(moments):
    now_ns = moments.time_ns
    wall = getattr(time, "CLOCK_REALTIME", None)

    def time_ns():
        return now_ns()

    def time_():
        return now_ns() / 1e9

    def with_now(real):
        def wrapper(secs=None):
            return real(now_ns() // 1_000_000_000 if secs is None else secs)

        return wrapper

    def with_local(real, args):
        def wrapper(*given):
            return real(*given) if len(given) > args else real(*given, time.localtime())

        return wrapper

    def of_clock(real, units):
        def wrapper(clk_id):
            return now_ns() / units if clk_id == wall else real(clk_id)

        return wrapper

    new = {"time": time_, "time_ns": time_ns}
    new.update((name, with_now(getattr(time, name))) for name in ("gmtime", "localtime", "ctime"))
    new["strftime"] = with_local(time.strftime, 1)
    new["asctime"] = with_local(time.asctime, 0)
    if wall is not None:
        new["clock_gettime"] = of_clock(time.clock_gettime, 1e9)
        real_ns = time.clock_gettime_ns
        new["clock_gettime_ns"] = lambda clk_id: now_ns() if clk_id == wall else real_ns(clk_id)
    for name, function in new.items():
        function.__name__ = function.__qualname__ = name
        setattr(time, name, function)


def _seed_logging(module, moments):
    """Records have the time without moving it: what a program logs only once moves nothing. The
    same for other modules that read the clock beside a call."""
    still = type(time)("time")
    still.__dict__.update(vars(time))
    still.time, still.time_ns = (lambda: moments.still_ns() / 1e9), moments.still_ns
    module.time = still


def _seed_datetime(module, moments):
    """Put `now`, `utcnow` and `today` into the classes themselves: they remain the same classes,
    for isinstance, pickle and C code."""
    now_ns = moments.time_ns
    of_class = {}
    for cls in (module.datetime, module.date):
        of_class[cls] = next(one for one in gc.get_referents(cls.__dict__) if type(one) is dict)
    from_timestamp = of_class[module.datetime]["fromtimestamp"]
    day_from_timestamp = of_class[module.date]["fromtimestamp"]
    utc = module.timezone.utc

    def now(cls, tz=None):
        return from_timestamp.__get__(None, cls)(now_ns() / 1e9, tz)

    def utcnow(cls):
        if sys.version_info >= (3, 12):
            import warnings

            text = (
                "datetime.datetime.utcnow() is deprecated and scheduled for removal in a future "
                "version. Use timezone-aware objects to represent datetimes in UTC: "
                "datetime.datetime.now(datetime.UTC)."
            )
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        return from_timestamp.__get__(None, cls)(now_ns() / 1e9, utc).replace(tzinfo=None)

    def today(cls):
        return cls.fromtimestamp(now_ns() / 1e9)

    def today_date(cls):
        return day_from_timestamp.__get__(None, cls)(now_ns() / 1e9)

    today_date.__name__ = "today"
    of_class[module.datetime].update(
        now=classmethod(now), utcnow=classmethod(utcnow), today=classmethod(today)
    )
    of_class[module.date]["today"] = classmethod(today_date)
    if getattr(module.datetime.now, "__func__", None) is not now:  # looked up before: in a cache
        import ctypes

        for cls in of_class:
            ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))


def _seed_random(module, moments):
    """Every generator starts again at each call; see the module's docstring for seeded ones."""
    cls, number = module.Random, moments.mark
    real_seed, real_gauss, real_setstate = cls.seed, cls.gauss, cls.setstate
    real_random, real_bits = _random.Random.random, _random.Random.getrandbits

    def seed(self, a=None, version=2):
        real_seed(self, moments.bits("generators", 256) if a is None else a, version)
        self.__dict__.update(_seeded=(a, version), _moment=number())

    def refresh(self):
        own = self.__dict__
        if own.get("_moment") == number():
            return
        a, version = own.get("_seeded", (None, 2))
        if a is None:
            seed(self)
        else:
            real_seed(self, a, version)
            real_seed(self, real_bits(self, 256) << 1024 | moments.key("seeded"), 2)
            own["_moment"] = number()

    def random(self):
        refresh(self)
        return real_random(self)

    def getrandbits(self, k):
        refresh(self)
        return real_bits(self, k)

    def gauss(self, *args, **kwargs):  # one number of two is kept for the next time
        refresh(self)
        return real_gauss(self, *args, **kwargs)

    def setstate(self, state):
        real_setstate(self, state)
        self.__dict__["_moment"] = number()

    def getstate(self):
        refresh(self)
        return real_getstate(self)

    real_getstate = cls.getstate
    for function in (seed, random, getrandbits, gauss, setstate, getstate):
        setattr(cls, function.__name__, function)
    hidden = module._inst
    for name, value in list(vars(module).items()):
        if getattr(value, "__self__", None) is hidden:
            setattr(module, name, getattr(hidden, name))
    module._urandom = os.urandom
    if hasattr(os, "register_at_fork"):  # the module's own hook seeds from the kernel
        os.register_at_fork(after_in_child=hidden.seed)


def _seed_uuid(module, moments):
    module._generate_time_safe = module._UuidCreate = None  # C code with a clock of its own
    module._has_uuid_generate_time_safe = False  # Python 3.8 would look for that code again
    module._node = _NODE_ID

    def uuid4():
        """Generate a random UUID."""
        return module.UUID(bytes=moments.bytes("uuid4", 16), version=4)

    module.uuid4 = uuid4
    last = {name: value for name, value in vars(module).items() if name.startswith("_last_")}
    seen = [-1]

    def timed(real):
        def wrapper(*args, **kwargs):
            if seen[0] != moments.mark():
                seen[0] = moments.mark()
                vars(module).update(last)  # the last time, which the next must exceed
            return real(*args, **kwargs)

        wrapper.__name__, wrapper.__doc__ = real.__name__, real.__doc__
        return wrapper

    for name in ("uuid1", "uuid6", "uuid7"):  # the latter since Python 3.14
        if hasattr(module, name):
            setattr(module, name, timed(getattr(module, name)))


def _seed_tempfile(module, moments):
    """Names of files follow from the moment alone: the first use in a process draws one more."""

    def rng(self):
        if self.__dict__.get("_moment") != moments.mark():
            self._moment = moments.mark()
            self._rng = module._Random(moments.key("names"))
        return self._rng

    module._RandomNameSequence.rng = property(rng)


_GIT_DATES = ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")
_ENV = 10  # the place of `env` among the arguments of Popen


def _seed_subprocess(module, moments):
    """Give a program that is started the time of its commits, unless the program has set it."""
    begin = module.Popen.__init__

    def __init__(self, *args, **named):
        if len(args) <= _ENV:
            given = named.get("env")
            inherited = os.environ if given is None else given
            stamp = "%d +0000" % (moments.still_ns() // 1_000_000_000)
            named["env"] = {**dict.fromkeys(_GIT_DATES, stamp), **inherited}
        begin(self, *args, **named)

    module.Popen.__init__ = __init__


_DATE_FUNCTIONS = ("date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff")


def _seed_sqlite(module, moments):
    """Replace SQLite's functions of time and chance on each connection that is opened.

    SQLite's own date functions compute the answers, on a connection in memory: some eight
    microseconds more for each.
    """
    real_connect, create = module.connect, module.Connection.create_function
    own = _thread._local()

    def stamp():
        seconds, rest = divmod(moments.time_ns() // 1_000_000, 1000)
        return "%s.%03d" % (time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)), rest)

    def helper():
        if not hasattr(own, "connection"):
            own.connection = real_connect(":memory:")
        return own.connection

    def dated(name):
        least = 1 if name == "strftime" else 0

        def function(*args):
            if len(args) <= least:
                args += ("now",)
            if any(isinstance(arg, str) and arg.lower() == "now" for arg in args):
                now = stamp()
                args = [now if isinstance(a, str) and a.lower() == "now" else a for a in args]
            marks = ",".join("?" * len(args))
            return helper().execute("SELECT %s(%s)" % (name, marks), args).fetchone()[0]

        return function

    def signed():
        return moments.bits("sql", 64) - (1 << 63)

    def blob(size):
        return moments.bytes("sql", max(1, size))

    def is_known(name):
        try:
            helper().execute("SELECT %s()" % name)
        except module.Error as exc:
            return "no such function" not in str(exc)
        return True

    functions = [
        ("current_timestamp", 0, lambda: stamp()[:19], True),
        ("current_date", 0, lambda: stamp()[:10], True),
        ("current_time", 0, lambda: stamp()[11:19], True),
        ("random", 0, signed, False),
        ("randomblob", 1, blob, False),
        *((name, -1, dated(name), True) for name in _DATE_FUNCTIONS if is_known(name)),
    ]

    def connect(*args, **kwargs):
        connection = real_connect(*args, **kwargs)
        if isinstance(connection, module.Connection):
            for name, count, function, once in functions:
                create(connection, name, count, function, deterministic=once)
        return connection

    connect.__doc__ = real_connect.__doc__
    module.connect = connect


class _Patching:
    """A finder that changes a module after it was loaded, so that unused ones are not loaded."""

    def __init__(self, patches, moments):
        self._patches, self._moments = patches, moments

    def find_spec(self, name, path=None, target=None):
        patch = self._patches.get(name)
        if patch is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            self._moments.number()
            reads = self._moments.reads
            execute(module)
            self._moments.reads = reads  # `logging` reads the clock, once in a process
            if self._patches.pop(name, None):
                patch(module, self._moments)

        spec.loader.exec_module = exec_module
        return spec


def _start(path):
    moments = _Moments(path)
    _seed_clock(moments)
    os.urandom = lambda size: moments.bytes("urandom", size)
    if hasattr(os, "getrandom"):
        os.getrandom = lambda size, flags=0: moments.bytes("urandom", size)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=moments.before_fork, after_in_child=moments.after_fork)
    patches = {
        "logging": _seed_logging,
        "datetime": _seed_datetime,
        "random": _seed_random,
        "uuid": _seed_uuid,
        "tempfile": _seed_tempfile,
        "subprocess": _seed_subprocess,
        "uvicorn.server": _seed_logging,  # it reads the clock each second, by a timer
        "sqlite3.dbapi2": _seed_sqlite,
        "pysqlite3.dbapi2": _seed_sqlite,
    }
    for name in [name for name in patches if name in sys.modules]:
        patches.pop(name)(sys.modules[name], moments)
    sys.meta_path.insert(0, _Patching(patches, moments))
    moments.acknowledge()


def _load_hidden():
    """Run the sitecustomize that would have been loaded if ours were not there."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    rest = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


try:
    if os.environ.get("REHEARSAL_MOMENTS"):
        _start(os.environ["REHEARSAL_MOMENTS"])
finally:
    _load_hidden()
