CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  email TEXT NOT NULL UNIQUE,
  phone TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'blocked')),
  owner_id INTEGER NOT NULL REFERENCES employees(id),
  since TEXT NOT NULL
);
CREATE INDEX customers_name ON customers(name);

CREATE TABLE addresses (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  street TEXT NOT NULL,
  city TEXT NOT NULL,
  postcode TEXT NOT NULL,
  is_main INTEGER NOT NULL DEFAULT 0 CHECK (is_main IN (0, 1)),
  UNIQUE (customer_id, street, postcode)
);

CREATE TABLE customer_notes (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  author_id INTEGER NOT NULL REFERENCES employees(id),
  body TEXT NOT NULL,
  written_at TEXT NOT NULL
);
