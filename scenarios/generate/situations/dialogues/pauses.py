"""Dialogues on what is paused, frozen or sent later: the colleague does not know that it needs a
last day, or asks for one that is too late.

What people put on hold, and why, depends on the trade, so each situation names its trades.
"""

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import (
    Draft,
    Spoken,
    Talk,
    TalkLine,
    Text,
    call,
)
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.memberships.make import new_membership
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.modules.shipments.make import new_shipment
from rehearsal_room.scenarios.generate.modules.subscriptions.make import (
    new_subscription,
    plans_of,
    product_of,
)
from rehearsal_room.scenarios.generate.situations.helpers.dialogue_parts import DAY, find

GROUP = "away_for_a_while"  # first part of the ids of these situations


def _paused(maker: Maker, colleague: Text, until: Text) -> Draft | None:
    """A subscription is paused from today; that a pause has a last day is new to the colleague."""
    plans = plans_of(maker, 1)
    if not plans:
        return None
    customer = new_customer(maker)
    subscription = new_subscription(maker, customer, plans[0], age=90)
    most = maker.parameters["MOST_PAUSE_DAYS"]
    last = maker.day(maker.rng.randrange(6, most - 2))
    return Draft(
        kind="change",
        ask=Spoken(colleague=colleague),
        talk=Talk(
            (TalkLine("last", until, DAY, ("last",)),),
            (
                (
                    2,
                    "A pause needs a last day, at most {most} days from today. Until when should "
                    "it be paused?",
                ),
            ),
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
            "most": most,
        },
    )


@situation("subscriptions", steps=3, dialogue=True, trades=("coworking", "gym"))
def paused_till_a_day(maker: Maker) -> Draft | None:
    """Somebody is away and wants to come back."""
    return _paused(
        maker,
        (
            "{name} is away from today. Could you pause {product} for {name.him} until {name.he}'s "
            "back?",
            "{name}'s travelling for work and can't come. Please pause {name.his} [subscription] "
            "for {product}, starting today.",
            "{name} has asked for a break from {product}, beginning today. Can you set that up?",
        ),
        (
            "{name.He}'s gone until {last}, so until then.",
            "Oh, I didn't know that. {name.He} mentioned {last}, so take that.",
            "Then until {last}, please. That's when {name.he}'s back.",
        ),
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
        (
            "Oh, I thought it simply stops until {name.he} rings. Then until {last}.",
            "Ah, all right. Let's say {last}.",
            "{name.He} only said a few weeks. Make it {last}, please.",
        ),
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
        (
            "I didn't know that. {name.He} has a new job by {last}, so take that day.",
            "Oh, right. Then until {last}, {name.he} hopes things are better by then.",
            "{name.He} said {name.he} could start again on {last}. Until then, please.",
        ),
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
        (
            "Ah, OK. {name.He} means to bake again on {last}, so until then.",
            "{name.He} told me {last}, if all goes well. So until then, please.",
            "Right, {name.he} did tell me. Until {last}.",
        ),
    )


@situation("memberships", steps=3, dialogue=True, trades=("coworking", "gym"))
def frozen_for_a_holiday(maker: Maker) -> Draft:
    """A freeze until somebody is back: on which day that is does not occur to the colleague."""
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
                "{name} is going abroad on {first}. Could you freeze {name.his} [membership] from "
                "that day until {name.he}'s back?",
                "{name} is off on a long trip and would like to freeze {name.his} [membership] "
                "while {name.he}'s gone, from {first}. Could you do that?",
                "{name} will be away for work from {first}. Please freeze {name.his} [membership] "
                "from then on until {name.he} returns.",
            )
        ),
        talk=Talk(
            (
                TalkLine(
                    "last",
                    (
                        "{name.He} told me {last} is the last day.",
                        "Ah, I should have said. Up to and including {last}.",
                        "Let me look at {name.his} message. {last} is {name.his} last day away.",
                    ),
                    (*DAY, "last day", "end", "ends", "back"),
                    ("last",),
                ),
            ),
            (
                (
                    2,
                    "A freeze needs a first and a last day. From {first} until which day should it "
                    "be?",
                ),
            ),
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
    """A shipment cannot wait as long as the customer is away; a day that is allowed will do."""
    goods = some_products(maker, 1)
    if not goods:
        return None
    customer = new_customer(maker)
    shipment = new_shipment(maker, customer, [(goods[0], 1, 1_700)], leaves=3)
    most = maker.parameters["MOST_POSTPONED_DAYS"]
    day, late = maker.day(maker.rng.randrange(5, most)), maker.day(most + maker.rng.randrange(3, 9))
    return Draft(
        kind="change",
        ask=Spoken(
            colleague=(
                "{name} is away and can't take in {name.his} [shipment]. Could you send it on "
                "{late} instead?",
                "{name} rang and asked us to hold {name.his} [shipment] back until {late}. Can you "
                "move it?",
                "Could you put {name}'s [shipment] off until {late}? {name.He} isn't ready for it "
                "yet.",
                "{name} would rather have {name.his} [shipment] sent on {late}. Could you change "
                "the day?",
            )
        ),
        talk=Talk(
            (
                TalkLine(
                    "day",
                    (
                        "Hm. Then {day}, a neighbour can take it in.",
                        "I didn't know that, let me ask {name.him}. OK, {day} is fine, too.",
                        "Then let it leave on {day}. {name.He} said that would do if need be.",
                    ),
                    (
                        *(*DAY, "later", "at the latest", "at most", "too far", "limit", "within"),
                        *("can't", "cannot", "not possible", "isn't possible", "instead"),
                    ),
                    ("day",),
                    "change",
                ),
            ),
            (
                (
                    2,
                    "I can't put it off that long: it must leave within {most} days from today. On "
                    "which day should it leave instead?",
                ),
            ),
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
        values={
            "name": customer["name"],
            "day": long_day(day),
            "late": long_day(late),
            "most": most,
        },
        trap="The day that the customer wishes for is too late.",
    )
