"""Situations that cross desks: papers, money, projects, cases and messages of one matter."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.approvals.make import (
    new_request,
    request_kind,
    request_subjects,
)
from rehearsal_room.scenarios.generate.modules.cases.make import (
    case_steps,
    case_subjects,
    new_case,
    new_step,
)
from rehearsal_room.scenarios.generate.modules.documents.make import (
    document_titles,
    new_document,
    new_share,
)
from rehearsal_room.scenarios.generate.modules.draft_helpers import (
    is_ranked,
    long_day,
    some_employee,
)
from rehearsal_room.scenarios.generate.modules.messaging.make import new_message, new_thread
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.projects.make import (
    new_project,
    new_task,
)
from rehearsal_room.scenarios.generate.modules.tickets.make import (
    new_comment,
    new_ticket,
    ticket_subjects,
)

GROUP = "crossing_desks"  # first part of the ids of these situations


@situation("projects", "approvals", steps=7, rare=True, weight=0.5)
def money_to_the_project_lead(maker: Maker) -> Draft | None:
    """A request that is too large for oneself goes to the lead of the project it is for."""
    author = some_employee(maker, role="clerk")
    cents = maker.me["limit_cents"] + maker.cents(1_000, 5_000, 250)
    leads = maker.rows(
        "employees",
        lambda row: row["limit_cents"] >= cents and row["id"] != maker.me["id"],
        active=1,
    )
    if author is None or not leads:
        return None
    lead = maker.rng.choice(leads)
    project = new_project(maker, new_customer(maker), lead=lead, due=50)
    what = request_subjects(maker, 1)[0]
    request = new_request(
        maker,
        author,
        maker.me,
        subject=f"{what} ({project['code']})",
        kind=request_kind(maker, "Repairs"),
        cents=cents,
        age=2,
    )
    small = new_request(
        maker, author, maker.me, kind=request_kind(maker, "Travel"), cents=1_900, age=3
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{author} is still waiting for an answer about {what}, which is for “{project}”. "
            "It's over your limit, so please pass the [request] on to the lead of that [project].",
            colleague="{author} has asked for {what}, which {author.he} needs for “{project}”. "
            "The [request] is over your limit, so could you pass it on to the lead of the "
            "[project], please?",
            chat="{author} wants {what} for “{project}”, thats over your limit. can you pass the "
            "[request] to the [project] lead",
            note="{author}'s [request] for {what} is over your limit. It's for “{project}”, so "
            "please pass it on to the colleague who leads that [project]. {author.His} other "
            "[request] can wait.",
        ),
        calls=(
            call("search_employees", query=author["name"]),
            call("find_requests", made_by=author["id"], status="open"),
            call("get_request", request_id=request["id"]),
            call("search_projects", query=project["title"]),
            call("get_project", project_id=project["id"]),
            call("hand_on_request", request_id=request["id"], employee_id=lead["id"]),
            call("get_employee", employee_id=lead["id"]),
        ),
        answer="{reference} for {amount} is now with {lead}, who leads “{project}”.",
        values={
            "author": author["name"],
            "what": what,
            "project": project["title"],
            "reference": request["reference"],
            "amount": maker.money(cents),
            "lead": lead["name"],
        },
        spare=(("requests", small["id"]),),
    )


@situation("cases", "documents", steps=5, rare=True)
def the_handler_needs_the_paper(maker: Maker) -> Draft | None:
    """The handler of a case gets a share to read a paper, unless it is confidential for them."""
    handler = some_employee(maker)
    if handler is None:
        return None
    customer = new_customer(maker)
    subjects = case_subjects(maker, 2)
    case = new_case(maker, customer, subject=subjects[0], handler=handler, age=24)
    new_case(maker, customer, subject=subjects[1], handler=maker.me, age=80, status="closed")
    title = document_titles(maker, 1)[0]
    document = new_document(maker, title=title, owner=maker.me, age=45)
    return Draft(
        kind="change",
        ask=Voices(
            email="The colleague who has {name}'s [case] about {subject.about} now can't open "
            "“{title}”, which you look after. Could you share it with them? Reading is enough.",
            colleague="The colleague on {name}'s [case] about {subject.about} has to read "
            "“{title}”, which you look after. Could you share it with that colleague, please? "
            "Read access is enough.",
            chat="can you share “{title}” with whoever has {name}s [case] about {subject.about}? "
            "they only need to read it",
            note="The colleague dealing with {subject.about} for {name} can't open “{title}”, "
            "which you look after. Please share it with that colleague, just for reading.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("search_cases", customer_id=customer["id"], status="open"),
            call("get_employee", employee_id=handler["id"]),
            call("search_documents", query=title),
            call("set_share", document_id=document["id"], employee_id=handler["id"], mode="read"),
        ),
        answer="{handler}, who handles {reference}, can now read “{title}”.",
        values={
            "name": customer["name"],
            "subject": subjects[0],
            "title": title,
            "handler": handler["name"],
            "reference": case["reference"],
        },
    )


@situation(
    "projects",
    "messaging",
    steps=5,
    without=("theatre", "museum", "charity", "permits_office"),
    rare=True,
)
def when_will_it_be_ready(maker: Maker) -> Draft:
    """A customer asks in a thread when the project is due; the answer comes from the record."""
    customer = new_customer(maker)
    project = new_project(maker, customer, due=38)
    new_task(maker, project, due=21, assignee=maker.me)
    thread = new_thread(maker, customer, subject="When will you be ready", age=2)
    new_message(maker, thread, "Could you tell me until when all this will take?", days=2)
    old = new_thread(maker, customer, age=50, status="closed")
    new_message(maker, old, by=maker.me, days=49)
    day = project["due_on"]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has asked in an open [thread] when “{project}” will be finished. Could "
            "you reply with the due date?",
            colleague="{name} has asked us when “{project}” is due. Could you give {name.him} "
            "the date in the open [thread], please?",
            chat="{name} asks in the [thread] when “{project}” will be done, can you answer with "
            "the due date",
            note="{name} has asked when “{project}” will be finished, and nobody has answered "
            "yet. Please reply in {name.his} open [thread] with the date it's due.",
        ),
        calls=(
            call("search_projects", query=project["title"]),
            call("get_project", project_id=project["id"]),
            call("find_threads", customer_id=customer["id"], status="open"),
            call("get_thread", thread_id=thread["id"]),
            call(
                "send_message",
                thread_id=thread["id"],
                body=f"Thank you for asking. We plan to be ready by {day}.",
            ),
        ),
        answer="I told {name} in {reference} that “{project}” is due on {day}.",
        values={
            "name": customer["name"],
            "project": project["title"],
            "reference": thread["reference"],
            "day": long_day(day),
        },
        free={"messages.body": (day,)},
        spare=(("threads", old["id"]),),
        trap="A task of the project is due earlier than the project.",
    )


@situation("cases", "messaging", steps=6)
def the_next_step_in_writing(maker: Maker) -> Draft:
    """A customer is told the next planned step of their case, not the one that was dropped."""
    customer = new_customer(maker)
    subject = case_subjects(maker, 1)[0]
    whats = case_steps(maker, 3)
    case = new_case(maker, customer, subject=subject, handler=maker.me, age=36)
    new_step(maker, case, whats[0], due=3, status="dropped")
    later = new_step(maker, case, whats[1], due=17)
    step = new_step(maker, case, whats[2], due=8)
    topic = maker.one_of("The next step", "An update, please", "Still waiting for news")
    thread = new_thread(maker, customer, subject=topic, handler=maker.me, age=1)
    new_message(maker, thread, f"What happens next in {case['reference']}, and when?", days=1)
    day = step["due_on"]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has written to ask what happens next with {subject.about}. Could you "
            "reply with the next [step] we've planned and its date?",
            colleague="{name} has asked us how things are going with {subject.about}. Could you "
            "reply to {name.his} message, please, and tell {name.him} the next [step] that we've "
            "planned and its date?",
            chat="{name} wrote to ask what happens next with {subject.about}. can you reply with "
            "the next planned [step] and its date",
            note="{name} wrote to us yesterday and would like an update on {subject.about}. "
            "Please reply with the next [step] that's planned and the day it's planned for.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("search_cases", customer_id=customer["id"]),
            call("get_case", case_id=case["id"]),
            call("find_threads", customer_id=customer["id"]),
            call("get_thread", thread_id=thread["id"]),
            call(
                "send_message",
                thread_id=thread["id"],
                body=f"The next thing on our list is “{step['what']}”, on {day}.",
            ),
        ),
        answer="I wrote to {name} in {reference} that “{what}” comes next, on {day}.",
        values={
            "name": customer["name"],
            "subject": subject,
            "what": step["what"],
            "reference": thread["reference"],
            "day": long_day(day),
        },
        free={"messages.body": (day,)},
        spare=(("steps", later["id"]),),
        trap="An earlier step was dropped.",
    )


@situation("projects", "documents", steps=5, rare=True)
def lead_and_owner(maker: Maker) -> Draft | None:
    """A supervisor makes the lead of a project the owner of its paper."""
    lead = some_employee(maker)
    owner = None if lead is None else some_employee(maker, lead)
    if lead is None or owner is None or not is_ranked(maker, "supervisor"):
        return None
    project = new_project(maker, new_customer(maker), lead=lead, due=70)
    title = document_titles(maker, 1)[0]
    document = new_document(maker, title=title, owner=owner, age=25)
    new_share(maker, document, lead, "read")
    return Draft(
        kind="change",
        ask=Voices(
            email="“{title}” is only used for “{project}” now, so the lead of that [project] "
            "should look after it instead of {owner}. Could you change the owner?",
            colleague="{owner} doesn't need to look after “{title}” any more. Could you make the "
            "lead of “{project}” the owner instead, please?",
            chat="can you make the lead of “{project}” the owner of “{title}”? {owner} is fine "
            "with it",
            note="“{project}” has started, so the lead of that [project] should own “{title}” "
            "rather than {owner}. Please change the owner before we send anything out.",
        ),
        calls=(
            call("search_projects", query=project["title"]),
            call("get_project", project_id=project["id"]),
            call("search_documents", query=title),
            call("get_employee", employee_id=lead["id"]),
            call("change_owner", document_id=document["id"], employee_id=lead["id"]),
        ),
        answer="{lead}, who leads “{project}”, is now the owner of “{title}”.",
        values={
            "owner": owner["name"],
            "lead": lead["name"],
            "project": project["title"],
            "title": title,
        },
    )


@situation("tickets", "documents", steps=5, rare=True)
def the_rules_for_the_assignee(maker: Maker) -> Draft | None:
    """The assignee of a ticket needs a paper; it is shared to read, and they have no share."""
    assignee = some_employee(maker)
    if assignee is None:
        return None
    customer = new_customer(maker)
    subjects = ticket_subjects(maker, 2)
    ticket = new_ticket(maker, customer, subject=subjects[0], assignee=assignee, age=1)
    other = some_employee(maker, assignee)
    past = new_ticket(
        maker, customer, subject=subjects[1], status="solved", assignee=other, age=22, solved=18
    )
    new_comment(maker, past, "Settled by phone, thank you.")
    title = document_titles(maker, 1)[0]
    document = new_document(maker, title=title, owner=maker.me, age=61)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has quoted our “{title}” in {name.his} [ticket] about {subject.about}, "
            "and whoever has it can't open the document. It's one of yours. Could you give "
            "them read access?",
            colleague="{name} has quoted “{title}” in {name.his} [ticket] about {subject.about}. "
            "You own the [document], so could you share it with the colleague who has that "
            "[ticket], please? Reading is all that's needed.",
            chat="{name} keeps quoting “{title}” about {subject.about}. can you share it with "
            "whoever has that [ticket]? just to read",
            note="The colleague who has {name}'s [ticket] about {subject.about} needs to read "
            "“{title}”, which is yours. Please look on the [ticket] who that is, and give that "
            "colleague read access.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("get_employee", employee_id=assignee["id"]),
            call("search_documents", query=title),
            call("set_share", document_id=document["id"], employee_id=assignee["id"], mode="read"),
        ),
        answer="{assignee}, who deals with {reference}, can read “{title}” from now on.",
        values={
            "name": customer["name"],
            "subject": subjects[0],
            "title": title,
            "assignee": assignee["name"],
            "reference": ticket["reference"],
        },
        spare=(("tickets", past["id"]),),
    )


@situation("cases", "tickets", steps=7)
def tickets_that_belong_to_a_case(maker: Maker) -> Draft:
    """The tickets that ask about a case are answered with its reference and solved."""
    customer = new_customer(maker)
    subject = case_subjects(maker, 1)[0]
    case = new_case(maker, customer, subject=subject, handler=maker.me, age=18)
    first = new_ticket(maker, customer, subject=f"{subject}, any news?", assignee=maker.me, age=4)
    second = new_ticket(
        maker, customer, subject=f"{subject}, my second message", assignee=maker.me, age=2
    )
    apart = new_ticket(maker, customer, assignee=maker.me, age=3)
    found = sorted((first, second), key=lambda row: (row["due_at"], row["id"]))
    calls = [
        call("search_customers", query=customer["name"]),
        call("search_cases", customer_id=customer["id"], status="open"),
        call("find_tickets", customer_id=customer["id"]),
    ]
    for row in found:
        calls += [
            call(
                "add_ticket_comment",
                ticket_id=row["id"],
                body=f"We deal with this as {case['reference']} and will write to you there.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=row["id"]),
        ]
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has sent us two [tickets] asking about {subject.about}, but {name.he} "
            "has an open [case] for that. Could you reply to both with the reference of the "
            "[case], and close them?",
            colleague="{name} has an open [case] about {subject.about}, but {name.he}'s sent us "
            "two [tickets] about it as well. Please reply to both [tickets] with the reference "
            "of the [case], and then close the [tickets].",
            chat="{name} opened 2 [tickets] about {subject.about}, but theres already an open "
            "[case] for it. can you reply to both with the reference of the [case] and close the "
            "[tickets]",
            note="Nobody told {name} the reference of {name.his} [case] about {subject.about}, "
            "so {name.he}'s asked about it in two [tickets]. Please give {name.him} the "
            "reference in a reply to both, and close them. {name.His} third [ticket] is about "
            "something else.",
        ),
        calls=tuple(calls),
        answer="{one} and {two} are solved, each with the reference {case}. I left {name}'s other "
        "[ticket] alone.",
        values={
            "name": customer["name"],
            "subject": subject,
            "one": first["reference"],
            "two": second["reference"],
            "case": case["reference"],
        },
        free={"ticket_comments.body": (case["reference"],)},
        spare=(("tickets", apart["id"]),),
    )
