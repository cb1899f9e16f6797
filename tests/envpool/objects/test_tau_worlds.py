"""τ²-bench's worlds and scoring by its adapter, on a small checkout in its layout."""

from typing import Any

import pytest

from rehearsal_room.envpool.objects.pool import ObjectPool
from rehearsal_room.envpool.objects.process import ProgramSettings
from rehearsal_room.scenarios.suites.tau2 import Tau2Data
from tests.support.paths import SUITES

CHECKOUT = str(SUITES / "tau2_checkout")


def _removes(*orders: str) -> list[tuple[str, dict[str, str]]]:
    return [("remove_order", {"order_id": one}) for one in orders]


@pytest.mark.slow  # the suite's program starts
async def test_a_record_that_was_removed_counts() -> None:
    """The reference adds an order and removes another one: an agent that removes none, a wrong one
    or one more has another database."""
    data = Tau2Data(CHECKOUT, "retail")
    (scenario,) = data.scenarios("retail")
    task = next(one for one in scenario.tasks if one.id == "retail_1")
    added = next(call for call in task.oracle if call.name == "add_order")
    passed = {}
    async with ObjectPool(ProgramSettings("tau", data.options())) as pool:
        for removed in (("O5",), (), ("O6",), ("O5", "O6")):
            calls: list[tuple[str, dict[str, Any]]] = [(added.name, added.arguments)]
            calls += _removes(*removed)
            made = [
                {"name": name, "arguments": given, "text": "", "error": None}
                for name, given in calls
            ]
            turn = {"calls": made, "beside": "", "text": None, "user": None}
            found = await pool.score(scenario, task, [turn])
            passed[removed] = next(one.passed for one in found if one.name == "database")
    assert passed == {("O5",): True, (): False, ("O6",): False, ("O5", "O6"): False}
