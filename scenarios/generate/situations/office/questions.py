"""Questions that take several look-ups and a sum, a comparison or a date."""

from collections.abc import Callable
from datetime import date, timedelta

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Voices, call
from rehearsal_room.scenarios.generate.modules.approvals.make import decide, new_request
from rehearsal_room.scenarios.generate.modules.cases.make import (
    case_steps,
    case_subjects,
    new_case,
    new_step,
)
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day, some_employee, team_of
from rehearsal_room.scenarios.generate.modules.memberships.make import new_membership, tiers
from rehearsal_room.scenarios.generate.modules.messaging.make import (
    new_message,
    new_thread,
    thread_subjects,
)
from rehearsal_room.scenarios.generate.modules.parties.make import (
    new_customer,
)
from rehearsal_room.scenarios.generate.modules.projects.make import (
    new_project,
    new_task,
    open_tasks,
    task_titles,
)
from rehearsal_room.scenarios.generate.modules.subscriptions.make import (
    bare_product,
    new_plans,
    new_subscription,
    plans_of,
    product_of,
)
from rehearsal_room.scenarios.generate.modules.tickets.make import new_ticket, unsolved_tickets


def _members(maker: Maker, team: Row) -> list[Row]:
    """The active employees of a team, as `list_team_members` lists them."""
    members = maker.rows("employees", team_id=team["id"], active=1)
    return sorted(members, key=lambda row: (row["name"], row["id"]))


@situation("tickets", kind="question", steps=6, common=True, weight=0.6)
def load_of_a_team(maker: Maker) -> Callable[[], Draft | None] | None:
    """Who in a team has the most unsolved tickets, and how many."""
    team = team_of(maker, 3, 5)
    if team is None:
        return None
    members = _members(maker, team)
    heavy = maker.rng.choice(members)
    for _ in range(2):
        new_ticket(maker, new_customer(maker), assignee=heavy, age=2)
    light = members[0] if heavy is not members[0] else members[1]
    new_ticket(maker, new_customer(maker), status="solved", assignee=light, age=30, solved=25)

    def draft() -> Draft | None:
        loads = {row["name"]: len(unsolved_tickets(maker, row)) for row in members}
        most = max(loads.values())
        if list(loads.values()).count(most) != 1 or most < 2:
            return None
        name = max(loads, key=lambda one: loads[one])
        return Draft(
            kind="question",
            ask=Voices(
                email="{team} say the work isn't shared out fairly. Which of them has the most "
                "outstanding [tickets], and how many?",
                colleague="I'd like to share out the work more fairly among {team}. Could you "
                "tell me who has the most outstanding [tickets] at the moment, and how many?",
                chat="{team} need some help. who has the most outstanding [tickets] right now and "
                "how many? id like to take some off them",
                note="I'm talking to {team} about their workload tomorrow. Which of them has the "
                "most outstanding [tickets] today, and how many does that person have?",
            ),
            calls=(
                call("list_teams"),
                call("list_team_members", team_id=team["id"]),
                *(call("find_tickets", assignee_id=row["id"]) for row in members),
            ),
            answer="{name} has the most, {most} of them.",
            values={"team": team["name"], "name": name, "most": most},
        )

    return draft


@situation(
    "subscriptions", kind="question", steps=4, rare=True, without=("charity", "bakery_supply")
)
def dearest_by_the_month(maker: Maker) -> Draft | None:
    """Which of somebody's running subscriptions costs most by the month, discounts counted."""
    plans, bare = plans_of(maker, 1), bare_product(maker)
    if not plans or bare is None:
        return None
    month = plans[0]["price_cents"] // plans[0]["months"]
    other = new_plans(maker, bare, (1, 3), month_cents=2 * month)
    customer = new_customer(maker)
    one = new_subscription(maker, customer, plans[0], age=310)
    two = new_subscription(maker, customer, other[1], age=95)
    price = other[1]["price_cents"]
    if price % 3:
        return None
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} would like to cut down a bit and asked where {name.he}'d save most. "
            "Which of {name.his} [subscriptions] costs {name.him} the most a month, and how much "
            "is that?",
            colleague="Could you tell me which of {name}'s [subscriptions] costs the most per "
            "month, and how much that is?",
            chat="{name} wants to save money. which of {name.his} [subscriptions] costs the most "
            "per month and how much",
            note="{name} is coming in at noon to talk about what {name.he} pays us. Which of "
            "{name.his} [subscriptions] is the most expensive per month, and what does it come to?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=one["id"]),
            call("get_subscription", subscription_id=two["id"]),
        ),
        answer="Per month {product} costs the most, at {amount}.",
        values={
            "name": customer["name"],
            "product": bare["name"],
            "amount": maker.money(price // 3),
        },
        trap="It is paid every three months.",
    )


@situation("projects", kind="question", steps=5, rare=True)
def free_hands_in_the_team(maker: Maker) -> Callable[[], Draft | None] | None:
    """Who in a team has the fewest open tasks, and when that person's next one is due."""
    team = team_of(maker, 2, 4)
    if team is None:
        return None
    members = _members(maker, team)
    project = new_project(maker, new_customer(maker), lead=maker.me, due=60)
    titles = task_titles(maker, 3)
    for number, member in enumerate(members):
        for nth in range(1 if number == 0 else 2):
            title = f"{titles[nth]} ({number + 1})"
            new_task(maker, project, title, assignee=member, due=8 + 5 * number + nth)

    def draft() -> Draft | None:
        loads = {row["id"]: open_tasks(maker, row) for row in members}
        few = min(len(found) for found in loads.values())
        free = [row for row in members if len(loads[row["id"]]) == few]
        if len(free) != 1 or few == 0:
            return None
        day = min(row["due_on"] for row in loads[free[0]["id"]])
        return Draft(
            kind="question",
            ask=Voices(
                email="I need somebody from {team} for a small job this week. Who has the fewest "
                "open [tasks], and when's their next one due?",
                colleague="I've got a small job for someone from {team}. Who has the fewest open "
                "[tasks] at the moment, and when is the next of those due?",
                chat="i need someone from {team}. who has the fewest open [tasks], and when is "
                "their next one due?",
                note="I've got a small job for somebody from {team}. Which of them has the fewest "
                "open [tasks], and when is their next one due?",
            ),
            calls=(
                call("list_teams"),
                call("list_team_members", team_id=team["id"]),
                *(call("find_tasks", assignee_id=row["id"], status="open") for row in members),
            ),
            answer="{name} has the fewest. The next one is due on {day}.",
            values={"team": team["name"], "name": free[0]["name"], "day": long_day(day)},
        )

    return draft


@situation("cases", kind="question", steps=5)
def what_comes_first(maker: Maker) -> Draft:
    """The next planned step in any of somebody's open cases, and its day."""
    customer = new_customer(maker)
    subjects, whats = case_subjects(maker, 3), case_steps(maker, 4)
    cases = [
        new_case(maker, customer, subject=subject, age=30 + 9 * number)
        for number, subject in enumerate(subjects)
    ]
    new_step(maker, cases[0], whats[0], due=12)
    first = new_step(maker, cases[1], whats[1], due=6)
    new_step(maker, cases[1], whats[2], due=2, status="dropped")
    new_step(maker, cases[2], whats[3], due=9)
    cases.sort(key=lambda row: str(row["reference"]))
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} has lost track of what we're doing for {name.him}. What's the next "
            "thing planned in {name.his} open [cases], and for which day?",
            colleague="{name} is on the phone and wants to know what happens next. Could you "
            "look at {name.his} open [cases] and tell me which [step] comes next, and on what "
            "day?",
            chat="{name} wants to know whats planned next in {name.his} open [cases] and for "
            "which day",
            note="I'm calling {name} at three. What's the next [step] that we've planned in any "
            "of {name.his} open [cases], and which day is it planned for?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("search_cases", customer_id=customer["id"], status="open"),
            *(call("get_case", case_id=row["id"]) for row in cases),
        ),
        answer="The next one is “{what}” on {day}.",
        values={
            "name": customer["name"],
            "what": first["what"],
            "day": long_day(first["due_on"]),
        },
        trap="An earlier step was dropped.",
    )


@situation("memberships", kind="question", steps=4, common=True)
def earliest_day_for_less(maker: Maker) -> Draft:
    """From which day somebody may go to a cheaper tier, and what that would save a month."""
    offered = tiers(maker)
    bound = maker.parameters["MEMBERSHIP_BOUND_DAYS"]
    customer = new_customer(maker)
    membership = new_membership(
        maker, customer, tier=offered[-1], age=bound - maker.rng.randrange(12, 50)
    )
    new_membership(maker, customer, tier=offered[0], age=900, last_day=maker.day(-400))
    first = date.fromisoformat(membership["first_day"]) + timedelta(days=bound)
    saved = offered[-1]["month_cents"] - offered[0]["month_cents"]
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} would like to switch from the {tier} [membership] to {cheap}. From "
            "which day can {name.he} do that, and how much would {name.he} save a month?",
            colleague="{name} would like to have the {cheap} [membership] instead of {tier}. "
            "What's the first day on which {name.he} can switch, and how much less would "
            "{name.he} pay a month?",
            chat="{name} wants to switch from the {tier} [membership] to {cheap}. whats the "
            "earliest day {name.he} can do that, and how much does {name.he} save a month",
            note="{name} finds the {tier} [membership] too expensive and is thinking about "
            "{cheap}. What's the earliest day on which {name.he} can change, and how much would "
            "that save {name.him} every month?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_memberships", customer_id=customer["id"]),
            call("get_membership", membership_id=membership["id"]),
            call("list_tiers"),
        ),
        answer="They can change from {day} on, and it saves them {saved} a month.",
        values={
            "name": customer["name"],
            "tier": offered[-1]["name"],
            "cheap": offered[0]["name"],
            "day": long_day(first.isoformat()),
            "saved": maker.money(saved),
        },
    )


@situation("messaging", kind="question", steps=5, rare=True, weight=0.2)
def since_when_do_they_wait(maker: Maker) -> Draft:
    """In which of somebody's open threads an answer of ours is missing, and since when."""
    customer = new_customer(maker)
    subjects = thread_subjects(maker, 3)
    handler = some_employee(maker) or maker.me
    threads = [
        new_thread(maker, customer, subject=subject, handler=handler, age=age)
        for subject, age in zip(subjects, (20, 12, 9), strict=True)
    ]
    for number, thread in enumerate(threads):
        new_message(maker, thread, days=18 - 4 * number)
        if number != 1:
            new_message(maker, thread, by=handler, days=7 - number)
    waits = threads[1]
    found = sorted(threads, key=lambda row: (row["begun_at"], -row["id"]), reverse=True)
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} has complained that we haven't answered. What's the subject of that "
            "[thread], and on which day did {name.he} write?",
            colleague="{name} says we owe {name.him} an answer, and I'm about to call. What's the "
            "subject of that [thread], and when did {name.he} write?",
            chat="{name} is still waiting for an answer from us and i have to call {name.him}. "
            "whats the subject of that [thread] and since when",
            note="I'd like to ring {name} and apologise, because we haven't answered. What's the "
            "subject of that [thread], and when did {name.he} write?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_threads", customer_id=customer["id"], status="open"),
            *(call("get_thread", thread_id=row["id"]) for row in found),
        ),
        answer="We still owe them an answer in “{subject}”, where they wrote on {day}.",
        values={
            "name": customer["name"],
            "subject": waits["subject"],
            "day": long_day(maker.rows("messages", thread_id=waits["id"])[0]["sent_at"]),
        },
    )


@situation("approvals", kind="question", steps=2, rare=True)
def approved_for_one_author(maker: Maker) -> Callable[[], Draft | None] | None:
    """How much was approved for one author in all, without what was rejected or withdrawn."""
    author = some_employee(maker)
    decider = None if author is None else some_employee(maker, author)
    if author is None or decider is None:
        return None
    for cents, verdict in ((4_250, "approved"), (7_900, "approved"), (6_100, "rejected")):
        amount = cents + maker.cents(0, 900, 50)
        request = new_request(maker, author, decider, cents=amount, age=14)
        decide(maker, request, verdict, days=9)

    def draft() -> Draft | None:
        approved = maker.rows("requests", made_by=author["id"], status="approved")
        return Draft(
            kind="question",
            ask=Voices(
                email="{author} has to report to our sponsor. How much money has been approved "
                "for {author.him} so far, in total?",
                colleague="Could you tell me how much money has been approved for {author} so "
                "far, in total?",
                chat="whats the total of everything thats been approved for {author} so far",
                note="Somebody said that {author} gets everything {author.he} asks for. What do "
                "{author}'s approved [requests] add up to so far? Leave out the rejected and "
                "withdrawn ones.",
            ),
            calls=(
                call("search_employees", query=author["name"]),
                call("find_requests", made_by=author["id"], status="approved"),
            ),
            answer="{total} has been approved so far.",
            values={
                "author": author["name"],
                "total": maker.money(sum(row["amount_cents"] for row in approved)),
            },
        )

    return draft


@situation("subscriptions", kind="question", steps=3, rare=True)
def next_payment_with_discount(maker: Maker) -> Draft | None:
    """What one payment of a discounted subscription comes to."""
    plans = plans_of(maker, 1)
    percent = 5
    if not plans or plans[-1]["price_cents"] * (100 - percent) % 100:
        return None
    customer = new_customer(maker)
    ended = new_subscription(
        maker, customer, plans[0], age=700, charges=False, status="ended", discount_percent=2
    )
    current = new_subscription(
        maker, customer, plans[-1], age=100, charges=False, discount_percent=percent
    )
    return Draft(
        kind="question",
        ask=Voices(
            email="{name} would like to know how much {name.his} next payment for the {product} "
            "will be, with the discount we gave {name.him}. Can you work it out?",
            colleague="{name} has a discount on the {product}. How much will the next payment be "
            "when that discount is taken off?",
            chat="how much is {name}'s next payment for the {product} with {name.his} discount",
            note="{name} has asked what we'll take from {name.his} account for the {product} next "
            "time. What's the payment, with {name.his} discount taken off?",
        ),
        calls=(
            call("search_customers", query=customer["name"]),
            call("find_subscriptions", customer_id=customer["id"]),
            call("get_subscription", subscription_id=current["id"]),
        ),
        answer="The next payment is {amount}.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[-1])["name"],
            "amount": maker.money(plans[-1]["price_cents"] * (100 - percent) // 100),
        },
        spare=(("subscriptions", ended["id"]),),
    )
