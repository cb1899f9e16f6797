"""A server takes back the states that it gave out, and no others."""

import os
import pickle
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import structs

from rehearsal_room.envpool.client.pool import RemotePool
from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.remote_states import Snapshot
from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionEnv
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.serve import serving
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.envpool.server.signed_states import SignedState, key_of
from rehearsal_room.envpool.workers.pool import WorkerPool, WorkerSettings
from rehearsal_room.scenarios.format import Scenario
from tests.support.hosted_records import HEAD, small
from tests.support.ledger_world import ledger
from tests.support.remote_pool import served

BOOK = {"account_id": 1, "amount": 5}
REFUSED = "This server did not make the state that was sent."
KEY = b"k" * 32


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


def signed(snapshot: Snapshot, *, key: bytes = KEY, scenario: str = "a" * 32) -> SignedState:
    return SignedState(snapshot, key=key, scenario=scenario)


def test_a_mac_binds_the_whole_state() -> None:
    """Whatever is changed in a state, its MAC is another one: pages, their numbers, counts, digest,
    module state, package, key."""
    state = Snapshot({1: b"a", 2: b"b"}, 3, "0" * 32, 4, b"module")
    mac = signed(state).mac
    others = [
        structs.replace(state, pages={1: b"b", 2: b"a"}),
        structs.replace(state, pages={1: b"a", 3: b"b"}),
        structs.replace(state, pages={1: b"a"}),
        structs.replace(state, pages={1: b"a", 2: b"b", 3: b""}),
        structs.replace(state, num_pages=4),
        structs.replace(state, digest="1" * 32),
        structs.replace(state, num_calls=5),
        structs.replace(state, module_state=b""),
    ]
    macs = {mac, signed(state, key=b"x" * 32).mac, signed(state, scenario="b" * 32).mac}
    macs |= {signed(other).mac for other in others}
    assert len(macs) == 3 + len(others)
    assert signed(structs.replace(state, mac=mac)).is_genuine()
    for other in others:
        assert not signed(structs.replace(other, mac=mac)).is_genuine()


def test_a_mac_follows_the_changed_pages() -> None:
    """After any number of calls that add, change and drop pages, the MAC is that of the state
    hashed from its beginning, and the changed pages are those that differ."""
    rng = Random(7)
    state = signed(Snapshot({}, 1, "0" * 32))
    for number in range(200):
        before = state.snapshot.pages
        pages = {n: page for n, page in before.items() if rng.random() < 0.9}
        pages |= {rng.randrange(30): rng.randbytes(8) for _ in range(3)}
        module = rng.choice([b"", b"one", b"two"])
        state, changed = state.after(Snapshot(pages, 30, f"{number:032x}", number, module))
        assert changed == {n: page for n, page in pages.items() if before.get(n) is not page}
        assert state.mac == signed(state.snapshot).mac


async def test_a_forged_state_is_refused(scenario: Scenario) -> None:
    """A world that a client sends with anything changed breaks with a sentence; the server's other
    worlds, and this client's states that the server made, continue."""
    async with served([scenario]) as (leases, url), RemotePool(url) as pool:
        for change in (
            lambda env: env.overlay.pages.update({0: bytes(1024)}),
            lambda env: setattr(env, "module_state", b"cos\nsystem\n(S'true'\ntR."),
            lambda env: setattr(env, "num_calls", 7),
            lambda env: setattr(env, "mac", b""),
            lambda env: setattr(env, "mac", bytes(32)),
        ):
            async with pool.lease(scenario, None) as env, pool.lease(scenario, None) as other:
                assert isinstance(env, RemoteExecutionEnv)
                await env.call("book", BOOK, "c0-0")
                await other.call("book", BOOK, "c0-0")
                for lease in leases.all():
                    await leases.release(lease)  # so that the states are sent again
                change(env)
                with pytest.raises(WorldError, match=REFUSED):
                    await env.call("book", BOOK, "c1-0")
                assert (await other.call("book", BOOK, "c1-0")).text == '{"entry":3}'


async def test_a_start_state_needs_no_mac(scenario: Scenario) -> None:
    """A server that is restarted with another key serves fresh worlds and worlds that were reset;
    other states are refused. With a key in a file they continue."""
    for file in ("", str(scenario.path / "state.key")):
        settings = WorldServerSettings(port=0, state_key=file)
        async with (
            served([scenario], settings) as (_, url),
            served([scenario], settings) as (_, restarted),
            RemotePool(url) as pool,
            pool.lease(scenario, None) as env,
        ):
            await env.call("book", BOOK, "c0-0")
            pool._http._url = pool.url = restarted
            if file:
                assert (await env.call("book", BOOK, "c1-0")).text == '{"entry":3}'
                continue
            fork = env.fork()
            with pytest.raises(WorldError, match=REFUSED):
                await env.call("book", BOOK, "c1-0")
            fork.reset()
            assert (await fork.call("book", BOOK, "c0-0")).text == '{"entry":2}'


def test_the_key_of_a_file(tmp_path: Path) -> None:
    """A file is made once, for its owner only; without a file each key is a new one."""
    file = tmp_path / "state.key"
    key = key_of(str(file))
    assert (len(key), key_of(str(file)), stat.S_IMODE(os.stat(file).st_mode)) == (32, key, 0o600)
    assert os.listdir(tmp_path) == ["state.key"]
    assert key_of("") != key_of("")


@pytest.mark.parametrize("content", [b"", b"abcd", b"\xff" * 64, b"0" * 63, b"0" * 66])
def test_a_bad_key_is_refused(tmp_path: Path, content: bytes) -> None:
    """What is not a key is not used as one."""
    file = tmp_path / "state.key"
    file.write_bytes(content)
    with pytest.raises(PoolError, match=f"^{file}: this is not a key of states"):
        key_of(str(file))
    with pytest.raises(PoolError, match="cannot read the key of the states"):
        key_of(str(tmp_path))


# Module state: code of a record, in a worker ------------------------------------------------------

_COUNTER = (
    HEAD
    + """
seen = {}

@app.post("/count", operation_id="count")
def count():
    seen[len(seen)] = True
    return {"count": len(seen)}
"""
)


@asynccontextmanager
async def served_record(scenario: Scenario) -> AsyncIterator[tuple[Leases, str]]:
    async with (
        WorkerPool(WorkerSettings(workers=1)) as workers,
        Leases(workers, [scenario], WorldServerSettings(port=0)) as leases,
        serving(leases) as url,
    ):
        yield leases, url


def _count(result: ToolResult) -> Any:
    return msgspec.json.decode(result.text)["count"]


class _Touch:
    """Pickled, it makes a file where it is read."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> Any:
        return os.mkdir, (self._path,)


@pytest.mark.slow
async def test_a_pickle_of_a_client_is_never_read(tmp_path: Path) -> None:
    """The module state of a client's choice does not reach a worker, and one that does reach it
    (signed with the server's key) calls nothing that it names."""
    scenario = small(_COUNTER)
    forged = pickle.dumps(_Touch(tmp_path / "made"))
    async with served_record(scenario) as (leases, url), RemotePool(url) as pool:
        for key in (bytes(32), leases._state_key):
            async with pool.lease(scenario, None) as env:
                assert isinstance(env, RemoteExecutionEnv)
                assert _count(await env.call("count", {}, "c0")) == 1
                assert env.module_state != b""
                for lease in leases.all():
                    await leases.release(lease)
                env.module_state = forged
                state = structs.replace(env.snapshot(), mac=b"")
                env.mac = SignedState(state, key=key, scenario=scenario.digest).mac
                with pytest.raises(WorldError, match=f"{REFUSED}|may not contain"):
                    await env.call("count", {}, "c1")
        async with pool.lease(scenario, None) as env:
            assert _count(await env.call("count", {}, "c0")) == 1
    assert not (tmp_path / "made").exists()
