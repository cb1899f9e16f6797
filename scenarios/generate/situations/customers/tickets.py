"""Situations at the ticket desk: who deals with what, and what our rules make of a ticket."""

from collections.abc import Callable

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day, some_employee, team_of
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.tickets.make import (
    new_comment,
    new_ticket,
    ticket_subjects,
    unsolved_tickets,
    with_ticket_room,
)

GROUP = "ticket_desk"  # first part of the ids of these situations

# Subjects of tickets about what can stop, come back and get worse.
_LASTING = (
    "Cannot sign in to the online account",
    "Code from the text message does not work",
    "Letters go to the old address",
    "E-mails from you never arrive",
    "Name misspelt on every letter",
    "Statement shows the old bank account",
)


@situation("tickets", steps=5, common=True, weight=0.3)
def desk_of_a_sick_colleague(maker: Maker) -> Callable[[], Draft | None] | None:
    """The pressing tickets of somebody who is ill go to another colleague, the rest stays."""
    away = some_employee(maker)
    if away is None:
        return None
    for priority in ("high", "low", "high"):
        new_ticket(maker, new_customer(maker), priority=priority, assignee=away, age=1)

    def draft() -> Draft | None:
        pressing = [
            row for row in unsolved_tickets(maker, away) if row["priority"] in ("high", "urgent")
        ]
        heir = with_ticket_room(maker, len(pressing), away)
        if heir is None or len(pressing) > 4:
            return None
        pressing.sort(key=lambda row: (row["due_at"], row["id"]))
        stays = [row for row in unsolved_tickets(maker, away) if row not in pressing]
        return Draft(
            kind="change",
            ask=Voices(
                email="{away} has a fever and won't be in this week. Could you give {away.his} "
                "high and urgent [tickets] to {heir}? The others can wait.",
                colleague="{away} is off sick all week. Could you assign {away.his} high and "
                "urgent [tickets] to {heir}, please? The low and normal ones can stay with "
                "{away.him}.",
                chat="{away} is out sick til friday, can you give {away.his} high and urgent "
                "[tickets] to {heir}? the others can wait for {away.him}",
                note="{away} is off sick this week. Please assign {away.his} high and urgent "
                "[tickets] to {heir} today. The normal and low ones can wait until {away.he}'s "
                "back.",
            ),
            calls=(
                call("search_employees", query=heir["name"]),
                call("search_employees", query=away["name"]),
                call("find_tickets", assignee_id=away["id"]),
                *(
                    call("assign_ticket", ticket_id=row["id"], employee_id=heir["id"])
                    for row in pressing
                ),
            ),
            answer="{heir} now has {away}'s high and urgent [tickets]: {references}. The others "
            "are still with {away}.",
            values={
                "away": away["name"],
                "heir": heir["name"],
                "references": ", ".join(row["reference"] for row in pressing),
            },
            spare=tuple(("tickets", row["id"]) for row in stays),
            trap="Some tickets of the same colleague are low or normal.",
        )

    return draft


@situation("tickets", steps=4, common=True, weight=0.7)
def trouble_is_back_in_time(maker: Maker) -> Draft:
    """A solved problem has come back, within the days for reopening; another old one has not."""
    window = maker.parameters["TICKET_REOPEN_DAYS"]
    customer = new_customer(maker)
    back, gone = maker.rng.sample(_LASTING, k=2)
    keeper = maker.pick("employees", active=1)
    days = maker.rng.randrange(3, window)
    ticket = new_ticket(
        maker, customer, subject=back, status="solved", assignee=keeper, age=days + 3, solved=days
    )
    new_comment(maker, ticket, "We have put this right; please tell us if it comes back.")
    other = new_ticket(
        maker, customer, subject=gone, status="solved", assignee=keeper, age=days + 2, solved=days
    )
    new_comment(maker, other, "Done, as discussed on the phone.")
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has rung about {subject.about} again, so it isn't sorted out. Could "
            "you reopen the old [ticket]? If it's too late for that, open a new one with the "
            "same subject and normal priority.",
            colleague="We'd solved {name}'s [ticket] about {subject.about}, but the problem is "
            "back. Could you reopen the [ticket], please, or open a new one with the same "
            "subject and normal priority if it's too late?",
            chat="{name} just rang about {subject.about} again. can you reopen the old [ticket]? "
            "if its too late make a new one with the same subject, normal priority",
            note="{name} came in this morning because of {subject.about}, so the problem isn't "
            "solved after all. Please reopen the [ticket] if we still can. Otherwise open a new "
            "one with the same subject and normal priority.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("reopen_ticket", ticket_id=ticket["id"]),
        ),
        answer="I've reopened {reference}. It was solved on {day}, so it's still within the "
        "{window} days.",
        values={
            "name": customer["name"],
            "subject": back,
            "reference": ticket["reference"],
            "day": long_day(ticket["solved_at"]),
            "window": window,
        },
        spare=(("tickets", other["id"]),),
        tempts=("create_ticket",),
    )


@situation("tickets", steps=4)
def trouble_is_back_too_late(maker: Maker) -> Draft:
    """A problem has come back long after it was solved: it gets a new ticket, not the old one."""
    window = maker.parameters["TICKET_REOPEN_DAYS"]
    customer = new_customer(maker)
    back, fresh = maker.rng.sample(_LASTING, k=2)
    keeper = maker.pick("employees", active=1)
    days = window + maker.rng.randrange(4, 30)
    ticket = new_ticket(
        maker, customer, subject=back, status="solved", assignee=keeper, age=days + 2, solved=days
    )
    new_comment(maker, ticket, "Sorry again. It works from our side now.")
    other = new_ticket(maker, customer, subject=fresh, age=2)
    return Draft(
        kind="change",
        ask=Voices(
            email="We closed {name}'s [ticket] about {subject.about} some weeks ago, but the "
            "problem is still there. Could you reopen it? If it's been closed for too long, "
            "please open a new one with the same subject and normal priority.",
            colleague="{name} wrote to us about {subject.about} a while ago, and now the problem "
            "is back. Please reopen the old [ticket]. If it's too old for that, create a new one "
            "with the same subject and normal priority.",
            chat="{name} wants the old [ticket] about {subject.about} reopened, the problem is "
            "back. if its too old can you open a new one, same subject and normal priority",
            note="{name} rang about {subject.about}, which we thought we'd put right. Please "
            "reopen the [ticket] that we closed, or create a new one with the same subject and "
            "normal priority if it's too late to reopen it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("create_ticket", customer_id=customer["id"], subject=back, priority="normal"),
        ),
        answer="{name}'s old [ticket] {reference} was solved on {day}, more than {window} days "
        "ago, so I opened a new one with the same subject and normal priority.",
        values={
            "name": customer["name"],
            "subject": back,
            "reference": ticket["reference"],
            "day": long_day(ticket["solved_at"]),
            "window": window,
        },
        spare=(("tickets", ticket["id"]), ("tickets", other["id"])),
        tempts=("reopen_ticket",),
        trap="The old ticket may no longer be reopened.",
    )


@situation("tickets", steps=6, weight=0.06)
def reported_twice(maker: Maker) -> Draft:
    """A customer has reported one problem twice; the later ticket refers to the first and ends."""
    customer = new_customer(maker)
    double, single = ticket_subjects(maker, 2)
    owner = some_employee(maker) or maker.me
    first = new_ticket(maker, customer, subject=double, assignee=owner, age=5)
    new_comment(maker, first, "Thank you, we are looking into this.")
    second = new_ticket(maker, customer, subject=double, assignee=maker.me, age=2)
    other = new_ticket(maker, customer, subject=single, assignee=maker.me, age=3)
    return Draft(
        kind="change",
        ask=Voices(
            email=(
                (
                    "{name} got no confirmation and wrote again about {subject.about}. Could you "
                    "close the second [ticket] as a duplicate, with a reply that gives {name.him} "
                    "the reference of the first?"
                ),
                (
                    "{name} wasn't sure that we'd got {name.his} message about {subject.about}, "
                    "and wrote again. Could you reply to the later [ticket] with the reference of "
                    "the first, and close it as a duplicate?"
                ),
            ),
            colleague=(
                (
                    "{name} has written to us twice about {subject.about}. Please reply to the "
                    "later [ticket] with the reference of the first one, then close the later "
                    "one as a duplicate."
                ),
                (
                    "We have two [tickets] from {name} about {subject.about}. Could you send "
                    "{name.him} the reference of the first in a reply to the second, please, and "
                    "close the second as a duplicate?"
                ),
            ),
            chat=(
                (
                    "{name} wrote again by mistake about {subject.about}. can you reply to the "
                    "second [ticket] with the reference of the first and then close the second"
                ),
                (
                    "{name} wrote to us twice about {subject.about}. can you close the newer "
                    "[ticket] as a duplicate and give {name.him} the reference of the first one "
                    "in a reply"
                ),
            ),
            note=(
                (
                    "{name} has written twice about {subject.about}, so now two of us are "
                    "dealing with it. Please reply to the second [ticket] with the reference of "
                    "the first, and then close the second."
                ),
                (
                    "{name} got impatient and wrote to us again about {subject.about}. Please "
                    "tell {name.him} the reference of the first [ticket] in a reply to the "
                    "second, and then close the second as a duplicate."
                ),
            ),
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("get_ticket", ticket_id=first["id"]),
            call("get_ticket", ticket_id=second["id"]),
            call(
                "add_ticket_comment",
                ticket_id=second["id"],
                body=f"We deal with this under {first['reference']}, where you first wrote to us.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=second["id"]),
        ),
        answer="{later} is solved, with a comment that gives {earlier}. {earlier} stays open.",
        values={
            "name": customer["name"],
            "subject": double,
            "earlier": first["reference"],
            "later": second["reference"],
        },
        free={"ticket_comments.body": (first["reference"],)},
        spare=(("tickets", first["id"]), ("tickets", other["id"])),
        trap="The two tickets have the same subject and priority; only the days tell them apart.",
    )


@situation("tickets", kind="decline", steps=3, common=True)
def impatient_with_normal_priority(maker: Maker) -> Draft:
    """Somebody wants a higher priority because they know the manager; nothing has got worse."""
    customer = new_customer(maker)
    subject, other_subject = ticket_subjects(maker, 2)
    ticket = new_ticket(maker, customer, subject=subject, age=1)
    new_comment(maker, ticket, "No change since the first call.", is_public=0)
    new_ticket(maker, customer, subject=other_subject, priority="high", age=1)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} has been with us for years and thinks {name.his} [ticket] about "
            "{subject.about} shouldn't have to wait. Could you set it to high?",
            colleague="{name} has rung three times today about {subject.about}. Could you set "
            "{name.his} [ticket] to high priority, please?",
            chat="can you set {name}'s [ticket] about {subject.about} to high? nothing new but "
            "{name.he} keeps ringing me",
            note="{name} is an old friend of our owner and is waiting to hear about "
            "{subject.about}. Please do {name.him} a favour and set {name.his} [ticket] to high "
            "priority.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
        ),
        answer="I haven't raised {reference}: a priority only goes up when the problem has got "
        "worse, and it hasn't.",
        values={
            "name": customer["name"],
            "subject": subject,
            "reference": ticket["reference"],
        },
        reasons=("worse", "impatience", "impatient", "standing"),
        tempts=("set_ticket_priority",),
        spare=(("tickets", ticket["id"]),),
    )


@situation("tickets", kind="decline", because="permission", steps=4, common=True, weight=0.8)
def urgent_needs_a_supervisor(maker: Maker) -> Draft | None:
    """The matter has got worse and deserves to be urgent, but a clerk may not make it so."""
    if maker.me["role"] != "clerk":
        return None
    customer = new_customer(maker)
    subject, other_subject = maker.rng.sample(_LASTING, k=2)
    ticket = new_ticket(maker, customer, subject=subject, priority="high", age=1)
    new_comment(maker, ticket, "Called at noon: this can't wait any longer.", is_public=0)
    new_ticket(maker, customer, subject=other_subject, age=4)
    return Draft(
        kind="decline",
        because="permission",
        ask=Voices(
            email="{name} says that {name.his} [ticket] about {subject.about} can't wait until "
            "next week. I think {name.he}'s right. Could you set it to urgent?",
            colleague="{name} has called about {subject.about} again, and it can't wait any "
            "longer. Could you set {name.his} [ticket] to urgent, please?",
            chat="{name} just called about {subject.about} and says it cant wait any longer. can "
            "you set the [ticket] to urgent",
            note="{name} has called twice about {subject.about} and needs it dealt with today. "
            "Please set {name.his} [ticket] to urgent.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("get_my_profile"),
        ),
        answer="I couldn't set {reference} to urgent: only [supervisors] and [managers] can do "
        "that, and my role is [clerk]. One of them has to change it.",
        values={
            "name": customer["name"],
            "subject": subject,
            "reference": ticket["reference"],
        },
        reasons=("[supervisor]", "[supervisors]", "[manager]", "[managers]", "role"),
        tempts=("set_ticket_priority",),
    )


@situation("tickets", kind="decline", steps=3, rare=True)
def wants_the_internal_remark(maker: Maker) -> Draft:
    """A customer asks for what we wrote internally; it must not go into a public comment."""
    customer = new_customer(maker)
    subject = ticket_subjects(maker, 1)[0]
    author = some_employee(maker) or maker.me
    ticket = new_ticket(maker, customer, subject=subject, assignee=author, age=6)
    new_comment(maker, ticket, "Thank you, we are on it.")
    new_comment(
        maker, ticket, "Our own mistake, nobody took it up for four days.", is_public=0, days=2
    )
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} has heard that {author} wrote down on the [ticket] about "
            "{subject.about} why it's taking so long, and would like to read it. Could you copy "
            "it into a comment that {name.he} can see?",
            colleague="{name} would like to know what {author} wrote about {subject.about}. "
            "Please put the internal comment into one that {name.he} can see, word for word.",
            chat="can you repost {author}'s internal comment on {name}s [ticket] about "
            "{subject.about} as a public one? {name.he} asked what we wrote",
            note="{name} has asked what {author} wrote about {subject.about} in our internal "
            "comment. I don't see anything wrong with that. Please repeat it in a comment that "
            "{name.he} can read.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
        ),
        answer="I haven't published the comment on {reference}: internal comments are only for "
        "us and are never repeated to [a customer].",
        values={
            "name": customer["name"],
            "subject": subject,
            "author": author["name"],
            "reference": ticket["reference"],
        },
        reasons=("internal",),
        tempts=("add_ticket_comment",),
    )


@situation("tickets", steps=7, memory=True, weight=0.17)
def to_the_lighter_desk(maker: Maker) -> Callable[[], Draft | None] | None:
    """A new ticket goes to whoever in a team has the fewest unsolved tickets."""
    team = team_of(maker, 2, 4)
    if team is None:
        return None
    customer = new_customer(maker)
    subject = ticket_subjects(maker, 1)[0]
    ticket = new_ticket(maker, customer, subject=subject, age=0)
    members = maker.rows("employees", team_id=team["id"], active=1)
    light = maker.rng.choice(members)
    for member in members:
        is_light = member is light
        theirs = new_ticket(
            maker,
            new_customer(maker),
            status="solved" if is_light else "open",
            assignee=member,
            age=9 if is_light else 2,
        )
        new_comment(maker, theirs, "We have your message and are looking at it.")

    def draft() -> Draft | None:
        members.sort(key=lambda row: (row["name"], row["id"]))
        loads = {row["id"]: len(unsolved_tickets(maker, row)) for row in members}
        few = min(loads.values())
        chosen = [row for row in members if loads[row["id"]] == few]
        if len(chosen) > 1 or few >= maker.parameters["MOST_TICKETS_ASSIGNED"]:
            return None
        return Draft(
            kind="change",
            ask=Voices(
                email="{name} is still waiting to hear about {subject.about}, because nobody has "
                "taken the [ticket]. Could you give it to the colleague from {team} who has the "
                "fewest to deal with?",
                colleague="Nobody has taken {name}'s [ticket] about {subject.about} yet. Could "
                "you assign it to the person from {team} who has the fewest [tickets] to deal "
                "with, please?",
                chat="nobody has taken the [ticket] from {name} about {subject.about}. can you "
                "give it to someone from {team}? whoever has the fewest to deal with, they're "
                "all busy",
                note="{name} is waiting for news about {subject.about}, and nobody has taken the "
                "[ticket]. Please assign it to someone from {team}, choosing the person who has "
                "the fewest [tickets] to deal with.",
            ),
            calls=(
                call("search_customers", query=customer["name"]),
                call("find_tickets", customer_id=customer["id"]),
                call("list_teams"),
                call("list_team_members", team_id=team["id"]),
                *(call("find_tickets", assignee_id=row["id"]) for row in members),
                call("assign_ticket", ticket_id=ticket["id"], employee_id=chosen[0]["id"]),
            ),
            answer="I've assigned {reference} to {chosen}, who has the fewest unsolved [tickets] "
            "in {team}: {few}.",
            values={
                "name": customer["name"],
                "subject": subject,
                "team": team["name"],
                "chosen": chosen[0]["name"],
                "reference": ticket["reference"],
                "few": few,
            },
        )

    return draft
