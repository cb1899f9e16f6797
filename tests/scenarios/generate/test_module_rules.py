"""The hard rules of modules: a tool refuses a call that breaks one, in words."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from rehearsal_room.authoring.world_host import host_in_process
from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.content.drawn_world import DrawnWorld, draw_world
from rehearsal_room.scenarios.generate.content.package_texts import package_of
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.task_drafts import call
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.world_plans import plan_worlds
from rehearsal_room.scenarios.generate.structure.tool_shapes import shape_call

Rule = Callable[[Maker], tuple[Call, str]]


def _row(
    maker: Maker, table: str, where: Callable[[Row], bool] | None = None, **equal: object
) -> Row:
    """A row that must exist. Raises LookupError."""
    row = maker.pick(table, where, **equal)
    if row is None:
        raise LookupError(f"this world has no such row of {table}")
    return row


def _large_booking(maker: Maker) -> tuple[Call, str]:
    make = {
        "slot_id": _row(maker, "slots", lambda row: row["starts_at"] > maker.ahead(3))["id"],
        "customer_id": _row(maker, "customers", status="active")["id"],
        "num_people": maker.parameters["MOST_CLERK_BOOKING_PEOPLE"] + 1,
    }
    return call("create_booking", **make), ROLE


def _cancelled_booking(maker: Maker) -> tuple[Call, str]:
    booking = _row(maker, "bookings", status="cancelled")["id"]
    return (
        call("cancel_booking", booking_id=booking),
        f"Booking {booking} is cancelled or has begun.",
    )


def _evening_appointment(maker: Maker) -> tuple[Call, str]:
    make = {
        "customer_id": _row(maker, "customers", status="active")["id"],
        "subject": "Late talk",
        "place": "Yard",
        "starts_at": maker.ahead(5, 17, 30),
        "minutes": 45,
    }
    return call("create_appointment", **make), "Appointments lie between 08:00 and 18:00."


def _participant_twice(maker: Maker) -> tuple[Call, str]:
    planned = {
        row["id"]
        for row in maker.rows("appointments", lambda row: row["starts_at"] > maker.now)
        if row["status"] == "planned"
    }
    existing = _row(maker, "participants", lambda row: row["appointment_id"] in planned)
    appointment, employee = existing["appointment_id"], existing["employee_id"]
    return (
        call("add_participant", appointment_id=appointment, employee_id=employee),
        f"Employee {employee} has appointment {appointment} at that time.",
    )


def _unassigned_ticket(maker: Maker) -> tuple[Call, str]:
    ticket = _row(maker, "tickets", assignee_id=None)["id"]
    return call("solve_ticket", ticket_id=ticket), f"Ticket {ticket} is not assigned."


def _ticket_of_long_ago(maker: Maker) -> tuple[Call, str]:
    days = maker.parameters["TICKET_REOPEN_DAYS"]
    ticket = _row(
        maker, "tickets", lambda row: row["solved_at"] and row["solved_at"] < maker.ago(days, 0)
    )["id"]
    return (
        call("reopen_ticket", ticket_id=ticket),
        f"Ticket {ticket} was solved more than {days} days ago.",
    )


def _endless_freeze(maker: Maker) -> tuple[Call, str]:
    least, most = (maker.parameters[f"{end}_FREEZE_DAYS"] for end in ("LEAST", "MOST"))
    freeze = {
        "membership_id": _row(maker, "memberships", last_day=None)["id"],
        "first_day": maker.day(100),
        "last_day": maker.day(100 + most),
    }
    return (
        call("add_freeze", **freeze),
        f"A freeze has {least} to {most} days, not {most + 1}.",
    )


def _short_notice(maker: Maker) -> tuple[Call, str]:
    membership = _row(maker, "memberships", last_day=None)["id"]
    return (
        call("end_membership", membership_id=membership, last_day=maker.day(3)),
        "Only a manager may do this; your role is clerk.",
    )


def _unanswered_thread(maker: Maker) -> tuple[Call, str]:
    most = maker.parameters["MOST_UNANSWERED_MESSAGES"]
    thread = _row(
        maker,
        "threads",
        lambda row: (
            len([m for m in maker.rows("messages", thread_id=row["id"]) if m["author_id"]]) == most
        ),
        status="open",
    )["id"]
    return (
        call("send_message", thread_id=thread, body="Hello again."),
        f"{most} messages in thread {thread} are not answered yet.",
    )


def _closed_thread(maker: Maker) -> tuple[Call, str]:
    thread = _row(maker, "threads", status="closed")["id"]
    return (
        call("send_message", thread_id=thread, body="Hello again."),
        f"Thread {thread} is closed.",
    )


def _large_request(maker: Maker) -> tuple[Call, str]:
    limit = maker.me["limit_cents"]
    request = _row(maker, "requests", lambda row: row["amount_cents"] > limit, status="open")
    shown, most = maker.money(request["amount_cents"]), maker.money(limit)
    return (
        call("approve_request", request_id=request["id"], remark="fair"),
        f"{shown} is above your limit of {most}.",
    )


def _own_request(maker: Maker) -> tuple[Call, str]:
    request = _row(maker, "requests", made_by=maker.me["id"], status="open")["id"]
    return (
        call("approve_request", request_id=request, remark="fair"),
        "Nobody decides on a request of their own.",
    )


def _paused_subscription(maker: Maker) -> tuple[Call, str]:
    paused = _row(maker, "subscriptions", status="paused")["id"]
    return (
        call("set_discount", subscription_id=paused, percent=5),
        f"Subscription {paused} is paused.",
    )


def _failed_charge(maker: Maker) -> tuple[Call, str]:
    failed = _row(maker, "charges", status="failed")["id"]
    return call("credit_charge", charge_id=failed), f"Charge {failed} is failed."


def _unflagged_review(maker: Maker) -> tuple[Call, str]:
    flagged = {row["review_id"] for row in maker.rows("review_flags")}
    review = _row(maker, "reviews", lambda row: row["id"] not in flagged, status="published")["id"]
    return call("hide_review", review_id=review), f"Review {review} is not flagged."


def _second_reply(maker: Maker) -> tuple[Call, str]:
    least = maker.parameters["LEAST_CLERK_RATING"]
    good = {row["id"] for row in maker.rows("reviews", lambda row: row["rating"] >= least)}
    reply = _row(maker, "replies", lambda row: row["review_id"] in good)
    return (
        call("post_reply", review_id=reply["review_id"], body="Thanks once more."),
        f"Review {reply['review_id']} has reply {reply['id']} already.",
    )


ROLE = "Only a supervisor or a manager may do this; your role is clerk."
RULES = (
    ("bookings", _large_booking),
    ("bookings", _cancelled_booking),
    ("calendars", _evening_appointment),
    ("calendars", _participant_twice),
    ("tickets", _unassigned_ticket),
    ("tickets", _ticket_of_long_ago),
    ("memberships", _endless_freeze),
    ("memberships", _short_notice),
    ("messaging", _unanswered_thread),
    ("messaging", _closed_thread),
    ("approvals", _large_request),
    ("approvals", _own_request),
    ("subscriptions", _paused_subscription),
    ("subscriptions", _failed_charge),
    ("feedback", _unflagged_review),
    ("feedback", _second_reply),
)


def _broken(name: str, rule: Rule) -> tuple[DrawnWorld, Call, str]:
    """A world of one module in which a clerk acts, a call that breaks the rule, and the refusal."""
    knobs = Knobs(tables=8, rows=200, tools=60)
    for plan in plan_worlds(60, 4, knobs, modules=[name], among=()):
        world = draw_world(plan)
        if world.maker.me["role"] == "clerk" and world.style.ids == "numbers":
            with suppress(LookupError):
                return world, *rule(world.maker)
    raise AssertionError("no world has the rows that the rule needs")


@pytest.mark.parametrize(("name", "rule"), RULES, ids=[rule.__name__ for _, rule in RULES])
def test_tools_enforce_the_rules(name: str, rule: Rule) -> None:
    """A call that breaks a hard rule is refused with a sentence in the trade's words."""
    world, broken, refusal = _broken(name, rule)
    dresser = world.dressers[name]
    forbidden = shape_call(broken, world.shapes)
    arguments = {dresser.name(key): value for key, value in forbidden.arguments.items()}
    with host_in_process(package_of(world)) as seeded:
        run = seeded.start_run()
        outcome = run.call(dresser.name(forbidden.name), arguments)
        assert outcome.is_error
        assert outcome.text.endswith(dresser.text(refusal))  # after a code, where refusals have one
        assert list(run.changes()) == []
