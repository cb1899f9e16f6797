"""Dialogues on prices that go up; the first price that the colleague gives cannot be entered."""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft, Spoken, Talk, TalkLine, call
from rehearsal_room.scenarios.generate.modules.catalogue.make import some_products
from rehearsal_room.scenarios.generate.situations.helpers.dialogue_parts import spoken_price

GROUP = "price_tags"  # first part of the ids of these situations

_SHOPS = (
    *("bakery_supply", "bike_workshop", "farm_cooperative", "machine_service", "outdoor_shop"),
    *("plant_nursery", "solar_installer", "wine_merchant"),
)
_SERVICES = (
    *("airline_lounge", "dental_clinic", "gym", "hotel", "laboratory", "language_school"),
    *("print_shop", "veterinary_practice"),
)
# What an agent says that cannot or will not enter a price.
_REFUSED = (
    *("can't", "cannot", "not allowed", "limit", "at most", "maximum", "exceeds", "too high"),
    *("too much", "supervisor", "manager", "instead", "another price", "which price", "what price"),
)


def _dearer(cents: int, percent: int) -> int:
    """A price that is higher by so much, as round as people make prices.

    Example: _dearer(81_900, 5) -> 86_000, _dearer(2_400, 5) -> 2_600
    """
    step = 1_000 if cents >= 50_000 else 100 if cents >= 2_000 else 50
    return (cents + cents * percent // 100) // step * step + step


def _asked(maker: Maker) -> tuple[Row, int, int] | None:
    """A product, its new price, and the most percent by which a clerk may change it; None where
    the employee may change it by more."""
    goods = some_products(maker, 1, least=1_500)
    if not goods or maker.me["role"] != "clerk":
        return None
    new = _dearer(goods[0]["price_cents"], maker.rng.randrange(3, 9))
    return goods[0], new, maker.parameters["MOST_PRICE_CHANGE_PERCENT"]


def _calls(product: Row, cents: int) -> tuple[Call, ...]:
    return (
        call("search_products", query=product["name"]),
        call("set_price", product_id=product["id"], price_cents=cents),
    )


@situation(steps=2, dialogue=True, trades=_SHOPS)
def more_than_a_clerk_may(maker: Maker) -> Draft | None:
    """A shop wants to charge far more than a clerk may enter, and is content with less."""
    asked = _asked(maker)
    if asked is None:
        return None
    product, new, most = asked
    wish = _dearer(product["price_cents"], most + maker.rng.randrange(5, 15))
    return Draft(
        kind="change",
        ask=Spoken(
            colleague=(
                "Our supplier charges us a lot more now, so please put the price of {product} up "
                "to {wish}.",
                "There's hardly any margin left on {product}. Could you put the price up to "
                "{wish} for me?",
                "We'd like to charge {wish} for {product} from now on. Can you change it?",
                "{product} should cost {wish} from today. Could you change it in the system, "
                "please?",
            )
        ),
        talk=Talk(
            (
                TalkLine(
                    "price",
                    (
                        "Oh, I didn't know that. Then let's say {price}.",
                        "Hm, I suppose it's a big jump. Let's go with {price}.",
                        "All right, then leave it at {price}. We don't want to scare people off.",
                    ),
                    _REFUSED,
                    ("price",),
                    "change",
                ),
            ),
            (
                (
                    1,
                    "I may change a price by {most} % at most, so {wish} would take a supervisor. "
                    "Should I set another price instead?",
                ),
            ),
            ("Thanks!", "Great, I'll tell the others.", "Good, thanks."),
        ),
        calls=_calls(product, new),
        answer="{product} costs {price} now.",
        values={
            "product": product["name"],
            "price": spoken_price(maker, new),
            "wish": spoken_price(maker, wish),
            "most": most,
        },
        trap="The price that the colleague gives first is above a clerk's limit.",
    )


@situation(steps=2, dialogue=True, trades=_SERVICES)
def one_nought_too_many(maker: Maker) -> Draft | None:
    """A business charges a little more; the colleague's price has a nought too many."""
    asked = _asked(maker)
    if asked is None:
        return None
    product, new, most = asked
    new -= new % 100
    if new <= product["price_cents"]:
        return None
    return Draft(
        kind="change",
        ask=Spoken(
            colleague=(
                "We haven't raised the price of {product} in years, so it's going up a bit, to "
                "{slip}. Could you change it?",
                "The price of {product} is going up to {slip} today. Could you change it in the "
                "system, please?",
                "We're charging a little more for {product} from today, {slip}. Can you update "
                "the price?",
            )
        ),
        talk=Talk(
            (
                TalkLine(
                    "price",
                    (
                        "Ha, no, that's one nought too many. {price}!",
                        "Oops, no. I meant {price}.",
                        "Sorry, my finger slipped. It's {price}, of course.",
                    ),
                    (
                        *_REFUSED,
                        *("right", "correct", "mean", "meant", "sure", "mistake", "slip", "typo"),
                        *("times", "nought", "zero"),
                    ),
                    ("price",),
                    "correction",
                ),
            ),
            (
                (
                    1,
                    "{slip} is about ten times what it costs now, and I may change a price by "
                    "{most} % at most. Is that what you meant?",
                ),
            ),
            ("Thanks!", "Great, I'll tell the front desk.", "Good catch, thanks."),
        ),
        calls=_calls(product, new),
        answer="{product} costs {price} now.",
        values={
            "product": product["name"],
            "price": spoken_price(maker, new),
            "slip": spoken_price(maker, 10 * new),
            "most": most,
        },
        trap="The price that the colleague gives is ten times too high.",
    )
