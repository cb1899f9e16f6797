"""Bytes that a hostile worker may send: the pool reads them, or refuses them by its own errors.

Seeds are fixed; `just test-long` tries many more.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.remote_states import CallOutcome, Loaded, SeedFault, Verified
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionEnv, RemoteExecutionScenario
from rehearsal_room.envpool.workers.messages.codec import WorkerFrames, frame, reply_of
from rehearsal_room.envpool.workers.messages.wire import (
    HostingRefused,
    Replayed,
    Stale,
    WorkerFailed,
    WorkerReady,
    WorkerReply,
)
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario
from tests.support.budgets import repeats
from tests.support.ledger_world import ledger
from tests.support.mutations import mutated_bytes, mutated_value, seeds_of

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("book", {"account_id": 1, "amount": 5}),
    ("grow", {"num": 3, "size": 900}),
    ("wipe", {}),
    ("close_account", {"account_id": 1}),
)
REPLIES: tuple[WorkerReply, ...] = (
    WorkerReady(7, "full", 1),
    HostingRefused(1, "a sentence", "seed"),
    Stale(2),
    WorkerFailed(3, "a sentence"),
    Replayed(4, 0.5),
    Loaded(5, b"image" * 300, (ToolSpec("book", "d", {"type": "object"}),), b"state", 3,
           (SeedFault("seed", "t", 1, "e"),), ("note",)),
    Verified(6, "complete", {"a": [1]}, (Finding("g", True, "", "", "goal"),), "printed"),
)  # fmt: skip


class Scripted:
    """An executor that answers with one outcome, whatever it is."""

    def __init__(self) -> None:
        self.outcome: Any = None

    async def execute(self, env: RemoteExecutionEnv, name: str, arguments: Any) -> CallOutcome:
        return self.outcome  # type: ignore[no-any-return]

    def report_violation(self, env: RemoteExecutionEnv, why: str) -> None:
        assert why


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


def outcomes_of(world: HostedScenario) -> list[CallOutcome]:
    """What an honest worker answers to each call, from the start."""
    found = []
    for number, (name, arguments) in enumerate(CALLS):
        overlay = world.template.overlay()
        result = world.call(overlay, name, arguments)
        found.append(
            CallOutcome(
                number,
                result.text,
                result.error,
                result.changes,
                result.digest,
                overlay.pages,
                overlay.num_pages,
                b"state",
            )
        )
    return found


def decoded(body: bytes) -> WorkerReply | None:
    """The reply in a body; None: it was refused."""
    try:
        return reply_of(body)
    except PoolError as exc:
        assert str(exc).startswith("a frame from a worker is not a reply: ")
        return None


def test_streams_of_frames(scenario: Scenario) -> None:
    """Whatever bytes arrive, in whatever pieces, the pool gets replies or a PoolError; the frames
    before the damage arrive unharmed."""
    pool = LocalPool()
    replies = [*REPLIES, *outcomes_of(pool.world(scenario))]
    pool.close()
    frames = [frame(reply) for reply in replies]
    num_read = num_refused = 0
    for rng in seeds_of(repeats(short=5_000, long=600_000)):
        good = rng.sample(range(len(frames)), 2)
        stream = b"".join(frames[index] for index in good) + mutated_bytes(rng, frames)
        reader, bodies = WorkerFrames(), []
        try:
            while stream:
                size = rng.choice((1, 3, 50, 4000, len(stream)))
                bodies += reader.feed(stream[:size])
                stream = stream[size:]
        except PoolError as exc:
            assert "is too long: the limit is" in str(exc)
        found = [decoded(body) for body in bodies]
        if len(found) >= 2:
            assert found[:2] == [replies[index] for index in good]
        num_read += len(found) - found.count(None)
        num_refused += found.count(None)
    assert min(num_read, num_refused) > 100


async def test_outcomes_of_calls(scenario: Scenario) -> None:
    """Whatever a worker reports about a call, its world has the state that was reported and proved,
    or is broken with a sentence; the other world is as it was, and a state that is given out has
    the digest of its rows."""
    pool, executor = LocalPool(), Scripted()
    template = pool.world(scenario)
    hosted = RemoteExecutionScenario(scenario, template.template.image, template.tools)
    honest = [
        msgspec.to_builtins(outcome, builtin_types=(bytes,)) for outcome in outcomes_of(template)
    ]
    packed = [msgspec.msgpack.encode(outcome) for outcome in outcomes_of(template)]
    bystander = hosted.lease(executor)
    executor.outcome = outcomes_of(template)[0]
    await bystander.call("book", {})
    before = bystander.state()
    counts = {"applied": 0, "broken": 0, "dishonest": 0}
    for rng in seeds_of(repeats(short=5_000, long=600_000)):
        if rng.random() < 0.8:
            body = msgspec.msgpack.encode(mutated_value(rng, rng.choice(honest)))
        else:
            body = mutated_bytes(rng, packed)
        reply = decoded(body)
        if not isinstance(reply, CallOutcome):
            continue
        executor.outcome = reply
        env = hosted.lease(executor)
        try:
            result = await env.call("book", {})
        except WorldError:
            counts["broken"] += 1
            continue
        assert type(result) is ToolResult
        try:
            state = env.state()
        except WorldError:
            counts["dishonest"] += 1
            continue
        assert hosted.verify_digest(env.overlay) == state.digest == result.digest
        counts["applied"] += 1
    assert bystander.state() == before
    assert all(counts.values()), counts
    hosted.close()
    pool.close()


def test_templates_of_workers(scenario: Scenario) -> None:
    """The database that a worker built is a template, or a PoolError."""
    pool = LocalPool()
    image = pool.world(scenario).template.image
    pool.close()
    num_refused = 0
    for rng in seeds_of(repeats(short=400, long=60_000)):
        pages = bytearray(image)
        for _ in range(rng.choice((1, 5, 50))):
            pages[rng.randrange(len(pages) if rng.random() < 0.5 else 2048)] = rng.randrange(256)
        mutated = bytes(pages) if rng.random() < 0.8 else mutated_bytes(rng, [image])
        try:
            RemoteExecutionScenario(scenario, mutated, ()).close()
        except PoolError:
            num_refused += 1
    assert num_refused > 10
