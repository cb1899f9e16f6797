CREATE TABLE projects (
  id INTEGER PRIMARY KEY,
  code TEXT NOT NULL UNIQUE,
  title TEXT NOT NULL UNIQUE,
  customer_id INTEGER NOT NULL REFERENCES customers(id),
  lead_id INTEGER NOT NULL REFERENCES employees(id),
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'closed')),
  due_on TEXT NOT NULL
);
CREATE INDEX projects_customer ON projects(customer_id);

CREATE TABLE tasks (
  id INTEGER PRIMARY KEY,
  project_id INTEGER NOT NULL REFERENCES projects(id),
  title TEXT NOT NULL,
  assignee_id INTEGER NOT NULL REFERENCES employees(id),
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'done')),
  due_on TEXT NOT NULL,
  UNIQUE (project_id, title)
);
CREATE INDEX tasks_assignee ON tasks(assignee_id);

CREATE TABLE time_entries (
  id INTEGER PRIMARY KEY,
  task_id INTEGER NOT NULL REFERENCES tasks(id),
  employee_id INTEGER NOT NULL REFERENCES employees(id),
  worked_on TEXT NOT NULL,
  minutes INTEGER NOT NULL CHECK (minutes > 0),
  UNIQUE (task_id, employee_id, worked_on)
);
