"""Seed rows and tasks of the shipments."""

from datetime import date

from scenarios.api import Row
from scenarios.format import Call
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, call
from scenarios.generate.modules.catalogue.make import product_named, some_product
from scenarios.generate.modules.draft_helpers import new_code, requiring_role, with_lookups
from scenarios.generate.modules.parties.make import customer_named, some_customer

_STATUSES = ("planned", "planned", "sent", "planned", "delivered", "planned", "sent")


def rows(maker: Maker) -> None:
    """Four carriers, the first insured, the last no longer at work; shipments of every status,
    the dear ones with an insured carrier."""
    dearest, *others = sorted(maker.rng.sample(range(450, 2_500, 50), k=4), reverse=True)
    maker.rng.shuffle(others)
    for index, cents in enumerate((dearest, *others)):
        maker.insert(
            "carriers",
            name=_firm(maker),
            parcel_cents=cents,
            most_grams=maker.rng.randrange(8, 16) * 1_000 + (20_000 if index == 0 else 0),
            is_insured=int(index == 0 or maker.chance(0.3)),
            active=int(index != 3),
        )
    for index in range(maker.many(7, least=6)):
        _add_shipment(maker, _STATUSES[index % len(_STATUSES)], has_choice=index == 0)


def _firm(maker: Maker) -> str:
    name = maker.people.company()
    while maker.rows("carriers", name=name):
        name = maker.people.company()
    return name


def _add_shipment(maker: Maker, status: str, *, has_choice: bool) -> None:
    customer = some_customer(maker)
    second = maker.pick("addresses", is_main=0)
    if (
        has_choice
        and second
        and maker.get("customers", second["customer_id"])["status"] == "active"
    ):
        customer = maker.get("customers", second["customer_id"])
    main = maker.rows("addresses", customer_id=customer["id"], is_main=1)[0]
    day = maker.rng.randrange(1, maker.parameters["MOST_POSTPONED_DAYS"] - 4)
    shipment = maker.insert(
        "shipments",
        reference=new_code(maker, "shipments", "reference", "SH", 5),
        customer_id=customer["id"],
        address_id=main["id"],
        carrier_id=maker.rows("carriers")[0]["id"],
        status=status,
        leaves_on=maker.day(day if status == "planned" else -day - 1),
    )
    products = maker.rows("products", status="active")
    for product in maker.rng.sample(products, k=maker.one_of(1, 2, 2)):
        maker.insert(
            "parcels",
            shipment_id=shipment["id"],
            product_id=product["id"],
            quantity=maker.rng.randrange(1, 4),
            grams=maker.rng.randrange(300, 12_000, 10),
        )
    eligible = [row for row in maker.rows("carriers") if _fits(maker, shipment, row)]
    shipment["carrier_id"] = maker.rng.choice(eligible)["id"]


def _parcels(maker: Maker, shipment: Row) -> list[Row]:
    return maker.rows("parcels", shipment_id=shipment["id"])


def _is_dear(maker: Maker, product_id: int, quantity: int) -> bool:
    """Whether this many of a product need a carrier that is insured."""
    price = maker.get("products", product_id)["price_cents"]
    return bool(price * quantity > maker.parameters["INSURED_FROM_CENTS"])


def _fits(maker: Maker, shipment: Row, carrier: Row) -> bool:
    """Whether a carrier may take a shipment, by its own limits and by the rules."""
    parcels = _parcels(maker, shipment)
    is_dear = any(_is_dear(maker, row["product_id"], row["quantity"]) for row in parcels)
    return bool(
        carrier["active"]
        and all(row["grams"] <= carrier["most_grams"] for row in parcels)
        and (carrier["is_insured"] or not is_dear)
    )


def shipment_named(maker: Maker, shipment: Row) -> Named:
    """How an instruction names a shipment, and the calls that find it."""
    lookup = call("get_shipment", shipment_id=shipment["id"])
    if not maker.is_vague():
        return Named("shipment {shipment}", {"shipment": shipment["id"]}, (lookup,))
    customer = maker.get("customers", shipment["customer_id"])
    same = maker.rows("shipments", customer_id=customer["id"], status=shipment["status"])
    if len(same) > 1 or maker.chance(0.4):
        found = call("find_shipment_by_reference", reference=shipment["reference"])
        return Named("the shipment {shipment}", {"shipment": shipment["reference"]}, (found,))
    who = customer_named(maker, customer)
    find = call("find_shipments", customer_id=customer["id"], status=shipment["status"])
    text = f"the only shipment to {who.text} that is {shipment['status']}"
    return Named(text, who.values, (*who.calls, find, lookup))


def _planned(maker: Maker) -> Row | None:
    """A planned shipment of an active customer."""
    active = {row["id"] for row in maker.rows("customers", status="active")}
    return maker.pick("shipments", lambda row: row["customer_id"] in active, status="planned")


def _product_lookups(maker: Maker, shipment: Row) -> tuple[Call, ...]:
    """What a careful agent asks to know the worth of a shipment's parcels."""
    return tuple(
        call("get_product", product_id=row["product_id"]) for row in _parcels(maker, shipment)
    )


def shipment_to_redirect(maker: Maker) -> Draft | None:
    """To another address of the same customer, which is named by its town."""
    shipment = _planned(maker)
    if shipment is None:
        return None
    known = maker.rows("addresses", customer_id=shipment["customer_id"])
    others = [row for row in known if row["id"] != shipment["address_id"]]
    if not others:
        return None
    address = maker.rng.choice(others)
    if sum(row["city"] == address["city"] for row in known) > 1:
        return None
    what = shipment_named(maker, shipment)
    lookup = call("get_customer", customer_id=shipment["customer_id"])
    redirect = call("redirect_shipment", shipment_id=shipment["id"], address_id=address["id"])
    return Draft(
        kind="change",
        ask=f"Redirect {what.text} to the customer's place in {{city}}, as the customer wishes.",
        calls=(*with_lookups(what.calls, lookup), redirect),
        answer="It goes to {city} now.",
        values={**what.values, "city": address["city"]},
    )


def cheapest_carrier(maker: Maker) -> Draft | None:
    """The cheapest of those that may take it: weights, prices and insurance are compared."""
    shipment = _planned(maker)
    if shipment is None:
        return None
    eligible = [row for row in maker.rows("carriers") if _fits(maker, shipment, row)]
    cheapest = min(eligible, key=lambda row: row["parcel_cents"])
    if cheapest["id"] == shipment["carrier_id"]:
        return None
    what = shipment_named(maker, shipment)
    change = call("change_carrier", shipment_id=shipment["id"], carrier_id=cheapest["id"])
    return Draft(
        kind="change",
        ask=f"Give {what.text} to the cheapest carrier at work that may take all its parcels by "
        "weight and by our rules.",
        calls=(
            *what.calls,
            call("list_carriers"),
            *_product_lookups(maker, shipment),
            change,
        ),
        answer="{carrier} takes it now.",
        values={**what.values, "carrier": cheapest["name"]},
        trap="A cheaper one may be too weak, not insured, or no longer at work.",
    )


def other_day(maker: Maker) -> Draft | None:
    """Some days later than planned; the day must be worked out."""
    shipment = _planned(maker)
    if shipment is None:
        return None
    ahead = (date.fromisoformat(shipment["leaves_on"]) - date.fromisoformat(maker.day())).days
    later = maker.rng.randrange(2, 9)
    if ahead + later > maker.parameters["MOST_POSTPONED_DAYS"]:
        return None
    what = shipment_named(maker, shipment)
    day = maker.day(ahead + later)
    return Draft(
        kind="change",
        ask=f"Let {what.text} leave {{later}} days later than planned.",
        calls=(*what.calls, call("move_shipment", shipment_id=shipment["id"], leaves_on=day)),
        answer="It leaves on {day}.",
        values={**what.values, "later": later, "day": day},
    )


def _added(maker: Maker, *, is_dear: bool) -> Draft | None:
    """A parcel for a shipment whose carrier is not insured if the parcel is dear."""
    shipment = _planned(maker)
    if shipment is None or len(_parcels(maker, shipment)) >= maker.parameters["MOST_PARCELS"]:
        return None
    carrier = maker.get("carriers", shipment["carrier_id"])
    product, quantity = some_product(maker), maker.rng.randrange(2, 8)
    if _is_dear(maker, product["id"], quantity) != is_dear or (is_dear and carrier["is_insured"]):
        return None
    grams = maker.rng.randrange(400, carrier["most_grams"], 10)
    what, goods = shipment_named(maker, shipment), product_named(maker, product)
    lookup = call("get_product", product_id=product["id"])
    add = call(
        "add_parcel",
        shipment_id=shipment["id"],
        product_id=product["id"],
        quantity=quantity,
        grams=grams,
    )
    return Draft(
        kind="change",
        ask=f"Add a parcel of {{grams}} g with {{quantity}} of {goods.text} to {what.text}.",
        calls=(*what.calls, *with_lookups(goods.calls, lookup), call("list_carriers"), add),
        answer="The parcel is added.",
        values={**what.values, **goods.values, "grams": grams, "quantity": quantity},
    )


def parcel_to_add(maker: Maker) -> Draft | None:
    """One more parcel, which any carrier may take."""
    return _added(maker, is_dear=False)


def parcel_to_remove(maker: Maker) -> Draft | None:
    """One of several parcels, named by what is in it."""
    shipment = _planned(maker)
    if shipment is None or len(_parcels(maker, shipment)) < 2:
        return None
    parcel = maker.rng.choice(_parcels(maker, shipment))
    what = shipment_named(maker, shipment)
    return Draft(
        kind="change",
        ask=f"Take the parcel with “{{name}}” out of {what.text}.",
        calls=(*what.calls, call("remove_parcel", parcel_id=parcel["id"])),
        answer="The parcel is taken out.",
        values={**what.values, "name": maker.get("products", parcel["product_id"])["name"]},
    )


def shipment_to_cancel(maker: Maker) -> Draft | None:
    """Not needed any more."""
    shipment = _planned(maker)
    if shipment is None:
        return None
    what = shipment_named(maker, shipment)
    return Draft(
        kind="change",
        ask=(f"Cancel {what.text}.", f"Please cancel {what.text}: it is not needed any more."),
        calls=(*what.calls, call("cancel_shipment", shipment_id=shipment["id"])),
        answer="It is cancelled.",
        values=what.values,
    )


def shipment_lost(maker: Maker) -> Draft | None:
    """Never seen again, which takes a supervisor to say."""
    shipment = maker.pick("shipments", status="sent")
    if shipment is None:
        return None
    what = shipment_named(maker, shipment)
    draft = Draft(
        kind="change",
        ask=f"Report {what.text} as lost; its carrier cannot find it.",
        calls=(*what.calls, call("report_lost", shipment_id=shipment["id"])),
        answer="It is reported as lost.",
        values=what.values,
    )
    return requiring_role(maker, "supervisor", draft)


def same_day(maker: Maker) -> Draft | None:
    """A memory task: the day of one shipment becomes that of another one."""
    one, other = _planned(maker), _planned(maker)
    if one is None or other is None or one["leaves_on"] == other["leaves_on"]:
        return None
    return Draft(
        kind="change",
        ask="Look up on which day the shipment {one} leaves, and remember that day.",
        later="Finally, let the shipment {other} leave on that same day.",
        calls=(
            call("find_shipment_by_reference", reference=one["reference"]),
            call("find_shipment_by_reference", reference=other["reference"]),
            call("move_shipment", shipment_id=other["id"], leaves_on=one["leaves_on"]),
        ),
        hold=1,
        answer="Both leave on the same day.",
        values={"one": one["reference"], "other": other["reference"]},
    )


def weight_of(maker: Maker) -> Draft | None:
    """What all parcels of a shipment weigh."""
    shipment = maker.pick("shipments")
    assert shipment is not None, "there are shipments"
    what = shipment_named(maker, shipment)
    grams = sum(row["grams"] for row in _parcels(maker, shipment))
    return Draft(
        kind="question",
        ask=f"How many grams do all parcels of {what.text} weigh together?",
        calls=what.calls,
        answer="Together they weigh {grams} grams.",
        values={**what.values, "grams": grams},
    )


def cost_of(maker: Maker) -> Draft | None:
    """What the carrier takes for a shipment: parcels times price."""
    shipment = maker.pick("shipments")
    assert shipment is not None, "there are shipments"
    what = shipment_named(maker, shipment)
    cents = maker.get("carriers", shipment["carrier_id"])["parcel_cents"]
    return Draft(
        kind="question",
        ask=f"What does the carrier of {what.text} take for all its parcels together?",
        calls=(*what.calls, call("list_carriers")),
        answer="It takes {cost}.",
        values={
            **what.values,
            "cost": maker.money(cents * len(_parcels(maker, shipment))),
        },
    )


def postcode_of(maker: Maker) -> Draft | None:
    """Where a shipment goes: two look-ups."""
    shipment = maker.pick("shipments")
    assert shipment is not None, "there are shipments"
    what = shipment_named(maker, shipment)
    address = maker.get("addresses", shipment["address_id"])
    lookup = call("get_customer", customer_id=shipment["customer_id"])
    return Draft(
        kind="question",
        ask=f"Which postcode has the place to which {what.text} goes?",
        calls=with_lookups(what.calls, lookup),
        answer="The postcode is {postcode}.",
        values={**what.values, "postcode": address["postcode"]},
    )


def redirect_for_a_neighbour(maker: Maker) -> Draft | None:
    """Another person than the customer wants it elsewhere."""
    shipment = _planned(maker)
    if shipment is None:
        return None
    others = maker.rows(
        "addresses",
        lambda row: row["id"] != shipment["address_id"],
        customer_id=shipment["customer_id"],
    )
    if not others:
        return None
    what = shipment_named(maker, shipment)
    lookup = call("get_customer", customer_id=shipment["customer_id"])
    return Draft(
        kind="decline",
        ask=f"Redirect {what.text} to the customer's place in {{city}}: a neighbour has called and "
        "asked for it.",
        calls=with_lookups(what.calls, lookup),
        answer="I decline: only the customer may ask for it, and this was a neighbour.",
        values={**what.values, "city": maker.rng.choice(others)["city"]},
        reasons=("neighbour", "only the customer", "own request", "customer's own"),
        trap="The place is the customer's, so the tool would redirect it.",
    )


def dear_and_uninsured(maker: Maker) -> Draft | None:
    """A parcel that is worth too much for a carrier without insurance."""
    draft = _added(maker, is_dear=True)
    return draft and Draft(
        kind="decline",
        ask=draft.ask,
        calls=draft.calls[:-1],
        answer="I decline: the parcel is worth too much for a carrier that is not insured.",
        values=draft.values,
        reasons=("insured", "insurance", "worth too much", "uninsured"),
        trap="The weight fits, so the tool would add it.",
    )


def dear_to_the_cheap(maker: Maker) -> Draft | None:
    """A dear shipment is to go with a named carrier that is not insured."""
    shipment = _planned(maker)
    carrier = maker.pick("carriers", is_insured=0, active=1)
    if shipment is None or carrier is None or carrier["id"] == shipment["carrier_id"]:
        return None
    parcels = _parcels(maker, shipment)
    if not any(_is_dear(maker, row["product_id"], row["quantity"]) for row in parcels):
        return None
    if any(row["grams"] > carrier["most_grams"] for row in parcels):
        return None
    what = shipment_named(maker, shipment)
    return Draft(
        kind="decline",
        ask=f"Give {what.text} to the carrier {{carrier}}, which costs us less.",
        calls=(*what.calls, call("list_carriers"), *_product_lookups(maker, shipment)),
        answer="I decline: a parcel is worth more than a carrier without insurance may take.",
        values={**what.values, "carrier": carrier["name"]},
        reasons=("insured", "insurance", "worth more", "uninsured"),
        trap="The weight fits, so the tool would change it.",
    )


DRAFTS = (
    shipment_to_redirect,
    cheapest_carrier,
    other_day,
    parcel_to_add,
    parcel_to_remove,
    shipment_to_cancel,
    shipment_lost,
    same_day,
    weight_of,
    cost_of,
    postcode_of,
    redirect_for_a_neighbour,
    dear_and_uninsured,
    dear_to_the_cheap,
)
