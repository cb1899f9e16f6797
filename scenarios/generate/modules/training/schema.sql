CREATE TABLE courses (
  id INTEGER PRIMARY KEY,
  title TEXT NOT NULL UNIQUE,
  category_id INTEGER NOT NULL REFERENCES categories(id),
  fee_cents INTEGER NOT NULL CHECK (fee_cents >= 0)
);

CREATE TABLE course_sessions (
  id INTEGER PRIMARY KEY,
  course_id INTEGER NOT NULL REFERENCES courses(id),
  held_on TEXT NOT NULL,
  place TEXT NOT NULL,
  teacher_id INTEGER NOT NULL REFERENCES employees(id),
  seats INTEGER NOT NULL CHECK (seats > 0),
  UNIQUE (course_id, held_on)
);

CREATE TABLE enrolments (
  id INTEGER PRIMARY KEY,
  session_id INTEGER NOT NULL REFERENCES course_sessions(id),
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  status TEXT NOT NULL CHECK (status IN ('enrolled', 'waiting', 'cancelled')),
  made_at TEXT NOT NULL
);
CREATE INDEX enrolments_session ON enrolments(session_id);
CREATE INDEX enrolments_customer ON enrolments(customer_id);
