CREATE TABLE documents (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL UNIQUE,
  title TEXT NOT NULL UNIQUE,
  owner_id INTEGER NOT NULL REFERENCES employees(id),
  classification TEXT NOT NULL CHECK (classification IN ('public', 'internal', 'confidential')),
  status TEXT NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'approved', 'archived'))
);

CREATE TABLE document_versions (
  id INTEGER PRIMARY KEY,
  document_id INTEGER NOT NULL REFERENCES documents(id),
  number INTEGER NOT NULL CHECK (number > 0),
  summary TEXT NOT NULL,
  author_id INTEGER NOT NULL REFERENCES employees(id),
  made_at TEXT NOT NULL,
  UNIQUE (document_id, number)
);

CREATE TABLE document_shares (
  document_id INTEGER NOT NULL REFERENCES documents(id),
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  mode TEXT NOT NULL CHECK (mode IN ('read', 'edit')),
  PRIMARY KEY (document_id, employee_id)
);
