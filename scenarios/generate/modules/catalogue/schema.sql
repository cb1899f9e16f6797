CREATE TABLE categories (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  lead_id INTEGER NOT NULL REFERENCES employees(id)
);

CREATE TABLE products (
  id INTEGER PRIMARY KEY,
  code TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL UNIQUE,
  category_id INTEGER NOT NULL REFERENCES categories(id),
  price_cents INTEGER NOT NULL CHECK (price_cents > 0),
  unit TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'retired'))
);
CREATE INDEX products_category ON products(category_id);

CREATE TABLE price_changes (
  id INTEGER PRIMARY KEY,
  product_id INTEGER NOT NULL REFERENCES products(id),
  old_cents INTEGER NOT NULL,
  new_cents INTEGER NOT NULL,
  changed_by INTEGER NOT NULL REFERENCES employees(id),
  changed_at TEXT NOT NULL,
  CHECK (old_cents <> new_cents)
);
