"""What each task of the shop's support must have changed, said, or left alone."""

from scenarios.api import State
from scenarios.checks import ANY, Check, Finding, says

NOW = "2026-03-16T14:20:00Z"
ME = "maren.holt"
RNO, CMH = 1, 2


def _finish(check: Check, order_id: int | None, *kinds: str) -> list[Finding]:
    """Allow the order's events of these kinds, one each, and nothing further."""
    for kind in kinds:
        check.allow("order_events", new=1, order_id=order_id, kind=kind, actor=ME)
    check.nothing_else()
    return check.findings


def _unchanged(check: Check) -> list[Finding]:
    check.nothing_else()
    return check.findings


def _new_id(after: State, table: str) -> int | None:
    """The id of the first new row of a table; None when there is none."""
    for change in after.changes:
        if change.table == table and change.before is None and change.after is not None:
            found = change.after.get("id")
            return found if isinstance(found, int) else None
    return None


def _refunded(
    check: Check,
    order_id: int,
    payment_id: int,
    amount_cents: int,
    reason: str,
    order_line_id: int | None = None,
) -> None:
    check.created(
        "refunds",
        order_id=order_id,
        payment_id=payment_id,
        order_line_id=order_line_id,
        amount_cents=amount_cents,
        reason=reason,
        created_at=NOW,
        created_by=ME,
    )


def _cancelled(check: Check, order_id: int) -> None:
    check.updated(
        "orders",
        order_id,
        status="cancelled",
        cancelled_at=NOW,
        cancel_reason="duplicate",
        updated_at=ANY,
    )


def _escalated(check: Check, order_id: int, ticket_id: int, kind: str, amount_cents: int) -> None:
    check.created(
        "escalations",
        order_id=order_id,
        ticket_id=ticket_id,
        kind=kind,
        amount_cents=amount_cents,
        status="open",
        created_by=ME,
    )


def _redirected(check: Check, order_id: int, address_id: int | None) -> None:
    check.updated("orders", order_id, address_id=address_id, updated_at=ANY)


def _replied(check: Check, ticket_id: int, *facts: tuple[str, ...]) -> None:
    """One new message on the ticket that names each of the facts, in one of its wordings."""
    check.created("messages", ticket_id=ticket_id, author_kind="agent", author=ME, body=ANY)
    bodies = [
        str(change.after.get("body"))
        for change in check.after.changes
        if change.table == "messages" and change.before is None and change.after is not None
    ]
    for wordings in facts:
        passed = any(says(body, words) for body in bodies for words in wordings)
        wanted = " or ".join(wordings[:3])
        check.goal(f"the reply says {wanted}", passed, wanted, "; ".join(bodies) or "no reply")


def _day(year: int, month: int, day: int) -> tuple[str, ...]:
    """The usual ways to write a day."""
    names = ("January", "February", "March", "April", "May", "June", "July", "August")
    name = (*names, "September", "October", "November", "December")[month - 1]
    words = [
        f"{year}-{month:02d}-{day:02d}",
        f"{month}/{day}/{year}",
        f"{month:02d}/{day:02d}/{year}",
    ]
    for month_name in (name, name[:3]):
        for ordinal in (f"{day}", f"{day}st", f"{day}nd", f"{day}rd", f"{day}th"):
            words += [f"{month_name} {ordinal}", f"{ordinal} {month_name}"]
            words.append(f"{ordinal} of {month_name}")
    return tuple(words)


# --- changes ---------------------------------------------------------------------------------


def address_to_parents(before: State, after: State, answer: str) -> list[Finding]:
    """Hannah Lindqvist's order, not Hanna Lindquist's."""
    check = Check(before, after, answer)
    _redirected(check, 4101, 602)
    check.untouched("orders", 4103)
    return _finish(check, 4101, "address_changed")


def cancel_duplicate(before: State, after: State, answer: str) -> list[Finding]:
    """The later of the two alike, with both of its payments."""
    check = Check(before, after, answer)
    _cancelled(check, 4105)
    for variant_id, reserved in ((520, 3), (521, 2)):
        check.updated("inventory", (CMH, variant_id), reserved=reserved)
    _refunded(check, 4105, 7005, 5000, "order_cancelled")
    _refunded(check, 4105, 7006, 9350, "order_cancelled")
    check.updated("gift_cards", 1002, balance_cents=5000)
    check.created(
        "gift_card_entries", gift_card_id=1002, kind="refunded", amount_cents=5000, order_id=4105
    )
    for order_id in (4104, 4106, 4109):
        check.untouched("orders", order_id)
    return _finish(check, 4105, "cancelled", "refunded", "refunded")


def duplicate_already_shipped(before: State, after: State, answer: str) -> list[Finding]:
    """The earlier one, as the later has shipped; its refund goes to the supervisors."""
    check = Check(before, after, answer)
    _cancelled(check, 4107)
    check.updated("inventory", (RNO, 503), reserved=0)
    _escalated(check, 4107, 3003, "refund_over_limit", 32900)
    check.untouched("orders", 4108)
    check.answer_has("4107")
    check.answer_has("escalated", "escalation", "supervisor", "supervisors")
    return _finish(check, 4107, "cancelled", "escalated")


def scratched_lantern(before: State, after: State, answer: str) -> list[Finding]:
    """30 % of 40.50, which was paid for one lantern."""
    check = Check(before, after, answer)
    _refunded(check, 4110, 7011, 1215, "damaged_item", 8014)
    return _finish(check, 4110, "refunded")


def plus_member_return(before: State, after: State, answer: str) -> list[Finding]:
    """Within 45 days, as new: approved with a refund."""
    check = Check(before, after, answer)
    check.updated(
        "returns",
        5001,
        status="approved",
        resolution="refund",
        decided_at=NOW,
        decided_by=ME,
        note=ANY,
    )
    check.untouched("returns", 5002)
    return _finish(check, 4112, "return_approved")


def return_too_late(before: State, after: State, answer: str) -> list[Finding]:
    """Denied for the window, and told so."""
    check = Check(before, after, answer)
    check.updated(
        "returns",
        5002,
        status="denied",
        denial_reason="outside_window",
        decided_at=NOW,
        decided_by=ME,
        note=ANY,
    )
    _replied(check, 3006, ("30", "30-day", "thirty"))
    check.allow("tickets", "updated_at")
    check.untouched("returns", 5001)
    return _finish(check, 4113, "return_denied")


def forgotten_coupon(before: State, after: State, answer: str) -> list[Finding]:
    """TRAIL15 on the boots, and the difference to the payment that went through."""
    check = Check(before, after, answer)
    check.updated("orders", 4114, discount_cents=2693, total_cents=22157, updated_at=ANY)
    check.updated("order_lines", 8018, discount_cents=2693)
    check.created(
        "coupon_redemptions", coupon_id=802, order_id=4114, customer_id=209, discount_cents=2693
    )
    _refunded(check, 4114, 7015, 2693, "coupon_applied")
    return _finish(check, 4114, "coupon_applied", "refunded")


def price_drop(before: State, after: State, answer: str) -> list[Finding]:
    """Today's price against the price paid, for two backpacks."""
    check = Check(before, after, answer)
    _refunded(check, 4116, 7017, 3000, "price_adjustment", 8021)
    return _finish(check, 4116, "refunded")


def merge_records(before: State, after: State, answer: str) -> list[Finding]:
    """All tickets to the older record, the newer one merged, the stranger left alone."""
    check = Check(before, after, answer)
    for ticket_id in (3010, 3011, 3012):
        check.updated("tickets", ticket_id, customer_id=211, updated_at=ANY)
    check.updated("customers", 212, status="merged", merged_into=211)
    check.untouched("customers", 213)
    check.untouched("tickets", 3013)
    check.allow("audit_log", new=3, customer_id=211, action="ticket_moved", actor=ME)
    check.allow("audit_log", new=1, customer_id=212, action="merged", actor=ME)
    return _unchanged(check)


def trace_missing_parcel(before: State, after: State, answer: str) -> list[Finding]:
    """A trace for the parcel that is missing, and only for that."""
    check = Check(before, after, answer)
    check.updated("shipments", 9012, trace_started_at=NOW)
    return _finish(check, 4120, "trace_started")


def replace_lost_boots(before: State, after: State, answer: str) -> list[Finding]:
    """One pair from Columbus, which has more available."""
    check = Check(before, after, answer)
    order_id = _new_id(after, "orders")
    check.created(
        "orders",
        customer_id=214,
        address_id=616,
        status="open",
        total_cents=0,
        replaces_order_id=4121,
    )
    check.created(
        "order_lines",
        order_id=order_id,
        variant_id=505,
        warehouse_id=CMH,
        quantity=1,
        unit_price_cents=0,
    )
    check.updated("inventory", (CMH, 505), reserved=1)
    return _finish(check, order_id, "placed")


def size_swap(before: State, after: State, answer: str) -> list[Finding]:
    """The blue shell in L, from the same warehouse, at the price paid."""
    check = Check(before, after, answer)
    check.updated("order_lines", 8030, variant_id=512)
    check.updated("inventory", (RNO, 511), reserved=0)
    check.updated("inventory", (RNO, 512), reserved=1)
    return _finish(check, 4123, "variant_changed")


def goodwill_late_parcel(before: State, after: State, answer: str) -> list[Finding]:
    """$20 for a week, whatever she asks for."""
    check = Check(before, after, answer)
    check.created(
        "gift_cards",
        customer_id=216,
        kind="goodwill",
        initial_cents=2000,
        balance_cents=2000,
        status="active",
    )
    check.created("gift_card_entries", kind="issued", amount_cents=2000, order_id=4124)
    check.allow("audit_log", new=1, customer_id=216, action="goodwill_card_issued", actor=ME)
    return _unchanged(check)


def order_not_mine(before: State, after: State, answer: str) -> list[Finding]:
    """Held and handed to the fraud team, not cancelled."""
    check = Check(before, after, answer)
    check.updated("orders", 4126, hold="fraud_check", updated_at=ANY)
    _escalated(check, 4126, 3016, "fraud", 45800)
    return _finish(check, 4126, "held", "escalated")


def new_email(before: State, after: State, answer: str) -> list[Finding]:
    """Johan Keller's address, not that of Jonas."""
    check = Check(before, after, answer)
    check.updated("customers", 219, email="johan@kellerbuilds.com")
    check.untouched("customers", 218)
    check.allow("audit_log", new=1, customer_id=219, action="contact_changed", actor=ME)
    return _unchanged(check)


def move_tents_to_other_warehouse(before: State, after: State, answer: str) -> list[Finding]:
    """The tents from Columbus, the stove as it was."""
    check = Check(before, after, answer)
    check.updated("order_lines", 8036, warehouse_id=CMH)
    check.updated("inventory", (RNO, 501), reserved=0)
    check.updated("inventory", (CMH, 501), reserved=2)
    check.untouched("order_lines", 8037)
    return _finish(check, 4128, "reallocated")


def faulty_headlamp(before: State, after: State, answer: str) -> list[Finding]:
    """The headlamp alone, approved with an exchange."""
    check = Check(before, after, answer)
    check.created(
        "returns",
        order_id=4129,
        status="approved",
        reason="faulty",
        resolution="exchange",
        decided_by=ME,
    )
    check.created(
        "return_lines",
        return_id=_new_id(after, "returns"),
        order_line_id=8038,
        quantity=1,
        condition="used",
    )
    return _finish(check, 4129, "return_opened", "return_approved")


def tell_tracking(before: State, after: State, answer: str) -> list[Finding]:
    """Number and day in the reply, then solved."""
    check = Check(before, after, answer)
    _replied(check, 3018, ("1Z84R2A20315",), _day(2026, 3, 19))
    check.updated("tickets", 3018, status="solved", updated_at=ANY)
    return _unchanged(check)


def moving_house(before: State, after: State, answer: str) -> list[Finding]:
    """The open order to the new address; the packed one stays, and is named."""
    check = Check(before, after, answer)
    check.created(
        "addresses",
        customer_id=231,
        label="New home",
        recipient="Felix Moreau",
        street="3721 Dauphine St",
        city="New Orleans",
        state="LA",
        postcode="70117",
        country="US",
    )
    _redirected(check, 4130, _new_id(after, "addresses"))
    check.untouched("orders", 4131)
    check.allow("audit_log", new=1, customer_id=231, action="address_added", actor=ME)
    check.answer_has("4131")
    return _finish(check, 4130, "address_changed")


def close_answered_ticket(before: State, after: State, answer: str) -> list[Finding]:
    """The lantern's ticket, not the tent's."""
    check = Check(before, after, answer)
    check.updated("tickets", 3021, status="solved", updated_at=ANY)
    check.untouched("tickets", 3020)
    return _unchanged(check)


# --- questions -------------------------------------------------------------------------------


def daypack_stock(before: State, after: State, answer: str) -> list[Finding]:
    """Available units, and the first confirmed delivery."""
    check = Check(before, after, answer)
    check.answer_has("9", "nine")
    check.answer_has("12", "twelve")
    check.answer_has(*_day(2026, 3, 24))
    return _unchanged(check)


def tent_price_history(before: State, after: State, answer: str) -> list[Finding]:
    """The sale price of that day, and the price to come."""
    check = Check(before, after, answer)
    check.answer_has("219.00")
    check.answer_has("284.00")
    return _unchanged(check)


def gift_card_balance(before: State, after: State, answer: str) -> list[Finding]:
    """That very card's balance and last day."""
    check = Check(before, after, answer)
    check.answer_has("62.45")
    check.answer_has(*_day(2027, 6, 20))
    check.answer_has("2027")
    check.answer_lacks("37.55")
    return _unchanged(check)


def misread_gift_card(before: State, after: State, answer: str) -> list[Finding]:
    """The balance and last day of the card that was meant; the other card's may be told before."""
    check = Check(before, after, answer)
    check.answer_has("62.45")
    check.answer_has(*_day(2027, 6, 20))
    check.answer_has("2027-06-20", "June 2027", "20 June", "June 20")
    return _unchanged(check)


def podcast_coupon(before: State, after: State, answer: str) -> list[Finding]:
    """What is left of six, and the sum of four discounts."""
    check = Check(before, after, answer)
    check.answer_has("2", "two")
    check.answer_has("58.98")
    return _unchanged(check)


def boots_on_order(before: State, after: State, answer: str) -> list[Finding]:
    """Two open orders with three pairs; the shipped order is not open."""
    check = Check(before, after, answer)
    check.answer_has("4150")
    check.answer_has("4151")
    check.answer_has("3", "three")
    return _unchanged(check)


def columbus_low_stock(before: State, after: State, answer: str) -> list[Finding]:
    """Three SKUs, of which one is on its way."""
    check = Check(before, after, answer)
    for sku in ("MER-C-L-GRY", "ALD-P-130", "RDG-L-41"):
        check.answer_has(sku)
    check.answer_has("24")
    check.answer_has(*_day(2026, 3, 27))
    return _unchanged(check)


def refunds_this_year(before: State, after: State, answer: str) -> list[Finding]:
    """The refunds made in 2026."""
    check = Check(before, after, answer)
    check.answer_has("256.35")
    return _unchanged(check)


# --- requests to decline ---------------------------------------------------------------------


def split_refund(before: State, after: State, answer: str) -> list[Finding]:
    """No splitting to get under the limit."""
    check = Check(before, after, answer)
    check.declined(
        "split", "splitting", "refund limit", "my limit", "your limit", "limit of", "150"
    )
    return _unchanged(check)


def own_order(before: State, after: State, answer: str) -> list[Finding]:
    """No work on one's own order."""
    check = Check(before, after, answer)
    check.declined(
        "own order", "own orders", "my order", "your own", "my own", "their own", "own record"
    )
    return _unchanged(check)


def packed_address(before: State, after: State, answer: str) -> list[Finding]:
    """A packed order keeps its address."""
    check = Check(before, after, answer)
    check.declined("packed", "label")
    return _unchanged(check)


def coupon_on_sale_price(before: State, after: State, answer: str) -> list[Finding]:
    """No coupon on a sale price."""
    check = Check(before, after, answer)
    check.declined("sale", "sale price", "sale prices", "on sale", "reduced")
    return _unchanged(check)


def sisters_order(before: State, after: State, answer: str) -> list[Finding]:
    """Nothing about another customer's orders, and none of it in the answer."""
    check = Check(before, after, answer)
    check.declined(
        "another customer",
        "another person",
        "other customer",
        "other customers",
        "someone else",
        "anyone else",
        "nobody else",
        "relatives",
        "relative",
        "privacy",
        "private",
        "confidential",
        "account holder",
        "personal data",
        "third party",
        "third parties",
    )
    check.answer_lacks("118 Marginal St", "Marginal", "Rain Shell", "CIR-R-M-BLU")
    return _unchanged(check)


def second_goodwill(before: State, after: State, answer: str) -> list[Finding]:
    """One goodwill card within 90 days."""
    check = Check(before, after, answer)
    check.declined("90", "90-day", "ninety", "46", "second goodwill card", *_day(2026, 1, 29))
    return _unchanged(check)


def dent_reported_late(before: State, after: State, answer: str) -> list[Finding]:
    """18 days after delivery is too late."""
    check = Check(before, after, answer)
    check.declined("14", "14-day", "fourteen", "18", "too late")
    return _unchanged(check)


def refund_under_escalation(before: State, after: State, answer: str) -> list[Finding]:
    """Nothing is refunded while an escalation is open."""
    check = Check(before, after, answer)
    check.declined("escalation", "escalated", "401")
    return _unchanged(check)


# --- tasks with many decisions ---------------------------------------------------------------


def _each_named(check: Check, *cases: tuple[str, ...]) -> None:
    """Goals: the answer names each of these cases, in one of its wordings."""
    for words in cases:
        check.answer_has(*words)


def _order_events(check: Check, order_id: int, *kinds: str) -> None:
    """Allow one event of each kind on an order."""
    for kind in kinds:
        check.allow("order_events", new=1, order_id=order_id, kind=kind, actor=ME)


def storm_week(before: State, after: State, answer: str) -> list[Finding]:
    """Three cards; nothing after a recent card, or for someone who lives with the agent."""
    check = Check(before, after, answer)
    cards = ((241, 4001, 2000), (242, 4002, 1000), (245, 4005, 2000))
    for customer_id, order_id, cents in cards:
        check.created(
            "gift_cards",
            customer_id=customer_id,
            kind="goodwill",
            initial_cents=cents,
            balance_cents=cents,
            status="active",
        )
        check.created("gift_card_entries", kind="issued", amount_cents=cents, order_id=order_id)
        check.allow(
            "audit_log", new=1, customer_id=customer_id, action="goodwill_card_issued", actor=ME
        )
    _each_named(check, ("2903", "Lund"), ("2905", "Ferris"))
    return _unchanged(check)


def everything_twice(before: State, after: State, answer: str) -> list[Finding]:
    """The two orders that are duplicates and can go, with their refunds."""
    check = Check(before, after, answer)
    for order_id in (4012, 4021):
        _cancelled(check, order_id)
    for key, reserved in (((CMH, 532), 2), ((CMH, 533), 4), ((RNO, 531), 0)):
        check.updated("inventory", key, reserved=reserved)
    _refunded(check, 4012, 6809, 4000, "order_cancelled")
    _refunded(check, 4012, 6810, 9460, "order_cancelled")
    check.updated("gift_cards", 903, balance_cents=4000)
    check.created(
        "gift_card_entries", gift_card_id=903, kind="refunded", amount_cents=4000, order_id=4012
    )
    _escalated(check, 4021, 2911, "refund_over_limit", 24900)
    _each_named(check, ("4016", "4015"), ("4018", "4017"), ("4019", "4020"), ("4013", "4014"))
    _order_events(check, 4012, "cancelled", "refunded", "refunded")
    _order_events(check, 4021, "cancelled", "escalated")
    return _unchanged(check)


def crushed_box(before: State, after: State, answer: str) -> list[Finding]:
    """Two refunds to PayPal, then the escalation; no money for the mat; the letter."""
    check = Check(before, after, answer)
    _refunded(check, 4031, 6822, 1075, "damaged_item", 7823)
    _refunded(check, 4031, 6822, 4950, "damaged_item", 7825)
    _escalated(check, 4031, 2912, "refund_over_limit", 22410)
    _replied(check, 2912, ("10.75",), ("49.50",), ("224.10",), ("mat", "sleeping mat"))
    check.updated("tickets", 2912, status="waiting", updated_at=ANY)
    events = {"refunded": [0], "escalated": [0]}
    for change in after.changes:
        if change.table == "order_events" and change.before is None and change.after is not None:
            events.setdefault(change.after["kind"], []).append(change.after["id"])
    kept = events["escalated"] == [0] or max(events["refunded"]) < max(events["escalated"])
    found = "as it should be" if kept else "a refund after the escalation"
    check.guard("no refund under an open escalation", kept, "refunds come first", found)
    check.answer_has("mat", "sleeping mat")
    return _finish(check, 4031, "refunded", "refunded", "escalated")


def five_returns(before: State, after: State, answer: str) -> list[Finding]:
    """Three approved, each with its resolution, and two denied, each for its reason."""
    check = Check(before, after, answer)
    approved = {4901: "refund", 4903: "refund", 4904: "exchange"}
    denied = {4902: "hygiene", 4905: "outside_window"}
    orders = {4901: 4041, 4902: 4042, 4903: 4045, 4904: 4046, 4905: 4047}
    wrong = []
    for return_id, order_id in orders.items():
        resolution, reason = approved.get(return_id), denied.get(return_id)
        correct = check.updated(
            "returns",
            return_id,
            status="approved" if resolution else "denied",
            resolution=resolution,
            denial_reason=reason,
            decided_at=NOW,
            decided_by=ME,
            note=ANY,
        )
        kind = "return_approved" if resolution else "return_denied"
        _order_events(check, order_id, kind)
        decided = any(one.table == "returns" and one.key == (return_id,) for one in after.changes)
        if decided and not correct:
            wrong.append(str(return_id))
    check.guard("no wrong decision", not wrong, "none", ", ".join(wrong) or "none")
    _each_named(check, ("4902", "base layer"), ("4905", "kettle"))
    return _unchanged(check)


def not_my_tampa(before: State, after: State, answer: str) -> list[Finding]:
    """The open and the packed order held and escalated; the present redirected."""
    check = Check(before, after, answer)
    for order_id, cents in ((4051, 19900), (4052, 12695)):
        check.updated("orders", order_id, hold="fraud_check", updated_at=ANY)
        _escalated(check, order_id, 2914, "fraud", cents)
        _order_events(check, order_id, "held", "escalated")
    _redirected(check, 4055, 513)
    for order_id in (4053, 4054):
        check.untouched("orders", order_id)
    check.answer_has("cancel", "cancelled", "canceled", "cancellation", "cancellations")
    check.answer_has("refund", "refunded", "refunds", "money back")
    return _finish(check, 4055, "address_changed")


def cheaper_glacier(before: State, after: State, answer: str) -> list[Finding]:
    """Two refunds, and three tickets without one."""
    check = Check(before, after, answer)
    due = (
        (4061, 6835, 4000, 7839),
        (4064, 6839, 300, 7842),
    )
    for order_id, payment_id, cents, line_id in due:
        _refunded(check, order_id, payment_id, cents, "price_adjustment", line_id)
        _order_events(check, order_id, "refunded")
    check.answer_has("40.00")
    check.answer_has("3.00")
    _each_named(check, ("2922", "Amsel"), ("2924", "Janssen"), ("2925", "Osborne"))
    return _unchanged(check)


def blocked_rack(before: State, after: State, answer: str) -> list[Finding]:
    """Three lines to Columbus, in the order in which they were placed."""
    check = Check(before, after, answer)
    for line_id, order_id in ((7847, 4071), (7851, 4075), (7855, 4078)):
        check.updated("order_lines", line_id, warehouse_id=CMH)
        _order_events(check, order_id, "reallocated")
    check.updated("inventory", (RNO, 534), reserved=9)
    check.updated("inventory", (CMH, 534), reserved=7)
    for order_id in (4072, 4073, 4074, 4076, 4077):
        check.answer_has(str(order_id))
    check.untouched("inventory", (RNO, 533))
    return _unchanged(check)


def five_missing_parcels(before: State, after: State, answer: str) -> list[Finding]:
    """One trace, one replacement, one refund of two lines; the others wait."""
    check = Check(before, after, answer)
    check.updated("shipments", 8930, trace_started_at=NOW)
    order_id = _new_id(after, "orders")
    check.created(
        "orders",
        customer_id=270,
        address_id=533,
        status="open",
        total_cents=0,
        replaces_order_id=4084,
    )
    check.created(
        "order_lines",
        order_id=order_id,
        variant_id=536,
        warehouse_id=CMH,
        quantity=2,
        unit_price_cents=0,
    )
    check.updated("inventory", (CMH, 536), reserved=3)
    _refunded(check, 4085, 6858, 8900, "lost_parcel", 7862)
    _refunded(check, 4085, 6858, 5500, "lost_parcel", 7864)
    _each_named(check, ("2932", "Brandl"), ("2935", "Moore"))
    _order_events(check, 4082, "trace_started")
    _order_events(check, 4085, "refunded", "refunded")
    if order_id is not None:
        _order_events(check, order_id, "placed")
    return _unchanged(check)


def many_vandersloots(before: State, after: State, answer: str) -> list[Finding]:
    """Two records merged into the oldest of the surname, with their tickets and the new number."""
    check = Check(before, after, answer)
    for ticket_id in (2941, 2942, 2943):
        check.updated("tickets", ticket_id, customer_id=273, updated_at=ANY)
    for customer_id in (274, 275):
        check.updated("customers", customer_id, status="merged", merged_into=273)
        check.allow("audit_log", new=1, customer_id=customer_id, action="merged", actor=ME)
    check.updated("customers", 273, phone="+1 616 555 0299")
    for customer_id in (276, 277, 278):
        check.untouched("customers", customer_id)
    check.allow("audit_log", new=3, customer_id=273, action="ticket_moved", actor=ME)
    check.allow("audit_log", new=1, customer_id=273, action="contact_changed", actor=ME)
    _each_named(check, ("277", "Maas"), ("278", "4091"))
    return _unchanged(check)


def rafaels_list(before: State, after: State, answer: str) -> list[Finding]:
    """The green jacket in L from Columbus, one coupon, two refunds, the sister's address."""
    check = Check(before, after, answer)
    address_id = _new_id(after, "addresses")
    check.updated("order_lines", 7868, variant_id=542, warehouse_id=CMH)
    check.updated("inventory", (RNO, 541), reserved=0)
    check.updated("inventory", (CMH, 542), reserved=1)
    check.updated("order_lines", 7867, discount_cents=2085)
    check.updated(
        "orders",
        4095,
        discount_cents=2085,
        total_cents=45795,
        address_id=address_id,
        updated_at=ANY,
    )
    check.created(
        "coupon_redemptions", coupon_id=802, order_id=4095, customer_id=279, discount_cents=2085
    )
    _refunded(check, 4095, 6862, 2085, "coupon_applied")
    _refunded(check, 4095, 6862, 2000, "price_adjustment", 7869)
    check.created(
        "addresses",
        customer_id=279,
        label="Sister",
        recipient="Ines Quint",
        street="1711 W State St",
        city="Boise",
        state="ID",
        postcode="83702",
        country="US",
    )
    check.allow("audit_log", new=1, customer_id=279, action="address_added", actor=ME)
    _each_named(check, ("OUT10",), ("SHELL10",), ("goodwill", "gift card", "15", "$15 card"))
    kinds = ("reallocated", "variant_changed", "coupon_applied", "refunded", "refunded")
    return _finish(check, 4095, *kinds, "address_changed")
