"""The budget: reservations, settlement, refusals and waiting."""

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.chat.budget import Budget
from rehearsal_room.harness.core.errors import BudgetExhausted


async def pay(budget: Budget, at_most: float, real: float) -> str:
    """The result of one request: `paid`, or the fault."""
    try:
        async with budget.reserve(at_most) as reservation:
            await checkpoint()
            reservation.usd = real
    except BudgetExhausted as exc:
        return str(exc)
    return "paid"


async def test_the_real_cost_is_spent() -> None:
    """It replaces the reservation."""
    budget = Budget(1.0)
    assert await pay(budget, 0.5, 0.25) == "paid"
    assert budget.spent == 0.25


async def test_a_request_that_does_not_fit_is_refused() -> None:
    """The refusal names limit, spending and the request's cost; nothing more is spent."""
    budget = Budget(1.0, spent=0.75)
    assert await pay(budget, 0.5, 0.5) == (
        "budget exhausted: 0.75 of 1.00 USD spent or reserved; the next request may cost 0.50"
    )
    assert await pay(budget, 0.25, 0.25) == "paid"
    assert budget.spent == 1.0


async def test_without_a_limit_spending_is_counted() -> None:
    """Without a limit every request fits, and the costs are summed."""
    budget = Budget()
    assert [await pay(budget, 100.0, 1.0) for _ in range(3)] == ["paid"] * 3
    assert budget.spent == 3.0


async def test_a_request_that_was_given_up_counts_as_its_reservation() -> None:
    """It was cancelled or ended by an exception, and may have been billed."""
    budget = Budget(1.0)
    with anyio.move_on_after(0):
        async with budget.reserve(0.25):
            await anyio.sleep_forever()
    with pytest.raises(ZeroDivisionError):
        async with budget.reserve(0.5):
            raise ZeroDivisionError
    assert budget.spent == 0.75


async def test_a_request_that_may_fit_later_waits() -> None:
    """It waits while requests in flight reserve what it needs, and is sent when they cost less."""
    budget = Budget(1.0)
    outcomes: list[str] = []

    async def second() -> None:
        outcomes.append(await pay(budget, 0.75, 0.75))

    async with anyio.create_task_group() as tasks, budget.reserve(0.75) as reservation:
        tasks.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        assert outcomes == []
        reservation.usd = 0.25
    assert (outcomes, budget.spent) == (["paid"], 1.0)


async def test_a_request_that_can_no_longer_fit_stops_waiting() -> None:
    """When the requests in flight cost as much as they may, waiting ones are refused."""
    budget = Budget(1.0)
    outcomes: list[str] = []

    async def second() -> None:
        outcomes.append(await pay(budget, 0.5, 0.5))

    async with anyio.create_task_group() as tasks, budget.reserve(0.75):
        tasks.start_soon(second)
        await anyio.wait_all_tasks_blocked()
    assert [outcome[:6] for outcome in outcomes] == ["budget"]
    assert budget.spent == 0.75


async def test_a_cancelled_wait_spends_nothing() -> None:
    """Cancellation while waiting does not change the budget."""
    budget = Budget(1.0)
    async with anyio.create_task_group() as tasks, budget.reserve(1.0) as reservation:
        tasks.start_soon(pay, budget, 0.5, 0.5)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        reservation.usd = 0.25
    assert budget.spent == 0.25


REQUESTS = st.tuples(st.integers(1, 50), st.floats(0, 1)).map(
    lambda drawn: (drawn[0] / 100, drawn[0] / 100 * drawn[1])
)


@given(st.lists(REQUESTS, max_size=40))
def test_many_at_once_never_spend_more_than_the_limit(requests: list[tuple[float, float]]) -> None:
    """However many requests run at once, the limit holds, each gets a result, and none is refused
    that would have fitted beside the final spending."""
    outcomes: list[tuple[str, float]] = []
    budget = Budget(1.0)

    async def ask(at_most: float, real: float) -> None:
        outcomes.append((await pay(budget, at_most, real), at_most))

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            for at_most, real in requests:
                tasks.start_soon(ask, at_most, real)

    anyio.run(run)
    assert budget.spent <= 1.0 + 1e-6
    assert len(outcomes) == len(requests)
    refused = [at_most for outcome, at_most in outcomes if outcome != "paid"]
    assert all(budget.spent + at_most > 1.0 for at_most in refused)
