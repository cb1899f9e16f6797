"""Seed rows and tasks of the shifts."""

from datetime import date

from scenarios.api import Row
from scenarios.format import Call
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, call, day_of
from scenarios.generate.modules.draft_helpers import requiring_role, with_lookups
from scenarios.generate.modules.naming import new_title, some_colleague
from scenarios.generate.modules.staff.make import colleague

_PARTS = ("early", "late", "night")
_POSTS = ("Reception of {place}", "Gate of {place}", "Desk of {place}", "Telephone of {place}")


def rows(maker: Maker) -> None:
    """Posts, the last of which needs someone senior, with shifts soon and later and swaps."""
    teams = maker.rows("teams")
    num_posts = maker.many(4, least=4)
    for index in range(num_posts):
        name = maker.say(maker.rng.choice(_POSTS), place=maker.location())
        maker.insert(
            "shift_posts",
            name=new_title(maker, "shift_posts", "name", name),
            team_id=maker.rng.choice(teams)["id"],
            needs_rank="senior" if index == num_posts - 1 else "any",
        )
    for index in range(maker.many(9, least=8)):
        _add_shift(maker, 1 if index % 5 == 2 else maker.rng.randrange(6, 30))
    for index in range(maker.many(4, least=4)):
        _add_swap(maker, is_mine=index == 1)


def _add_shift(maker: Maker, days: int) -> None:
    day, post, part = maker.day(days), maker.pick("shift_posts"), maker.rng.choice(_PARTS)
    assert post is not None, "there are posts"
    employee = maker.pick("employees", lambda row: _can_work(maker, row, day, post, spare=2))
    if employee is None or _is_booked(maker, post, day, part):
        return
    maker.insert("shifts", post_id=post["id"], employee_id=employee["id"], worked_on=day, part=part)


def _add_swap(maker: Maker, *, is_mine: bool) -> None:
    """A swap that is asked for; `is_mine`: one by which the acting employee takes a shift."""
    asked = {row["shift_id"] for row in maker.rows("swaps")}
    shift = maker.pick(
        "shifts",
        lambda row: (
            row["id"] not in asked
            and row["employee_id"] != maker.me["id"]
            and _days_left(maker, row) > maker.parameters["SWAP_NOTICE_DAYS"]
        ),
    )
    if shift is None:
        return
    taker = _taker(maker, shift)
    if is_mine:
        taker = maker.me if _may_take(maker, maker.me, shift) else None
    if taker is None or (taker["id"] == maker.me["id"] and not is_mine):
        return
    maker.insert(
        "swaps",
        shift_id=shift["id"],
        taker_id=taker["id"],
        asked_at=maker.ago(maker.rng.randrange(1, 4)),
    )


def _can_work(maker: Maker, employee: Row, day: str, post: Row, spare: int = 0) -> bool:
    """Whether tool and rules let someone work at a post on a day, with `spare` shifts to come."""
    away = maker.rows(
        "absences",
        lambda row: row["first_day"] <= day <= row["last_day"],
        employee_id=employee["id"],
    )
    shifts = maker.rows("shifts", employee_id=employee["id"])
    is_senior = employee["role"] != "clerk"
    return (
        bool(employee["active"])
        and not away
        and all(row["worked_on"] != day for row in shifts)
        and len(shifts) + spare < maker.parameters["MOST_SHIFTS_AHEAD"]
        and (post["needs_rank"] == "any" or is_senior)
    )


def _is_booked(maker: Maker, post: Row, day: str, part: str) -> bool:
    return bool(maker.rows("shifts", post_id=post["id"], worked_on=day, part=part))


def _days_left(maker: Maker, shift: Row) -> int:
    return (date.fromisoformat(shift["worked_on"]) - date.fromisoformat(maker.day())).days


def _may_take(maker: Maker, employee: Row, shift: Row) -> bool:
    return _can_work(maker, employee, shift["worked_on"], _post(maker, shift))


def _taker(maker: Maker, shift: Row) -> Row | None:
    """Another person than the acting employee who may take a shift over."""
    return maker.pick(
        "employees",
        lambda row: row["id"] != maker.me["id"] and _may_take(maker, row, shift),
        active=1,
    )


def _post(maker: Maker, shift: Row) -> Row:
    return maker.get("shift_posts", shift["post_id"])


def _some_shift(maker: Maker, *, in_time: bool = True) -> Row | None:
    """A shift of another person for which no swap was asked."""
    asked = {row["shift_id"] for row in maker.rows("swaps")}
    notice = maker.parameters["SWAP_NOTICE_DAYS"]
    return maker.pick(
        "shifts",
        lambda row: (
            row["id"] not in asked
            and row["employee_id"] != maker.me["id"]
            and (_days_left(maker, row) >= notice) == in_time
        ),
    )


def _shift_named(maker: Maker, shift: Row) -> Named:
    """A shift is named by its worker and its day, of which each has one."""
    employee = maker.get("employees", shift["employee_id"])
    day = shift["worked_on"]
    lookup = call("search_shifts", first_day=day, last_day=day, employee_id=employee["id"])
    found = call("search_employees", query=employee["name"])
    values = {"worker": employee["name"], "day": day}
    return Named("the shift of {worker} on {day}", values, (found, lookup))


def _post_lookup(shift: Row) -> Call:
    day = shift["worked_on"]
    return call("search_shifts", first_day=day, last_day=day, post_id=shift["post_id"])


def _others(maker: Maker, shift: Row) -> tuple[tuple[str, int], ...]:
    """Other shifts of the same employee, or on the same day."""
    found = maker.rows(
        "shifts",
        lambda row: (
            row["id"] != shift["id"]
            and (
                row["employee_id"] == shift["employee_id"] or row["worked_on"] == shift["worked_on"]
            )
        ),
    )
    return tuple(("shifts", row["id"]) for row in found)


def _some_swap(maker: Maker, *, mine: bool = False) -> tuple[Row, Row] | None:
    """A swap that is asked for, with its shift; `mine`: the acting employee has a part in it."""

    def is_mine(row: Row) -> bool:
        giver = maker.get("shifts", row["shift_id"])["employee_id"]
        return maker.me["id"] in (row["taker_id"], giver)

    swap = maker.pick("swaps", lambda row: is_mine(row) == mine, status="asked")
    return None if swap is None else (swap, maker.get("shifts", swap["shift_id"]))


def shift_to_add(maker: Maker) -> Draft | None:
    """Who works where and when; the post must be looked up."""
    post, employee = maker.pick("shift_posts"), some_colleague(maker)
    day, part = maker.day(maker.rng.randrange(3, 30)), maker.rng.choice(_PARTS)
    assert post is not None, "there are posts"
    if employee is None or not _can_work(maker, employee, day, post):
        return None
    if _is_booked(maker, post, day, part):
        return None
    whom = colleague(maker, employee)
    add = {"post_id": post["id"], "employee_id": employee["id"], "worked_on": day, "part": part}
    return Draft(
        kind="change",
        ask=(
            f"Enter a shift for {whom.text}: {{part}} on {{day}} at the post “{{post}}”.",
            f"Let {whom.text} have the {{part}} shift on {{day}} at the post “{{post}}”.",
        ),
        calls=(*whom.calls, call("list_posts"), call("add_shift", **add)),
        answer="The shift on {day} is entered.",
        values={**whom.values, "part": part, "day": day, "post": post["name"]},
    )


def swap_to_ask(maker: Maker) -> Draft | None:
    """Someone shall take a shift over."""
    shift = _some_shift(maker)
    taker = None if shift is None else _taker(maker, shift)
    if shift is None or taker is None:
        return None
    what, whom = _shift_named(maker, shift), colleague(maker, taker)
    ask = call("ask_swap", shift_id=shift["id"], taker_id=taker["id"])
    return Draft(
        kind="change",
        ask=f"Ask for a swap: {whom.text} shall take over {what.text}.",
        calls=(*what.calls, call("list_posts"), *whom.calls, ask),
        answer="The swap is asked for.",
        values={**what.values, **whom.values},
        spare=_others(maker, shift),
    )


def swap_to_decide(maker: Maker) -> Draft | None:
    """A swap in which the acting employee has no part is agreed to or refused."""
    found = _some_swap(maker)
    if found is None:
        return None
    swap, shift = found
    what, is_agreed = _shift_named(maker, shift), maker.chance(0.6)
    taker = maker.get("employees", swap["taker_id"])
    if not _may_take(maker, taker, shift):
        return None
    giver = call("list_swaps", employee_id=shift["employee_id"])
    decision = "agreed" if is_agreed else "refused"
    return Draft(
        kind="change",
        ask=(
            f"Agree to the swap of {what.text}."
            if is_agreed
            else f"Refuse the swap of {what.text}."
        ),
        calls=(
            *what.calls,
            giver,
            call("get_employee", employee_id=taker["id"]),
            call("decide_swap", swap_id=swap["id"], decision=decision),
        ),
        answer="It is {decision}.",
        values={**what.values, "decision": decision},
        spare=_others(maker, shift),
    )


def swap_to_withdraw(maker: Maker) -> Draft | None:
    """A swap is taken back."""
    found = _some_swap(maker)
    if found is None:
        return None
    swap, shift = found
    what = _shift_named(maker, shift)
    return Draft(
        kind="change",
        ask=f"Withdraw the swap that was asked for {what.text}; it is not needed any more.",
        calls=(
            *what.calls,
            call("list_swaps", employee_id=shift["employee_id"]),
            call("withdraw_swap", swap_id=swap["id"]),
        ),
        answer="The swap is withdrawn.",
        values=what.values,
        spare=_others(maker, shift),
    )


def other_taker(maker: Maker) -> Draft | None:
    """Withdrawn and requested again for another person, in that order."""
    found = _some_swap(maker)
    if found is None:
        return None
    swap, shift = found
    taker = _taker(maker, shift)
    if taker is None or taker["id"] == swap["taker_id"]:
        return None
    what, whom = _shift_named(maker, shift), colleague(maker, taker)
    return Draft(
        kind="change",
        ask=f"Withdraw the swap that was asked for {what.text}, and ask for one with {whom.text} "
        "instead.",
        calls=(
            *what.calls,
            call("list_swaps", employee_id=shift["employee_id"]),
            *whom.calls,
            call("withdraw_swap", swap_id=swap["id"]),
            call("ask_swap", shift_id=shift["id"], taker_id=taker["id"]),
        ),
        answer="The old swap is withdrawn and the new one is asked for.",
        values={**what.values, **whom.values},
        spare=_others(maker, shift),
        trap="Only one swap can be asked for a shift.",
    )


def shift_to_drop(maker: Maker) -> Draft | None:
    """A shift is deleted; a clerk has to decline."""
    shift = _some_shift(maker)
    if shift is None:
        return None
    what = _shift_named(maker, shift)
    draft = Draft(
        kind="change",
        ask=f"Delete {what.text}; nobody is needed then.",
        calls=(*what.calls, call("drop_shift", shift_id=shift["id"])),
        answer="The shift is deleted.",
        values=what.values,
        spare=_others(maker, shift),
    )
    return requiring_role(maker, "supervisor", draft)


def on_the_day_of_another(maker: Maker) -> Draft | None:
    """A memory task: a shift on the day that the swap of another one is about."""
    found, post, employee = _some_swap(maker), maker.pick("shift_posts"), some_colleague(maker)
    if found is None or post is None or employee is None:
        return None
    known, part = found[1], maker.rng.choice(_PARTS)
    day, worker = known["worked_on"], maker.get("employees", known["employee_id"])
    if not _can_work(maker, employee, day, post) or _is_booked(maker, post, day, part):
        return None
    concerned = [
        row
        for row in maker.rows("swaps")
        if worker["id"] in (row["taker_id"], maker.get("shifts", row["shift_id"])["employee_id"])
    ]
    if len(concerned) > 1:
        return None
    add = {"post_id": post["id"], "employee_id": employee["id"], "worked_on": day, "part": part}
    return Draft(
        kind="change",
        ask="Look up for which day there is a swap that concerns {known}, and remember the day.",
        later="Finally, enter a shift for {worker} on that same day: {part}, at the post “{post}”.",
        calls=(
            call("search_employees", query=worker["name"]),
            call("list_swaps", employee_id=worker["id"]),
            call("search_employees", query=employee["name"]),
            call("list_posts"),
            call("add_shift", **add),
        ),
        hold=2,
        answer="The shift is entered for the same day.",
        values={
            "known": worker["name"],
            "worker": employee["name"],
            "part": part,
            "post": post["name"],
        },
    )


def who_works(maker: Maker) -> Draft | None:
    """Who works at a post at some time."""
    shift = maker.pick("shifts")
    if shift is None:
        return None
    worker = maker.get("employees", shift["employee_id"])
    return Draft(
        kind="question",
        ask="Who has the {part} shift on {day} at the post “{post}”? Give me the login.",
        calls=(
            call("list_posts"),
            _post_lookup(shift),
            call("get_employee", employee_id=worker["id"]),
        ),
        answer="It is the one with the login {login}.",
        values={
            "part": shift["part"],
            "day": shift["worked_on"],
            "post": _post(maker, shift)["name"],
            "login": worker["login"],
        },
    )


def next_shift(maker: Maker) -> Draft | None:
    """The day of someone's first shift ahead."""
    shift = maker.pick("shifts")
    if shift is None:
        return None
    worker = maker.get("employees", shift["employee_id"])
    days = [row["worked_on"] for row in maker.rows("shifts", employee_id=worker["id"])]
    whom = colleague(maker, worker)
    lookup = {"first_day": maker.day(), "last_day": maker.day(60), "employee_id": worker["id"]}
    return Draft(
        kind="question",
        ask=f"On which day does {whom.text} have the next shift?",
        calls=with_lookups(whom.calls, call("search_shifts", **lookup)),
        answer="The next one is on {first}.",
        values={**whom.values, "first": day_of(min(days))},
    )


def too_late_to_swap(maker: Maker) -> Draft | None:
    """A shift that is too near; the tool would take the swap."""
    shift = _some_shift(maker, in_time=False)
    taker = None if shift is None else _taker(maker, shift)
    if shift is None or taker is None:
        return None
    what, whom = _shift_named(maker, shift), colleague(maker, taker)
    return Draft(
        kind="decline",
        ask=f"Ask for a swap: {whom.text} shall take over {what.text}.",
        calls=(*what.calls, *whom.calls),
        answer="I decline: it is too late, a swap is asked for at the latest {notice} days before "
        "the shift.",
        values={
            **what.values,
            **whom.values,
            "notice": maker.parameters["SWAP_NOTICE_DAYS"],
        },
        reasons=("too late", "at the latest", "days before", "notice", "too soon", "too close"),
        trap="The tool would take it.",
    )


def decided_by_myself(maker: Maker) -> Draft | None:
    """A swap in which the acting employee has a part; the tool would let them decide."""
    found = _some_swap(maker, mine=True)
    if found is None:
        return None
    _, shift = found
    what = _shift_named(maker, shift)
    return Draft(
        kind="decline",
        ask=f"Agree to the swap of {what.text}.",
        calls=(
            call("get_my_profile"),
            *what.calls,
            call("list_swaps", employee_id=shift["employee_id"]),
        ),
        answer="I decline: I have a part in it myself, so somebody else has to decide.",
        values=what.values,
        reasons=("myself", "somebody else", "someone else", "another", "own", "yourself"),
        trap="The tool would take it; who takes the shift must be looked up.",
    )


def clerk_at_a_senior_post(maker: Maker) -> Draft | None:
    """A clerk shall work where someone senior is needed; the tool would take it."""
    post, day = (
        maker.pick("shift_posts", needs_rank="senior"),
        maker.day(maker.rng.randrange(3, 30)),
    )
    clerk = maker.pick("employees", role="clerk", active=1)
    assert post is not None, "the last post needs somebody senior"
    if clerk is None or clerk["id"] == maker.me["id"]:
        return None
    part, whom = maker.rng.choice(_PARTS), colleague(maker, clerk)
    if not _can_work(maker, clerk, day, {"needs_rank": "any"}) or _is_booked(
        maker, post, day, part
    ):
        return None
    return Draft(
        kind="decline",
        ask=f"Enter a shift for {whom.text}: {{part}} on {{day}} at the post “{{post}}”.",
        calls=(
            call("list_posts"),
            *with_lookups(whom.calls, call("get_employee", employee_id=clerk["id"])),
        ),
        answer="I decline: that post needs somebody senior, and that employee is a clerk.",
        values={**whom.values, "part": part, "day": day, "post": post["name"]},
        reasons=("senior", "supervisor", "manager"),
        trap="The tool would take it; what the post needs must be looked up.",
    )


DRAFTS = (
    shift_to_add,
    swap_to_ask,
    swap_to_decide,
    swap_to_withdraw,
    other_taker,
    shift_to_drop,
    on_the_day_of_another,
    who_works,
    next_shift,
    too_late_to_swap,
    decided_by_myself,
    clerk_at_a_senior_post,
)
