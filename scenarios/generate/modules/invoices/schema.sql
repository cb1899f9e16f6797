CREATE TABLE invoices (
  id INTEGER PRIMARY KEY,
  number TEXT NOT NULL UNIQUE,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  status TEXT NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'sent', 'paid', 'cancelled')),
  total_cents INTEGER NOT NULL CHECK (total_cents >= 0),
  due_on TEXT NOT NULL,
  sent_on TEXT,
  paid_on TEXT,
  is_deferred INTEGER NOT NULL DEFAULT 0 CHECK (is_deferred IN (0, 1)),
  CHECK ((status = 'paid') = (paid_on IS NOT NULL))
);
CREATE INDEX invoices_customer ON invoices(customer_id);

CREATE TABLE invoice_positions (
  id INTEGER PRIMARY KEY,
  invoice_id INTEGER NOT NULL REFERENCES invoices(id),
  product_id INTEGER NOT NULL REFERENCES products(id),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  unit_cents INTEGER NOT NULL CHECK (unit_cents >= 0),
  UNIQUE (invoice_id, product_id)
);

CREATE TABLE invoice_reminders (
  id INTEGER PRIMARY KEY,
  invoice_id INTEGER NOT NULL REFERENCES invoices(id),
  step INTEGER NOT NULL CHECK (step > 0),
  fee_cents INTEGER NOT NULL CHECK (fee_cents >= 0),
  sent_by INTEGER NOT NULL REFERENCES employees(id),
  sent_at TEXT NOT NULL,
  UNIQUE (invoice_id, step)
);
