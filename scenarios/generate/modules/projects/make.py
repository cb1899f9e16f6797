"""Seed rows of the projects, and helpers that insert projects, tasks and time entries.

Pools: project_titles (titles of projects for a customer, without a full stop), task_titles (what
is to be done, an imperative without a full stop).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.naming import new_title

_PROJECTS = (
    "Refit of the ground floor",
    "New signs for the entrance",
    "Move to the second floor",
    "Anniversary evening",
    "Digital archive",
    "General overhaul",
    "Extension of the yard",
    "Open day",
)
_TASKS = (
    "Draw up the floor plan",
    "Get three offers",
    "Order the material",
    "Brief the helpers",
    "Test the lighting",
    "Write the handover report",
    "Book the crane",
    "Print the leaflets",
)


def rows(maker: Maker) -> None:
    """A few projects with a task or two."""
    customers = maker.rows("customers", status="active")
    for index in range(maker.many(3, least=1)):
        project = new_project(
            maker,
            maker.rng.choice(customers),
            status="closed" if index % 3 == 2 else "active",
            due=-20 if index % 3 == 2 else maker.rng.randrange(30, 100),
        )
        done = project["status"] == "closed"
        task = new_task(
            maker,
            project,
            assignee=maker.pick("employees", active=1),
            status="done" if done else "open",
            due=-25 if done else 20,
        )
        if done:
            worker = maker.get("employees", task["assignee_id"])
            new_entry(maker, task, worker, minutes=maker.rng.randrange(60, 240, 15), days=30)


def project_titles(maker: Maker, count: int) -> list[str]:
    """Return this many different titles that no project has yet, in the trade's words."""
    known = {row["title"] for row in maker.rows("projects")}
    pool = [one for one in maker.pool("project_titles", *_PROJECTS) if one not in known]
    if len(pool) < count:
        pool = list(dict.fromkeys((*pool, *(one for one in _PROJECTS if one not in known))))
    if len(pool) < count:
        pool += [f"{one}, second phase" for one in _PROJECTS]
    return maker.rng.sample(pool, k=count)


def task_titles(maker: Maker, count: int) -> list[str]:
    """Return this many different titles of tasks, as imperatives, in the trade's words."""
    pool = maker.pool("task_titles", *_TASKS)
    texts = pool if len(pool) >= count else tuple(dict.fromkeys((*pool, *_TASKS)))
    return maker.rng.sample(texts, k=count)


def new_project(
    maker: Maker,
    customer: Row,
    *,
    title: str | None = None,
    lead: Row | None = None,
    due: int = 60,
    status: str = "active",
) -> Row:
    """Insert a project for a customer, due in `due` days, and return it."""
    return maker.insert(
        "projects",
        code=new_code(maker, "projects", "code", "PR", 5),
        title=new_title(maker, "projects", "title", title or project_titles(maker, 1)[0]),
        customer_id=customer["id"],
        lead_id=(lead or maker.rng.choice(maker.rows("employees", active=1)))["id"],
        status=status,
        due_on=maker.day(due),
    )


def new_task(
    maker: Maker,
    project: Row,
    title: str | None = None,
    *,
    assignee: Row | None = None,
    due: int = 20,
    status: str = "open",
) -> Row:
    """Insert a task of a project, due in `due` days; it is the lead's unless an assignee is
    given."""
    return maker.insert(
        "tasks",
        project_id=project["id"],
        title=title or task_titles(maker, 1)[0],
        assignee_id=project["lead_id"] if assignee is None else assignee["id"],
        status=status,
        due_on=maker.day(due),
    )


def new_entry(maker: Maker, task: Row, worker: Row, *, minutes: int, days: int) -> Row:
    """Insert the time that somebody worked on a task `days` days ago."""
    return maker.insert(
        "time_entries",
        task_id=task["id"],
        employee_id=worker["id"],
        worked_on=maker.day(-days),
        minutes=minutes,
    )


def open_tasks(maker: Maker, employee: Row) -> list[Row]:
    """Return the open tasks of an employee. Call it late: other situations give tasks too."""
    return maker.rows("tasks", assignee_id=employee["id"], status="open")


def with_task_room(maker: Maker, room: int, *without: Row, **equal: Any) -> Row | None:
    """Return an active colleague, none of these, who may take so many more tasks. Call it late."""
    most = maker.parameters["MOST_OPEN_TASKS"]
    barred = {maker.me["id"], *(row["id"] for row in without)}
    return maker.pick(
        "employees",
        lambda row: row["id"] not in barred and len(open_tasks(maker, row)) + room <= most,
        active=1,
        **equal,
    )
