-- Lark & Linden, back office of customer support.
-- Money is integer cents (US dollars), moments are ISO 8601 in UTC, days are YYYY-MM-DD.

CREATE TABLE agents (
  id INTEGER PRIMARY KEY,
  login TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('support_agent', 'supervisor', 'fraud_team')),
  refund_limit_cents INTEGER NOT NULL CHECK (refund_limit_cents >= 0),
  goodwill_limit_cents INTEGER NOT NULL CHECK (goodwill_limit_cents >= 0),
  active INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1))
);

CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  email TEXT NOT NULL UNIQUE CHECK (email LIKE '%_@_%'),
  phone TEXT,
  tier TEXT NOT NULL DEFAULT 'standard' CHECK (tier IN ('standard', 'plus')),
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'blocked', 'merged')),
  merged_into INTEGER REFERENCES customers(id),
  created_at TEXT NOT NULL,
  CHECK ((status = 'merged') = (merged_into IS NOT NULL))
);
CREATE INDEX customers_name ON customers(name);

CREATE TABLE addresses (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  label TEXT NOT NULL,
  recipient TEXT NOT NULL,
  street TEXT NOT NULL,
  city TEXT NOT NULL,
  state TEXT NOT NULL,
  postcode TEXT NOT NULL,
  country TEXT NOT NULL CHECK (length(country) = 2),
  created_at TEXT NOT NULL,
  UNIQUE (customer_id, street, postcode, recipient)
);
CREATE INDEX addresses_customer ON addresses(customer_id);

CREATE TABLE categories (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  return_days INTEGER NOT NULL CHECK (return_days >= 0),
  hygiene INTEGER NOT NULL DEFAULT 0 CHECK (hygiene IN (0, 1))
);

CREATE TABLE products (
  id INTEGER PRIMARY KEY,
  category_id INTEGER NOT NULL REFERENCES categories(id),
  name TEXT NOT NULL UNIQUE,
  brand TEXT NOT NULL,
  final_sale INTEGER NOT NULL DEFAULT 0 CHECK (final_sale IN (0, 1)),
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'discontinued'))
);
CREATE INDEX products_category ON products(category_id);

CREATE TABLE variants (
  id INTEGER PRIMARY KEY,
  product_id INTEGER NOT NULL REFERENCES products(id),
  sku TEXT NOT NULL UNIQUE,
  colour TEXT,
  size TEXT,
  UNIQUE (product_id, colour, size)
);
CREATE INDEX variants_product ON variants(product_id);

-- The price history. Both days are inclusive; no valid_to: until further notice.
CREATE TABLE prices (
  id INTEGER PRIMARY KEY,
  variant_id INTEGER NOT NULL REFERENCES variants(id),
  price_cents INTEGER NOT NULL CHECK (price_cents > 0),
  kind TEXT NOT NULL CHECK (kind IN ('regular', 'sale')),
  valid_from TEXT NOT NULL,
  valid_to TEXT,
  UNIQUE (variant_id, valid_from),
  CHECK (valid_to IS NULL OR valid_to >= valid_from)
);

CREATE TABLE warehouses (
  id INTEGER PRIMARY KEY,
  code TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  city TEXT NOT NULL
);

CREATE TABLE inventory (
  warehouse_id INTEGER NOT NULL REFERENCES warehouses(id),
  variant_id INTEGER NOT NULL REFERENCES variants(id),
  on_hand INTEGER NOT NULL CHECK (on_hand >= 0),
  reserved INTEGER NOT NULL DEFAULT 0 CHECK (reserved BETWEEN 0 AND on_hand),
  reorder_point INTEGER NOT NULL DEFAULT 0 CHECK (reorder_point >= 0),
  PRIMARY KEY (warehouse_id, variant_id)
);
CREATE INDEX inventory_variant ON inventory(variant_id);

CREATE TABLE inbound_deliveries (
  id INTEGER PRIMARY KEY,
  warehouse_id INTEGER NOT NULL REFERENCES warehouses(id),
  variant_id INTEGER NOT NULL REFERENCES variants(id),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  expected_on TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('planned', 'confirmed', 'received', 'cancelled'))
);
CREATE INDEX inbound_variant ON inbound_deliveries(variant_id);

CREATE TABLE coupons (
  id INTEGER PRIMARY KEY,
  code TEXT NOT NULL UNIQUE,
  description TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('percent', 'fixed')),
  percent INTEGER CHECK (percent BETWEEN 1 AND 90),
  amount_cents INTEGER CHECK (amount_cents > 0),
  category_id INTEGER REFERENCES categories(id),  -- none: every category
  min_subtotal_cents INTEGER NOT NULL DEFAULT 0,
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  max_redemptions INTEGER CHECK (max_redemptions > 0),  -- none: no limit
  per_customer INTEGER NOT NULL DEFAULT 1 CHECK (per_customer > 0),
  active INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
  CHECK (valid_to >= valid_from),
  CHECK ((kind = 'percent') = (percent IS NOT NULL)),
  CHECK ((kind = 'fixed') = (amount_cents IS NOT NULL))
);

CREATE TABLE gift_cards (
  id INTEGER PRIMARY KEY,
  code TEXT NOT NULL UNIQUE,
  customer_id INTEGER REFERENCES customers(id),  -- none: sold and not yet claimed
  kind TEXT NOT NULL CHECK (kind IN ('purchased', 'goodwill')),
  initial_cents INTEGER NOT NULL CHECK (initial_cents > 0),
  balance_cents INTEGER NOT NULL CHECK (balance_cents BETWEEN 0 AND initial_cents),
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'blocked', 'expired')),
  issued_at TEXT NOT NULL,
  expires_on TEXT NOT NULL
);
CREATE INDEX gift_cards_customer ON gift_cards(customer_id);

CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  address_id INTEGER NOT NULL REFERENCES addresses(id),
  status TEXT NOT NULL
    CHECK (status IN ('open', 'packed', 'shipped', 'delivered', 'cancelled')),
  hold TEXT NOT NULL DEFAULT 'none' CHECK (hold IN ('none', 'address_check', 'fraud_check')),
  channel TEXT NOT NULL CHECK (channel IN ('web', 'app', 'phone', 'support')),
  subtotal_cents INTEGER NOT NULL CHECK (subtotal_cents >= 0),
  discount_cents INTEGER NOT NULL DEFAULT 0 CHECK (discount_cents >= 0),
  shipping_cents INTEGER NOT NULL DEFAULT 0 CHECK (shipping_cents >= 0),
  total_cents INTEGER NOT NULL,
  placed_at TEXT NOT NULL,
  replaces_order_id INTEGER REFERENCES orders(id),
  cancelled_at TEXT,
  cancel_reason TEXT CHECK (cancel_reason IN
    ('duplicate', 'customer_request', 'out_of_stock', 'payment_failed')),
  updated_at TEXT NOT NULL,
  CHECK (total_cents = subtotal_cents - discount_cents + shipping_cents),
  CHECK ((status = 'cancelled') = (cancelled_at IS NOT NULL))
);
CREATE INDEX orders_customer ON orders(customer_id, placed_at);
CREATE INDEX orders_placed ON orders(placed_at);

CREATE TABLE order_lines (
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders(id),
  variant_id INTEGER NOT NULL REFERENCES variants(id),
  warehouse_id INTEGER NOT NULL REFERENCES warehouses(id),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  unit_price_cents INTEGER NOT NULL CHECK (unit_price_cents >= 0),
  discount_cents INTEGER NOT NULL DEFAULT 0,
  CHECK (discount_cents BETWEEN 0 AND quantity * unit_price_cents)
);
CREATE INDEX order_lines_order ON order_lines(order_id);
CREATE INDEX order_lines_variant ON order_lines(variant_id);

CREATE TABLE coupon_redemptions (
  id INTEGER PRIMARY KEY,
  coupon_id INTEGER NOT NULL REFERENCES coupons(id),
  order_id INTEGER NOT NULL UNIQUE REFERENCES orders(id),
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  discount_cents INTEGER NOT NULL CHECK (discount_cents > 0),
  redeemed_at TEXT NOT NULL
);
CREATE INDEX coupon_redemptions_coupon ON coupon_redemptions(coupon_id);

CREATE TABLE payments (
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders(id),
  method TEXT NOT NULL CHECK (method IN ('card', 'paypal', 'gift_card')),
  gift_card_id INTEGER REFERENCES gift_cards(id),
  amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
  status TEXT NOT NULL CHECK (status IN ('captured', 'failed')),
  reference TEXT NOT NULL UNIQUE,
  paid_at TEXT NOT NULL,
  CHECK ((method = 'gift_card') = (gift_card_id IS NOT NULL))
);
CREATE INDEX payments_order ON payments(order_id);

CREATE TABLE refunds (
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders(id),
  payment_id INTEGER NOT NULL REFERENCES payments(id),
  order_line_id INTEGER REFERENCES order_lines(id),  -- none: for the order as a whole
  amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
  reason TEXT NOT NULL CHECK (reason IN ('order_cancelled', 'damaged_item', 'return_received',
    'price_adjustment', 'coupon_applied', 'lost_parcel')),
  created_at TEXT NOT NULL,
  created_by TEXT NOT NULL REFERENCES agents(login)
);
CREATE INDEX refunds_order ON refunds(order_id);
CREATE INDEX refunds_payment ON refunds(payment_id);

CREATE TABLE gift_card_entries (
  id INTEGER PRIMARY KEY,
  gift_card_id INTEGER NOT NULL REFERENCES gift_cards(id),
  kind TEXT NOT NULL CHECK (kind IN ('issued', 'spent', 'refunded')),
  amount_cents INTEGER NOT NULL CHECK (amount_cents <> 0),
  order_id INTEGER REFERENCES orders(id),
  at TEXT NOT NULL
);
CREATE INDEX gift_card_entries_card ON gift_card_entries(gift_card_id);

CREATE TABLE shipments (
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders(id),
  warehouse_id INTEGER NOT NULL REFERENCES warehouses(id),
  carrier TEXT NOT NULL CHECK (carrier IN ('UPS', 'FedEx', 'USPS')),
  tracking TEXT NOT NULL UNIQUE,
  status TEXT NOT NULL CHECK (status IN ('in_transit', 'delivered', 'lost')),
  shipped_at TEXT NOT NULL,
  promised_on TEXT NOT NULL,
  delivered_at TEXT,
  trace_started_at TEXT,
  CHECK ((status = 'delivered') = (delivered_at IS NOT NULL))
);
CREATE INDEX shipments_order ON shipments(order_id);

CREATE TABLE shipment_lines (
  shipment_id INTEGER NOT NULL REFERENCES shipments(id),
  order_line_id INTEGER NOT NULL REFERENCES order_lines(id),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  PRIMARY KEY (shipment_id, order_line_id)
);

CREATE TABLE shipment_scans (
  id INTEGER PRIMARY KEY,
  shipment_id INTEGER NOT NULL REFERENCES shipments(id),
  at TEXT NOT NULL,
  place TEXT NOT NULL,
  what TEXT NOT NULL
);
CREATE INDEX shipment_scans_shipment ON shipment_scans(shipment_id, at);

CREATE TABLE tickets (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  order_id INTEGER REFERENCES orders(id),
  subject TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('open', 'waiting', 'solved')),
  priority TEXT NOT NULL DEFAULT 'normal' CHECK (priority IN ('low', 'normal', 'high')),
  assignee TEXT REFERENCES agents(login),
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
);
CREATE INDEX tickets_customer ON tickets(customer_id);
CREATE INDEX tickets_status ON tickets(status, updated_at);

CREATE TABLE messages (
  id INTEGER PRIMARY KEY,
  ticket_id INTEGER NOT NULL REFERENCES tickets(id),
  author_kind TEXT NOT NULL CHECK (author_kind IN ('customer', 'agent')),
  author TEXT NOT NULL,
  body TEXT NOT NULL CHECK (length(body) > 0),
  attachments INTEGER NOT NULL DEFAULT 0 CHECK (attachments >= 0),
  sent_at TEXT NOT NULL
);
CREATE INDEX messages_ticket ON messages(ticket_id, sent_at);

CREATE TABLE returns (
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders(id),
  status TEXT NOT NULL CHECK (status IN ('requested', 'approved', 'denied', 'received')),
  reason TEXT NOT NULL CHECK (reason IN ('changed_mind', 'wrong_size', 'faulty', 'wrong_item')),
  resolution TEXT CHECK (resolution IN ('refund', 'exchange', 'store_credit')),
  denial_reason TEXT CHECK (denial_reason IN
    ('outside_window', 'hygiene', 'final_sale', 'not_our_item')),
  requested_at TEXT NOT NULL,
  decided_at TEXT,
  decided_by TEXT REFERENCES agents(login),
  note TEXT,
  CHECK (status <> 'requested' OR decided_at IS NULL),
  CHECK ((status = 'denied') = (denial_reason IS NOT NULL))
);
CREATE INDEX returns_order ON returns(order_id);

CREATE TABLE return_lines (
  return_id INTEGER NOT NULL REFERENCES returns(id),
  order_line_id INTEGER NOT NULL REFERENCES order_lines(id),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  condition TEXT NOT NULL CHECK (condition IN ('unopened', 'as_new', 'used')),
  PRIMARY KEY (return_id, order_line_id)
);
CREATE INDEX return_lines_line ON return_lines(order_line_id);

CREATE TABLE escalations (
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders(id),
  ticket_id INTEGER REFERENCES tickets(id),
  kind TEXT NOT NULL CHECK (kind IN ('refund_over_limit', 'fraud', 'return_exception')),
  amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
  reason TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'approved', 'rejected')),
  created_at TEXT NOT NULL,
  created_by TEXT NOT NULL REFERENCES agents(login),
  decided_by TEXT REFERENCES agents(login)
);
CREATE INDEX escalations_order ON escalations(order_id);

CREATE TABLE order_events (
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders(id),
  kind TEXT NOT NULL,
  detail TEXT NOT NULL,
  actor TEXT NOT NULL,
  at TEXT NOT NULL
);
CREATE INDEX order_events_order ON order_events(order_id, at);

-- What agents did to customers' records and gift cards (orders have order_events).
CREATE TABLE audit_log (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  action TEXT NOT NULL,
  detail TEXT NOT NULL,
  actor TEXT NOT NULL REFERENCES agents(login),
  at TEXT NOT NULL
);
CREATE INDEX audit_log_customer ON audit_log(customer_id, at);
