"""What several dialogues need: a customer that is found, and how people say times and prices."""

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.task_drafts import SpokenValue, call, money

DAY = ("which day", "what day", "when", "date", "dates", "how long", "until", "till")


def find(customer: Row) -> Call:
    """The call that finds a customer by name."""
    return call("search_customers", query=customer["name"])


def clock_time(hour: int) -> SpokenValue:
    """Return a full hour as people say it.

    Example: clock_time(14) -> SpokenValue("2 pm", ("14:00", "2:00 pm", …))
    """
    number, half = hour % 12 or 12, "pm" if hour >= 12 else "am"
    dotted = ".".join(half) + "."
    forms = (
        f"{number}:00 {half}",
        f"{number}{half}",
        f"{number} {dotted}",
        f"{number}:00 {dotted}",
    )
    return SpokenValue(f"{number} {half}", (f"{hour:02}:00", f"{hour}:00", *forms))


def spoken_price(maker: Maker, cents: int) -> SpokenValue:
    """Return an amount in the trade's currency as people say it: without ".00".

    Example: spoken_price(maker, 18_200) -> SpokenValue("$182", ("18200", "$182.00"))
    """
    full = money(cents, maker.trade.currency)
    return SpokenValue(full.text.removesuffix(".00"), (*full.others, full.text))
