"""Object worlds: benchmarks whose state is Python objects, in a process of their own."""

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.objects.pool import ObjectPool
from rehearsal_room.envpool.objects.process import ProgramSettings
from rehearsal_room.scenarios.api import RowChange
from tests.support.suites import DATA, entry, object_pool

TICKETS = entry("multi_turn_base")


async def test_a_call_changes_the_records_of_its_world() -> None:
    """A call's text is the suite's; the records that it changed are the call's changes, and the
    digest is another."""
    async with object_pool() as pool, pool.lease(TICKETS) as env:
        assert [tool.name for tool in env.tools] == ["open_ticket", "close_ticket", "count_tickets"]
        result = await env.call("close_ticket", {"ticket": "1"}, "c0-0")
        assert (result.text, result.error) == ('{"closed": "1"}', None)
        (change,) = result.changes
        assert isinstance(change, RowChange)
        assert (change.table, change.key) == ("records", ("TicketAPI", "tickets"))
        assert change.before is not None and change.after is not None
        assert change.before["value"] == '{"1": {"priority": 2, "title": "Printer"}}'
        assert change.after["value"] == "{}"
        assert result.digest == env.digest != env.start_digest


async def test_every_lease_is_a_world_of_its_own() -> None:
    """Two leases start in the same state, and a call in one does not show in the other."""
    async with object_pool() as pool, pool.lease(TICKETS) as one, pool.lease(TICKETS) as other:
        assert one.start_digest == other.start_digest
        await one.call("open_ticket", {"title": "Lamp"}, "c0-0")
        assert (await one.call("count_tickets", {}, "c1-0")).text == "2"
        assert (await other.call("count_tickets", {}, "c0-0")).text == "1"
    assert pool.num_live == 0


async def test_a_call_id_is_executed_once() -> None:
    """A repeated call id gives the remembered result."""
    async with object_pool() as pool, pool.lease(TICKETS) as env:
        first = await env.call("open_ticket", {"title": "Lamp"}, "c0-0")
        assert await env.call("open_ticket", {"title": "Lamp"}, "c0-0") == first
        assert (await env.call("count_tickets", {}, "c1-0")).text == "2"


async def test_a_fork_goes_on_from_its_state_and_a_reset_from_the_start() -> None:
    """A fork has what its origin had, and neither changes the other; a world that was reset is at
    its start again."""
    async with object_pool() as pool, pool.lease(TICKETS) as env:
        await env.call("open_ticket", {"title": "Lamp"}, "c0-0")
        second = env.fork()
        await env.call("open_ticket", {"title": "Door"}, "c1-0")
        assert (await second.call("count_tickets", {}, "c1-0")).text == "2"
        env.reset()
        assert env.digest == env.start_digest
        assert (await env.call("count_tickets", {}, "c0-0")).text == "1"


async def test_what_is_not_a_call_changes_nothing() -> None:
    """An unknown tool, arguments that are not an object and a call that raises are errors."""
    async with object_pool() as pool, pool.lease(TICKETS) as env:
        results = [
            await env.call("drop_all", {}, "c0-0"),
            await env.call("open_ticket", ["Lamp"], "c1-0"),
            await env.call("open_ticket", {"name": "Lamp"}, "c2-0"),
        ]
        assert [one.error for one in results] == ["unknown_tool", "arguments", "refused"]
        assert results[0].text == "Error during execution: name 'drop_all' is not defined"
        assert {one.digest for one in results} == {env.start_digest}


async def test_a_stored_state_has_the_rows_of_its_world() -> None:
    """The state of a world is stored and compared like that of any other."""
    async with object_pool() as pool:
        states = await pool.host(TICKETS)
        async with pool.lease(TICKETS) as env:
            await env.call("close_ticket", {"ticket": "1"}, "c0-0")
            restored = states.restored(env.state())
        assert states.verify_digest(restored) == env.digest
        assert len(states.diff(states.template.overlay(), restored)) == 1


async def test_the_death_of_the_program_breaks_its_worlds_only() -> None:
    """A call in a world whose program was killed raises WorldError; the next lease has another
    program."""
    async with object_pool() as pool:
        async with pool.lease(TICKETS) as env:
            await env.call("count_tickets", {}, "c0-0")
            assert pool._process is not None
            os.kill(pool._process._process.pid, signal.SIGKILL)
            with pytest.raises(WorldError, match="does not answer"):
                await env.call("count_tickets", {}, "c1-0")
        async with pool.lease(TICKETS) as env:
            assert (await env.call("count_tickets", {}, "c0-0")).text == "1"
        assert pool.statistics()["starts"] == 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (ProgramSettings("bfcl", DATA.options(), "/no/python"), "/no/python cannot be started"),
        (ProgramSettings("bfcl", {"package": "/no", "version": "1"}), "cannot be loaded: Module"),
        (ProgramSettings("nothing"), "suite 'nothing' cannot be loaded: ModuleNotFoundError"),
    ],
)
async def test_a_program_that_cannot_start_is_one_sentence(
    settings: ProgramSettings, sentence: str
) -> None:
    """A wrong interpreter, a missing package and an unknown adapter raise PoolError."""
    async with ObjectPool(settings) as pool:
        with pytest.raises(PoolError, match=sentence):
            await pool.host(TICKETS)


async def test_an_episode_is_scored_by_the_suite() -> None:
    """The suite's findings follow from the calls of each turn and how the talk ended. A model that
    was stopped in the last turn, after 21 replies with calls, is scored; one in another is not."""
    task = TICKETS.tasks[0]
    end = {"text": "", "ended": True, "calls": []}

    def call(name: str, **arguments: object) -> dict[str, object]:
        return {"name": name, "arguments": arguments, "text": "", "error": None}

    talk: list[dict[str, Any]] = [
        {"calls": [call("open_ticket", title="Lamp")], "text": None, "user": None},
        {"calls": [], "text": "Done.", "user": {"text": "Next.", "ended": False, "calls": []}},
        {"calls": [call("close_ticket", ticket="1")], "text": None, "user": None},
        {"calls": [], "text": "Done.", "user": end},
    ]
    async with object_pool() as pool:
        findings = await pool.score(TICKETS, task, talk)
        scored = [(one.name, one.passed) for one in findings]
        assert scored == [("the user's turn 1", True), ("the user's turn 2", False)]
        (broken_off,) = await pool.score(TICKETS, task, talk[:3])
        assert (broken_off.name, broken_off.passed) == ("all turns were played", False)
        wrong = [call("close_ticket", ticket="1"), call("count_tickets")]
        counts = {"calls": [call("count_tickets")], "text": None, "user": None}
        forced = [*talk[:2], {"calls": wrong, "text": None, "user": None}, *[counts] * 20]
        assert all(one.passed for one in await pool.score(TICKETS, task, forced))
        (too_few,) = await pool.score(TICKETS, task, forced[:-1])
        assert too_few.name == "all turns were played"


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ({"share": 1.5}, "expected a share from 0 to 1, found 1.5"),
        ({"share": -0.5}, "expected a share from 0 to 1, found -0.5"),
        ({"share": math.nan}, "cannot be read"),
        ({"share": 1.0, "weight": -1.0}, "expected a weight of 0 or more, found -1"),
        ({"share": 1.0, "weight": math.inf}, "cannot be read"),
        ({"share": "all of it"}, "made no findings"),
    ],
)
async def test_a_share_that_is_none_is_not_paid(
    beside: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program whose findings have no share that a task can have gets a sentence; it
    goes on."""
    finding = {"name": "a", "passed": True, "expected": "", "found": "", "kind": "goal", **beside}
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format(finding=repr(finding).replace("nan", "float('nan')")))
    program.write_text(program.read_text().replace(": inf", ": float('inf')"))
    monkeypatch.setattr("rehearsal_room.envpool.objects.process._PROGRAM", program)
    async with ObjectPool(ProgramSettings("lies")) as pool:
        for _ in range(2):
            with pytest.raises(PoolError, match=why):
                await pool.score(TICKETS, TICKETS.tasks[0], [])


# It answers every request with a finding.
_PROGRAM = """
import json, sys
print(json.dumps({{"version": "1"}}), flush=True)
for line in sys.stdin:
    print(json.dumps({{"findings": [{finding}]}}), flush=True)
"""
