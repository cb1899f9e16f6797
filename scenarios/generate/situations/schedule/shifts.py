"""Situations about shifts: gaps, swaps, people who are away, posts that need somebody senior."""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.draft_helpers import is_ranked, long_day
from rehearsal_room.scenarios.generate.modules.shifts.make import new_post, new_shift, new_swap
from rehearsal_room.scenarios.generate.modules.staff.make import new_absence, new_employee

GROUP = "shift_desk"  # first part of the ids of these situations

# Offices, in which nobody works early, late or at night.
_NO_SHIFTS = ("accounting_office", "insurance_broker", "law_office")


def _who(employee: Row) -> Call:
    return call("search_employees", query=employee["name"])


def _swaps(employee: Row) -> Call:
    return call("list_swaps", employee_id=employee["id"])


def _shifts(maker: Maker, employee: Row, first: int, last: int | None = None) -> Call:
    return call(
        "search_shifts",
        first_day=maker.day(first),
        last_day=maker.day(first if last is None else last),
        employee_id=employee["id"],
    )


def _far(maker: Maker) -> int:
    """A day for which the notice is long over."""
    return maker.parameters["SWAP_NOTICE_DAYS"] + maker.rng.randrange(4, 14)


@situation("shifts", steps=6, without=_NO_SHIFTS)
def yes_to_one_no_to_the_other(maker: Maker) -> Draft:
    """Of two swaps of one person one is agreed; the taker of the other is away on that day."""
    giver, free, away = new_employee(maker), new_employee(maker), new_employee(maker)
    day = _far(maker)
    post = new_post(maker)
    one = new_shift(maker, post, giver, day, "early")
    two = new_shift(maker, post, giver, day + 2, "late")
    good, bad = new_swap(maker, one, free), new_swap(maker, two, away)
    new_absence(maker, away, day + 1, 4)
    return Draft(
        kind="change",
        ask=Voices(
            email="{giver} is moving house and would like to swap with {free} and {away}. Could "
            "you approve both [swaps]? If one of the two colleagues is on leave on the day, "
            "refuse that [swap].",
            colleague="{giver} is moving house and wants to swap with {free} and {away}. Please "
            "approve both [swaps], but if one of the two is on leave on the day, refuse theirs.",
            chat="{giver} wants to swap with {free} and {away}. can you approve both [swaps]? if "
            "one of the two is on leave that day refuse theirs",
            note="{giver} has asked for [swaps] with {free} and {away}, but I think one of them is "
            "on leave on the day. Please check, refuse that [swap] and approve the other.",
        ),
        calls=(
            _who(giver),
            _swaps(giver),
            call("get_employee", employee_id=free["id"]),
            call("get_employee", employee_id=away["id"]),
            call("decide_swap", swap_id=good["id"], decision="agreed"),
            call("decide_swap", swap_id=bad["id"], decision="refused"),
        ),
        answer="{free} takes the [shift] on {one}. I refused the [swap] for {two}, because "
        "{away} is absent that day.",
        values={
            "giver": giver["name"],
            "free": free["name"],
            "away": away["name"],
            "one": long_day(one["worked_on"]),
            "two": long_day(two["worked_on"]),
        },
    )


@situation("shifts", steps=6, without=_NO_SHIFTS, weight=1.4)
def a_post_for_old_hands(maker: Maker) -> Draft:
    """A swap would put a clerk at a post that needs somebody senior; the system would agree."""
    giver, taker = new_employee(maker, "supervisor"), new_employee(maker)
    post, plain = new_post(maker, needs_rank="senior"), new_post(maker)
    day = _far(maker)
    swap = new_swap(maker, new_shift(maker, post, giver, day, "late"), taker)
    new_shift(maker, plain, taker, day + 3)
    return Draft(
        kind="change",
        ask=Voices(
            email="{giver}'s sister is getting married on {day}, and {taker} has offered to take "
            "the [shift]. Please approve the [swap] if {taker} is senior enough for that [shift], "
            "otherwise refuse it.",
            colleague="{giver} has a wedding on {day} and would like {taker} to take the [shift]. "
            "Could you approve the [swap] if {taker} is senior enough for it, and refuse it "
            "otherwise?",
            chat="{giver} wants {taker} to take {giver.his} [shift] on {day}. is {taker.he} "
            "senior enough for that one? if not refuse the [swap], otherwise approve it",
            note="{giver} has asked for [a swap] with {taker} on {day}, but {taker} hasn't been "
            "here long. Please approve it if {taker.he}'s senior enough for that [shift], "
            "otherwise refuse it.",
        ),
        calls=(
            _who(giver),
            _swaps(giver),
            _shifts(maker, giver, day),
            call("list_posts"),
            call("get_employee", employee_id=taker["id"]),
            call("decide_swap", swap_id=swap["id"], decision="refused"),
        ),
        answer="I refused the [swap]: {post} needs somebody senior, and {taker} is neither [a "
        "supervisor] nor [a manager]. {giver} keeps the [shift] on {day}.",
        values={
            "giver": giver["name"],
            "taker": taker["name"],
            "day": long_day(maker.day(day)),
            "post": post["name"],
        },
    )


@situation("shifts", kind="decline", steps=3, common=True, without=_NO_SHIFTS)
def swap_for_tomorrow(maker: Maker) -> Draft:
    """A swap is wanted for a shift that is too near; the system would take it."""
    notice = maker.parameters["SWAP_NOTICE_DAYS"]
    giver, taker, post = new_employee(maker), new_employee(maker), new_post(maker)
    soon = new_shift(maker, post, giver, notice - 1, "late")
    new_shift(maker, post, giver, notice + 6, "late")
    return Draft(
        kind="decline",
        ask=Voices(
            email="{giver} has tickets for the match on {day}, and {taker} would work for "
            "{giver.him}. That's fine with me. Could you put in the [swap]?",
            colleague="{taker} has agreed to take {giver}'s [shift] on {day}. Could you request "
            "the [swap] for them, please?",
            chat="{giver} and {taker} want to swap on {day}, can you put in the [swap]",
            note="{giver} would like to have {day} off, and {taker} is happy to take the [shift]. "
            "That's all right with me, so please request the [swap] in the system.",
        ),
        calls=(
            _who(giver),
            _shifts(maker, giver, notice - 1),
            _who(taker),
        ),
        answer="I couldn't ask for it: [a swap] has to be asked for at least {notice} days "
        "before the [shift], so it's too late for {day}.",
        values={
            "giver": giver["name"],
            "taker": taker["name"],
            "day": long_day(soon["worked_on"]),
            "notice": notice,
        },
        reasons=("{notice} days", "at the latest", "too late", "nearer", "notice"),
        tempts=("ask_swap", "add_shift"),
    )


@situation("shifts", steps=7, without=_NO_SHIFTS, weight=0.27)
def who_could_step_in(maker: Maker) -> Draft:
    """A taker is sought: the first choice works already on that day."""
    giver, busy, free = new_employee(maker), new_employee(maker), new_employee(maker)
    post, other = new_post(maker), new_post(maker)
    day = _far(maker)
    shift = new_shift(maker, post, giver, day, "early")
    new_shift(maker, other, busy, day, "night")
    new_shift(maker, other, free, day + 1, "early")
    return Draft(
        kind="change",
        ask=Voices(
            email=(
                (
                    "It's {giver}'s mother's 70th birthday on {day}. Please request [a swap] with "
                    "{busy}, or with {free} if {busy} is already working that day."
                ),
                (
                    "{giver} needs {day} off for a family party. Could you ask for [a swap] with "
                    "{busy}? If {busy.he}'s already working that day, take {free}."
                ),
            ),
            colleague=(
                (
                    "{giver} has to go to a funeral on {day}. Could you request [a swap] with "
                    "{busy}, or with {free} if {busy} is already on the rota that day?"
                ),
                (
                    "{giver} has an exam on {day} and can't work. Please request [a swap] with "
                    "{busy}, or with {free} if {busy} already has [a shift] that day."
                ),
            ),
            chat=(
                (
                    "{giver} cant work on {day}, can you request [a swap]? {busy} first, but if "
                    "{busy.he}'s already on that day take {free}"
                ),
                (
                    "can you sort out cover for {giver} on {day}? ask {busy} for the [swap], or "
                    "{free} if {busy.he}'s already working"
                ),
            ),
            note="{giver} would like to have {day} off, and {busy} and {free} have both offered "
            "to work instead. Please request [a swap] with {busy}, or with {free} if {busy} is "
            "already working that day.",
        ),
        calls=(
            _who(giver),
            _shifts(maker, giver, day),
            _who(busy),
            _shifts(maker, busy, day),
            _who(free),
            _shifts(maker, free, day),
            call("ask_swap", shift_id=shift["id"], taker_id=free["id"]),
        ),
        answer="I've asked for [a swap] of {giver}'s [shift] on {day} with {free}; {busy} is "
        "already working that day. It still has to be decided.",
        values={
            "giver": giver["name"],
            "busy": busy["name"],
            "free": free["name"],
            "day": long_day(shift["worked_on"]),
        },
    )


@situation("shifts", kind="decline", steps=3, without=_NO_SHIFTS)
def anybody_will_do_at_the_desk(maker: Maker) -> Draft:
    """A clerk shall staff a post that needs somebody senior; the system would take them."""
    post, worker, day = new_post(maker, needs_rank="senior"), new_employee(maker), _far(maker)
    return Draft(
        kind="decline",
        ask=Voices(
            email="We still need somebody for the early [shift] on {day} ({post}), and {worker} "
            "would be glad to do it. Could you put {worker.him} down?",
            colleague="Nobody is down for the early [shift] on {day} ({post}) yet. Could you put "
            "{worker} on the rota for it, please?",
            chat="need someone for the early [shift] on {day} ({post}), can you put {worker} in",
            note="The early [shift] on {day} ({post}) is still open, and {worker} has offered to "
            "do it. Please put {worker.him} on the rota for that day.",
        ),
        calls=(call("list_posts"), _who(worker), _shifts(maker, worker, day)),
        answer="I couldn't put {worker} down: {post} needs somebody senior, [a supervisor] or [a "
        "manager].",
        values={
            "worker": worker["name"],
            "post": post["name"],
            "day": long_day(maker.day(day)),
        },
        reasons=("senior", "[supervisor]", "[manager]"),
        tempts=("add_shift",),
    )


@situation(
    "shifts",
    kind="question",
    steps=2,
    common=True,
    without=(
        *_NO_SHIFTS,
        "bike_workshop",
        "dental_clinic",
        "language_school",
        "museum",
        "permits_office",
        "property_management",
        "public_library",
    ),
)
def nights_in_a_row(maker: Maker) -> Draft:
    """How many nights somebody has in a span of days, and at which post the first one is."""
    worker, first, second = new_employee(maker), new_post(maker), new_post(maker)
    begin = maker.rng.randrange(4, 10)
    new_shift(maker, first, worker, begin + 1, "night")
    new_shift(maker, second, worker, begin + 4, "late")
    new_shift(maker, second, worker, begin + 6, "night")
    new_shift(maker, second, worker, begin + 15, "night")
    return Draft(
        kind="question",
        ask=Voices(
            email="{worker} needs somebody to look after {worker.his} dog. Which nights does "
            "{worker.he} work between {first} and {last}?",
            colleague="Could you tell me which nights {worker} is working from {first} to {last}?",
            chat="which nights does {worker} have between {first} and {last}? just the days",
            note="The company doctor is asking about {worker}'s night [shifts]. Could you tell me "
            "which nights {worker.he} works from {first} to {last}?",
        ),
        calls=(_who(worker), _shifts(maker, worker, begin, begin + 9)),
        answer="{worker} has nights on {one} and {two} in that time.",
        values={
            "worker": worker["name"],
            "first": long_day(maker.day(begin)),
            "last": long_day(maker.day(begin + 9)),
            "one": long_day(maker.day(begin + 1)),
            "two": long_day(maker.day(begin + 6)),
        },
    )


@situation("shifts", steps=6, common=True, without=_NO_SHIFTS, weight=0.95)
def ill_for_three_days(maker: Maker) -> Draft:
    """Somebody will be in hospital: the absence is recorded, and a colleague is asked to take the
    shifts that fall into it."""
    ill, mate, post = new_employee(maker), new_employee(maker), new_post(maker)
    begin = _far(maker)
    one = new_shift(maker, post, ill, begin, "early")
    two = new_shift(maker, post, ill, begin + 2, "late")
    new_shift(maker, post, ill, begin + 3, "early")
    new_shift(maker, post, ill, begin - 1, "early")
    return Draft(
        kind="change",
        ask=Voices(
            email="{ill} is having an operation and is off sick from {first} to {last}. Please "
            "record it and request [swaps] with {mate} for {ill.his} [shifts] in that time.",
            colleague="{ill} is off sick from {first} to {last}. Could you record that, please, "
            "and request [swaps] with {mate} for {ill.his} [shifts] in that time?",
            chat="{ill} is having an operation, off sick from {first} to {last}. can you put that "
            "in and request [swaps] with {mate} for {ill.his} [shifts] then",
            note="{ill} is going into hospital and will be off sick from {first} to {last}. Please "
            "record that, and request [swaps] with {mate} for all {ill.his} [shifts] in that "
            "time.",
        ),
        calls=(
            _who(ill),
            _who(mate),
            call(
                "record_absence",
                employee_id=ill["id"],
                first_day=maker.day(begin),
                last_day=maker.day(begin + 2),
                kind="sick",
            ),
            _shifts(maker, ill, begin, begin + 2),
            call("ask_swap", shift_id=one["id"], taker_id=mate["id"]),
            call("ask_swap", shift_id=two["id"], taker_id=mate["id"]),
        ),
        answer="{ill} is down as sick from {first} to {last}, and I've asked for [swaps] with "
        "{mate} for both [shifts] in that time.",
        values={
            "ill": ill["name"],
            "mate": mate["name"],
            "first": long_day(maker.day(begin)),
            "last": long_day(maker.day(begin + 2)),
        },
    )


@situation("shifts", kind="decline", because="permission", steps=3, common=True, without=_NO_SHIFTS)
def strike_it_from_the_rota(maker: Maker) -> Draft | None:
    """A clerk shall delete a shift."""
    if is_ranked(maker, "supervisor"):
        return None
    worker, post, day = new_employee(maker), new_post(maker), _far(maker)
    new_shift(maker, post, worker, day, "early")
    new_shift(maker, post, worker, day + 1, "early")
    return Draft(
        kind="decline",
        ask=Voices(
            email="{worker} is down for the early [shift] on {day}, but we're closed that "
            "morning. Could you take {worker.him} off the rota?",
            colleague="We're closed on {day}, but {worker} is still on the rota. Could you take "
            "{worker.him} off for that day, please?",
            chat="can you take {worker} off the rota on {day}? we dont open that morning",
            note="The water will be turned off on {day}, so we're not opening until noon. {worker} "
            "is still down for the early [shift]; please take {worker.him} off the rota.",
        ),
        calls=(call("get_my_profile"), _who(worker), _shifts(maker, worker, day)),
        answer="I couldn't delete {worker}'s [shift] on {day}: only [supervisors] and [managers] "
        "can do that, so one of them has to.",
        values={"worker": worker["name"], "day": long_day(maker.day(day))},
        reasons=("[supervisors]", "[managers]", "role", "permission"),
        tempts=("drop_shift", "ask_swap"),
    )


@situation("shifts", steps=5, common=True, without=_NO_SHIFTS)
def asked_for_the_wrong_day(maker: Maker) -> Draft:
    """A swap was asked for the wrong one of two shifts; it is withdrawn and asked anew."""
    giver, taker, post = new_employee(maker), new_employee(maker), new_post(maker)
    day = _far(maker)
    wrong = new_shift(maker, post, giver, day, "late")
    right = new_shift(maker, post, giver, day + 7, "late")
    swap = new_swap(maker, wrong, taker)
    return Draft(
        kind="change",
        ask=Voices(
            email="{giver} has mixed up the dates: the [swap] with {taker} should be for {right} "
            "and not for {wrong}. Could you withdraw the old one and ask for the right one?",
            colleague="{giver}'s [swap] with {taker} was requested for {wrong}, but it should have "
            "been for {right}. Could you withdraw it and request the right one?",
            chat="{giver} mixed up the dates, the [swap] with {taker} should be for {right} and "
            "not {wrong}. can you fix that",
            note="{giver} and {taker} want to swap on {right}, but somebody has requested it for "
            "{wrong}. Please withdraw that [swap] and request one for the right day. Both of them "
            "know.",
        ),
        calls=(
            _who(giver),
            _swaps(giver),
            call("withdraw_swap", swap_id=swap["id"]),
            _shifts(maker, giver, day + 7),
            call("ask_swap", shift_id=right["id"], taker_id=taker["id"]),
        ),
        answer="I've withdrawn the [swap] for {wrong} and asked for one with {taker} for the "
        "[shift] on {right}.",
        values={
            "giver": giver["name"],
            "taker": taker["name"],
            "wrong": long_day(wrong["worked_on"]),
            "right": long_day(right["worked_on"]),
        },
    )
