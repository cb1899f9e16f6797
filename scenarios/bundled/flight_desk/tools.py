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


def find_passengers(db: Db, last_name: Name, first_name: Name | None = None) -> list[Row]:
    """Passengers whose last name contains the text, and whose first name does where it is given.
    Date of birth and e-mail tell people of one name apart. At most 20."""
    return db.all(
        "SELECT p.id AS passenger_id, p.first_name, p.last_name, p.born_on, p.email,"
        " a.number AS loyalty_number FROM passengers p"
        " LEFT JOIN loyalty_accounts a ON a.passenger_id = p.id"
        " WHERE instr(lower(p.last_name), lower(?)) > 0"
        " AND instr(lower(p.first_name), lower(?)) > 0"
        " ORDER BY p.last_name, p.first_name, p.id LIMIT 20",
        last_name,
        first_name or "",
    )


def get_passenger(db: Db, passenger_id: Id) -> Row:
    """One passenger with date of birth, e-mail and the number of the loyalty account."""
    return _passenger(db, passenger_id)


def find_bookings(db: Db, passenger_id: Id) -> list[Row]:
    """All bookings that a passenger is on, the newest first, with the number of segments and the
    first departure. At most 20."""
    _passenger(db, passenger_id)
    return db.all(
        "SELECT b.reference, b.contact_name, b.booked_at, b.channel, count(s.id) AS num_segments,"
        " min(f.departs_at) AS first_departure FROM booking_passengers bp"
        " JOIN bookings b ON b.id = bp.booking_id"
        " LEFT JOIN segments s ON s.booking_id = b.id AND s.passenger_id = bp.passenger_id"
        " LEFT JOIN flights f ON f.id = s.flight_id"
        " WHERE bp.passenger_id = ? GROUP BY b.id ORDER BY b.booked_at DESC, b.id LIMIT 20",
        passenger_id,
    )


def get_booking(db: Db, reference: Reference) -> Row:
    """One booking: its contact, its passengers, and their segments with flight, fare family, fare
    paid (cents), status, open or used ticket, seat, and bags and other extras."""
    booking = _booking(db, reference)
    booking_id = booking.pop("id")
    booking["passengers"] = db.all(
        "SELECT p.id AS passenger_id, p.first_name, p.last_name, p.born_on"
        " FROM booking_passengers bp JOIN passengers p ON p.id = bp.passenger_id"
        " WHERE bp.booking_id = ? ORDER BY p.id",
        booking_id,
    )
    segments = db.all(
        "SELECT s.id AS segment_id, s.passenger_id, s.flight_id, f.number, r.origin,"
        " r.destination, f.departs_at, f.arrives_at, f.status AS flight_status, s.family_code,"
        " s.fare_cents, s.status, s.replaces_id, s.reason, t.number AS ticket, e.label AS seat"
        " FROM segments s JOIN flights f ON f.id = s.flight_id JOIN routes r ON r.id = f.route_id"
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
    """What was paid for a booking and what was refunded, oldest first, in cents."""
    booking_id = _booking(db, reference)["id"]
    return {
        "payments": db.all(
            "SELECT id AS payment_id, purpose, method, method_reference, amount_cents, taken_at,"
            " taken_by FROM payments WHERE booking_id = ? ORDER BY taken_at, id",
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
        " ORDER BY written_at, id LIMIT 50",
        _booking(db, reference)["id"],
    )


def list_escalations(db: Db, reference: Reference) -> list[Row]:
    """What was handed to a supervisor for a booking, oldest first."""
    return db.all(
        "SELECT id AS escalation_id, topic, amount_cents, body, status, opened_at, opened_by"
        " FROM escalations WHERE booking_id = ? ORDER BY opened_at, id LIMIT 50",
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
) -> list[Row]:
    """All flights of a route on a day, or from the first to the last day, by departure (UTC), with
    status and seats left in each cabin. At most 40."""
    return db.all(
        "SELECT f.id AS flight_id, f.number, f.departs_at, f.arrives_at, f.status,"
        " e.seats_left AS economy_seats_left, b.seats_left AS business_seats_left"
        " FROM routes r JOIN flights f ON f.route_id = r.id"
        " LEFT JOIN flight_inventory e ON e.flight_id = f.id AND e.cabin = 'economy'"
        " LEFT JOIN flight_inventory b ON b.flight_id = f.id AND b.cabin = 'business'"
        " WHERE r.origin = ? AND r.destination = ? AND substr(f.departs_at, 1, 10) BETWEEN ? AND ?"
        " ORDER BY f.departs_at, f.id LIMIT 40",
        origin,
        destination,
        first_day,
        last_day or first_day,
    )


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
    late at departure and at arrival (measured, or expected where it has not flown yet)."""
    _flight(db, flight_id)
    return db.all(
        "SELECT kind, cause, departure_delay_min, arrival_delay_min, announced_at"
        " FROM disruptions WHERE flight_id = ? ORDER BY announced_at, id",
        flight_id,
    )


def list_flight_passengers(db: Db, flight_id: Id) -> list[Row]:
    """Who holds a segment on a flight, by name, with booking reference, status and seat. At most
    200."""
    _flight(db, flight_id)
    return db.all(
        "SELECT s.id AS segment_id, b.reference, p.first_name, p.last_name, s.family_code,"
        " s.status, e.label AS seat FROM segments s JOIN bookings b ON b.id = s.booking_id"
        " JOIN passengers p ON p.id = s.passenger_id"
        " LEFT JOIN seat_assignments a ON a.segment_id = s.id LEFT JOIN seats e ON e.id = a.seat_id"
        " WHERE s.flight_id = ? ORDER BY p.last_name, p.first_name, s.id LIMIT 200",
        flight_id,
    )


def get_airport(db: Db, code: Airport) -> Row:
    """One airport with the minutes that a connection there needs at least."""
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
) -> list[Row]:
    """The seats that are free on a flight, by row, with place, zone and fee in cents; those of one
    zone or place where given. Blocked and taken seats are left out. At most 60."""
    _flight(db, flight_id)
    return db.all(
        "SELECT e.label, e.cabin, e.place, e.zone, e.fee_cents FROM flights f"
        " JOIN aircraft c ON c.id = f.aircraft_id JOIN seats e ON e.type_id = c.type_id"
        " LEFT JOIN seat_assignments a ON a.flight_id = f.id AND a.seat_id = e.id"
        " WHERE f.id = ? AND e.blocked = 0 AND a.seat_id IS NULL"
        " AND (? IS NULL OR e.zone = ?) AND (? IS NULL OR e.place = ?)"
        " ORDER BY e.id LIMIT 60",
        flight_id,
        zone,
        zone,
        place,
        place,
    )


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


def get_my_limits(db: Db) -> Row:
    """Who you are here and how much you may refund or give in goodwill at once, in cents."""
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
        " FROM vouchers WHERE passenger_id = ? ORDER BY issued_at, id LIMIT 50",
        passenger_id,
    )


def get_voucher(db: Db, code: Annotated[str, Meta(max_length=20)]) -> Row:
    """One voucher by its code (such as VB-9C3R5): its passenger, segment, balance in cents, status
    and last day of use."""
    return _voucher(db, code)


# Miles and waiting lists.


def get_loyalty_account(
    db: Db, number: Annotated[str, Meta(max_length=12)] | None = None, passenger_id: Id | None = None
) -> Row:
    """A Vento Plus account by its number (such as VP100231) or by its passenger: tier, day of
    joining, miles to spend and tier miles of this year."""
    if (number is None) == (passenger_id is None):
        raise ToolError("Give either the account number or the passenger_id.")
    account = db.one(
        "SELECT a.number, a.passenger_id, p.first_name, p.last_name, p.born_on, a.tier,"
        " a.joined_on, a.balance_miles, a.tier_miles FROM loyalty_accounts a"
        " JOIN passengers p ON p.id = a.passenger_id WHERE a.number = ? OR a.passenger_id = ?",
        number,
        passenger_id,
    )
    if account is None:
        raise ToolError(f"There is no loyalty account for {number or passenger_id}.")
    return account


def list_loyalty_ledger(db: Db, number: Annotated[str, Meta(max_length=12)]) -> list[Row]:
    """The entries of a Vento Plus account, the newest first; a flight's entry names its segment.
    At most 50."""
    account = _account(db, number)
    return db.all(
        "SELECT l.kind, l.miles, l.segment_id, f.number AS flight, f.departs_at, l.posted_at,"
        " l.posted_by FROM loyalty_ledger l LEFT JOIN segments s ON s.id = l.segment_id"
        " LEFT JOIN flights f ON f.id = s.flight_id WHERE l.account_id = ?"
        " ORDER BY l.posted_at DESC, l.id LIMIT 50",
        account["id"],
    )


def list_loyalty_tiers(db: Db) -> list[Row]:
    """The tiers of Vento Plus: tier miles needed in a year, bonus on flown miles in percent, and
    extra bags of the fare's weight."""
    return db.all(
        "SELECT code, tier_miles_needed, bonus_percent, extra_bags FROM loyalty_tiers ORDER BY id"
    )


def list_waitlist(db: Db, flight_id: Id) -> list[Row]:
    """Who waits for a place on a flight: elite before standard, then in order of joining."""
    _flight(db, flight_id)
    return db.all(
        "SELECT w.id AS waitlist_id, w.segment_id, b.reference, p.first_name, p.last_name,"
        " w.priority, w.status, w.joined_at FROM waitlist w"
        " JOIN segments s ON s.id = w.segment_id JOIN bookings b ON b.id = s.booking_id"
        " JOIN passengers p ON p.id = s.passenger_id WHERE w.flight_id = ?"
        " ORDER BY w.priority, w.joined_at, w.id LIMIT 50",
        flight_id,
    )
