CREATE TABLE refund_reasons (
  id INTEGER PRIMARY KEY,
  title TEXT NOT NULL UNIQUE,
  share_percent INTEGER NOT NULL CHECK (share_percent BETWEEN 1 AND 100)
);

CREATE TABLE refunds (
  id INTEGER PRIMARY KEY,
  payment_id INTEGER NOT NULL REFERENCES payments(id),
  reason_id INTEGER NOT NULL REFERENCES refund_reasons(id),
  amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
  status TEXT NOT NULL DEFAULT 'open'
    CHECK (status IN ('open', 'approved', 'rejected', 'cancelled')),
  opened_by INTEGER NOT NULL REFERENCES employees(id),
  opened_at TEXT NOT NULL,
  decided_by INTEGER REFERENCES employees(id),
  decided_at TEXT
);
CREATE INDEX refunds_payment ON refunds(payment_id);

CREATE TABLE refund_notes (
  id INTEGER PRIMARY KEY,
  refund_id INTEGER NOT NULL REFERENCES refunds(id),
  author_id INTEGER NOT NULL REFERENCES employees(id),
  body TEXT NOT NULL,
  written_at TEXT NOT NULL
);
