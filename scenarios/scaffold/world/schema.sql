-- Step 2. The tables. Constraints are worth it: what the database refuses, no tool can get wrong.
CREATE TABLE owners (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    phone TEXT NOT NULL
);
CREATE TABLE pets (
    id INTEGER PRIMARY KEY,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    name TEXT NOT NULL,
    species TEXT NOT NULL CHECK (species IN ('cat', 'dog', 'rabbit'))
);
CREATE TABLE visits (
    id INTEGER PRIMARY KEY,
    pet_id INTEGER NOT NULL REFERENCES pets (id),
    starts_at TEXT NOT NULL,
    reason TEXT NOT NULL CHECK (reason IN ('check-up', 'vaccination', 'surgery', 'dental')),
    status TEXT NOT NULL CHECK (status IN ('booked', 'cancelled', 'done'))
);
-- One doctor: two booked visits cannot begin at the same time.
CREATE UNIQUE INDEX booked_times ON visits (starts_at) WHERE status = 'booked';
CREATE INDEX visits_of_pet ON visits (pet_id);
