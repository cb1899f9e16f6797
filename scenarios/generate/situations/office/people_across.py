"""Situations that lead from people to requests, cases, projects and papers, and questions whose
answer lies in several places."""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.approvals.make import (
    decide,
    new_request,
    request_subjects,
)
from rehearsal_room.scenarios.generate.modules.cases.make import case_subjects, new_case
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.modules.documents.make import (
    document_titles,
    new_document,
    new_share,
)
from rehearsal_room.scenarios.generate.modules.orders.make import new_order, order_lines
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.payments.make import new_method, new_payment
from rehearsal_room.scenarios.generate.modules.projects.make import (
    new_entry,
    new_project,
    new_task,
    task_titles,
)
from rehearsal_room.scenarios.generate.modules.refunds.make import new_refund
from rehearsal_room.scenarios.generate.modules.returns.make import new_return
from rehearsal_room.scenarios.generate.modules.staff.make import new_absence, new_employee
from rehearsal_room.scenarios.generate.situations.helpers.planted_rows import plant_team

GROUP = "crossing_office"  # first part of the ids of these situations


@situation("approvals", steps=7, weight=0.65)
def money_does_not_wait_for_the_train(maker: Maker) -> Draft:
    """The open requests of a decider who travels go to the one of the team who may decide them."""
    team, (away, _, heir) = plant_team(maker, "supervisor", "clerk", "supervisor")
    author = new_employee(maker)
    limit = heir["limit_cents"]
    subjects = request_subjects(maker, 3)
    first = new_request(maker, author, away, subject=subjects[0], cents=limit // 2, age=4)
    second = new_request(maker, author, away, subject=subjects[1], cents=limit // 3, age=2)
    old = new_request(maker, author, away, subject=subjects[2], cents=limit // 4, age=12)
    decide(maker, old, "rejected", days=10)
    new_absence(maker, away, 0, 4, "travel")
    return Draft(
        kind="change",
        ask=Voices(
            email="{away} is travelling until Friday, and people are waiting for an answer. Could "
            "you pass {away.his} open [requests] on to the colleague in {away.his} team whose "
            "limit covers them?",
            colleague="{away} is travelling all week. Could you pass the [requests] that are "
            "waiting for {away.his} approval on to somebody in {away.his} team whose limit is high "
            "enough, please?",
            chat="{away} is travelling all week. can you pass the [requests] waiting for "
            "{away.his} approval to someone in {away.his} team with a high enough limit",
            note="{away} is away on business, and people are waiting for {away.his} approval. "
            "Please pass {away.his} open [requests] on to the colleague in {away.his} team whose "
            "limit covers them.",
        ),
        calls=(
            call("search_employees", query=away["name"]),
            call("find_requests", decider_id=away["id"], status="open"),
            call("get_request", request_id=first["id"]),
            call("list_team_members", team_id=team["id"]),
            call("get_employee", employee_id=heir["id"]),
            call("hand_on_request", request_id=first["id"], employee_id=heir["id"]),
            call("hand_on_request", request_id=second["id"], employee_id=heir["id"]),
        ),
        answer="{first} and {second} are now with {heir}, whose limit covers both.",
        values={
            "away": away["name"],
            "first": first["reference"],
            "second": second["reference"],
            "heir": heir["name"],
        },
        spare=(("requests", old["id"]),),
    )


@situation("approvals", steps=7, rare=True)
def one_fresh_and_one_stale(maker: Maker) -> Draft:
    """Of two requests of a colleague one is out of date: it is rejected, the other approved."""
    author = new_employee(maker)
    stale_days = maker.parameters["STALE_REQUEST_DAYS"] + 6
    one, two = request_subjects(maker, 2)
    cents = maker.me["limit_cents"] // 2
    fresh = new_request(maker, author, maker.me, subject=one, cents=cents, age=4)
    stale = new_request(maker, author, maker.me, subject=two, cents=cents // 2, age=stale_days)
    return Draft(
        kind="change",
        ask=Voices(
            email="{author} is still waiting for an answer about {one} and {two}. Could you "
            "approve both [requests]? If one is out of date by now, reject it, and {author.he}'ll "
            "put in a new one.",
            colleague="{author} is waiting for {author.his} [requests] for {one} and {two}. Could "
            "you approve them, please? If one of them is out of date, just reject it, and "
            "{author.he} can ask again.",
            chat="can you approve {author}'s [requests] for {one} and {two}? if ones out of date "
            "by now reject it, {author.he} can put it in again",
            note="{author} has waited long enough for {one} and {two}. Please approve both "
            "[requests]. If one is out of date by now, reject it and {author.he}'ll ask again "
            "with today's price.",
        ),
        calls=(
            call("search_employees", query=author["name"]),
            call("find_requests", made_by=author["id"], status="open"),
            call("get_request", request_id=fresh["id"]),
            call("get_request", request_id=stale["id"]),
            call("get_my_profile"),
            call("approve_request", request_id=fresh["id"], remark="Agreed."),
            call("reject_request", request_id=stale["id"], remark="It is out of date."),
        ),
        answer="I approved {fresh}. I could not approve {stale} and rejected it, because it is "
        "more than {days} days old.",
        values={
            "author": author["name"],
            "one": one,
            "two": two,
            "fresh": fresh["reference"],
            "stale": stale["reference"],
            "days": maker.parameters["STALE_REQUEST_DAYS"],
        },
        reasons=("out of date", "days old", "too old"),
        free={"decisions.remark": ()},
    )


@situation("cases", "documents", steps=7, rare=True)
def the_paper_for_the_handler(maker: Maker) -> Draft:
    """Whoever handles a case gets to edit a paper that the customer wants changed."""
    handler = new_employee(maker, "supervisor")
    customer = new_customer(maker)
    subject, past = case_subjects(maker, 2)
    case = new_case(maker, customer, subject=subject, handler=handler, age=15)
    closed = new_case(maker, customer, subject=past, age=200, status="closed")
    title = document_titles(maker, 1)[0]
    document = new_document(maker, title=title, owner=maker.me, age=50)
    new_share(maker, document, handler, "read")
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} has found a mistake in “{title}”, which you look after. The colleague "
            "on {name.his} [case] about {subject.about} will correct it. Could you give them edit "
            "access?",
            colleague="There's a mistake in “{title}”, and the colleague on {name}'s [case] about "
            "{subject.about} is going to correct it. Could you give that colleague edit access, "
            "please?",
            chat="{name} found a mistake in “{title}”. the colleague who has {name.his} [case] "
            "about {subject.about} will correct it, can you give them edit access",
            note="“{title}” doesn't match what we told {name} about {subject.about}. The "
            "colleague who has that [case] is going to correct it, so please give them edit "
            "access.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("search_cases", customer_id=customer["id"]),
            call("get_case", case_id=case["id"]),
            call("get_employee", employee_id=handler["id"]),
            call("search_documents", query=title),
            call("get_document", document_id=document["id"]),
            call("set_share", document_id=document["id"], employee_id=handler["id"], mode="edit"),
        ),
        answer="{handler}, who handles {reference}, can now edit “{title}”; before, they could "
        "only read it.",
        values={
            "title": title,
            "subject": subject,
            "name": customer["name"],
            "handler": handler["name"],
            "reference": case["reference"],
        },
        spare=(("cases", closed["id"]),),
    )


@situation("cases", steps=8, rare=True, without=("charity",), weight=0.3)
def a_case_that_has_become_serious(maker: Maker) -> Draft:
    """A case of high priority goes to the one of a team who may handle it and is there."""
    team, (clerk, away, fit) = plant_team(maker, "clerk", "supervisor", "supervisor")
    new_absence(maker, away, 0, 5)
    customer = new_customer(maker)
    subject, past = case_subjects(maker, 2)
    case = new_case(maker, customer, subject=subject, handler=maker.me, age=9, priority="high")
    calm = new_case(maker, customer, subject=past, handler=maker.me, age=50)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} is threatening to go to court over {subject.about}, and {clerk} can't "
            "deal with that. Could you hand the [case] to [a supervisor] in {team} who's in today?",
            colleague="{clerk} is out of {clerk.his} depth with {name}'s [case] about "
            "{subject.about}. Could you hand the [case] over to [a supervisor] in {team} who's in "
            "today, please?",
            chat="{name} has got a lawyer, so the [case] about {subject.about} is too much for "
            "{clerk} now. can you hand it to [a supervisor] in {team}? someone whos in today",
            note="{name} has got a lawyer, and the [case] about {subject.about} has become too "
            "serious for {clerk}. Please give it to [a supervisor] in {team} who's in today.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("search_cases", customer_id=customer["id"]),
            call("get_case", case_id=case["id"]),
            call("list_teams"),
            call("list_team_members", team_id=team["id"]),
            call("get_employee", employee_id=away["id"]),
            call("get_employee", employee_id=fit["id"]),
            call("hand_over_case", case_id=case["id"], employee_id=fit["id"]),
        ),
        answer="{reference} is with {fit}. It has high priority, which {clerk} may not handle, and "
        "{away} is away.",
        values={
            "clerk": clerk["name"],
            "subject": subject,
            "name": customer["name"],
            "team": team["name"],
            "reference": case["reference"],
            "fit": fit["name"],
            "away": away["name"],
        },
        spare=(("cases", calm["id"]),),
    )


@situation("documents", "projects", steps=8, rare=True)
def all_who_still_work_on_it(maker: Maker) -> Draft:
    """Everybody with an open task in a project may read a paper; one of them may do so already."""
    lead, first, second, gone = (new_employee(maker) for _ in range(4))
    project = new_project(maker, new_customer(maker), lead=lead, due=44)
    titles = task_titles(maker, 4)
    new_task(maker, project, titles[0], assignee=first, due=9)
    new_task(maker, project, titles[1], assignee=second, due=14)
    new_task(maker, project, titles[2], assignee=lead, due=20)
    done = new_task(maker, project, titles[3], assignee=gone, due=-5, status="done")
    new_entry(maker, done, gone, minutes=90, days=7)
    kind = maker.one_of("Timetable", "Budget", "Contact list")
    title = f"{kind}: {project['title']}"
    document = new_document(maker, title=title, owner=maker.me, age=33)
    new_share(maker, document, lead, "edit")
    return Draft(
        kind="change",
        ask=Voices(
            email="The people on “{project}” can't open the {kind}, which you look after. Could "
            "you give everyone who still has an open [task] read access? Anyone who can edit it "
            "already should keep that.",
            colleague="People keep asking me for the {kind} of “{project}”. Could you give "
            "everyone with an open [task] on it read access, please? Whoever has access already "
            "should keep it as it is.",
            chat="can you share the {kind} for “{project}” with everyone who still has an open "
            "[task] on it? read only is enough, and leave anyone who already has access",
            note="The people still working on “{project}” can't open the {kind}, which you look "
            "after. Please give everyone with an open [task] read access. If one of them can edit "
            "it already, leave it like that.",
        ),
        calls=(
            call("search_projects", query=project["title"]),
            call("get_project", project_id=project["id"]),
            call("search_documents", query=title),
            call("get_document", document_id=document["id"]),
            call("get_employee", employee_id=first["id"]),
            call("get_employee", employee_id=second["id"]),
            call("set_share", document_id=document["id"], employee_id=first["id"], mode="read"),
            call("set_share", document_id=document["id"], employee_id=second["id"], mode="read"),
        ),
        answer="{first} and {second} can now read “{title}”. {lead} already had [a share].",
        values={
            "project": project["title"],
            "title": title,
            "kind": kind.lower(),
            "first": first["name"],
            "second": second["name"],
            "lead": lead["name"],
        },
    )


@situation("payments", "refunds", kind="question", steps=5, rare=True)
def whose_refund_is_this(maker: Maker) -> Draft | None:
    """What an open refund is for, and who opened it."""
    goods = some_products(maker, 2, least=1_000)
    if not goods:
        return None
    opener = new_employee(maker)
    customer = new_customer(maker)
    method = new_method(maker, customer)
    payment = new_payment(maker, customer, method, goods[0], status="settled", created=20)
    other = new_payment(maker, customer, method, goods[1], status="settled", created=31)
    new_refund(maker, other, "Goodwill", status="cancelled", opened=24)
    refund = new_refund(maker, payment, "Late by our fault", opened=3, opener=opener)
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} has asked about an open [refund] that I know nothing about. What did "
            "{name.he} pay for, and which colleague opened it? I need the colleague's e-mail "
            "address as well.",
            colleague="{name} is asking about an open [refund] that I know nothing about. Could "
            "you tell me what {name.he} paid for, and who opened the [refund]? I'd like the "
            "colleague's e-mail address, too.",
            chat="{name} is asking about an open [refund] i know nothing about. what did "
            "{name.he} pay for, who opened the [refund] and whats their email?",
            note="I can't see why there's an open [refund] for {name}. What was the [payment] "
            "for, and which colleague opened the [refund]? I'd like to ask, so I need the e-mail "
            "address as well.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_refunds", customer_id=customer["id"], status="open"),
            call("get_refund", refund_id=refund["id"]),
            call("get_payment", payment_id=payment["id"]),
            call("get_employee", employee_id=opener["id"]),
        ),
        answer="It's for {product}. {opener} ({email}) opened it.",
        values={
            "name": customer["name"],
            "product": goods[0]["name"],
            "opener": opener["name"],
            "email": opener["email"],
        },
        trap="An earlier refund of the same customer was cancelled.",
    )


@situation("orders", "returns", kind="question", steps=5, common=True)
def what_became_of_the_return(maker: Maker) -> Draft | None:
    """Who refused a return, what it was worth, and what the thing costs today."""
    goods = some_products(maker, 2)
    if not goods:
        return None
    customer = new_customer(maker)
    order = new_order(maker, customer, [(goods[0], 3), (goods[1], 1)], "completed", placed=24)
    line = order_lines(maker, order)[0]
    back = new_return(maker, order, [(line, 2, "used")], "unwanted", "refused", announced=15)
    event = maker.rows("return_events", return_id=back["id"], kind="refused")[0]
    judge = maker.get("employees", event["employee_id"])
    older = new_order(maker, customer, [(goods[1], 2)], "completed", placed=95)
    new_return(
        maker,
        older,
        [(order_lines(maker, older)[0], 1, "new")],
        "unwanted",
        "accepted",
        announced=80,
    )
    worth = 2 * line["unit_cents"]
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} is angry because we refused {name.his} return. Who decided that, how "
            "much was it worth, and which [order] was it from? Please give me the colleague's "
            "e-mail address, too.",
            colleague="{name} is complaining about a return that we refused. Could you tell me "
            "who refused it, with the e-mail address, what it was worth, and which [order] it was "
            "from?",
            chat="{name} is angry about a refused return. who refused it and whats their email? "
            "also what was it worth and which [order] was it from?",
            note="{name} has complained about a return that we refused, and I'd like to ring back "
            "today. Who refused it (name and e-mail address), how much was it worth, and which "
            "[order] was it from?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_returns", customer_id=customer["id"], status="refused"),
            call("get_return", return_id=back["id"]),
            call("get_order", order_id=order["id"]),
            call("get_employee", employee_id=judge["id"]),
        ),
        answer="{judge} ({email}) refused it. It was worth {worth} and came from {order}.",
        values={
            "name": customer["name"],
            "judge": judge["name"],
            "email": judge["email"],
            "worth": maker.money(worth),
            "order": order["reference"],
        },
    )
