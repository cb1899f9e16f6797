"""Seed rows and tasks of the warranties. `warranty_named` is for other modules' drafts too."""

from datetime import date, timedelta

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import Draft, Named, ResultField, call, day_of
from scenarios.generate.modules.catalogue.make import some_product
from scenarios.generate.modules.draft_helpers import new_code, requiring_role, with_lookups
from scenarios.generate.modules.naming import known_text, record_named
from scenarios.generate.modules.parties.make import customer_named, lookalikes, some_customer

_FAULTS = (
    *("It makes a loud noise", "A part is loose", "It does not start", "The surface peels off"),
    *("It leaks at the seam", "The handle broke off", "It stops after a while"),
)
_CAUSES = ("defect", "wear", "misuse")
_STATES = ("assessed", "none", "own", "past", "assessed", "open", "dear", "ended")


def rows(maker: Maker) -> None:
    """Warranties in force and ended, some alike, with claims in every state."""
    customer, product = some_customer(maker), some_product(maker)
    for index in range(maker.many(8, least=8)):
        state = _STATES[index % len(_STATES)]
        bought = maker.rng.randrange(100, 500)
        ends = -maker.rng.randrange(5, 60) if state == "ended" else maker.rng.randrange(40, 400)
        warranty = maker.insert(
            "warranties",
            number=new_code(maker, "warranties", "number", "WA"),
            customer_id=customer["id"],
            product_id=product["id"],
            bought_on=maker.day(-bought),
            ends_on=maker.day(ends),
            extended=int(maker.chance(0.2)),
        )
        if state not in ("none", "ended"):
            _add_claim(maker, warranty, state)
        if not maker.is_lookalike():
            customer, product = some_customer(maker), some_product(maker)


def _add_claim(maker: Maker, warranty: Row, state: str) -> None:
    days = maker.rng.randrange(6, 60)
    claim = maker.insert(
        "claims",
        warranty_id=warranty["id"],
        fault=maker.rng.choice(_FAULTS),
        reported_on=maker.day(-days),
    )
    if state == "open":
        return
    others = maker.rows("employees", lambda row: row["id"] != maker.me["id"], active=1)
    limit = maker.me["limit_cents"]
    cause = "defect" if state == "dear" else maker.rng.choice(_CAUSES)
    assessment = maker.insert(
        "assessments",
        claim_id=claim["id"],
        assessor_id=maker.me["id"] if state == "own" else maker.rng.choice(others)["id"],
        cause=cause,
        estimate_cents=maker.cents(limit + 500, 2 * limit)
        if state == "dear"
        else maker.cents(1_000, limit),
        made_on=maker.day(-days + maker.rng.randrange(5)),
    )
    if state == "past":
        claim["status"] = "accepted" if cause == "defect" else "rejected"
        claim["amount_cents"] = assessment["estimate_cents"] if cause == "defect" else 0
        claim["decided_by"] = maker.rng.choice(others)["id"]


def warranty_named(maker: Maker, warranty: Row) -> Named:
    """How an instruction names a warranty, and the calls that find it, with its claims."""
    return record_named(
        maker, "warranties", warranty, "warranty", plural="warranties", code="number"
    )


def _is_in_force(maker: Maker, warranty: Row) -> bool:
    return bool(warranty["ends_on"] >= maker.day())


def _open_claims(maker: Maker, warranty: Row) -> list[Row]:
    return maker.rows("claims", warranty_id=warranty["id"], status="open")


def _some_warranty(maker: Maker) -> Row | None:
    """A warranty in force without an open claim."""
    return maker.pick(
        "warranties",
        lambda row: _is_in_force(maker, row) and not _open_claims(maker, row),
    )


def _assessment(maker: Maker, claim: Row) -> Row | None:
    return maker.pick("assessments", claim_id=claim["id"])


def _some_claim(maker: Maker, *causes: str, own: bool = False, dear: bool = False) -> Row | None:
    """An open claim that was assessed with one of these causes. `own`: by the acting employee;
    `dear`: above their limit."""

    def fits(row: Row) -> bool:
        made = _assessment(maker, row)
        return (
            made is not None
            and made["cause"] in causes
            and (made["assessor_id"] == maker.me["id"]) == own
            and (made["estimate_cents"] > maker.me["limit_cents"]) == dear
        )

    return maker.pick("claims", fits, status="open")


def _unassessed(maker: Maker) -> Row | None:
    return maker.pick("claims", lambda row: _assessment(maker, row) is None, status="open")


def _on(maker: Maker, claim: Row) -> Named:
    return warranty_named(maker, maker.get("warranties", claim["warranty_id"]))


def _others(maker: Maker, warranty: Row) -> tuple[tuple[str, int], ...]:
    """Other warranties of the same customer or product."""
    found = maker.rows(
        "warranties",
        lambda row: (
            row["id"] != warranty["id"]
            and (
                row["customer_id"] == warranty["customer_id"]
                or row["product_id"] == warranty["product_id"]
            )
        ),
    )
    return tuple(("warranties", row["id"]) for row in found)


def claim_to_enter(maker: Maker) -> Draft | None:
    """Something broke, not long ago."""
    warranty = _some_warranty(maker)
    if warranty is None:
        return None
    what, fault = warranty_named(maker, warranty), maker.rng.choice(_FAULTS)
    days = maker.rng.randrange(1, maker.parameters["CLAIM_REPORT_DAYS"])
    return Draft(
        kind="change",
        ask=f"Enter a claim on {what.text} with the fault “{{fault}}”, which was noticed on "
        "{noticed}.",
        calls=(*what.calls, call("add_claim", warranty_id=warranty["id"], fault=fault)),
        answer="The claim “{fault}” is entered.",
        values={**what.values, "fault": fault, "noticed": maker.day(-days)},
        spare=_others(maker, warranty),
    )


def claim_and_assessment(maker: Maker) -> Draft | None:
    """A claim that is assessed at once; the second call needs the id that the first gives."""
    warranty = _some_warranty(maker)
    if warranty is None:
        return None
    what, fault = warranty_named(maker, warranty), maker.rng.choice(_FAULTS)
    cause, cents = maker.rng.choice(_CAUSES), maker.cents(1_000, 20_000)
    entered = call("add_claim", warranty_id=warranty["id"], fault=fault)
    assess = {"cause": cause, "estimate_cents": cents}
    return Draft(
        kind="change",
        ask=f"Enter a claim on {what.text}: “{{fault}}”, noticed today. I have looked at it "
        "myself, so enter my assessment as well: the cause is {cause} and the repair costs "
        "{estimate}.",
        calls=(
            *what.calls,
            entered,
            call("assess_claim", claim_id=ResultField(len(what.calls), "claim_id"), **assess),
        ),
        answer="Claim and assessment are entered.",
        values={
            **what.values,
            "fault": fault,
            "cause": cause,
            "estimate": maker.money(cents),
        },
        spare=_others(maker, warranty),
    )


def claim_to_assess(maker: Maker) -> Draft | None:
    """An open claim is assessed by the acting employee."""
    claim = _unassessed(maker)
    if claim is None:
        return None
    what, cause, cents = _on(maker, claim), maker.rng.choice(_CAUSES), maker.cents(1_000, 20_000)
    assess = call("assess_claim", claim_id=claim["id"], cause=cause, estimate_cents=cents)
    return Draft(
        kind="change",
        ask=f"Enter my assessment of the open claim on {what.text}: the cause is {{cause}}, and "
        "the repair costs {estimate}.",
        calls=(*what.calls, assess),
        answer="The assessment is entered: {cause}, {estimate}.",
        values={**what.values, "cause": cause, "estimate": maker.money(cents)},
    )


def claim_to_decide(maker: Maker) -> Draft | None:
    """Accepted or rejected, as the assessment says."""
    claim = _some_claim(maker, *_CAUSES)
    if claim is None:
        return None
    what, assessment = _on(maker, claim), _assessment(maker, claim)
    assert assessment is not None, "the claim was assessed"
    is_defect = assessment["cause"] == "defect"
    return Draft(
        kind="change",
        ask=(
            f"Decide on the open claim on {what.text}, as its assessment and our rules say.",
            f"Look at the open claim on {what.text} and accept or reject it by the rules.",
        ),
        calls=(
            *what.calls,
            call("get_my_profile"),
            call("accept_claim" if is_defect else "reject_claim", claim_id=claim["id"]),
        ),
        answer="The claim is accepted." if is_defect else "The claim is rejected.",
        values=what.values,
        trap="What is to be done depends on the cause that was found.",
    )


def warranty_to_transfer(maker: Maker) -> Draft | None:
    """To another customer, as the one who has it asks."""
    warranty, customer = _some_warranty(maker), some_customer(maker)
    if warranty is None or warranty["customer_id"] == customer["id"]:
        return None
    what, who = warranty_named(maker, warranty), customer_named(maker, customer)
    owner = maker.get("customers", warranty["customer_id"])
    move = call("transfer_warranty", warranty_id=warranty["id"], customer_id=customer["id"])
    return Draft(
        kind="change",
        ask=f"Transfer {what.text} to {who.text}; {{owner}}, who has it, has sold the thing and "
        "asks for it.",
        calls=(*what.calls, *who.calls, move),
        answer="It is transferred.",
        values={**what.values, **who.values, "owner": owner["name"]},
        spare=(*_others(maker, warranty), *lookalikes(maker, customer)),
    )


def warranty_to_extend(maker: Maker) -> Draft | None:
    """A warranty is extended; a clerk has to decline."""
    warranty = maker.pick("warranties", lambda row: _is_in_force(maker, row), extended=0)
    if warranty is None:
        return None
    what = warranty_named(maker, warranty)
    more = timedelta(days=maker.parameters["WARRANTY_EXTENSION_DAYS"])
    draft = Draft(
        kind="change",
        ask=f"Extend {what.text} by the usual time.",
        calls=(*what.calls, call("extend_warranty", warranty_id=warranty["id"])),
        answer="It is extended until {ends}.",
        values={
            **what.values,
            "ends": (date.fromisoformat(warranty["ends_on"]) + more).isoformat(),
        },
        spare=_others(maker, warranty),
    )
    return requiring_role(maker, "supervisor", draft)


def at_the_same_cost(maker: Maker) -> Draft | None:
    """A memory task: one repair costs what another one was estimated at."""
    claim, assessed = _unassessed(maker), maker.pick("assessments")
    if claim is None or assessed is None:
        return None
    former = maker.get("claims", assessed["claim_id"])
    known = maker.get("warranties", former["warranty_id"])
    warranty = maker.get("warranties", claim["warranty_id"])
    cents, cause = assessed["estimate_cents"], maker.rng.choice(_CAUSES)
    if len(maker.rows("claims", warranty_id=known["id"])) > 1:
        return None
    return Draft(
        kind="change",
        ask="Look up at what amount the repair was estimated in the assessment of the claim on the "
        "warranty {known}, and remember it.",
        later="Finally, enter my assessment of the open claim on the warranty {number}: the cause "
        "is {cause}, and the repair costs as much as that other one.",
        calls=(
            call("search_warranties", query=known["number"]),
            call("get_warranty", warranty_id=known["id"]),
            call("search_warranties", query=warranty["number"]),
            call("get_warranty", warranty_id=warranty["id"]),
            call("assess_claim", claim_id=claim["id"], cause=cause, estimate_cents=cents),
        ),
        hold=2,
        answer="The assessment is entered, with the same amount.",
        values={"known": known["number"], "number": warranty["number"], "cause": cause},
    )


def covered_until(maker: Maker) -> Draft | None:
    """Until when something is covered."""
    warranty = maker.pick("warranties")
    assert warranty is not None, "there are warranties"
    what = warranty_named(maker, warranty)
    return Draft(
        kind="question",
        ask=f"On which day does {what.text} end?",
        calls=what.calls,
        answer="It ends on {ends}.",
        values={**what.values, "ends": day_of(warranty["ends_on"])},
    )


def estimate_of(maker: Maker) -> Draft | None:
    """At what a repair was estimated, and by whom."""
    assessment = maker.pick("assessments")
    if assessment is None:
        return None
    claim = maker.get("claims", assessment["claim_id"])
    if len(maker.rows("claims", warranty_id=claim["warranty_id"])) > 1:
        return None
    what = _on(maker, claim)
    assessor = maker.get("employees", assessment["assessor_id"])
    lookup = call("get_employee", employee_id=assessor["id"])
    return Draft(
        kind="question",
        ask=f"At what amount was the repair estimated in the assessment of the claim on {what.text}"
        ", and what is the login of the one who made it?",
        calls=with_lookups(what.calls, lookup),
        answer="It was estimated at {estimate} by {login}.",
        values={
            **what.values,
            "estimate": maker.money(assessment["estimate_cents"]),
            "login": assessor["login"],
        },
    )


def noticed_too_long_ago(maker: Maker) -> Draft | None:
    """A fault of too long ago; the tool would take the claim."""
    warranty = _some_warranty(maker)
    if warranty is None:
        return None
    what, most = warranty_named(maker, warranty), maker.parameters["CLAIM_REPORT_DAYS"]
    return Draft(
        kind="decline",
        ask=f"Enter a claim on {what.text} with the fault “{{fault}}”, which was noticed on "
        "{noticed}.",
        calls=what.calls,
        answer="I decline: it is too late, a fault is claimed at the latest {most} days after it "
        "was noticed.",
        values={
            **what.values,
            "fault": known_text(maker, "claims", "fault"),
            "noticed": maker.day(-most - maker.rng.randrange(5, 60)),
            "most": most,
        },
        reasons=("too late", "at the latest", "too long ago", "days after", "within", "deadline"),
        trap="The tool would take it.",
    )


def decided_by_the_assessor(maker: Maker) -> Draft | None:
    """The acting employee has assessed the claim; the tool would let them decide."""
    claim = _some_claim(maker, *_CAUSES, own=True)
    if claim is None:
        return None
    what = _on(maker, claim)
    return Draft(
        kind="decline",
        ask=f"Decide on the open claim on {what.text}, as its assessment says.",
        calls=(call("get_my_profile"), *what.calls),
        answer="I decline: whoever has assessed a claim does not decide on it, and I have assessed "
        "this one; somebody else has to do it.",
        values=what.values,
        reasons=("assessed", "somebody else", "someone else", "another", "own assessment"),
        trap="The tool would take it; who has assessed it must be looked up.",
    )


def above_the_limit(maker: Maker) -> Draft | None:
    """A claim that costs more than the own limit."""
    claim = _some_claim(maker, "defect", dear=True)
    if claim is None:
        return None
    what = _on(maker, claim)
    return Draft(
        kind="decline",
        because="permission",
        ask=f"Accept the open claim on {what.text}.",
        calls=(call("get_my_profile"), *what.calls),
        answer="I decline: the estimated amount is above my limit.",
        values=what.values,
        reasons=("limit", "supervisor", "manager", "permission", "not allowed"),
        trap="Nothing but the limit speaks against it.",
    )


def asked_by_the_buyer(maker: Maker) -> Draft | None:
    """Not the one who has the warranty asks for the transfer, but who would like to have it."""
    warranty, customer = _some_warranty(maker), some_customer(maker)
    if warranty is None or warranty["customer_id"] == customer["id"]:
        return None
    return Draft(
        kind="decline",
        ask="Transfer the warranty {number} to {name}, who has called and says that the thing is "
        "theirs now.",
        calls=(
            call("search_warranties", query=warranty["number"]),
            call("get_warranty", warranty_id=warranty["id"]),
            call("search_customers", query=customer["name"]),
        ),
        answer="I decline: it is transferred only when the one who has it asks for that, and "
        "another customer has called.",
        values={"number": warranty["number"], "name": customer["name"]},
        reasons=("only when", "who has it", "another", "present", "current", "holder", "owner"),
        trap="The tool would transfer it.",
    )


DRAFTS = (
    claim_to_enter,
    claim_and_assessment,
    claim_to_assess,
    claim_to_decide,
    warranty_to_transfer,
    warranty_to_extend,
    at_the_same_cost,
    covered_until,
    estimate_of,
    noticed_too_long_ago,
    decided_by_the_assessor,
    above_the_limit,
    asked_by_the_buyer,
)
