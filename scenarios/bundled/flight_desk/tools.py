"""The back office of Vento Air's service desk.

The state machines, what is sold and what is full, and the agent's limits are refused here; fees,
entitlements and who may ask for what stand in policy.md and are the agent's to keep. Every write
but a note leaves one audit_log row.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from scenarios.api import Db, Row, SqlValue
from scenarios.errors import ToolError

Id = Annotated[int, Meta(ge=1, le=2_000_000_000)]
Cents = Annotated[int, Meta(ge=1, le=10_000_000, description="Euro cents")]
CentsOrZero = Annotated[int, Meta(ge=0, le=10_000_000, description="Euro cents")]
Miles = Annotated[int, Meta(ge=1, le=1_000_000)]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="YYYY-MM-DD")]
Airport = Annotated[str, Meta(pattern="^[A-Z]{3}$", description="Airport code such as LIS")]
FlightNumber = Annotated[str, Meta(pattern=r"^VT\d{3}$", description="Such as VT436")]
Reference = Annotated[
    str, Meta(pattern="^[A-Z0-9]{6}$", description="Booking reference of six letters and digits")
]
SeatLabel = Annotated[str, Meta(pattern=r"^\d{1,2}[A-F]$", description="Row and letter, as in 12A")]
Text = Annotated[str, Meta(min_length=3, max_length=1000)]
Name = Annotated[str, Meta(min_length=1, max_length=60)]

Family = Literal["LIGHT", "CLASSIC", "FLEX", "BUSINESS"]
Product = Literal["BAG23", "BAG32", "SPORT", "UMNR", "MEAL", "WCHR"]
Purpose = Literal["fare", "fare_difference", "change_fee", "no_show_fee", "seat", "ancillary"]
ChangeReason = Literal[
    "voluntary", "airline_cancellation", "long_delay", "missed_connection", "no_show"
]
CancelReason = Literal["customer_request", "airline_cancellation", "long_delay"]
RefundReason = Literal["fare_rules", "airline_cancellation", "long_delay", "ancillary"]

_LONG_DELAY_MIN = 180
_DESK_CLOSES_MIN = 60  # before departure
_FLIGHT = (
    "SELECT f.id AS flight_id, f.number, r.origin, r.destination, f.departs_at, f.arrives_at,"
    " f.status FROM flights f JOIN routes r ON r.id = f.route_id"
)


# People and bookings.


def find_passengers(db: Db, last_name: Name, first_name: Name | None = None) -> Row:
    """Passengers whose last name contains the text, and whose first name does where it is given.
    Date of birth and e-mail tell people of one name apart. At most 20; `truncated` says whether
    there are more."""
    found = db.all(
        "SELECT p.id AS passenger_id, p.first_name, p.last_name, p.born_on, p.email,"
        " a.number AS loyalty_number FROM passengers p"
        " LEFT JOIN loyalty_accounts a ON a.passenger_id = p.id"
        " WHERE instr(lower(p.last_name), lower(?)) > 0"
        " AND instr(lower(p.first_name), lower(?)) > 0"
        " ORDER BY p.last_name, p.first_name, p.id LIMIT 21",
        last_name,
        first_name or "",
    )
    return _first("passengers", found, 20)


def get_passenger(db: Db, passenger_id: Id) -> Row:
    """One passenger with date of birth, e-mail and the number of the loyalty account."""
    return _passenger(db, passenger_id)


def find_bookings(db: Db, passenger_id: Id) -> list[Row]:
    """All bookings that a passenger is on, the newest first, with the number of the passenger's
    segments and their first departure."""
    _passenger(db, passenger_id)
    return db.all(
        "SELECT b.reference, b.contact_name, b.booked_at, b.channel, count(s.id) AS num_segments,"
        " min(f.departs_at) AS first_departure FROM booking_passengers bp"
        " JOIN bookings b ON b.id = bp.booking_id"
        " LEFT JOIN segments s ON s.booking_id = b.id AND s.passenger_id = bp.passenger_id"
        " LEFT JOIN flights f ON f.id = s.flight_id"
        " WHERE bp.passenger_id = ? GROUP BY b.id ORDER BY b.booked_at DESC, b.id",
        passenger_id,
    )


def get_booking(db: Db, reference: Reference) -> Row:
    """One booking: its contact, its passengers with their Vento Plus numbers, and their segments
    with flight, fare family, fare paid (cents), status, open or used ticket, seat with its zone,
    and bags and other extras."""
    booking = _booking(db, reference)
    booking_id = booking.pop("id")
    booking["passengers"] = db.all(
        "SELECT p.id AS passenger_id, p.first_name, p.last_name, p.born_on,"
        " a.number AS loyalty_number"
        " FROM booking_passengers bp JOIN passengers p ON p.id = bp.passenger_id"
        " LEFT JOIN loyalty_accounts a ON a.passenger_id = p.id"
        " WHERE bp.booking_id = ? ORDER BY p.id",
        booking_id,
    )
    segments = db.all(
        "SELECT s.id AS segment_id, s.passenger_id, s.flight_id, f.number, r.origin,"
        " r.destination, f.departs_at, f.arrives_at, f.status AS flight_status, s.family_code,"
        " s.fare_cents, s.status, s.replaces_id, s.reason, t.number AS ticket, e.label AS seat,"
        " e.zone AS seat_zone FROM segments s JOIN flights f ON f.id = s.flight_id"
        " JOIN routes r ON r.id = f.route_id"
        " LEFT JOIN tickets t ON t.segment_id = s.id AND t.status IN ('open', 'used')"
        " LEFT JOIN seat_assignments a ON a.segment_id = s.id LEFT JOIN seats e ON e.id = a.seat_id"
        " WHERE s.booking_id = ? ORDER BY f.departs_at, s.passenger_id, s.id",
        booking_id,
    )
    extras = db.all(
        "SELECT x.id AS ancillary_id, x.segment_id, x.product_code, x.quantity, x.amount_cents,"
        " x.status FROM segments s JOIN ancillaries x ON x.segment_id = s.id"
        " WHERE s.booking_id = ? ORDER BY x.id",
        booking_id,
    )
    for segment in segments:
        segment["ancillaries"] = [x for x in extras if x["segment_id"] == segment["segment_id"]]
    booking["segments"] = segments
    return booking


def get_ticket(db: Db, number: Annotated[str, Meta(max_length=20)]) -> Row:
    """One ticket by its number (such as 731-26004001), with its booking, segment and status."""
    ticket = db.one(
        "SELECT t.number, t.status, t.issued_at, t.issued_by, t.segment_id, b.reference"
        " FROM tickets t JOIN segments s ON s.id = t.segment_id"
        " JOIN bookings b ON b.id = s.booking_id WHERE t.number = ?",
        number,
    )
    if ticket is None:
        raise ToolError(f"There is no ticket {number}.")
    return ticket


def list_payments(db: Db, reference: Reference) -> Row:
    """What was paid for a booking and what was refunded, oldest first, in cents. A payment with
    `reversed_at` was charged by mistake and has gone back."""
    booking_id = _booking(db, reference)["id"]
    return {
        "payments": db.all(
            "SELECT id AS payment_id, purpose, method, method_reference, amount_cents, taken_at,"
            " taken_by, reversed_at FROM payments WHERE booking_id = ? ORDER BY taken_at, id",
            booking_id,
        ),
        "refunds": db.all(
            "SELECT id AS refund_id, segment_id, amount_cents, reason, created_at, created_by"
            " FROM refunds WHERE booking_id = ? ORDER BY created_at, id",
            booking_id,
        ),
    }


def list_notes(db: Db, reference: Reference) -> list[Row]:
    """The desk's notes on a booking, oldest first."""
    return db.all(
        "SELECT body, written_at, written_by FROM notes WHERE booking_id = ?"
        " ORDER BY written_at, id",
        _booking(db, reference)["id"],
    )


def list_escalations(db: Db, reference: Reference) -> list[Row]:
    """What was handed to a supervisor for a booking, oldest first."""
    return db.all(
        "SELECT id AS escalation_id, topic, amount_cents, body, status, opened_at, opened_by"
        " FROM escalations WHERE booking_id = ? ORDER BY opened_at, id",
        _booking(db, reference)["id"],
    )


# Flights.


def find_flights(db: Db, number: FlightNumber, day: Day) -> list[Row]:
    """The flight of a number on a day of departure, with times (UTC) and status."""
    return db.all(
        f"{_FLIGHT} WHERE f.number = ? AND substr(f.departs_at, 1, 10) = ? ORDER BY f.departs_at",
        number,
        day,
    )


def search_flights(
    db: Db, origin: Airport, destination: Airport, first_day: Day, last_day: Day | None = None
) -> Row:
    """Flights of a route on a day, or from the first to the last day, by departure (UTC), with
    status and seats left in each cabin. At most 40; `truncated` says whether there are more."""
    found = db.all(
        "SELECT f.id AS flight_id, f.number, f.departs_at, f.arrives_at, f.status,"
        " e.seats_left AS economy_seats_left, b.seats_left AS business_seats_left"
        " FROM routes r JOIN flights f ON f.route_id = r.id"
        " LEFT JOIN flight_inventory e ON e.flight_id = f.id AND e.cabin = 'economy'"
        " LEFT JOIN flight_inventory b ON b.flight_id = f.id AND b.cabin = 'business'"
        " WHERE r.origin = ? AND r.destination = ? AND substr(f.departs_at, 1, 10) BETWEEN ? AND ?"
        " ORDER BY f.departs_at, f.id LIMIT 41",
        origin,
        destination,
        first_day,
        last_day or first_day,
    )
    return _first("flights", found, 40)


def get_flight(db: Db, flight_id: Id) -> Row:
    """One flight: number, route, scheduled times (UTC), status, aircraft, seats left per cabin."""
    flight = _flight(db, flight_id)
    plane = db.one(
        "SELECT a.registration, t.name FROM flights f JOIN aircraft a ON a.id = f.aircraft_id"
        " JOIN aircraft_types t ON t.id = a.type_id WHERE f.id = ?",
        flight_id,
    )
    flight["aircraft"] = plane
    flight["cabins"] = db.all(
        "SELECT cabin, capacity, seats_left FROM flight_inventory WHERE flight_id = ?"
        " ORDER BY cabin DESC",
        flight_id,
    )
    return flight


def list_disruptions(db: Db, flight_id: Id) -> list[Row]:
    """What went wrong with a flight: cancellation or delay, its cause, and for a delay the minutes
    late at departure and at arrival (measured, or expected where it has not flown yet). The entry
    announced last stands last."""
    _flight(db, flight_id)
    return db.all(
        "SELECT kind, cause, departure_delay_min, arrival_delay_min, announced_at"
        " FROM disruptions WHERE flight_id = ? ORDER BY announced_at, id",
        flight_id,
    )


def list_flight_passengers(db: Db, flight_id: Id) -> Row:
    """Everyone with a segment on a flight, by name, with booking reference, status of the segment
    and seat. At most 200; `truncated` says whether there are more."""
    _flight(db, flight_id)
    found = db.all(
        "SELECT s.id AS segment_id, b.reference, p.id AS passenger_id, p.first_name,"
        " p.last_name, s.family_code, s.status, e.label AS seat FROM segments s"
        " JOIN bookings b ON b.id = s.booking_id"
        " JOIN passengers p ON p.id = s.passenger_id"
        " LEFT JOIN seat_assignments a ON a.segment_id = s.id LEFT JOIN seats e ON e.id = a.seat_id"
        " WHERE s.flight_id = ? ORDER BY p.last_name, p.first_name, s.id LIMIT 201",
        flight_id,
    )
    return _first("passengers", found, 200)


def get_airport(db: Db, code: Airport) -> Row:
    """One airport with its minimum connection time in minutes."""
    airport = db.one(
        "SELECT code, name, city, country, min_connection_min FROM airports WHERE code = ?", code
    )
    if airport is None:
        raise ToolError(f"There is no airport {code} in our network.")
    return airport


def get_route(db: Db, origin: Airport, destination: Airport) -> Row:
    """The distance of a route in miles."""
    route = db.one(
        "SELECT origin, destination, distance_miles FROM routes"
        " WHERE origin = ? AND destination = ?",
        origin,
        destination,
    )
    if route is None:
        raise ToolError(f"We do not fly from {origin} to {destination}.")
    return route


def get_seat_map(
    db: Db,
    flight_id: Id,
    zone: Literal["standard", "front", "exit", "business"] | None = None,
    place: Literal["window", "middle", "aisle"] | None = None,
) -> Row:
    """The seats that are free on a flight, by row, with place, zone and fee in cents; those of one
    zone or place where given. Blocked and taken seats are left out. At most 60; `truncated` says
    whether there are more."""
    _flight(db, flight_id)
    found = db.all(
        "SELECT e.label, e.cabin, e.place, e.zone, e.fee_cents FROM flights f"
        " JOIN aircraft c ON c.id = f.aircraft_id JOIN seats e ON e.type_id = c.type_id"
        " LEFT JOIN seat_assignments a ON a.flight_id = f.id AND a.seat_id = e.id"
        " WHERE f.id = ? AND e.blocked = 0 AND a.seat_id IS NULL"
        " AND (? IS NULL OR e.zone = ?) AND (? IS NULL OR e.place = ?)"
        " ORDER BY e.id LIMIT 61",
        flight_id,
        zone,
        zone,
        place,
        place,
    )
    return _first("seats", found, 60)


# Fares, extras and money.


def list_fares(db: Db, flight_id: Id) -> list[Row]:
    """Every fare filed for a flight, by family and first day of sale, in cents for one person. A
    fare is sold from valid_from to valid_until, both days included; older ones are listed too."""
    _flight(db, flight_id)
    return db.all(
        "SELECT a.id AS fare_id, a.family_code, m.cabin, a.amount_cents, a.valid_from,"
        " a.valid_until FROM fares a JOIN fare_families m ON m.code = a.family_code"
        " WHERE a.flight_id = ? ORDER BY m.id, a.valid_from",
        flight_id,
    )


def get_fare_rules(db: Db, family: Family) -> Row:
    """The rules of a fare family: changes, refunds, no-show, bags, seat choice, miles. Fees are in
    cents for each passenger and segment; a no-show fee of null means that a missed flight is
    lost."""
    rules = db.one(
        "SELECT code, cabin, changeable, change_fee_cents, refund, refund_fee_cents,"
        " no_show_fee_cents, bags_included, bag_kg, seat_included, miles_percent"
        " FROM fare_families WHERE code = ?",
        family,
    )
    assert rules is not None
    return rules


def list_ancillary_products(db: Db) -> list[Row]:
    """Bags and other extras on sale, with the price in cents and the most that one segment may
    have."""
    return db.all(
        "SELECT code, title, price_cents, max_per_segment FROM ancillary_products ORDER BY id"
    )


def list_compensation_bands(db: Db) -> list[Row]:
    """What a passenger gets in compensation, by minutes late at arrival or for a cancellation, in
    cents."""
    return db.all(
        "SELECT kind, min_delay_min, max_delay_min, amount_cents FROM compensation_bands"
        " ORDER BY kind, min_delay_min"
    )


def list_staff(db: Db) -> list[Row]:
    """The colleagues of the desk with login, name and role."""
    return db.all(
        "SELECT s.login, s.name, r.title AS role FROM staff s JOIN roles r ON r.code = s.role"
        " ORDER BY s.id"
    )


def get_my_limits(db: Db) -> Row:
    """Who you are here, and the most that you may pay back in one refund or give in one goodwill
    voucher, in cents."""
    limits = db.one(
        "SELECT s.login, s.name, r.title AS role, r.refund_limit_cents, r.goodwill_limit_cents"
        " FROM staff s JOIN roles r ON r.code = s.role WHERE s.login = ?",
        db.user.id,
    )
    if limits is None:
        raise ToolError(f"{db.user.id} is not on the desk's staff list.")
    return limits


def find_vouchers(db: Db, passenger_id: Id) -> list[Row]:
    """All vouchers of a passenger, oldest first, with balance in cents, status and last day of
    use."""
    _passenger(db, passenger_id)
    return db.all(
        "SELECT code, kind, amount_cents, balance_cents, status, segment_id, issued_at, expires_on"
        " FROM vouchers WHERE passenger_id = ? ORDER BY issued_at, id",
        passenger_id,
    )


def get_voucher(db: Db, code: Annotated[str, Meta(max_length=20)]) -> Row:
    """One voucher by its code (such as VB-9C3R5): its passenger, segment, balance in cents, status
    and last day of use."""
    return _voucher(db, code)


# Miles and waiting lists.


def get_loyalty_account(db: Db, number: Annotated[str, Meta(max_length=12)]) -> Row:
    """A Vento Plus account by its number (such as VP100231): its passenger, tier, day of joining,
    miles to spend, and tier miles of this year. The tier is the one that holds today."""
    account = db.one(
        "SELECT a.number, a.passenger_id, p.first_name, p.last_name, p.born_on, a.tier,"
        " a.joined_on, a.balance_miles, a.tier_miles FROM loyalty_accounts a"
        " JOIN passengers p ON p.id = a.passenger_id WHERE a.number = ?",
        number,
    )
    if account is None:
        raise ToolError(f"There is no loyalty account {number}.")
    return account


def list_loyalty_ledger(db: Db, number: Annotated[str, Meta(max_length=12)]) -> list[Row]:
    """The latest entries of a Vento Plus account, the newest first; a flight's entry names its
    segment. Older entries of partners and of miles spent are archived, so the entries do not add
    up to the balance; those of flights of the last 12 months are all here."""
    account = _account(db, number)
    return db.all(
        "SELECT l.kind, l.miles, l.segment_id, f.number AS flight, f.departs_at, l.posted_at,"
        " l.posted_by FROM loyalty_ledger l LEFT JOIN segments s ON s.id = l.segment_id"
        " LEFT JOIN flights f ON f.id = s.flight_id WHERE l.account_id = ?"
        " ORDER BY l.posted_at DESC, l.id",
        account["id"],
    )


def list_loyalty_tiers(db: Db) -> list[Row]:
    """The tiers of Vento Plus: tier miles needed in a year, bonus on flown miles in percent, and
    extra bags of the fare's weight."""
    return db.all(
        "SELECT code, tier_miles_needed, bonus_percent, extra_bags FROM loyalty_tiers ORDER BY id"
    )


def list_waitlist(db: Db, flight_id: Id) -> list[Row]:
    """Who waits, or waited, for a seat on a flight: as entered, elite before standard, then in
    order of joining; with the fare family and the fare paid (cents) of the segment that they hold,
    and their Vento Plus number."""
    _flight(db, flight_id)
    return db.all(
        "SELECT w.id AS waitlist_id, w.segment_id, b.reference, p.first_name, p.last_name,"
        " a.number AS loyalty_number, s.family_code, s.fare_cents, w.priority, w.status,"
        " w.joined_at FROM waitlist w"
        " JOIN segments s ON s.id = w.segment_id JOIN bookings b ON b.id = s.booking_id"
        " JOIN passengers p ON p.id = s.passenger_id"
        " LEFT JOIN loyalty_accounts a ON a.passenger_id = p.id WHERE w.flight_id = ?"
        " ORDER BY w.priority, w.joined_at, w.id",
        flight_id,
    )


# Changing what is booked.


def change_segment(db: Db, segment_id: Id, fare_id: Id, reason: ChangeReason) -> Row:
    """Move one passenger's segment to the flight and family of a fare that is on sale, on the same
    route. The old segment is exchanged, its seat is given up, its bags and extras move along, and
    the new segment has no ticket yet. Takes no money: for `voluntary` and `no_show` the new fare
    applies; for the other reasons the family must stay and the fare paid is kept."""
    old = _segment(db, segment_id)
    wanted = "no_show" if reason == "no_show" else "confirmed"
    if old["status"] != wanted:
        raise ToolError(
            f"Segment {segment_id} is {old['status']}; a change for {reason} needs {wanted}."
        )
    fare = _fare_on_sale(db, fare_id)
    if (fare["origin"], fare["destination"]) != (old["origin"], old["destination"]):
        raise ToolError(
            f"Fare {fare_id} is for {fare['origin']}-{fare['destination']}, segment {segment_id}"
            f" is {old['origin']}-{old['destination']}."
        )
    _check_not_aboard(db, old["booking_id"], old["passenger_id"], fare)
    _check_change_reason(db, old, reason)
    kept = reason not in ("voluntary", "no_show")
    if kept and fare["family_code"] != old["family_code"]:
        raise ToolError(f"A change for {reason} stays in {old['family_code']}.")
    new_id = db.insert(
        "segments",
        booking_id=old["booking_id"],
        passenger_id=old["passenger_id"],
        flight_id=fare["flight_id"],
        family_code=fare["family_code"],
        fare_cents=old["fare_cents"] if kept else fare["amount_cents"],
        status="confirmed",
        replaces_id=segment_id,
        created_at=db.now,
    )
    db.run("UPDATE ancillaries SET segment_id = ? WHERE segment_id = ?", new_id, segment_id)
    _end_segment(db, old, "exchanged", reason, "cleared")
    _take_place(db, fare)
    _audit(db, "segment.changed", "segments", new_id)
    return {**_segment(db, new_id), "replaces_id": segment_id}


def add_segment(db: Db, reference: Reference, passenger_id: Id, fare_id: Id) -> Row:
    """Add a flight to a booking for one of its passengers, at a fare that is on sale. Takes no
    money and issues no ticket."""
    booking = _booking(db, reference)
    if not db.one(
        "SELECT 1 FROM booking_passengers WHERE booking_id = ? AND passenger_id = ?",
        booking["id"],
        passenger_id,
    ):
        raise ToolError(f"Passenger {passenger_id} is not on booking {reference}.")
    fare = _fare_on_sale(db, fare_id)
    _check_not_aboard(db, booking["id"], passenger_id, fare)
    new_id = db.insert(
        "segments",
        booking_id=booking["id"],
        passenger_id=passenger_id,
        flight_id=fare["flight_id"],
        family_code=fare["family_code"],
        fare_cents=fare["amount_cents"],
        status="confirmed",
        created_at=db.now,
    )
    _take_place(db, fare)
    _audit(db, "segment.added", "segments", new_id)
    return _segment(db, new_id)


def cancel_segment(db: Db, segment_id: Id, reason: CancelReason) -> Row:
    """Cancel one passenger's confirmed segment with its ticket, seat, bags and extras. Pays nothing
    back: refund it afterwards. Reasons other than `customer_request` need the disruption on
    file."""
    old = _segment(db, segment_id)
    if old["status"] != "confirmed":
        raise ToolError(f"Segment {segment_id} is {old['status']}, so it cannot be cancelled.")
    _check_change_reason(db, old, "voluntary" if reason == "customer_request" else reason)
    db.run(
        "UPDATE ancillaries SET status = 'cancelled' WHERE segment_id = ? AND status = 'active'",
        segment_id,
    )
    _end_segment(db, old, "cancelled", reason, "left")
    _audit(db, "segment.cancelled", "segments", segment_id)
    extras = db.all(
        "SELECT id AS ancillary_id, product_code, quantity, amount_cents, status FROM ancillaries"
        " WHERE segment_id = ? ORDER BY id",
        segment_id,
    )
    return {**_segment(db, segment_id), "ancillaries": extras}


def issue_ticket(db: Db, segment_id: Id) -> Row:
    """Issue the ticket of a confirmed segment that has none, as after a change or an added
    flight."""
    segment = _segment(db, segment_id)
    if segment["status"] != "confirmed":
        raise ToolError(f"Segment {segment_id} is {segment['status']}, so it gets no ticket.")
    open_ticket = db.value(
        "SELECT number FROM tickets WHERE segment_id = ? AND status = 'open'", segment_id
    )
    if open_ticket is not None:
        raise ToolError(f"Segment {segment_id} has the open ticket {open_ticket}.")
    ticket_id = 1 + (db.value("SELECT max(id) FROM tickets") or 0)
    number = f"731-2600{ticket_id}"
    db.insert(
        "tickets",
        id=ticket_id,
        number=number,
        segment_id=segment_id,
        status="open",
        issued_at=db.now,
        issued_by=db.user.id,
    )
    _audit(db, "ticket.issued", "tickets", ticket_id)
    return {
        "number": number,
        "segment_id": segment_id,
        "status": "open",
        "reference": segment["reference"],
        "flight": segment["number"],
        "departs_at": segment["departs_at"],
    }


def assign_seat(db: Db, segment_id: Id, seat: SeatLabel) -> Row:
    """Give a free seat of the segment's cabin to a confirmed segment; a seat it had is given up.
    Takes no money, and who may sit where is for the agent to check."""
    segment = _confirmed(db, segment_id)
    place = db.one(
        "SELECT e.id, e.cabin, e.zone, e.fee_cents, e.blocked, a.segment_id FROM flights f"
        " JOIN aircraft c ON c.id = f.aircraft_id"
        " JOIN seats e ON e.type_id = c.type_id AND e.label = ?"
        " LEFT JOIN seat_assignments a ON a.flight_id = f.id AND a.seat_id = e.id WHERE f.id = ?",
        seat,
        segment["flight_id"],
    )
    if place is None:
        raise ToolError(f"There is no seat {seat} on flight {segment['flight_id']}.")
    if place["cabin"] != segment["cabin"]:
        raise ToolError(f"Seat {seat} is in {place['cabin']}, the fare is for {segment['cabin']}.")
    if place["blocked"]:
        raise ToolError(f"Seat {seat} is blocked.")
    if place["segment_id"] is not None:
        whose = "this" if place["segment_id"] == segment_id else "another"
        raise ToolError(f"Seat {seat} is held by {whose} segment already.")
    db.run(
        "INSERT INTO seat_assignments (segment_id, flight_id, seat_id) VALUES (?, ?, ?)"
        " ON CONFLICT (segment_id) DO UPDATE SET seat_id = excluded.seat_id",
        segment_id,
        segment["flight_id"],
        place["id"],
    )
    _audit(db, "seat.assigned", "segments", segment_id)
    return {
        "segment_id": segment_id,
        "flight": segment["number"],
        "seat": seat,
        "zone": place["zone"],
        "list_fee_cents": place["fee_cents"],
    }


def release_seat(db: Db, segment_id: Id) -> Row:
    """Give up the seat of a confirmed segment; check-in assigns another one."""
    flight = _confirmed(db, segment_id)["number"]
    if db.run("DELETE FROM seat_assignments WHERE segment_id = ?", segment_id) == 0:
        raise ToolError(f"Segment {segment_id} has no seat.")
    _audit(db, "seat.released", "segments", segment_id)
    return {"segment_id": segment_id, "flight": flight, "seat": None}


def add_ancillary(
    db: Db, segment_id: Id, product: Product, quantity: Annotated[int, Meta(ge=1, le=5)]
) -> Row:
    """Add a bag or another extra to a confirmed segment, at list price times quantity. Takes no
    money."""
    _confirmed(db, segment_id)
    offer = db.one(
        "SELECT p.price_cents, p.max_per_segment, coalesce(sum(x.quantity), 0) AS held"
        " FROM ancillary_products p LEFT JOIN ancillaries x ON x.product_code = p.code"
        " AND x.segment_id = ? AND x.status = 'active' WHERE p.code = ? GROUP BY p.id",
        segment_id,
        product,
    )
    assert offer is not None
    if offer["held"] + quantity > offer["max_per_segment"]:
        raise ToolError(
            f"A segment may have {offer['max_per_segment']} of {product}; segment {segment_id}"
            f" has {offer['held']}."
        )
    amount = offer["price_cents"] * quantity
    ancillary_id = db.insert(
        "ancillaries",
        segment_id=segment_id,
        product_code=product,
        quantity=quantity,
        amount_cents=amount,
        status="active",
        added_by=db.user.id,
        added_at=db.now,
    )
    _audit(db, "ancillary.added", "ancillaries", ancillary_id)
    return {
        "ancillary_id": ancillary_id,
        "segment_id": segment_id,
        "product": product,
        "quantity": quantity,
        "amount_cents": amount,
        "status": "active",
    }


def cancel_ancillary(db: Db, ancillary_id: Id) -> Row:
    """Cancel a bag or another extra of a flight that has not left yet. Pays nothing back."""
    extra = db.one(
        "SELECT x.status, x.segment_id, x.product_code, x.amount_cents, f.departs_at"
        " FROM ancillaries x"
        " JOIN segments s ON s.id = x.segment_id JOIN flights f ON f.id = s.flight_id"
        " WHERE x.id = ?",
        ancillary_id,
    )
    if extra is None:
        raise ToolError(f"There is no ancillary {ancillary_id}.")
    if extra["status"] != "active":
        raise ToolError(f"Ancillary {ancillary_id} is cancelled already.")
    if extra["departs_at"] <= db.now:
        raise ToolError(f"The flight of ancillary {ancillary_id} has left.")
    db.run("UPDATE ancillaries SET status = 'cancelled' WHERE id = ?", ancillary_id)
    _audit(db, "ancillary.cancelled", "ancillaries", ancillary_id)
    return {
        "ancillary_id": ancillary_id,
        "segment_id": extra["segment_id"],
        "product": extra["product_code"],
        "status": "cancelled",
        "amount_cents": extra["amount_cents"],
    }


def join_waitlist(
    db: Db, segment_id: Id, flight_id: Id, priority: Literal["elite", "standard"]
) -> Row:
    """Put a confirmed segment on the waiting list of another flight of its route whose cabin is
    full. The segment stays as it is."""
    segment = _confirmed(db, segment_id)
    flight = _flight(db, flight_id)
    if (flight["origin"], flight["destination"]) != (segment["origin"], segment["destination"]):
        raise ToolError(f"Flight {flight_id} is not on the route of segment {segment_id}.")
    if flight["status"] not in ("scheduled", "delayed") or flight["departs_at"] <= db.now:
        raise ToolError(f"Flight {flight_id} takes no passengers any more.")
    left = db.value(
        "SELECT seats_left FROM flight_inventory WHERE flight_id = ? AND cabin = ?",
        flight_id,
        segment["cabin"],
    )
    if left:
        raise ToolError(f"Flight {flight_id} has {left} seats left in {segment['cabin']}.")
    if flight_id == segment["flight_id"]:
        raise ToolError(f"Segment {segment_id} is on flight {flight_id} already.")
    waiting = "SELECT 1 FROM waitlist WHERE segment_id = ? AND flight_id = ? AND status = 'waiting'"
    if db.one(waiting, segment_id, flight_id):
        raise ToolError(f"Segment {segment_id} waits for flight {flight_id} already.")
    waitlist_id = db.insert(
        "waitlist",
        segment_id=segment_id,
        flight_id=flight_id,
        priority=priority,
        status="waiting",
        joined_at=db.now,
    )
    _audit(db, "waitlist.joined", "waitlist", waitlist_id)
    return {
        "waitlist_id": waitlist_id,
        "segment_id": segment_id,
        "flight": flight["number"],
        "departs_at": flight["departs_at"],
        "priority": priority,
        "status": "waiting",
    }


def leave_waitlist(db: Db, waitlist_id: Id) -> Row:
    """Take an entry off a waiting list."""
    entry = db.one("SELECT segment_id, flight_id, status FROM waitlist WHERE id = ?", waitlist_id)
    if entry is None:
        raise ToolError(f"There is no waiting list entry {waitlist_id}.")
    if entry["status"] != "waiting":
        raise ToolError(f"Waiting list entry {waitlist_id} is {entry['status']}.")
    db.run("UPDATE waitlist SET status = 'left' WHERE id = ?", waitlist_id)
    _audit(db, "waitlist.left", "waitlist", waitlist_id)
    return {"waitlist_id": waitlist_id, **entry, "status": "left"}


# Money.


def charge_card(db: Db, reference: Reference, purpose: Purpose, amount_cents: Cents) -> Row:
    """Charge the card on file of a booking, for one purpose. What is due is for the agent to work
    out."""
    booking = _booking(db, reference)
    return _pay(db, booking["id"], purpose, "card", booking["card_last4"], amount_cents)


def redeem_voucher(
    db: Db,
    code: Annotated[str, Meta(max_length=20)],
    reference: Reference,
    purpose: Purpose,
    amount_cents: Cents,
) -> Row:
    """Pay something on a booking from an open voucher that has not expired; what is left stays on
    the voucher."""
    voucher = _voucher(db, code)
    booking = _booking(db, reference)
    if voucher["status"] != "open":
        raise ToolError(f"Voucher {code} is {voucher['status']}.")
    if voucher["expires_on"] < db.now[:10]:
        raise ToolError(f"Voucher {code} expired after {voucher['expires_on']}.")
    left = voucher["balance_cents"] - amount_cents
    if left < 0:
        raise ToolError(f"Voucher {code} has {voucher['balance_cents']} cents left.")
    db.run(
        "UPDATE vouchers SET balance_cents = ?, status = ? WHERE code = ?",
        left,
        "open" if left else "used",
        code,
    )
    payment = _pay(db, booking["id"], purpose, "voucher", code, amount_cents)
    return {**payment, "voucher_balance_cents": left}


def reverse_payment(db: Db, payment_id: Id) -> Row:
    """Take back a whole payment that should not have been charged; it returns to the card or the
    voucher that paid it. Only once, and within your refund limit. Not for fares or extras that a
    customer gives up: those are refunded."""
    payment = db.one(
        "SELECT p.id AS payment_id, b.reference, p.purpose, p.method, p.method_reference,"
        " p.amount_cents, p.reversed_at FROM payments p JOIN bookings b ON b.id = p.booking_id"
        " WHERE p.id = ?",
        payment_id,
    )
    if payment is None:
        raise ToolError(f"There is no payment {payment_id}.")
    if payment["reversed_at"] is not None:
        raise ToolError(f"Payment {payment_id} was reversed at {payment['reversed_at']}.")
    limit = get_my_limits(db)["refund_limit_cents"]
    if payment["amount_cents"] > limit:
        raise ToolError(f"You may pay back {limit} cents at once; a supervisor may do more.")
    if payment["method"] == "voucher":
        db.run(
            "UPDATE vouchers SET balance_cents = balance_cents + ?, status = 'open' WHERE code = ?",
            payment["amount_cents"],
            payment["method_reference"],
        )
    db.run("UPDATE payments SET reversed_at = ? WHERE id = ?", db.now, payment_id)
    _audit(db, "payment.reversed", "payments", payment_id)
    return {**payment, "reversed_at": db.now}


def create_refund(db: Db, segment_id: Id, amount_cents: Cents, reason: RefundReason) -> Row:
    """Pay money of one segment back to the card, within your limit and within what its fare and
    extras cost. Needs a cancelled segment; for `ancillary`, a cancelled extra."""
    segment = _segment(db, segment_id)
    limit = get_my_limits(db)["refund_limit_cents"]
    if amount_cents > limit:
        raise ToolError(f"You may refund {limit} cents at once; a supervisor may refund more.")
    sums = db.one(
        "SELECT (SELECT coalesce(sum(amount_cents), 0) FROM ancillaries WHERE segment_id = ?1)"
        " AS extras, (SELECT coalesce(sum(amount_cents), 0) FROM ancillaries WHERE segment_id = ?1"
        " AND status = 'cancelled') AS cancelled,"
        " (SELECT coalesce(sum(amount_cents), 0) FROM refunds WHERE segment_id = ?1) AS refunded",
        segment_id,
    )
    assert sums is not None
    if reason == "ancillary":
        most = sums["cancelled"] - sums["refunded"]
    elif segment["status"] != "cancelled":
        raise ToolError(f"Segment {segment_id} is {segment['status']}; cancel it first.")
    else:
        most = segment["fare_cents"] + sums["extras"] - sums["refunded"]
    if reason in ("airline_cancellation", "long_delay") and segment["reason"] != reason:
        raise ToolError(f"Segment {segment_id} was cancelled for {segment['reason']}.")
    if amount_cents > most:
        raise ToolError(f"At most {max(most, 0)} cents can be refunded on segment {segment_id}.")
    refund_id = db.insert(
        "refunds",
        booking_id=segment["booking_id"],
        segment_id=segment_id,
        amount_cents=amount_cents,
        reason=reason,
        created_at=db.now,
        created_by=db.user.id,
    )
    _audit(db, "refund.created", "refunds", refund_id)
    return {
        "refund_id": refund_id,
        "reference": segment["reference"],
        "segment_id": segment_id,
        "amount_cents": amount_cents,
        "reason": reason,
    }


def issue_voucher(
    db: Db, segment_id: Id, kind: Literal["compensation", "goodwill"], amount_cents: Cents
) -> Row:
    """Issue a voucher to the passenger of a segment, good for twelve months. A segment gets one
    voucher of a kind; goodwill is held to your limit. The entitlement is for the agent to check."""
    segment = _segment(db, segment_id)
    limit = get_my_limits(db)["goodwill_limit_cents"]
    if kind == "goodwill" and amount_cents > limit:
        raise ToolError(f"You may give {limit} cents of goodwill; a supervisor may give more.")
    issued = db.value(
        "SELECT code FROM vouchers WHERE segment_id = ? AND kind = ? AND status <> 'void'",
        segment_id,
        kind,
    )
    if issued is not None:
        raise ToolError(f"Segment {segment_id} has the {kind} voucher {issued}.")
    voucher_id = 1 + (db.value("SELECT max(id) FROM vouchers") or 0)
    code = f"VB-{voucher_id:05d}"
    expires_on = f"{int(db.now[:4]) + 1}{db.now[4:10]}"
    db.insert(
        "vouchers",
        id=voucher_id,
        code=code,
        passenger_id=segment["passenger_id"],
        segment_id=segment_id,
        kind=kind,
        amount_cents=amount_cents,
        balance_cents=amount_cents,
        status="open",
        issued_at=db.now,
        issued_by=db.user.id,
        expires_on=expires_on,
    )
    _audit(db, "voucher.issued", "vouchers", voucher_id)
    return {
        "code": code,
        "passenger_id": segment["passenger_id"],
        "segment_id": segment_id,
        "kind": kind,
        "amount_cents": amount_cents,
        "status": "open",
        "expires_on": expires_on,
    }


def void_voucher(db: Db, code: Annotated[str, Meta(max_length=20)]) -> Row:
    """Make an open voucher void of which nothing was used, as when it went to the wrong person."""
    voucher = _voucher(db, code)
    if voucher["status"] != "open" or voucher["balance_cents"] != voucher["amount_cents"]:
        raise ToolError(
            f"Voucher {code} is {voucher['status']} with {voucher['balance_cents']} of"
            f" {voucher['amount_cents']} cents left; only an unused one can be made void."
        )
    db.run("UPDATE vouchers SET status = 'void', balance_cents = 0 WHERE code = ?", code)
    _audit(db, "voucher.voided", "vouchers", voucher["voucher_id"])
    return {
        "code": code,
        "passenger_id": voucher["passenger_id"],
        "status": "void",
        "balance_cents": 0,
    }


def post_miles(
    db: Db, number: Annotated[str, Meta(max_length=12)], segment_id: Id, miles: Miles
) -> Row:
    """Credit the miles of a flown segment to its passenger's Vento Plus account, once. They count
    as miles to spend and as tier miles."""
    account = _account(db, number)
    segment = _segment(db, segment_id)
    if segment["status"] != "flown":
        raise ToolError(f"Segment {segment_id} is {segment['status']}, not flown.")
    if segment["passenger_id"] != account["passenger_id"]:
        raise ToolError(f"Account {number} is not that of the passenger of segment {segment_id}.")
    if db.one("SELECT 1 FROM loyalty_ledger WHERE segment_id = ? AND kind = 'flight'", segment_id):
        raise ToolError(f"The miles of segment {segment_id} are credited already.")
    entry_id = db.insert(
        "loyalty_ledger",
        account_id=account["id"],
        segment_id=segment_id,
        kind="flight",
        miles=miles,
        posted_at=db.now,
        posted_by=db.user.id,
    )
    db.run(
        "UPDATE loyalty_accounts SET balance_miles = balance_miles + ?1,"
        " tier_miles = tier_miles + ?1 WHERE id = ?2",
        miles,
        account["id"],
    )
    _audit(db, "miles.posted", "loyalty_ledger", entry_id)
    return {
        "number": number,
        "segment_id": segment_id,
        "miles": miles,
        "balance_miles": account["balance_miles"] + miles,
        "tier_miles": account["tier_miles"] + miles,
    }


# Names, contacts, and what the desk writes down.


def correct_passenger_name(db: Db, passenger_id: Id, first_name: Name, last_name: Name) -> Row:
    """Correct the spelling of a passenger's name; give both parts in full. This is not a
    transfer of the ticket to another person."""
    person = _passenger(db, passenger_id)
    if (person["first_name"], person["last_name"]) == (first_name, last_name):
        raise ToolError(f"Passenger {passenger_id} has this name already.")
    if db.one(
        "SELECT 1 FROM passengers WHERE first_name = ? AND last_name = ? AND born_on = ?",
        first_name,
        last_name,
        person["born_on"],
    ):
        raise ToolError(f"{first_name} {last_name} of {person['born_on']} is on file already.")
    db.run(
        "UPDATE passengers SET first_name = ?, last_name = ? WHERE id = ?",
        first_name,
        last_name,
        passenger_id,
    )
    _audit(db, "passenger.renamed", "passengers", passenger_id)
    return _passenger(db, passenger_id)


def update_contact(
    db: Db,
    reference: Reference,
    field: Literal["email", "phone"],
    value: Annotated[str, Meta(min_length=5, max_length=120)],
) -> Row:
    """Change the contact e-mail or the contact phone of a booking; the other one stays."""
    booking = _booking(db, reference)
    if field == "email" and "@" not in value.strip("@"):
        raise ToolError(f"{value!r} is not an e-mail address.")
    db.run(
        "UPDATE bookings SET contact_email = iif(?1 = 'email', ?2, contact_email),"
        " contact_phone = iif(?1 = 'phone', ?2, contact_phone) WHERE id = ?3",
        field,
        value,
        booking["id"],
    )
    _audit(db, "booking.contact_updated", "bookings", booking["id"])
    changed = _booking(db, reference)
    return {name: changed[name] for name in ("reference", "contact_email", "contact_phone")}


def add_note(db: Db, reference: Reference, body: Text) -> Row:
    """Write a note on a booking for the colleagues."""
    booking = _booking(db, reference)
    note_id = db.insert(
        "notes", booking_id=booking["id"], body=body, written_at=db.now, written_by=db.user.id
    )
    return {"note_id": note_id, "reference": reference, "body": body}


def create_escalation(
    db: Db,
    reference: Reference,
    topic: Literal["refund_over_limit", "goodwill_over_limit", "complaint"],
    amount_cents: CentsOrZero,
    body: Text,
) -> Row:
    """Hand something on a booking to a supervisor, with the amount in cents (0 where none is
    asked for)."""
    booking = _booking(db, reference)
    escalation_id = db.insert(
        "escalations",
        booking_id=booking["id"],
        topic=topic,
        amount_cents=amount_cents,
        body=body,
        status="open",
        opened_at=db.now,
        opened_by=db.user.id,
    )
    _audit(db, "escalation.opened", "escalations", escalation_id)
    return {
        "escalation_id": escalation_id,
        "reference": reference,
        "topic": topic,
        "amount_cents": amount_cents,
        "status": "open",
    }


# What the tools share.


def _first(name: str, found: list[Row], limit: int) -> Row:
    """The first rows of a list of which one row more than the limit was read."""
    return {name: found[:limit], "truncated": len(found) > limit}


def _booking(db: Db, reference: str) -> Row:
    booking = db.one(
        "SELECT id, reference, contact_name, contact_email, contact_phone, card_last4, channel,"
        " booked_at FROM bookings WHERE reference = ?",
        reference,
    )
    if booking is None:
        raise ToolError(f"There is no booking {reference}.")
    return booking


def _passenger(db: Db, passenger_id: int) -> Row:
    person = db.one(
        "SELECT p.id AS passenger_id, p.first_name, p.last_name, p.born_on, p.email,"
        " a.number AS loyalty_number FROM passengers p"
        " LEFT JOIN loyalty_accounts a ON a.passenger_id = p.id WHERE p.id = ?",
        passenger_id,
    )
    if person is None:
        raise ToolError(f"There is no passenger {passenger_id}.")
    return person


def _flight(db: Db, flight_id: int) -> Row:
    flight = db.one(f"{_FLIGHT} WHERE f.id = ?", flight_id)
    if flight is None:
        raise ToolError(f"There is no flight {flight_id}.")
    return flight


def _segment(db: Db, segment_id: int) -> Row:
    segment = db.one(
        "SELECT s.id AS segment_id, b.reference, s.booking_id, s.passenger_id, s.flight_id,"
        " f.number, r.origin, r.destination, f.departs_at, f.arrives_at,"
        " f.status AS flight_status, s.family_code, m.cabin, s.fare_cents, s.status, s.reason"
        " FROM segments s JOIN bookings b ON b.id = s.booking_id"
        " JOIN flights f ON f.id = s.flight_id JOIN routes r ON r.id = f.route_id"
        " JOIN fare_families m ON m.code = s.family_code WHERE s.id = ?",
        segment_id,
    )
    if segment is None:
        raise ToolError(f"There is no segment {segment_id}.")
    return segment


def _confirmed(db: Db, segment_id: int) -> Row:
    """A segment that is still to be flown."""
    segment = _segment(db, segment_id)
    if segment["status"] != "confirmed":
        raise ToolError(f"Segment {segment_id} is {segment['status']}, not confirmed.")
    if segment["flight_status"] == "cancelled":
        raise ToolError(f"{segment['number']} of segment {segment_id} is cancelled.")
    if segment["departs_at"] <= db.now:
        raise ToolError(f"{segment['number']} of segment {segment_id} has left.")
    return segment


def _voucher(db: Db, code: str) -> Row:
    voucher = db.one(
        "SELECT v.id AS voucher_id, v.code, v.passenger_id, p.first_name, p.last_name, p.born_on,"
        " v.segment_id, v.kind, v.amount_cents, v.balance_cents, v.status, v.issued_at,"
        " v.issued_by, v.expires_on FROM vouchers v JOIN passengers p ON p.id = v.passenger_id"
        " WHERE v.code = ?",
        code,
    )
    if voucher is None:
        raise ToolError(f"There is no voucher {code}.")
    return voucher


def _account(db: Db, number: str) -> Row:
    account = db.one(
        "SELECT id, passenger_id, balance_miles, tier_miles FROM loyalty_accounts WHERE number = ?",
        number,
    )
    if account is None:
        raise ToolError(f"There is no loyalty account {number}.")
    return account


def _fare_on_sale(db: Db, fare_id: int) -> Row:
    """A fare that can be booked now, with its flight and cabin."""
    fare = db.one(
        "SELECT a.id, a.family_code, a.amount_cents, a.valid_from, a.valid_until, a.flight_id,"
        " f.number, f.departs_at, f.status, r.origin, r.destination, m.cabin, i.seats_left"
        " FROM fares a JOIN flights f ON f.id = a.flight_id JOIN routes r ON r.id = f.route_id"
        " JOIN fare_families m ON m.code = a.family_code"
        " LEFT JOIN flight_inventory i ON i.flight_id = f.id AND i.cabin = m.cabin WHERE a.id = ?",
        fare_id,
    )
    if fare is None:
        raise ToolError(f"There is no fare {fare_id}.")
    if not fare["valid_from"] <= db.now[:10] <= fare["valid_until"]:
        raise ToolError(
            f"Fare {fare_id} is sold from {fare['valid_from']} to {fare['valid_until']} only."
        )
    if fare["status"] not in ("scheduled", "delayed"):
        raise ToolError(f"{fare['number']} is {fare['status']}.")
    if _minutes_until(db, fare["departs_at"]) < _DESK_CLOSES_MIN:
        raise ToolError(f"{fare['number']} leaves in less than {_DESK_CLOSES_MIN} minutes.")
    if not fare["seats_left"]:
        raise ToolError(f"{fare['number']} has no seat left in {fare['cabin']}.")
    return fare


def _check_not_aboard(db: Db, booking_id: int, passenger_id: int, fare: Row) -> None:
    if db.one(
        "SELECT 1 FROM segments WHERE booking_id = ? AND passenger_id = ? AND flight_id = ?"
        " AND status = 'confirmed'",
        booking_id,
        passenger_id,
        fare["flight_id"],
    ):
        raise ToolError(f"Passenger {passenger_id} is booked on this {fare['number']} already.")


def _check_change_reason(db: Db, segment: Row, reason: str) -> None:
    """Whether the flight's fate bears the reason out."""
    if reason == "voluntary":
        if _minutes_until(db, segment["departs_at"]) < _DESK_CLOSES_MIN:
            raise ToolError(
                f"{segment['number']} of segment {segment['segment_id']} has left, or leaves in"
                f" less than {_DESK_CLOSES_MIN} minutes."
            )
    elif reason == "airline_cancellation":
        if segment["flight_status"] != "cancelled":
            raise ToolError(f"{segment['number']} is {segment['flight_status']}, not cancelled.")
    elif reason == "long_delay":
        if not db.one(
            "SELECT 1 FROM disruptions WHERE flight_id = ? AND arrival_delay_min >= ?",
            segment["flight_id"],
            _LONG_DELAY_MIN,
        ):
            raise ToolError(f"{segment['number']} is not {_LONG_DELAY_MIN} minutes late.")
    elif reason == "missed_connection" and not db.one(
        "SELECT 1 FROM segments p JOIN flights g ON g.id = p.flight_id"
        " JOIN routes r ON r.id = g.route_id JOIN airports a ON a.code = r.destination"
        " JOIN disruptions d ON d.flight_id = g.id AND d.kind = 'delay'"
        " WHERE p.booking_id = ? AND p.passenger_id = ? AND r.destination = ?"
        " AND p.status IN ('confirmed', 'flown') AND g.arrives_at <= ?4"
        " AND (julianday(?4) - julianday(g.arrives_at)) * 1440 - d.arrival_delay_min"
        " < a.min_connection_min - 0.01",
        segment["booking_id"],
        segment["passenger_id"],
        segment["origin"],
        segment["departs_at"],
    ):
        raise ToolError(f"The connection to {segment['number']} still holds.")


def _end_segment(db: Db, segment: Row, status: str, reason: str, waiting_becomes: str) -> None:
    """Close a segment and all that hangs on it but its extras."""
    segment_id = segment["segment_id"]
    db.run("UPDATE segments SET status = ?, reason = ? WHERE id = ?", status, reason, segment_id)
    db.run(
        "UPDATE tickets SET status = ? WHERE segment_id = ? AND status = 'open'", status, segment_id
    )
    db.run("DELETE FROM seat_assignments WHERE segment_id = ?", segment_id)
    db.run(
        "UPDATE waitlist SET status = ? WHERE segment_id = ? AND status = 'waiting'",
        waiting_becomes,
        segment_id,
    )
    if segment["departs_at"] > db.now:
        db.run(
            "UPDATE flight_inventory SET seats_left = min(capacity, seats_left + 1)"
            " WHERE flight_id = ? AND cabin = ?",
            segment["flight_id"],
            segment["cabin"],
        )


def _take_place(db: Db, fare: Row) -> None:
    db.run(
        "UPDATE flight_inventory SET seats_left = seats_left - 1 WHERE flight_id = ? AND cabin = ?",
        fare["flight_id"],
        fare["cabin"],
    )


def _pay(
    db: Db, booking_id: int, purpose: str, method: str, method_reference: str, amount_cents: int
) -> dict[str, Any]:
    payment_id = db.insert(
        "payments",
        booking_id=booking_id,
        purpose=purpose,
        method=method,
        method_reference=method_reference,
        amount_cents=amount_cents,
        taken_at=db.now,
        taken_by=db.user.id,
    )
    _audit(db, "payment.taken", "payments", payment_id)
    return {
        "payment_id": payment_id,
        "purpose": purpose,
        "method": method,
        "method_reference": method_reference,
        "amount_cents": amount_cents,
    }


def _audit(db: Db, action: str, entity: str, entity_id: SqlValue) -> None:
    db.insert(
        "audit_log",
        at=db.now,
        actor=db.user.id,
        action=action,
        entity=entity,
        entity_id=entity_id,
    )


def _minutes_until(db: Db, moment: str) -> float:
    return (_moment(moment) - _moment(db.now)).total_seconds() / 60


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
