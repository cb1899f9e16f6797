"""Seed rows of the training, and helpers that insert courses, sessions and enrolments.

Pools: course_titles (the title of a course for customers, without an article).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.naming import new_title
from rehearsal_room.scenarios.generate.modules.parties.make import some_customer
from rehearsal_room.scenarios.generate.modules.staff.make import new_employee

_TITLES = (
    *("Beginners' afternoon", "First aid basics", "Open workshop", "Seminar for newcomers"),
    *("Evening class", "Question hour", "Family workshop", "Advanced seminar"),
    *("Safety briefing", "Masterclass", "Small group tuition", "Hands-on day"),
)
_GROUPS = (", group B", ", group C", ", group D")  # of courses with the same title


def rows(maker: Maker) -> None:
    """A few courses with sessions ahead."""
    for index in range(2):
        course = new_course(maker)
        teacher = maker.rng.choice(maker.rows("employees", active=1))
        session = new_session(maker, course, maker.rng.randrange(20, 30) + 12 * index, teacher)
        new_enrolment(maker, session, some_customer(maker))


def new_course(maker: Maker, **columns: Any) -> Row:
    """Insert a course with a title that no other has."""
    titles = maker.pool("course_titles", *_TITLES)
    known = {row["title"] for row in maker.rows("courses")}
    free = [title for title in titles if title not in known]
    title = (
        maker.rng.choice(free)
        if free
        else new_title(maker, "courses", "title", maker.rng.choice(titles), first=_GROUPS)
    )
    given = {"title": title, "fee_cents": maker.cents(2_000, 25_000, 500)} | columns
    if "category_id" not in given:
        given["category_id"] = maker.rng.choice(maker.rows("categories"))["id"]
    return maker.insert("courses", **given)


def new_session(
    maker: Maker, course: Row, day: int, teacher: Row | None = None, *, seats: int = 8
) -> Row:
    """Insert a session of a course in so many days; a new employee teaches it unless one is
    given."""
    return maker.insert(
        "course_sessions",
        course_id=course["id"],
        held_on=maker.day(day),
        place=maker.location(),
        teacher_id=(teacher or new_employee(maker))["id"],
        seats=seats,
    )


def new_enrolment(
    maker: Maker, session: Row, customer: Row, status: str = "enrolled", *, days: int = 20
) -> Row:
    """Insert an enrolment that was made so many days ago."""
    return maker.insert(
        "enrolments",
        session_id=session["id"],
        customer_id=customer["id"],
        status=status,
        made_at=maker.ago(days),
    )
