"""Seed rows and tasks of the training. `session_found` is for other modules' drafts too."""

from datetime import date

from scenarios.api import Row
from scenarios.format import Call
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, call, day_of
from scenarios.generate.modules.draft_helpers import requiring_role, with_lookups
from scenarios.generate.modules.naming import new_title, some_colleague
from scenarios.generate.modules.parties.make import customer_named, lookalikes, some_customer
from scenarios.generate.modules.staff.make import colleague

_COURSES = (
    *("First steps in {category}", "{category} for experts", "Safety in {category}"),
    *("{category} in one day", "Care and repair of {category}"),
)


def rows(maker: Maker) -> None:
    """Courses with sessions soon and later, of which one is full and has people who wait."""
    for index in range(maker.many(3, least=3)):
        category = maker.pick("categories")
        assert category is not None, "there are categories"
        title = maker.say(maker.rng.choice(_COURSES), category=category["name"])
        course = maker.insert(
            "courses",
            title=new_title(maker, "courses", "title", title),
            category_id=category["id"],
            fee_cents=maker.cents(2_000, 25_000, 500),
        )
        soon = maker.rng.randrange(1, maker.parameters["ENROLMENT_NOTICE_DAYS"])
        days = [*sorted(maker.rng.sample(range(12, 60), k=2)), *((soon,) if index % 2 else ())]
        for position, day in enumerate(days):
            _add_session(maker, course, day, is_full=not position and index % 3 == 0)


def _add_session(maker: Maker, course: Row, day: int, *, is_full: bool) -> None:
    held_on = maker.day(day)
    employees = maker.rows("employees", active=1)
    free = [row for row in employees if _is_free(maker, row, held_on)] or employees
    session = maker.insert(
        "course_sessions",
        course_id=course["id"],
        held_on=held_on,
        place=maker.location(),
        teacher_id=maker.rng.choice(free)["id"],
        seats=maker.rng.randrange(1, 3) if is_full else maker.rng.randrange(5, 10),
    )
    num = session["seats"] + 1 if is_full else maker.one_of(1, 1, 2)
    for number in range(num):
        customer = some_customer(maker)
        if maker.rows("enrolments", session_id=session["id"], customer_id=customer["id"]):
            continue
        if _num_ahead(maker, customer) >= maker.parameters["MOST_ENROLMENTS_AHEAD"] - 1:
            continue
        enrolled = maker.rows("enrolments", session_id=session["id"], status="enrolled")
        maker.insert(
            "enrolments",
            session_id=session["id"],
            customer_id=customer["id"],
            status="enrolled" if len(enrolled) < session["seats"] else "waiting",
            made_at=maker.ago(30 - number),
        )


def _is_free(maker: Maker, employee: Row, day: str) -> bool:
    return not maker.rows("course_sessions", teacher_id=employee["id"], held_on=day)


def _num_ahead(maker: Maker, customer: Row) -> int:
    return len(_standing(maker, customer_id=customer["id"]))


def _standing(maker: Maker, **equal: int) -> list[Row]:
    return maker.rows("enrolments", lambda row: row["status"] != "cancelled", **equal)


def _num_free(maker: Maker, session: Row) -> int:
    enrolled = maker.rows("enrolments", session_id=session["id"], status="enrolled")
    return int(session["seats"] - len(enrolled))


def _days_left(maker: Maker, session: Row) -> int:
    return (date.fromisoformat(session["held_on"]) - date.fromisoformat(maker.day())).days


def _in_time(maker: Maker, session: Row) -> bool:
    return _days_left(maker, session) >= maker.parameters["ENROLMENT_NOTICE_DAYS"]


def _session_values(maker: Maker, session: Row) -> dict[str, str]:
    """The values `course` and `day` by which a session is named."""
    course = maker.get("courses", session["course_id"])
    return {"course": course["title"], "day": session["held_on"]}


def session_found(session: Row) -> tuple[Call, ...]:
    """The calls that find a session by its course's title and its day."""
    return call("list_courses"), call("list_sessions", course_id=session["course_id"])


def _list(customer: Row) -> Call:
    return call("list_enrolments", customer_id=customer["id"])


def _some_session(maker: Maker, *, free: bool | None = None) -> Row | None:
    """A session; `free`: with or without a free seat."""
    return maker.pick(
        "course_sessions", lambda row: free is None or (_num_free(maker, row) > 0) == free
    )


def _some_enrolment(maker: Maker, *, in_time: bool = True) -> tuple[Row, Row, Row] | None:
    """An enrolment with its session and its customer."""
    enrolment = maker.pick(
        "enrolments",
        lambda row: (
            row["status"] != "cancelled"
            and _in_time(maker, maker.get("course_sessions", row["session_id"])) == in_time
        ),
    )
    if enrolment is None:
        return None
    session = maker.get("course_sessions", enrolment["session_id"])
    return enrolment, session, maker.get("customers", enrolment["customer_id"])


def _may_enrol(maker: Maker, customer: Row, session: Row) -> bool:
    most = maker.parameters["MOST_ENROLMENTS_AHEAD"]
    known = maker.rows("enrolments", session_id=session["id"], customer_id=customer["id"])
    return not known and _num_ahead(maker, customer) < most


def enrolment_to_add(maker: Maker) -> Draft | None:
    """Someone takes part, or waits: the tool reports which."""
    session, customer = _some_session(maker), some_customer(maker)
    if session is None or not _may_enrol(maker, customer, session):
        return None
    who = customer_named(maker, customer)
    add = call("add_enrolment", session_id=session["id"], customer_id=customer["id"])
    return Draft(
        kind="change",
        ask=f"Make an enrolment for {who.text}: the course “{{course}}” on {{day}}. Waiting for a "
        "seat is all right, should there be none.",
        calls=(*who.calls, *session_found(session), add),
        answer="The enrolment is made.",
        values={**who.values, **_session_values(maker, session)},
        spare=lookalikes(maker, customer),
    )


def first_free_seat(maker: Maker) -> Draft | None:
    """The first session of a course that has a free seat: it must be found by comparing."""
    course, customer = maker.pick("courses"), some_customer(maker)
    assert course is not None, "there are courses"
    free = maker.rows("course_sessions", lambda row: _num_free(maker, row) > 0)
    sessions = [row for row in free if row["course_id"] == course["id"]]
    if not sessions:
        return None
    session = min(sessions, key=lambda row: str(row["held_on"]))
    if not _may_enrol(maker, customer, session):
        return None
    who = customer_named(maker, customer)
    add = call("add_enrolment", session_id=session["id"], customer_id=customer["id"])
    return Draft(
        kind="change",
        ask=f"Make an enrolment for {who.text}: the first session of the course “{{course}}” that "
        "has a free seat.",
        calls=(*who.calls, *session_found(session), add),
        answer="The enrolment for {day} is made.",
        values={**who.values, **_session_values(maker, session)},
        spare=lookalikes(maker, customer),
        trap="A session before that one may be full.",
    )


def enrolment_to_cancel(maker: Maker) -> Draft | None:
    """In time; someone who waits may move up by it."""
    found = _some_enrolment(maker)
    if found is None:
        return None
    enrolment, session, customer = found
    who = customer_named(maker, customer)
    return Draft(
        kind="change",
        ask=f"Cancel the enrolment of {who.text} for the course “{{course}}” on {{day}}, as they "
        "wish.",
        calls=(
            *who.calls,
            _list(customer),
            call("cancel_enrolment", enrolment_id=enrolment["id"]),
        ),
        answer="The enrolment is cancelled.",
        values={**who.values, **_session_values(maker, session)},
        spare=lookalikes(maker, customer),
    )


def enrolment_to_move(maker: Maker) -> Draft | None:
    """To another day of the same course."""
    found = _some_enrolment(maker)
    if found is None:
        return None
    enrolment, session, customer = found
    other = maker.pick(
        "course_sessions",
        lambda row: (
            row["id"] != session["id"]
            and _num_free(maker, row) > 0
            and not maker.rows("enrolments", session_id=row["id"], customer_id=customer["id"])
        ),
        course_id=session["course_id"],
    )
    if other is None:
        return None
    who = customer_named(maker, customer)
    move = call("move_enrolment", enrolment_id=enrolment["id"], session_id=other["id"])
    lookup = call("list_sessions", course_id=session["course_id"])
    return Draft(
        kind="change",
        ask=f"Move the enrolment of {who.text} for the course “{{course}}” from {{day}} to "
        "{other}, as they wish.",
        calls=(*who.calls, _list(customer), lookup, move),
        answer="The enrolment is moved to {other}.",
        values={**who.values, **_session_values(maker, session), "other": other["held_on"]},
        spare=lookalikes(maker, customer),
    )


def other_teacher(maker: Maker) -> Draft | None:
    """Another person teaches a session."""
    session = _some_session(maker)
    employee = None if session is None else some_colleague(maker, session["teacher_id"])
    if session is None or employee is None or not _is_free(maker, employee, session["held_on"]):
        return None
    whom = colleague(maker, employee)
    change = call("change_teacher", session_id=session["id"], employee_id=employee["id"])
    return Draft(
        kind="change",
        ask=f"Let {whom.text} teach the session of the course “{{course}}” on {{day}}.",
        calls=(*whom.calls, *session_found(session), change),
        answer="It has another teacher.",
        values={**whom.values, **_session_values(maker, session)},
    )


def more_seats(maker: Maker) -> Draft | None:
    """A session gets more seats; those who wait move up. A clerk has to decline."""
    session = _some_session(maker)
    if session is None:
        return None
    more = maker.one_of(1, 2, 3)
    seats = session["seats"] + more
    if seats > maker.parameters["MOST_SESSION_SEATS"]:
        return None
    draft = Draft(
        kind="change",
        ask="Enlarge the session of the course “{course}” on {day} by {more}.",
        calls=(
            *session_found(session),
            call("set_session_seats", session_id=session["id"], seats=seats),
        ),
        answer="The session has {seats} seats now.",
        values={
            **_session_values(maker, session),
            "more": f"{more} {'seat' if more == 1 else 'seats'}",
            "seats": seats,
        },
        trap="The new number is the present one and so many more.",
    )
    return requiring_role(maker, "supervisor", draft)


def same_teacher(maker: Maker) -> Draft | None:
    """A memory task: who teaches here teaches there as well."""
    known, session = _some_session(maker), _some_session(maker)
    if known is None or session is None or known["id"] == session["id"]:
        return None
    teacher = maker.get("employees", known["teacher_id"])
    if known["teacher_id"] == session["teacher_id"]:
        return None
    if not _is_free(maker, teacher, session["held_on"]):
        return None
    one, other = _session_values(maker, known), _session_values(maker, session)
    change = call("change_teacher", session_id=session["id"], employee_id=teacher["id"])
    return Draft(
        kind="change",
        ask="Look up who teaches the session of the course “{course}” on {day}, and remember it.",
        later="Finally, let that same employee teach the session of the course “{other}” on "
        "{then}.",
        calls=(
            *session_found(known),
            call("get_session", session_id=known["id"]),
            call("list_sessions", course_id=session["course_id"]),
            change,
        ),
        hold=3,
        answer="The same teacher has both.",
        values={**one, "other": other["course"], "then": other["day"]},
    )


def seats_left(maker: Maker) -> Draft | None:
    """How many seats are free."""
    session = _some_session(maker, free=True)
    if session is None:
        return None
    return Draft(
        kind="question",
        ask="How many seats are free in the session of the course “{course}” on {day}?",
        calls=session_found(session),
        answer="The number of free seats is {free}.",
        values={**_session_values(maker, session), "free": _num_free(maker, session)},
    )


def who_teaches(maker: Maker) -> Draft | None:
    """The login of who teaches: look-ups over three tables."""
    session = _some_session(maker)
    if session is None:
        return None
    teacher = maker.get("employees", session["teacher_id"])
    return Draft(
        kind="question",
        ask="What is the login of the one who teaches the session of the course “{course}” on "
        "{day}?",
        calls=(
            *session_found(session),
            call("get_session", session_id=session["id"]),
            call("get_employee", employee_id=teacher["id"]),
        ),
        answer="The login is {login}.",
        values={**_session_values(maker, session), "login": teacher["login"]},
    )


def next_day(maker: Maker) -> Draft | None:
    """The first day for which someone is enrolled or waits."""
    found = _some_enrolment(maker)
    if found is None:
        return None
    customer = found[2]
    held = [
        maker.get("course_sessions", row["session_id"])["held_on"]
        for row in _standing(maker, customer_id=customer["id"])
    ]
    who = customer_named(maker, customer)
    return Draft(
        kind="question",
        ask=f"Which is the first day ahead for which there is an enrolment of {who.text}, waiting "
        "or not?",
        calls=with_lookups(who.calls, _list(customer)),
        answer="The first one is on {first}.",
        values={**who.values, "first": day_of(min(held))},
    )


def too_late_to_leave(maker: Maker) -> Draft | None:
    """A session that is too near; the tool would cancel."""
    found = _some_enrolment(maker, in_time=False)
    if found is None:
        return None
    _, session, customer = found
    who = customer_named(maker, customer)
    return Draft(
        kind="decline",
        ask=f"Cancel the enrolment of {who.text} for the course “{{course}}” on {{day}}, as they "
        "wish.",
        calls=(*who.calls, _list(customer)),
        answer="I decline: it is too late, an enrolment is cancelled at the latest {notice} days "
        "before its session.",
        values={
            **who.values,
            **_session_values(maker, session),
            "notice": maker.parameters["ENROLMENT_NOTICE_DAYS"],
        },
        reasons=("too late", "at the latest", "days before", "notice", "too soon", "too close"),
        trap="The tool would cancel it.",
    )


def before_the_others(maker: Maker) -> Draft | None:
    """Someone shall have a seat of a full session, for which another one loses theirs."""
    session, customer = _some_session(maker, free=False), some_customer(maker)
    if session is None or not _may_enrol(maker, customer, session):
        return None
    who = customer_named(maker, customer)
    return Draft(
        kind="decline",
        ask=f"Give {who.text} a seat in the course “{{course}}” on {{day}}, even if you have to "
        "take somebody else's away for it.",
        calls=(*who.calls, *session_found(session)),
        answer="I decline: it is full, and nobody loses a seat for somebody else or is put before "
        "those who wait.",
        values={**who.values, **_session_values(maker, session)},
        reasons=("full", "loses", "before those", "no free seat", "wait", "waiting"),
        trap="The tools would cancel somebody else's.",
    )


def of_somebody_else(maker: Maker) -> Draft | None:
    """Another customer asks."""
    found = _some_enrolment(maker)
    if found is None:
        return None
    _, session, customer = found
    other = maker.pick("customers", lambda row: row["id"] != customer["id"])
    assert other is not None, "there are several customers"
    return Draft(
        kind="decline",
        ask="Cancel the enrolment of {customer} for the course “{course}” on {day}; {other} has "
        "called and asked for it.",
        calls=(call("search_customers", query=customer["name"]), _list(customer)),
        answer="I decline: it is cancelled only for the one who is enrolled, and another customer "
        "asked for it.",
        values={
            **_session_values(maker, session),
            "customer": customer["name"],
            "other": other["name"],
        },
        reasons=("another", "only for", "somebody else", "someone else", "different", "themselves"),
        trap="The tool would cancel it.",
    )


DRAFTS = (
    enrolment_to_add,
    first_free_seat,
    enrolment_to_cancel,
    enrolment_to_move,
    other_teacher,
    more_seats,
    same_teacher,
    seats_left,
    who_teaches,
    next_day,
    too_late_to_leave,
    before_the_others,
    of_somebody_else,
)
