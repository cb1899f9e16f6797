"""The projects: what is to be done in them, who does it, how long it takes."""

from typing import Annotated, Literal

import msgspec

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Day, Id, Limit, Text, _day, _like
from rehearsal_room.scenarios.generate.modules.staff.tools import _active_employee, _me, _require

MOST_ENTRY_MINUTES = 480
MOST_OPEN_TASKS = 5
ENTRY_BACK_DAYS = 10
ProjectStatus = Literal["active", "closed"]
TaskStatus = Literal["open", "done"]
WorkMinutes = Annotated[int, msgspec.Meta(ge=1, le=1_440)]


def _project(db: Db, project_id: int) -> Row:
    project = db.one("SELECT * FROM projects WHERE id = ?", project_id)
    if project is None:
        raise ToolError(f"There is no project {project_id}.")
    return project


def _active_project(db: Db, project_id: int) -> Row:
    project = _project(db, project_id)
    if project["status"] != "active":
        raise ToolError(f"Project {project_id} is {project['status']}.")
    return project


def _task(db: Db, task_id: int) -> Row:
    task = db.one("SELECT * FROM tasks WHERE id = ?", task_id)
    if task is None:
        raise ToolError(f"There is no task {task_id}.")
    return task


def _open_task(db: Db, task_id: int) -> Row:
    """A task that is open, in a project that is active."""
    task = _task(db, task_id)
    if task["status"] != "open":
        raise ToolError(f"Task {task_id} is {task['status']}.")
    _active_project(db, task["project_id"])
    return task


def _check_room_for_task(db: Db, employee_id: int) -> None:
    """Refuse an employee who has left or has as many open tasks as one may have."""
    _active_employee(db, employee_id)
    num_open = db.value(
        "SELECT count(*) FROM tasks WHERE assignee_id = ? AND status = 'open'", employee_id
    )
    if num_open >= MOST_OPEN_TASKS:
        raise ToolError(f"Employee {employee_id} has {num_open} open tasks already.")


def search_projects(
    db: Db, query: Text, status: ProjectStatus | None = None, limit: Limit = 20
) -> list[Row]:
    """Find projects by a part of their code, their title or the customer's name, of one status if
    given."""
    return db.all(
        "SELECT p.id, p.code, p.title, c.name AS customer, p.status, p.due_on FROM projects p JOIN "
        "customers c ON c.id = p.customer_id WHERE (p.code LIKE ?1 ESCAPE '\\' OR p.title LIKE ?1 "
        "ESCAPE '\\' OR c.name LIKE ?1 ESCAPE '\\') AND (?2 IS NULL OR p.status = ?2) ORDER BY "
        "p.code LIMIT ?3",
        _like(query),
        status,
        limit,
    )


def get_project(db: Db, project_id: Id) -> Row:
    """Show one project with its tasks and the minutes worked on each."""
    project = _project(db, project_id)
    project["tasks"] = db.all(
        "SELECT t.id, t.title, t.assignee_id, t.status, t.due_on, (SELECT coalesce(sum(e.minutes), "
        "0) FROM time_entries e WHERE e.task_id = t.id) AS minutes FROM tasks t WHERE t.project_id "
        "= ? ORDER BY t.id",
        project_id,
    )
    return project


def find_tasks(
    db: Db,
    assignee_id: Id | None = None,
    project_id: Id | None = None,
    status: TaskStatus | None = None,
    limit: Limit = 20,
) -> list[Row]:
    """Find tasks by assignee, by project, by status, or by any of these together. Without any of
    them all tasks are listed. The one due first comes first."""
    return db.all(
        "SELECT t.id, t.project_id, p.title AS project, t.title, t.assignee_id, t.status, t.due_on "
        "FROM tasks t JOIN projects p ON p.id = t.project_id WHERE (?1 IS NULL OR t.assignee_id = "
        "?1) AND (?2 IS NULL OR t.project_id = ?2) AND (?3 IS NULL OR t.status = ?3) ORDER BY "
        "t.due_on, t.id LIMIT ?4",
        assignee_id,
        project_id,
        status,
        limit,
    )


def list_time_entries(db: Db, task_id: Id, limit: Limit = 20) -> list[Row]:
    """List the time entries of a task with who worked, the latest first."""
    _task(db, task_id)
    return db.all(
        "SELECT e.id, e.worked_on, e.minutes, e.employee_id, w.name AS worker FROM time_entries e "
        "JOIN employees w ON w.id = e.employee_id WHERE e.task_id = ? ORDER BY e.worked_on DESC, "
        "e.id DESC LIMIT ?",
        task_id,
        limit,
    )


def add_task(db: Db, project_id: Id, title: Text, assignee_id: Id, due_on: Day) -> Row:
    """Add a task to an active project, for an active employee. It is due after today and not after
    the project itself."""
    project = _active_project(db, project_id)
    _check_room_for_task(db, assignee_id)
    day = _day(due_on).isoformat()
    if not db.now[:10] < day <= project["due_on"]:
        raise ToolError(f"The day must lie between today and {project['due_on']}.")
    known = db.value(
        "SELECT id FROM tasks WHERE project_id = ? AND title = ?", project_id, title.strip()
    )
    if known is not None:
        raise ToolError(f"Task {known} of the project has this title already.")
    task_id = db.insert(
        "tasks", project_id=project_id, title=title.strip(), assignee_id=assignee_id, due_on=day
    )
    row = _task(db, task_id)
    return {"task_id": row.pop("id"), **row}


def assign_task(db: Db, task_id: Id, employee_id: Id) -> Row:
    """Give an open task to another active employee."""
    task = _open_task(db, task_id)
    if task["assignee_id"] == employee_id:
        raise ToolError(f"Employee {employee_id} has this task already.")
    _check_room_for_task(db, employee_id)
    db.run("UPDATE tasks SET assignee_id = ? WHERE id = ?", employee_id, task_id)
    return _task(db, task_id)


def finish_task(db: Db, task_id: Id) -> Row:
    """Mark an open task as done. Time must have been entered for it."""
    _open_task(db, task_id)
    if db.value("SELECT id FROM time_entries WHERE task_id = ?", task_id) is None:
        raise ToolError(f"No time was entered for task {task_id}.")
    db.run("UPDATE tasks SET status = 'done' WHERE id = ?", task_id)
    return _task(db, task_id)


def log_time(db: Db, task_id: Id, minutes: WorkMinutes, worked_on: Day) -> Row:
    """Enter the minutes that you yourself worked on an open task on a day that is not to come. One
    entry a task and day."""
    _open_task(db, task_id)
    day = _day(worked_on).isoformat()
    if day > db.now[:10]:
        raise ToolError(f"{day} is still to come.")
    if minutes > MOST_ENTRY_MINUTES:
        raise ToolError(f"An entry has {MOST_ENTRY_MINUTES} minutes at most.")
    me = _me(db)["id"]
    known = db.value(
        "SELECT id FROM time_entries WHERE task_id = ? AND employee_id = ? AND worked_on = ?",
        task_id,
        me,
        day,
    )
    if known is not None:
        raise ToolError(f"Entry {known} is yours, of the same task and day.")
    entry_id = db.insert(
        "time_entries", task_id=task_id, employee_id=me, worked_on=day, minutes=minutes
    )
    return {
        "entry_id": entry_id,
        "task_id": task_id,
        "employee_id": me,
        "worked_on": day,
        "minutes": minutes,
    }


def extend_project(db: Db, project_id: Id, due_on: Day) -> Row:
    """Give an active project a later due day. Only supervisors and managers may do this."""
    _require(db, "supervisor")
    project = _active_project(db, project_id)
    day = _day(due_on).isoformat()
    if day <= project["due_on"]:
        raise ToolError(f"Project {project_id} is due on {project['due_on']} already.")
    db.run("UPDATE projects SET due_on = ? WHERE id = ?", day, project_id)
    return _project(db, project_id)
