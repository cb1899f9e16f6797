-- The service desk of Vento Air (VT). Money is in euro cents, moments and dates are ISO text in UTC.

-- The desk's people and what they may decide.

CREATE TABLE roles (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    refund_limit_cents INTEGER NOT NULL CHECK (refund_limit_cents >= 0),
    goodwill_limit_cents INTEGER NOT NULL CHECK (goodwill_limit_cents >= 0)
);

CREATE TABLE staff (
    id INTEGER PRIMARY KEY,
    login TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL REFERENCES roles (code)
);

-- The network and the fleet.

CREATE TABLE airports (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE CHECK (length(code) = 3),
    name TEXT NOT NULL,
    city TEXT NOT NULL,
    country TEXT NOT NULL,
    min_connection_min INTEGER NOT NULL CHECK (min_connection_min > 0)
);

CREATE TABLE routes (
    id INTEGER PRIMARY KEY,
    origin TEXT NOT NULL REFERENCES airports (code),
    destination TEXT NOT NULL REFERENCES airports (code),
    distance_miles INTEGER NOT NULL CHECK (distance_miles > 0),
    UNIQUE (origin, destination),
    CHECK (origin <> destination)
);

CREATE TABLE aircraft_types (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL
);

CREATE TABLE aircraft (
    id INTEGER PRIMARY KEY,
    registration TEXT NOT NULL UNIQUE,
    type_id INTEGER NOT NULL REFERENCES aircraft_types (id),
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE seats (
    id INTEGER PRIMARY KEY,  -- type, row and letter: 3121 is seat 12A of type 3
    type_id INTEGER NOT NULL REFERENCES aircraft_types (id),
    label TEXT NOT NULL,
    row_no INTEGER NOT NULL CHECK (row_no > 0),
    cabin TEXT NOT NULL CHECK (cabin IN ('economy', 'business')),
    place TEXT NOT NULL CHECK (place IN ('window', 'middle', 'aisle')),
    zone TEXT NOT NULL CHECK (zone IN ('standard', 'front', 'exit', 'business')),
    fee_cents INTEGER NOT NULL CHECK (fee_cents >= 0),
    blocked INTEGER NOT NULL DEFAULT 0 CHECK (blocked IN (0, 1)),
    UNIQUE (type_id, label)
);

-- Flights, what is left of them, and what goes wrong with them.

CREATE TABLE flights (
    id INTEGER PRIMARY KEY,
    number TEXT NOT NULL,
    route_id INTEGER NOT NULL REFERENCES routes (id),
    aircraft_id INTEGER NOT NULL REFERENCES aircraft (id),
    departs_at TEXT NOT NULL,  -- as scheduled
    arrives_at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('scheduled', 'delayed', 'landed', 'cancelled')),
    UNIQUE (number, departs_at),
    CHECK (departs_at < arrives_at)
);
CREATE INDEX flights_by_route ON flights (route_id, departs_at);

CREATE TABLE flight_inventory (
    flight_id INTEGER NOT NULL REFERENCES flights (id),
    cabin TEXT NOT NULL CHECK (cabin IN ('economy', 'business')),
    capacity INTEGER NOT NULL CHECK (capacity > 0),
    seats_left INTEGER NOT NULL CHECK (seats_left >= 0),
    PRIMARY KEY (flight_id, cabin),
    CHECK (seats_left <= capacity)
);

CREATE TABLE disruptions (
    id INTEGER PRIMARY KEY,
    flight_id INTEGER NOT NULL REFERENCES flights (id),
    kind TEXT NOT NULL CHECK (kind IN ('cancellation', 'delay')),
    cause TEXT NOT NULL CHECK (cause IN ('technical', 'crew', 'weather', 'air_traffic_control')),
    departure_delay_min INTEGER CHECK (departure_delay_min >= 0),  -- NULL for a cancellation
    arrival_delay_min INTEGER CHECK (arrival_delay_min >= 0),
    announced_at TEXT NOT NULL,
    CHECK ((kind = 'delay') = (arrival_delay_min IS NOT NULL))
);
CREATE INDEX disruptions_by_flight ON disruptions (flight_id);

CREATE TABLE compensation_bands (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('cancellation', 'delay')),
    min_delay_min INTEGER NOT NULL CHECK (min_delay_min >= 0),
    max_delay_min INTEGER,  -- NULL: no upper end
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    UNIQUE (kind, min_delay_min)
);

-- What is sold.

CREATE TABLE fare_families (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    cabin TEXT NOT NULL CHECK (cabin IN ('economy', 'business')),
    changeable INTEGER NOT NULL CHECK (changeable IN (0, 1)),
    change_fee_cents INTEGER NOT NULL CHECK (change_fee_cents >= 0),
    refund TEXT NOT NULL CHECK (refund IN ('none', 'less_fee', 'full')),
    refund_fee_cents INTEGER NOT NULL CHECK (refund_fee_cents >= 0),
    no_show_fee_cents INTEGER,  -- NULL: a missed flight is lost
    bags_included INTEGER NOT NULL CHECK (bags_included >= 0),
    bag_kg INTEGER NOT NULL CHECK (bag_kg > 0),
    seat_included INTEGER NOT NULL CHECK (seat_included IN (0, 1)),
    miles_percent INTEGER NOT NULL CHECK (miles_percent >= 0)
);

CREATE TABLE fares (
    id INTEGER PRIMARY KEY,
    flight_id INTEGER NOT NULL REFERENCES flights (id),
    family_code TEXT NOT NULL REFERENCES fare_families (code),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    valid_from TEXT NOT NULL,
    valid_until TEXT NOT NULL,  -- the last day on which it is sold
    UNIQUE (flight_id, family_code, valid_from),
    CHECK (valid_from <= valid_until)
);

CREATE TABLE ancillary_products (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
    max_per_segment INTEGER NOT NULL CHECK (max_per_segment > 0)
);

-- People and their bookings.

CREATE TABLE passengers (
    id INTEGER PRIMARY KEY,
    first_name TEXT NOT NULL,
    last_name TEXT NOT NULL,
    born_on TEXT NOT NULL,
    email TEXT,
    UNIQUE (first_name, last_name, born_on)
);
CREATE INDEX passengers_by_name ON passengers (last_name, first_name);

CREATE TABLE bookings (
    id INTEGER PRIMARY KEY,
    reference TEXT NOT NULL UNIQUE CHECK (length(reference) = 6),
    contact_name TEXT NOT NULL,
    contact_email TEXT NOT NULL,
    contact_phone TEXT NOT NULL,
    card_last4 TEXT NOT NULL CHECK (length(card_last4) = 4),
    channel TEXT NOT NULL CHECK (channel IN ('web', 'app', 'desk', 'agency')),
    booked_at TEXT NOT NULL
);

CREATE TABLE booking_passengers (
    booking_id INTEGER NOT NULL REFERENCES bookings (id),
    passenger_id INTEGER NOT NULL REFERENCES passengers (id),
    PRIMARY KEY (booking_id, passenger_id)
);
CREATE INDEX booking_passengers_by_passenger ON booking_passengers (passenger_id);

CREATE TABLE segments (
    id INTEGER PRIMARY KEY,
    booking_id INTEGER NOT NULL,
    passenger_id INTEGER NOT NULL,
    flight_id INTEGER NOT NULL REFERENCES flights (id),
    family_code TEXT NOT NULL REFERENCES fare_families (code),
    fare_cents INTEGER NOT NULL CHECK (fare_cents >= 0),
    status TEXT NOT NULL CHECK (status IN ('confirmed', 'exchanged', 'cancelled', 'flown', 'no_show')),
    replaces_id INTEGER UNIQUE REFERENCES segments (id),
    reason TEXT,  -- why it was exchanged or cancelled
    created_at TEXT NOT NULL,
    FOREIGN KEY (booking_id, passenger_id) REFERENCES booking_passengers (booking_id, passenger_id)
);
CREATE INDEX segments_by_booking ON segments (booking_id);
CREATE INDEX segments_by_flight ON segments (flight_id);
CREATE UNIQUE INDEX one_place_per_flight ON segments (passenger_id, flight_id, booking_id)
    WHERE status = 'confirmed';

CREATE TABLE tickets (
    id INTEGER PRIMARY KEY,
    number TEXT NOT NULL UNIQUE,
    segment_id INTEGER NOT NULL REFERENCES segments (id),
    status TEXT NOT NULL CHECK (status IN ('open', 'used', 'exchanged', 'cancelled')),
    issued_at TEXT NOT NULL,
    issued_by TEXT NOT NULL
);
CREATE INDEX tickets_by_segment ON tickets (segment_id);

CREATE TABLE seat_assignments (
    segment_id INTEGER PRIMARY KEY REFERENCES segments (id),
    flight_id INTEGER NOT NULL REFERENCES flights (id),
    seat_id INTEGER NOT NULL REFERENCES seats (id),
    UNIQUE (flight_id, seat_id)
);

CREATE TABLE ancillaries (
    id INTEGER PRIMARY KEY,
    segment_id INTEGER NOT NULL REFERENCES segments (id),
    product_code TEXT NOT NULL REFERENCES ancillary_products (code),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    amount_cents INTEGER NOT NULL CHECK (amount_cents >= 0),
    status TEXT NOT NULL CHECK (status IN ('active', 'cancelled')),
    added_by TEXT NOT NULL,
    added_at TEXT NOT NULL
);
CREATE INDEX ancillaries_by_segment ON ancillaries (segment_id);

CREATE TABLE waitlist (
    id INTEGER PRIMARY KEY,
    segment_id INTEGER NOT NULL REFERENCES segments (id),  -- what the passenger holds now
    flight_id INTEGER NOT NULL REFERENCES flights (id),  -- the flight wanted instead
    priority TEXT NOT NULL CHECK (priority IN ('standard', 'elite')),
    status TEXT NOT NULL CHECK (status IN ('waiting', 'cleared', 'left')),
    joined_at TEXT NOT NULL
);
CREATE INDEX waitlist_by_flight ON waitlist (flight_id);

-- Money and vouchers.

CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    booking_id INTEGER NOT NULL REFERENCES bookings (id),
    purpose TEXT NOT NULL CHECK (purpose IN ('fare', 'fare_difference', 'change_fee', 'no_show_fee', 'seat', 'ancillary')),
    method TEXT NOT NULL CHECK (method IN ('card', 'voucher')),
    method_reference TEXT NOT NULL,  -- last four digits of the card, or the voucher's code
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    taken_at TEXT NOT NULL,
    taken_by TEXT NOT NULL,
    reversed_at TEXT  -- NULL: it stands
);
CREATE INDEX payments_by_booking ON payments (booking_id);

CREATE TABLE refunds (
    id INTEGER PRIMARY KEY,
    booking_id INTEGER NOT NULL REFERENCES bookings (id),
    segment_id INTEGER NOT NULL REFERENCES segments (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    reason TEXT NOT NULL CHECK (reason IN ('fare_rules', 'airline_cancellation', 'long_delay', 'ancillary')),
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL
);
CREATE INDEX refunds_by_segment ON refunds (segment_id);

CREATE TABLE vouchers (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    passenger_id INTEGER NOT NULL REFERENCES passengers (id),
    segment_id INTEGER REFERENCES segments (id),  -- NULL: a flight that is no longer on file
    kind TEXT NOT NULL CHECK (kind IN ('compensation', 'goodwill')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    balance_cents INTEGER NOT NULL CHECK (balance_cents >= 0),
    status TEXT NOT NULL CHECK (status IN ('open', 'used', 'void')),
    issued_at TEXT NOT NULL,
    issued_by TEXT NOT NULL,
    expires_on TEXT NOT NULL,  -- the last day on which it can be used
    CHECK (balance_cents <= amount_cents)
);
CREATE INDEX vouchers_by_passenger ON vouchers (passenger_id);
CREATE INDEX vouchers_by_segment ON vouchers (segment_id);

-- The miles programme, Vento Plus.

CREATE TABLE loyalty_tiers (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    tier_miles_needed INTEGER NOT NULL UNIQUE CHECK (tier_miles_needed >= 0),
    bonus_percent INTEGER NOT NULL CHECK (bonus_percent >= 0),
    extra_bags INTEGER NOT NULL CHECK (extra_bags >= 0)
);

CREATE TABLE loyalty_accounts (
    id INTEGER PRIMARY KEY,
    number TEXT NOT NULL UNIQUE,
    passenger_id INTEGER NOT NULL UNIQUE REFERENCES passengers (id),
    tier TEXT NOT NULL REFERENCES loyalty_tiers (code),
    joined_on TEXT NOT NULL,
    balance_miles INTEGER NOT NULL CHECK (balance_miles >= 0),
    tier_miles INTEGER NOT NULL CHECK (tier_miles >= 0)  -- collected in this year
);

CREATE TABLE loyalty_ledger (
    id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES loyalty_accounts (id),
    segment_id INTEGER REFERENCES segments (id),  -- NULL: no flight of ours
    kind TEXT NOT NULL CHECK (kind IN ('flight', 'partner', 'redemption')),
    miles INTEGER NOT NULL CHECK (miles <> 0),
    posted_at TEXT NOT NULL,
    posted_by TEXT NOT NULL
);
CREATE INDEX loyalty_ledger_by_account ON loyalty_ledger (account_id);
CREATE UNIQUE INDEX one_credit_per_segment ON loyalty_ledger (segment_id) WHERE kind = 'flight';

-- What the desk wrote down.

CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    booking_id INTEGER NOT NULL REFERENCES bookings (id),
    body TEXT NOT NULL CHECK (length(body) > 0),
    written_at TEXT NOT NULL,
    written_by TEXT NOT NULL
);
CREATE INDEX notes_by_booking ON notes (booking_id);

CREATE TABLE escalations (
    id INTEGER PRIMARY KEY,
    booking_id INTEGER NOT NULL REFERENCES bookings (id),
    topic TEXT NOT NULL CHECK (topic IN ('refund_over_limit', 'goodwill_over_limit', 'complaint')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents >= 0),
    body TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'answered')),
    opened_at TEXT NOT NULL,
    opened_by TEXT NOT NULL
);
CREATE INDEX escalations_by_booking ON escalations (booking_id);

CREATE TABLE audit_log (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    actor TEXT NOT NULL REFERENCES staff (login),
    action TEXT NOT NULL,
    entity TEXT NOT NULL,
    entity_id INTEGER NOT NULL
);
