"""Dialogues on appointments, cases and meters: an hour is taken, a last day does not occur to the
colleague, a figure is read off wrong."""

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
from rehearsal_room.scenarios.generate.modules.calendars.make import free_day, new_appointment
from rehearsal_room.scenarios.generate.modules.cases.make import new_case
from rehearsal_room.scenarios.generate.modules.devices.make import new_device, new_reading
from rehearsal_room.scenarios.generate.modules.draft_helpers import long_day
from rehearsal_room.scenarios.generate.modules.parties.make import new_customer
from rehearsal_room.scenarios.generate.situations.helpers.dialogue_parts import (
    DAY,
    clock_time,
    find,
    spoken_price,
)
from rehearsal_room.scenarios.generate.situations.helpers.spoken_subjects import CASES
from rehearsal_room.scenarios.generate.vocabulary.spoken_titles import appointment_names
from rehearsal_room.scenarios.generate.vocabulary.trades import trade

GROUP = "desk_work"  # first part of the ids of these situations


@situation("calendars", steps=3, dialogue=True)
def another_time_for_it(maker: Maker) -> Draft | None:
    """An appointment is to be moved to a time at which there is another."""
    customer = new_customer(maker)
    old = free_day(maker, maker.me, least=5, most=11)
    wanted = free_day(maker, maker.me, least=12)
    day = free_day(maker, maker.me, least=12)
    if day == wanted:
        return None
    taken, hour = maker.rng.sample((8, 9, 11, 13, 14, 16), 2)
    offered = [one for one in maker.pool("appointment_subjects") if one in appointment_names()]
    subject = maker.rng.choice(offered or ["Contract renewal"])
    appointment = new_appointment(maker, customer, maker.me, old, 10, subject=subject)
    new_appointment(maker, new_customer(maker), maker.me, wanted, taken)
    starts = maker.ahead(day, hour)
    return Draft(
        kind="change",
        ask=Spoken(
            colleague=(
                "{name} can't make it to the {meeting}. Could you move it to {wanted} at {taken}?",
                "{name} has just rung. Something's come up, so {name.he} can't come to the "
                "{meeting}. Could you move it to {wanted}, {taken}?",
                "Could you move {name}'s {meeting} to {wanted} at {taken}? {name.He}'s "
                "asked for a later day.",
                "{name} would like a later day for the {meeting}: {wanted} at {taken}. "
                "Can you change it?",
            )
        ),
        talk=Talk(
            (
                TalkLine(
                    "other",
                    (
                        "Just a second, I'll ask {name.him}. {day} at {hour} would work.",
                        "Hm, then {day} at {hour}. That was {name.his} second choice.",
                        "Let me see what else {name.he} wrote. {day} at {hour}, please.",
                    ),
                    (
                        *(*DAY, "time", "hour", "taken", "busy", "booked", "another", "other"),
                        *("already", "instead", "not free", "isn't free", "can't", "cannot"),
                    ),
                    ("day", "hour"),
                    "change",
                ),
            ),
            (
                (
                    2,
                    "There's another [appointment] on {wanted} at {taken} already. When else could "
                    "{name.he} come?",
                ),
            ),
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
            "meeting": appointment_names()[subject],
            "day": long_day(starts),
            "hour": clock_time(hour),
            "wanted": long_day(maker.ahead(wanted, taken)),
            "taken": clock_time(taken),
        },
        trap="At the time that the customer wishes for there is another appointment.",
    )


@situation("cases", steps=3, dialogue=True, trades=tuple(CASES))
def what_the_expert_wants(maker: Maker) -> Draft:
    """Something must be ordered for a case; by when does not occur to the colleague."""
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
                "We still need {thing} for {name}'s [case], that's {cost}. Could you add it as "
                "[a step]?",
                "Could you plan another [step] in {name}'s [case]? We need {thing}. {payee} "
                "charges {cost}.",
                "I forgot [a step] in {name}'s [case]: we need {thing}. {payee} wants {cost} for "
                "it. Could you put it in?",
            )
        ),
        talk=Talk(
            (
                TalkLine(
                    "day",
                    (
                        "Oh, right. By {day} at the latest.",
                        "Let me think. {day} should be all right.",
                        "Hm, they usually take a while. Say {day}.",
                    ),
                    (*DAY, "due", "deadline", "by then"),
                    ("day",),
                ),
            ),
            ((2, "[A step] needs a day by which it is due. By when do we need it?"),),
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


def _reading(maker: Maker, models: tuple[str, ...], colleague: Text, asks: Text) -> Draft:
    """A reading whose first two digits were exchanged, so that the counter would go back."""
    customer = new_customer(maker)
    chosen = maker.rng.sample(models, 2)
    device, other = (new_device(maker, customer, one) for one in chosen)
    high, low = sorted(maker.rng.sample(range(2, 8), 2), reverse=True)
    count = 1_000 * high + 100 * low + maker.rng.randrange(10, 100)
    wrong = 1_000 * low + 100 * high + count % 100
    base = count - maker.rng.randrange(80, 200)
    new_reading(maker, device, base, 31)
    new_reading(maker, other, base - 750, 31)
    return Draft(
        kind="change",
        ask=Spoken(colleague=colleague),
        talk=Talk(
            (
                TalkLine(
                    "figure",
                    (
                        "Oh, I swapped two digits. {figure}, sorry.",
                        "Let me look again. Ah, it's {figure}.",
                        "No, you're right, it can't. It says {figure}, I typed it wrong.",
                    ),
                    (
                        *(
                            "figure",
                            "counter",
                            "reading",
                            "number",
                            "value",
                            "meter",
                            "say",
                            "says",
                        ),
                        *("lower", "less", "back", "backwards", "below", "check", "right", "wrong"),
                        *("before", "last time", "can't", "cannot", "correct"),
                    ),
                    ("figure",),
                    "correction",
                ),
            ),
            ((1, asks),),
            ("Thanks!", "Great, thanks.", "Thanks, and sorry for the mix-up."),
        ),
        calls=(
            call("search_devices", query=customer["name"]),
            call("record_reading", device_id=device["id"], counter=count),
        ),
        answer="I've recorded {figure} for {name}'s {model}.",
        values={
            "name": customer["name"],
            "figure": count,
            "wrong": wrong,
            "base": base,
            "model": f"{chosen[0][:1].lower()}{chosen[0][1:]}",
        },
        spare=(("devices", other["id"]),),
        trap="The figure is lower than the last one.",
    )


@situation("devices", steps=2, dialogue=True, trades=("property_management",))
def the_figure_on_the_meter(maker: Maker) -> Draft:
    """A tenant has read one of two meters."""
    return _reading(
        maker,
        ("Water meter", "Heat meter"),
        (
            "{name} has just sent me a reading of {name.his} {model}, {wrong}. Could you enter it "
            "for today?",
            "{name} read the {model} this morning and rang: it says {wrong}. Please record it for "
            "today.",
            "I was at {name}'s today, and the {model} is at {wrong}. Could you enter that?",
        ),
        "The last reading was {base}, so {wrong} can't be right: a meter doesn't go back. Could "
        "you check the figure?",
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
            "{name} has just sent me today's operating hours of {name.his} {model}: {wrong}. Could "
            "you enter them?",
            "{name} rang with the operating hours of the {model}. It's at {wrong} as of today, so "
            "please record that.",
            "I have today's hours from {name} here, {wrong} on the {model}. Could you enter them?",
        ),
        "The {model} was at {base} hours last time, so {wrong} can't be right. Could you check the "
        "figure?",
    )
