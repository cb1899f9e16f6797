"""States that a hostile client may send to a server, and pickled module state.

Seeds are fixed; `just test-long` tries many more.
"""

import base64
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import psutil
import pytest

from rehearsal_room.envpool.core.errors import PoolError, ToolsetError
from rehearsal_room.envpool.hosting.determinism.module_state import ModuleState
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.server import jsonrpc as m
from rehearsal_room.envpool.server.api import NewWorld
from rehearsal_room.envpool.server.app import App
from rehearsal_room.envpool.server.jsonrpc import CALL_KEY
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.envpool.server.state_transfer import transfer_of
from rehearsal_room.scenarios.format import Scenario
from tests.support.budgets import repeats
from tests.support.hosted_modules import load_module
from tests.support.http_app import ask
from tests.support.ledger_world import ledger
from tests.support.mutations import mutated_bytes, mutated_value, seeds_of

NAME = "hosted_by_the_fuzzer_of_states"
CODE = """
import collections, datetime, itertools, os

class Item:
    def __init__(self, value):
        self.value = value

cache, items, ids = {}, [], itertools.count(1)
log = collections.deque(maxlen=9)
def call(n):
    cache[n] = Item([n, datetime.date(2026, 3, 14)])
    items.append(cache[n])
    log.append(n)
    return next(ids)
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


@pytest.fixture
def module() -> Iterator[ModuleType]:
    module = load_module(NAME, CODE)
    yield module
    del sys.modules[NAME]


@contextmanager
def little_memory() -> Iterator[None]:
    """Half a GiB more than now, as a worker has a limit: a pickle may ask for any amount."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (now + 2**29, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def call_with(extension: Any, name: Any = "book", arguments: Any = None) -> dict[str, Any]:
    """A tool call with the fields of our own client."""
    params = {"name": name, "arguments": arguments or {"account_id": 1, "amount": 5}}
    params["_meta"] = {CALL_KEY: extension}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def states_of(app: App, path: str, start: bytes) -> list[dict[str, Any]]:
    """The states of a world after each of some calls, as its client sends them."""
    state = msgspec.msgpack.decode(start)
    found = [state]
    for number in range(4):
        extension = {"id": f"s{number}", "world": 1, "version": number}
        if not number:
            extension["state"] = base64.b64encode(start).decode()
        _, content = await ask(app, "POST", f"{path}/mcp", m.encode(call_with(extension)))
        packed = base64.b64decode(content["result"]["_meta"][m.OUTCOME_KEY])
        outcome = msgspec.msgpack.decode(packed)
        state = {
            "pages": {**state["pages"], **outcome["pages"]},
            "num_pages": outcome["num_pages"],
            "digest": outcome["digest"],
            "num_calls": state["num_calls"] + 1,
            "module_state": b"",
            "mac": outcome["mac"],
        }
        found.append(state)
    return found


@pytest.mark.slow
async def test_states_of_clients(scenario: Scenario) -> None:
    """A state is taken as it was given out, or refused with an error of the protocol: whatever is
    changed in it, the world is never in a state that the server did not make."""
    pool = LocalPool()
    async with Leases(pool, [scenario], WorldServerSettings(port=0)) as leases:
        app = App(leases)
        lease = await leases.lease(NewWorld("ledger"), "test")
        start = msgspec.msgpack.encode(lease.origin.start)
        path = f"/worlds/{lease.id}"
        states = await states_of(app, path, start)
        genuine = [msgspec.msgpack.encode(state) for state in states]
        digests = {state["digest"] for state in states}
        after = set()  # digests of what one more call makes of them
        for number, state in enumerate(genuine):
            extension = {"id": f"g{number}", "world": 2, "version": number, "state": state}
            status, content = await ask(app, "POST", f"{path}/mcp", m.encode(call_with(extension)))
            assert status == 200 and "result" in content, content
            after.add((await ask(app, "GET", path))[1]["digest"])
        num_refused = num_taken = 0
        for index, rng in enumerate(seeds_of(repeats(short=3_000, long=200_000))):
            state = msgspec.msgpack.encode(mutated_value(rng, rng.choice(states)))
            if rng.random() < 0.4:
                state = mutated_bytes(rng, genuine)
            extension = {"id": str(index), "world": 3, "version": index, "state": state}
            body = m.encode(call_with(extension))
            is_plain = rng.random() < 0.2  # or another message, with any arguments
            if is_plain:
                body = m.encode(mutated_value(rng, msgspec.json.decode(body)))
            status, content = await ask(app, "POST", f"{path}/mcp", body)
            assert status in (200, 202, 400), content
            if is_plain:
                await lease.reset()
            _, world = await ask(app, "GET", path)
            assert world["digest"] in digests | after, "the world is in a state of the client's"
            is_taken = content is not None and "result" in content
            num_taken += is_taken
            num_refused += not is_taken
        assert min(num_taken, num_refused) > 50
    pool.close()


async def test_forms_of_states(scenario: Scenario) -> None:
    """A state whose form is impossible is refused before a world uses it."""
    pool = LocalPool()
    async with pool.lease(scenario, None) as env:
        transfer = transfer_of(env)
        assert transfer is not None
        await env.call("book", {"account_id": 1, "amount": 5}, "")
        snapshot = transfer.snapshot()
        value = msgspec.msgpack.decode(msgspec.msgpack.encode(snapshot))
        num_refused = 0
        for rng in seeds_of(repeats(short=2_000, long=200_000)):
            try:
                mutated = msgspec.convert(mutated_value(rng, value), type(snapshot))
            except msgspec.ValidationError:
                continue
            try:
                transfer.restore(mutated)
            except PoolError:
                num_refused += 1
            else:
                assert transfer.snapshot().pages == mutated.pages
        assert num_refused > 50
        transfer.restore(snapshot)
        assert (await env.call("book", {"account_id": 1, "amount": 5}, "")).text == '{"entry":3}'
    pool.close()


def test_pickled_module_state(module: ModuleType) -> None:
    """Damaged module state is restored or refused by one error; the module's state can be restored
    after each, and no name outside of the rule is reached."""
    hosted = ModuleState(module)
    states = [hosted.capture()]
    for number in range(3):
        module.call(number)
        states.append(hosted.capture())
    num_refused = num_restored = 0
    with little_memory():
        for rng in seeds_of(repeats(short=3_000, long=100_000)):
            state = mutated_bytes(rng, states)
            try:
                hosted.restore(state)
                num_restored += 1
            except ToolsetError:
                num_refused += 1
    assert min(num_refused, num_restored) > 20
    hosted.restore(states[2])
    assert module.call(7) == 3
    assert [item.value[0] for item in module.items] == [0, 1, 7]
