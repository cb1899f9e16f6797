"""Seed rows and tasks of the returns."""

from datetime import date

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, ResultField, call
from scenarios.generate.modules.draft_helpers import new_code, with_lookups, within_limit
from scenarios.generate.modules.orders.make import order_named
from scenarios.generate.modules.parties.make import customer_named, some_customer

_CONDITIONS = ("new", "used", "broken")
# What the returns in the seed rows are like, one after the other: status, condition of the lines.
_STATES = (
    ("announced", None),
    ("received", "new"),
    ("received", "used"),
    ("received", None),
    ("accepted", "broken"),
    ("announced", None),
)


def rows(maker: Maker) -> None:
    """Completed orders with returns in every state, and two that have none, one of them too
    old."""
    window = maker.parameters["RETURN_WINDOW_DAYS"]
    for index in range(maker.many(6, least=6)):
        state = index % len(_STATES)
        order = _completed(maker, maker.rng.randrange(6, window), is_cheap=state == 1)
        _add_return(maker, order, state)
    _completed(maker, maker.rng.randrange(2, window), is_cheap=False)
    _completed(maker, window + maker.rng.randrange(2, 20), is_cheap=False)


def _completed(maker: Maker, days: int, *, is_cheap: bool) -> Row:
    """A completed order of so many days ago, with one or two lines."""
    customer = _free_customer(maker)
    order = maker.insert(
        "orders",
        customer_id=customer["id"],
        reference=new_code(maker, "orders", "reference", "R"),
        status="completed",
        placed_at=maker.ago(days),
    )
    active = maker.rows("products", status="active")
    products = maker.rng.sample(active, k=maker.one_of(1, 2))
    if is_cheap:
        products = [min(active, key=lambda row: row["price_cents"])]
    for product in products:
        quantity = 1 if is_cheap else maker.rng.randrange(3, 7)
        maker.insert(
            "order_lines",
            order_id=order["id"],
            product_id=product["id"],
            quantity=quantity,
            unit_cents=product["price_cents"],
        )
        order["total_cents"] += quantity * product["price_cents"]
    return order


def _free_customer(maker: Maker) -> Row:
    """An active customer, if possible one without a return that is under way."""
    busy = {_customer_id(maker, row) for row in maker.rows("returns", _is_under_way)}
    free = maker.pick("customers", lambda row: row["id"] not in busy, status="active")
    return free or some_customer(maker)


def _is_under_way(back: Row) -> bool:
    return back["status"] in ("announced", "received")


def _customer_id(maker: Maker, back: Row) -> int:
    return int(maker.get("orders", back["order_id"])["customer_id"])


def _add_return(maker: Maker, order: Row, state: int) -> None:
    status, condition = _STATES[state]
    lines = maker.rows("order_lines", order_id=order["id"])
    age = (date.fromisoformat(maker.day()) - date.fromisoformat(order["placed_at"][:10])).days
    at = maker.ago(maker.rng.randrange(1, age))
    if status == "announced":
        lines = lines[:1]
    back = maker.insert(
        "returns",
        order_id=order["id"],
        reference=new_code(maker, "returns", "reference", "RT", 5),
        reason="unwanted" if condition == "used" else maker.one_of("damaged", "wrong", "late"),
        status=status,
        announced_at=at,
    )
    for line in lines:
        maker.insert(
            "return_lines",
            return_id=back["id"],
            order_line_id=line["id"],
            quantity=max(1, line["quantity"] - 2),
            condition=condition,
        )
    maker.insert("return_events", return_id=back["id"], kind="announced", at=at)


def return_named(maker: Maker, back: Row) -> Named:
    """How an instruction names a return, and the calls that find it."""
    lookup = call("get_return", return_id=back["id"])
    if not maker.is_vague():
        return Named("return {back}", {"back": back["id"]}, (lookup,))
    customer = maker.get("customers", _customer_id(maker, back))
    same = [
        row
        for row in maker.rows("returns", status=back["status"])
        if _customer_id(maker, row) == customer["id"]
    ]
    if len(same) > 1 or maker.chance(0.4):
        found = call("find_return_by_reference", reference=back["reference"])
        return Named("the return {back}", {"back": back["reference"]}, (found,))
    who = customer_named(maker, customer)
    find = call("find_returns", customer_id=customer["id"], status=back["status"])
    text = f"the only return of {who.text} that is {back['status']}"
    return Named(text, who.values, (*who.calls, find, lookup))


def _lines(maker: Maker, back: Row) -> list[tuple[Row, Row]]:
    """The lines of a return, each with the line of the order."""
    return [
        (row, maker.get("order_lines", row["order_line_id"]))
        for row in maker.rows("return_lines", return_id=back["id"])
    ]


def _name_of(maker: Maker, order_line: Row) -> str:
    return str(maker.get("products", order_line["product_id"])["name"])


def _worth(maker: Maker, back: Row) -> int:
    return sum(row["quantity"] * line["unit_cents"] for row, line in _lines(maker, back))


def _free_units(maker: Maker, order_line: Row) -> int:
    """How many of a line may still come back."""
    stands = {
        row["id"]
        for row in maker.rows("returns", lambda row: row["status"] not in ("refused", "cancelled"))
    }
    back = maker.rows(
        "return_lines", lambda row: row["return_id"] in stands, order_line_id=order_line["id"]
    )
    return int(order_line["quantity"] - sum(row["quantity"] for row in back))


def _returnable(maker: Maker, num_lines: int) -> tuple[Row, list[Row]] | None:
    """A completed order, not too old, so many of whose lines may come back."""
    oldest = maker.day(-maker.parameters["RETURN_WINDOW_DAYS"])
    active = {row["id"] for row in maker.rows("customers", status="active")}
    order = maker.pick(
        "orders",
        lambda row: row["placed_at"][:10] >= oldest and row["customer_id"] in active,
        status="completed",
    )
    if order is None:
        return None
    under_way = [
        row
        for row in maker.rows("returns", _is_under_way)
        if _customer_id(maker, row) == order["customer_id"]
    ]
    lines = maker.rows("order_lines", order_id=order["id"])
    free = [line for line in lines if _free_units(maker, line) > 1]
    if len(under_way) >= maker.parameters["MOST_OPEN_RETURNS"] or len(free) < num_lines:
        return None
    return order, maker.rng.sample(free, k=num_lines)


def return_to_announce(maker: Maker) -> Draft | None:
    """Some units of one line come back."""
    found = _returnable(maker, 1)
    if found is None:
        return None
    order, (line,) = found
    quantity = maker.rng.randrange(1, _free_units(maker, line) + 1)
    reason = maker.one_of("damaged", "wrong", "unwanted", "late")
    what = order_named(maker, order)
    announce = call(
        "announce_return",
        order_id=order["id"],
        order_line_id=line["id"],
        quantity=quantity,
        reason=reason,
    )
    return Draft(
        kind="change",
        ask=f"Announce a return from {what.text}: {{quantity}} of “{{name}}”, for the reason "
        f"“{reason}”.",
        calls=(*what.calls, announce),
        answer="The return is announced.",
        values={**what.values, "quantity": quantity, "name": _name_of(maker, line)},
    )


def two_lines_back(maker: Maker) -> Draft | None:
    """Units of two lines come back; the second needs the id that the first call gives."""
    found = _returnable(maker, 2)
    if found is None:
        return None
    order, (one, two) = found
    first, second = (_free_units(maker, line) for line in (one, two))
    first -= first == second
    reason = maker.one_of("damaged", "wrong", "unwanted", "late")
    what = order_named(maker, order)
    announce = call(
        "announce_return",
        order_id=order["id"],
        order_line_id=one["id"],
        quantity=first,
        reason=reason,
    )
    add = call(
        "add_return_line",
        return_id=ResultField(len(what.calls), "return_id"),
        order_line_id=two["id"],
        quantity=second,
    )
    return Draft(
        kind="change",
        ask=f"Announce a return from {what.text}, for the reason “{reason}”: {{first}} of "
        "“{one}” and, in the same return, {second} of “{two}”.",
        calls=(*what.calls, announce, add),
        answer="The return is announced, with both.",
        values={
            **what.values,
            "first": first,
            "one": _name_of(maker, one),
            "second": second,
            "two": _name_of(maker, two),
        },
    )


def return_arrived(maker: Maker) -> Draft | None:
    """It has arrived, and every line is found in the same condition."""
    back = maker.pick("returns", status="announced")
    if back is None:
        return None
    what = return_named(maker, back)
    condition = maker.one_of("new", "used", "broken")
    records = [
        call("record_condition", return_line_id=row["id"], condition=condition)
        for row, _ in _lines(maker, back)
    ]
    return Draft(
        kind="change",
        ask=f"Receive {what.text}: it has arrived today. Enter that all of it is {condition}.",
        calls=(*what.calls, call("receive_return", return_id=back["id"]), *records),
        answer="The return is received and its condition is entered.",
        values=what.values,
        trap="The condition can be entered only once the return is received.",
    )


def condition_to_enter(maker: Maker) -> Draft | None:
    """A line is named by what it is."""
    back = maker.pick("returns", status="received")
    if back is None:
        return None
    row, line = maker.rng.choice(_lines(maker, back))
    condition = maker.rng.choice([one for one in _CONDITIONS if one != row["condition"]])
    what = return_named(maker, back)
    record = call("record_condition", return_line_id=row["id"], condition=condition)
    return Draft(
        kind="change",
        ask=f"Enter for {what.text} that the condition of “{{name}}”, now that it has been looked "
        f"at, is {condition}.",
        calls=(*what.calls, record),
        answer="The condition is entered.",
        values={**what.values, "name": _name_of(maker, line)},
    )


def return_to_accept(maker: Maker) -> Draft | None:
    """Looked at, and within the rules; above the own limit it is to be declined."""
    back = maker.pick("returns", status="received")
    if back is None or any(row["condition"] is None for row, _ in _lines(maker, back)):
        return None
    if back["reason"] == "unwanted":
        return None
    what = return_named(maker, back)
    accept = Draft(
        kind="change",
        ask=f"Accept {what.text}.",
        calls=(*what.calls, call("accept_return", return_id=back["id"])),
        answer="The return is accepted.",
        values=what.values,
    )
    return within_limit(maker, _worth(maker, back), accept, "its worth")


def return_to_refuse(maker: Maker) -> Draft | None:
    """Refused, since no one asked for its return."""
    back = maker.pick("returns", status="received")
    if back is None:
        return None
    what = return_named(maker, back)
    return Draft(
        kind="change",
        ask=f"Refuse {what.text}, as the customer has been told.",
        calls=(*what.calls, call("refuse_return", return_id=back["id"])),
        answer="The return is refused.",
        values=what.values,
    )


def worth_of(maker: Maker) -> Draft | None:
    """What a return is worth: a sum over its lines."""
    back = maker.pick("returns")
    assert back is not None, "there are returns"
    what = return_named(maker, back)
    return Draft(
        kind="question",
        ask=f"What is {what.text} worth in all, at the prices of its order?",
        calls=what.calls,
        answer="It is worth {worth}.",
        values={**what.values, "worth": maker.money(_worth(maker, back))},
    )


def how_many_back(maker: Maker) -> Draft | None:
    """How many of something come back."""
    back = maker.pick("returns")
    assert back is not None, "there are returns"
    row, line = maker.rng.choice(_lines(maker, back))
    return Draft(
        kind="question",
        ask="How many of “{name}” come back with the return {reference}?",
        calls=(call("find_return_by_reference", reference=back["reference"]),),
        answer="It is {quantity} of them.",
        values={
            "name": _name_of(maker, line),
            "reference": back["reference"],
            "quantity": row["quantity"],
        },
    )


def order_of_return(maker: Maker) -> Draft | None:
    """Which order a return belongs to: two look-ups."""
    back = maker.pick("returns")
    assert back is not None, "there are returns"
    order = maker.get("orders", back["order_id"])
    what = return_named(maker, back)
    return Draft(
        kind="question",
        ask=f"Which reference has the order from which {what.text} comes?",
        calls=with_lookups(what.calls, call("get_order", order_id=order["id"])),
        answer="It comes from the order {order_reference}.",
        values={**what.values, "order_reference": order["reference"]},
    )


def unwanted_and_used(maker: Maker) -> Draft | None:
    """Not as new any more; the tool would accept it."""
    back = maker.pick("returns", status="received", reason="unwanted")
    if back is None:
        return None
    is_dear = _worth(maker, back) > maker.me["limit_cents"]
    what = return_named(maker, back)
    return Draft(
        kind="decline",
        ask=f"Accept {what.text}.",
        calls=what.calls,
        answer="I decline: it is unwanted and has been used, and only what is as new is accepted.",
        values=what.values,
        reasons=("used", "as new", "not new", "condition", *(("limit",) if is_dear else ())),
        trap="All conditions are entered, so nothing but a limit would stop the tool.",
    )


def condition_to_please(maker: Maker) -> Draft | None:
    """Another condition than the one that was found."""
    back = maker.pick("returns", status="received")
    if back is None:
        return None
    row, line = maker.rng.choice(_lines(maker, back))
    if row["condition"] == "new":
        return None
    what = return_named(maker, back)
    return Draft(
        kind="decline",
        ask=f"Enter for {what.text} that “{{name}}” is new: it is scratched all over, but the "
        "customer would like it that way.",
        calls=what.calls,
        answer="I decline: a condition is entered as it was found, not as the customer would like "
        "it.",
        values={**what.values, "name": _name_of(maker, line)},
        reasons=("as it was found", "found", "true condition", "scratched", "would like"),
        trap="The tool would enter it.",
    )


DRAFTS = (
    return_to_announce,
    two_lines_back,
    return_arrived,
    condition_to_enter,
    return_to_accept,
    return_to_refuse,
    worth_of,
    how_many_back,
    order_of_return,
    unwanted_and_used,
    condition_to_please,
)
