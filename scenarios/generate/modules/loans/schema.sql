CREATE TABLE items (
  id INTEGER PRIMARY KEY,
  code TEXT NOT NULL UNIQUE,
  title TEXT NOT NULL,
  condition TEXT NOT NULL CHECK (condition IN ('good', 'worn')),
  status TEXT NOT NULL DEFAULT 'in' CHECK (status IN ('in', 'lent', 'withdrawn'))
);

CREATE TABLE loans (
  id INTEGER PRIMARY KEY,
  item_id INTEGER NOT NULL REFERENCES items(id),
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  lent_on TEXT NOT NULL,
  due_on TEXT NOT NULL CHECK (due_on >= lent_on),
  returned_on TEXT,
  num_renewals INTEGER NOT NULL DEFAULT 0 CHECK (num_renewals >= 0)
);
CREATE INDEX loans_item ON loans(item_id);
CREATE INDEX loans_customer ON loans(customer_id);

CREATE TABLE reservations (
  id INTEGER PRIMARY KEY,
  item_id INTEGER NOT NULL REFERENCES items(id),
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  made_on TEXT NOT NULL,
  UNIQUE (item_id, customer_id)
);
