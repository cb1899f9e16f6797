CREATE TABLE plans (
  id INTEGER PRIMARY KEY,
  code TEXT NOT NULL UNIQUE,
  product_id INTEGER NOT NULL REFERENCES products(id),
  months INTEGER NOT NULL CHECK (months IN (1, 3, 12)),
  price_cents INTEGER NOT NULL CHECK (price_cents > 0),
  is_offered INTEGER NOT NULL DEFAULT 1 CHECK (is_offered IN (0, 1)),
  UNIQUE (product_id, months)
);

CREATE TABLE subscriptions (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL UNIQUE,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  plan_id INTEGER NOT NULL REFERENCES plans(id),
  discount_percent INTEGER NOT NULL DEFAULT 0 CHECK (discount_percent BETWEEN 0 AND 100),
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'ended')),
  started_on TEXT NOT NULL,
  paused_until TEXT,
  CHECK ((status = 'paused') = (paused_until IS NOT NULL))
);
CREATE INDEX subscriptions_customer ON subscriptions(customer_id);

CREATE TABLE charges (
  id INTEGER PRIMARY KEY,
  subscription_id INTEGER NOT NULL REFERENCES subscriptions(id),
  amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
  status TEXT NOT NULL CHECK (status IN ('paid', 'failed', 'credited')),
  made_on TEXT NOT NULL,
  UNIQUE (subscription_id, made_on)
);
