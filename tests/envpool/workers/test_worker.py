"""The fork server and its workers: their messages, and how processes end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import msgspec
import psutil
import pytest

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.remote_states import CallOutcome, Loaded, Snapshot, Verified
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.envpool.store.overlay import Overlay
from rehearsal_room.envpool.workers import fork_client as fork_client
from rehearsal_room.envpool.workers.fork_client import (
    ForkServerClient,
    ForkServerSettings,
    WorkerProcess,
)
from rehearsal_room.envpool.workers.fork_server import remove_tree
from rehearsal_room.envpool.workers.messages.codec import WorkerFrames, frame, reply_of, request_of
from rehearsal_room.envpool.workers.messages.wire import (
    HOT,
    Forget,
    Load,
    Replay,
    Replayed,
    Stale,
    Verify,
    WorkerCall,
    WorkerFailed,
    WorkerReady,
    WorkerReply,
    WorkerRequest,
)
from rehearsal_room.envpool.workers.pool import sources_of
from rehearsal_room.envpool.workers.sandbox import environment
from rehearsal_room.envpool.workers.worker import MAX_CACHED, Cache
from rehearsal_room.scenarios.format import Scenario
from tests.support.huge_pages import collapsed, huge_kb
from tests.support.ledger_world import ledger

BOOK = ("book", {"account_id": 1, "amount": 25, "note": "x"})


class Client:
    """A simple client on a worker's socket: it sends a request and waits for the reply."""

    def __init__(self, worker: WorkerProcess) -> None:
        self.worker = worker
        self._frames = WorkerFrames()
        self._replies: list[WorkerReply] = []

    async def send(self, request: WorkerRequest) -> None:
        await asyncio.get_running_loop().sock_sendall(self.worker.socket, frame(request))

    async def receive(self) -> WorkerReply | None:
        """The next reply; None: the worker has closed its socket."""
        while not self._replies:
            data = await asyncio.get_running_loop().sock_recv(self.worker.socket, 2**16)
            if not data:
                return None
            self._replies += map(reply_of, self._frames.feed(data))
        return self._replies.pop(0)

    async def ask(self, request: WorkerRequest) -> Any:
        await self.send(request)
        return await self.receive()


@asynccontextmanager
async def ready_worker(fork_server: ForkServerClient) -> AsyncIterator[Client]:
    """A ready worker, killed at the end of the block."""
    worker = await fork_server.spawn()
    with worker.socket:
        worker.socket.setblocking(False)
        client = Client(worker)
        ready = await client.receive()
        assert isinstance(ready, WorkerReady) and ready.level == fork_server.level == worker.level
        yield client
    worker.kill()


@pytest.fixture
async def client(fork_server: ForkServerClient) -> AsyncIterator[Client]:
    async with ready_worker(fork_server) as client:
        yield client


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


def _load(scenario: Scenario) -> Load:
    return Load(1, scenario, sources_of(scenario)["tools.py"])


def _call(
    scenario: Scenario, version: int, state: Snapshot | None = None, *call: Any
) -> WorkerCall:
    name, arguments = call or BOOK
    return WorkerCall(7, scenario.digest, 5, version, name, json.dumps(arguments).encode(), state)


def _start(world: HostedScenario) -> Snapshot:
    return Snapshot({}, len(world.template.pages), world.start_digest)


async def test_a_worker_is_a_function_of_state_and_call(client: Client, scenario: Scenario) -> None:
    """A worker answers with the effect of the call on the state that it receives, or has; where it
    does not have the state it answers Stale."""
    world = HostedScenario(scenario)
    overlay = world.template.overlay()
    loaded = await client.ask(_load(scenario))
    assert isinstance(loaded, Loaded)
    assert (loaded.image, loaded.tools) == (world.template.image, world.tools)
    assert await client.ask(_call(scenario, 0)) == Stale(7)
    state: Snapshot | None = _start(world)
    for version in range(3):
        answer = await client.ask(_call(scenario, version, state))
        before = overlay.pages.copy()
        result = world.call(overlay, *BOOK)
        assert msgspec.structs.replace(answer, seconds=0.0) == CallOutcome(
            7,
            result.text,
            None,
            result.changes,
            result.digest,
            {n: page for n, page in overlay.pages.items() if before.get(n) != page},
            overlay.num_pages,
        )
        state = None  # the worker has it now
    assert await client.ask(_call(scenario, 2)) == Stale(7)
    # Asking for an older version has dropped the newer one.
    assert await client.ask(_call(scenario, 3)) == Stale(7)
    await client.send(Forget((5,)))
    assert await client.ask(_call(scenario, 3)) == Stale(7)
    replayed = await client.ask(Replay(9, scenario.digest, ((("get_account", b'{"id": 1}'),),)))
    assert isinstance(replayed, Replayed) and (replayed.id, replayed.fault) == (9, "")
    world.close()


async def test_a_hot_worker_puts_its_heap_into_huge_pages(
    client: Client, scenario: Scenario
) -> None:
    """After so many calls, in whatever sandbox; its world goes on."""
    if os.geteuid() != 0 or not collapsed()[0]:
        pytest.skip("the kernel has no huge pages for it, or does not tell")
    with closing(HostedScenario(scenario)) as world:
        start = _start(world)
    await client.ask(_load(scenario))
    for version in range(HOT - 1):
        await client.ask(_call(scenario, version, None if version else start))
    assert huge_kb(client.worker.pid) == 0
    for version in (HOT - 1, HOT):
        outcome = await client.ask(_call(scenario, version))
        assert isinstance(outcome, CallOutcome) and (outcome.error, outcome.violation) == (None, "")
    assert huge_kb(client.worker.pid) > 20_000


async def test_an_error_of_the_worker_ends_it(client: Client, scenario: Scenario) -> None:
    """A request for a scenario that is not hosted is answered by Failed, and the worker ends."""
    why = f"PoolError: scenario {scenario.digest} is not hosted in this process"
    assert await client.ask(_call(scenario, 0)) == WorkerFailed(7, why)
    assert await client.receive() is None
    assert await client.worker.wait() == "it ended after a violation"
    assert client.worker.rss() == 0
    assert client.worker.cpu_s() > 0


async def test_a_worker_belongs_to_one_scenario(
    fork_server: ForkServerClient, scenario: Scenario, tmp_path: Path
) -> None:
    """A worker refuses a second scenario, and a verifier after it has executed anything; a verifier
    ends its worker."""
    other = ledger(tmp_path / "other", policy_md="other")
    text = sources_of(scenario)["verify.py"]
    with closing(HostedScenario(scenario)) as world:
        verify = Verify(2, scenario, "open", world.template.image, _start(world), "", source=text)
    belongs = f"PoolError: this process belongs to scenario {scenario.digest}: it executes nothing"
    for request in (_load(other), _load(scenario), verify):
        async with ready_worker(fork_server) as client:
            assert isinstance(await client.ask(_load(scenario)), Loaded)
            refused = await client.ask(request)
            assert isinstance(refused, WorkerFailed) and refused.why.startswith(belongs)
            assert await client.receive() is None
    async with ready_worker(fork_server) as client:
        verified = await client.ask(verify)
        assert isinstance(verified, Verified) and verified.findings and not verified.fault
        assert await client.receive() is None
        assert await client.worker.wait() == "it ended as requested"


@pytest.mark.slow
async def test_a_worker_inherits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has its socket and three null devices, and none of our environment variables."""
    if os.geteuid() != 0:
        pytest.skip("the kernel shows the descriptors of a worker to root only")
    monkeypatch.setenv("API_KEY", "secret")
    read, write = os.pipe()
    os.set_inheritable(write, True)
    async with ForkServerClient() as fork_server, ready_worker(fork_server) as client:
        folder = f"/proc/{client.worker.pid}"
        opened = {fd: os.readlink(f"{folder}/fd/{fd}") for fd in os.listdir(f"{folder}/fd")}
        environ = psutil.Process(client.worker.pid).environ()
    os.close(read)
    os.close(write)
    assert opened.pop("3").startswith("socket:")
    assert opened == dict.fromkeys("012", "/dev/null")
    assert set(environ) <= {*environment(""), "PWD"}


@pytest.mark.slow
async def test_the_sandbox_can_be_off(scenario: Scenario) -> None:
    """With the sandbox off, resource limits and the audit hook remain, and workers work."""
    off = ForkServerClient(ForkServerSettings("off"))
    async with off, ready_worker(off) as client:
        assert client.worker.level == "rlimits"
        assert isinstance(await client.ask(_load(scenario)), Loaded)


@pytest.mark.slow
async def test_a_sandbox_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the required level is not available no worker starts, and the error has the reason."""
    monkeypatch.setattr(fork_client, "why_no_bubblewrap", lambda _: "bwrap is not installed")
    with pytest.raises(PoolError) as caught:
        async with ForkServerClient(ForkServerSettings("bubblewrap")):
            pass
    assert str(caught.value).startswith("sandbox 'bubblewrap' is not available here: the level is ")
    assert "bubblewrap: bwrap is not installed" in str(caught.value)


async def test_wait_returns_how_a_worker_ended(fork_server: ForkServerClient) -> None:
    """`wait` returns how a worker ended, as a sentence; killing it again does nothing."""
    workers = [await fork_server.spawn() for _ in range(2)]
    workers[0].kill()
    workers[1].socket.close()
    killed = "its connection to the pool ended, and it was killed"
    assert await workers[0].wait() == killed
    assert (await workers[1].wait()).startswith("its connection to the pool ended")
    workers[0].kill()  # nothing happens
    assert await workers[0].wait() == killed
    workers[0].socket.close()


@pytest.mark.slow
async def test_workers_end_with_their_fork_server() -> None:
    """Its workers end with it, waiting tasks learn why, and no more workers can be started."""
    async with ForkServerClient() as fork_server:
        worker = await fork_server.spawn()
        process = psutil.Process(worker.pid)
        fork_server._process.send_signal(signal.SIGKILL)
        assert await worker.wait() == "it ended with the fork server"
        with pytest.raises(PoolError, match="the fork server of the workers has ended"):
            await fork_server.spawn()
        worker.socket.close()
        await anyio.to_thread.run_sync(process.wait, 5)


_ABANDONED = """
import os, signal, anyio
from rehearsal_room.envpool.workers.fork_client import ForkServerClient

async def main():
    async with ForkServerClient() as fork_server:
        workers = [await fork_server.spawn() for _ in range(2)]
        print(fork_server._process.pid, *(worker.pid for worker in workers), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


@pytest.mark.slow
def test_nothing_outlives_the_pool() -> None:
    """When the pool's process is killed, the fork server and all workers end."""
    program = [sys.executable, "-c", _ABANDONED]
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL
    running = [
        psutil.Process(pid) for pid in map(int, done.stdout.split()) if psutil.pid_exists(pid)
    ]
    assert psutil.wait_procs(running, timeout=30)[1] == []


def test_the_cache_is_bounded() -> None:
    """The least recently served worlds are dropped first; the latest stays, whatever its size."""
    cache = Cache()
    page = bytes(MAX_CACHED // 4)
    for number in range(5):
        cache.put(number, 1, LiveWorld(Overlay({0: page}, 1, 0)))
    assert [number for number in range(5) if cache.take(number, 1)] == [2, 3, 4]
    cache.put(9, 1, LiveWorld(Overlay({0: page * 5}, 1, 0)))
    assert cache.take(9, 1) is not None
    cache.put(1, 1, LiveWorld(Overlay({}, 1, 0)))
    assert cache.take(1, 2) is None
    assert cache.take(1, 1) is None


def test_frames_arrive_however_they_are_cut(scenario: Scenario) -> None:
    """Requests survive the wire, cut anywhere; bytes that are not a frame raise an error."""
    requests: list[WorkerRequest] = [Load(1, scenario, "é"), Forget((1, 2))]
    stream = b"".join(map(frame, requests))
    for size in (1, 3, 1000, len(stream)):
        frames = WorkerFrames()
        bodies = [b for at in range(0, len(stream), size) for b in frames.feed(stream[at:][:size])]
        assert [request_of(body) for body in bodies] == requests
    with pytest.raises(PoolError, match="a frame from a worker is not a reply"):
        reply_of(b"\x01")
    with pytest.raises(PoolError, match="a frame from the pool is not a request"):
        request_of(b"")
    with pytest.raises(PoolError, match="a frame of 4294967295 bytes is too long"):
        WorkerFrames().feed(b"\xff\xff\xff\xff")


def test_any_folder_can_be_deleted(tmp_path: Path) -> None:
    """A folder of any depth, with any modes and links, is deleted."""
    folder = tmp_path / "scratch"
    outside = tmp_path / "outside"
    outside.write_text("stays")
    directory = os.getcwd()
    try:
        folder.mkdir()
        os.chdir(folder)
        for _ in range(700):
            os.mkdir("nested")
            os.chdir("nested")
        os.symlink(outside, "link")
        os.chmod(".", 0o000)
    finally:
        os.chdir(directory)
    remove_tree(str(folder))
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
