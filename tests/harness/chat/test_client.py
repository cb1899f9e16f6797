"""Many requests of one client, on virtual time: no machine is slow, so only waits are measured."""

import heapq
from random import Random
from typing import Any, Self

import anyio
import pytest

from rehearsal_room.harness.chat.client import ChatClient
from rehearsal_room.harness.chat.http1 import BodyWatch
from rehearsal_room.harness.chat.retry import AttemptFailure, Backoff
from rehearsal_room.harness.chat.transport import HttpResponse
from rehearsal_room.harness.core.messages import Reply
from tests.support.virtual_time import BACKENDS

LATENCY, RETRY_AFTER = 0.1, 1.0  # seconds
OK = b'{"choices": [{"message": {"content": "ok"}}]}'


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


class Server:
    """Replies after 100 ms; refuses at once a share of the requests, or those beyond `capacity`."""

    def __init__(self, *, share: float = 0.0, capacity: int = 10**6, seed: int = 1) -> None:
        self.num_refused = 0
        self._rng = Random(seed)
        self._share = share
        self._capacity = capacity
        self._in_flight = 0

    async def post(self, body: bytes, watch: BodyWatch | None = None) -> HttpResponse:
        if self._rng.random() < self._share or self._in_flight >= self._capacity:
            self.num_refused += 1
            return HttpResponse(429, {"retry-after": f"{RETRY_AFTER:g}"}, b"{}")
        self._in_flight += 1
        try:
            await anyio.sleep(LATENCY)
        finally:
            self._in_flight -= 1
        return HttpResponse(200, {}, OK)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None: ...


async def played(server: Server, *, episodes: int, turns: int, live: int) -> list[list[int]]:
    """The attempts of each reply of each episode, when so many episodes are live at once."""
    attempts: list[list[int]] = [[] for _ in range(episodes)]
    left = iter(range(episodes))
    backoff = Backoff(max_attempts=40)

    async def worker(client: ChatClient) -> None:
        for episode in left:
            for _ in range(turns):
                attempt = 1
                while isinstance(outcome := await client.ask(b"{}", attempt), AttemptFailure):
                    assert await client.wait_to_retry(outcome, attempt)
                    attempt += 1
                assert isinstance(outcome, Reply)
                attempts[episode].append(attempt)

    async with (
        ChatClient(server, backoff, rng=Random(0), concurrency=live) as client,
        anyio.create_task_group() as workers,
    ):
        for _ in range(live):
            workers.start_soon(worker, client)
    return attempts


def perfect_s(attempts: list[list[int]], live: int) -> float:
    """The seconds of a client in which a refusal delays its own request, and nothing else."""
    slots = [0.0] * live
    for episode in attempts:
        waits = sum(LATENCY + (number - 1) * RETRY_AFTER for number in episode)
        heapq.heapreplace(slots, slots[0] + waits)
    return max(slots)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.03, 0.08])
async def test_refusals_take_as_long_as_with_a_perfect_client(share: float) -> None:
    """With refusals that come at any load, runs take at most 1.15 times as long as those in which
    each delays only its own request. (The mean of five: in one, a few late episodes can be refused
    several times.)"""
    seconds = perfect = 0.0
    for seed in range(5):
        server = Server(share=share, seed=seed)
        began = anyio.current_time()
        attempts = await played(server, episodes=250, turns=8, live=128)
        seconds += anyio.current_time() - began
        perfect += perfect_s(attempts, 128)
        assert server.num_refused >= 1500 * share
    assert seconds <= 1.15 * perfect


async def test_an_overloaded_server_is_used_to_its_capacity() -> None:
    """A server that takes 20 requests at once and refuses all others gets about as many, not 128,
    and the run takes less than twice as long as 20 at once would."""
    began = anyio.current_time()
    server = Server(capacity=20)
    await played(server, episodes=250, turns=8, live=128)
    seconds = anyio.current_time() - began
    assert server.num_refused < 1000
    assert seconds < 2 * (250 * 8 * LATENCY / 20)
