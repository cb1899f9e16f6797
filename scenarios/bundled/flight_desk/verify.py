"""What Vento Air's desk must find after each task.

Bookkeeping that every write brings along (the audit log) is allowed up to the number of writes
that the task needs. A note that nobody asked for is allowed where the desk may keep one.
"""

from typing import Any

from scenarios.api import State
from scenarios.checks import ANY, Check, Finding, mentions, says

USER = "l.fonseca"


def _logged(check: Check, entries: int, *notes_on: int) -> None:
    """Allow the audit rows of the task's writes, and one note on each of some bookings."""
    check.allow("audit_log", new=entries, actor=USER)
    for booking_id in notes_on:
        check.allow("notes", new=1, booking_id=booking_id, written_by=USER)


def _seats_left(check: Check, flight_id: int, step: int, cabin: str = "economy") -> None:
    """A flight's cabin has that many more or fewer seats than before."""
    left = check.before.value(
        "SELECT seats_left FROM flight_inventory WHERE flight_id = ? AND cabin = ?",
        flight_id,
        cabin,
    )
    check.updated("flight_inventory", (flight_id, cabin), seats_left=(left or 0) + step)


def _new_segment(check: Check, **values: Any) -> int | None:
    """A new confirmed segment of these values, and its id (None: there is none)."""
    check.created(
        "segments",
        status="confirmed",
        reason=None,
        created_at=check.before.now,
        **values,
    )
    for change in check.after.changes:
        if change.table == "segments" and change.before is None and change.after is not None:
            row = change.after
            if all(row.get(name) == value for name, value in values.items()):
                found = row.get("id")
                return found if isinstance(found, int) else None
    return None


def _new_ticket(check: Check, segment_id: int | None) -> None:
    if segment_id is None:
        check.goal("new ticket", False, "an open ticket", "there is no new segment")
        return
    check.created("tickets", segment_id=segment_id, status="open", issued_by=USER)


def _changed(
    check: Check,
    old_id: int,
    *,
    reason: str,
    booking_id: int,
    passenger_id: int,
    flights: tuple[int | None, int],  # from (None: it has left) and to
    family: str,
    fare_cents: int,
    had_seat: bool = False,
    inventory: bool = True,  # False: the caller checks the seats left of both flights
) -> int | None:
    """A segment was exchanged for a new one, ticket and places with it; the new one's id."""
    check.updated("segments", old_id, status="exchanged", reason=reason)
    new_id = _new_segment(
        check,
        booking_id=booking_id,
        passenger_id=passenger_id,
        flight_id=flights[1],
        family_code=family,
        fare_cents=fare_cents,
        replaces_id=old_id,
    )
    check.updated("tickets", old_id + 1000, status="exchanged")
    _new_ticket(check, new_id)
    if had_seat:
        check.deleted("seat_assignments", old_id)
    if inventory and flights[0] is not None:
        _seats_left(check, flights[0], 1)
    if inventory:
        _seats_left(check, flights[1], -1)
    return new_id


def _cancelled(
    check: Check,
    segment_id: int,
    *,
    reason: str,
    flight_id: int | None,  # None: the caller checks the seats left of the flight
    had_seat: bool = False,
    cabin: str = "economy",
) -> None:
    """A segment was cancelled, its ticket and place with it."""
    check.updated("segments", segment_id, status="cancelled", reason=reason)
    check.updated("tickets", segment_id + 1000, status="cancelled")
    if had_seat:
        check.deleted("seat_assignments", segment_id)
    if flight_id is not None:
        _seats_left(check, flight_id, 1, cabin)


def _paid(
    check: Check, booking_id: int, purpose: str, amount_cents: int, *, voucher: str | None = None
) -> None:
    """One payment from the card on file, or from a voucher."""
    card = check.before.value("SELECT card_last4 FROM bookings WHERE id = ?", booking_id)
    check.created(
        "payments",
        booking_id=booking_id,
        purpose=purpose,
        method="card" if voucher is None else "voucher",
        method_reference=voucher or card,
        amount_cents=amount_cents,
        taken_by=USER,
    )


def _charged(
    check: Check, booking_id: int, purpose: str, total_cents: int, parts: int, method: str = "card"
) -> None:
    """New payments of one purpose come to the total, in one sum or in up to so many parts."""
    values = {"booking_id": booking_id, "purpose": purpose, "method": method, "taken_by": USER}
    paid = [
        int(row["amount_cents"])
        for row in _new_rows(check, "payments")
        if all(row[name] == value for name, value in values.items())
    ]
    name = f"{purpose} of booking {booking_id} by {method}"
    check.goal(name, sum(paid) == total_cents, f"{total_cents} cents", f"{paid}")
    check.allow("payments", new=parts if sum(paid) <= total_cents else 0, **values)


def _new_rows(check: Check, table: str) -> list[dict[str, Any]]:
    changes = [change for change in check.after.changes if change.table == table]
    return [change.after for change in changes if change.before is None and change.after]


def _refunded(
    check: Check, booking_id: int, segment_id: int, amount_cents: int, reason: str
) -> None:
    check.created(
        "refunds",
        booking_id=booking_id,
        segment_id=segment_id,
        amount_cents=amount_cents,
        reason=reason,
        created_by=USER,
    )


def _compensated(check: Check, passenger_id: int, segment_id: int, amount_cents: int) -> None:
    check.created(
        "vouchers",
        passenger_id=passenger_id,
        segment_id=segment_id,
        kind="compensation",
        amount_cents=amount_cents,
        balance_cents=amount_cents,
        status="open",
        issued_by=USER,
        expires_on="2027-06-15",
    )


def _noted(check: Check, booking_id: int, *phrases: str) -> None:
    """One new note on the booking, which says every phrase."""
    check.created("notes", booking_id=booking_id, body=ANY, written_by=USER)
    bodies = [
        str(change.after.get("body"))
        for change in check.after.changes
        if change.table == "notes" and change.before is None and change.after is not None
    ]
    for phrase in phrases:
        passed = any(says(body, phrase) for body in bodies)
        check.goal(f"note says {phrase!r}", passed, repr(phrase), "; ".join(bodies) or "no note")


def _noted_somewhere(check: Check, booking_id: int, most: int, *phrases: str) -> None:
    """The new notes on the booking, at most so many, say every phrase between them."""
    notes = [row for row in _new_rows(check, "notes") if row["booking_id"] == booking_id]
    text = "; ".join(str(row["body"]) for row in notes)
    for phrase in phrases:
        check.goal(f"note says {phrase!r}", says(text, phrase), repr(phrase), text or "no note")
    bodies = [str(row["body"]) for row in notes]
    check.guard("no note twice", len(set(bodies)) == len(bodies), "different notes", text)
    check.allow("notes", new=most, booking_id=booking_id, written_by=USER)


# Rebooking and changes


def rebook_cancelled_flight(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    _changed(
        check,
        3001,
        reason="airline_cancellation",
        booking_id=501,
        passenger_id=1,
        flights=(201, 203),
        family="CLASSIC",
        fare_cents=14800,
        had_seat=True,
    )
    _noted(check, 501, "VT436", "VT434")
    check.answer_has("VT434")
    check.untouched("segments", 3002)
    _logged(check, 2)
    check.nothing_else()
    return check.findings


def change_date_classic(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    _changed(
        check,
        3003,
        reason="voluntary",
        booking_id=502,
        passenger_id=2,
        flights=(206, 207),
        family="CLASSIC",
        fare_cents=21400,
    )
    _paid(check, 502, "fare_difference", 5500)
    _paid(check, 502, "change_fee", 4500)
    check.answer_has("100.00")
    check.untouched("segments", 3004)
    _logged(check, 4, 502)
    check.nothing_else()
    return check.findings


def missed_connection(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    _changed(
        check,
        3022,
        reason="missed_connection",
        booking_id=514,
        passenger_id=20,
        flights=(224, 225),
        family="CLASSIC",
        fare_cents=16800,
        had_seat=True,
    )
    _noted(check, 514, "VT570", "VT574")
    check.answer_has("VT574")
    check.answer_has("18:05", "6:05 pm", "6.05 pm")
    check.untouched("segments", 3021)
    _logged(check, 2)
    check.nothing_else()
    return check.findings


def no_show_flex(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    _changed(
        check,
        3035,
        reason="no_show",
        booking_id=526,
        passenger_id=7,
        flights=(None, 215),
        family="FLEX",
        fare_cents=27900,
    )
    _paid(check, 526, "no_show_fee", 9000)
    _paid(check, 526, "fare_difference", 3000)
    check.answer_has("120.00")
    check.untouched("segments", 3036)
    _logged(check, 4, 526)
    check.nothing_else()
    return check.findings


def add_return_flight(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    new_id = _new_segment(
        check,
        booking_id=527,
        passenger_id=24,
        flight_id=243,
        family_code="CLASSIC",
        fare_cents=11300,
        replaces_id=None,
    )
    _new_ticket(check, new_id)
    _seats_left(check, 243, -1)
    _paid(check, 527, "fare", 11300)
    check.answer_has("113.00")
    _logged(check, 3, 527)
    check.nothing_else()
    return check.findings


# Refunds


def refund_classic(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    _cancelled(check, 3005, reason="customer_request", flight_id=210)
    _refunded(check, 503, 3005, 11740, "fare_rules")
    check.answer_has("117.40")
    _logged(check, 2, 503)
    check.nothing_else()
    return check.findings


def refund_light_cancelled_by_us(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    _cancelled(check, 3006, reason="airline_cancellation", flight_id=244)
    check.updated("ancillaries", 7001, status="cancelled")
    _refunded(check, 504, 3006, 11400, "airline_cancellation")
    check.answer_has("114.00")
    _logged(check, 3, 504)  # the bag may be cancelled by a call of its own
    check.nothing_else()
    return check.findings


def duplicate_booking(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    _cancelled(check, 3031, reason="customer_request", flight_id=220, had_seat=True)
    _refunded(check, 522, 3031, 13900, "fare_rules")
    check.answer_has("RT8JNB")
    check.answer_has("139.00")
    check.untouched("segments", 3030)
    check.untouched("segments", 3032)
    _logged(check, 2, 521, 522)
    check.nothing_else()
    return check.findings


def give_up_return_bag(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.updated("ancillaries", 7005, status="cancelled")
    _refunded(check, 536, 3052, 4000, "ancillary")
    check.untouched("ancillaries", 7004)
    _logged(check, 2, 536)
    check.nothing_else()
    return check.findings


def refund_over_limit(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.created(
        "escalations",
        booking_id=517,
        topic="refund_over_limit",
        amount_cents=61200,
        status="open",
        opened_by=USER,
    )
    check.answer_has("supervisor")
    check.untouched("segments", 3026)
    _logged(check, 1, 517)
    check.nothing_else()
    return check.findings


# Seats, bags, children


def exit_row_seat(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.updated("seat_assignments", 3007, flight_id=211, seat_id=3136)
    check.answer_has("13F")
    _logged(check, 1, 505)
    check.nothing_else()
    return check.findings


def front_seat_with_fee(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.created("seat_assignments", segment_id=3013, flight_id=235, seat_id=2053)
    _paid(check, 509, "seat", 1500)
    check.answer_has("5C")
    check.untouched("seat_assignments", 3045)
    _logged(check, 2, 509)
    check.nothing_else()
    return check.findings


def wheelchair_and_exit_row(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.created(
        "ancillaries",
        segment_id=3009,
        product_code="WCHR",
        quantity=1,
        amount_cents=0,
        status="active",
        added_by=USER,
    )
    check.deleted("seat_assignments", 3009)
    check.untouched("seat_assignments", 3008)
    _logged(check, 2, 506)
    check.nothing_else()
    return check.findings


def escort_for_a_child(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.created(
        "ancillaries",
        segment_id=3019,
        product_code="UMNR",
        quantity=1,
        amount_cents=6000,
        status="active",
        added_by=USER,
    )
    _paid(check, 512, "ancillary", 6000)
    _noted(check, 512, "Graça Rocha", "+351 291 555 740")
    _logged(check, 2)
    check.nothing_else()
    return check.findings


def bag_paid_by_voucher(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.created(
        "ancillaries",
        segment_id=3023,
        product_code="BAG23",
        quantity=1,
        amount_cents=4000,
        status="active",
        added_by=USER,
    )
    check.updated("vouchers", 902, balance_cents=2000)
    _paid(check, 516, "ancillary", 4000, voucher="VB-8M4T1")
    check.answer_has("20.00")
    check.untouched("vouchers", 901)
    check.untouched("vouchers", 903)
    _logged(check, 2, 516)
    check.nothing_else()
    return check.findings


# Vouchers, miles, names, waiting lists


def compensation_by_arrival(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    _compensated(check, 16, 3017, 12500)
    _compensated(check, 17, 3018, 12500)
    check.answer_has("125.00")
    _logged(check, 2, 511)
    check.nothing_else()
    return check.findings


def voucher_to_the_wrong_man(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.updated("vouchers", 904, status="void", balance_cents=0)
    _compensated(check, 5, 3033, 12500)
    _logged(check, 2, 524, 525)
    check.nothing_else()
    return check.findings


def missing_miles(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.created(
        "loyalty_ledger",
        account_id=801,
        segment_id=3016,
        kind="flight",
        miles=1432,
        posted_by=USER,
    )
    check.updated("loyalty_accounts", 801, balance_miles=32672, tier_miles=23812)
    check.answer_has("1432")
    check.untouched("loyalty_accounts", 802)
    _logged(check, 1, 510)
    check.nothing_else()
    return check.findings


def correct_a_name(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.updated("passengers", 13, first_name="Catarina", last_name="Nunes")
    _logged(check, 1, 518)
    check.nothing_else()
    return check.findings


def contact_phone(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.updated("bookings", 519, contact_phone="+49 1520 555 0199")
    _logged(check, 1, 519)
    check.nothing_else()
    return check.findings


def waitlist_elite(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.created("waitlist", segment_id=3029, flight_id=202, priority="elite", status="waiting")
    check.untouched("segments", 3029)
    _logged(check, 1, 520)
    check.nothing_else()
    return check.findings


def leave_the_waitlist(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.updated("waitlist", 951, status="left")
    check.untouched("segments", 3054)
    _logged(check, 1, 543)
    check.nothing_else()
    return check.findings


# Long cases


_JUNE_18 = ("18 June", "June 18", "18 Jun", "18th", "18/06", "18.06", "2026-06-18", "Thursday")


def cancelled_flight_family(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    for old, passenger, family, fare in (
        (2801, 35, "CLASSIC", 12400),
        (2802, 36, "FLEX", 19600),
        (2803, 37, "CLASSIC", 12400),
    ):
        _changed(
            check,
            old,
            reason="airline_cancellation",
            booking_id=401,
            passenger_id=passenger,
            flights=(251, 254),
            family=family,
            fare_cents=fare,
            inventory=False,
        )
    _cancelled(check, 2804, reason="airline_cancellation", flight_id=None)
    check.updated("ancillaries", 6901, status="cancelled")
    _refunded(check, 401, 2804, 10900, "airline_cancellation")
    _seats_left(check, 251, 4)
    _seats_left(check, 254, -3)
    _noted_somewhere(check, 401, 2, "VT176", "VT178")
    check.untouched("segments", 2808)
    check.answer_has("VT178")
    check.answer_has(*_JUNE_18, name="answer says the day")
    check.answer_has("109.00")
    check.answer_has("LIGHT", "non-refundable", "not refundable", name="answer gives the reason")
    _logged(check, 9)
    check.nothing_else()
    return check.findings


def compensation_for_a_whole_flight(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    for passenger, segment in ((39, 2809), (43, 2813), (44, 2814), (46, 2817)):
        _compensated(check, passenger, segment, 12500)
    check.untouched("vouchers", 882)
    check.answer_has("125.00")
    for name in ("Vogel", "Dvořák", "Paula", "Simão", "Haddad", "Brandt", "Lídia"):
        plain = name.translate(str.maketrans("řáãí", "raai"))
        check.answer_has(name, plain, name=f"answer names {name}")
    _logged(check, 4, 402, 403, 404, 406, 407)
    check.nothing_else()
    return check.findings


def a_saturday_of_wrong_charges(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    for payment in (5954, 5955, 5957, 5958, 5959):
        check.updated("payments", payment, reversed_at=before.now)
    for payment in (5953, 5956, 5960, 5961):
        check.untouched("payments", payment)
    _paid(check, 409, "fare_difference", 2000)
    check.answer_has("45.00", name="answer says what GT4MAD gets back")
    check.answer_has("25.00", "5.00", name="answer says what HS6DUB gets back")
    check.answer_has("20.00", "5.00", name="answer says what HS6DUB is charged")
    both = all(says(answer, part) for part in ("39.00", "45.00"))
    check.goal(
        "answer says what NB2CDG gets back", both or says(answer, "84.00"), "84.00", answer[:200]
    )
    check.answer_has("9.00", name="answer says what PL9AMS gets back")
    _logged(check, 6, 408, 409, 410, 411)
    check.nothing_else()
    return check.findings


def change_within_a_budget(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    for old, passenger in ((2826, 51), (2828, 52)):
        _changed(
            check,
            old,
            reason="voluntary",
            booking_id=412,
            passenger_id=passenger,
            flights=(266, 267),
            family="CLASSIC",
            fare_cents=17900,
            inventory=False,
        )
    _seats_left(check, 266, 2)
    _seats_left(check, 267, -2)
    _charged(check, 412, "fare_difference", 3400, 2)
    _charged(check, 412, "change_fee", 9000, 2)
    check.untouched("segments", 2827)
    check.untouched("segments", 2829)
    check.answer_has("124.00")
    _logged(check, 8, 412)
    check.nothing_else()
    return check.findings


def bags_for_a_choir(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    _bags(check, {2830: 1, 2834: 1, 2836: 1, 2838: 2})
    check.updated("vouchers", 880, balance_cents=0, status="used")
    check.untouched("vouchers", 881)
    _charged(check, 413, "ancillary", 3000, 1, "voucher")
    _charged(check, 413, "ancillary", 17000, 5)
    check.answer_has("170.00", "160.00", name="answer says what the card paid")
    check.answer_has("30.00", name="answer says what the voucher paid")
    check.answer_has("VB-3H6Q8", "second voucher", "other voucher", "Sara's voucher")
    for name in ("Sara", "Gil"):
        check.answer_has(name)
    check.answer_has("Luísa", "Luisa")
    _logged(check, 11, 413)
    check.nothing_else()
    return check.findings


def _bags(check: Check, wanted: dict[int, int]) -> None:
    """New bags of 23 kg, so many on each segment, in one entry or in several."""
    found: dict[int, int] = {}
    for row in _new_rows(check, "ancillaries"):
        if row["product_code"] == "BAG23" and row["status"] == "active":
            found[row["segment_id"]] = found.get(row["segment_id"], 0) + row["quantity"]
    for segment_id, quantity in wanted.items():
        got = found.get(segment_id, 0)
        check.goal(f"bags of {segment_id}", got == quantity, f"{quantity}", f"{got}")
        new = quantity if got <= quantity else 0
        bag = {"segment_id": segment_id, "product_code": "BAG23", "added_by": USER}
        check.allow("ancillaries", new=new, **bag)


def three_connections_one_delay(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    new_ids = [
        _changed(
            check,
            old,
            reason="missed_connection",
            booking_id=414,
            passenger_id=passenger,
            flights=(224, 225),
            family=family,
            fare_cents=fare,
            had_seat=True,
            inventory=False,
        )
        for old, passenger, family, fare in (
            (2841, 58, "FLEX", 24800),
            (2843, 59, "CLASSIC", 16300),
        )
    ]
    _seats_left(check, 224, 2)
    _seats_left(check, 225, -2)
    check.updated("ancillaries", 6907, segment_id=new_ids[1])
    check.created("seat_assignments", segment_id=new_ids[0], flight_id=225, seat_id=2111)
    _noted_somewhere(check, 414, 2, "VT570", "VT574")
    check.untouched("segments", 2845)
    check.answer_has("VT574")
    check.answer_has("11A")
    check.answer_has("VT724", "Benedita", name="answer says what happens to Benedita")
    check.answer_has(
        "air traffic control",
        "air traffic",
        "ATC",
        "outside our control",
        "beyond our control",
        "55 minutes late",
        "120 minutes",
        "two hours",
        name="answer gives the reason",
    )
    _logged(check, 5)
    check.nothing_else()
    return check.findings


def two_children_to_the_azores(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    new_ids = [
        _changed(
            check,
            old,
            reason="voluntary",
            booking_id=416,
            passenger_id=passenger,
            flights=(273, 272),
            family="CLASSIC",
            fare_cents=10300,
            inventory=False,
        )
        for old, passenger in ((2847, 62), (2849, 63))
    ]
    _seats_left(check, 273, 2)
    _seats_left(check, 272, -2)
    for segment_id in (*new_ids, 2850):
        check.created(
            "ancillaries",
            segment_id=segment_id,
            product_code="UMNR",
            quantity=1,
            amount_cents=6000,
            status="active",
            added_by=USER,
        )
    _charged(check, 416, "fare_difference", 2800, 2)
    _charged(check, 416, "change_fee", 9000, 2)
    _charged(check, 416, "ancillary", 18000, 3)
    _noted_somewhere(
        check, 416, 2, "Jorge Abrantes", "+351 296 555 214", "Vera", "+351 917 555 062"
    )
    check.answer_has("298.00")
    check.answer_has("VT176")
    check.answer_has("Afonso", name="answer says who travels without the escort")
    _logged(check, 14)
    check.nothing_else()
    return check.findings


def a_winter_of_miles(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    for segment_id, miles in ((2852, 1164), (2853, 303), (2856, 1432)):
        check.created(
            "loyalty_ledger",
            account_id=819,
            segment_id=segment_id,
            kind="flight",
            miles=miles,
            posted_by=USER,
        )
    check.updated("loyalty_accounts", 819, balance_miles=29702, tier_miles=23852)
    check.untouched("loyalty_accounts", 820)
    each = all(says(answer, miles) for miles in ("1164", "303", "1432"))
    check.goal("answer says the miles", each or says(answer, "2899"), "2899", answer[:200])
    check.answer_has("180", "too old", "too long ago", "VT740", name="answer says what is too old")
    check.answer_has("no-show", "no show", "not flown", "didn't fly", "did not fly", "VT662")
    check.answer_has("Irene", "your wife", "wife's", name="answer says what Irene does not get")
    _logged(check, 3, 417, 418, 419)
    check.nothing_else()
    return check.findings


def a_project_called_off(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    own, ours = ("customer_request", "fare_rules"), ("airline_cancellation", "airline_cancellation")
    for segment_id, (reason, refund), cents in (
        (2860, own, 11300),
        (2861, ours, 17600),
        (2863, ours, 14400),
        (2865, own, 31500),
    ):
        _cancelled(check, segment_id, reason=reason, flight_id=None)
        _refunded(check, 420, segment_id, cents, refund)
    _seats_left(check, 282, 2)
    _seats_left(check, 283, 2)
    check.updated("ancillaries", 6908, status="cancelled")
    check.created(
        "escalations",
        booking_id=420,
        topic="refund_over_limit",
        amount_cents=58900,
        status="open",
        opened_by=USER,
    )
    check.untouched("segments", 2859)
    check.untouched("segments", 2862)
    for whose, total, parts in (
        ("Bruno", "289.00", ("113.00", "176.00")),
        ("Carmo", "144.00", ("104.00", "40.00")),
        ("Dinis", "315.00", ("315.00",)),
    ):
        passed = says(answer, total) or all(says(answer, part) for part in parts)
        check.goal(f"answer says what {whose} gets", passed, total, answer[:200])
    check.answer_has("supervisor", name="answer says who decides on Odete's refund")
    check.answer_has("LIGHT", "non-refundable", "not refundable", name="answer says what is lost")
    _logged(check, 10, 420)
    check.nothing_else()
    return check.findings


def three_seats_come_free(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    for old, booking, passenger, had_seat in (
        (2867, 422, 72, True),
        (2872, 426, 77, False),
        (2871, 425, 76, False),
    ):
        _changed(
            check,
            old,
            reason="voluntary",
            booking_id=booking,
            passenger_id=passenger,
            flights=(285, 284),
            family="FLEX",
            fare_cents=32900,
            had_seat=had_seat,
            inventory=False,
        )
    _seats_left(check, 285, 3)
    _seats_left(check, 284, -3)
    for entry in (942, 946, 947):
        check.updated("waitlist", entry, status="cleared")
    check.updated("waitlist", 943, status="left")
    for entry in (941, 944, 945):
        check.untouched("waitlist", entry)
    _paid(check, 422, "fare_difference", 1400)
    _paid(check, 425, "fare_difference", 3000)
    for name in ("Luc", "Nadine", "Rafael"):
        check.answer_has(name)
    check.answer_has("14.00")
    check.answer_has("30.00")
    check.answer_has("Guerra", "Ema", name="answer says what is odd about Ema Guerra")
    check.answer_has("Simon", "Zoé", "Zoe", name="answer says what is odd about Zoé Simon")
    _logged(check, 9)
    about = mentions(
        *[
            "wait",
            "waiting",
            "list",
            "waitlist",
            "seat",
            "seats",
            "moved",
            "changed",
            "fare",
            "priority",
        ]
    )
    for booking_id in range(421, 427):
        check.allow("notes", new=1, booking_id=booking_id, written_by=USER, body=about)
    check.nothing_else()
    return check.findings


# Questions


def bag_allowance(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.answer_has("3", "three", name="answer says how many bags")
    check.answer_has("23", "23 kg", "23kg", name="answer says the weight")
    check.nothing_else()
    return check.findings


def connection_time(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.answer_has("70", "1 h 10 min", "1 hour 10 minutes", name="answer says the time there is")
    check.answer_has("50", name="answer says the time needed")
    check.nothing_else()
    return check.findings


def cost_of_a_change(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.answer_has("23.50", name="answer says the fare difference")
    check.answer_has("45.00", name="answer says the fee")
    check.answer_has("68.50", name="answer says the sum")
    check.nothing_else()
    return check.findings


def cheapest_flex_for_two(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.answer_has("VT664", name="answer names the flight")
    check.answer_has("630.00", name="answer says the price for two")
    check.nothing_else()
    return check.findings


def miles_to_gold(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.answer_has("6550", name="answer says the miles")
    check.nothing_else()
    return check.findings


def refund_if_cancelled(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.answer_has("196.30", name="answer says the sum")
    check.nothing_else()
    return check.findings


# What must be declined


def _declined(before: State, after: State, answer: str, *reasons: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.declined(*reasons)
    check.nothing_else()
    return check.findings


def decline_light_refund(before: State, after: State, answer: str) -> list[Finding]:
    return _declined(
        before, after, answer, "LIGHT", "non-refundable", "not refundable", "nonrefundable"
    )


def decline_similar_name(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.declined(
        "not a passenger",
        "not the passenger",
        "not one of its passengers",
        "not one of the passengers",
        "neither a passenger",
        "neither one of its passengers",
        "neither the passenger",
        "not on the booking",
        "not on this booking",
        "not on that booking",
        "not listed",
        "not its contact",
        "not the contact",
        "only its passengers",
        "only one of its passengers",
        "only a passenger",
        "another person",
        "someone else",
        "different person",
    )
    check.answer_lacks("Carla", "VT740", "VT741", "98.00")  # nothing of what is on the booking
    check.nothing_else()
    return check.findings


def decline_weather_compensation(before: State, after: State, answer: str) -> list[Finding]:
    return _declined(before, after, answer, "weather", "outside our control", "beyond our control")


def decline_expired_voucher(before: State, after: State, answer: str) -> list[Finding]:
    return _declined(
        before, after, answer, "expired", "expiry", "never extended", "no longer valid"
    )


def decline_escort_on_last_flight(before: State, after: State, answer: str) -> list[Finding]:
    return _declined(
        before,
        after,
        answer,
        "last flight",
        "last one of the day",
        "final flight",
        "last of the day",
    )


def decline_exit_row_minor(before: State, after: State, answer: str) -> list[Finding]:
    return _declined(before, after, answer, "15", "16", "fifteen", "sixteen", "too young")


def decline_miles_before_joining(before: State, after: State, answer: str) -> list[Finding]:
    return _declined(
        before,
        after,
        answer,
        "before joining",
        "before you joined",
        "30 days",
        "48 days",
        "before the account",
    )


def decline_ticket_transfer(before: State, after: State, answer: str) -> list[Finding]:
    return _declined(
        before,
        after,
        answer,
        "another person",
        "someone else",
        "somebody else",
        "anyone else",
        "transfer",
        "transferred",
        "transferable",
        "non-transferable",
        "misspelled",
        "nobody else",
    )
