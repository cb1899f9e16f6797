"""Dialogues on prices that go up; the colleague does not say to what."""

from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.situations import situation
from scenarios.generate.core.task_drafts import Draft, Spoken, Talk, TalkLine, Text, call
from scenarios.generate.modules.catalogue.make import some_products
from scenarios.generate.situations.talks.common import spoken_price

_SHOPS = (
    *("bakery_supply", "bike_workshop", "farm_cooperative", "machine_service", "outdoor_shop"),
    *("plant_nursery", "solar_installer", "wine_merchant"),
)
_SERVICES = (
    *("airline_lounge", "dental_clinic", "gym", "hotel", "laboratory", "language_school"),
    *("print_shop", "veterinary_practice"),
)


def _dearer(cents: int, percent: int) -> int:
    """A price that is higher by so much, as round as people make prices.

    Example: _dearer(81_900, 5) -> 86_000, _dearer(2_400, 5) -> 2_600
    """
    step = 1_000 if cents >= 50_000 else 100 if cents >= 2_000 else 50
    return (cents + cents * percent // 100) // step * step + step


def _raised(maker: Maker, colleague: Text, closing: Text) -> Draft | None:
    """The price of one product goes up; the new one is missing."""
    goods = some_products(maker, 1, least=1_500)
    if not goods:
        return None
    new = _dearer(goods[0]["price_cents"], maker.rng.randrange(3, 9))
    return Draft(
        kind="change",
        ask=Spoken(colleague=colleague),
        talk=Talk(
            (
                TalkLine(
                    "price",
                    (
                        "{price}, please.",
                        "Make it {price}.",
                        "We agreed on {price}.",
                        "Sorry, I should have said. {price}.",
                    ),
                    ("price", "much", "amount", "cost"),
                    ("price",),
                ),
            ),
            ((1, "What should the new price be?"),),
            closing,
        ),
        calls=(
            call("search_products", query=goods[0]["name"]),
            call("set_price", product_id=goods[0]["id"], price_cents=new),
        ),
        answer="{product} costs {price} now.",
        values={"product": goods[0]["name"], "price": spoken_price(maker, new)},
    )


@situation(steps=2, dialogue=True, trades=_SHOPS)
def a_price_without_a_figure(maker: Maker) -> Draft | None:
    """A shop pays more for something and charges more for it."""
    return _raised(
        maker,
        (
            "Our supplier charges us more now, so we have to put the price of {product} up. Could "
            "you change it?",
            "There's hardly any margin left on {product}. Could you put the price up for me?",
            "We've decided to raise the price of {product} a little. Can you change it?",
            "The price of {product} goes up today. Could you change it in the system, please?",
        ),
        ("Thanks!", "Great, I'll tell the others.", "Good, thanks."),
    )


@situation(steps=2, dialogue=True, trades=_SERVICES)
def a_new_price_list(maker: Maker) -> Draft | None:
    """A business charges more for what it does."""
    return _raised(
        maker,
        (
            "We haven't raised the price of {product} in years, so it's going up a bit. Could you "
            "change it?",
            "The price of {product} is going up today. Could you change it in the system, please?",
            "We're charging a little more for {product} from today. Can you update the price?",
        ),
        ("Thanks!", "Great, I'll tell the front desk.", "Good, thanks."),
    )
