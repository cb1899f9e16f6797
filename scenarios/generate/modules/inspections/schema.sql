CREATE TABLE inspections (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL UNIQUE,
  category_id INTEGER NOT NULL REFERENCES categories(id),
  place TEXT NOT NULL,
  inspector_id INTEGER NOT NULL REFERENCES employees(id),
  planned_on TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'planned' CHECK (status IN ('planned', 'done', 'cancelled'))
);
CREATE INDEX inspections_inspector ON inspections(inspector_id);

CREATE TABLE findings (
  id INTEGER PRIMARY KEY,
  inspection_id INTEGER NOT NULL REFERENCES inspections(id),
  title TEXT NOT NULL,
  severity TEXT NOT NULL CHECK (severity IN ('minor', 'major', 'critical')),
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'resolved', 'waived')),
  UNIQUE (inspection_id, title)
);

CREATE TABLE followups (
  id INTEGER PRIMARY KEY,
  finding_id INTEGER NOT NULL REFERENCES findings(id),
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  due_on TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'done'))
);
CREATE INDEX followups_finding ON followups(finding_id);
