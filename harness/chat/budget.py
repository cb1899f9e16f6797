"""The money that requests to models may cost.

Never more than the limit is spent: the most that a request may cost is reserved before it is sent,
and its real cost replaces the reservation when the answer is there. A request that does not fit
beside the requests in flight waits until they are settled; one that would not fit even if they cost
nothing is refused at once.

The caller states the maximum cost of a request. A server that bills more, as for an answer longer
than was allowed, is not stopped by that, but counted.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from rehearsal_room.harness.core.errors import BudgetExhausted

_ROUNDING = 1e-9  # USD; sums of prices are not exact decimals


class Reservation:
    """The money that is reserved for one request. `usd` is the most that it may cost, until the
    caller sets what it did cost."""

    __slots__ = ("usd",)

    def __init__(self, usd: float) -> None:
        self.usd = usd


class Budget:
    """The budget of a run, shared by its models. `limit` None: there is no limit, and spending is
    only counted.

    `spent` is what was spent earlier under the same limit, in USD.
    """

    def __init__(self, limit: float | None = None, *, spent: float = 0.0) -> None:
        self.limit = limit
        self._spent = spent
        self._reserved: dict[Reservation, float] = {}
        self._settled = anyio.Event()  # replaced at each settlement

    @property
    def spent(self) -> float:
        """USD for the requests that are over. A request that got no answer counts as the most that
        it may have cost."""
        return self._spent

    @asynccontextmanager
    async def reserve(self, at_most: float) -> AsyncIterator[Reservation]:
        """Reserve `at_most` USD for a request that is made inside; the reservation's `usd` at the
        end is spent.

        It is `at_most` until it is changed, so that a request that was given up counts as what it
        may have cost. Raises BudgetExhausted when the request does not fit. Nothing is spent on
        cancellation while waiting for room.
        """
        await self._wait_for_room(at_most)
        reservation = Reservation(at_most)
        self._reserved[reservation] = at_most
        try:
            yield reservation
        finally:
            del self._reserved[reservation]
            self._spent += reservation.usd
            self._settled.set()
            self._settled = anyio.Event()

    async def _wait_for_room(self, at_most: float) -> None:
        if self.limit is None:
            return
        while True:
            left = self.limit - self._spent + _ROUNDING
            if at_most > left:
                raise BudgetExhausted(
                    f"budget exhausted: {_usd(self._spent)} of {_usd(self.limit)} USD spent or "
                    f"reserved; the next request may cost {_usd(at_most)}"
                )
            if at_most <= left - sum(self._reserved.values()):
                return
            await self._settled.wait()


def _usd(amount: float) -> str:
    """Example: 4.9 -> "4.90"; 0.0312 -> "0.0312" """
    return f"{amount:.2f}" if round(amount, 2) == round(amount, 4) else f"{amount:.4f}"
