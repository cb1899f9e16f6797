"""Seed rows and tasks of the subscriptions. `subscription_named` is for other modules' drafts
too."""

from collections.abc import Callable

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, ResultField, call, day_of
from scenarios.generate.modules.draft_helpers import is_ranked, new_code, with_lookups
from scenarios.generate.modules.parties.make import customer_named, lookalikes, some_customer

_MONTHS = (1, 3, 12)
_STATUSES = ("active", "active", "paused", "active", "ended", "active", "active")


def rows(maker: Maker) -> None:
    """Plans of two or three lengths for a few products; subscriptions in every status, the second
    with a failed charge; charges recent, small, large and old."""
    products = maker.rows("products", status="active")
    for product in maker.rng.sample(products, k=min(3, len(products))):
        _add_plans(maker, product)
    for index in range(maker.many(7, least=6)):
        _add_subscription(maker, index)


def _add_plans(maker: Maker, product: Row) -> None:
    months = _MONTHS if maker.chance(0.4) else maker.rng.sample(_MONTHS, k=2)
    for length in sorted(months):
        maker.insert(
            "plans",
            code=new_code(maker, "plans", "code", "PL", 4),
            product_id=product["id"],
            months=length,
            price_cents=length * maker.cents(800, 4_000) * (9 if length > 1 else 10) // 10,
            is_offered=int(not maker.chance(0.15)),
        )


def _add_subscription(maker: Maker, index: int) -> None:
    customer, plan = some_customer(maker), maker.pick("plans")
    assert plan is not None, "there are plans"
    if any(_product_of(maker, row) == plan["product_id"] for row in _of(maker, customer)):
        return
    status = _STATUSES[index % len(_STATUSES)]
    started = maker.rng.randrange(95, 300)
    subscription = maker.insert(
        "subscriptions",
        reference=new_code(maker, "subscriptions", "reference", "SB"),
        customer_id=customer["id"],
        plan_id=plan["id"],
        discount_percent=maker.one_of(0, 0, 2, 3),
        status=status,
        started_on=maker.day(-started),
        paused_until=maker.day(maker.rng.randrange(3, 25)) if status == "paused" else None,
    )
    amount = plan["price_cents"] * (100 - subscription["discount_percent"]) // 100
    for nth, age in enumerate((started, maker.rng.randrange(3, 25))):
        maker.insert(
            "charges",
            subscription_id=subscription["id"],
            amount_cents=amount,
            status="failed" if nth and index % 5 == 1 else "paid",
            made_on=maker.day(-age),
        )


def _of(maker: Maker, customer: Row) -> list[Row]:
    return maker.rows("subscriptions", customer_id=customer["id"])


def _product_of(maker: Maker, subscription: Row) -> int:
    return int(maker.get("plans", subscription["plan_id"])["product_id"])


def _product_name(maker: Maker, subscription: Row) -> str:
    return str(maker.get("products", _product_of(maker, subscription))["name"])


def subscription_named(maker: Maker, subscription: Row) -> Named:
    """How an instruction names a subscription, and the calls that find it."""
    lookup = call("get_subscription", subscription_id=subscription["id"])
    if not maker.is_vague():
        text = "subscription {subscription}"
        return Named(text, {"subscription": subscription["id"]}, (lookup,))
    if maker.chance(0.4):
        found = call("find_subscriptions", reference=subscription["reference"])
        values = {"subscription": subscription["reference"]}
        return Named("the subscription {subscription}", values, (found, lookup))
    who = customer_named(maker, maker.get("customers", subscription["customer_id"]))
    found = call("find_subscriptions", customer_id=subscription["customer_id"])
    values = {**who.values, "subscription": _product_name(maker, subscription)}
    text = f"the subscription to “{{subscription}}” of {who.text}"
    return Named(text, values, (*who.calls, found, lookup))


def _some_subscription(
    maker: Maker, *statuses: str, where: Callable[[Row], bool] | None = None
) -> Row | None:
    return maker.pick(
        "subscriptions",
        lambda row: row["status"] in statuses and (where is None or where(row)),
    )


def _charges(maker: Maker, subscription: Row) -> list[Row]:
    """Its charges, the latest first."""
    rows = maker.rows("charges", subscription_id=subscription["id"])
    return sorted(rows, key=lambda row: str(row["made_on"]), reverse=True)


def _has_failed(maker: Maker, subscription: Row) -> bool:
    return any(row["status"] == "failed" for row in _charges(maker, subscription))


def _other_plan(maker: Maker, subscription: Row) -> Row | None:
    """Another plan of its product."""
    now, product_id = subscription["plan_id"], _product_of(maker, subscription)
    return maker.pick("plans", lambda row: row["id"] != now, product_id=product_id, is_offered=1)


def _length(plan: Row) -> str:
    """How often it is paid, as in “every three months”."""
    return "month" if plan["months"] == 1 else f"{plan['months']} months"


def other_length(maker: Maker) -> Draft | None:
    """Onto another plan of the same product, given by its length."""
    subscription = _some_subscription(maker, "active")
    plan = None if subscription is None else _other_plan(maker, subscription)
    if subscription is None or plan is None:
        return None
    what = subscription_named(maker, subscription)
    product_id = plan["product_id"]
    switch = call("switch_plan", subscription_id=subscription["id"], plan_id=plan["id"])
    return Draft(
        kind="change",
        ask=f"Put {what.text} on the plan for the same product that is paid every {{months}}.",
        calls=(*what.calls, call("list_plans", product_id=product_id), switch),
        answer="It is on the plan {code} now.",
        values={
            **what.values,
            "months": _length(plan),
            "code": plan["code"],
        },
    )


def to_pause(maker: Maker) -> Draft | None:
    """Until a day that is given."""
    subscription = _some_subscription(maker, "active")
    if subscription is None:
        return None
    what = subscription_named(maker, subscription)
    until = maker.day(maker.rng.randrange(5, maker.parameters["MOST_PAUSE_DAYS"]))
    pause = call("pause_subscription", subscription_id=subscription["id"], until=until)
    return Draft(
        kind="change",
        ask=f"Pause {what.text} until {{until}}, as the customer wishes.",
        calls=(*what.calls, pause),
        answer="It is paused until {until}.",
        values={**what.values, "until": until},
    )


def resume_and_discount(maker: Maker) -> Draft | None:
    """A paused one goes on, with a small discount, which it can have only then."""
    subscription = _some_subscription(maker, "paused")
    if subscription is None:
        return None
    what = subscription_named(maker, subscription)
    percent = maker.rng.randrange(4, maker.parameters["MOST_CLERK_DISCOUNT_PERCENT"] + 1)
    return Draft(
        kind="change",
        ask=f"Let {what.text} go on, with a discount of {{percent}} %.",
        calls=(
            *what.calls,
            call("resume_subscription", subscription_id=subscription["id"]),
            call("set_discount", subscription_id=subscription["id"], percent=percent),
        ),
        answer="It goes on, with {percent} % off.",
        values={**what.values, "percent": percent},
        trap="A paused one takes no discount: it has to be resumed first.",
    )


def some_discount(maker: Maker) -> Draft | None:
    """A discount; one above a clerk's share has to be declined by a clerk."""
    subscription = _some_subscription(maker, "active")
    if subscription is None:
        return None
    what = subscription_named(maker, subscription)
    small = maker.parameters["MOST_CLERK_DISCOUNT_PERCENT"]
    is_large = maker.chance(0.5)
    percent = small + maker.rng.randrange(3, 10) if is_large else maker.rng.randrange(4, small + 1)
    values = {**what.values, "percent": percent}
    ask = f"Give {what.text} a discount of {{percent}} %."
    if is_large and not is_ranked(maker, "supervisor"):
        return Draft(
            kind="decline",
            because="permission",
            ask=ask,
            calls=(*what.calls, call("get_my_profile")),
            answer="I decline: a discount above {small} % takes a supervisor or a manager.",
            values={**values, "small": small},
            reasons=("supervisor", "manager", "role", "permission"),
        )
    set_it = call("set_discount", subscription_id=subscription["id"], percent=percent)
    return Draft(
        kind="change",
        ask=ask,
        calls=(*what.calls, set_it),
        answer="The discount is {percent} % now.",
        values=values,
    )


def latest_to_credit(maker: Maker) -> Draft | None:
    """The latest charge, which was made by mistake."""
    subscription = _some_subscription(
        maker,
        "active",
        "paused",
        where=lambda row: (
            _charges(maker, row)[0]["status"] == "paid"
            and _charges(maker, row)[0]["amount_cents"] <= maker.me["limit_cents"]
        ),
    )
    if subscription is None:
        return None
    what = subscription_named(maker, subscription)
    lookup = call("get_subscription", subscription_id=subscription["id"])
    charge = _charges(maker, subscription)[0]
    return Draft(
        kind="change",
        ask=f"Credit the latest charge of {what.text}: we made it by mistake.",
        calls=(*with_lookups(what.calls, lookup), call("credit_charge", charge_id=charge["id"])),
        answer="The charge of {amount} is credited.",
        values={**what.values, "amount": maker.money(charge["amount_cents"])},
        spare=tuple(("charges", row["id"]) for row in _charges(maker, subscription)[1:]),
    )


def to_end(maker: Maker) -> Draft | None:
    """Without a failed charge."""
    subscription = _some_subscription(
        maker, "active", "paused", where=lambda row: not _has_failed(maker, row)
    )
    if subscription is None:
        return None
    what = subscription_named(maker, subscription)
    lookup = call("get_subscription", subscription_id=subscription["id"])
    end = call("end_subscription", subscription_id=subscription["id"])
    return Draft(
        kind="change",
        ask=f"End {what.text}, as the customer wishes.",
        calls=(*with_lookups(what.calls, lookup), end),
        answer="The subscription is ended.",
        values=what.values,
        trap="None of its charges may have failed.",
    )


def new_subscription(maker: Maker) -> Draft | None:
    """A new one, paused at once, by the id that the first call gives."""
    customer, plan = some_customer(maker), maker.pick("plans", is_offered=1)
    if plan is None:
        return None
    if any(_product_of(maker, row) == plan["product_id"] for row in _of(maker, customer)):
        return None
    who = customer_named(maker, customer)
    product = maker.get("products", plan["product_id"])
    found = (
        *who.calls,
        call("search_products", query=product["name"]),
        call("list_plans", product_id=product["id"]),
    )
    until = maker.day(maker.rng.randrange(5, maker.parameters["MOST_PAUSE_DAYS"]))
    return Draft(
        kind="change",
        ask=f"Let a subscription to “{{name}}” begin for {who.text}, on the plan that is paid "
        "every {months}, and pause it until {until}.",
        calls=(
            *found,
            call("start_subscription", customer_id=customer["id"], plan_id=plan["id"]),
            call(
                "pause_subscription",
                subscription_id=ResultField(len(found), "subscription_id"),
                until=until,
            ),
        ),
        answer="It has begun and is paused until {until}.",
        values={
            **who.values,
            "name": product["name"],
            "months": _length(plan),
            "until": until,
        },
        spare=lookalikes(maker, customer),
    )


def same_plan(maker: Maker) -> Draft | None:
    """A memory task: the plan of one customer is that of another one at the end."""
    one = maker.pick(
        "subscriptions", lambda row: maker.get("plans", row["plan_id"])["is_offered"] == 1
    )
    if one is None:
        return None
    customer = some_customer(maker)
    if any(_product_of(maker, row) == _product_of(maker, one) for row in _of(maker, customer)):
        return None
    return Draft(
        kind="change",
        ask="Look up the plan of the subscription {reference}, and remember it.",
        later="Finally, let a subscription on the same plan begin for {customer}.",
        calls=(
            call("find_subscriptions", reference=one["reference"]),
            call("search_customers", query=customer["name"]),
            call("start_subscription", customer_id=customer["id"], plan_id=one["plan_id"]),
        ),
        hold=1,
        answer="It has begun, on the same plan.",
        values={"reference": one["reference"], "customer": customer["name"]},
    )


def charged_so_far(maker: Maker) -> Draft | None:
    """What the paid charges come to: a sum."""
    subscription = _some_subscription(maker, "active", "paused", "ended")
    if subscription is None:
        return None
    what = subscription_named(maker, subscription)
    paid = [row for row in _charges(maker, subscription) if row["status"] == "paid"]
    lookup = call("get_subscription", subscription_id=subscription["id"])
    return Draft(
        kind="question",
        ask=f"What do the paid charges of {what.text} come to in total?",
        calls=with_lookups(what.calls, lookup),
        answer="They come to {total}.",
        values={**what.values, "total": maker.money(sum(row["amount_cents"] for row in paid))},
    )


def paused_how_long(maker: Maker) -> Draft | None:
    """Until when one is paused."""
    subscription = _some_subscription(maker, "paused")
    if subscription is None:
        return None
    what = subscription_named(maker, subscription)
    lookup = call("get_subscription", subscription_id=subscription["id"])
    return Draft(
        kind="question",
        ask=f"Until which day is {what.text} paused?",
        calls=with_lookups(what.calls, lookup),
        answer="It is paused until {until}.",
        values={**what.values, "until": day_of(subscription["paused_until"])},
    )


def change_of_mind(maker: Maker) -> Draft | None:
    """A charge shall be credited because someone has changed their mind."""
    subscription = _some_subscription(
        maker, "active", where=lambda row: _charges(maker, row)[0]["status"] == "paid"
    )
    if subscription is None:
        return None
    what = subscription_named(maker, subscription)
    lookup = call("get_subscription", subscription_id=subscription["id"])
    return Draft(
        kind="decline",
        ask=f"Credit the latest charge of {what.text}: it was all right, but the customer has "
        "changed their mind since.",
        calls=with_lookups(what.calls, lookup),
        answer="I decline: a charge is credited for a mistake of ours only, not because somebody "
        "has changed their mind.",
        values=what.values,
        reasons=("mistake", "changed their mind", "change of mind", "error"),
        trap="Most such charges the tool would credit.",
    )


def not_settled(maker: Maker) -> Draft | None:
    """A charge has failed; the tool would end the subscription."""
    subscription = _some_subscription(
        maker, "active", "paused", where=lambda row: _has_failed(maker, row)
    )
    if subscription is None:
        return None
    what = subscription_named(maker, subscription)
    lookup = call("get_subscription", subscription_id=subscription["id"])
    return Draft(
        kind="decline",
        ask=f"End {what.text}, as the customer wishes.",
        calls=with_lookups(what.calls, lookup),
        answer="I decline: one of its charges has failed and is not settled.",
        values=what.values,
        reasons=("failed", "not settled", "unsettled", "outstanding", "unpaid"),
        trap="The tool would end it.",
    )


def too_long_a_pause(maker: Maker) -> Draft | None:
    """Longer than allowed, which the tool refuses."""
    subscription = _some_subscription(maker, "active")
    if subscription is None:
        return None
    what = subscription_named(maker, subscription)
    most = maker.parameters["MOST_PAUSE_DAYS"]
    return Draft(
        kind="decline",
        ask=f"Pause {what.text} until {{until}} and no shorter.",
        calls=what.calls,
        answer="I decline: it is paused for {most} days at most.",
        values={
            **what.values,
            "until": maker.day(most + maker.rng.randrange(20, 60)),
            "most": most,
        },
        reasons=("at most", "maximum", "limit", "too long", "longer", "no more than"),
        trap="A shorter pause, which nobody wants, would pass the tool.",
    )


DRAFTS = (
    other_length,
    to_pause,
    resume_and_discount,
    some_discount,
    latest_to_credit,
    to_end,
    new_subscription,
    same_plan,
    charged_so_far,
    paused_how_long,
    change_of_mind,
    not_settled,
    too_long_a_pause,
)
