CREATE TABLE tiers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  month_cents INTEGER NOT NULL CHECK (month_cents > 0),
  num_guests INTEGER NOT NULL CHECK (num_guests >= 0),
  is_offered INTEGER NOT NULL DEFAULT 1 CHECK (is_offered IN (0, 1))
);

CREATE TABLE memberships (
  id INTEGER PRIMARY KEY,
  card TEXT NOT NULL UNIQUE,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  tier_id INTEGER NOT NULL REFERENCES tiers(id),
  first_day TEXT NOT NULL,
  last_day TEXT,
  CHECK (last_day IS NULL OR last_day >= first_day)
);
CREATE INDEX memberships_customer ON memberships(customer_id);

CREATE TABLE freezes (
  id INTEGER PRIMARY KEY,
  membership_id INTEGER NOT NULL REFERENCES memberships(id),
  first_day TEXT NOT NULL,
  last_day TEXT NOT NULL,
  entered_by INTEGER NOT NULL REFERENCES employees(id),
  UNIQUE (membership_id, first_day),
  CHECK (last_day >= first_day)
);
