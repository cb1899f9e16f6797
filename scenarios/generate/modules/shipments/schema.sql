CREATE TABLE carriers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  parcel_cents INTEGER NOT NULL CHECK (parcel_cents > 0),
  most_grams INTEGER NOT NULL CHECK (most_grams > 0),
  is_insured INTEGER NOT NULL DEFAULT 0 CHECK (is_insured IN (0, 1)),
  active INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1))
);

CREATE TABLE shipments (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL UNIQUE,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  address_id INTEGER NOT NULL REFERENCES addresses(id),
  carrier_id INTEGER NOT NULL REFERENCES carriers(id),
  status TEXT NOT NULL DEFAULT 'planned'
    CHECK (status IN ('planned', 'sent', 'delivered', 'lost', 'cancelled')),
  leaves_on TEXT NOT NULL
);
CREATE INDEX shipments_customer ON shipments(customer_id);

CREATE TABLE parcels (
  id INTEGER PRIMARY KEY,
  shipment_id INTEGER NOT NULL REFERENCES shipments(id),
  product_id INTEGER NOT NULL REFERENCES products(id),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  grams INTEGER NOT NULL CHECK (grams > 0)
);
CREATE INDEX parcels_shipment ON parcels(shipment_id);
