"""Bookings, calendars, tickets, memberships, messages, approvals, subscriptions, feedback: their
drafts are valid, their verifiers catch mistakes, their tools enforce the rules."""

from collections.abc import Callable
from pathlib import Path

import pytest

from judge.worlds.world_host import host_in_process
from scenarios.api import Row
from scenarios.format import Call
from scenarios.generate.content.drawn_world import DrawnWorld, draw_world
from scenarios.generate.content.package_texts import package_of
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import call
from scenarios.generate.plan.business_modules import module, module_names
from scenarios.generate.plan.knobs import Knobs
from scenarios.generate.plan.world_plans import plan_worlds
from tests.support.generated_worlds import drafts_of, drafts_used, gated, made_with

MODULES = (
    *("bookings", "calendars", "tickets", "memberships"),
    *("messaging", "approvals", "subscriptions", "feedback"),
)
# Many short tasks, so that few worlds use every draft.
SHORT = Knobs(tables=8, rows=130, tools=60, tasks=40, steps=1, forbidden=0.45, memory=0.2)


@pytest.mark.parametrize("name", MODULES)
def test_every_draft_is_used_and_valid(name: str, tmp_path: Path) -> None:
    """With only the base each draft gives tasks; the gate finds no fault and catches mutants."""
    worlds = made_with([name], count=6, seed=1, knobs=SHORT, until=drafts_of(name))
    assert drafts_of(name) - set(drafts_used(worlds)) == set()
    report = gated(worlds[:1], tmp_path)
    assert report.failures == ()
    assert report.mutants_caught >= 0.99 * report.mutants > 200


def test_the_modules_can_be_combined_with_all_others(tmp_path: Path) -> None:
    """Worlds with all of them, and as many others as there is room for, pass the gate."""
    knobs = Knobs(tables=60, rows=400, tools=120, tasks=20)
    worlds = made_with(MODULES, count=2, seed=3, among=module_names(), knobs=knobs)
    report = gated(worlds, tmp_path)
    assert report.failures == ()
    assert report.mutants_caught >= 0.99 * report.mutants > 300
    assert {name.split(".")[0] for name in drafts_used(worlds)} >= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_drafts_of_every_kind(name: str) -> None:
    """Each module has at least five drafts of changes, two of questions and two to decline."""
    kinds: dict[str, set[str]] = {"change": set(), "question": set(), "decline": set()}
    for plan in plan_worlds(8, 2, SHORT, modules=[name], among=()):
        maker = draw_world(plan).maker
        for function in module(name).drafts:
            if (draft := function(maker)) is not None:
                kinds[draft.kind].add(function.__name__)
    least = {"change": 5, "question": 2, "decline": 2}
    assert {kind for kind, names in kinds.items() if len(names) < least[kind]} == set()


def _row(
    maker: Maker, table: str, where: Callable[[Row], bool] | None = None, **equal: object
) -> Row:
    """A row that must exist."""
    row = maker.pick(table, where, **equal)
    assert row is not None
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


def _clerks_world(name: str) -> DrawnWorld:
    """A world of one module in which a clerk acts."""
    knobs = Knobs(tables=8, rows=200, tools=60)
    worlds = map(draw_world, plan_worlds(9, 4, knobs, modules=[name], among=()))
    return next(one for one in worlds if one.maker.me["role"] == "clerk")


@pytest.mark.parametrize(("name", "rule"), RULES, ids=[rule.__name__ for _, rule in RULES])
def test_tools_enforce_the_rules(name: str, rule: Callable[[Maker], tuple[Call, str]]) -> None:
    """A call that breaks a hard rule is refused with a sentence in the trade's words."""
    world = _clerks_world(name)
    dresser = world.dressers[name]
    forbidden, refusal = rule(world.maker)
    arguments = {dresser.name(key): value for key, value in forbidden.arguments.items()}
    with host_in_process(package_of(world)) as seeded:
        run = seeded.start_run()
        outcome = run.call(dresser.name(forbidden.name), arguments)
        assert (outcome.is_error, outcome.text) == (True, dresser.text(refusal))
        assert list(run.changes()) == []
