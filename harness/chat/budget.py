"""The money that judging may spend.

Never more is spent than the limit: what a request costs at worst is set aside before it is sent,
and what it did cost is taken when its answer is there. Who does not fit beside the requests that
are under way waits for their change; who would not fit if they cost nothing is refused at once.

What one request costs at worst is the asker's to say. A server that bills more than that, as for an
answer longer than was allowed, is not stopped by it, but counted.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from harness.core.errors import BudgetExhausted

_ROUNDING = 1e-9  # USD; sums of prices are no exact decimals


class Reservation:
    """What one request costs: what was set aside, until the asker knows better."""

    __slots__ = ("usd",)

    def __init__(self, usd: float) -> None:
        self.usd = usd


class Budget:
    """One for all models of a run. `limit` None: there is no limit, and spending is only counted.

    `spent` is what earlier judging under the same limit cost.
    """

    def __init__(self, limit: float | None = None, *, spent: float = 0.0) -> None:
        self.limit = limit
        self._spent = spent
        self._promised: dict[Reservation, float] = {}
        self._settled = anyio.Event()  # replaced at each settlement

    @property
    def spent(self) -> float:
        """USD, for the requests that are over; those that were lost on the way count at worst."""
        return self._spent

    @asynccontextmanager
    async def paying(self, worst: float) -> AsyncIterator[Reservation]:
        """Set `worst` aside for a request that is made inside; what its bill says in the end is
        spent.

        The bill says `worst` until it is changed, so that a request that was given up counts as it
        may have been billed. Raises BudgetExhausted when the request does not fit. Cancelled while
        waiting for change, nothing is spent.
        """
        await self._room_for(worst)
        bill = Reservation(worst)
        self._promised[bill] = worst
        try:
            yield bill
        finally:
            del self._promised[bill]
            self._spent += bill.usd
            self._settled.set()
            self._settled = anyio.Event()

    async def _room_for(self, worst: float) -> None:
        if self.limit is None:
            return
        while True:
            left = self.limit - self._spent + _ROUNDING
            if worst > left:
                raise BudgetExhausted(
                    f"budget: of {self.limit:.2f} USD {self._spent:.4f} are spent or may be, "
                    f"and the next request may cost {worst:.4f}"
                )
            if worst <= left - sum(self._promised.values()):
                return
            await self._settled.wait()
