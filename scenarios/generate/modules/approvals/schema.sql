CREATE TABLE request_kinds (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  most_cents INTEGER NOT NULL CHECK (most_cents > 0)
);

CREATE TABLE requests (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL UNIQUE,
  kind_id INTEGER NOT NULL REFERENCES request_kinds(id),
  made_by INTEGER NOT NULL REFERENCES employees(id),
  decider_id INTEGER NOT NULL REFERENCES employees(id),
  subject TEXT NOT NULL,
  amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
  status TEXT NOT NULL DEFAULT 'open'
    CHECK (status IN ('open', 'approved', 'rejected', 'withdrawn')),
  made_at TEXT NOT NULL,
  CHECK (made_by <> decider_id)
);
CREATE INDEX requests_decider ON requests(decider_id);

CREATE TABLE decisions (
  id INTEGER PRIMARY KEY,
  request_id INTEGER NOT NULL UNIQUE REFERENCES requests(id),
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  verdict TEXT NOT NULL CHECK (verdict IN ('approved', 'rejected')),
  remark TEXT NOT NULL,
  decided_at TEXT NOT NULL
);
