CREATE TABLE warranties (
  id INTEGER PRIMARY KEY,
  number TEXT NOT NULL UNIQUE,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  product_id INTEGER NOT NULL REFERENCES products(id),
  bought_on TEXT NOT NULL,
  ends_on TEXT NOT NULL CHECK (ends_on > bought_on),
  extended INTEGER NOT NULL DEFAULT 0 CHECK (extended IN (0, 1))
);
CREATE INDEX warranties_customer ON warranties(customer_id);

CREATE TABLE claims (
  id INTEGER PRIMARY KEY,
  warranty_id INTEGER NOT NULL REFERENCES warranties(id),
  fault TEXT NOT NULL,
  reported_on TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'accepted', 'rejected')),
  amount_cents INTEGER NOT NULL DEFAULT 0 CHECK (amount_cents >= 0),
  decided_by INTEGER REFERENCES employees(id)
);
CREATE INDEX claims_warranty ON claims(warranty_id);

CREATE TABLE assessments (
  id INTEGER PRIMARY KEY,
  claim_id INTEGER NOT NULL UNIQUE REFERENCES claims(id),
  assessor_id INTEGER NOT NULL REFERENCES employees(id),
  cause TEXT NOT NULL CHECK (cause IN ('defect', 'wear', 'misuse')),
  estimate_cents INTEGER NOT NULL CHECK (estimate_cents > 0),
  made_on TEXT NOT NULL
);
