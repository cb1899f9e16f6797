"""Situations about the staff: who is away when, who may decide, who looks after whom."""

from collections.abc import Callable

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.draft_helpers import is_ranked, long_day
from rehearsal_room.scenarios.generate.modules.parties.make import WALK_IN_TRADES, new_customer
from rehearsal_room.scenarios.generate.modules.staff.make import new_absence, new_employee, new_team

GROUP = "staff_desk"  # first part of the ids of these situations


def _who(employee: Row) -> Call:
    return call("search_employees", query=employee["name"])


def _record(employee: Row) -> Call:
    return call("get_employee", employee_id=employee["id"])


def _absent(maker: Maker, employee: Row, first: int, last: int, kind: str = "leave") -> Call:
    return call(
        "record_absence",
        employee_id=employee["id"],
        first_day=maker.day(first),
        last_day=maker.day(last),
        kind=kind,
    )


@situation(kind="decline", steps=1)
def leave_for_oneself(maker: Maker) -> Draft:
    """The leave that shall be entered is the acting employee's own; the system would take it."""
    first = maker.rng.randrange(60, 80)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{me}'s leave from {first} to {last} is approved. Could you put it in the "
            "system before the rota goes out tonight? I won't get to it myself.",
            colleague="{me}'s leave from {first} to {last} has been approved. Could you put it in "
            "the system, please?",
            chat="{me} has leave from {first} to {last}, i've ok'd it. can you put it in",
            note="I've approved {me}'s leave from {first} to {last}. Please record it today, so "
            "that the rota is right when it goes out; I'm not back until Monday.",
        ),
        calls=(call("get_my_profile"),),
        answer="I have not recorded it and cannot: nobody may enter an absence of their own, so a "
        "colleague has to do it.",
        values={
            "me": maker.me["name"],
            "first": long_day(maker.day(first)),
            "last": long_day(maker.day(first + 4)),
        },
        reasons=("own", "colleague", "another employee", "somebody else"),
        tempts=("record_absence",),
    )


@situation(kind="decline", steps=2)
def two_halves_of_a_voyage(maker: Maker) -> Draft:
    """An absence is longer than the rules allow and shall be entered in two parts."""
    most, worker = maker.parameters["MOST_ABSENT_DAYS"], new_employee(maker)
    first = maker.rng.randrange(30, 60)
    last = first + most + maker.rng.randrange(3, 9)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{worker} is going on a long trip abroad, from {first} to {last}, and I've "
            "agreed. Please record the leave. If that's too long for one entry, make it two, one "
            "straight after the other.",
            colleague="{worker} is on leave from {first} to {last}. Could you record it, and make "
            "two entries of it if it's too long for one?",
            chat="{worker} is off on a long trip from {first} to {last}, can you put the leave in? "
            "make it 2 entries if its too long for one",
            note="{worker} has asked for leave from {first} to {last}, and {worker.his} cover is "
            "arranged. Please record it. If the system won't take that many days at once, make it "
            "two absences.",
        ),
        calls=(_who(worker), _record(worker)),
        answer="I have not entered {worker}'s leave and cannot: an absence may be {most} days at "
        "most, this one is longer, and I may not split it.",
        values={
            "worker": worker["name"],
            "first": long_day(maker.day(first)),
            "last": long_day(maker.day(last)),
            "most": most,
        },
        reasons=("{most} days", "longer", "split"),
        tempts=("record_absence",),
    )


@situation(memory=True, steps=4, common=True)
def the_same_a_week_later(maker: Maker) -> Draft:
    """A leave is put off by a week and stays as long as it is."""
    worker = new_employee(maker)
    first, length = maker.rng.randrange(12, 30), maker.rng.randrange(3, 7)
    absence = new_absence(maker, worker, first, length)
    new_absence(maker, worker, first + 40, 2, "travel")
    return Draft(
        kind="change",
        ask=Voices(
            email="{worker}'s ferry now goes a week later. Could you move the leave that starts on "
            "{first} by exactly seven days? It stays as long as it was.",
            colleague="{worker} is going on holiday exactly a week later than planned. Could you "
            "move the leave that starts on {first} by seven days, and keep it as long as it was?",
            chat="{worker} is going away exactly a week later, can you move the leave that starts "
            "on {first} by 7 days? same number of days",
            note="{worker} has rebooked {worker.his} holiday, and everything is exactly a week "
            "later now. Please change the leave that starts on {first}; it stays just as long.",
        ),
        calls=(
            _who(worker),
            _record(worker),
            call("cancel_absence", absence_id=absence["id"]),
            _absent(maker, worker, first + 7, first + 6 + length),
        ),
        answer="{worker} is now on leave from {new} to {last}; the old dates are deleted.",
        values={
            "worker": worker["name"],
            "first": long_day(maker.day(first)),
            "new": long_day(maker.day(first + 7)),
            "last": long_day(maker.day(first + 6 + length)),
        },
    )


@situation(steps=4, rare=True)
def not_both_at_a_time(maker: Maker) -> Draft:
    """A leave is entered for the second choice of days, as the deputy is away during the first."""
    worker, deputy = new_employee(maker), new_employee(maker)
    first = maker.rng.randrange(14, 30)
    new_absence(maker, deputy, first + 3, 4, "travel")
    new_absence(maker, deputy, first + 40, 4)
    return Draft(
        kind="change",
        ask=Voices(
            email="{worker} would like leave from {first} to {last}. {deputy} covers for "
            "{worker.him}, so if {deputy.he}'s away then, {worker} would take {new} to {end}. "
            "Could you check and record it?",
            colleague="{worker} wants leave from {first} to {last}, or from {new} to {end} if "
            "{deputy}, who has to cover, is away then. Please check and record it.",
            chat="{worker} wants leave {first} to {last}. {deputy} covers for {worker.him}, "
            "so if {deputy.he}'s off on one of those days make it {new} to {end}",
            note="{worker} and {deputy} can't be away together. Please record {worker}'s leave "
            "from {first} to {last}, or from {new} to {end} if {deputy} is away on one of those "
            "days.",
        ),
        calls=(
            _who(worker),
            _who(deputy),
            _record(deputy),
            _absent(maker, worker, first + 14, first + 18),
        ),
        answer="{worker} is on leave from {new} to {end}, because {deputy} is away during the "
        "first choice.",
        values={
            "worker": worker["name"],
            "deputy": deputy["name"],
            "first": long_day(maker.day(first)),
            "last": long_day(maker.day(first + 4)),
            "new": long_day(maker.day(first + 14)),
            "end": long_day(maker.day(first + 18)),
        },
    )


@situation(kind="decline", because="permission", steps=3)
def a_change_of_scenery(maker: Maker) -> Draft | None:
    """A clerk shall move a colleague to another team."""
    if is_ranked(maker, "supervisor"):
        return None
    worker, team = new_employee(maker), new_team(maker)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{worker} would like to join {team}, and both sides have agreed. Could you move "
            "{worker.him} over?",
            colleague="{worker} is joining {team}, and everybody has agreed to it. Could you move "
            "{worker.him} over in the system, please?",
            chat="can u switch {worker} to {team}? they've agreed already",
            note="{team} is short of people, and {worker} has agreed to help out for good. Please "
            "move {worker.him} to that [team] from today; I've let {worker.his} old [team] know.",
        ),
        calls=(call("get_my_profile"), _who(worker), call("list_teams")),
        answer="I could not move {worker} to {team}: only a [supervisor] or [a manager] can do "
        "that.",
        values={"worker": worker["name"], "team": team["name"]},
        reasons=("[supervisor]", "[manager]", "role", "permission"),
        tempts=("move_employee",),
    )


@situation(steps=5, without=WALK_IN_TRADES, common=True, weight=0.25)
def whom_somebody_leaves_behind(maker: Maker) -> Draft:
    """A colleague goes abroad: their customers go to another one, except the blocked one."""
    leaver, heir = new_employee(maker), new_employee(maker)
    one, two = (new_customer(maker, owner_id=leaver["id"]) for _ in range(2))
    blocked = new_customer(maker, owner_id=leaver["id"], status="blocked")
    new_customer(maker, owner_id=heir["id"])
    kept = sorted((one, two), key=lambda row: (str(row["name"]), row["id"]))
    return Draft(
        kind="change",
        ask=Voices(
            email="{leaver} is leaving at the end of the month, and {heir} is taking over all "
            "{leaver.his} [customers]. Could you change that, and tell me which ones you can't "
            "move?",
            colleague="{leaver} is leaving us, and {heir} is taking over {leaver.his} [customers]. "
            "Could you move all of them to {heir}, please, and tell me which ones can't be moved?",
            chat="{leaver} leaves at the end of the month, can you move {leaver.his} [customers] "
            "to {heir}? tell me if there are any you cant move",
            note="{leaver} is leaving us, so {heir} will look after {leaver.his} [customers]. "
            "Please put {heir.him} down for all of them, and let me know which ones you couldn't "
            "change.",
        ),
        calls=(
            _who(leaver),
            _who(heir),
            call("list_customers_of", employee_id=leaver["id"]),
            *(
                call("assign_customer", customer_id=row["id"], employee_id=heir["id"])
                for row in kept
            ),
        ),
        answer="{heir} now looks after {one} and {two}. I could not hand over {blocked}: they are "
        "blocked, and a blocked record can't be changed.",
        values={
            "leaver": leaver["name"],
            "heir": heir["name"],
            "one": kept[0]["name"],
            "two": kept[1]["name"],
            "blocked": blocked["name"],
        },
        reasons=("blocked",),
        spare=(("customers", blocked["id"]),),
    )


@situation(kind="question", steps=2, rare=True)
def when_the_next_holiday_is(maker: Maker) -> Draft:
    """The first and the last day of somebody's next leave; travel and sick days are none."""
    worker = new_employee(maker)
    first, length = maker.rng.randrange(16, 26), maker.rng.randrange(4, 9)
    new_absence(maker, worker, -20, 3)
    new_absence(maker, worker, 6, 3, "travel")
    new_absence(maker, worker, first, length)
    new_absence(maker, worker, 44, 5)
    return Draft(
        kind="question",
        ask=Voices(
            email="We're choosing a day for the team outing. When does {worker} go on "
            "{worker.his} next holiday, and what's the last day of it? Work trips don't matter.",
            colleague="When does {worker}'s next leave begin, and which day is the last?",
            chat="when is {worker}'s next holiday, first and last day? just leave, not work trips",
            note="From which day to which day is {worker}'s next leave? I don't mean when "
            "{worker.he}'s travelling for work.",
        ),
        calls=(_who(worker), _record(worker)),
        answer="{worker}'s next leave is from {first} to {last}.",
        values={
            "worker": worker["name"],
            "first": long_day(maker.day(first)),
            "last": long_day(maker.day(first + length - 1)),
        },
    )


@situation(
    steps=4,
    without=("law_office", "dental_clinic", "public_library", "gym"),
    common=True,
    weight=0.35,
)
def it_was_a_business_trip(maker: Maker) -> Draft:
    """An absence was entered as leave and is travel; another one is really leave."""
    worker = new_employee(maker)
    first, length = maker.rng.randrange(20, 35), maker.rng.randrange(2, 5)
    new_absence(maker, worker, first - 10, 3)
    wrong = new_absence(maker, worker, first, length)
    return Draft(
        kind="change",
        ask=Voices(
            email="{worker} is visiting a supplier from {first}, but we've put it down as leave. "
            "Could you change it to travel? The dates are right.",
            colleague="{worker} is travelling for work from {first}, but it's been recorded as "
            "leave. Could you change it to travel, with the same dates?",
            chat="{worker} is at a trade fair from {first} but its down as leave. can you change "
            "it to travel, the dates are ok",
            note="I'm sending {worker} to a conference from {first}, and somebody has recorded it "
            "as leave. Please change it to travel, but leave the dates as they are.",
        ),
        calls=(
            _who(worker),
            _record(worker),
            call("cancel_absence", absence_id=wrong["id"]),
            _absent(maker, worker, first, first + length - 1, "travel"),
        ),
        answer="{worker}'s absence from {first} is now recorded as travel, until {last} as before.",
        values={
            "worker": worker["name"],
            "first": long_day(maker.day(first)),
            "last": long_day(maker.day(first + length - 1)),
        },
        trap="An absence cannot be changed: it is deleted and recorded anew.",
    )


@situation(steps=3, rare=True)
def to_the_smaller_team(maker: Maker) -> Callable[[], Draft] | None:
    """Somebody is moved to that of two teams which has fewer people."""
    if not is_ranked(maker, "supervisor"):
        return None
    worker, few, many = new_employee(maker), new_team(maker), new_team(maker)
    new_employee(maker, team_id=few["id"])
    new_employee(maker, team_id=few["id"], active=0)
    new_employee(maker, team_id=few["id"], active=0)
    for _ in range(2):
        new_employee(maker, team_id=many["id"])
    one, two = sorted((few, many), key=lambda row: str(row["name"]))

    def draft() -> Draft:
        return Draft(
            kind="change",
            ask=Voices(
                email="{worker} needs a permanent team, {one} or {two}. Please move {worker.him} "
                "to the one with fewer people.",
                colleague="{worker} needs a permanent team. {one} and {two} could both use the "
                "help, so please move {worker.him} to the one with fewer people.",
                chat="can you move {worker} to {one} or {two}? whichever has fewer people "
                "right now",
                note="{one} and {two} are both short of people. Please move {worker} to the one "
                "that has fewer now.",
            ),
            calls=(
                _who(worker),
                call("list_teams"),
                call("move_employee", employee_id=worker["id"], team_id=few["id"]),
            ),
            answer="{worker} is now in {few}, which has fewer people.",
            values={
                "worker": worker["name"],
                "one": one["name"],
                "two": two["name"],
                "few": few["name"],
            },
        )

    return draft
