"""The hosted AWM fixture behaves as recorded on the genuine stack."""

from collections.abc import Iterator
from typing import Any

import pytest

from rehearsal_room.envpool.hosting.awm_host import AwmHost
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from rehearsal_room.envpool.store.states import States
from tests.support.budgets import repeats
from tests.support.hosted_records import dump, fixture_scenario, fresh, golden, golden_dump, mask

RUNS = golden("run")
WORLDS_PER_RUN = repeats(short=6, long=50)  # there are 20 runs


@pytest.fixture(scope="module")
def host() -> Iterator[AwmHost]:
    hosted = AwmHost(fixture_scenario())
    yield hosted
    hosted.close()


@pytest.fixture(scope="module")
def states(host: AwmHost) -> Iterator[States]:
    states = States(fixture_scenario(), host.template, host.tools)
    yield states
    states.close()


def recorded(call: dict[str, Any]) -> tuple[bool, str]:
    return call["is_error"], call["text"]


def result_of(host: AwmHost, world: LiveWorld, call: dict[str, Any]) -> tuple[bool, str]:
    result = host.call(world, call["tool"], call["arguments"])
    return result.is_error, mask(result.text)


def test_the_tools_are_listed_as_genuine(host: AwmHost) -> None:
    """Names, descriptions, schemas and order are those of fastapi-mcp."""
    [record] = golden("tools")
    listed = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
        for tool in host.tools
    ]
    assert listed == record["tools"]


def test_the_seed_is_the_genuine_one(host: AwmHost, states: States) -> None:
    """A fresh world has AWM's rows, and the failed statement is reported."""
    [record] = golden("seed")
    failures = [
        {"stage": f.stage, "table": f.table, "statement": f.statement, "error": f.error}
        for f in host.seed_faults
    ]
    assert (host.num_statements, failures) == (record["statements"], record["failures"])
    assert dump(states, fresh(host)) == golden_dump(record)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run["id"]))
def test_a_run_gives_the_genuine_results(
    host: AwmHost, states: States, run: dict[str, Any]
) -> None:
    """Every text, every error and the final rows are equal; the digest is that of the rows."""
    world = fresh(host)
    calls = run.get("calls", [])
    assert [result_of(host, world, call) for call in calls] == [recorded(call) for call in calls]
    if run.get("db"):
        assert dump(states, world) == golden_dump(run)
    assert states.verify_digest(world.overlay) == states.stored(world.overlay).digest


@pytest.mark.slow
def test_interleaved_worlds_stay_separate(host: AwmHost, states: States) -> None:
    """Worlds that take turns call by call end as each would have ended alone."""
    runs = [run for run in RUNS if run.get("calls")]
    # Each call is on another world than the one before. A call takes 2 ms, most of it SQLAlchemy's.
    worlds = [(fresh(host), run) for run in runs * WORLDS_PER_RUN]
    for turn in range(max(len(run["calls"]) for run in runs)):
        for world, run in worlds:
            if turn < len(run["calls"]):
                call = run["calls"][turn]
                assert result_of(host, world, call) == recorded(call)
    ends = {run["id"]: set[str]() for run in runs}
    for world, run in worlds:
        ends[run["id"]].add(states.stored(world.overlay).digest)
    assert {name: len(digests) for name, digests in ends.items()} == dict.fromkeys(ends, 1)
    for world, run in worlds[: len(runs)]:
        assert dump(states, world) == golden_dump(run)


@pytest.mark.slow
def test_another_worker_continues_from_the_image_and_the_state(host: AwmHost) -> None:
    """A host made from the template's image has the same template, and continues worlds exactly."""
    run = next(run for run in RUNS if run["sequence"] == "oracle" and len(run["calls"]) > 2)
    alone = fresh(host)
    results = [host.call(alone, call["tool"], call["arguments"]) for call in run["calls"]]
    other = AwmHost(fixture_scenario(), host.template.image)
    try:
        assert (other.template, other.tools) == (host.template, host.tools)
        moved = fresh(host)
        again = []
        for number, call in enumerate(run["calls"]):
            server = (host, other)[number % 2]
            again.append(server.call(moved, call["tool"], call["arguments"]))
            moved = LiveWorld(moved.overlay.copy(), moved.module_state, moved.num_calls)
    finally:
        other.close()
    assert again == results
    assert moved.overlay.pages == alone.overlay.pages
