"""The warranties: what is still covered, what broke, what is paid for it."""

from datetime import timedelta
from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import (
    Cents,
    Id,
    Limit,
    Text,
    _day,
    _like,
    _money,
)
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _me, _require

CLAIM_REPORT_DAYS = 14
MOST_CLAIMS = 3
WARRANTY_EXTENSION_DAYS = 180


def _warranty(db: Db, warranty_id: int) -> Row:
    warranty = db.one("SELECT * FROM warranties WHERE id = ?", warranty_id)
    if warranty is None:
        raise ToolError(f"There is no warranty {warranty_id}.")
    return warranty


def _warranty_in_force(db: Db, warranty_id: int) -> Row:
    warranty = _warranty(db, warranty_id)
    if warranty["ends_on"] < db.now[:10]:
        raise ToolError(f"Warranty {warranty_id} ended on {warranty['ends_on']}.")
    return warranty


def _claim(db: Db, claim_id: int) -> Row:
    claim = db.one("SELECT * FROM claims WHERE id = ?", claim_id)
    if claim is None:
        raise ToolError(f"There is no claim {claim_id}.")
    return claim


def _claim_to_decide(db: Db, claim_id: int) -> Row:
    claim = _claim(db, claim_id)
    if claim["status"] != "open":
        raise ToolError(f"Claim {claim_id} is {claim['status']}.")
    return claim


def search_warranties(db: Db, query: Text, limit: Limit = 20) -> list[Row]:
    """Warranties whose number, product's name or customer's name contains the text."""
    return db.all(
        "SELECT w.id, w.number, p.name AS product, c.name AS customer, w.ends_on"
        " FROM warranties w JOIN products p ON p.id = w.product_id"
        " JOIN customers c ON c.id = w.customer_id WHERE w.number LIKE ?1 ESCAPE '\\'"
        " OR p.name LIKE ?1 ESCAPE '\\' OR c.name LIKE ?1 ESCAPE '\\' ORDER BY w.number LIMIT ?2",
        _like(query),
        limit,
    )


def get_warranty(db: Db, warranty_id: Id) -> Row:
    """One warranty with its claims, each with its assessment if there is one. Money is in
    hundredths."""
    warranty = _warranty(db, warranty_id)
    warranty["claims"] = db.all(
        "SELECT c.id, c.fault, c.reported_on, c.status, c.amount_cents, a.assessor_id, a.cause,"
        " a.estimate_cents FROM claims c LEFT JOIN assessments a ON a.claim_id = c.id"
        " WHERE c.warranty_id = ? ORDER BY c.reported_on, c.id",
        warranty_id,
    )
    return warranty


def add_claim(db: Db, warranty_id: Id, fault: Text) -> Row:
    """Enter a claim on a warranty in force that has no open one."""
    _warranty_in_force(db, warranty_id)
    claims = db.all("SELECT id, status FROM claims WHERE warranty_id = ?", warranty_id)
    if any(claim["status"] == "open" for claim in claims):
        raise ToolError(f"Warranty {warranty_id} has an open claim already.")
    if len(claims) >= MOST_CLAIMS:
        raise ToolError(f"A warranty has {MOST_CLAIMS} claims at most.")
    claim_id = db.insert(
        "claims", warranty_id=warranty_id, fault=fault.strip(), reported_on=db.now[:10]
    )
    return {"claim_id": claim_id, **_claim(db, claim_id)}


def assess_claim(
    db: Db, claim_id: Id, cause: Literal["defect", "wear", "misuse"], estimate_cents: Cents
) -> Row:
    """Enter your assessment of an open claim that has none: its cause, and what a repair costs."""
    _claim_to_decide(db, claim_id)
    known = db.value("SELECT id FROM assessments WHERE claim_id = ?", claim_id)
    if known is not None:
        raise ToolError(f"Assessment {known} of this claim is there already.")
    assessment: Row = {
        "claim_id": claim_id,
        "assessor_id": _me(db)["id"],
        "cause": cause,
        "estimate_cents": estimate_cents,
        "made_on": db.now[:10],
    }
    return {"assessment_id": db.insert("assessments", **assessment), **assessment}


def accept_claim(db: Db, claim_id: Id) -> Row:
    """Accept an open claim whose assessment found a defect, for the estimated amount, which must
    not be above your own limit."""
    _claim_to_decide(db, claim_id)
    me = _me(db)
    assessment = db.one("SELECT * FROM assessments WHERE claim_id = ?", claim_id)
    if assessment is None or assessment["cause"] != "defect":
        raise ToolError("Only a claim that was assessed as a defect is accepted.")
    if assessment["estimate_cents"] > me["limit_cents"]:
        raise ToolError(f"Your limit is {_money(me['limit_cents'])}.")
    db.run(
        "UPDATE claims SET status = 'accepted', amount_cents = ?, decided_by = ? WHERE id = ?",
        assessment["estimate_cents"],
        me["id"],
        claim_id,
    )
    return _claim(db, claim_id)


def reject_claim(db: Db, claim_id: Id) -> Row:
    """Reject an open claim whose assessment found something else than a defect."""
    _claim_to_decide(db, claim_id)
    cause = db.value("SELECT cause FROM assessments WHERE claim_id = ?", claim_id)
    if cause is None or cause == "defect":
        raise ToolError("Only a claim that was assessed as no defect is rejected.")
    db.run(
        "UPDATE claims SET status = 'rejected', decided_by = ? WHERE id = ?",
        _me(db)["id"],
        claim_id,
    )
    return _claim(db, claim_id)


def transfer_warranty(db: Db, warranty_id: Id, customer_id: Id) -> Row:
    """Transfer a warranty in force, without an open claim, to another active customer."""
    warranty = _warranty_in_force(db, warranty_id)
    _active_customer(db, customer_id)
    if warranty["customer_id"] == customer_id:
        raise ToolError(f"Customer {customer_id} has this warranty already.")
    known = db.value("SELECT id FROM claims WHERE warranty_id = ? AND status = 'open'", warranty_id)
    if known is not None:
        raise ToolError(f"Claim {known} on this warranty is open.")
    db.run("UPDATE warranties SET customer_id = ? WHERE id = ?", customer_id, warranty_id)
    return _warranty(db, warranty_id)


def extend_warranty(db: Db, warranty_id: Id) -> Row:
    """Extend a warranty in force by the usual number of days, once. For supervisors and
    managers."""
    _require(db, "supervisor")
    warranty = _warranty_in_force(db, warranty_id)
    if warranty["extended"]:
        raise ToolError(f"Warranty {warranty_id} was extended already.")
    ends_on = (_day(warranty["ends_on"]) + timedelta(days=WARRANTY_EXTENSION_DAYS)).isoformat()
    db.run("UPDATE warranties SET ends_on = ?, extended = 1 WHERE id = ?", ends_on, warranty_id)
    return _warranty(db, warranty_id)
