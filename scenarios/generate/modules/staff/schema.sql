CREATE TABLE teams (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  place TEXT NOT NULL
);

CREATE TABLE employees (
  id INTEGER PRIMARY KEY,
  login TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  email TEXT NOT NULL UNIQUE,
  role TEXT NOT NULL CHECK (role IN ('clerk', 'supervisor', 'manager')),
  team_id INTEGER NOT NULL REFERENCES teams(id),
  limit_cents INTEGER NOT NULL CHECK (limit_cents >= 0),
  active INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1))
);
CREATE INDEX employees_team ON employees(team_id);

CREATE TABLE absences (
  id INTEGER PRIMARY KEY,
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  first_day TEXT NOT NULL,
  last_day TEXT NOT NULL CHECK (last_day >= first_day),
  kind TEXT NOT NULL CHECK (kind IN ('leave', 'sick', 'travel')),
  UNIQUE (employee_id, first_day)
);
