"""Seed rows of the returns, and helpers that insert returns with their lines and history."""

from collections.abc import Sequence

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.event_times import later, some_staff
from rehearsal_room.scenarios.generate.modules.orders.make import new_order, order_lines
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer

# What the returns of the background are like: status, condition, reason.
_STATES = (("announced", None, "wrong"), ("accepted", "broken", "damaged"))


def rows(maker: Maker) -> None:
    """A return that is announced and one that was accepted."""
    for status, condition, reason in _STATES:
        products = maker.rng.sample(maker.rows("products", status="active"), k=2)
        lines = [(product, maker.rng.randrange(2, 5)) for product in products]
        order = new_order(maker, new_customer(maker), lines, "completed", placed=15)
        back = [(order_lines(maker, order)[0], 1, condition)]
        new_return(maker, order, back, reason, status, announced=8)


def new_return(
    maker: Maker,
    order: Row,
    lines: Sequence[tuple[Row, int, str | None]],
    reason: str,
    status: str = "announced",
    *,
    announced: int = 4,
) -> Row:
    """Insert a return of these (order line, quantity, condition or None), announced so many days
    ago, with its history."""
    back = maker.insert(
        "returns",
        order_id=order["id"],
        reference=new_code(maker, "returns", "reference", "RT", 5),
        reason=reason,
        status=status,
        announced_at=maker.ago(announced),
    )
    for line, quantity, condition in lines:
        maker.insert(
            "return_lines",
            return_id=back["id"],
            order_line_id=line["id"],
            quantity=quantity,
            condition=condition,
        )
    kinds = ["announced"]
    if status in ("received", "accepted", "refused"):
        kinds += ["received"]
        kinds += ["inspected"] * sum(condition is not None for _, _, condition in lines)
    if status in ("accepted", "refused", "cancelled"):
        kinds.append(status)
    for index, kind in enumerate(kinds):
        maker.insert(
            "return_events",
            return_id=back["id"],
            kind=kind,
            employee_id=some_staff(maker)["id"],
            at=later(maker, back["announced_at"], 20 * index),
        )
    return back


def return_lines(maker: Maker, back: Row) -> list[Row]:
    """Return the lines of a return, in their order."""
    return maker.rows("return_lines", return_id=back["id"])
