"""Module state of generated code: every world sees what it would see alone in a process."""

import os
import sys
from collections.abc import Iterator
from random import Random
from types import ModuleType

import pytest

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.hosting.determinism.clock import frozen_clock
from rehearsal_room.envpool.hosting.determinism.module_state import MAX_STATE, ModuleState
from tests.support.hosted_modules import load_module

NAME = "hosted_by_the_tests_of_module_state"
CLOCK = "2026-03-14T09:30:00Z"


def _load(text: str) -> ModuleType:
    """The module that a host makes from a text, with the same name in every worker."""
    with frozen_clock(CLOCK):
        return load_module(NAME, text)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    sys.modules.pop(NAME, None)


# The iteration order of a set from which elements were removed cannot be pickled.
_SET_ORDER = "sets, in their iteration order"

# Each has a function `call` that takes a small number and whose result depends on earlier calls.
STATEFUL = {
    "a global that is assigned": """
total = 0
def call(n):
    global total
    total += n
    return total
""",
    "a global that does not exist at first": """
def call(n):
    global newest
    try:
        last = newest
    except NameError:
        last = None
    newest = n
    if n == 3:
        del newest
    return last
""",
    "a dict": """
cache = {"start": 0}
def call(n):
    cache.setdefault(n, len(cache))
    return list(cache.items())
""",
    "a list of dicts, changed inside": """
rows = [{"id": 1, "tags": []}, {"id": 2, "tags": []}]
def call(n):
    row = rows[n % 2]
    row["tags"].append(n)
    return repr(rows)
""",
    "two names and an instance for one object": """
class Holder:
    def __init__(self, rows):
        self.rows = rows
rows = []
alias = rows
holder = Holder(rows)
table = {"rows": rows}
def call(n):
    alias.append(n)
    return rows is alias is holder.rows is table["rows"], list(rows)
""",
    "containers of every kind": """
from collections import Counter, OrderedDict, defaultdict, deque
counts, order, lists = Counter(), OrderedDict(a=1, b=2), defaultdict(list)
last, seen, raw = deque(maxlen=2), set(), bytearray(b"x")
def call(n):
    counts[n] += 1
    order[n] = n
    order.move_to_end("a")
    lists[n].append(n)
    last.append(n)
    seen.add(n)
    raw.extend(b"%d" % n)
    return repr((counts, order, lists, last, last.maxlen, sorted(seen), raw, lists.default_factory))
""",
    "subclasses of containers": """
class Table(dict):
    def __init__(self):
        super().__init__(a=1)
        self.writes = 0
    def __setitem__(self, key, value):
        self.writes += 1
        super().__setitem__(key, value)
    def clear(self):
        raise RuntimeError("not to be cleared")
table = Table()
def call(n):
    table[n] = n
    return list(table.items()), table.writes
""",
    "iterators": """
import itertools
ids = itertools.count(10)
letters = iter("abcdefghijklmnopqrstuvwxyz")
next_number = itertools.count(1).__next__
pair = (itertools.count(5), "x")
def call(n, own=itertools.count(100)):
    return next(ids), next(letters, None), next_number(), next(pair[0]), next(own)
""",
    "a source of random numbers": """
import random
rng = random.Random(7)
def call(n):
    return rng.random(), rng.gauss(0, 1)
""",
    "a singleton": """
class Store:
    __slots__ = ("items", "_Store__hidden", "last")
    def __init__(self):
        self.items = {}
        self.__hidden = 0
    def add(self, n):
        self.__hidden += n
        self.items[n] = self.__hidden
        before = getattr(self, "last", None)
        self.last = n
        if n == 2:
            del self.last
        return before, repr(self.items)
store = Store()
add = store.add
handlers = {"add": store.add}
def call(n):
    return add(n), handlers["add"](n)
""",
    "attributes of a class": """
class Base:
    total = 0
    log = []
    @classmethod
    def add(cls, n):
        cls.total += n
        cls.log.append(n)
        if n == 3:
            cls.extra = n
        return cls.total, list(cls.log), getattr(cls, "extra", None)
class Derived(Base):
    pass
class Named:
    total = 0
def call(n):
    Named.total += n
    return (Derived if n % 2 else Base).add(n), Base.total, Derived.total, Named.total
""",
    "attributes of a function": """
def call(n):
    call.log = [*getattr(call, "log", []), n]
    return call.log
""",
    "a mutable default": """
def call(n, seen=[], *, also={}):
    seen.append(n)
    also[n] = len(seen)
    return list(seen), dict(also)
""",
    "variables of outer functions": """
def counted(function):
    calls, log = 0, []
    def wrapper(n):
        nonlocal calls
        calls += n
        log.append(n)
        return calls, list(log), function(n)
    return wrapper
@counted
@counted
def call(n):
    return n
""",
    "caches of functions": """
import functools
from functools import cache, lru_cache
made = 0
def _new(n):
    global made
    made += 1
    return made, n
@lru_cache(maxsize=2)
def two(n):
    return _new(n)
@functools.cache
def all_of(n):
    return _new(n)
class Service:
    @lru_cache
    def get(self, n, *, flag=True):
        return _new(n)
service = Service()
def call(n):
    if n == 3:
        all_of.cache_clear()
    return two(n), all_of(n), service.get(n), two.cache_info(), Service.get.cache_info()[:2]
""",
    "dataclasses": """
from dataclasses import dataclass, field
@dataclass
class Cart:
    items: list = field(default_factory=list)
    open: bool = True
@dataclass(frozen=True, slots=True)
class Frozen:
    log: list
cart, kept = Cart(), Frozen([])
carts = {}
def call(n):
    cart.items.append(n)
    cart.open = not cart.open
    kept.log.append(n)
    carts.setdefault(n, Cart()).items.append(n)
    return repr((cart, kept, carts))
""",
    "a model of Pydantic": """
from pydantic import BaseModel, PrivateAttr
class Settings(BaseModel):
    name: str = "x"
    seen: list[int] = []
    _calls: int = PrivateAttr(default=0)
settings = Settings()
found = {}
def call(n):
    settings.name += str(n)
    settings.seen.append(n)
    settings._calls += 1
    found[n] = Settings(name=str(n))
    return settings.model_dump(), settings._calls, sorted(settings.model_fields_set), repr(found)
""",
    "cached rows of SQLAlchemy": """
from sqlalchemy import Column, Integer, String
from sqlalchemy.orm import declarative_base
Base = declarative_base()
class User(Base):
    __tablename__ = "users"
    id = Column(Integer, primary_key=True)
    name = Column(String)
users = {}
current = None
def call(n):
    global current
    last, current = current, User(id=n, name=str(len(users)))
    users.setdefault(n, current)
    return last and last.name, [(user.id, user.name) for user in users.values()]
""",
    "names that are accessed indirectly": """
def call(n):
    names = globals()
    names["log"] = names.get("log", ()) + (n,)
    exec("seen = 1 + seen" if n == 2 and "seen" in names else "seen = 0", names)
    return names["log"], names["seen"]
seen = 0
""",
    "the environment": """
import os
def call(n):
    os.environ["REHEARSAL_TEST"] = os.environ.get("REHEARSAL_TEST", "") + str(n)
    seen = os.environ["REHEARSAL_TEST"]
    if n == 3:
        del os.environ["REHEARSAL_TEST"]
    return seen
""",
    "plain objects of the standard library": """
import heapq, queue, threading
from types import SimpleNamespace
from collections import UserDict
space, users, waiting = SimpleNamespace(n=0), UserDict(), queue.Queue()
local, event, heap = threading.local(), threading.Event(), []
def call(n):
    space.n += n
    users[n] = space.n
    waiting.put(n)
    local.log = getattr(local, "log", []) + [n]
    was_set = event.is_set()
    event.set() if n % 2 else event.clear()
    heapq.heappush(heap, -n)
    taken = waiting.get() if n == 3 else waiting.qsize()
    return space.n, dict(users), taken, local.log, was_set, heap[0]
""",
    "a tuple of lists, a list that contains itself": """
pair = ([], {})
knot = []
knot.append(knot)
def call(n):
    pair[0].append(n)
    pair[1][n] = pair[0]
    knot.append(n)
    return repr(pair), knot[0] is knot, pair[1][n] is pair[0], len(knot)
""",
    _SET_ORDER: """
seen = set()
def call(n):
    seen.add(n * 8)
    seen.discard((n - 1) * 8)
    return list(seen)
""",
    "locks, which are not state": """
import threading
lock, log, locks = threading.Lock(), [], {}
again = threading.RLock()
def call(n):
    free = lock.acquire(blocking=False)
    again.acquire()
    locks.setdefault(n, threading.Lock())
    log.append(n)
    return free, list(log), locks[n].locked()
""",
    "state of an application": """
from fastapi import Depends, FastAPI, Request
app = FastAPI()
app.state.count = 0
class Limit:
    def __init__(self, most):
        self.most, self.used = most, 0
    def __call__(self):
        self.used += 1
        return self.used
class Counting:
    def __init__(self, app):
        self.app, self.count = app, 0
    async def __call__(self, scope, receive, send):
        self.count += 1
        await self.app(scope, receive, send)
app.add_middleware(Counting)
@app.get("/a")
def first(request: Request, used: int = Depends(Limit(1))):
    pass
@app.get("/b", dependencies=[Depends(Limit(2))])
def second():
    pass
def call(n):
    app.state.count += n
    app.state.log = [*getattr(app.state, "log", []), n]
    limits = [route.dependant.dependencies[0].call for route in app.routes[-2:]]
    layer = app.middleware_stack = app.middleware_stack or app.build_middleware_stack()
    while not isinstance(layer, Counting):
        layer = layer.app
    layer.count += 1
    return app.state.count, app.state.log, [limit() for limit in limits[: 1 + n % 2]], layer.count
""",
}


_TURNS = [(world, number) for world in range(4) for number in (1, 2, 3, 1, 2, 2, 3, 1)]
Random(3).shuffle(_TURNS)


def _run_alone(text: str, calls: list[int]) -> list[str]:
    """The results of the code in a process where it is alone."""
    module, environment = _load(text), os.environ.copy()
    try:
        return [repr(module.call(n)) for n in calls]
    finally:
        os.environ.clear()
        os.environ.update(environment)


def _take_turns(workers: list[tuple[ModuleType, ModuleState]]) -> list[list[str]]:
    """The results of four worlds that take turns and move from worker to worker."""
    states = [b""] * 4
    results: list[list[str]] = [[], [], [], []]
    for turn, (world, number) in enumerate(_TURNS):
        module, state = workers[turn % len(workers)]
        sys.modules[NAME] = module
        state.restore(states[world])
        results[world].append(repr(module.call(number)))
        states[world] = state.capture()
    return results


def _worker(text: str) -> tuple[ModuleType, ModuleState]:
    module = _load(text)
    return module, ModuleState(module)


@pytest.mark.parametrize("what", [what for what in STATEFUL if what != _SET_ORDER])
def test_worlds_see_what_they_would_see_alone(what: str) -> None:
    """Worlds that take turns in one module give the results of separate modules."""
    text = STATEFUL[what]
    together = _take_turns([_worker(text)])
    for world in range(4):
        alone = _run_alone(text, [number for which, number in _TURNS if which == world])
        assert together[world] == [_with_released_locks(what, shown) for shown in alone]
    assert all(len(set(results)) > 1 for results in together)  # results depend on earlier calls


def _with_released_locks(what: str, shown: str) -> str:
    """A lock that the code leaves locked is free in its next call; alone it stays locked."""
    return shown.replace("(False, ", "(True, ") if what.startswith("locks") else shown


@pytest.mark.parametrize("what", STATEFUL)
def test_a_world_continues_in_another_worker(what: str) -> None:
    """Worlds that move between workers give the results that they give in one worker."""
    text = STATEFUL[what]
    assert _take_turns([_worker(text), _worker(text)]) == _take_turns([_worker(text)])


STATELESS = {
    "constants for look-ups": """
STATUSES = ["open", "closed"]
PRICES = {"basic": 1, "pro": (2, 3)}
NESTED = {"a": {"b": 1}}
def call(n):
    rows = [status for status in STATUSES if status in PRICES] + sorted(STATUSES)
    return rows, len(NESTED), "a" in NESTED, PRICES.get("pro"), PRICES["basic"] + n, {**PRICES}
""",
    "a typical generated application": """
import logging, re, threading, os
from datetime import datetime
from enum import Enum
from typing import List, Optional
from fastapi import Depends, FastAPI, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Column, DateTime, ForeignKey, Integer, String, create_engine
from sqlalchemy.orm import Session, declarative_base, relationship, sessionmaker
engine = create_engine(os.getenv("DATABASE_PATH", "sqlite://"))
SessionLocal = sessionmaker(bind=engine)
Base = declarative_base()
logger = logging.getLogger(__name__)
pattern = re.compile("a+")
class Color(str, Enum):
    red = "red"
class Item(Base):
    __tablename__ = "items"
    id = Column(Integer, primary_key=True)
    state = Column(String)
    created_at = Column(DateTime, default=datetime.utcnow)
class ItemOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    id: int = Field(..., description="x")
    tags: List[str] = []
Base.metadata.create_all(engine)
app = FastAPI(title="x")
class Pager:
    @staticmethod
    def page(rows, size):
        return rows[:size]
def get_db():
    db = SessionLocal()
    try:
        yield db
    finally:
        db.close()
@app.get("/items", response_model=List[ItemOut], operation_id="list_items")
async def list_items(
    limit: int = Query(10), tags: List[str] = Query([]), db: Session = Depends(get_db)
):
    logger.info("listing")
    items = db.query(Item).filter(Item.state == "open").limit(limit).all()
    for item in items:
        item.state = "seen" if pattern.match(item.state) else Color.red
    if not items:
        raise HTTPException(404, "none")
    return Pager.page(items, limit)
def call(n):
    return n
""",
    "objects that no function changes": """
import struct
from dataclasses import dataclass
from sqlalchemy import Column, String, TypeDecorator
class Plan:
    def __init__(self, name, limits):
        self.name, self.limits = name, limits
    def allows(self, n):
        return n < self.limits["most"]
@dataclass(frozen=True)
class Rate:
    value: float
class Upper(TypeDecorator):
    impl = String
    cache_ok = True
PLANS = [Plan("basic", {"most": 1}), Plan("pro", {"most": 2})]
UNUSED = [Plan("a", {}), Plan("b", {})]
DEFAULT = Plan("default", {"most": 3})
DEFAULT.limits["next"] = KNOT = Plan("knot", {})
KNOT.again = KNOT
RATES = {"usd": Rate(1.0), "eur": Rate(1.1)}
columns = [Column("a", Upper()), Column("b", Upper())]
layout = struct.Struct("<I")
names = RATES.keys()
def call(n):
    order = DEFAULT
    item = type("Item", (), {})()
    item.status = "open"
    return [p.name for p in PLANS if p.allows(n)], RATES["usd"].value, order.name, list(names)
""",
    "no function in the text": "call = abs",
}


@pytest.mark.parametrize("what", STATELESS)
def test_code_without_state_costs_nothing(what: str) -> None:
    """Constants, models and the objects of the application's libraries are not state."""
    module = _load(STATELESS[what])
    state = ModuleState(module)
    assert (state.stateless, state.capture(), state.notes) == (True, b"", ())
    state.restore(b"")
    module.call(1)
    assert state.capture() == b""


def test_notes_name_the_isolated_state() -> None:
    """The notes name each slot; a call that changes nothing gives the same bytes."""
    module = _load(STATEFUL["a dict"])
    state = ModuleState(module)
    assert state.notes == ("isolated for each world: global 'cache'",)
    start = state.capture()
    module.call(1)
    changed = state.capture()
    state.restore(changed)
    module.call(1)
    assert state.capture() is state.capture() == changed != start


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "import io\nlog = io.StringIO()\ndef call(n): log.write('x')",
            "global 'log' holds a StringIO, which cannot be isolated between worlds",
        ),
        (
            "ids = (n for n in range(9))\ndef call(n): return next(ids)",
            "global 'ids' holds a generator, which cannot be isolated between worlds",
        ),
        (
            "import threading\nbox = {'at': threading.Thread()}\ndef call(n): box[n] = 1",
            "global 'box' holds a Thread, which cannot be isolated between worlds",
        ),
    ],
)
def test_state_that_cannot_be_isolated_is_refused(text: str, why: str) -> None:
    """A scenario whose state belongs to the process is refused with its name and the reason."""
    module = _load(text)
    with pytest.raises(ToolsetError) as caught:
        ModuleState(module)
    assert str(caught.value) == f"/{NAME}/server.py: {why}"


def test_instances_to_which_no_name_refers() -> None:
    """One instance that only a library holds is found; several are refused: they have no order."""
    text = """
import logging
class Part:
    def __init__(self):
        self.count = 0
    def filter(self, record):
        self.count += 1
        return self.count
logger = logging.Logger("hosted")
logger.addFilter(Part())
def call(n):
    return [part.filter(None) for part in logger.filters]
"""
    module = _load(text)
    state = ModuleState(module)
    assert state.notes == ("isolated for each world: an instance of Part",)
    for _ in range(2):
        state.restore(b"")
        assert [module.call(1), module.call(1)] == [[1], [2]]
    module = _load(text.replace("logger.addFilter(Part())", "logger.filters = [Part(), Part()]"))
    with pytest.raises(ToolsetError, match="there are several of them, and no name refers to them"):
        ModuleState(module)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "cache = {}\ndef call(n): cache[n] = lambda: n",
            "global 'cache' cannot be isolated between worlds: Can't pickle local object "
            "'call.<locals>.<lambda>'",
        ),
        (
            "import io\nlog = None\ndef call(n):\n    global log\n    log = open('/dev/null')",
            "global 'log' cannot be isolated between worlds: "
            "cannot pickle '_io.TextIOWrapper' object",
        ),
        (
            f"cache = []\ndef call(n): cache.append('x' * {MAX_STATE})",
            f"its module state has {MAX_STATE + 23} bytes, and a world may "
            f"have at most {MAX_STATE}",
        ),
    ],
)
def test_state_that_cannot_be_pickled_is_an_error(text: str, why: str) -> None:
    """When a call leaves state that pickle cannot serialize, or too much of it, the error names it;
    the next world is not affected."""
    module = _load(text)
    state = ModuleState(module)
    start = state.capture()
    state.restore(start)
    module.call(1)
    left = getattr(module, "log", None)
    with pytest.raises(ToolsetError) as caught:
        state.capture()
    if left:
        left.close()
    assert str(caught.value) == f"/{NAME}/server.py: {why}"
    state.restore(start)
    assert state.capture() == start


def test_an_engine_created_when_needed_stays() -> None:
    """A stateless value is not exchanged, although its name is assigned."""
    module = _load("""
from sqlalchemy import create_engine
engine, made = None, 0
def call(n):
    global engine, made
    if engine is None:
        engine = create_engine("sqlite://")
        made += 1
    return made
""")
    state = ModuleState(module)
    start = state.capture()
    assert module.call(1) == 1
    after = state.capture()
    state.restore(start)
    assert module.call(1) == 1
    state.restore(after)
    assert module.call(1) == 1


def test_a_global_session_is_closed_after_each_call() -> None:
    """A session that all endpoints share begins each call without uncommitted rows."""
    module = _load("""
from sqlalchemy import Column, Integer, create_engine
from sqlalchemy.orm import declarative_base, scoped_session, sessionmaker
from sqlalchemy.pool import StaticPool
engine = create_engine("sqlite://", poolclass=StaticPool)
Base = declarative_base()
class Item(Base):
    __tablename__ = "items"
    id = Column(Integer, primary_key=True)
Base.metadata.create_all(engine)
session = sessionmaker(bind=engine)()
scoped = scoped_session(sessionmaker(bind=engine))
def call(n):
    held = len(session.identity_map) + len(scoped().identity_map)
    session.add(Item(id=n))
    session.flush()
    scoped.query(Item).all()
    return held, session.query(Item).count()
""")
    state = ModuleState(module)
    assert not state.stateless
    for _ in range(3):
        state.restore(b"")
        assert module.call(1) == (0, 1)
        assert state.capture() == b""
    module.engine.dispose()
