"""Situations about shifts: gaps, swaps, people who are away, posts that need somebody senior."""

from scenarios.api import Row
from scenarios.format import Call
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.situations import situation
from scenarios.generate.core.task_drafts import Draft, Voices, call
from scenarios.generate.modules.draft_helpers import is_ranked, long_day
from scenarios.generate.modules.shifts.make import new_post, new_shift, new_swap
from scenarios.generate.modules.staff.make import new_absence, new_employee


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


@situation("shifts", steps=6)
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
            email="{giver} sent me this: “I've found people to take both of my [shifts], {free} "
            "and {away}. Could you agree to the [swaps]?” Please check whether the two are in on "
            "those days: agree if they are, refuse if they're away.",
            colleague="{giver} has asked for two [swaps]. Approve the one where the colleague is "
            "in that day, refuse the one where the colleague is away.",
            chat="{giver} has 2 [swaps] waiting ({free}, {away}). can you agree to them unless "
            "one of them is on leave that day, then refuse",
            note="{giver} has asked for two [swaps], one with {free} and one with {away}. Please "
            "decide on them for me: agree, unless the person who'd take the [shift] is absent "
            "that day.",
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


@situation("shifts", steps=6, common=True)
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
            email="{giver} writes: “My sister is getting married on {day} and {taker} would take "
            "my [shift]. We only need your approval.” Please check whether {taker} can work at "
            "that post, and agree to the [swap] or refuse it.",
            colleague="{giver} wants to give {giver.his} [shift] on {day} to {taker}. Approve "
            "the [swap] if {taker} may work at that post, otherwise refuse it.",
            chat="{giver} wants {taker} to take their [shift] on {day}. is {taker} even allowed "
            "to work at that post? agree or refuse, whatever the rules say",
            note="{giver} has asked for a [swap] with {taker} on {day}. I'm out today, so please "
            "decide on it. Check first whether {taker} can work at that post.",
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


@situation("shifts", kind="decline", steps=3, common=True)
def swap_for_tomorrow(maker: Maker) -> Draft:
    """A swap is wanted for a shift that is too near; the system would take it."""
    notice = maker.parameters["SWAP_NOTICE_DAYS"]
    giver, taker, post = new_employee(maker), new_employee(maker), new_post(maker)
    soon = new_shift(maker, post, giver, notice - 1, "late")
    new_shift(maker, post, giver, notice + 6, "late")
    return Draft(
        kind="decline",
        ask=Voices(
            email="{giver} has asked me: “I've got tickets for the match on {day}, and {taker} "
            "would work for me. Could you ask for the [swap]?” That's fine with me, so please do.",
            colleague="{taker} is taking {giver}'s [shift] on {day}. Please put in the [swap].",
            chat="{giver} and {taker} want to swap on {day}, can you put in the [swap]",
            note="{giver} would like to have {day} off, and {taker} is happy to take the "
            "[shift]. Please ask for the [swap] in the system.",
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


@situation("shifts", steps=7, common=True)
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
            email="{giver} wrote to me: “I have an exam on {day} and can't come in. {busy} or "
            "{free} would take my [shift].” Please ask for [a swap] with {busy}, or with {free} "
            "if {busy} already works that day.",
            colleague="{giver} needs somebody to take {giver.his} [shift] on {day}. {busy} if "
            "{busy.he}'s not working that day, otherwise {free}. Ask for the [swap].",
            chat="{giver} has an exam on {day}. can you ask for [a swap] with {busy}, or {free} "
            "if {busy} already works that day",
            note="{giver} can't work on {day} because of an exam. Please ask for [a swap]: "
            "{busy} would take it, or {free} if {busy} has [a shift] that day already. Both have "
            "said yes.",
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


@situation("shifts", kind="decline", steps=3)
def anybody_will_do_at_the_desk(maker: Maker) -> Draft:
    """A clerk shall staff a post that needs somebody senior; the system would take them."""
    post, worker, day = new_post(maker, needs_rank="senior"), new_employee(maker), _far(maker)
    return Draft(
        kind="decline",
        ask=Voices(
            email="Message from {worker}: “If you still need somebody for the early [shift] at "
            "{post} on {day}, I'd be glad to do it.” We do, and I haven't got anybody else. "
            "Please put {worker.him} down for it.",
            colleague="Nobody's on at {post} early on {day}. Please put {worker} down.",
            chat="need someone for {post} early on {day}, can you put {worker} in",
            note="Nobody is down for the early [shift] at {post} on {day}. {worker} has offered "
            "to do it, so please put {worker.him} down for it.",
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


@situation("shifts", kind="question", steps=2, common=True)
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
            email="{worker} sent me this: “Which nights am I working between {first} and {last}? "
            "I need to find somebody for my dog.” Please give me the days so that I can reply.",
            colleague="On which days does {worker} have nights from {first} to {last}?",
            chat="which nights does {worker} have {first} - {last}? just the days",
            note="The company doctor is asking about {worker}'s nights. On which days from "
            "{first} to {last} does {worker.he} have one? The early and late ones don't matter.",
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


@situation("shifts", steps=6, common=True)
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
            email="{ill} writes: “I'm having an operation on my foot and will be off sick from "
            "{first} to {last}. {mate} has offered to take my [shifts].” Please record that as "
            "sick and ask for the [swaps] with {mate}.",
            colleague="{ill} is off sick from {first} to {last}. Please record that and ask for "
            "[swaps] with {mate} for all {ill.his} [shifts].",
            chat="{ill} is having an operation, sick from {first} til {last}. can you record "
            "that and ask for [swaps] with {mate} for the [shifts] in those days",
            note="{ill} will be in hospital, so please record {ill.him} as sick from {first} to "
            "{last}. {mate} takes over what {ill} would have worked in that time; please ask for "
            "the [swaps].",
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


@situation("shifts", kind="decline", because="permission", steps=3, common=True)
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
            email="From {worker}: “I'm down for {day}, but we're closed that morning. Could you "
            "take me off?” {worker.He}'s right. Please delete that [shift].",
            colleague="{worker} is on the rota for {day}, but we're closed then. Please delete "
            "that [shift].",
            chat="can you take {worker} off the rota on {day}? we don't open in the morning",
            note="We're closed on the morning of {day} because of the roadworks, but {worker} is "
            "still down for the early [shift]. Please delete it.",
        ),
        calls=(call("get_my_profile"), _who(worker), _shifts(maker, worker, day)),
        answer="I couldn't delete {worker}'s [shift] on {day}: only [supervisors] and [managers] "
        "can do that, so one of them has to.",
        values={"worker": worker["name"], "day": long_day(maker.day(day))},
        reasons=("[supervisors]", "[managers]", "role", "permission"),
        tempts=("drop_shift", "ask_swap"),
    )


@situation("shifts", steps=5, common=True)
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
            email="{giver} has asked me: “My mistake: I gave you {wrong} for the [swap] with "
            "{taker}, but it should be {right}. I'll work on {wrong} as planned.” Please "
            "withdraw the old one and ask for the right one.",
            colleague="{giver}'s [swap] with {taker} was put in for {wrong}, but it should be "
            "{right}. Please correct it.",
            chat="{giver} mixed up the dates: the [swap] with {taker} should be for {right}, not "
            "{wrong}. can you fix that",
            note="{giver} and {taker} want to swap on {right}, but somebody has put it in for "
            "{wrong}. Please withdraw that one and ask for the right one instead. They both know.",
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
