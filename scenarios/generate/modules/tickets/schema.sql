CREATE TABLE sla_targets (
  id INTEGER PRIMARY KEY,
  priority TEXT NOT NULL UNIQUE CHECK (priority IN ('low', 'normal', 'high', 'urgent')),
  answer_hours INTEGER NOT NULL CHECK (answer_hours > 0),
  solve_hours INTEGER NOT NULL CHECK (solve_hours >= answer_hours)
);

CREATE TABLE tickets (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL UNIQUE,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  product_id INTEGER REFERENCES products(id),
  subject TEXT NOT NULL,
  priority TEXT NOT NULL DEFAULT 'normal' REFERENCES sla_targets(priority),
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'waiting', 'solved')),
  assignee_id INTEGER REFERENCES employees(id),
  opened_at TEXT NOT NULL,
  due_at TEXT NOT NULL,
  solved_at TEXT,
  CHECK ((status = 'solved') = (solved_at IS NOT NULL))
);
CREATE INDEX tickets_customer ON tickets(customer_id);
CREATE INDEX tickets_assignee ON tickets(assignee_id);

CREATE TABLE ticket_comments (
  id INTEGER PRIMARY KEY,
  ticket_id INTEGER NOT NULL REFERENCES tickets(id),
  author_id INTEGER NOT NULL REFERENCES employees(id),
  body TEXT NOT NULL,
  is_public INTEGER NOT NULL CHECK (is_public IN (0, 1)),
  written_at TEXT NOT NULL
);
CREATE INDEX ticket_comments_ticket ON ticket_comments(ticket_id);
