import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from harness.chat.budget import Budget
from harness.core.errors import BudgetExhausted


async def pay(purse: Budget, worst: float, real: float) -> str:
    """What became of one request: `paid`, or the fault."""
    try:
        async with purse.paying(worst) as bill:
            await checkpoint()
            bill.usd = real
    except BudgetExhausted as exc:
        return str(exc)
    return "paid"


async def test_what_it_costs_is_spent() -> None:
    """The real cost replaces what was set aside."""
    purse = Budget(1.0)
    assert await pay(purse, 0.5, 0.25) == "paid"
    assert purse.spent == 0.25


async def test_a_request_that_does_not_fit_is_refused() -> None:
    """The refusal says limit, spending and what was asked for; nothing more is spent."""
    purse = Budget(1.0, spent=0.75)
    assert await pay(purse, 0.5, 0.5) == (
        "budget: of 1.00 USD 0.7500 are spent or may be, and the next request may cost 0.5000"
    )
    assert await pay(purse, 0.25, 0.25) == "paid"
    assert purse.spent == 1.0


async def test_without_a_limit_spending_is_counted() -> None:
    """No limit: everything fits, and is summed."""
    purse = Budget()
    assert [await pay(purse, 100.0, 1.0) for _ in range(3)] == ["paid"] * 3
    assert purse.spent == 3.0


async def test_a_request_that_was_given_up_counts_as_it_may_have_been_billed() -> None:
    """Cancelled, or ended by an exception, it costs its worst."""
    purse = Budget(1.0)
    with anyio.move_on_after(0):
        async with purse.paying(0.25):
            await anyio.sleep_forever()
    with pytest.raises(ZeroDivisionError):
        async with purse.paying(0.5):
            raise ZeroDivisionError
    assert purse.spent == 0.75


async def test_who_may_fit_later_waits_for_those_under_way() -> None:
    """A request waits while others hold what it needs, and goes on when they turn out cheap."""
    purse = Budget(1.0)
    outcomes: list[str] = []

    async def second() -> None:
        outcomes.append(await pay(purse, 0.75, 0.75))

    async with anyio.create_task_group() as tasks, purse.paying(0.75) as bill:
        tasks.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        assert outcomes == []
        bill.usd = 0.25
    assert (outcomes, purse.spent) == (["paid"], 1.0)


async def test_who_cannot_fit_any_more_stops_waiting() -> None:
    """When those under way turn out dear, the waiting are refused."""
    purse = Budget(1.0)
    outcomes: list[str] = []

    async def second() -> None:
        outcomes.append(await pay(purse, 0.5, 0.5))

    async with anyio.create_task_group() as tasks, purse.paying(0.75):
        tasks.start_soon(second)
        await anyio.wait_all_tasks_blocked()
    assert [outcome[:6] for outcome in outcomes] == ["budget"]
    assert purse.spent == 0.75


async def test_one_who_gives_up_waiting_spends_nothing() -> None:
    """Cancellation while waiting leaves the purse as it was."""
    purse = Budget(1.0)
    async with anyio.create_task_group() as tasks, purse.paying(1.0) as bill:
        tasks.start_soon(pay, purse, 0.5, 0.5)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        bill.usd = 0.25
    assert purse.spent == 0.25


REQUESTS = st.tuples(st.integers(1, 50), st.floats(0, 1)).map(
    lambda drawn: (drawn[0] / 100, drawn[0] / 100 * drawn[1])
)


@given(st.lists(REQUESTS, max_size=40))
def test_many_at_once_never_spend_more_than_the_limit(requests: list[tuple[float, float]]) -> None:
    """However many ask at once, the limit holds, each gets an answer, and none is refused that
    would have fitted beside what was spent in the end."""
    outcomes: list[tuple[str, float]] = []
    purse = Budget(1.0)

    async def ask(worst: float, real: float) -> None:
        outcomes.append((await pay(purse, worst, real), worst))

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            for worst, real in requests:
                tasks.start_soon(ask, worst, real)

    anyio.run(run)
    assert purse.spent <= 1.0 + 1e-6
    assert len(outcomes) == len(requests)
    refused = [worst for outcome, worst in outcomes if outcome != "paid"]
    assert all(purse.spent + worst > 1.0 for worst in refused)
