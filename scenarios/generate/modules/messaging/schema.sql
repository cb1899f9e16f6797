CREATE TABLE threads (
  id INTEGER PRIMARY KEY,
  reference TEXT NOT NULL UNIQUE,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  subject TEXT NOT NULL,
  channel TEXT NOT NULL CHECK (channel IN ('email', 'chat', 'phone')),
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'closed')),
  handler_id INTEGER NOT NULL REFERENCES employees(id),
  begun_at TEXT NOT NULL
);
CREATE INDEX threads_customer ON threads(customer_id);

CREATE TABLE templates (
  id INTEGER PRIMARY KEY,
  code TEXT NOT NULL UNIQUE,
  title TEXT NOT NULL UNIQUE,
  channel TEXT NOT NULL CHECK (channel IN ('email', 'chat')),
  body TEXT NOT NULL,
  is_current INTEGER NOT NULL DEFAULT 1 CHECK (is_current IN (0, 1))
);

CREATE TABLE messages (
  id INTEGER PRIMARY KEY,
  thread_id INTEGER NOT NULL REFERENCES threads(id),
  author_id INTEGER REFERENCES employees(id),
  template_id INTEGER REFERENCES templates(id),
  body TEXT NOT NULL,
  sent_at TEXT NOT NULL
);
CREATE INDEX messages_thread ON messages(thread_id);
