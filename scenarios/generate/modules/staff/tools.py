"""Who works here, with which role and limit; who is away."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Day, Id, Limit, Text, _day, _like

CLERK_LIMIT_CENTS = 10_000
SUPERVISOR_LIMIT_CENTS = 100_000
MOST_ABSENT_DAYS = 15
_RANKS = ("clerk", "supervisor", "manager")


def _me(db: Db) -> Row:
    """The acting employee."""
    me = db.one("SELECT * FROM employees WHERE login = ? AND active = 1", db.user.id)
    if me is None:
        raise ToolError(f"{db.user.id!r} is not an active employee.")
    return me


def _require(db: Db, role: Literal["supervisor", "manager"]) -> Row:
    """The acting employee, who must have this role or a higher one."""
    me = _me(db)
    if _RANKS.index(me["role"]) < _RANKS.index(role):
        least = "a manager" if role == "manager" else "a supervisor or a manager"
        raise ToolError(f"Only {least} may do this; your role is {me['role']}.")
    return me


def _employee(db: Db, employee_id: int) -> Row:
    employee = db.one("SELECT * FROM employees WHERE id = ?", employee_id)
    if employee is None:
        raise ToolError(f"There is no employee {employee_id}.")
    return employee


def _active_employee(db: Db, employee_id: int) -> Row:
    employee = _employee(db, employee_id)
    if not employee["active"]:
        raise ToolError(f"Employee {employee_id} has left.")
    return employee


def _team(db: Db, team_id: int) -> Row:
    team = db.one("SELECT * FROM teams WHERE id = ?", team_id)
    if team is None:
        raise ToolError(f"There is no team {team_id}.")
    return team


def get_my_profile(db: Db) -> Row:
    """Show your own record: id, role, team and the limit in hundredths up to which you may
    decide."""
    return _me(db)


def search_employees(db: Db, query: Text, limit: Limit = 20) -> list[Row]:
    """Find employees by a part of their name, login or e-mail address."""
    return db.all(
        "SELECT id, login, name, email, role, team_id, active FROM employees"
        " WHERE name LIKE ?1 ESCAPE '\\' OR login LIKE ?1 ESCAPE '\\' OR email LIKE ?1 ESCAPE '\\'"
        " ORDER BY name, id LIMIT ?2",
        _like(query),
        limit,
    )


def get_employee(db: Db, employee_id: Id) -> Row:
    """Show one employee's record with their absences."""
    employee = _employee(db, employee_id)
    employee["absences"] = db.all(
        "SELECT id, first_day, last_day, kind FROM absences WHERE employee_id = ?"
        " ORDER BY first_day",
        employee_id,
    )
    return employee


def list_teams(db: Db) -> list[Row]:
    """List all teams with their place and the number of active employees."""
    return db.all(
        "SELECT t.id, t.name, t.place, (SELECT count(*) FROM employees e"
        " WHERE e.team_id = t.id AND e.active = 1) AS num_active FROM teams t ORDER BY t.name"
    )


def list_team_members(db: Db, team_id: Id) -> list[Row]:
    """List the active employees of a team by name."""
    _team(db, team_id)
    return db.all(
        "SELECT id, login, name, role, limit_cents FROM employees"
        " WHERE team_id = ? AND active = 1 ORDER BY name, id",
        team_id,
    )


def move_employee(db: Db, employee_id: Id, team_id: Id) -> Row:
    """Move an active employee to another team. For supervisors and managers."""
    _require(db, "supervisor")
    employee = _active_employee(db, employee_id)
    _team(db, team_id)
    if employee["team_id"] == team_id:
        raise ToolError(f"Employee {employee_id} is in team {team_id} already.")
    db.run("UPDATE employees SET team_id = ? WHERE id = ?", team_id, employee_id)
    return _employee(db, employee_id)


def record_absence(
    db: Db,
    employee_id: Id,
    first_day: Day,
    last_day: Day,
    kind: Literal["leave", "sick", "travel"],
) -> Row:
    """Record that an active employee is away from the first to the last day, both included. Spans
    of one employee must not overlap."""
    _active_employee(db, employee_id)
    length = (_day(last_day) - _day(first_day)).days + 1
    if length < 1:
        raise ToolError("The last day lies before the first.")
    if length > MOST_ABSENT_DAYS:
        raise ToolError(f"An absence has {MOST_ABSENT_DAYS} days at most, not {length}.")
    other = db.value(
        "SELECT id FROM absences WHERE employee_id = ? AND first_day <= ? AND last_day >= ?",
        employee_id,
        last_day,
        first_day,
    )
    if other is not None:
        raise ToolError(f"Absence {other} of this employee overlaps.")
    absence_id = db.insert(
        "absences", employee_id=employee_id, first_day=first_day, last_day=last_day, kind=kind
    )
    return {
        "absence_id": absence_id,
        "employee_id": employee_id,
        "first_day": first_day,
        "last_day": last_day,
        "kind": kind,
        "days": length,
    }


def cancel_absence(db: Db, absence_id: Id) -> Row:
    """Delete an absence that has not begun."""
    absence = db.one("SELECT * FROM absences WHERE id = ?", absence_id)
    if absence is None:
        raise ToolError(f"There is no absence {absence_id}.")
    if absence["first_day"] <= db.now[:10]:
        raise ToolError(f"Absence {absence_id} has begun on {absence['first_day']}.")
    db.run("DELETE FROM absences WHERE id = ?", absence_id)
    return absence
