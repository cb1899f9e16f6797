CREATE TABLE payment_methods (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  kind TEXT NOT NULL CHECK (kind IN ('card', 'debit', 'wallet')),
  last_four TEXT NOT NULL CHECK (length(last_four) = 4),
  expires_on TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'disabled')),
  UNIQUE (customer_id, last_four)
);

CREATE TABLE payments (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL UNIQUE,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  method_id INTEGER NOT NULL REFERENCES payment_methods(id),
  product_id INTEGER NOT NULL REFERENCES products(id),
  amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'settled', 'failed', 'void')),
  created_at TEXT NOT NULL,
  settled_at TEXT,
  CHECK ((status = 'settled') = (settled_at IS NOT NULL))
);
CREATE INDEX payments_customer ON payments(customer_id);

CREATE TABLE payment_events (
  id INTEGER PRIMARY KEY,
  payment_id INTEGER NOT NULL REFERENCES payments(id),
  kind TEXT NOT NULL CHECK (kind IN ('created', 'failed', 'retried', 'settled', 'void', 'switched')),
  employee_id INTEGER REFERENCES employees(id),
  at TEXT NOT NULL
);
