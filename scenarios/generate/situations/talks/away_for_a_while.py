"""Dialogues on what is paused, frozen or sent later; the colleague gives no day.

What people put on hold, and why, depends on the trade, so each situation names its trades.
"""

from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.situations import situation
from scenarios.generate.core.task_drafts import Draft, Spoken, Talk, TalkLine, Text, call
from scenarios.generate.modules.catalogue.make import some_products
from scenarios.generate.modules.draft_helpers import long_day
from scenarios.generate.modules.memberships.make import new_membership
from scenarios.generate.modules.parties.make import new_customer
from scenarios.generate.modules.shipments.make import new_shipment
from scenarios.generate.modules.subscriptions.make import new_subscription, plans_of, product_of
from scenarios.generate.situations.talks.common import DAY, find


def _paused(maker: Maker, colleague: Text, until: Text) -> Draft | None:
    """A subscription is paused from today; its last day is missing."""
    plans = plans_of(maker, 1)
    if not plans:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=90)
    last = maker.day(maker.rng.randrange(6, maker.parameters["MOST_PAUSE_DAYS"] - 2))
    return Draft(
        kind="change",
        ask=Spoken(colleague=colleague),
        talk=Talk(
            (TalkLine("last", until, DAY, ("last",)),),
            ((2, "Until when should it be paused?"),),
            (
                "Thanks, I'll let {name.him} know.",
                "Great, thanks.",
                "Thank you, I'll tell {name.him}.",
            ),
        ),
        calls=(
            find(customer),
            call("find_subscriptions", customer_id=customer["id"]),
            call("pause_subscription", subscription_id=subscription["id"], until=last),
        ),
        answer="It's paused until {last}.",
        values={
            "name": customer["name"],
            "product": product_of(maker, plans[0])["name"],
            "last": long_day(last),
        },
    )


@situation("subscriptions", steps=3, dialogue=True, trades=("coworking", "gym", "language_school"))
def paused_till_a_day(maker: Maker) -> Draft | None:
    """Somebody is away and wants to come back."""
    return _paused(
        maker,
        (
            "{name} is away for a while. Could you pause {product} for {name.him} from today?",
            "{name}'s travelling for work and can't come. Please pause {name.his} [subscription] "
            "for {product}, starting today.",
            "{name} has asked for a break from {product}, beginning today. Can you set that up?",
        ),
        ("Until {last}.", "{name.He}'s back on {last}.", "{name.He} said {last}."),
    )


@situation("subscriptions", steps=3, dialogue=True, trades=("wine_merchant",))
def too_many_bottles(maker: Maker) -> Draft | None:
    """Somebody has more wine than they drink."""
    return _paused(
        maker,
        (
            "{name} still has plenty of bottles and would like a break from {product}. Could you "
            "pause it from today?",
            "Could you pause {product} for {name} from today? Nobody's at home to take it in.",
        ),
        ("Until {last}.", "{name.He} said {last}.", "Let's say until {last}."),
    )


@situation("subscriptions", steps=3, dialogue=True, trades=("charity",))
def money_is_tight(maker: Maker) -> Draft | None:
    """A supporter cannot give for a while."""
    return _paused(
        maker,
        (
            "Money's tight for {name} at the moment. Could you pause {name.his} [subscription] "
            "from today?",
            "{name} would like to take a break from {name.his} [subscription], starting today. "
            "{name.He}'ll carry on later. Can you pause it?",
        ),
        ("Until {last}.", "{name.He} said {last}.", "{name.He} thinks until {last}."),
    )


@situation("subscriptions", steps=3, dialogue=True, trades=("bakery_supply",))
def the_bakery_closes(maker: Maker) -> Draft | None:
    """A bakery shuts for its holidays and needs nothing."""
    return _paused(
        maker,
        (
            "{name} is closing the bakery for {name.his} holidays. Could you pause {name.his} "
            "[subscription] for {product} from today?",
            "{name}'s oven has broken down, and {name.he} can't bake. Could you pause {name.his} "
            "[subscription] for {product} from today?",
        ),
        ("Until {last}.", "{name.He} hopes to be back on {last}.", "{name.He} told me {last}."),
    )


@situation("memberships", steps=3, dialogue=True, trades=("coworking", "gym"))
def frozen_for_a_holiday(maker: Maker) -> Draft:
    """A freeze of which neither day is given."""
    customer = new_customer(maker)
    membership = new_membership(maker, customer)
    begin = maker.rng.randrange(4, 20)
    length = maker.rng.randrange(
        maker.parameters["LEAST_FREEZE_DAYS"] + 1, maker.parameters["MOST_FREEZE_DAYS"] - 2
    )
    first, last = maker.day(begin), maker.day(begin + length)
    return Draft(
        kind="change",
        ask=Spoken(
            colleague=(
                "{name} is going abroad for a while. Could you freeze {name.his} [membership] for "
                "that time?",
                "{name} is going on a long trip and would like to freeze {name.his} [membership]. "
                "Could you do that?",
                "{name} will be away for work for a while. Please freeze {name.his} "
                "[membership] until {name.he}'s back.",
            )
        ),
        talk=Talk(
            (
                TalkLine(
                    "days",
                    (
                        "From {first} to {last}.",
                        "{first} to {last}, please.",
                        "From {first}, and {last} is the last day.",
                    ),
                    (*DAY, "from", "first day", "last day", "begin", "start", "end"),
                    ("first", "last"),
                ),
            ),
            ((2, "From which day to which day should it be frozen?"),),
            ("Perfect, thanks.", "Thanks, I'll tell {name.him}.", "Great, thank you."),
        ),
        calls=(
            find(customer),
            call("find_memberships", customer_id=customer["id"]),
            call("add_freeze", membership_id=membership["id"], first_day=first, last_day=last),
        ),
        answer="{name}'s [membership] is frozen from {first} to {last}.",
        values={"name": customer["name"], "first": long_day(first), "last": long_day(last)},
    )


@situation("shipments", steps=3, dialogue=True, without=("courier_service",))
def not_while_they_are_out(maker: Maker) -> Draft | None:
    """A shipment must leave later; the day is missing."""
    goods = some_products(maker, 1)
    if not goods:
        return None
    customer = new_customer(maker)
    shipment = new_shipment(maker, customer, [(goods[0], 1, 1_700)], leaves=3)
    day = maker.day(maker.rng.randrange(5, maker.parameters["MOST_POSTPONED_DAYS"]))
    return Draft(
        kind="change",
        ask=Spoken(
            colleague=(
                "Nobody's there to take in {name}'s [shipment] this week. Could you send it later?",
                "{name} rang and asked us to hold {name.his} [shipment] back for a bit. Can you "
                "move it?",
                "Could you put {name}'s [shipment] off? {name.He} isn't ready for it yet.",
                "{name} would rather have {name.his} [shipment] a little later. Could you change "
                "the day?",
            )
        ),
        talk=Talk(
            (
                TalkLine(
                    "day",
                    (
                        "On {day}.",
                        "{day}, please.",
                        "{name.He} asked for {day}.",
                        "Send it on {day}.",
                    ),
                    (*DAY, "later"),
                    ("day",),
                ),
            ),
            ((2, "On which day should it leave?"),),
            (
                "Thanks, I'll tell {name.him}.",
                "Great, thanks.",
                "Thanks, I'll let {name.him} know.",
            ),
        ),
        calls=(
            find(customer),
            call("find_shipments", customer_id=customer["id"], status="planned"),
            call("move_shipment", shipment_id=shipment["id"], leaves_on=day),
        ),
        answer="{name}'s [shipment] leaves on {day}.",
        values={"name": customer["name"], "day": long_day(day)},
    )
