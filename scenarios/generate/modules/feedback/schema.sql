CREATE TABLE reviews (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  product_id INTEGER NOT NULL REFERENCES products(id),
  rating INTEGER NOT NULL CHECK (rating BETWEEN 1 AND 5),
  body TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'published', 'hidden')),
  written_on TEXT NOT NULL,
  UNIQUE (customer_id, product_id)
);
CREATE INDEX reviews_product ON reviews(product_id);

CREATE TABLE replies (
  id INTEGER PRIMARY KEY,
  review_id INTEGER NOT NULL UNIQUE REFERENCES reviews(id),
  author_id INTEGER NOT NULL REFERENCES employees(id),
  body TEXT NOT NULL,
  written_at TEXT NOT NULL
);

CREATE TABLE review_flags (
  id INTEGER PRIMARY KEY,
  review_id INTEGER NOT NULL REFERENCES reviews(id),
  reason TEXT NOT NULL CHECK (reason IN ('insult', 'spam', 'personal_data', 'other_business')),
  flagged_by INTEGER NOT NULL REFERENCES employees(id),
  flagged_at TEXT NOT NULL,
  UNIQUE (review_id, reason)
);
