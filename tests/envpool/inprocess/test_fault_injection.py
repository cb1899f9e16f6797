"""Worlds broken on purpose: the fault happens in one executed call, and only there."""

from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.inprocess.fault_injection import (
    FAULTS,
    FaultInjector,
    ToolFault,
    copy_with_fault,
)
from rehearsal_room.envpool.inprocess.toolset import load
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import read
from tests.support.immediate import finished
from tests.support.paths import LIBRARY

PAY: tuple[str, dict[str, Any]] = (
    "pay_fine",
    {"member_id": 2, "amount_cents": 350, "method": "card"},
)
TEXTS = {
    "raises": "pay_fine failed with an internal error: KeyError: 'a column that is not there'",
    "timeout": "pay_fine took too long and was stopped.",
    "locked": "pay_fine failed with an internal error: OperationalError: database table is locked",
}
ERRORS = {"raises": "internal", "timeout": "timeout", "locked": "internal"}


def breakable() -> tuple[HostedScenario, FaultInjector]:
    scenario = read(LIBRARY)
    injector = FaultInjector(load(scenario))
    return HostedScenario(scenario, tools=injector.tools, max_steps=100_000), injector


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_happens_once(fault: ToolFault) -> None:
    """The call fails with its cause and leaves the state unchanged; the same call then works as in
    a world without faults."""
    world, injector = breakable()
    lease = world.lease()
    injector.schedule(fault)
    assert injector.is_pending
    broken = lease.call(*PAY)
    assert broken == ToolResult(TEXTS[fault], ERRORS[fault], (), world.start_digest)  # type: ignore[arg-type]
    assert not injector.is_pending
    assert lease.call(*PAY) == HostedScenario(read(LIBRARY)).lease().call(*PAY)


@pytest.mark.parametrize(
    ("tool", "call", "errors"),
    [
        ("", 0, ["internal", None, None, None]),
        ("", 2, [None, None, "internal", None]),
        ("pay_fine", 0, [None, "internal", None, None]),
        ("pay_fine", 1, [None, None, None, "internal"]),
        ("get_member", 0, [None, None, None, None]),
    ],
)
def test_a_call_is_selected_by_index_and_tool(
    tool: str, call: int, errors: list[str | None]
) -> None:
    """A fault happens in the call with its index, among the calls of its tool."""
    world, injector = breakable()
    lease = world.lease()
    injector.schedule("raises", tool=tool, call=call)
    pay = ("pay_fine", {"member_id": 2, "amount_cents": 10, "method": "card"})
    read: tuple[str, dict[str, Any]] = ("list_overdue", {})
    assert [lease.call(*one).error for one in (read, pay, read, pay)] == errors


def test_a_refused_call_stays_refused() -> None:
    """A broken tool still refuses a call by its rules, and a call with bad arguments never reaches
    the tool."""
    world, injector = breakable()
    lease = world.lease()
    injector.schedule("raises", call=1)
    wrong = lease.call("pay_fine", {"member_id": "two"})
    fine = lease.call("list_overdue", {})
    refused = lease.call("get_member", {"member_id": 999})
    assert [one.error for one in (wrong, fine, refused)] == ["arguments", None, "refused"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_package(fault: ToolFault, tmp_path: Path) -> None:
    """A copy with a fault is a package with the same tools, of which one always breaks; judges
    blame the world for it, and the original package is unchanged."""
    before = read(LIBRARY)
    copy = copy_with_fault(LIBRARY, tmp_path, fault, "pay_fine")
    assert copy == tmp_path / "library"
    scenario = read(copy)
    world = HostedScenario(scenario, max_steps=100_000)
    assert world.tools == HostedScenario(before).tools
    played = play(world, scenario.task("pay-fine"), scenario.task("pay-fine").oracle, "Done.")
    assert {result.text for result in played.results if result.error} == {TEXTS[fault]}
    judges = ScenarioJudges(_Hosted(world), [scenario])
    assert finished(judges.verdict(played.trajectory)).label == "environment_error"
    assert read(LIBRARY) == before


class _Hosted:
    """A pool with one world."""

    def __init__(self, world: HostedScenario) -> None:
        self._world = world

    def hosted(self, scenario: object) -> HostedScenario:
        return self._world

    def isolates(self, scenario: object) -> bool:
        return False


def test_copies_that_cannot_be_made(tmp_path: Path) -> None:
    """A missing tool, a folder that is not a package and an existing copy are errors that leave no
    copy."""
    with pytest.raises(ValueError, match=r"library has no tool 'burn'; it has "):
        copy_with_fault(LIBRARY, tmp_path, "raises", "burn")
    with pytest.raises(PackageError):
        copy_with_fault(tmp_path, tmp_path, "raises", "pay_fine")
    assert list(tmp_path.iterdir()) == []
    copy_with_fault(LIBRARY, tmp_path, "raises", "pay_fine")
    with pytest.raises(FileExistsError):
        copy_with_fault(LIBRARY, tmp_path, "raises", "pay_fine")
