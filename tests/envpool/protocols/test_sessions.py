"""The sessions behind all protocols: limits, times to live, recorded calls and verdicts."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.protocols import sessions as sessions_module
from rehearsal_room.envpool.protocols.episodes import Opening, PlayedWorld, WorldVerdict
from rehearsal_room.envpool.protocols.sessions import (
    NotBegun,
    SessionError,
    Sessions,
    bytes_of,
)
from rehearsal_room.envpool.server.leases import LeaseRefused, Leases
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.scenarios.format import Scenario, Task
from tests.support.ledger_world import ledger

BOOK = {"account_id": 1, "amount": 5}


class Recorder:
    """Episodes whose verdicts are counted."""

    def __init__(self) -> None:
        self.played: list[PlayedWorld] = []

    def opening(
        self, scenario: Scenario, task: Task, tools: Sequence[ToolSpec]
    ) -> tuple[Opening, ...]:
        return ()

    async def verdict(self, played: PlayedWorld) -> WorldVerdict:
        self.played.append(played)
        return WorldVerdict("completed", 1.0, "recorder")


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


@asynccontextmanager
async def opened(
    scenario: Scenario, **settings: float
) -> AsyncIterator[tuple[Sessions, Recorder, LocalPool]]:
    pool, episodes = LocalPool(), Recorder()
    made = WorldServerSettings(**{"idle_s": 0.0, **settings})  # type: ignore[arg-type]  # numbers only
    try:
        async with Leases(pool, [scenario], made) as leases, Sessions(leases, episodes) as sessions:
            yield sessions, episodes, pool
    finally:
        pool.close()


async def test_a_thousand_sessions_that_are_left_open_leave_nothing(scenario: Scenario) -> None:
    """After their time to live all are closed, and their worlds released."""
    async with opened(scenario, idle_s=3_600.0) as (sessions, _, pool):
        for number in range(1_000):
            session = sessions.open(f"10.0.0.{number % 7}", None)
            if number % 2:
                await session.begin(scenario, scenario.tasks[0])
        assert (len(sessions), pool.num_live) == (1_000, 500)
        await sessions.expire(anyio.current_time() + 3_000)
        assert len(sessions) == 1_000
        await sessions.expire(anyio.current_time() + 3_601)
        assert (len(sessions), sessions.leases.num_live) == (0, 0)
        await anyio.wait_all_tasks_blocked()
        assert pool.num_live == 0
        assert not sessions._per_client


async def test_sessions_have_the_limits_of_worlds(scenario: Scenario) -> None:
    """There are at most `max_worlds`, and `worlds_per_client` for one address."""
    async with opened(scenario, max_worlds=3, worlds_per_client=2) as (sessions, _, _pool):
        first = sessions.open("a", None)
        sessions.open("a", None)
        with pytest.raises(LeaseRefused, match="this client has 2 sessions"):
            sessions.open("a", None)
        sessions.open("b", None)
        with pytest.raises(LeaseRefused, match="3 sessions are open"):
            sessions.open("c", None)
        await sessions.close(first)
        sessions.open("c", None)


async def test_what_is_held_is_not_closed(scenario: Scenario) -> None:
    """A WebSocket holds its session; a request keeps one alive, and its world, too."""
    async with opened(scenario, idle_s=10.0) as (sessions, _, _pool):
        held, used, left = (sessions.open("a", None) for _ in range(3))
        held.is_attached = True
        await used.begin(scenario, None)
        for one in (held, used, left):
            one.used_at -= 20
        assert used.lease is not None
        used.lease.used_at -= 20
        assert sessions.get(used.key, None) is used
        await sessions.expire(anyio.current_time())
        await sessions.leases.expire(anyio.current_time())
        assert sessions.get(held.key, None) is held
        assert sessions.get(left.key, None) is None
        assert used.lease is not None


async def test_a_session_belongs_to_its_token(scenario: Scenario) -> None:
    """Another token's holder does not find it."""
    async with opened(scenario) as (sessions, _, _pool):
        mine = sessions.open("a", 0)
        assert sessions.get(mine.key, 1) is None
        assert sessions.get(mine.key, 0) is mine


async def test_an_episode_is_judged_once_from_its_recorded_calls(scenario: Scenario) -> None:
    """The verdict gets every call with its result, the state and the answer; a second one is the
    same; a new episode has calls and a verdict of its own."""
    async with opened(scenario) as (sessions, episodes, _):
        session = sessions.open("a", None)
        with pytest.raises(NotBegun, match="no episode has begun"):
            await session.call("book", BOOK)
        await session.begin(scenario, scenario.tasks[0])
        booked = await session.call("book", BOOK)
        refused = await session.call("get_account", {"account_id": 99})
        first = await session.judge("test", "done")
        with pytest.raises(SessionError, match="takes no more calls"):
            await session.call("book", BOOK)
        assert await session.judge("test", "other") is first
        (played,) = episodes.played
        assert [(one.name, one.result) for one in played.calls] == [
            ("book", booked),
            ("get_account", refused),
        ]
        assert booked.changes
        assert (played.answer, played.wire, played.error) == ("done", "test", None)
        assert played.state is not None
        assert played.state.digest == booked.digest != played.start_digest
        await session.begin(scenario, scenario.tasks[0])
        await session.judge("test", "")
        assert episodes.played[1].calls == ()
        assert episodes.played[1].episode != played.episode
        await session.begin(scenario, None)
        with pytest.raises(SessionError, match="has no task"):
            await session.judge("test", "")


async def test_calls_of_an_episode_have_a_limit(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All calls are kept for the judge, so their number is bounded."""
    monkeypatch.setattr(sessions_module, "MAX_CALLS", 2)
    async with opened(scenario) as (sessions, _, _pool):
        session = sessions.open("a", None)
        await session.begin(scenario, None)
        for _ in range(2):
            await session.call("book", BOOK)
        with pytest.raises(SessionError, match="this episode has 2 calls, which is the limit"):
            await session.call("book", BOOK)
        await session.begin(scenario, None)
        await session.call("book", BOOK)


async def test_a_server_that_is_about_to_stop_opens_no_session(scenario: Scenario) -> None:
    """While worlds are waited for, nothing new begins."""
    async with opened(scenario) as (sessions, _, _pool):
        sessions.leases.draining = True
        with pytest.raises(LeaseRefused, match="about to stop"):
            sessions.open("a", None)


async def test_no_call_slips_in_while_an_episode_is_judged(scenario: Scenario) -> None:
    """The verdict begins with the request for it: what comes then is refused."""
    async with opened(scenario) as (sessions, episodes, _):
        session = sessions.open("a", None)
        await session.begin(scenario, scenario.tasks[0])
        async with anyio.create_task_group() as group:
            group.start_soon(session.judge, "test", "done")
            while not session._is_judged:  # it has no event for it
                await anyio.lowlevel.checkpoint()
            with pytest.raises(SessionError, match="takes no more calls"):
                await session.call("book", BOOK)
        assert episodes.played[0].calls == ()
        await session.begin(scenario, scenario.tasks[0])
        assert (await session.call("book", BOOK)).error is None


async def test_the_bytes_of_an_episode_are_bounded(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused calls count, too: what they keep is bounded, however small their text was."""
    monkeypatch.setattr(sessions_module, "MAX_BYTES", 2**20)
    async with opened(scenario) as (sessions, _, _pool):
        session = sessions.open("a", None)
        await session.begin(scenario, scenario.tasks[0])
        many = {"ids": [1] * 5_000}  # 10 KB of text, and 320 KB in memory
        for _ in range(3):
            assert (await session.call("no_such_tool", many)).error is not None
        with pytest.raises(SessionError, match="take more than 1 MiB"):
            await session.call("no_such_tool", many)
        assert (await session.call("book", BOOK)).error is None
        assert session.num_bytes < 2**20
        await session.begin(scenario, scenario.tasks[0])
        assert session.num_bytes == 0


async def test_changed_rows_count(scenario: Scenario) -> None:
    """A short call may change long rows, which are kept for the judge: they count, too."""
    async with opened(scenario) as (sessions, _, _pool):
        session = sessions.open("a", None)
        await session.begin(scenario, scenario.tasks[0])
        result = await session.call("book", BOOK)
        rows = [row for one in result.changes for row in (one.before, one.after)]
        least = sum(bytes_of(row) for row in rows)
        assert session.num_bytes >= least + bytes_of(BOOK) + bytes_of(result.text) > least > 0


async def test_a_tool_that_is_called_like_a_route_is_not_served(scenario: Scenario) -> None:
    """A wire on which `book` means something else refuses the world in a sentence."""
    async with opened(scenario) as (sessions, _, _pool):
        session = sessions.open("a", None)
        with pytest.raises(SessionError, match="has a tool 'book', which means something else"):
            await session.begin(scenario, scenario.tasks[0], reserved=("verify", "book"))
        assert session.lease is None
