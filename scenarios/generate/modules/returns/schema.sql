CREATE TABLE returns (
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders(id),
  reference TEXT NOT NULL UNIQUE,
  reason TEXT NOT NULL CHECK (reason IN ('damaged', 'wrong', 'unwanted', 'late')),
  status TEXT NOT NULL DEFAULT 'announced'
    CHECK (status IN ('announced', 'received', 'accepted', 'refused', 'cancelled')),
  announced_at TEXT NOT NULL
);
CREATE INDEX returns_order ON returns(order_id);

CREATE TABLE return_lines (
  id INTEGER PRIMARY KEY,
  return_id INTEGER NOT NULL REFERENCES returns(id),
  order_line_id INTEGER NOT NULL REFERENCES order_lines(id),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  condition TEXT CHECK (condition IN ('new', 'used', 'broken')),
  UNIQUE (return_id, order_line_id)
);

CREATE TABLE return_events (
  id INTEGER PRIMARY KEY,
  return_id INTEGER NOT NULL REFERENCES returns(id),
  kind TEXT NOT NULL
    CHECK (kind IN ('announced', 'received', 'inspected', 'accepted', 'refused', 'cancelled')),
  employee_id INTEGER REFERENCES employees(id),
  at TEXT NOT NULL
);
