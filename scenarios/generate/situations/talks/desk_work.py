"""Dialogues on appointments, cases and meters: a colleague leaves out the day, the cost, the figure
or the device."""

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.situations import situation
from scenarios.generate.core.task_drafts import Draft, Spoken, Talk, TalkLine, Text, call
from scenarios.generate.modules.calendars.make import free_day, new_appointment
from scenarios.generate.modules.cases.make import new_case
from scenarios.generate.modules.devices.make import new_device, new_reading
from scenarios.generate.modules.draft_helpers import long_day
from scenarios.generate.modules.parties.make import new_customer
from scenarios.generate.situations.talks.common import DAY, clock_time, find, spoken_price
from scenarios.generate.situations.talks.spoken_subjects import APPOINTMENTS, CASES
from scenarios.generate.vocabulary.trades import trade


@situation("calendars", steps=3, dialogue=True)
def another_time_for_it(maker: Maker) -> Draft:
    """An appointment is moved; the day and then the hour must be asked for."""
    customer = new_customer(maker)
    old = free_day(maker, maker.me, least=5, most=11)
    day = free_day(maker, maker.me, least=12)
    hour = maker.rng.choice((8, 9, 11, 13, 14, 16))
    offered = [one for one in maker.pool("appointment_subjects") if one in APPOINTMENTS]
    subject = maker.rng.choice(offered or ["Contract renewal"])
    appointment = new_appointment(maker, customer, maker.me, old, 10, subject=subject)
    starts = maker.ahead(day, hour)
    return Draft(
        kind="change",
        ask=Spoken(
            colleague=(
                "{name} can't make it to the [appointment] {about}. Could you move it?",
                "{name} has just rung. Something's come up, so {name.he} can't come to the "
                "[appointment] {about}. Could you move it?",
                "Could you move {name}'s [appointment] {about}? {name.He}'s asked for a later day.",
                "{name} would like a later day for the [appointment] {about}. Can you change it?",
            )
        ),
        talk=Talk(
            (
                TalkLine(
                    "day",
                    ("{day} would be good.", "{name.He} can come on {day}.", "{day}, please."),
                    DAY,
                    ("day",),
                ),
                TalkLine(
                    "hour",
                    ("At {hour}, please.", "{hour} is best for {name.him}.", "{hour}, if you can."),
                    ("time", "hour"),
                    ("hour",),
                ),
            ),
            ((2, "To which day?"), (2, "And at what time?")),
            (
                "Thanks, I'll tell {name.him}.",
                "Great, I'll ring {name.him} back.",
                "Perfect, thanks!",
            ),
        ),
        calls=(
            find(customer),
            call("find_appointments", customer_id=customer["id"]),
            call("move_appointment", appointment_id=appointment["id"], starts_at=starts),
        ),
        answer="{name}'s [appointment] is now on {day} at {hour}.",
        values={
            "name": customer["name"],
            "about": APPOINTMENTS[subject],
            "day": long_day(starts),
            "hour": clock_time(hour),
        },
    )


@situation("cases", steps=3, dialogue=True, trades=tuple(CASES))
def what_the_expert_wants(maker: Maker) -> Draft:
    """Something must be ordered for a case; its day and its cost are missing."""
    (name,) = (one for one in CASES if trade(one) == maker.trade)
    subject, thing, payee = maker.rng.choice(CASES[name])
    customer = new_customer(maker)
    case = new_case(maker, customer, subject=subject, handler=maker.me, age=14)
    cents = maker.cents(2_500, 9_000, 500)
    day = maker.day(maker.rng.randrange(6, 25))
    return Draft(
        kind="change",
        ask=Spoken(
            colleague=(
                "We still need {thing} for {name}'s [case]. Could you add that as [a step]?",
                "Could you plan another [step] in {name}'s [case]? We need {thing}.",
                "I forgot [a step] in {name}'s [case]: we need {thing}. Could you put it in?",
            )
        ),
        talk=Talk(
            (
                TalkLine(
                    "day",
                    ("By {day} at the latest.", "By {day}.", "By {day}, please."),
                    (*DAY, "due"),
                    ("day",),
                ),
                TalkLine(
                    "cost",
                    ("{payee} charges {cost}.", "{payee} wants {cost}.", "It's {cost}."),
                    ("cost", "much", "price"),
                    ("cost",),
                ),
            ),
            ((2, "When is it due, and what does it cost?"),),
            (
                "Great, thanks.",
                "Thanks, I'll order it today.",
                "Good, then I'll see to it. Thanks!",
            ),
        ),
        calls=(
            find(customer),
            call("search_cases", customer_id=customer["id"]),
            call(
                "plan_step", case_id=case["id"], what=f"Get {thing}", due_on=day, cost_cents=cents
            ),
        ),
        answer="It's planned for {day}, at {cost}.",
        values={
            "name": customer["name"],
            "thing": thing,
            "payee": payee,
            "day": long_day(day),
            "cost": spoken_price(maker, cents),
        },
        free={"steps.what": ()},
    )


def _reading(
    maker: Maker, models: tuple[str, ...], colleague: Text, which: Text, figure: Text, asks: str
) -> Draft:
    """A reading without its figure, and of two devices."""
    customer = new_customer(maker)
    chosen = maker.rng.sample(models, 2)
    device, other = (_device(maker, customer, one) for one in chosen)
    base = maker.rng.randrange(2_000, 6_000)
    new_reading(maker, device, base, 31)
    new_reading(maker, other, base - 150, 31)
    count = base + maker.rng.randrange(80, 400)
    return Draft(
        kind="change",
        ask=Spoken(colleague=colleague),
        talk=Talk(
            (
                TalkLine("device", which, ("which", "device", "model", "machine"), ("model",)),
                TalkLine(
                    "figure",
                    figure,
                    ("figure", "counter", "reading", "number", "say", "says", "value", "meter"),
                    ("figure",),
                ),
            ),
            ((1, asks),),
            ("Thanks!", "Great, thanks.", "Thanks, I'll let {name.him} know."),
        ),
        calls=(
            call("search_devices", query=customer["name"]),
            call("record_reading", device_id=device["id"], counter=count),
        ),
        answer="I've recorded {figure} for {name}'s {model}.",
        values={
            "name": customer["name"],
            "figure": count,
            "model": f"{chosen[0][:1].lower()}{chosen[0][1:]}",
        },
        spare=(("devices", other["id"]),),
    )


def _device(maker: Maker, customer: Row, model: str) -> Row:
    return new_device(maker, customer, model)


@situation("devices", steps=2, dialogue=True, trades=("property_management",))
def the_figure_on_the_meter(maker: Maker) -> Draft:
    """A tenant has read one of two meters."""
    return _reading(
        maker,
        ("Water meter", "Heat meter"),
        (
            "{name} has just sent me a meter reading. Could you enter it for today?",
            "{name} read the meter this morning and rang with the figure. Please record it for "
            "today.",
            "I have a meter reading from {name} here, from today. Could you enter it?",
        ),
        ("It's the {model}.", "The {model}."),
        ("It's at {figure}.", "It says {figure}.", "{name.He} read {figure}."),
        "{name} has two meters. Which one is it, and what does it say?",
    )


@situation("devices", steps=2, dialogue=True, trades=("farm_cooperative", "machine_service"))
def hours_of_a_machine(maker: Maker) -> Draft:
    """A customer has read the hours of one of two machines."""
    models: tuple[str, ...] = ("Grain dryer", "Feed mixer", "Irrigation pump")
    if trade("machine_service") == maker.trade:
        models = ("Compressor", "Hydraulic press", "Lathe", "Packing line")
    return _reading(
        maker,
        models,
        (
            "{name} has just sent me today's operating hours of one of {name.his} machines. Could "
            "you enter them?",
            "{name} rang with the operating hours of a machine, as of today. Please record them.",
            "I have today's hours from {name} here, off one of {name.his} machines. Could you "
            "enter them?",
        ),
        ("The {model}.", "It's the {model}."),
        ("It's at {figure} hours.", "The counter says {figure}.", "{figure} hours."),
        "{name} has two machines. Which one is it, and what does the counter say?",
    )
