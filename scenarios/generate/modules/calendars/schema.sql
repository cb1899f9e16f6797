CREATE TABLE appointments (
  id INTEGER PRIMARY KEY,
  organiser_id INTEGER NOT NULL REFERENCES employees(id),
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  subject TEXT NOT NULL,
  place TEXT NOT NULL,
  starts_at TEXT NOT NULL,
  ends_at TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'planned' CHECK (status IN ('planned', 'held', 'cancelled')),
  CHECK (ends_at > starts_at)
);
CREATE INDEX appointments_organiser ON appointments(organiser_id);
CREATE INDEX appointments_customer ON appointments(customer_id);

CREATE TABLE participants (
  id INTEGER PRIMARY KEY,
  appointment_id INTEGER NOT NULL REFERENCES appointments(id),
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  presence TEXT NOT NULL DEFAULT 'required' CHECK (presence IN ('required', 'optional')),
  UNIQUE (appointment_id, employee_id)
);
