CREATE TABLE resources (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  place TEXT NOT NULL,
  capacity INTEGER NOT NULL CHECK (capacity > 0),
  keeper_id INTEGER NOT NULL REFERENCES employees(id),
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'closed'))
);

CREATE TABLE slots (
  id INTEGER PRIMARY KEY,
  resource_id INTEGER NOT NULL REFERENCES resources(id),
  starts_at TEXT NOT NULL,
  ends_at TEXT NOT NULL,
  price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
  UNIQUE (resource_id, starts_at),
  CHECK (ends_at > starts_at)
);

CREATE TABLE bookings (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL UNIQUE,
  slot_id INTEGER NOT NULL REFERENCES slots(id),
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  num_people INTEGER NOT NULL CHECK (num_people > 0),
  status TEXT NOT NULL DEFAULT 'booked' CHECK (status IN ('booked', 'attended', 'cancelled')),
  made_by INTEGER NOT NULL REFERENCES employees(id),
  made_at TEXT NOT NULL
);
CREATE INDEX bookings_slot ON bookings(slot_id);
CREATE INDEX bookings_customer ON bookings(customer_id);
