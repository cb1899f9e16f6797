CREATE TABLE shift_posts (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  team_id INTEGER NOT NULL REFERENCES teams(id),
  needs_rank TEXT NOT NULL CHECK (needs_rank IN ('any', 'senior'))
);

CREATE TABLE shifts (
  id INTEGER PRIMARY KEY,
  post_id INTEGER NOT NULL REFERENCES shift_posts(id),
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  worked_on TEXT NOT NULL,
  part TEXT NOT NULL CHECK (part IN ('early', 'late', 'night')),
  UNIQUE (employee_id, worked_on),
  UNIQUE (post_id, worked_on, part)
);

CREATE TABLE swaps (
  id INTEGER PRIMARY KEY,
  shift_id INTEGER NOT NULL REFERENCES shifts(id),
  taker_id INTEGER NOT NULL REFERENCES employees(id),
  status TEXT NOT NULL DEFAULT 'asked' CHECK (status IN ('asked', 'agreed', 'refused')),
  asked_at TEXT NOT NULL,
  decided_by INTEGER REFERENCES employees(id)
);
CREATE INDEX swaps_shift ON swaps(shift_id);
