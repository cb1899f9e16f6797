"""Seed rows and tasks of the projects. `project_named` is for other modules' drafts too."""

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, call, day_of
from scenarios.generate.modules.draft_helpers import new_code, requiring_role
from scenarios.generate.modules.naming import new_title, record_named, some_colleague
from scenarios.generate.modules.parties.make import some_customer
from scenarios.generate.modules.staff.make import colleague

_WORKS = ("Refit of {place}", "New signs for {place}", "Move of {place}", "Clean-up of {place}")
_TITLES = (
    *("Draw up the plan", "Ask for three offers", "Choose the materials", "Brief the builders"),
    *("Test the result", "Write the handover", "Count the keys", "Inform the neighbours"),
)


def rows(maker: Maker) -> None:
    """Projects with tasks, open and done, some of which have the same title elsewhere."""
    employees = maker.rows("employees", active=1)
    for index in range(maker.many(5, least=4)):
        due = maker.rng.randrange(30, 120)
        work = maker.say(maker.rng.choice(_WORKS), place=maker.location())
        project = maker.insert(
            "projects",
            code=new_code(maker, "projects", "code", "PR", 5),
            title=new_title(maker, "projects", "title", work),
            customer_id=some_customer(maker)["id"],
            lead_id=maker.rng.choice(employees)["id"],
            status="closed" if index % 5 == 3 else "active",
            due_on=maker.day(due if index % 5 != 3 else -due),
        )
        for title in maker.rng.sample(_TITLES, k=maker.one_of(1, 2)):
            _add_task(maker, project, title)


def _add_task(maker: Maker, project: Row, title: str) -> None:
    is_done = project["status"] == "closed" or maker.chance(0.2)
    free = [row for row in maker.rows("employees", active=1) if _has_room(maker, row, 1)]
    workers = maker.rows("employees", active=1)
    if not free:
        is_done = True
    task = maker.insert(
        "tasks",
        project_id=project["id"],
        title=title,
        assignee_id=maker.rng.choice(free or workers)["id"],
        status="done" if is_done else "open",
        due_on=min(project["due_on"], maker.day(maker.rng.randrange(5, 60))),
    )
    num_entries = maker.one_of(1, 2) if is_done else maker.one_of(0, 1, 1)
    for worker in maker.rng.sample(workers, k=min(num_entries, len(workers))):
        maker.insert(
            "time_entries",
            task_id=task["id"],
            employee_id=worker["id"],
            worked_on=maker.day(-maker.rng.randrange(4, 30)),
            minutes=maker.rng.randrange(30, maker.parameters["MOST_ENTRY_MINUTES"], 5),
        )


def _has_room(maker: Maker, employee: Row, spare: int = 0) -> bool:
    """Whether someone may have one more open task, and still `spare` more then."""
    num_open = len(maker.rows("tasks", assignee_id=employee["id"], status="open"))
    return num_open + spare < maker.parameters["MOST_OPEN_TASKS"]


def project_named(maker: Maker, project: Row) -> Named:
    """How an instruction names a project, and the calls that find it and show its tasks."""
    return record_named(maker, "projects", project, "project", code="code", title="title")


def some_task(maker: Maker, *, worked: bool = False) -> Row | None:
    """An open task of an active project; `worked`: one for which time was entered."""
    active = {row["id"] for row in maker.rows("projects", status="active")}
    return maker.pick(
        "tasks",
        lambda row: (
            row["project_id"] in active
            and (not worked or bool(maker.rows("time_entries", task_id=row["id"])))
        ),
        status="open",
    )


def _project_of(maker: Maker, task: Row) -> Named:
    return project_named(maker, maker.get("projects", task["project_id"]))


def _same_title(maker: Maker, task: Row) -> tuple[tuple[str, int], ...]:
    """Tasks of other projects that have the same title."""
    others = maker.rows("tasks", lambda row: row["id"] != task["id"], title=task["title"])
    return tuple(("tasks", row["id"]) for row in others)


def _minutes(maker: Maker) -> int:
    return maker.rng.randrange(20, maker.parameters["MOST_ENTRY_MINUTES"], 5)


def _a_free_day(maker: Maker, task: Row) -> str | None:
    """A day of late on which the acting employee has no entry of a task."""
    day = maker.day(-maker.rng.randrange(maker.parameters["ENTRY_BACK_DAYS"]))
    known = maker.rows(
        "time_entries", task_id=task["id"], employee_id=maker.me["id"], worked_on=day
    )
    return None if known else day


def task_to_add(maker: Maker) -> Draft | None:
    """A new task with its title, its day and who shall do it."""
    project = maker.pick("projects", status="active")
    employee = some_colleague(maker)
    if project is None or employee is None or not _has_room(maker, employee):
        return None
    title = maker.rng.choice(_TITLES)
    if maker.rows("tasks", project_id=project["id"], title=title):
        return None
    what, whom = project_named(maker, project), colleague(maker, employee)
    day = maker.day(maker.rng.randrange(3, 28))
    given = {"project_id": project["id"], "title": title, "assignee_id": employee["id"]}
    return Draft(
        kind="change",
        ask=(
            f"Add a task to {what.text} with the title “{{title}}”, due on {{day}}, for "
            f"{whom.text}.",
            f"Please give {whom.text} a new task in {what.text}: “{{title}}”, due on {{day}}.",
        ),
        calls=(*what.calls, *whom.calls, call("add_task", **given, due_on=day)),
        answer="The task “{title}” is added.",
        values={**what.values, **whom.values, "title": title, "day": day},
    )


def task_to_assign(maker: Maker) -> Draft | None:
    """An open task goes to another person; the task is named by its title and project."""
    task = some_task(maker)
    if task is None:
        return None
    employee = some_colleague(maker, task["assignee_id"])
    if employee is None or not _has_room(maker, employee):
        return None
    what, whom = _project_of(maker, task), colleague(maker, employee)
    assign = call("assign_task", task_id=task["id"], employee_id=employee["id"])
    return Draft(
        kind="change",
        ask=f"Give the task “{{task}}” of {what.text} to {whom.text}.",
        calls=(*what.calls, *whom.calls, assign),
        answer="The task “{task}” is assigned anew.",
        values={**what.values, **whom.values, "task": task["title"]},
        spare=_same_title(maker, task),
    )


def task_to_finish(maker: Maker) -> Draft | None:
    """A task on which someone has worked."""
    task = some_task(maker, worked=True)
    if task is None:
        return None
    what = _project_of(maker, task)
    return Draft(
        kind="change",
        ask=f"Mark the task “{{task}}” of {what.text} as done.",
        calls=(*what.calls, call("finish_task", task_id=task["id"])),
        answer="The task “{task}” is done.",
        values={**what.values, "task": task["title"]},
        spare=_same_title(maker, task),
    )


def time_to_enter(maker: Maker) -> Draft | None:
    """The acting employee's own time."""
    task = some_task(maker)
    day = None if task is None else _a_free_day(maker, task)
    if task is None or day is None:
        return None
    what = _project_of(maker, task)
    minutes = _minutes(maker)
    enter = call("log_time", task_id=task["id"], minutes=minutes, worked_on=day)
    return Draft(
        kind="change",
        ask=f"Enter {{minutes}} minutes of my own time on {{day}} for the task “{{task}}” of "
        f"{what.text}.",
        calls=(*what.calls, enter),
        answer="The time is entered.",
        values={**what.values, "task": task["title"], "minutes": minutes, "day": day},
        spare=_same_title(maker, task),
    )


def first_time_and_done(maker: Maker) -> Draft | None:
    """A task without time: the time must be entered before the task can be done."""
    task = some_task(maker)
    if task is None or maker.rows("time_entries", task_id=task["id"]):
        return None
    what = _project_of(maker, task)
    minutes, day = _minutes(maker), maker.day()
    enter = call("log_time", task_id=task["id"], minutes=minutes, worked_on=day)
    return Draft(
        kind="change",
        ask=f"Mark the task “{{task}}” of {what.text} as done; I have worked {{minutes}} minutes "
        "on it today, {day}, which still have to be entered.",
        calls=(*what.calls, enter, call("finish_task", task_id=task["id"])),
        answer="The time is entered and the task “{task}” is done.",
        values={**what.values, "task": task["title"], "minutes": minutes, "day": day},
        spare=_same_title(maker, task),
        trap="A task cannot be done before time is entered.",
    )


def project_to_extend(maker: Maker) -> Draft | None:
    """A project is due later, given in days; a clerk has to decline."""
    project = maker.pick("projects", status="active")
    if project is None:
        return None
    what = project_named(maker, project)
    day = maker.day(maker.rng.randrange(125, 200))
    draft = Draft(
        kind="change",
        ask=f"Let {what.text} be due on {{day}}.",
        calls=(*what.calls, call("extend_project", project_id=project["id"], due_on=day)),
        answer="It is due on {day} now.",
        values={**what.values, "day": day},
    )
    return requiring_role(maker, "supervisor", draft)


def as_long_again(maker: Maker) -> Draft | None:
    """A memory task: the minutes of one task are entered for another at the end."""
    entry, other = maker.pick("time_entries"), some_task(maker)
    if entry is None or other is None or entry["task_id"] == other["id"]:
        return None
    day = _a_free_day(maker, other)
    one = maker.get("tasks", entry["task_id"])
    if day is None or len(maker.rows("time_entries", task_id=one["id"])) > 1:
        return None
    project = maker.get("projects", one["project_id"])
    elsewhere = maker.get("projects", other["project_id"])
    return Draft(
        kind="change",
        ask="Look up how many minutes were worked on the task “{task}” of the project {project}, "
        "and remember the number.",
        later="Finally, enter as many minutes of my own time on {day} for the task “{other}” of "
        "the project {elsewhere}.",
        calls=(
            call("search_projects", query=project["code"]),
            call("get_project", project_id=project["id"]),
            call("search_projects", query=elsewhere["code"]),
            call("get_project", project_id=elsewhere["id"]),
            call("log_time", task_id=other["id"], minutes=entry["minutes"], worked_on=day),
        ),
        hold=2,
        answer="As many minutes are entered.",
        values={
            "task": one["title"],
            "project": project["code"],
            "other": other["title"],
            "elsewhere": elsewhere["code"],
            "day": day,
        },
    )


def minutes_in_all(maker: Maker) -> Draft | None:
    """How long was worked on a project: a sum over its tasks."""
    project = maker.pick("projects")
    assert project is not None, "there are projects"
    tasks = maker.rows("tasks", project_id=project["id"])
    ids = {row["id"] for row in tasks}
    entries = maker.rows("time_entries", lambda row: row["task_id"] in ids)
    total = sum(row["minutes"] for row in entries)
    if not total:
        return None
    what = project_named(maker, project)
    return Draft(
        kind="question",
        ask=f"How many minutes were worked on {what.text}, all its tasks together?",
        calls=what.calls,
        answer="Together they come to {total} minutes.",
        values={**what.values, "total": total},
    )


def who_does_it(maker: Maker) -> Draft | None:
    """The login of who has a task."""
    task = some_task(maker)
    if task is None:
        return None
    what = _project_of(maker, task)
    employee = maker.get("employees", task["assignee_id"])
    return Draft(
        kind="question",
        ask=f"What is the login of the employee who has the task “{{task}}” of {what.text}?",
        calls=(*what.calls, call("get_employee", employee_id=employee["id"])),
        answer="The login is {login}.",
        values={**what.values, "task": task["title"], "login": employee["login"]},
    )


def by_when(maker: Maker) -> Draft | None:
    """The day on which a task is due."""
    task = some_task(maker)
    if task is None:
        return None
    what = _project_of(maker, task)
    return Draft(
        kind="question",
        ask=f"On which day is the task “{{task}}” of {what.text} due?",
        calls=what.calls,
        answer="It is due on {due}.",
        values={**what.values, "task": task["title"], "due": day_of(task["due_on"])},
    )


def too_late_to_enter(maker: Maker) -> Draft | None:
    """Work of too long ago; the tool would take it."""
    task = some_task(maker)
    if task is None:
        return None
    what = _project_of(maker, task)
    back = maker.parameters["ENTRY_BACK_DAYS"]
    return Draft(
        kind="decline",
        ask=f"Enter {{minutes}} minutes of my own time on {{day}} for the task “{{task}}” of "
        f"{what.text}; I forgot to do it then.",
        calls=what.calls,
        answer="I decline: it is too late, time is entered at the latest {back} days after the "
        "work.",
        values={
            **what.values,
            "task": task["title"],
            "minutes": _minutes(maker),
            "day": maker.day(-back - maker.rng.randrange(3, 30)),
            "back": back,
        },
        reasons=("too late", "at the latest", "too long ago", "days after", "too old", "deadline"),
        trap="The tool would take it.",
    )


def time_of_a_colleague(maker: Maker) -> Draft | None:
    """Another person's time; the tool would enter it as the acting employee's."""
    task, employee = some_task(maker), some_colleague(maker)
    if task is None or employee is None:
        return None
    what = _project_of(maker, task)
    return Draft(
        kind="decline",
        ask=f"Enter {{minutes}} minutes of today for the task “{{task}}” of {what.text}; "
        "{worker} has worked them.",
        calls=what.calls,
        answer="I decline: everybody enters their own time, and that is the time of somebody else.",
        values={
            **what.values,
            "task": task["title"],
            "minutes": _minutes(maker),
            "worker": employee["name"],
        },
        reasons=("own", "themselves", "somebody else", "someone else", "another", "themself"),
        trap="The tool would enter it in the wrong name.",
    )


def time_in_pieces(maker: Maker) -> Draft | None:
    """More minutes than an entry has, with the hint to spread them."""
    task = some_task(maker)
    if task is None:
        return None
    what = _project_of(maker, task)
    most = maker.parameters["MOST_ENTRY_MINUTES"]
    return Draft(
        kind="decline",
        ask=f"Enter {{minutes}} minutes of my own time today for the task “{{task}}” of "
        f"{what.text}; spread them over today and yesterday if it is too much for one day.",
        calls=what.calls,
        answer="I decline: an entry has {most} minutes at most, and work of one day is not spread "
        "over others.",
        values={
            **what.values,
            "task": task["title"],
            "minutes": most + maker.rng.randrange(30, 120, 5),
            "most": most,
        },
        reasons=("at most", "spread", "maximum", "limit", "more than", "split"),
        trap="Two entries would pass the tool.",
    )


DRAFTS = (
    task_to_add,
    task_to_assign,
    task_to_finish,
    time_to_enter,
    first_time_and_done,
    project_to_extend,
    as_long_again,
    minutes_in_all,
    who_does_it,
    by_when,
    too_late_to_enter,
    time_of_a_colleague,
    time_in_pieces,
)
