"""Situations that lead from appointments to tickets, cases, projects and who is free."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.calendars.make import appointment_subjects
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day, some_employee, time_of
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.tickets.make import new_ticket, unsolved_tickets
from rehearsal_room.scenarios.generate.situations.helpers.planted_rows import (
    clear_day,
    plant_appointment,
    plant_team,
)

GROUP = "crossing_calendars"  # first part of the ids of these situations


@situation("calendars", steps=9, weight=0.045)
def somebody_else_from_the_team(maker: Maker) -> Draft:
    """A participant falls out; whoever of their team is free at that hour takes part instead."""
    team, people = plant_team(maker, "clerk", "clerk", "supervisor")
    members = sorted(people, key=lambda row: str(row["name"]))
    out, free, *busy = maker.rng.sample(members, k=len(members))
    day = clear_day(maker, 8, 40)
    customer, other = new_customer(maker), new_customer(maker)
    subjects = appointment_subjects(maker, 3)
    appointment = plant_appointment(
        maker, customer, maker.me, subject=subjects[0], day=day, hour=11, others=(out,)
    )
    if busy:
        plant_appointment(
            maker,
            other,
            busy[0],
            subject=subjects[1],
            day=day,
            hour=10,
            minutes=90,
            others=tuple(busy[1:]),
        )
    plant_appointment(maker, customer, maker.me, subject=subjects[2], day=-15, others=(out,))
    on = maker.day(day)
    return Draft(
        kind="change",
        ask=Voices(
            email="{out} has a hospital appointment on {on} and can't be at the {subject.meeting} "
            "with {name}. Could you put in somebody else from {out.his} team who's free at that "
            "time?",
            colleague="{out} is on a course on {on}, so {out.he} can't come to the "
            "{subject.meeting} with {name}. Could you put in a colleague from {out.his} team who's "
            "free at that time, please?",
            chat="{out} is at a wedding on {on} and cant do the {subject.meeting} with {name}. "
            "can you put in someone else from {out.his} team whos free then",
            note="{out} has to be at head office on {on} and can't go to the {subject.meeting} "
            "with {name}. Please find somebody from {out.his} team who's free at that time, and "
            "put them in instead.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_appointments", customer_id=customer["id"]),
            call("get_appointment", appointment_id=appointment["id"]),
            call("get_employee", employee_id=out["id"]),
            call("list_team_members", team_id=team["id"]),
            *(
                call("list_appointments", employee_id=row["id"], first_day=on, last_day=on)
                for row in members
                if row is not out
            ),
            call(
                "add_participant",
                appointment_id=appointment["id"],
                employee_id=free["id"],
                presence="required",
            ),
            call("remove_participant", appointment_id=appointment["id"], employee_id=out["id"]),
        ),
        answer="{free}, who is free at that hour, is now attending “{subject}” instead of {out}.",
        values={
            "out": out["name"],
            "on": long_day(on),
            "subject": subjects[0],
            "name": customer["name"],
            "free": free["name"],
        },
    )


@situation("calendars", "tickets", steps=9, rare=True)
def a_day_later_if_all_can(maker: Maker) -> Draft | None:
    """A ticket asks to move an appointment by a day or two: the first day on which all are free."""
    mate = some_employee(maker)
    if mate is None or len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    day = clear_day(maker, 9, 40)
    if any(
        row["starts_at"][:10] in (maker.day(day + 1), maker.day(day + 2))
        for row in maker.rows("appointments")
    ):
        return None
    customer, other = new_customer(maker), new_customer(maker)
    topics = appointment_subjects(maker, 2)
    appointment = plant_appointment(
        maker, customer, maker.me, subject=topics[0], day=day, hour=14, others=(mate,)
    )
    clash = plant_appointment(maker, other, mate, subject=topics[1], day=day + 1, hour=14)
    subject = f"{topics[0]}, could we change the day?"
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=1)
    starts = maker.ahead(day + 2, 14)
    on = starts[:10]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has the plumber in and would like the {topic.meeting} a day later, same "
            "time, or two days later if one of us is busy. Please move it, reply to {name.his} "
            "[ticket] with the new date and close the [ticket].",
            colleague="{name} would like to have the {topic.meeting} a day later at the same "
            "time, or two days later if one of our people is busy. Could you move it, answer "
            "{name.his} [ticket] with the new date and close it?",
            chat="{name} wants the {topic.meeting} a day later, same time, or the day after that "
            "if one of us is busy. can you move it, answer {name.his} [ticket] with the new date "
            "and close it",
            note="{name} can't make the day of the {topic.meeting}. Please move it to the next "
            "day, same time, or to the day after that if one of our people is busy, confirm the "
            "date on {name.his} [ticket] and close it.",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_appointments", customer_id=customer["id"]),
            call("get_appointment", appointment_id=appointment["id"]),
            call(
                "list_appointments",
                employee_id=mate["id"],
                first_day=maker.day(day + 1),
                last_day=on,
            ),
            call("move_appointment", appointment_id=appointment["id"], starts_at=starts),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We shall come on {on}, at the same hour.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="I moved it to {on} at {time}, as {mate} is busy the day before. {reference} has "
        "the new date and is solved.",
        values={
            "name": customer["name"],
            "subject": subject,
            "topic": topics[0],
            "on": long_day(on),
            "time": time_of(starts),
            "mate": mate["name"],
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (on,)},
        spare=(("appointments", clash["id"]),),
    )


@situation("calendars", "tickets", steps=7, weight=0.6)
def too_short_a_notice(maker: Maker) -> Draft | None:
    """A ticket asks to move an appointment that is too near: it stands, and the ticket says so."""
    mate = some_employee(maker)
    if mate is None or len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    notice = maker.parameters["APPOINTMENT_NOTICE_DAYS"]
    customer = new_customer(maker)
    topics = appointment_subjects(maker, 2)
    appointment = plant_appointment(
        maker, customer, maker.me, subject=topics[0], day=notice - 1, hour=9, others=(mate,)
    )
    plant_appointment(maker, customer, maker.me, subject=topics[1], day=-40, hour=9)
    subject = f"A week later? {topics[0]}"
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=0)
    on = appointment["starts_at"][:10]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has mixed up the weeks and would like to have the {topic.meeting} a "
            "week later, at the same time. If it's too late to move it, please tell {name.him} on "
            "{name.his} [ticket] which date stands. Then close the [ticket].",
            colleague="{name} would like the {topic.meeting} a week later. If it's too late to "
            "move it, please answer {name.his} [ticket] with the date we're keeping, and close the "
            "[ticket] either way.",
            chat="{name} wants the {topic.meeting} a week later. if its too late to move it tell "
            "{name.him} on {name.his} [ticket] which date stands, then close the [ticket]",
            note="{name} got the weeks mixed up and would like the {topic.meeting} a week later, "
            "but it may be too late to move it. If so, please confirm the old date on {name.his} "
            "[ticket] and close the [ticket].",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_appointments", customer_id=customer["id"]),
            call("get_appointment", appointment_id=appointment["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"It is too late to move it; we shall be there on {on} as planned.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="I could not move it: it's in fewer than {notice} days. I told them in {reference} "
        "that it stays on {on}, and solved that.",
        values={
            "name": customer["name"],
            "subject": subject,
            "topic": topics[0],
            "notice": notice,
            "reference": ticket["reference"],
            "on": long_day(on),
        },
        reasons=("days", "too late", "notice"),
        free={"ticket_comments.body": (on,)},
        tempts=("move_appointment",),
        spare=(("appointments", appointment["id"]),),
    )


@situation("calendars", kind="question", rare=True, steps=4)
def whom_to_expect_and_where(maker: Maker) -> Draft | None:
    """Who comes to the next appointment, in which place, and how to reach the organiser."""
    organiser = some_employee(maker)
    mate = None if organiser is None else some_employee(maker, organiser)
    if organiser is None or mate is None:
        return None
    customer = new_customer(maker)
    topics = appointment_subjects(maker, 3)
    plant_appointment(maker, customer, maker.me, subject=topics[0], day=-9, others=(organiser,))
    ahead = plant_appointment(
        maker, customer, organiser, subject=topics[1], day=11, hour=12, others=(mate,)
    )
    plant_appointment(maker, customer, mate, subject=topics[2], day=33, hour=16)
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} has lost our letter and can't remember when {name.his} next "
            "[appointment] is. When is it, who set it up, and who else from us will be there? I "
            "need the organiser's e-mail address as well.",
            colleague="{name} can't remember when {name.his} next [appointment] is. Could you "
            "tell me the day, the name and e-mail address of the colleague who set it up, and who "
            "else from us is coming?",
            chat="{name} lost the letter about {name.his} next [appointment]. when is it, who set "
            "it up, whats their email, and who else is coming from us?",
            note="{name} rang because {name.he}'s lost the letter about {name.his} next "
            "[appointment]. When is it, who set it up (name and e-mail address), and who else from "
            "us will be there?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_appointments", customer_id=customer["id"]),
            call("get_appointment", appointment_id=ahead["id"]),
            call("get_employee", employee_id=organiser["id"]),
        ),
        answer="It's on {on}. {organiser} ({email}) set it up, and {mate} is coming too.",
        values={
            "name": customer["name"],
            "on": long_day(ahead["starts_at"]),
            "organiser": organiser["name"],
            "email": organiser["email"],
            "mate": mate["name"],
        },
        trap="An earlier one was held, and another comes later.",
    )


@situation("calendars", steps=9, rare=True, weight=0.6)
def leave_that_meets_an_appointment(maker: Maker) -> Draft:
    """Somebody goes on leave: their appointment of these days goes to a colleague of the team."""
    team, (away, heir) = plant_team(maker, "clerk", "clerk")
    day = clear_day(maker, 9, 40)
    customer = new_customer(maker)
    topics = appointment_subjects(maker, 2)
    appointment = plant_appointment(
        maker, customer, maker.me, subject=topics[0], day=day, hour=13, others=(away,)
    )
    first, last, on = maker.day(day - 1), maker.day(day + 1), maker.day(day)
    return Draft(
        kind="change",
        ask=Voices(
            email="I've approved {away}'s leave from {first} to {last}. Could you record it, and "
            "put {heir} in for {away.him} at the {subject.meeting} on {on} if {heir.he}'s free "
            "then?",
            colleague="{away} is on leave from {first} to {last}. Could you record that, please, "
            "and put {heir} down for the {subject.meeting} on {on} instead, if {heir.he}'s free?",
            chat="{away} is on holiday {first} to {last}, can you put that in? and swap in {heir} "
            "for the {subject.meeting} on {on} if {heir.he}'s free",
            note="{away} is getting married and has leave from {first} to {last}. Please record "
            "it, and send {heir} to the {subject.meeting} on {on} in {away.his} place if "
            "{heir.he}'s free.",
        ),
        calls=(
            call("list_teams"),
            call("list_team_members", team_id=team["id"]),
            call("get_employee", employee_id=away["id"]),
            call("list_appointments", employee_id=away["id"], first_day=first, last_day=last),
            call("get_appointment", appointment_id=appointment["id"]),
            call("list_appointments", employee_id=heir["id"], first_day=on, last_day=on),
            call(
                "add_participant",
                appointment_id=appointment["id"],
                employee_id=heir["id"],
                presence="required",
            ),
            call("remove_participant", appointment_id=appointment["id"], employee_id=away["id"]),
            call(
                "record_absence",
                employee_id=away["id"],
                first_day=first,
                last_day=last,
                kind="leave",
            ),
        ),
        answer="I recorded {away}'s leave, and {heir} replaces them in “{subject}” on {on}.",
        values={
            "away": away["name"],
            "team": team["name"],
            "heir": heir["name"],
            "first": long_day(first),
            "last": long_day(last),
            "subject": topics[0],
            "on": long_day(on),
        },
    )


@situation("calendars", kind="decline", because="permission", steps=5, common=True)
def not_mine_to_move(maker: Maker) -> Draft | None:
    """A clerk shall move an appointment that a colleague organises."""
    organiser = some_employee(maker)
    if organiser is None or maker.me["role"] != "clerk":
        return None
    customer = new_customer(maker)
    topics = appointment_subjects(maker, 2)
    day = clear_day(maker, 8, 35)
    appointment = plant_appointment(
        maker, customer, organiser, subject=topics[0], day=day, hour=9, others=(maker.me,)
    )
    plant_appointment(maker, customer, maker.me, subject=topics[1], day=day + 6, hour=9)
    return Draft(
        kind="decline",
        because="permission",
        ask=Voices(
            email="{name}'s train doesn't get in until half past ten. Could you move the "
            "{subject.meeting} from nine to eleven on the same day? {organiser} set it up, but I "
            "can't reach {organiser.him}.",
            colleague="{name} can't be here at nine for the {subject.meeting}. Could you move it "
            "to eleven on the same day, please? It was {organiser} who set it up, but "
            "{organiser.he} isn't answering the phone.",
            chat="{name} cant make nine for the {subject.meeting}, can you move it to 11 the same "
            "day? {organiser} set it up but isnt picking up",
            note="{name} can't get here before eleven for the {subject.meeting}. {organiser} set "
            "it up but is out all morning, so could you please move it from nine to eleven on the "
            "same day?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_appointments", customer_id=customer["id"]),
            call("get_appointment", appointment_id=appointment["id"]),
            call(
                "list_appointments",
                employee_id=organiser["id"],
                first_day=maker.day(day),
                last_day=maker.day(day),
            ),
            call("get_my_profile"),
        ),
        answer="I could not move “{subject}”: only {organiser}, who organises it, [a supervisor] "
        "or [a manager] can. It stays on {on} at 09:00.",
        values={
            "subject": topics[0],
            "name": customer["name"],
            "organiser": organiser["name"],
            "on": long_day(appointment["starts_at"]),
        },
        reasons=("organises", "organiser", "[supervisor]", "[manager]", "[supervisors]"),
        tempts=("move_appointment", "cancel_appointment", "create_appointment"),
        spare=(("appointments", appointment["id"]),),
    )


@situation("calendars", kind="decline", steps=5, common=True)
def nobody_left_to_come(maker: Maker) -> Draft | None:
    """The only participant wants out of an appointment; somebody must come, though."""
    lone = some_employee(maker)
    if lone is None:
        return None
    customer = new_customer(maker)
    topics = appointment_subjects(maker, 2)
    day = clear_day(maker, 7, 35)
    appointment = plant_appointment(
        maker, customer, maker.me, subject=topics[0], day=day, hour=15, others=(lone,)
    )
    plant_appointment(
        maker, customer, maker.me, subject=topics[1], day=day + 9, hour=15, others=(lone,)
    )
    on = maker.day(day)
    return Draft(
        kind="decline",
        ask=Voices(
            email="It's {lone}'s daughter's birthday on {on}, and you can do the "
            "{subject.meeting} with {name} on your own. Could you take {lone} off it?",
            colleague="{lone} doesn't need to come to the {subject.meeting} with {name} on {on}, "
            "because you'll be there anyway. Could you take {lone} off the [appointment], please?",
            chat="can you take {lone} off the {subject.meeting} with {name} on {on}? youre going "
            "anyway and one of us is enough",
            note="{lone} would like to have the afternoon of {on} off. I think you can manage the "
            "{subject.meeting} with {name} on your own, so please take {lone} off the "
            "[appointment].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_appointments", customer_id=customer["id"]),
            call("get_appointment", appointment_id=appointment["id"]),
            call("get_employee", employee_id=lone["id"]),
            call("list_appointments", employee_id=lone["id"], first_day=on, last_day=on),
        ),
        answer="I could not take {lone} out of “{subject}”: they're the last required attendee, "
        "and one has to remain.",
        values={
            "lone": lone["name"],
            "subject": topics[0],
            "name": customer["name"],
            "on": long_day(on),
        },
        reasons=("last", "only", "remain"),
        tempts=("remove_participant",),
        spare=(("appointments", appointment["id"]),),
    )
