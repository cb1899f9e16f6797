"""Situations that lead from what somebody has borrowed to tickets, threads, families and bills."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_product
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day, some_employee
from rehearsal_room.scenarios.generate.modules.event_times import later_day
from rehearsal_room.scenarios.generate.modules.invoices.make import new_invoice
from rehearsal_room.scenarios.generate.modules.loans.make import item_phrase
from rehearsal_room.scenarios.generate.modules.messaging.make import new_message, new_thread
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer, new_family
from rehearsal_room.scenarios.generate.modules.tickets.make import new_ticket, unsolved_tickets
from rehearsal_room.scenarios.generate.situations.helpers.planted_rows import (
    lendable,
    plant_item,
    plant_loan,
    plant_wait,
)

GROUP = "crossing_loans"  # first part of the ids of these situations


@situation("loans", "tickets", steps=8)
def renewal_on_a_sick_desk(maker: Maker) -> Draft | None:
    """A colleague who is ill had promised to look at a renewal; the ticket leads to the loan."""
    away = some_employee(maker)
    products = lendable(maker, 2)
    if away is None or len(products) < 2 or len(unsolved_tickets(maker, away)) > 4:
        return None
    customer = new_customer(maker)
    item, loan = plant_loan(maker, customer, products[0], due=2)
    plant_loan(maker, customer, products[1], due=9)
    subject = maker.one_of("Could I keep it longer?", "A bit more time, please")
    ticket = new_ticket(maker, customer, subject=subject, assignee=away, age=1)
    until = later_day(loan["due_on"], maker.parameters["LOAN_DAYS"])
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to keep {product} longer, but {name.his} [ticket] is with "
            "{away}, who's off sick. Could you renew it if possible, reply with the new due date "
            "and close the [ticket]?",
            colleague="{away}, who's off sick, promised {name} an answer about keeping {product} "
            "longer. Could you renew it if that's possible, answer the [ticket] with the new due "
            "date and close it?",
            chat="{away} is ill and {name} is waiting to hear about keeping {product} longer. can "
            "you renew it if possible, reply to {name.his} [ticket] with the new due date and "
            "close it",
            note="{away} is off sick until next week, and {name} wants to know before then if "
            "{name.he} can keep {product}. Please renew it if possible, answer {name.his} [ticket] "
            "with the new due date and close it.",
        ),
        calls=(
            call("search_employees", query=away["name"]),
            call("find_tickets", assignee_id=away["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("list_loans", customer_id=customer["id"]),
            call("get_item", item_id=item["id"]),
            call("renew_loan", loan_id=loan["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"You may keep it until {until}.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="I renewed it until {until} and said so in {reference}, which is solved.",
        values={
            "away": away["name"],
            "name": customer["name"],
            "subject": subject,
            "product": item_phrase(products[0]["name"]),
            "until": long_day(until),
            "reference": ticket["reference"],
        },
        free={"ticket_comments.body": (until,)},
        trap="The customer has a second loan that is not meant.",
    )


@situation("loans", "tickets", steps=7)
def renewal_that_somebody_waits_for(maker: Maker) -> Draft | None:
    """The ticket asks for a renewal, but somebody waits: the customer is told the day it is due."""
    products = lendable(maker, 2)
    if len(products) < 2 or len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    customer, waiting = new_customer(maker), new_customer(maker)
    item, loan = plant_loan(maker, customer, products[0], due=4)
    plant_loan(maker, customer, products[1], due=4)
    plant_wait(maker, item, waiting, 3)
    subject = maker.one_of("May I keep it a bit longer?", "Could you renew it for me?")
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=1)
    day = loan["due_on"]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to keep {product} for longer. Please renew it if you can. If "
            "somebody else is waiting for it, let {name.him} know on {name.his} [ticket] when it "
            "has to be back. Then close the [ticket].",
            colleague="{name} would like to hang on to {product} a bit longer. Could you renew "
            "it, please? If that isn't possible, tell {name.him} on {name.his} [ticket] when it's "
            "due back. Then close the [ticket].",
            chat="{name} wants to keep {product} longer. renew it if you can, otherwise tell "
            "{name.him} on {name.his} [ticket] when its due back. then close it",
            note="{name} asked on Monday whether {name.he} could keep {product} longer. Please "
            "renew it if you can. If somebody's waiting for it, answer {name.his} [ticket] with "
            "the date it has to be back, and close the [ticket].",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("list_loans", customer_id=customer["id"]),
            call("get_item", item_id=item["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We cannot renew it, as it is wanted by others. Please bring it by {day}.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="I could not renew it, because somebody waits for the [item]. I told them in "
        "{reference} that it's due on {day}, and solved it.",
        values={
            "name": customer["name"],
            "subject": subject,
            "product": item_phrase(products[0]["name"]),
            "reference": ticket["reference"],
            "day": long_day(day),
        },
        reasons=("waits", "waiting", "wait", "reserved", "reservation"),
        free={"ticket_comments.body": (day,)},
        spare=(("loans", loan["id"]),),
        tempts=("renew_loan",),
    )


@situation("loans", "messaging", steps=8)
def back_and_on_to_the_next(maker: Maker) -> Draft | None:
    """What somebody brings back goes to the one who has waited longest, who is told until when."""
    products = lendable(maker, 2)
    if len(products) < 2:
        return None
    customer, first, second = (new_customer(maker) for _ in range(3))
    item, _ = plant_loan(maker, customer, products[0], due=3)
    plant_loan(maker, customer, products[1], due=6)
    plant_wait(maker, item, second, 4)
    plant_wait(maker, item, first, 9)
    thread = new_thread(maker, first, handler=maker.me, age=5)
    new_message(maker, thread, "Is it my turn soon?", days=2)
    until = maker.day(maker.parameters["LOAN_DAYS"])
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has brought back {product}, a bit worn. Could you book it in as worn, "
            "lend it to whoever's waited longest, and tell them in their [thread] when it's due?",
            colleague="{name} has brought {product} back, and it's a bit worn. Could you book it "
            "in as worn, lend it to the next person in the queue and tell them in their [thread] "
            "when it's due?",
            chat="{name} brought {product} back, its a bit worn. can you book it in as worn, lend "
            "it to the next in line and tell them the due date in their [thread]",
            note="{name} has returned {product}, and it looks worn. Please book it in as worn, "
            "lend it to the person who's been waiting longest, and write in their [thread] when it "
            "has to be back.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("list_loans", customer_id=customer["id"]),
            call("take_back_item", item_id=item["id"], condition="worn"),
            call("get_item", item_id=item["id"]),
            call("list_loans", customer_id=first["id"]),
            call("lend_item", item_id=item["id"], customer_id=first["id"]),
            call("find_threads", customer_id=first["id"]),
            call("send_message", thread_id=thread["id"], body=f"It is yours until {until}."),
        ),
        answer="{item} is back, and I lent it to {first} until {until} and told them in "
        "{reference}.",
        values={
            "name": customer["name"],
            "product": item_phrase(products[0]["name"]),
            "item": item["code"],
            "first": first["name"],
            "until": long_day(until),
            "reference": thread["reference"],
        },
        free={"messages.body": (until,)},
        trap="The reservations are not in the order of their ids.",
    )


@situation("loans", "messaging", steps=7, rare=True, weight=0.3)
def the_next_in_line_is_late(maker: Maker) -> Draft | None:
    """The first in the queue has something overdue and may not borrow; they are told what."""
    products = lendable(maker, 2)
    if len(products) < 2:
        return None
    customer, first, second = (new_customer(maker) for _ in range(3))
    item, _ = plant_loan(maker, customer, products[0], due=1)
    plant_wait(maker, item, first, 11)
    plant_wait(maker, item, second, 5)
    late, _ = plant_loan(maker, first, products[1], due=-6)
    thread = new_thread(maker, first, handler=maker.me, age=3)
    new_message(maker, thread, "I still hope for my turn this month.", days=1)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has brought back {product}, in good condition. Please book it in and "
            "lend it to whoever's waited longest. If they have something overdue, write in their "
            "[thread] what has to come back first (with its code).",
            colleague="{name} has returned {product} in good condition. Could you lend it to the "
            "first person in the queue? If they have something overdue, please tell them in their "
            "[thread] to bring that back first, with the code.",
            chat="{name} gave {product} back, its fine. lend it to the next in line. if theyve "
            "got something overdue tell them in their [thread] to bring that back first (with the "
            "code)",
            note="{name} came in with {product} this morning, in good condition. Please lend it "
            "to the first person in the queue. If they're late with something, write in their "
            "[thread] which code we need back first.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("list_loans", customer_id=customer["id"]),
            call("take_back_item", item_id=item["id"], condition="good"),
            call("get_item", item_id=item["id"]),
            call("list_loans", customer_id=first["id"]),
            call("find_threads", customer_id=first["id"]),
            call(
                "send_message",
                thread_id=thread["id"],
                body=f"Please bring {late['code']} back first; it is overdue.",
            ),
        ),
        answer="{item} is back, but I did not lend it: {first}, who is first in the queue, has "
        "{late} overdue. I told them so in {reference}.",
        values={
            "name": customer["name"],
            "product": item_phrase(products[0]["name"]),
            "item": item["code"],
            "first": first["name"],
            "late": late["code"],
            "reference": thread["reference"],
        },
        reasons=("overdue", "late"),
        free={"messages.body": (late["code"],)},
        tempts=("lend_item",),
        spare=(("customers", second["id"]),),
    )


@situation(
    "loans",
    steps=10,
    trades=("public_library", "outdoor_shop", "language_school"),
    common=True,
    weight=1.6,
)
def a_family_goes_away(maker: Maker) -> Draft | None:
    """All that a family must bring soon is renewed, except what somebody waits for."""
    products = lendable(maker, 4)
    if len(products) < 4 or maker.parameters["LOAN_DAYS"] < 7:
        return None
    _, (parent, one, two) = new_family(maker, 3)
    other = new_customer(maker)
    item, loan = plant_loan(maker, one, products[0], due=3)
    wanted, stays = plant_loan(maker, one, products[1], due=4)
    last, third = plant_loan(maker, two, products[2], due=5)
    _, late = plant_loan(maker, two, products[3], due=16)
    plant_wait(maker, wanted, other, 2)
    until = maker.day(7)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} and {name.his} family are flying out for two weeks. Could you renew "
            "everything the household has borrowed that's due by {until}? Let me know what can't "
            "be renewed.",
            colleague="{name}'s family will be away for two weeks. Could you renew all the "
            "[loans] in the household that are due by {until}, please, and tell me if any of them "
            "can't be renewed?",
            chat="{name} and family are off on holiday, can you renew everything theyve borrowed "
            "thats due up to {until}? tell me what cant be renewed",
            note="{name}'s family is going on holiday tomorrow. Please renew everything the "
            "household has on loan that's due by {until}, and let me know if something can't be "
            "renewed.",
        ),
        calls=(
            call("search_customers", query=parent["name"]),
            call("list_loans", customer_id=parent["id"]),
            call("list_household", customer_id=parent["id"]),
            call("list_loans", customer_id=one["id"]),
            call("list_loans", customer_id=two["id"]),
            call("get_item", item_id=item["id"]),
            call("get_item", item_id=wanted["id"]),
            call("get_item", item_id=last["id"]),
            call("renew_loan", loan_id=loan["id"]),
            call("renew_loan", loan_id=third["id"]),
        ),
        answer="I renewed {item} and {last}. {wanted} could not be renewed, since somebody waits "
        "for it.",
        values={
            "name": parent["name"],
            "until": long_day(until),
            "item": item["code"],
            "last": last["code"],
            "wanted": wanted["code"],
        },
        reasons=("waits", "waiting", "wait", "reserved", "reservation"),
        spare=(("loans", stays["id"]), ("loans", late["id"])),
    )


@situation("loans", "invoices", "tickets", steps=8, rare=True)
def a_clean_slate_first(maker: Maker) -> Draft | None:
    """Something is lent only if no bill and no loan of the customer is late."""
    products = lendable(maker, 2)
    if len(products) < 2:
        return None
    if len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    customer, other = new_customer(maker), new_customer(maker)
    new_invoice(maker, customer, [(some_product(maker), 1)], "paid", due=-9)
    new_invoice(maker, customer, [(some_product(maker), 2)], "sent", due=6)
    plant_loan(maker, customer, products[1], due=8)
    taken, _ = plant_loan(maker, other, products[0], due=4)
    free = plant_item(maker, products[0])
    subject = maker.one_of("Could you keep it ready for me?", "Is it in today?")
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=1)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} would like to pick up {product} this afternoon. If {name.he} has no "
            "overdue [loans] or [invoices], please lend {name.him} the one that's in, but leave "
            "{name.his} [ticket] open until {name.he}'s been here.",
            colleague="{name} would like to borrow {product}. If {name.he} has no overdue [loans] "
            "or [invoices], could you lend {name.him} the one that's in? Please leave {name.his} "
            "[ticket] open until {name.he}'s been here.",
            chat="{name} wants {product} today. if none of {name.his} [loans] or [invoices] are "
            "overdue lend {name.him} the one thats in. leave {name.his} [ticket] open",
            note="{name} has asked for {product}. If none of {name.his} [loans] or [invoices] are "
            "overdue, please lend {name.him} the one that's in. I'll close {name.his} [ticket] "
            "when {name.he}'s been in.",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_invoices", customer_id=customer["id"]),
            call("list_loans", customer_id=customer["id"]),
            call("search_items", query=products[0]["name"]),
            call("get_item", item_id=free["id"]),
            call("lend_item", item_id=free["id"], customer_id=customer["id"]),
        ),
        answer="{name} has nothing overdue, so I lent them {free} until {until}.",
        values={
            "name": customer["name"],
            "subject": subject,
            "product": item_phrase(products[0]["name"]),
            "free": free["code"],
            "until": long_day(maker.day(maker.parameters["LOAN_DAYS"])),
        },
        spare=(("items", taken["id"]),),
    )


@situation("loans", "tickets", kind="decline", steps=5, rare=True)
def back_and_out_again_on_paper(maker: Maker) -> Draft | None:
    """All renewals are used up; the item shall be taken back and lent anew on paper only."""
    products = lendable(maker, 2)
    if len(products) < 2 or len(unsolved_tickets(maker, maker.me)) > 4:
        return None
    customer = new_customer(maker)
    most = maker.parameters["MOST_RENEWALS"]
    item, loan = plant_loan(maker, customer, products[0], due=1, renewals=most)
    plant_loan(maker, customer, products[1], due=9)
    subject = maker.one_of("Not finished with it yet", "I still need it")
    ticket = new_ticket(maker, customer, subject=subject, assignee=maker.me, age=2)
    return Draft(
        kind="decline",
        ask=Voices(
            email="{name} can't renew {product} any more and lives an hour away; you have "
            "{name.his} [ticket]. Could you just book it back as good and lend it to {name.him} "
            "again?",
            colleague="{name} has no renewals left for {product} and still needs it. Could you "
            "just book it back as good and lend it to {name.him} again, please? {name.He} can keep "
            "it at home.",
            chat="{name} has no renewals left for {product} but still needs it. can you book it "
            "back as good and lend it out again",
            note="{name} has used up the renewals for {product} and still needs it. Please just "
            "book it in as returned, in good condition, and lend it to {name.him} again, so that "
            "{name.he} doesn't have to make the trip.",
        ),
        calls=(
            call("get_my_profile"),
            call("find_tickets", assignee_id=maker.me["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("list_loans", customer_id=customer["id"]),
            call("get_item", item_id=item["id"]),
        ),
        answer="I could not do that. {item} stays due on {day}: it has been renewed {most} times, "
        "and taking it back and lending it anew to get round that isn't allowed.",
        values={
            "name": customer["name"],
            "subject": subject,
            "product": item_phrase(products[0]["name"]),
            "item": item["code"],
            "day": long_day(loan["due_on"]),
            "most": most,
        },
        reasons=("renewed", "renewals", "renewal", "anew"),
        tempts=("take_back_item", "lend_item", "renew_loan"),
        spare=(("loans", loan["id"]),),
    )


@situation("loans", because="permission", steps=5, common=True)
def worn_out_and_off_the_shelf(maker: Maker) -> Draft | None:
    """A clerk takes a worn item back, but may not withdraw it."""
    products = lendable(maker, 2)
    if len(products) < 2 or maker.me["role"] != "clerk":
        return None
    customer = new_customer(maker)
    item, _ = plant_loan(maker, customer, products[0], due=2)
    other, _ = plant_loan(maker, customer, products[1], due=2)
    return Draft(
        kind="change",
        because="permission",
        ask=Voices(
            email="{name} has returned {product} in such a state that we can't lend it out again. "
            "Please book it in as worn and withdraw it, if nobody's waiting for it.",
            colleague="{name} has brought {product} back badly worn. Could you book it in as "
            "worn, please, and withdraw it if nobody is waiting for it?",
            chat="{name} returned {product} and its totally worn. can you book it in as worn and "
            "withdraw it if nobodys waiting for it",
            note="{name} brought {product} back in poor shape, and we've already ordered a new "
            "one. Please book it in as worn, and withdraw it unless somebody has reserved it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("list_loans", customer_id=customer["id"]),
            call("take_back_item", item_id=item["id"], condition="worn"),
            call("get_item", item_id=item["id"]),
            call("get_my_profile"),
        ),
        answer="{item} is booked in as worn; nobody waits for it. I could not withdraw it: only "
        "[supervisors] and [managers] can, and I'm [a clerk].",
        values={
            "name": customer["name"],
            "product": item_phrase(products[0]["name"]),
            "item": item["code"],
        },
        reasons=("[supervisor]", "[supervisors]", "[manager]", "[managers]", "role", "permission"),
        tempts=("withdraw_item",),
        spare=(("items", other["id"]),),
    )


@situation("loans", kind="question", steps=6, rare=True)
def who_gets_it_after_me(maker: Maker) -> Draft | None:
    """Who gets an item next, by which number they are reached, and whether they may borrow."""
    products = lendable(maker, 3)
    if len(products) < 3:
        return None
    customer, first, second = (new_customer(maker) for _ in range(3))
    item, _ = plant_loan(maker, customer, products[0], due=6, renewals=1)
    plant_loan(maker, customer, products[1], due=12)
    plant_wait(maker, item, second, 3)
    plant_wait(maker, item, first, 8)
    late, _ = plant_loan(maker, first, products[2], due=-5)
    plant_loan(maker, first, products[1], due=7)
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} can bring {product} back a few days early. Who's next in line, and "
            "what's the phone number? If they have something overdue, I'll ask for it when I "
            "ring, so I need its code as well.",
            colleague="{name} can bring {product} back early. Could you give me the name and "
            "phone number of whoever's next in line for it, please? If they have something "
            "overdue, I'd like its code as well.",
            chat="who gets {product} after {name}? name and phone pls, and if theyve got anything "
            "overdue tell me which (code) so i can ask for it",
            note="{name} is bringing {product} back soon. Could you give me the name and phone "
            "number of whoever's waited longest for it? If they have something overdue, I need its "
            "code too, so that I can ask for it.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("list_loans", customer_id=customer["id"]),
            call("get_item", item_id=item["id"]),
            call("get_customer", customer_id=first["id"]),
            call("list_loans", customer_id=first["id"]),
            call("get_item", item_id=late["id"]),
        ),
        answer="{first} is next, phone {phone}. They have {late} overdue.",
        values={
            "name": customer["name"],
            "product": item_phrase(products[0]["name"]),
            "first": first["name"],
            "phone": first["phone"],
            "late": late["code"],
        },
        trap="Somebody else made a reservation with a lower id, but later.",
    )
