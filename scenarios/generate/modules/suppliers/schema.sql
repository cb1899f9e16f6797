CREATE TABLE suppliers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  email TEXT NOT NULL,
  city TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
  lead_days INTEGER NOT NULL CHECK (lead_days > 0),
  least_cents INTEGER NOT NULL CHECK (least_cents >= 0)
);

CREATE TABLE supplier_prices (
  id INTEGER PRIMARY KEY,
  supplier_id INTEGER NOT NULL REFERENCES suppliers(id),
  product_id INTEGER NOT NULL REFERENCES products(id),
  cost_cents INTEGER NOT NULL CHECK (cost_cents > 0),
  UNIQUE (supplier_id, product_id)
);

CREATE TABLE purchases (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL UNIQUE,
  supplier_id INTEGER NOT NULL REFERENCES suppliers(id),
  status TEXT NOT NULL DEFAULT 'draft'
    CHECK (status IN ('draft', 'sent', 'received', 'cancelled')),
  opened_by INTEGER NOT NULL REFERENCES employees(id),
  due_on TEXT
);
CREATE INDEX purchases_supplier ON purchases(supplier_id);

CREATE TABLE purchase_parts (
  id INTEGER PRIMARY KEY,
  purchase_id INTEGER NOT NULL REFERENCES purchases(id),
  product_id INTEGER NOT NULL REFERENCES products(id),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  cost_cents INTEGER NOT NULL CHECK (cost_cents > 0),
  UNIQUE (purchase_id, product_id)
);
