"""Hosted code with state outside of its database: each world as on a separate server."""

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.hosting.awm_host import AwmHost
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from tests.support.hosted_records import HEAD, fresh, small

_CODE = (
    HEAD
    + """
import asyncio, itertools, random, secrets, threading, time, uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import lru_cache
from fastapi import BackgroundTasks, Request
from starlette.middleware.base import BaseHTTPMiddleware

orders, audit, counter, ids = {}, [], 0, itertools.count(1)
executor = ThreadPoolExecutor(4)


class Limit:
    def __init__(self):
        self.used = 0

    def __call__(self):
        self.used += 1
        return self.used


class Counting(BaseHTTPMiddleware):
    def __init__(self, app):
        super().__init__(app)
        self.count = 0

    async def dispatch(self, request, call_next):
        self.count += 1
        request.state.count = self.count
        return await call_next(request)


class Settings(BaseModel):
    name: str


@lru_cache
def get_settings():
    return Settings(name=str(uuid.uuid4()))


app.add_middleware(Counting)
app.state.calls = 0


@app.on_event("startup")
def start():
    def tick():
        try:
            while True:
                time.sleep(60)
                audit.append("tick")
        except SystemExit:  # ignored by threading, but reported by pytest
            pass

    app.state.started = True
    threading.Thread(target=tick, daemon=True).start()


@app.post("/orders", operation_id="order")
async def order(
    request: Request,
    tasks: BackgroundTasks,
    used: int = Depends(Limit()),
    settings: Settings = Depends(get_settings),
):
    global counter
    counter += 1
    number = next(ids)
    orders[number] = {"at": datetime.utcnow(), "id": uuid.uuid4(), "luck": random.random()}
    app.state.calls += 1
    sums = list(executor.map(lambda n: n + counter, [1, 2]))
    await asyncio.sleep(30)
    time.sleep(5)
    tasks.add_task(audit.append, number)
    with Session() as session:
        session.add(Note(text=f"{number} {secrets.token_hex(4)}"))
        session.commit()
        notes = [note.text for note in session.query(Note).order_by(Note.id)]
    return {
        "counts": [counter, number, used, app.state.calls, request.state.count],
        "orders": orders, "settings": settings, "sums": sums, "notes": notes, "audit": audit,
        "now": datetime.now(), "started": app.state.started,
        "threads": sum("tick" in thread.name for thread in threading.enumerate()),
    }
"""
)


_MODULES: dict[AwmHost, ModuleType] = {}


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[AwmHost]]:
    """The code, hosted as in two workers; the second gets the template's image from the first."""
    scenario = small(_CODE, name="state")
    name = f"awm_{scenario.digest}"
    first = AwmHost(scenario)
    _MODULES[first] = sys.modules.pop(name)
    second = AwmHost(scenario, first.template.image)
    _MODULES[second] = sys.modules[name]
    yield [first, second]
    for host in (first, second):
        sys.modules[name] = _MODULES.pop(host)
        host.close()


def _order(host: AwmHost, world: LiveWorld) -> ToolResult:
    """An order in the worker of this host, where sys.modules has the host's module."""
    module = _MODULES[host]
    sys.modules[module.__name__] = module
    return host.call(world, "order", {})


def test_workers_start_alike(hosts: list[AwmHost]) -> None:
    """Template and module state at the start are the same in every worker."""
    first, second = hosts
    assert (first.template, first.module_state) == (second.template, second.module_state)
    assert first.module_state


def test_each_world_behaves_as_on_a_separate_server(hosts: list[AwmHost]) -> None:
    """Counters, caches, background work, time and random numbers of worlds that take turns are
    those of a world that is alone."""
    host = hosts[0]
    alone = fresh(host)
    expected = [_order(host, alone) for _ in range(4)]
    worlds = [fresh(host) for _ in range(5)]
    turns = [[_order(host, world) for world in worlds] for _ in range(4)]
    assert turns == [[result] * 5 for result in expected]
    assert [result.error for result in expected] == [None] * 4
    assert '"counts": [\n    4,\n    4,\n    4,\n    4,\n    4\n  ]' in expected[-1].text
    assert '"audit": [\n    1,\n    2,\n    3\n  ]' in expected[-1].text
    assert '"now": "2026-03-14T09:30:05.004004"' in expected[-1].text
    assert len({result.text for result in expected}) == 4


def test_a_world_moves_between_workers(hosts: list[AwmHost]) -> None:
    """A world that two workers serve in turns gives the results of one worker."""
    staying, moving = fresh(hosts[0]), fresh(hosts[1])
    results = [_order(hosts[0], staying) for _ in range(4)]
    for turn, result in enumerate(results):
        moving = moving.copy()  # a worker gets a new object
        assert _order(hosts[turn % 2], moving) == result
    assert moving.module_state == staying.module_state


def test_a_copied_world_is_independent(hosts: list[AwmHost]) -> None:
    """A copy begins with the module state of its original; afterwards each has its own."""
    host = hosts[0]
    parent = fresh(host)
    _order(host, parent)
    child = parent.copy()
    assert _order(host, parent) == _order(host, child)
    _order(host, child)
    assert '"counts": [\n    3,' in _order(host, parent).text
