CREATE TABLE devices (
  id INTEGER PRIMARY KEY,
  serial TEXT NOT NULL UNIQUE,
  model TEXT NOT NULL,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  status TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'stopped', 'retired')),
  installed_on TEXT NOT NULL
);
CREATE INDEX devices_customer ON devices(customer_id);

CREATE TABLE device_readings (
  id INTEGER PRIMARY KEY,
  device_id INTEGER NOT NULL REFERENCES devices(id),
  counter INTEGER NOT NULL CHECK (counter >= 0),
  taken_on TEXT NOT NULL,
  UNIQUE (device_id, taken_on)
);

CREATE TABLE device_visits (
  id INTEGER PRIMARY KEY,
  device_id INTEGER NOT NULL REFERENCES devices(id),
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  planned_on TEXT NOT NULL,
  purpose TEXT NOT NULL CHECK (purpose IN ('maintenance', 'repair', 'calibration')),
  status TEXT NOT NULL DEFAULT 'planned' CHECK (status IN ('planned', 'done', 'cancelled'))
);
CREATE INDEX device_visits_device ON device_visits(device_id);
