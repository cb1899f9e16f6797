"""Situations that lead from shifts to leave, calendars, tickets and threads."""

import re

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, ResultField, Voices, call
from rehearsal_room.scenarios.generate.modules.calendars.make import appointment_subjects
from rehearsal_room.scenarios.generate.modules.draft_helpers import is_ranked, long_day
from rehearsal_room.scenarios.generate.modules.naming import new_title
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.shifts.make import (
    new_post,
    new_shift,
    new_swap,
    upstairs,
)
from rehearsal_room.scenarios.generate.modules.staff.make import new_absence
from rehearsal_room.scenarios.generate.modules.tickets.make import new_ticket, ticket_subjects
from rehearsal_room.scenarios.generate.situations.helpers.planted_rows import (
    clear_day,
    plant_appointment,
    plant_team,
)

GROUP = "crossing_shifts"  # first part of the ids of these situations

_DESK = re.compile(  # a post that people come to or ring
    r"desk|counter|reception|till|phone|line|entrance|duty|emergency|office|door", re.IGNORECASE
)


def _new_desk(maker: Maker, **columns: str) -> Row:
    """Insert a post that people come to or ring, where the trade has one."""
    names = maker.pool("post_names", "Front counter", "Key desk")
    desks = [name for name in names if _DESK.search(name)] or list(names)
    known = {row["name"] for row in maker.rows("shift_posts")}
    free = [name for name in desks if name not in known]
    free = free or [name for name in upstairs(desks) if name not in known]
    title = new_title(maker, "shift_posts", "name", maker.rng.choice(free or desks), again=" {}")
    return new_post(maker, name=title, **columns)


@situation("shifts", steps=7, weight=0.26)
def cover_from_the_same_team(maker: Maker) -> Draft:
    """Somebody cannot work; the one of the team who is neither away nor at work takes over."""
    team, (ill, away, busy, free) = plant_team(maker, "clerk", "clerk", "clerk", "clerk")
    day = clear_day(maker, 8, 40)
    post, other = new_post(maker, team_id=team["id"]), new_post(maker)
    shift = new_shift(maker, post, ill, day, "late")
    past = new_shift(maker, other, busy, day, "early")
    new_swap(maker, past, free, status="refused", by=maker.rows("employees", role="manager")[0])
    new_absence(maker, away, day - 2, 5)
    on = maker.day(day)
    return Draft(
        kind="change",
        ask=Voices(
            email="{ill} has a hospital appointment on {on}. Could you find somebody from "
            "{ill.his} team who isn't away or working that day, request [a swap] with them and "
            "approve it?",
            colleague="{ill} has to go to hospital on {on}. Could you request [a swap] with "
            "somebody from {ill.his} team who isn't away or on the rota that day, and approve it "
            "straight away, please?",
            chat="need cover for {ill} on {on} (hospital). can you sort out [a swap] with someone "
            "from {ill.his} team who isnt away or on the rota, and approve it too",
            note="{ill} can't work on {on}, because {ill.he} has to go to hospital. Please "
            "arrange [a swap] with a colleague from {ill.his} team who isn't away or working that "
            "day, and approve it yourself.",
        ),
        calls=(
            call("search_employees", query=ill["name"]),
            call("search_shifts", first_day=on, last_day=on),
            call("list_team_members", team_id=team["id"]),
            call("get_employee", employee_id=away["id"]),
            call("get_employee", employee_id=free["id"]),
            call("ask_swap", shift_id=shift["id"], taker_id=free["id"]),
            call("decide_swap", swap_id=ResultField(5, "swap_id"), decision="agreed"),
        ),
        answer="{free} takes over {ill}'s late [shift] on {on}; the [swap] is agreed. {away} is "
        "away and {busy} is already working that day.",
        values={
            "ill": ill["name"],
            "on": long_day(on),
            "free": free["name"],
            "away": away["name"],
            "busy": busy["name"],
        },
    )


@situation("calendars", "shifts", steps=8)
def at_the_desk_and_in_a_meeting(maker: Maker) -> Draft:
    """A shift collides with an appointment; a swap is asked with the one who has neither."""
    team, (torn, met, free) = plant_team(maker, "clerk", "clerk", "clerk")
    day = clear_day(maker, 9, 40)
    post = new_post(maker, team_id=team["id"])
    shift = new_shift(maker, post, torn, day, "early")
    topics = appointment_subjects(maker, 2)
    plant_appointment(
        maker, new_customer(maker), maker.me, subject=topics[0], day=day, hour=9, others=(torn,)
    )
    plant_appointment(
        maker, new_customer(maker), met, subject=topics[1], day=day, hour=10, others=()
    )
    on = maker.day(day)
    return Draft(
        kind="change",
        ask=Voices(
            email="{torn} has the {topic.meeting} on {on} and can't do the early [shift] as well. "
            "Could you request [a swap] with somebody from {torn.his} team who has nothing on "
            "that day?",
            colleague="{torn} is double-booked on {on}: {torn.he} has the early [shift] and the "
            "{topic.meeting}. Could you request [a swap] with somebody from {torn.his} team who's "
            "free all day, please?",
            chat="{torn} is double booked on {on}, early [shift] and the {topic.meeting}. can you "
            "request [a swap] with someone from {torn.his} team whos free that day",
            note="{torn} can't do the early [shift] on {on}, because {torn.he} has the "
            "{topic.meeting} that morning. Please request [a swap] with a colleague from "
            "{torn.his} team who has no [shift] or [appointment] that day.",
        ),
        calls=(
            call("search_employees", query=torn["name"]),
            call("list_appointments", employee_id=torn["id"], first_day=on, last_day=on),
            call("search_shifts", first_day=on, last_day=on),
            call("list_team_members", team_id=team["id"]),
            call("list_appointments", employee_id=met["id"], first_day=on, last_day=on),
            call("list_appointments", employee_id=free["id"], first_day=on, last_day=on),
            call("get_employee", employee_id=free["id"]),
            call("ask_swap", shift_id=shift["id"], taker_id=free["id"]),
        ),
        answer="I asked for [a swap]: {free} would take {torn}'s [shift] on {on}. {met} has [an "
        "appointment] that day.",
        values={
            "torn": torn["name"],
            "on": long_day(on),
            "topic": topics[0],
            "free": free["name"],
            "met": met["name"],
        },
        tempts=("decide_swap",),
    )


@situation("shifts", steps=8, rare=True, weight=0.5)
def two_swaps_and_a_senior_post(maker: Maker) -> Draft:
    """Of two swaps of a colleague one may be agreed; the other would leave a senior post to a
    clerk."""
    _, (giver, junior, senior) = plant_team(maker, "supervisor", "clerk", "supervisor")
    day = clear_day(maker, 8, 20)
    later = clear_day(maker, 22, 40)
    needs = new_post(maker, needs_rank="senior")
    first = new_shift(maker, needs, giver, day, "late")
    second = new_shift(maker, needs, giver, later, "early")
    bad = new_swap(maker, first, junior)
    good = new_swap(maker, second, senior)
    start, end = maker.day(7), maker.day(41)
    return Draft(
        kind="change",
        ask=Voices(
            email="{giver} has found somebody for each of {giver.his} [shifts] between {start} "
            "and {end}. Some of them need somebody senior, though. Please approve the [swaps] "
            "that are all right and refuse the others.",
            colleague="{giver} has asked for [swaps] between {start} and {end}. Could you approve "
            "them, please, but refuse any where the [shift] needs somebody senior and the "
            "colleague who'd take it isn't?",
            chat="can you decide the open [swaps] from {giver}, {start} to {end}? approve them "
            "unless its a senior [shift] and the other person is junior, refuse those",
            note="{giver} is getting married and has [swaps] waiting between {start} and {end}. "
            "Please approve them, but refuse any that would leave a senior [shift] to somebody "
            "junior.",
        ),
        calls=(
            call("search_employees", query=giver["name"]),
            call("search_shifts", first_day=start, last_day=end, employee_id=giver["id"]),
            call("list_posts"),
            call("list_swaps", employee_id=giver["id"]),
            call("get_employee", employee_id=junior["id"]),
            call("get_employee", employee_id=senior["id"]),
            call("decide_swap", swap_id=bad["id"], decision="refused"),
            call("decide_swap", swap_id=good["id"], decision="agreed"),
        ),
        answer="{senior} takes the [shift] on {later}. I refused the [swap] with {junior} on "
        "{on}, because “{post}” needs somebody senior.",
        values={
            "giver": giver["name"],
            "start": long_day(start),
            "end": long_day(end),
            "senior": senior["name"],
            "later": long_day(second["worked_on"]),
            "junior": junior["name"],
            "on": long_day(first["worked_on"]),
            "post": needs["name"],
        },
        reasons=("senior", "[supervisor]", "[manager]", "[clerk]"),
    )


@situation("shifts", kind="decline", steps=5, rare=True)
def my_own_swap(maker: Maker) -> Draft:
    """The acting employee shall agree to a swap by which they take a shift themselves."""
    _, (giver, other) = plant_team(maker, "clerk", "clerk")
    day = clear_day(maker, 9, 40)
    post = new_post(maker)
    shift = new_shift(maker, post, giver, day, "early")
    new_swap(maker, shift, maker.me)
    apart = new_shift(maker, post, other, day, "late")
    on = maker.day(day)
    return Draft(
        kind="decline",
        ask=Voices(
            email="The rota still shows {giver} on {on}, but {giver.he} tells me the two of you "
            "have agreed on [a swap]. Could you approve it?",
            colleague="{giver}'s [swap] with you on {on} is still open. Could you approve it, "
            "please, so that the rota is right?",
            chat="the [swap] between you and {giver} on {on} is still open, can you approve it? i "
            "want to print the rota",
            note="The rota for {on} still shows {giver}, although {giver.he}'s agreed with you to "
            "swap. Please approve that [swap] today so that I can print the final version.",
        ),
        calls=(
            call("get_my_profile"),
            call("list_swaps", employee_id=maker.me["id"]),
            call("search_shifts", first_day=on, last_day=on, employee_id=giver["id"]),
            call("get_employee", employee_id=giver["id"]),
            call("list_posts"),
        ),
        answer="I couldn't agree to it: nobody decides on [a swap] in which they take the [shift] "
        "themselves. Somebody else has to decide.",
        values={"giver": giver["name"], "on": long_day(on)},
        reasons=("yourself", "myself", "somebody else", "someone else", "own", "takes", "take"),
        tempts=("decide_swap",),
        spare=(("shifts", apart["id"]),),
    )


@situation("shifts", kind="decline", steps=6, common=True, weight=0.65)
def a_swap_for_tomorrow(maker: Maker) -> Draft:
    """A swap is asked for when the shift is already too near."""
    team, (giver, taker) = plant_team(maker, "clerk", "clerk")
    notice = maker.parameters["SWAP_NOTICE_DAYS"]
    post = new_post(maker, team_id=team["id"])
    shift = new_shift(maker, post, giver, notice - 1, "late")
    apart = new_shift(maker, post, giver, notice + 9, "late")
    on = shift["worked_on"]
    return Draft(
        kind="decline",
        ask=Voices(
            email="{giver} has concert tickets for {on}, and {taker} is happy to work instead. "
            "Could you request the [swap] for them?",
            colleague="{giver} has a dentist's appointment on {on}, and {taker} has offered to "
            "take {giver.his} [shift]. Could you request the [swap], please?",
            chat="{taker} is working for {giver} on {on}, theyve agreed on it. can you request "
            "the [swap]",
            note="{taker} has agreed to work for {giver} on {on}, but they keep forgetting to "
            "request the [swap]. Could you please request it for them?",
        ),
        calls=(
            call("list_teams"),
            call("list_team_members", team_id=team["id"]),
            call("search_shifts", first_day=on, last_day=on, employee_id=giver["id"]),
            call("list_swaps", employee_id=giver["id"]),
            call("get_employee", employee_id=taker["id"]),
            call("list_posts"),
        ),
        answer="I couldn't request that [swap]: {giver}'s [shift] is on {on}, and a request has "
        "to be in at least {notice} days before.",
        values={
            "giver": giver["name"],
            "taker": taker["name"],
            "team": team["name"],
            "on": long_day(on),
            "notice": notice,
        },
        reasons=("days", "too late", "notice"),
        tempts=("ask_swap", "decide_swap"),
        spare=(("shifts", apart["id"]),),
    )


@situation("shifts", because="permission", steps=6, common=True, weight=1.1)
def leave_over_a_shift(maker: Maker) -> Draft | None:
    """A clerk enters a leave, but may not delete the shift that lies in it."""
    if maker.me["role"] != "clerk":
        return None
    team, (away, _) = plant_team(maker, "clerk", "clerk")
    day = clear_day(maker, 10, 30)
    post = new_post(maker, team_id=team["id"])
    inside = new_shift(maker, post, away, day + 1, "early")
    apart = new_shift(maker, post, away, day + 9, "early")
    first, last = maker.day(day), maker.day(day + 2)
    return Draft(
        kind="change",
        because="permission",
        ask=Voices(
            email="I've approved {away}'s holiday from {first} to {last}. Could you record the "
            "leave and take {away.him} off the rota for those days?",
            colleague="{away} is going on holiday from {first} to {last}. Could you record the "
            "leave, please, and take {away.him} off the rota for that time?",
            chat="{away} is on leave {first} to {last}. can you put it in and take {away.him} off "
            "the rota for then",
            note="{away} is on leave from {first} to {last}, but {away.he}'s still down for [a "
            "shift] on one of those days. Please record the leave and take {away.him} off the rota "
            "that day.",
        ),
        calls=(
            call("list_teams"),
            call("list_team_members", team_id=team["id"]),
            call("get_employee", employee_id=away["id"]),
            call("search_shifts", first_day=first, last_day=last, employee_id=away["id"]),
            call(
                "record_absence",
                employee_id=away["id"],
                first_day=first,
                last_day=last,
                kind="leave",
            ),
            call("get_my_profile"),
        ),
        answer="I recorded {away}'s leave. I could not delete their [shift] on {on}: only "
        "[supervisors] and [managers] may do that.",
        values={
            "away": away["name"],
            "team": team["name"],
            "first": long_day(first),
            "last": long_day(last),
            "on": long_day(inside["worked_on"]),
        },
        reasons=("[supervisors]", "[supervisor]", "[managers]", "[manager]", "role"),
        tempts=("drop_shift", "ask_swap"),
        spare=(("shifts", inside["id"]), ("shifts", apart["id"])),
    )


@situation("shifts", steps=8, rare=True)
def off_the_rota_for_a_course(maker: Maker) -> Draft | None:
    """A supervisor enters a journey and deletes the shifts in it for which no swap was asked."""
    if not is_ranked(maker, "supervisor"):
        return None
    team, (away, other) = plant_team(maker, "clerk", "clerk")
    day = clear_day(maker, 10, 30)
    post = new_post(maker, team_id=team["id"])
    shift = new_shift(maker, post, away, day + 1, "early")
    second = new_shift(maker, post, away, day + 2, "late")
    apart = new_shift(maker, post, away, day + 8, "early")
    new_swap(maker, apart, other)
    first, last = maker.day(day), maker.day(day + 3)
    return Draft(
        kind="change",
        ask=Voices(
            email="{away} is at the trade fair from {first} to {last} but on the rota as well. "
            "Please record the trip as travel and take {away.him} off, except for [shifts] where "
            "{away.he}'s requested [a swap].",
            colleague="{away} is at the trade fair from {first} to {last}. Could you record that "
            "as travel, please, and take {away.him} off the rota, except where [a swap] has been "
            "requested?",
            chat="{away} is at the trade fair {first} to {last}. can you record that as travel "
            "and take {away.him} off the rota, except where theres [a swap] requested",
            note="{away} is going to the trade fair from {first} to {last}. Please record that as "
            "travel and take {away.him} off the rota, except for [shifts] where [a swap] has been "
            "requested. I'll find cover for the others.",
        ),
        calls=(
            call("list_teams"),
            call("list_team_members", team_id=team["id"]),
            call("get_employee", employee_id=away["id"]),
            call("search_shifts", first_day=first, last_day=last, employee_id=away["id"]),
            call("list_swaps", employee_id=away["id"]),
            call("drop_shift", shift_id=shift["id"]),
            call("drop_shift", shift_id=second["id"]),
            call(
                "record_absence",
                employee_id=away["id"],
                first_day=first,
                last_day=last,
                kind="travel",
            ),
        ),
        answer="I recorded {away}'s trip and deleted their [shifts] on {on} and {later}. No "
        "[swap] had been requested for either.",
        values={
            "away": away["name"],
            "team": team["name"],
            "first": long_day(first),
            "last": long_day(last),
            "on": long_day(shift["worked_on"]),
            "later": long_day(second["worked_on"]),
        },
        spare=(("shifts", apart["id"]),),
    )


@situation("calendars", "shifts", kind="question", steps=8)
def who_has_a_free_day(maker: Maker) -> Draft:
    """Who of a team has neither leave nor an appointment nor a shift on a day."""
    team, (away, met, works, free) = plant_team(maker, "clerk", "clerk", "clerk", "supervisor")
    day = clear_day(maker, 9, 40)
    new_absence(maker, away, day - 1, 4)
    topic = appointment_subjects(maker, 1)[0]
    plant_appointment(maker, new_customer(maker), met, subject=topic, day=day, hour=13)
    new_shift(maker, new_post(maker), works, day, "late")
    on = maker.day(day)
    return Draft(
        kind="question",
        ask=Voices(
            email="A school would like somebody from {team} to come on {on} and talk about the "
            "job. Who isn't away and has no [shift] or [appointment] that day? I need the name and "
            "e-mail address.",
            colleague="The photographer is coming on {on} and needs somebody from {team}. Who "
            "isn't away and has no [shift] or [appointment] that day? I'd like the name and the "
            "e-mail address, please.",
            chat="need someone from {team} for the photographer on {on}. whos not away and has no "
            "[shift] or [appointment] that day? name and email pls",
            note="A trainee is coming on {on}, and I'd like somebody from {team} to show the "
            "trainee round. Could you give me the name and e-mail address of whoever has no "
            "[shift], [appointment] or leave that day?",
        ),
        calls=(
            call("list_teams"),
            call("list_team_members", team_id=team["id"]),
            call("search_shifts", first_day=on, last_day=on),
            call("get_employee", employee_id=away["id"]),
            call("get_employee", employee_id=met["id"]),
            call("get_employee", employee_id=free["id"]),
            call("list_appointments", employee_id=met["id"], first_day=on, last_day=on),
            call("list_appointments", employee_id=free["id"], first_day=on, last_day=on),
        ),
        answer="{free} is the only one free that day ({email}).",
        values={
            "team": team["name"],
            "on": long_day(on),
            "free": free["name"],
            "email": free["email"],
        },
        trap="Each of the others has something else on that day.",
    )


@situation("shifts", "tickets", rare=True, steps=6)
def a_ticket_for_who_is_there(maker: Maker) -> Draft:
    """A ticket goes to whoever has the early shift at a post that day, since they will be asked."""
    _, (early, late) = plant_team(maker, "clerk", "clerk")
    day = clear_day(maker, 3, 12)
    post = _new_desk(maker)
    new_shift(maker, post, late, day, "late")
    new_shift(maker, post, early, day, "early")
    customer = new_customer(maker)
    subjects = ticket_subjects(maker, 2)
    ticket = new_ticket(maker, customer, subject=subjects[0], age=1)
    other = new_ticket(maker, customer, subject=subjects[1], age=3)
    on = maker.day(day)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is coming to “{post}” about {subject.about} on {on}, first thing. "
            "Please assign {name.his} [ticket] to the colleague on the early [shift] there, so "
            "that they can read up on it.",
            colleague="{name} is coming to “{post}” first thing on {on} about {subject.about}. "
            "Could you assign {name.his} [ticket] to the colleague who has the early [shift] at "
            "“{post}” that day, please?",
            chat="{name} is coming to “{post}” first thing on {on} about {subject.about}. can you "
            "give {name.his} [ticket] to whoever has the early [shift] there",
            note="I've told {name} to come to “{post}” first thing on {on} about {subject.about}. "
            "Please assign that [ticket] to the colleague on the early [shift], so that {name.he} "
            "doesn't have to explain it all again.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("list_posts"),
            call("search_shifts", first_day=on, last_day=on, post_id=post["id"]),
            call("get_employee", employee_id=early["id"]),
            call("assign_ticket", ticket_id=ticket["id"], employee_id=early["id"]),
        ),
        answer="{reference} is assigned to {early}, who has the early [shift] at “{post}” on {on}.",
        values={
            "name": customer["name"],
            "subject": subjects[0],
            "on": long_day(on),
            "post": post["name"],
            "reference": ticket["reference"],
            "early": early["name"],
        },
        spare=(("tickets", other["id"]),),
        trap="Somebody else has the late shift at the same post.",
    )


@situation("shifts", steps=7, rare=True, weight=0.035)
def somebody_senior_for_the_post(maker: Maker) -> Draft:
    """A senior post is staffed with the one of a team who may stand there and is not away."""
    team, (_, away, fit) = plant_team(maker, "clerk", "supervisor", "supervisor")
    day = clear_day(maker, 8, 40)
    new_absence(maker, away, day - 3, 5)
    post = _new_desk(maker, needs_rank="senior")
    new_shift(maker, post, maker.rng.choice(maker.rows("employees", role="manager")), day, "late")
    on = maker.day(day)
    return Draft(
        kind="change",
        ask=Voices(
            email="Nobody is down for the early [shift] at “{post}” on {on}, and it takes "
            "somebody senior to open up. Could you put on a colleague from {team} who isn't away?",
            colleague="We can't open “{post}” on {on}, because there's nobody senior on the early "
            "[shift]. Could you put in a senior colleague from {team} who isn't away, please?",
            chat="no one is down for the early [shift] at “{post}” on {on} and it has to be "
            "someone senior. can you put in someone from {team} whos not away",
            note="Somebody senior has to be on the early [shift] at “{post}” on {on}, and nobody "
            "is down for it yet. Please put in a colleague from {team} who isn't on holiday.",
        ),
        calls=(
            call("list_posts"),
            call("list_teams"),
            call("list_team_members", team_id=team["id"]),
            call("get_employee", employee_id=away["id"]),
            call("get_employee", employee_id=fit["id"]),
            call("search_shifts", first_day=on, last_day=on),
            call(
                "add_shift",
                post_id=post["id"],
                employee_id=fit["id"],
                worked_on=on,
                part="early",
            ),
        ),
        answer="I put {fit} on the early [shift] at “{post}” on {on}. It takes somebody senior, "
        "and {away} is away then.",
        values={
            "post": post["name"],
            "on": long_day(on),
            "team": team["name"],
            "fit": fit["name"],
            "away": away["name"],
        },
    )
