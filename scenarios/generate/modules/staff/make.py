"""Seed rows of the staff, and helpers that insert employees and absences.

Pools: team_names (the name of a team, without an article).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker

RELIEF_TEAM = "Relief crew"  # where employees work whom situations insert
_TEAMS = (
    *("Front desk", "Back office", "Accounts", "Customer service", "Evening team", "Quality"),
    *("Weekend team", "Phone line", "Planning", "Help desk", "Purchasing", "Events"),
)
_KINDS = ("leave", "sick", "travel")
_LIMITS = {"clerk": ("CLERK_LIMIT_CENTS", 1), "supervisor": ("SUPERVISOR_LIMIT_CENTS", 1)}


def rows(maker: Maker) -> None:
    """Teams with their people, the acting one first, and some absences to come."""
    teams = [new_team(maker) for _ in range(maker.many(3, least=2))]
    roles = [maker.one_of("clerk", "clerk", "clerk", "supervisor"), "supervisor", "manager"]
    person = maker.person()
    for index in range(maker.many(8, least=3)):
        role = roles[index] if index < len(roles) else "clerk"
        maker.insert(
            "employees",
            login=person.login,
            name=person.name,
            email=person.email,
            role=role,
            team_id=maker.rng.choice((*teams, teams[0]))["id"],
            limit_cents=_limit(maker, role),
            active=int(index < 3 or not maker.chance(0.12)),
        )
        person = maker.like(person) if maker.is_lookalike() else maker.person()
    maker.me = maker.rows("employees")[0]
    for employee in maker.rows("employees", active=1):
        if maker.chance(0.15):
            begin = maker.rng.randrange(2, 40)
            new_absence(maker, employee, begin, maker.rng.randrange(1, 6), maker.rng.choice(_KINDS))


def _limit(maker: Maker, role: str) -> int:
    """The amount up to which a role decides, in cents."""
    name, times = _LIMITS.get(role, ("SUPERVISOR_LIMIT_CENTS", 10))
    return times * maker.parameters[name]


def some_team(maker: Maker) -> Row:
    """Return a team other than that of the employees whom situations insert."""
    return maker.rng.choice(maker.rows("teams", lambda row: row["name"] != RELIEF_TEAM))


def new_employee(maker: Maker, role: str = "clerk", **columns: Any) -> Row:
    """Insert an active employee, who has no absences, trips, shifts or other duties."""
    person = maker.person()
    if "team_id" not in columns:
        found = maker.rows("teams", name=RELIEF_TEAM)
        team = found[0] if found else None
        if team is None:
            team = maker.insert("teams", name=RELIEF_TEAM, place=maker.location())
        columns["team_id"] = team["id"]
    given = {
        "login": person.login,
        "name": person.name,
        "email": person.email,
        "active": 1,
    } | columns
    return maker.insert("employees", role=role, limit_cents=_limit(maker, role), **given)


def new_absence(maker: Maker, employee: Row, begin: int, days: int = 5, kind: str = "leave") -> Row:
    """Insert an absence of so many days that begins in `begin` days (negative: ago)."""
    return maker.insert(
        "absences",
        employee_id=employee["id"],
        first_day=maker.day(begin),
        last_day=maker.day(begin + days - 1),
        kind=kind,
    )


def new_team(maker: Maker) -> Row:
    """Insert a team without employees, with a name that no other has."""
    known = {row["name"] for row in maker.rows("teams")}
    free = [name for name in maker.pool("team_names", *_TEAMS) if name not in known]
    name = maker.rng.choice(free) if free else f"Team {len(known) + 1}"
    return maker.insert("teams", name=name, place=maker.location())
