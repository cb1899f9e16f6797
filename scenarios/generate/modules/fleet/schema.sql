CREATE TABLE vehicles (
  id INTEGER PRIMARY KEY,
  plate TEXT NOT NULL UNIQUE,
  model TEXT NOT NULL,
  team_id INTEGER NOT NULL REFERENCES teams(id),
  seats INTEGER NOT NULL CHECK (seats > 0),
  odometer_km INTEGER NOT NULL CHECK (odometer_km >= 0),
  status TEXT NOT NULL DEFAULT 'ready' CHECK (status IN ('ready', 'blocked', 'sold')),
  next_check_on TEXT NOT NULL
);

CREATE TABLE trips (
  id INTEGER PRIMARY KEY,
  vehicle_id INTEGER NOT NULL REFERENCES vehicles(id),
  driver_id INTEGER NOT NULL REFERENCES employees(id),
  goes_on TEXT NOT NULL,
  destination TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'planned' CHECK (status IN ('planned', 'done', 'cancelled')),
  driven_km INTEGER CHECK (driven_km > 0)
);
CREATE INDEX trips_vehicle ON trips(vehicle_id);
CREATE INDEX trips_driver ON trips(driver_id);

CREATE TABLE defects (
  id INTEGER PRIMARY KEY,
  vehicle_id INTEGER NOT NULL REFERENCES vehicles(id),
  title TEXT NOT NULL,
  severity TEXT NOT NULL CHECK (severity IN ('minor', 'serious')),
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'repaired')),
  reported_by INTEGER NOT NULL REFERENCES employees(id),
  reported_on TEXT NOT NULL,
  cost_cents INTEGER NOT NULL DEFAULT 0 CHECK (cost_cents >= 0)
);
CREATE INDEX defects_vehicle ON defects(vehicle_id);
