"""Situations with many steps: rounds over several records, each of which must be looked at."""

from collections.abc import Callable

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.approvals.make import (
    new_request,
    request_kind,
    request_subjects,
)
from rehearsal_room.scenarios.generate.modules.documents.make import (
    document_titles,
    new_document,
    new_share,
)
from rehearsal_room.scenarios.generate.modules.draft_helpers import some_employee, team_of
from rehearsal_room.scenarios.generate.modules.feedback.make import new_flag, new_review
from rehearsal_room.scenarios.generate.modules.messaging.make import (
    new_message,
    new_thread,
    thread_subjects,
)
from rehearsal_room.scenarios.generate.modules.orders.make import new_order
from rehearsal_room.scenarios.generate.modules.parties.make import (
    WALK_IN_TRADES,
    new_customer,
)
from rehearsal_room.scenarios.generate.modules.projects.make import (
    new_entry,
    new_project,
    new_task,
    open_tasks,
    task_titles,
)
from rehearsal_room.scenarios.generate.modules.tickets.make import (
    new_ticket,
    unsolved_tickets,
)

GROUP = "long_rounds"  # first part of the ids of these situations


def _by_name(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["name"], row["id"]))


@situation("approvals", steps=6, weight=1.2)
def the_tray_by_team(maker: Maker) -> Callable[[], Draft | None] | None:
    """What people of one team have in the own tray is approved where limit and age allow it."""
    team = team_of(maker, 2, 5)
    if team is None or maker.me["limit_cents"] < 5_000:
        return None
    members = [
        row
        for row in maker.rows("employees", team_id=team["id"], active=1)
        if row["id"] != maker.me["id"]
    ]
    outside = maker.pick(
        "employees",
        lambda row: row["team_id"] != team["id"] and row["id"] != maker.me["id"],
        active=1,
    )
    if len(members) < 2 or outside is None:
        return None
    stale = maker.parameters["STALE_REQUEST_DAYS"]
    kind = request_kind(maker, "Equipment")
    subjects = request_subjects(maker, 5)
    limit = maker.me["limit_cents"]
    fine = [
        new_request(
            maker,
            members[number % 2],
            maker.me,
            subject=subjects[number],
            kind=kind,
            cents=maker.cents(1_500, 4_500, 50),
            age=8 - 3 * number,
        )
        for number in range(2)
    ]
    old = new_request(
        maker, members[0], maker.me, subject=subjects[2], kind=kind, cents=2_350, age=stale + 5
    )
    dear = new_request(
        maker, members[1], maker.me, subject=subjects[3], kind=kind, cents=limit + 2_500, age=4
    )
    other = new_request(
        maker, outside, maker.me, subject=subjects[4], kind=kind, cents=2_800, age=3
    )

    def draft() -> Draft | None:
        inside = {row["id"] for row in maker.rows("employees", team_id=team["id"], active=1)}
        waiting = [
            row
            for row in maker.rows("requests", decider_id=maker.me["id"], status="open")
            if row["made_by"] in inside
        ]
        if len(waiting) != 4:
            return None
        return Draft(
            kind="change",
            ask=Voices(
                email="{team} have been waiting for weeks to hear about their [requests]. Could "
                "you approve what you can, and let me know what's wrong with the others?",
                colleague="{team} can't order anything until you've gone through their "
                "[requests]. Please approve the [requests] you can, and let me know why you "
                "can't approve the others.",
                chat="{team} keep asking about the [requests] they sent you. can you approve "
                "what you can and tell me whats wrong with the others",
                note="I'm meeting {team} at eleven, and they'll ask me about the [requests] "
                "they've sent you. Please approve the ones you can before the meeting, and tell "
                "me why you can't approve the rest.",
            ),
            calls=(
                call("get_my_profile"),
                call("list_teams"),
                call("list_team_members", team_id=team["id"]),
                call("find_requests", decider_id=maker.me["id"], status="open"),
                *(
                    call("approve_request", request_id=row["id"], remark="Within limit and time.")
                    for row in fine
                ),
            ),
            answer="{one} and {two} are approved. {old} can't be approved any more because it's "
            "out of date, and {dear} is above my limit.",
            values={
                "team": team["name"],
                "one": fine[0]["reference"],
                "two": fine[1]["reference"],
                "old": old["reference"],
                "dear": dear["reference"],
            },
            reasons=("out of date", "limit", "too old"),
            free={"decisions.remark": ()},
            spare=tuple(("requests", row["id"]) for row in (old, dear, other)),
        )

    return draft


@situation("projects", steps=7, memory=True, rare=True)
def wind_up_a_project(maker: Maker) -> Callable[[], Draft | None] | None:
    """What was worked on is finished; what nobody has begun goes to the lead."""
    lead = some_employee(maker)
    worker = None if lead is None else some_employee(maker, lead)
    if lead is None or worker is None:
        return None
    project = new_project(maker, new_customer(maker), lead=lead, due=18)
    titles = task_titles(maker, 4)
    tasks = [
        new_task(maker, project, title, assignee=worker, due=6 + 2 * number)
        for number, title in enumerate(titles)
    ]
    for task in tasks[:2]:
        new_entry(maker, task, worker, minutes=maker.rng.randrange(60, 240, 15), days=4)

    def draft() -> Draft | None:
        if len(open_tasks(maker, lead)) + 2 > maker.parameters["MOST_OPEN_TASKS"]:
            return None
        return Draft(
            kind="change",
            ask=Voices(
                email="{worker} is leaving “{project}”. Could you mark {worker.his} open [tasks] "
                "with hours on them as done, and give the ones {worker.he} hasn't started to "
                "the lead of the [project]?",
                colleague="{worker} is leaving “{project}” and says that every [task] with hours "
                "on it is finished. Please mark those open [tasks] of {worker.his} as done, and "
                "give {worker.his} other open ones to the lead.",
                chat="{worker} is leaving “{project}” and says whatever has hours on it is "
                "finished. can you mark those of {worker.his} open [tasks] as done and give the "
                "rest to the lead of the [project]",
                note="{worker} is leaving “{project}” tomorrow. {worker.His} open [tasks] with "
                "hours on them are finished, so please mark them as done. The ones {worker.he} "
                "hasn't started should go to the lead of the [project].",
            ),
            calls=(
                call("search_projects", query=project["title"]),
                call("get_project", project_id=project["id"]),
                *(call("finish_task", task_id=row["id"]) for row in tasks[:2]),
                *(
                    call("assign_task", task_id=row["id"], employee_id=lead["id"])
                    for row in tasks[2:]
                ),
                call("get_employee", employee_id=lead["id"]),
            ),
            answer="“{one}” and “{two}” are done. {lead} now has “{three}” and “{four}”.",
            values={
                "worker": worker["name"],
                "project": project["title"],
                "lead": lead["name"],
                "one": titles[0],
                "two": titles[1],
                "three": titles[2],
                "four": titles[3],
            },
        )

    return draft


@situation("feedback", steps=9, memory=True, weight=0.4)
def sort_out_a_busy_pen(maker: Maker) -> Draft | None:
    """Somebody's reviews: clean pending ones are published, one that is flagged as an insult is
    hidden, what is published and clean stays."""
    products = maker.rows("products", status="active")
    if len(products) < 4:
        return None
    products = maker.rng.sample(products, k=4)
    customer = new_customer(maker)
    author = some_employee(maker) or maker.me
    pending = [
        new_review(maker, customer, product, rating=rating, status="pending", age=age)
        for product, rating, age in zip(products[:2], (2, 5), (3, 6), strict=True)
    ]
    rude = new_review(
        maker,
        customer,
        products[2],
        rating=1,
        body="Run by fools for fools. The person at the desk should be locked up.",
        age=4,
    )
    new_flag(maker, rude, "insult", by=author)
    fine = new_review(maker, customer, products[3], rating=1, age=8)
    found = sorted(
        (*pending, rude, fine), key=lambda row: (row["written_on"], -row["id"]), reverse=True
    )
    return Draft(
        kind="change",
        ask=Voices(
            email="{author} has flagged one of {name}'s [reviews] as an insult. Could you hide "
            "that [review], and publish the ones from {name.him} that are still pending?",
            colleague="Could you publish the [reviews] from {name} that are still pending, "
            "please? The one that {author} has flagged as an insult should be hidden.",
            chat="can you publish the pending [reviews] from {name} and hide the one {author} "
            "flagged as an insult",
            note="{name} was rude in one of {name.his} [reviews], and {author} has flagged it as "
            "an insult. Please hide that [review], and publish the pending ones from {name.him}, "
            "even if they're critical.",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_reviews", customer_id=customer["id"]),
            *(call("get_review", review_id=row["id"]) for row in found),
            *(call("publish_review", review_id=row["id"]) for row in found if row in pending),
            call("hide_review", review_id=rude["id"]),
        ),
        answer="The [reviews] of {one} and {two} are published, and the one about {three}, which "
        "was an insult, is hidden. The one-star [review] of {four} stays.",
        values={
            "name": customer["name"],
            "author": author["name"],
            "one": products[0]["name"],
            "two": products[1]["name"],
            "three": products[2]["name"],
            "four": products[3]["name"],
        },
        spare=(("reviews", fine["id"]),),
        trap="Another published review has one star and no flag.",
    )


@situation("documents", steps=8, common=True, weight=0.25)
def shares_of_a_leaver(maker: Maker) -> Callable[[], Draft | None] | None:
    """A colleague leaves and loses every share of the papers that a owner has."""
    owner = some_employee(maker)
    leaver = None if owner is None else some_employee(maker, owner)
    other = None if owner is None or leaver is None else some_employee(maker, owner, leaver)
    if owner is None or leaver is None or other is None:
        return None
    titles = document_titles(maker, 3)
    papers = [
        new_document(maker, title=title, owner=owner, age=age)
        for title, age in zip(titles, (20, 65, 110), strict=True)
    ]
    new_share(maker, papers[0], leaver, "edit")
    new_share(maker, papers[1], other, "read")
    new_share(maker, papers[2], leaver, "read")
    new_share(maker, papers[2], other, "edit")

    def draft() -> Draft | None:
        kept = maker.rows("documents", owner_id=owner["id"])
        shared = [
            row
            for row in kept
            if maker.rows("document_shares", document_id=row["id"], employee_id=leaver["id"])
        ]
        kept.sort(key=lambda row: (row["title"], row["id"]))
        shared.sort(key=lambda row: (row["title"], row["id"]))
        if len(kept) > 5:
            return None
        return Draft(
            kind="change",
            ask=Voices(
                email="{leaver} is moving to another team and won't be working with {owner} any "
                "more. Could you remove {leaver.his} access to all of {owner}'s [documents]?",
                colleague="{leaver} has stopped working with {owner} and no longer needs access "
                "to {owner.his} [documents]. Could you remove {leaver.him} from all the "
                "[documents] that {owner} owns, please?",
                chat="{leaver} doesnt work with {owner} any more. can you remove {leaver.his} "
                "access to all the [documents] that {owner} owns",
                note="{leaver} is changing departments on Monday and won't need {owner}'s "
                "[documents] any more. Please check which of them are shared with {leaver.him}, "
                "and remove {leaver.his} access to those.",
            ),
            calls=(
                call("search_employees", query=leaver["name"]),
                call("search_employees", query=owner["name"]),
                call("search_documents", owner_id=owner["id"]),
                *(call("get_document", document_id=row["id"]) for row in kept),
                *(
                    call("remove_share", document_id=row["id"], employee_id=leaver["id"])
                    for row in shared
                ),
            ),
            answer="{leaver} no longer has access to anything that {owner} owns. It was {titles}.",
            values={
                "leaver": leaver["name"],
                "owner": owner["name"],
                "titles": " and ".join(f"“{row['title']}”" for row in shared),
            },
        )

    return draft


@situation("messaging", steps=8, without=WALK_IN_TRADES)
def threads_of_their_people(maker: Maker) -> Callable[[], Draft | None] | None:
    """The open threads of all customers whom a colleague looks after come to that colleague."""
    owner = some_employee(maker)
    other = None if owner is None else some_employee(maker, owner)
    if owner is None or other is None:
        return None
    subjects = thread_subjects(maker, 3)
    for number, subject in enumerate(subjects):
        customer = new_customer(maker, owner_id=owner["id"])
        thread = new_thread(
            maker, customer, subject=subject, handler=other if number else owner, age=5 + number
        )
        new_message(maker, thread, days=2)

    def draft() -> Draft | None:
        people = _by_name(maker.rows("customers", owner_id=owner["id"]))
        if len(people) > 5:
            return None
        moved = [
            row
            for person in people
            for row in sorted(
                maker.rows("threads", customer_id=person["id"], status="open"),
                key=lambda row: str(row["begun_at"]),
                reverse=True,
            )
            if row["handler_id"] != owner["id"]
        ]
        if not 2 <= len(moved) <= 4:
            return None
        return Draft(
            kind="change",
            ask=Voices(
                email="{owner} is back from parental leave. Could you pass the open [threads] "
                "with all the [customers] {owner.he} looks after back to {owner.him}?",
                colleague="{owner} is back from leave and would like to look after {owner.his} "
                "[customers] again. Please assign the open [threads] with all of them to "
                "{owner.him}.",
                chat="{owner} is back from leave. can you assign the open [threads] with all "
                "{owner.his} [customers] to {owner.him} again",
                note="{owner} is back at work today. I'd like {owner.him} to have the open "
                "[threads] with all the [customers] {owner.he} looks after. Some of the "
                "[threads] may be assigned to {owner.him} already.",
            ),
            calls=(
                call("search_employees", query=owner["name"]),
                call("list_customers_of", employee_id=owner["id"]),
                *(call("find_threads", customer_id=row["id"], status="open") for row in people),
                *(
                    call("hand_over_thread", thread_id=row["id"], employee_id=owner["id"])
                    for row in moved
                ),
            ),
            answer="{owner} now has {references}.",
            values={
                "owner": owner["name"],
                "references": ", ".join(row["reference"] for row in moved),
            },
        )

    return draft


@situation("tickets", steps=6, rare=True)
def high_ones_to_the_supervisor(maker: Maker) -> Callable[[], Draft | None] | None:
    """The high tickets of a team go to the supervisor in it."""
    found = [
        row
        for row in maker.rows("teams")
        if len(maker.rows("employees", team_id=row["id"], active=1)) in (2, 3, 4)
        and len(maker.rows("employees", team_id=row["id"], role="supervisor", active=1)) == 1
    ]
    if not found:
        return None
    team = maker.rng.choice(found)
    members = _by_name(maker.rows("employees", team_id=team["id"], active=1))
    boss = next(row for row in members if row["role"] == "supervisor")
    others = [row for row in members if row is not boss]
    for number, priority in enumerate(("high", "normal", "high")):
        holder = others[number % len(others)]
        new_ticket(maker, new_customer(maker), priority=priority, assignee=holder, age=number)

    def draft() -> Draft | None:
        moved = [
            row
            for member in others
            for row in sorted(
                unsolved_tickets(maker, member), key=lambda row: (row["due_at"], row["id"])
            )
            if row["priority"] == "high"
        ]
        room = maker.parameters["MOST_TICKETS_ASSIGNED"] - len(unsolved_tickets(maker, boss))
        if not 2 <= len(moved) <= min(4, room):
            return None
        return Draft(
            kind="change",
            ask=Voices(
                email="{team} can't get on with their work because of the high-priority "
                "[tickets], and their [supervisor] has offered to take them all. Could you "
                "assign the outstanding ones?",
                colleague="{team} have too much to do, and their [supervisor] would like to "
                "help. Please assign all their outstanding high-priority [tickets] to the "
                "[supervisor].",
                chat="can you give every outstanding high priority [ticket] {team} have to their "
                "[supervisor]",
                note="Until the end of the month, the [supervisor] of {team} will look after all "
                "their outstanding high-priority [tickets]. Please assign the ones that the "
                "others still have to the [supervisor].",
            ),
            calls=(
                call("list_teams"),
                call("list_team_members", team_id=team["id"]),
                *(call("find_tickets", assignee_id=row["id"]) for row in others),
                *(
                    call("assign_ticket", ticket_id=row["id"], employee_id=boss["id"])
                    for row in moved
                ),
            ),
            answer="{boss} now has the high-priority [tickets] of {team}: {references}.",
            values={
                "team": team["name"],
                "boss": boss["name"],
                "references": ", ".join(row["reference"] for row in moved),
            },
        )

    return draft


@situation("orders", "tickets", steps=8, memory=True, without=("moving_company",), rare=True)
def the_order_in_the_complaint(maker: Maker) -> Draft | None:
    """A complaint is about an order that was placed by mistake: if it is still open it is
    cancelled, and the ticket is answered with its reference and solved."""
    products = maker.rows("products", status="active")
    if len(products) < 2:
        return None
    product, other = maker.rng.sample(products, k=2)
    customer = new_customer(maker)
    order = new_order(maker, customer, [(product, 3)], "open", placed=2)
    kept = new_order(maker, customer, [(other, 1)], "open", placed=1)
    subject = maker.one_of("My mistake", "I clicked the wrong button", "I did not want this")
    ticket = new_ticket(maker, customer, subject=subject, product=product, assignee=maker.me, age=1)
    return Draft(
        kind="change",
        ask=Voices(
            email="{name} ordered something by mistake; {name.his} [ticket] says what. If the "
            "[order] is still open, please cancel it, reply on the [ticket] with its "
            "reference, and close that.",
            colleague="{name} placed [an order] by mistake, and {name.his} [ticket] says what it "
            "was for. If the [order] is still open, please cancel it, reply with its reference, "
            "and close the [ticket].",
            chat="{name} ordered something by mistake, the [ticket] says what. can you cancel the "
            "open [order] with it, reply with its reference and close the [ticket]",
            note="{name} has opened [a ticket] to say that {name.he} ordered something by "
            "mistake. Please cancel the open [order] for it, give {name.him} the reference of "
            "the [order] in a reply, and close the [ticket].",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_tickets", customer_id=customer["id"]),
            call("get_ticket", ticket_id=ticket["id"]),
            call("find_orders", customer_id=customer["id"], status="open"),
            call("get_order", order_id=order["id"]),
            call("cancel_order", order_id=order["id"]),
            call(
                "add_ticket_comment",
                ticket_id=ticket["id"],
                body=f"We have cancelled {order['reference']} for you.",
                is_public=True,
            ),
            call("solve_ticket", ticket_id=ticket["id"]),
        ),
        answer="{order} with {product} is cancelled. I've told {name} on {ticket} and solved it. "
        "The other [order] stays.",
        values={
            "name": customer["name"],
            "subject": subject,
            "product": product["name"],
            "order": order["reference"],
            "ticket": ticket["reference"],
        },
        free={"ticket_comments.body": (order["reference"],)},
        spare=(("orders", kept["id"]),),
    )
