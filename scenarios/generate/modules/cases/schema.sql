CREATE TABLE cases (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL UNIQUE,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  subject TEXT NOT NULL,
  handler_id INTEGER NOT NULL REFERENCES employees(id),
  priority TEXT NOT NULL CHECK (priority IN ('low', 'normal', 'high')),
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'closed')),
  opened_on TEXT NOT NULL
);
CREATE INDEX cases_customer ON cases(customer_id);

CREATE TABLE case_notes (
  id INTEGER PRIMARY KEY,
  case_id INTEGER NOT NULL REFERENCES cases(id),
  author_id INTEGER NOT NULL REFERENCES employees(id),
  body TEXT NOT NULL,
  written_at TEXT NOT NULL
);

CREATE TABLE steps (
  id INTEGER PRIMARY KEY,
  case_id INTEGER NOT NULL REFERENCES cases(id),
  what TEXT NOT NULL,
  due_on TEXT NOT NULL,
  cost_cents INTEGER NOT NULL CHECK (cost_cents > 0),
  status TEXT NOT NULL DEFAULT 'planned' CHECK (status IN ('planned', 'done', 'dropped')),
  planned_by INTEGER NOT NULL REFERENCES employees(id)
);
CREATE INDEX steps_case ON steps(case_id);
