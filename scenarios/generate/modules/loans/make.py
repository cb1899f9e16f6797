"""Seed rows and tasks of the loans. `item_named` is for other modules' drafts too."""

from datetime import date, timedelta

from scenarios.api import Row
from scenarios.format import Call
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, call, day_of
from scenarios.generate.modules.catalogue.make import some_product
from scenarios.generate.modules.draft_helpers import new_code, requiring_role, with_lookups
from scenarios.generate.modules.naming import record_named
from scenarios.generate.modules.parties.make import customer_named, lookalikes, some_customer

_STATUSES = ("lent", "in", "lent", "lent", "in", "lent", "in", "withdrawn")


def rows(maker: Maker) -> None:
    """Items in and out, several of one product, with loans past and present and people who wait."""
    product = some_product(maker)
    for index in range(maker.many(8, least=7)):
        status = _STATUSES[index % len(_STATUSES)]
        customer = some_customer(maker)
        if status == "lent" and len(_present(maker, customer)) >= _most(maker) - 1:
            status = "in"
        item = maker.insert(
            "items",
            code=new_code(maker, "items", "code", "IT"),
            product_id=product["id"],
            condition=maker.one_of("good", "good", "worn"),
            status=status,
        )
        if status == "lent":
            _add_loan(maker, item, customer, is_overdue=index % len(_STATUSES) == 2)
            if index % len(_STATUSES) == 3:
                _add_reservation(maker, item, customer)
        elif maker.chance(0.4):
            _add_past_loan(maker, item, customer)
        if not maker.is_lookalike():
            product = some_product(maker)


def _add_loan(maker: Maker, item: Row, customer: Row, *, is_overdue: bool) -> None:
    length, least = maker.parameters["LOAN_DAYS"], 1 if is_overdue else -12
    over = maker.rng.randrange(least, least + 10)
    num = maker.rng.randrange(maker.parameters["MOST_RENEWALS"] + 1)
    maker.insert(
        "loans",
        item_id=item["id"],
        customer_id=customer["id"],
        lent_on=maker.day(-over - length * (num + 1)),
        due_on=maker.day(-over),
        num_renewals=num,
    )


def _add_past_loan(maker: Maker, item: Row, customer: Row) -> None:
    back = maker.rng.randrange(5, 60)
    length = maker.parameters["LOAN_DAYS"]
    maker.insert(
        "loans",
        item_id=item["id"],
        customer_id=customer["id"],
        lent_on=maker.day(-back - length),
        due_on=maker.day(-back + 2),
        returned_on=maker.day(-back),
    )


def _add_reservation(maker: Maker, item: Row, holder: Row) -> None:
    waiting = maker.pick("customers", lambda row: row["id"] != holder["id"], status="active")
    if waiting is not None:
        maker.insert(
            "reservations",
            item_id=item["id"],
            customer_id=waiting["id"],
            made_on=maker.day(-maker.rng.randrange(1, 9)),
        )


def _most(maker: Maker) -> int:
    return maker.parameters["MOST_LOANS"]


def _present(maker: Maker, customer: Row) -> list[Row]:
    """The loans that someone has at present."""
    return maker.rows("loans", customer_id=customer["id"], returned_on=None)


def _is_late(maker: Maker, customer: Row) -> bool:
    return any(row["due_on"] < maker.day() for row in _present(maker, customer))


def _may_borrow(maker: Maker, customer: Row) -> bool:
    return len(_present(maker, customer)) < _most(maker) and not _is_late(maker, customer)


def item_named(maker: Maker, item: Row) -> Named:
    """How an instruction names an item, and the calls that find it, with its loan."""
    return record_named(maker, "items", item, "item", code="code")


def _same_product(maker: Maker, item: Row) -> tuple[tuple[str, int], ...]:
    """Other items of the same product."""
    others = maker.rows("items", lambda row: row["id"] != item["id"], product_id=item["product_id"])
    return tuple(("items", row["id"]) for row in others)


def _awaited(maker: Maker, item: Row) -> list[Row]:
    return maker.rows("reservations", item_id=item["id"])


def _some_loan(maker: Maker, *, renewable: bool = False) -> Row | None:
    """A present loan of a customer who has nothing overdue; `renewable`: within the rules."""
    return maker.pick(
        "loans",
        lambda row: (
            not _is_late(maker, maker.get("customers", row["customer_id"]))
            and not (renewable and _awaited(maker, maker.get("items", row["item_id"])))
            and not (renewable and row["num_renewals"] >= maker.parameters["MOST_RENEWALS"])
        ),
        returned_on=None,
    )


def item_to_lend(maker: Maker) -> Draft | None:
    """An item that is in."""
    item, customer = maker.pick("items", status="in"), some_customer(maker)
    if item is None or not _may_borrow(maker, customer):
        return None
    what, who = item_named(maker, item), customer_named(maker, customer)
    lend = call("lend_item", item_id=item["id"], customer_id=customer["id"])
    return Draft(
        kind="change",
        ask=(f"Lend {what.text} to {who.text}.", f"Let {who.text} borrow {what.text}."),
        calls=with_lookups((*what.calls, *who.calls), _loans_of(customer), lend),
        answer="It is lent.",
        values={**what.values, **who.values},
        spare=(*_same_product(maker, item), *lookalikes(maker, customer)),
    )


def one_that_is_in(maker: Maker) -> Draft | None:
    """The one item of a product that is in: it is named by the product's name."""
    item, customer = maker.pick("items", status="in"), some_customer(maker)
    if item is None or not _may_borrow(maker, customer):
        return None
    if len(maker.rows("items", product_id=item["product_id"], status="in")) > 1:
        return None
    product, who = maker.get("products", item["product_id"]), customer_named(maker, customer)
    return Draft(
        kind="change",
        ask=f"Lend {who.text} the one item of “{{product}}” that is in.",
        calls=(
            *who.calls,
            _loans_of(customer),
            call("search_items", query=product["name"]),
            call("get_item", item_id=item["id"]),
            call("lend_item", item_id=item["id"], customer_id=customer["id"]),
        ),
        answer="An item of “{product}” is lent.",
        values={**who.values, "product": product["name"]},
        spare=(*_same_product(maker, item), *lookalikes(maker, customer)),
    )


def item_to_take_back(maker: Maker) -> Draft | None:
    """An item comes back; its condition may have changed."""
    item = maker.pick("items", status="lent")
    if item is None:
        return None
    what, condition = item_named(maker, item), maker.one_of("good", "worn")
    return Draft(
        kind="change",
        ask=f"Take back {what.text}; its condition is “{{condition}}”.",
        calls=(*what.calls, call("take_back_item", item_id=item["id"], condition=condition)),
        answer="It is back, in the condition “{condition}”.",
        values={**what.values, "condition": condition},
        spare=_same_product(maker, item),
    )


def loan_to_renew(maker: Maker) -> Draft | None:
    """A loan within the rules."""
    loan = _some_loan(maker, renewable=True)
    if loan is None:
        return None
    item = maker.get("items", loan["item_id"])
    what = item_named(maker, item)
    customer = maker.get("customers", loan["customer_id"])
    due = date.fromisoformat(loan["due_on"]) + timedelta(days=maker.parameters["LOAN_DAYS"])
    return Draft(
        kind="change",
        ask=f"Renew the loan of {what.text}.",
        calls=with_lookups(what.calls, _loans_of(customer), call("renew_loan", loan_id=loan["id"])),
        answer="It is renewed and due on {due}.",
        values={**what.values, "due": due.isoformat()},
        spare=_same_product(maker, item),
    )


def next_in_line(maker: Maker) -> Draft | None:
    """Taken back and lent to the one who waits: that customer must be looked up."""
    reservation = maker.pick("reservations")
    if reservation is None:
        return None
    item = maker.get("items", reservation["item_id"])
    customer = maker.get("customers", reservation["customer_id"])
    if not _may_borrow(maker, customer) or len(_awaited(maker, item)) > 1:
        return None
    what = item_named(maker, item)
    return Draft(
        kind="change",
        ask=f"Take back {what.text} in good condition and lend it at once to whoever waits for it.",
        calls=(
            *what.calls,
            _loans_of(customer),
            call("take_back_item", item_id=item["id"], condition="good"),
            call("lend_item", item_id=item["id"], customer_id=customer["id"]),
        ),
        answer="It is back and lent to the one who waited.",
        values=what.values,
        spare=_same_product(maker, item),
        trap="An item can be lent only after it is back.",
    )


def somebody_waits(maker: Maker) -> Draft | None:
    """One more who waits for an item that is out."""
    item, customer = maker.pick("items", status="lent"), some_customer(maker)
    if item is None:
        return None
    holders = maker.rows("loans", item_id=item["id"], returned_on=None)
    if customer["id"] in {row["customer_id"] for row in (*holders, *_awaited(maker, item))}:
        return None
    what, who = item_named(maker, item), customer_named(maker, customer)
    add = call("add_reservation", item_id=item["id"], customer_id=customer["id"])
    return Draft(
        kind="change",
        ask=f"Enter a reservation of {what.text} for {who.text}.",
        calls=(*what.calls, *who.calls, add),
        answer="The reservation is entered.",
        values={**what.values, **who.values},
        spare=lookalikes(maker, customer),
    )


def item_to_withdraw(maker: Maker) -> Draft | None:
    """An item is withdrawn; a clerk has to decline."""
    item = maker.pick("items", status="in")
    if item is None:
        return None
    what = item_named(maker, item)
    draft = Draft(
        kind="change",
        ask=f"Withdraw {what.text}; nobody shall borrow it any more.",
        calls=(*what.calls, call("withdraw_item", item_id=item["id"])),
        answer="It is withdrawn.",
        values=what.values,
        spare=_same_product(maker, item),
    )
    return requiring_role(maker, "supervisor", draft)


def to_the_same_person(maker: Maker) -> Draft | None:
    """A memory task: the customer who has the one item gets another one, too."""
    loan, item = _some_loan(maker), maker.pick("items", status="in")
    if loan is None or item is None:
        return None
    customer = maker.get("customers", loan["customer_id"])
    if customer["status"] != "active" or not _may_borrow(maker, customer):
        return None
    known = maker.get("items", loan["item_id"])
    return Draft(
        kind="change",
        ask="Look up which customer has the item {known} at present, and remember who it is.",
        later="Finally, lend the item {code} to that same customer.",
        calls=(
            call("search_items", query=known["code"]),
            call("get_item", item_id=known["id"]),
            call("search_items", query=item["code"]),
            call("lend_item", item_id=item["id"], customer_id=customer["id"]),
        ),
        hold=2,
        answer="It is lent to the same customer.",
        values={"known": known["code"], "code": item["code"]},
    )


def due_when(maker: Maker) -> Draft | None:
    """When an item is due."""
    loan = maker.pick("loans", returned_on=None)
    if loan is None:
        return None
    what = item_named(maker, maker.get("items", loan["item_id"]))
    return Draft(
        kind="question",
        ask=f"On which day is {what.text} due back?",
        calls=what.calls,
        answer="It is due on {due}.",
        values={**what.values, "due": day_of(loan["due_on"])},
    )


def who_has_it(maker: Maker) -> Draft | None:
    """The e-mail of who has an item: look-ups over two tables."""
    loan = maker.pick("loans", returned_on=None)
    if loan is None:
        return None
    what = item_named(maker, maker.get("items", loan["item_id"]))
    customer = maker.get("customers", loan["customer_id"])
    return Draft(
        kind="question",
        ask=f"What is the e-mail of the customer who has {what.text} at present?",
        calls=with_lookups(what.calls, call("get_customer", customer_id=customer["id"])),
        answer="The e-mail is {email}.",
        values={**what.values, "email": customer["email"]},
    )


def _loans_of(customer: Row) -> Call:
    return call("list_loans", customer_id=customer["id"])


def _overdue(maker: Maker) -> tuple[Row, Row] | None:
    """A loan that is overdue and could be renewed, with its customer, who is active."""
    active = {row["id"] for row in maker.rows("customers", status="active")}
    loan = maker.pick(
        "loans",
        lambda row: row["due_on"] < maker.day() and row["customer_id"] in active,
        returned_on=None,
    )
    return None if loan is None else (loan, maker.get("customers", loan["customer_id"]))


def late_and_more(maker: Maker) -> Draft | None:
    """Someone who is late wants another item; the tool would lend it."""
    found, item = _overdue(maker), maker.pick("items", status="in")
    if found is None or item is None:
        return None
    customer = found[1]
    what, who = item_named(maker, item), customer_named(maker, customer)
    return Draft(
        kind="decline",
        ask=f"Lend {what.text} to {who.text}.",
        calls=(*what.calls, *who.calls, _loans_of(customer)),
        answer="I decline: another thing that they have borrowed is overdue.",
        values={**what.values, **who.values},
        reasons=("overdue", "late", "past due", "not returned", "not been returned"),
        trap="The tool would lend it; that something is overdue stands with their loans.",
    )


def late_and_longer(maker: Maker) -> Draft | None:
    """A loan that is overdue shall be renewed; the tool would do it."""
    found = _overdue(maker)
    if found is None:
        return None
    what = item_named(maker, maker.get("items", found[0]["item_id"]))
    return Draft(
        kind="decline",
        ask=f"Renew the loan of {what.text}, as the customer wishes.",
        calls=what.calls,
        answer="I decline: it is overdue already.",
        values=what.values,
        reasons=("overdue", "late", "past due"),
        trap="The tool would renew it, unless it was renewed too often.",
    )


def renewed_too_often(maker: Maker) -> Draft | None:
    """A loan that was renewed as often as may be, with the hint to lend the item again."""
    most = maker.parameters["MOST_RENEWALS"]
    loan = maker.pick(
        "loans",
        lambda row: row["due_on"] >= maker.day() and row["num_renewals"] == most,
        returned_on=None,
    )
    if loan is None:
        return None
    item = maker.get("items", loan["item_id"])
    what = item_named(maker, item)
    return Draft(
        kind="decline",
        ask=f"Renew the loan of {what.text}. If that does not go, take the item back and lend it "
        "to the same customer anew.",
        calls=what.calls,
        answer="I decline: it was renewed {most} times, which is the most, and it is not lent anew "
        "instead.",
        values={**what.values, "most": most},
        reasons=("the most", "at most", "maximum", "anew", "again", "already", "limit"),
        trap="Taking it back and lending it again would pass the tools.",
    )


DRAFTS = (
    item_to_lend,
    one_that_is_in,
    item_to_take_back,
    loan_to_renew,
    next_in_line,
    somebody_waits,
    item_to_withdraw,
    to_the_same_person,
    due_when,
    who_has_it,
    late_and_more,
    late_and_longer,
    renewed_too_often,
)
