"""The AWM fixture, hosted: equal to what was recorded on the genuine stack."""

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import pytest

from envpool.hosting.awm_host import AwmHost
from envpool.hosting.live_world import LiveWorld
from envpool.store.states import States
from tests.support.hosted_records import dump, fixture, fresh, golden, golden_dump, masked

RUNS = golden("run")


@pytest.fixture(scope="module")
def host() -> Iterator[AwmHost]:
    hosted = AwmHost(fixture())
    yield hosted
    hosted.close()


@pytest.fixture(scope="module")
def states(host: AwmHost) -> Iterator[States]:
    made = States(fixture(), host.template, host.tools)
    yield made
    made.close()


def wanted(call: dict[str, Any]) -> tuple[bool, str]:
    return call["is_error"], call["text"]


def given(host: AwmHost, world: LiveWorld, call: dict[str, Any]) -> tuple[bool, str]:
    result = host.call(world, call["tool"], call["arguments"])
    return result.is_error, masked(result.text)


def test_the_tools_are_listed_as_genuine(host: AwmHost) -> None:
    """Names, descriptions, schemas and order are those of fastapi-mcp."""
    [record] = golden("tools")
    ours = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
        for tool in host.tools
    ]
    assert ours == record["tools"]


def test_the_seed_is_the_genuine_one(host: AwmHost, states: States) -> None:
    """The start has AWM's rows, and the statement that failed is known."""
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
    assert [given(host, world, call) for call in calls] == [wanted(call) for call in calls]
    if run.get("db"):
        assert dump(states, world) == golden_dump(run)
    assert states.verify_digest(world.overlay) == states.stored(world.overlay).digest


def test_a_thousand_interleaved_worlds_do_not_meet(host: AwmHost, states: States) -> None:
    """Worlds that take turns call by call end as each would have ended alone."""
    runs = [run for run in RUNS if run.get("calls")]
    worlds = [(fresh(host), run) for run in islice(cycle(runs), 1_000)]
    for turn in range(max(len(run["calls"]) for run in runs)):
        for world, run in worlds:
            if turn < len(run["calls"]):
                call = run["calls"][turn]
                assert given(host, world, call) == wanted(call)
    ends = {run["id"]: set[str]() for run in runs}
    for world, run in worlds:
        ends[run["id"]].add(states.stored(world.overlay).digest)
    assert {name: len(digests) for name, digests in ends.items()} == dict.fromkeys(ends, 1)
    for world, run in worlds[: len(runs)]:
        assert dump(states, world) == golden_dump(run)


def test_another_worker_goes_on_from_the_image_and_the_state(host: AwmHost) -> None:
    """A host made from the template's image has the same start, and continues a world exactly."""
    run = next(run for run in RUNS if run["sequence"] == "oracle" and len(run["calls"]) > 2)
    alone = fresh(host)
    results = [host.call(alone, call["tool"], call["arguments"]) for call in run["calls"]]
    other = AwmHost(fixture(), host.template.image)
    try:
        assert (other.template, other.tools) == (host.template, host.tools)
        moved = fresh(host)
        again = []
        for number, call in enumerate(run["calls"]):
            server = (host, other)[number % 2]
            again.append(server.call(moved, call["tool"], call["arguments"]))
            moved = LiveWorld(moved.overlay.copy(), moved.memory, moved.num_calls)
    finally:
        other.close()
    assert again == results
    assert moved.overlay.pages == alone.overlay.pages
