CREATE TABLE campaigns (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  percent_off INTEGER NOT NULL CHECK (percent_off BETWEEN 1 AND 90),
  budget_cents INTEGER NOT NULL CHECK (budget_cents >= 0),
  ends_on TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'stopped'))
);

CREATE TABLE coupons (
  id INTEGER PRIMARY KEY,
  code TEXT NOT NULL UNIQUE,
  campaign_id INTEGER NOT NULL REFERENCES campaigns(id),
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'redeemed', 'void')),
  expires_on TEXT NOT NULL,
  UNIQUE (campaign_id, customer_id)
);
CREATE INDEX coupons_customer ON coupons(customer_id);

CREATE TABLE redemptions (
  id INTEGER PRIMARY KEY,
  coupon_id INTEGER NOT NULL UNIQUE REFERENCES coupons(id),
  product_id INTEGER NOT NULL REFERENCES products(id),
  saved_cents INTEGER NOT NULL CHECK (saved_cents > 0),
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  redeemed_at TEXT NOT NULL
);
