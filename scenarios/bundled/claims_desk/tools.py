"""The back office of Kestrel Mutual's claims desk.

Hard rules (states, authority, limits, who owns an account) are refused here; the desk's other
rules stand in policy.md and are the handler's to keep. Every write leaves one audit_log row.
"""

from datetime import date
from typing import Annotated, Any, Literal

from msgspec import Meta

from scenarios.api import Db, Row, SqlValue
from scenarios.errors import ToolError

Id = Annotated[int, Meta(ge=1, le=2_000_000_000)]
Cents = Annotated[int, Meta(ge=1, le=100_000_000_000, description="Euro cents")]
CentsOrZero = Annotated[int, Meta(ge=0, le=100_000_000_000, description="Euro cents")]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="YYYY-MM-DD")]
After = Annotated[int, Meta(ge=0, le=2_000_000_000, description="Only ids above this: next page")]
Text = Annotated[str, Meta(min_length=3, max_length=1000)]
Word = Annotated[str, Meta(min_length=2, max_length=80)]

Line = Literal["home", "motor"]
Region = Literal["east", "south", "west"]
ClaimStatus = Literal["registered", "open", "referred", "approved", "declined", "closed"]
CoverageCode = Literal["collision", "theft", "windscreen", "storm", "water", "fire", "burglary"]
DocumentType = Literal[
    "accident_report",
    "photos",
    "repair_estimate",
    "police_report",
    "proof_of_ownership",
    "all_keys",
    "finance_statement",
    "inventory",
    "fire_report",
    "repair_invoice",
]
FlagKind = Literal["bank_account_change", "inconsistent_story", "altered_document", "prior_claims"]


# Policyholders and their cover.


def find_policyholders(db: Db, name: Word) -> Row:
    """Policyholders whose name contains the text, with date of birth and address to tell them
    apart: the first 20, the `total`, and whether the list is `truncated`."""
    return _page(
        db,
        "policyholders",
        "id, name, born_on, email, phone, street, city, region",
        "FROM policyholders WHERE instr(lower(name), lower(?)) > 0",
        "name, id",
        name,
        size=20,
    )


def find_policies(
    db: Db,
    number: str | None = None,
    policyholder_id: Id | None = None,
    line: Line | None = None,
    after_id: After = 0,
) -> Row:
    """Policies, all or those with an exact number (such as MOT-20418), of a policyholder or line,
    with status, first and last day, and the day of a lapse: 50 at a time, the `total`, and whether
    the list is `truncated`."""
    where, values = _filters(
        ("p.number = ?", number), ("p.policyholder_id = ?", policyholder_id), ("p.line = ?", line)
    )
    return _page(
        db,
        "policies",
        "p.id, p.number, p.policyholder_id, h.name AS policyholder, p.line, p.status,"
        " p.starts_on, p.ends_on, p.lapsed_on",
        f"FROM policies p JOIN policyholders h ON h.id = p.policyholder_id WHERE p.id > ?{where}",
        "p.id",
        after_id,
        *values,
    )


def get_policy(db: Db, policy_id: Id) -> Row:
    """One policy with its policyholder, status, lapse date, premium and insured items."""
    policy = _policy(db, policy_id)
    policy["insured_items"] = db.all(
        "SELECT id, kind, identifier, description, value_cents FROM insured_items"
        " WHERE policy_id = ? ORDER BY id",
        policy_id,
    )
    return policy


def list_coverages(db: Db, policy_id: Id) -> list[Row]:
    """The coverages of a policy as they stand today: limit for all losses of the period and
    excess per loss (cents), first and last day, and the exclusions."""
    _policy(db, policy_id)
    coverages = db.all(
        "SELECT id, code, limit_cents, excess_cents, starts_on, ends_on FROM coverages"
        " WHERE policy_id = ? ORDER BY id",
        policy_id,
    )
    exclusions = db.all(
        "SELECT e.coverage_id, e.wording FROM exclusions e"
        " JOIN coverages c ON c.id = e.coverage_id WHERE c.policy_id = ? ORDER BY e.id",
        policy_id,
    )
    for coverage in coverages:
        mine = [row["wording"] for row in exclusions if row["coverage_id"] == coverage["id"]]
        coverage["exclusions"] = mine
    return coverages


def get_coverage_usage(db: Db, coverage_id: Id) -> Row:
    """How much of a coverage's limit is used up: its limit and the claims approved against it
    (cents). What remains is the limit less the approved amounts."""
    coverage = db.one(
        "SELECT c.id, c.policy_id, p.number AS policy_number, c.code, c.limit_cents"
        " FROM coverages c JOIN policies p ON p.id = c.policy_id WHERE c.id = ?",
        coverage_id,
    )
    if coverage is None:
        raise ToolError(f"There is no coverage {coverage_id}.")
    coverage["approved_claims"] = db.all(
        "SELECT id AS claim_id, loss_on, status, approved_cents FROM claims"
        " WHERE coverage_id = ? AND approved_cents IS NOT NULL ORDER BY id",
        coverage_id,
    )
    return coverage


def list_endorsements(db: Db, policy_id: Id) -> list[Row]:
    """The changes made to a policy's terms, with the day from which each one counts and the value
    before and after it (cents)."""
    _policy(db, policy_id)
    return db.all(
        "SELECT e.id, e.coverage_id, c.code AS coverage, e.effective_on, e.term, e.old_cents,"
        " e.new_cents, e.description FROM endorsements e JOIN coverages c ON c.id = e.coverage_id"
        " WHERE e.policy_id = ? ORDER BY e.effective_on, e.id",
        policy_id,
    )


def list_invoices(db: Db, policy_id: Id) -> list[Row]:
    """The premium invoices of a policy: amount (cents), due date, status, date of payment."""
    _policy(db, policy_id)
    return db.all(
        "SELECT id, number, period_from, period_to, amount_cents, due_on, status, paid_on"
        " FROM invoices WHERE policy_id = ? ORDER BY due_on, id",
        policy_id,
    )


# Claims and what belongs to them.


def find_loss_events(db: Db, name: Word) -> list[Row]:
    """Loss events (storms, floods, pile-ups) whose name contains the text."""
    return db.all(
        "SELECT id, name, kind, happened_on, region FROM loss_events"
        " WHERE instr(lower(name), lower(?)) > 0 ORDER BY happened_on, id",
        name,
    )


def search_claims(
    db: Db,
    policy_id: Id | None = None,
    policyholder_id: Id | None = None,
    loss_event_id: Id | None = None,
    adjuster_id: Id | None = None,
    status: ClaimStatus | None = None,
    after_id: After = 0,
) -> Row:
    """Claims, all or those of a policy, policyholder, loss event, status, or of the adjuster who
    has them now, by claim number (`id`): 50 at a time, the `total`, and whether the list is
    `truncated`."""
    where, values = _filters(
        ("c.policy_id = ?", policy_id),
        ("p.policyholder_id = ?", policyholder_id),
        ("c.loss_event_id = ?", loss_event_id),
        ("a.adjuster_id = ?", adjuster_id),
        ("c.status = ?", status),
    )
    return _page(
        db,
        "claims",
        "c.id, c.policy_id, p.number AS policy_number, p.policyholder_id, h.name AS policyholder,"
        " c.coverage_id, v.code AS coverage, c.loss_event_id, c.status, c.loss_on, c.reported_on,"
        " c.claimed_cents, c.approved_cents, a.adjuster_id",
        "FROM claims c JOIN policies p ON p.id = c.policy_id"
        " JOIN policyholders h ON h.id = p.policyholder_id"
        " JOIN coverages v ON v.id = c.coverage_id"
        " LEFT JOIN assignments a ON a.claim_id = c.id AND a.ended_on IS NULL"
        f" WHERE c.id > ?{where}",
        "c.id",
        after_id,
        *values,
    )


def get_claim(db: Db, claim_id: Id) -> Row:
    """One claim: policy, policyholder, coverage, dates, status, decision, amounts (cents) and the
    adjuster who has it now."""
    claim = db.one(
        "SELECT c.*, p.number AS policy_number, p.policyholder_id, h.name AS policyholder,"
        " v.code AS coverage, e.name AS loss_event, j.id AS adjuster_id, j.name AS adjuster"
        " FROM claims c JOIN policies p ON p.id = c.policy_id"
        " JOIN policyholders h ON h.id = p.policyholder_id"
        " JOIN coverages v ON v.id = c.coverage_id"
        " LEFT JOIN loss_events e ON e.id = c.loss_event_id"
        " LEFT JOIN assignments a ON a.claim_id = c.id AND a.ended_on IS NULL"
        " LEFT JOIN adjusters j ON j.id = a.adjuster_id WHERE c.id = ?",
        claim_id,
    )
    if claim is None:
        raise ToolError(f"There is no claim {claim_id}.")
    return claim


def list_claim_items(db: Db, claim_id: Id) -> list[Row]:
    """The single items of a claim with claimed and accepted amounts (cents)."""
    _claim(db, claim_id)
    return db.all(
        "SELECT id, description, claimed_cents, decision, accepted_cents FROM claim_items"
        " WHERE claim_id = ? ORDER BY id",
        claim_id,
    )


def list_document_requirements(db: Db, coverage: CoverageCode) -> list[Row]:
    """Which documents a claim under a coverage needs, each from a claimed amount (cents) on."""
    return db.all(
        "SELECT r.document_type, t.title, r.from_claimed_cents FROM document_requirements r"
        " JOIN document_types t ON t.code = r.document_type"
        " WHERE r.coverage_code = ? ORDER BY t.id",
        coverage,
    )


def list_documents(db: Db, claim_id: Id) -> list[Row]:
    """The documents of a claim: requested (with due date), received, verified or rejected."""
    _claim(db, claim_id)
    return db.all(
        "SELECT id, document_type, status, requested_on, due_on, received_on, checked_by,"
        " checked_on, remark FROM documents WHERE claim_id = ? ORDER BY id",
        claim_id,
    )


def list_adjusters(db: Db, line: Line, region: Region) -> list[Row]:
    """The adjusters of a line and region: largest claim they may take (cents), leave (last day),
    whether they still work for us, and how many unfinished claims they have."""
    return db.all(
        "SELECT j.id, j.name, j.max_claim_cents, j.active, j.away_until,"
        " count(c.id) AS unfinished_claims FROM adjusters j"
        " LEFT JOIN assignments a ON a.adjuster_id = j.id AND a.ended_on IS NULL"
        " LEFT JOIN claims c ON c.id = a.claim_id AND c.status NOT IN ('declined', 'closed')"
        " WHERE j.line = ? AND j.region = ? GROUP BY j.id ORDER BY j.id",
        line,
        region,
    )


def list_assessments(db: Db, claim_id: Id) -> list[Row]:
    """The assessments of a claim's damage, drafts too; amounts are before the excess
    (cents)."""
    _claim(db, claim_id)
    return db.all(
        "SELECT s.id, s.adjuster_id, j.name AS adjuster, s.assessed_on, s.amount_cents, s.status,"
        " s.remark FROM assessments s JOIN adjusters j ON j.id = s.adjuster_id"
        " WHERE s.claim_id = ? ORDER BY s.id",
        claim_id,
    )


def list_fraud_flags(db: Db, claim_id: Id) -> list[Row]:
    """The fraud flags of a claim, open and cleared."""
    _claim(db, claim_id)
    return db.all(
        "SELECT id, kind, severity, status, remark, raised_by, raised_on FROM fraud_flags"
        " WHERE claim_id = ? ORDER BY id",
        claim_id,
    )


def list_notes(db: Db, claim_id: Id) -> list[Row]:
    """The notes on a claim's file, newest first."""
    _claim(db, claim_id)
    return db.all(
        "SELECT id, author, written_at, body FROM notes WHERE claim_id = ?"
        " ORDER BY written_at DESC, id DESC",
        claim_id,
    )


def list_diary(db: Db, claim_id: Id) -> list[Row]:
    """The diary of a claim: what is to be done when, and what is done."""
    _claim(db, claim_id)
    return db.all(
        "SELECT id, due_on, task, status, created_by FROM diary_entries WHERE claim_id = ?"
        " ORDER BY due_on, id",
        claim_id,
    )


# Money: what is known.


def list_authority_levels(db: Db) -> Row:
    """Your own authority and that of every role: the largest amount (cents) that each may approve
    or pay on its own."""
    levels = db.all("SELECT role, title, limit_cents FROM authority_levels ORDER BY limit_cents")
    return {"you": _me(db), "levels": levels}


def list_approvals(
    db: Db,
    claim_id: Id | None = None,
    status: Literal["requested", "granted", "refused", "withdrawn"] | None = None,
    after_id: After = 0,
) -> Row:
    """Approval requests, all or those for a claim or in a status: for how much (cents), from which
    role, and what came of them. 50 at a time, the `total`, and whether the list is `truncated`."""
    where, values = _filters(("claim_id = ?", claim_id), ("status = ?", status))
    return _page(
        db,
        "approvals",
        "id, claim_id, approver_role, amount_cents, status, reason, requested_by, requested_at,"
        " decided_by, decided_at",
        f"FROM approvals WHERE id > ?{where}",
        "id",
        after_id,
        *values,
    )


def get_reserves(db: Db, claim_id: Id) -> Row:
    """The reserves of a claim by kind (cents) and how they came about."""
    _claim(db, claim_id)
    return {
        "claim_id": claim_id,
        "reserves": db.all(
            "SELECT id, kind, amount_cents FROM reserves WHERE claim_id = ? ORDER BY id", claim_id
        ),
        "changes": db.all(
            "SELECT r.kind, x.before_cents, x.after_cents, x.reason, x.changed_by, x.changed_at"
            " FROM reserve_changes x JOIN reserves r ON r.id = x.reserve_id"
            " WHERE r.claim_id = ? ORDER BY x.changed_at, x.id",
            claim_id,
        ),
    }


def list_payments(
    db: Db,
    claim_id: Id | None = None,
    loss_event_id: Id | None = None,
    payee_id: Id | None = None,
    status: Literal["scheduled", "paid", "cancelled"] | None = None,
    after_id: After = 0,
) -> Row:
    """Payments, all or those of a claim, loss event, payee or status, indemnity and expense alike
    (cents): 50 at a time, the `total`, and whether the list is `truncated`."""
    where, values = _filters(
        ("y.claim_id = ?", claim_id),
        ("c.loss_event_id = ?", loss_event_id),
        ("y.payee_id = ?", payee_id),
        ("y.status = ?", status),
    )
    return _page(
        db,
        "payments",
        "y.id, y.claim_id, c.loss_event_id, y.payee_id, e.name AS payee, y.bank_account_id,"
        " y.kind, y.amount_cents, y.status, y.created_by, y.created_on, y.paid_on,"
        " y.cancel_reason",
        "FROM payments y JOIN claims c ON c.id = y.claim_id JOIN payees e ON e.id = y.payee_id"
        f" WHERE y.id > ?{where}",
        "y.id",
        after_id,
        *values,
    )


def find_payees(db: Db, name: Word) -> Row:
    """Payees (policyholders, repair shops, experts) whose name contains the text: the first 20,
    the `total`, and whether the list is `truncated`."""
    return _page(
        db,
        "payees",
        "id, name, kind, policyholder_id, repair_shop_id",
        "FROM payees WHERE instr(lower(name), lower(?)) > 0",
        "name, id",
        name,
        size=20,
    )


def list_bank_accounts(db: Db, payee_id: Id) -> list[Row]:
    """The bank accounts of a payee: status, when each was added, and when payments control
    verified it (null: never)."""
    _payee(db, payee_id)
    return db.all(
        "SELECT id, iban, status, added_on, added_by, verified_on FROM bank_accounts"
        " WHERE payee_id = ? ORDER BY id",
        payee_id,
    )


def find_repair_shops(
    db: Db, city: Word, speciality: Literal["bodywork", "glass", "building"] | None = None
) -> list[Row]:
    """Repair shops of a city, all or of one speciality: whether they are in our network, and the
    last day of their network contract."""
    where, values = _filters(("speciality = ?", speciality))
    return db.all(
        "SELECT id, name, city, speciality, in_network, approved_until FROM repair_shops"
        f" WHERE lower(city) = lower(?){where} ORDER BY id",
        city,
        *values,
    )


def list_repair_orders(db: Db, claim_id: Id) -> list[Row]:
    """The repairs authorised under a claim, with shop, amount (cents) and status."""
    _claim(db, claim_id)
    return db.all(
        "SELECT o.id, o.repair_shop_id, s.name AS repair_shop, o.amount_cents, o.status,"
        " o.authorised_by, o.authorised_on FROM repair_orders o"
        " JOIN repair_shops s ON s.id = o.repair_shop_id WHERE o.claim_id = ? ORDER BY o.id",
        claim_id,
    )


def list_recoveries(
    db: Db, claim_id: Id | None = None, debtor: Word | None = None, after_id: After = 0
) -> Row:
    """Recoveries from other insurers, all or those of a claim or with a text in the debtor's name:
    demanded and received so far (cents). 50 at a time, the `total`, and whether the list is
    `truncated`."""
    where, values = _filters(
        ("claim_id = ?", claim_id), ("instr(lower(debtor), lower(?)) > 0", debtor)
    )
    return _page(
        db,
        "recoveries",
        "id, claim_id, debtor, debtor_reference, demanded_cents, received_cents, status, opened_on",
        f"FROM recoveries WHERE id > ?{where}",
        "id",
        after_id,
        *values,
    )


# Working a claim.


def register_claim(
    db: Db,
    policy_id: Id,
    coverage_id: Id,
    loss_on: Day,
    region: Region,
    claimed_cents: Cents,
    description: Text,
    loss_event_id: Id | None = None,
) -> Row:
    """Register a new claim as reported today. Region is where the loss happened; a loss event is
    given only where the loss belongs to one."""
    _policy(db, policy_id)
    if _day(loss_on) > _today(db):
        raise ToolError(f"The loss cannot lie in the future; today is {_today(db)}.")
    owner = db.value("SELECT policy_id FROM coverages WHERE id = ?", coverage_id)
    if owner != policy_id:
        raise ToolError(f"Policy {policy_id} has no coverage {coverage_id}.")
    if loss_event_id is not None:
        _existing(db, "loss_events", loss_event_id, "loss event")
    claim_id = db.insert(
        "claims",
        policy_id=policy_id,
        coverage_id=coverage_id,
        loss_event_id=loss_event_id,
        status="registered",
        loss_on=loss_on,
        reported_on=_today(db),
        region=region,
        description=description,
        claimed_cents=claimed_cents,
        registered_by=db.user.id,
    )
    _log(db, "claim.registered", "claims", claim_id, claim_id)
    return {"claim_id": claim_id, "status": "registered", "reported_on": _today(db)}


def assign_adjuster(db: Db, claim_id: Id, adjuster_id: Id) -> Row:
    """Give a claim to an adjuster of its line; a registered claim becomes open. An earlier
    assignment ends."""
    claim = _claim(db, claim_id)
    _require_status(claim, "registered", "open", "referred")
    adjuster = db.one("SELECT * FROM adjusters WHERE id = ?", adjuster_id)
    if adjuster is None:
        raise ToolError(f"There is no adjuster {adjuster_id}.")
    if not adjuster["active"]:
        raise ToolError(f"{adjuster['name']} no longer works for us.")
    if adjuster["line"] != claim["line"]:
        raise ToolError(f"{adjuster['name']} does not take {claim['line']} claims.")
    current = db.one(
        "SELECT id, adjuster_id FROM assignments WHERE claim_id = ? AND ended_on IS NULL", claim_id
    )
    if current is not None:
        if current["adjuster_id"] == adjuster_id:
            raise ToolError(f"{adjuster['name']} has claim {claim_id} already.")
        db.run("UPDATE assignments SET ended_on = ? WHERE id = ?", _today(db), current["id"])
    assignment_id = db.insert(
        "assignments",
        claim_id=claim_id,
        adjuster_id=adjuster_id,
        assigned_by=db.user.id,
        assigned_on=_today(db),
    )
    status = claim["status"]
    if status == "registered":
        status = "open"
        db.run("UPDATE claims SET status = ? WHERE id = ?", status, claim_id)
    _log(db, "adjuster.assigned", "assignments", assignment_id, claim_id)
    return {
        "assignment_id": assignment_id,
        "claim_id": claim_id,
        "claim_status": status,
        "adjuster": adjuster["name"],
        "previous_adjuster_id": current["adjuster_id"] if current else None,
    }


def request_document(db: Db, claim_id: Id, document_type: DocumentType, due_on: Day) -> Row:
    """Ask the policyholder for a document by a due date. Refused while one of the type is
    requested, received or verified."""
    claim = _claim(db, claim_id)
    _require_status(claim, "registered", "open", "referred")
    if _day(due_on) <= _today(db):
        raise ToolError(f"The due date must lie after today, {_today(db)}.")
    there = db.one(
        "SELECT id, status FROM documents"
        " WHERE claim_id = ? AND document_type = ? AND status <> 'rejected' ORDER BY id",
        claim_id,
        document_type,
    )
    if there is not None:
        raise ToolError(f"Document {there['id']} of this type is {there['status']} already.")
    document_id = db.insert(
        "documents",
        claim_id=claim_id,
        document_type=document_type,
        status="requested",
        requested_on=_today(db),
        due_on=due_on,
    )
    _log(db, "document.requested", "documents", document_id, claim_id)
    return {
        "document_id": document_id,
        "claim_id": claim_id,
        "document_type": document_type,
        "status": "requested",
        "due_on": due_on,
    }


def receive_document(db: Db, document_id: Id, received_on: Day) -> Row:
    """Book a requested document as received on a day. It still has to be verified."""
    document = _document(db, document_id)
    if document["status"] != "requested":
        raise ToolError(f"Document {document_id} is {document['status']}, not requested.")
    if not document["requested_on"] <= _day(received_on) <= _today(db):
        raise ToolError(
            f"The day must lie between the request, {document['requested_on']}, and today."
        )
    db.run(
        "UPDATE documents SET status = 'received', received_on = ? WHERE id = ?",
        received_on,
        document_id,
    )
    _log(db, "document.received", "documents", document_id, document["claim_id"])
    return {
        "document_id": document_id,
        "claim_id": document["claim_id"],
        "document_type": document["document_type"],
        "status": "received",
        "received_on": received_on,
    }


def check_document(
    db: Db, document_id: Id, result: Literal["verified", "rejected"], remark: str | None = None
) -> Row:
    """Verify or reject a received document after looking at it. A rejection needs a remark."""
    document = _document(db, document_id)
    if document["status"] != "received":
        raise ToolError(f"Document {document_id} is {document['status']}, not received.")
    if result == "rejected" and not (remark or "").strip():
        raise ToolError("A rejection needs a remark that says what is wrong.")
    db.run(
        "UPDATE documents SET status = ?, checked_by = ?, checked_on = ?, remark = ? WHERE id = ?",
        result,
        db.user.id,
        _today(db),
        remark,
        document_id,
    )
    _log(db, f"document.{result}", "documents", document_id, document["claim_id"])
    return {
        "document_id": document_id,
        "claim_id": document["claim_id"],
        "document_type": document["document_type"],
        "status": result,
        "remark": remark,
    }


def decide_claim_item(
    db: Db, item_id: Id, decision: Literal["accepted", "rejected"], accepted_cents: CentsOrZero = 0
) -> Row:
    """Decide one item of a claim: accept it for an amount (cents, up to what was claimed), or
    reject it without one. A decision can be changed while the claim is open."""
    item = db.one("SELECT * FROM claim_items WHERE id = ?", item_id)
    if item is None:
        raise ToolError(f"There is no claim item {item_id}.")
    _require_status(_claim(db, item["claim_id"]), "registered", "open")
    if decision == "accepted" and not 1 <= accepted_cents <= item["claimed_cents"]:
        raise ToolError(f"Accept between 1 and the claimed {item['claimed_cents']} cents.")
    if decision == "rejected" and accepted_cents:
        raise ToolError("A rejected item has no accepted amount.")
    if (item["decision"], item["accepted_cents"]) == (decision, accepted_cents):
        raise ToolError(f"Item {item_id} is {decision} so already.")
    db.run(
        "UPDATE claim_items SET decision = ?, accepted_cents = ? WHERE id = ?",
        decision,
        accepted_cents,
        item_id,
    )
    _log(db, f"item.{decision}", "claim_items", item_id, item["claim_id"])
    return {
        "item_id": item_id,
        "claim_id": item["claim_id"],
        "decision": decision,
        "claimed_cents": item["claimed_cents"],
        "accepted_cents": accepted_cents,
    }


def record_assessment(
    db: Db, claim_id: Id, adjuster_id: Id, assessed_on: Day, amount_cents: Cents, remark: Text
) -> Row:
    """Enter the final assessment of a claim's damage as its adjuster reported it (cents, before
    the excess)."""
    claim = _claim(db, claim_id)
    _require_status(claim, "open", "referred")
    if not claim["loss_on"] <= _day(assessed_on) <= _today(db):
        raise ToolError(f"The day must lie between the loss, {claim['loss_on']}, and today.")
    current = db.value(
        "SELECT adjuster_id FROM assignments WHERE claim_id = ? AND ended_on IS NULL", claim_id
    )
    if current != adjuster_id:
        raise ToolError(f"Claim {claim_id} is not with adjuster {adjuster_id}.")
    assessment_id = db.insert(
        "assessments",
        claim_id=claim_id,
        adjuster_id=adjuster_id,
        assessed_on=assessed_on,
        amount_cents=amount_cents,
        status="final",
        remark=remark,
    )
    _log(db, "assessment.recorded", "assessments", assessment_id, claim_id)
    return {
        "assessment_id": assessment_id,
        "claim_id": claim_id,
        "assessed_on": assessed_on,
        "amount_cents": amount_cents,
        "status": "final",
    }


def approve_claim(db: Db, claim_id: Id, amount_cents: Cents) -> Row:
    """Approve an open claim for the amount to be paid in all (cents, after the excess), within
    your authority and the coverage's remaining limit."""
    claim = _claim(db, claim_id)
    _require_status(claim, "open")
    _require_authority(db, claim_id, amount_cents)
    bars = db.one(
        "SELECT v.limit_cents - coalesce(sum(c.approved_cents), 0) AS left_cents,"
        " (SELECT min(id) FROM fraud_flags"
        "  WHERE claim_id = ? AND status = 'open' AND severity = 'high') AS flag,"
        " (SELECT min(id) FROM claim_items WHERE claim_id = ? AND decision = 'pending') AS item"
        " FROM coverages v LEFT JOIN claims c ON c.coverage_id = v.id WHERE v.id = ?",
        claim_id,
        claim_id,
        claim["coverage_id"],
    )
    assert bars is not None  # an aggregate gives a row
    if (flag := bars["flag"]) is not None:
        raise ToolError(f"Claim {claim_id} has an open fraud flag ({flag}); it cannot be approved.")
    if (item := bars["item"]) is not None:
        raise ToolError(f"Item {item} is not decided yet.")
    if amount_cents > bars["left_cents"]:
        raise ToolError(f"Only {bars['left_cents']} cents of the coverage's limit remain.")
    db.run(
        "UPDATE claims SET status = 'approved', approved_cents = ?, decided_by = ?, decided_on = ?"
        " WHERE id = ?",
        amount_cents,
        db.user.id,
        _today(db),
        claim_id,
    )
    _log(db, "claim.approved", "claims", claim_id, claim_id)
    return {"claim_id": claim_id, "status": "approved", "approved_cents": amount_cents}


def request_approval(
    db: Db,
    claim_id: Id,
    amount_cents: Cents,
    approver_role: Literal["senior_handler", "claims_manager", "claims_director"],
    reason: Text,
) -> Row:
    """Refer an open claim whose amount (cents, after the excess) is above your authority to a
    higher role for approval."""
    _require_status(_claim(db, claim_id), "open")
    me = _me(db)
    if amount_cents <= me["limit_cents"]:
        raise ToolError(f"{amount_cents} cents are within your own authority.")
    limit = db.value("SELECT limit_cents FROM authority_levels WHERE role = ?", approver_role)
    if amount_cents > limit:
        raise ToolError(f"The authority of a {approver_role} ends at {limit} cents.")
    approval_id = db.insert(
        "approvals",
        claim_id=claim_id,
        approver_role=approver_role,
        amount_cents=amount_cents,
        status="requested",
        reason=reason,
        requested_by=db.user.id,
        requested_at=db.now,
    )
    db.run("UPDATE claims SET status = 'referred' WHERE id = ?", claim_id)
    _log(db, "approval.requested", "approvals", approval_id, claim_id)
    return {
        "approval_id": approval_id,
        "claim_id": claim_id,
        "claim_status": "referred",
        "approver_role": approver_role,
        "amount_cents": amount_cents,
        "status": "requested",
    }


def reopen_claim(db: Db, claim_id: Id, reason: Text) -> Row:
    """Take back the approval of a claim: it is open again, without an approved amount, and the
    reason goes on its file as a note. Refused while indemnity is scheduled or paid on it."""
    claim = _claim(db, claim_id)
    _require_status(claim, "approved")
    booked = db.one(
        "SELECT id, status FROM payments WHERE claim_id = ? AND kind = 'indemnity'"
        " AND status <> 'cancelled' ORDER BY id",
        claim_id,
    )
    if booked is not None:
        raise ToolError(f"Payment {booked['id']} of claim {claim_id} is {booked['status']}.")
    db.run(
        "UPDATE claims SET status = 'open', approved_cents = NULL, decided_by = NULL,"
        " decided_on = NULL WHERE id = ?",
        claim_id,
    )
    body = f"Reopened: {reason}"
    note_id = db.insert("notes", claim_id=claim_id, author=db.user.id, written_at=db.now, body=body)
    _log(db, "claim.reopened", "claims", claim_id, claim_id)
    return {
        "claim_id": claim_id,
        "status": "open",
        "approved_before_cents": claim["approved_cents"],
        "note_id": note_id,
    }


def decline_claim(
    db: Db,
    claim_id: Id,
    reason: Literal["before_cover", "after_cover", "excluded", "below_excess"],
) -> Row:
    """Decline a registered or open claim for good. Its reserves must be 0."""
    _require_status(_claim(db, claim_id), "registered", "open")
    _require_no_reserve(db, claim_id)
    db.run(
        "UPDATE claims SET status = 'declined', decline_reason = ?, decided_by = ?, decided_on = ?"
        " WHERE id = ?",
        reason,
        db.user.id,
        _today(db),
        claim_id,
    )
    _log(db, "claim.declined", "claims", claim_id, claim_id)
    return {"claim_id": claim_id, "status": "declined", "decline_reason": reason}


def close_claim(
    db: Db,
    claim_id: Id,
    reason: Literal["settled", "duplicate", "withdrawn", "no_response"],
    duplicate_of_claim_id: Id | None = None,
) -> Row:
    """Close a claim; its reserves must be 0. A duplicate names the claim that stays; a settled
    claim must be approved and fully paid, and the others must be undecided."""
    claim = _claim(db, claim_id)
    if reason == "settled":
        _require_status(claim, "approved")
        paid = "SELECT coalesce(sum(amount_cents), 0) FROM payments WHERE claim_id = ?"
        paid += " AND kind = 'indemnity' AND status = 'paid'"
        if db.value(paid, claim_id) < claim["approved_cents"]:
            raise ToolError(f"Claim {claim_id} is not fully paid.")
    else:
        _require_status(claim, "registered", "open")
    if (reason == "duplicate") != (duplicate_of_claim_id is not None):
        raise ToolError("Name the claim that stays for a duplicate, and only for a duplicate.")
    if duplicate_of_claim_id is not None:
        original = _claim(db, duplicate_of_claim_id)
        if original["id"] == claim_id or original["policy_id"] != claim["policy_id"]:
            raise ToolError("The claim that stays must be another claim of the same policy.")
    _require_no_reserve(db, claim_id)
    db.run(
        "UPDATE claims SET status = 'closed', close_reason = ?, closed_on = ?, duplicate_of = ?"
        " WHERE id = ?",
        reason,
        _today(db),
        duplicate_of_claim_id,
        claim_id,
    )
    _log(db, "claim.closed", "claims", claim_id, claim_id)
    return {
        "claim_id": claim_id,
        "status": "closed",
        "close_reason": reason,
        "duplicate_of": duplicate_of_claim_id,
    }


def raise_fraud_flag(
    db: Db, claim_id: Id, kind: FlagKind, severity: Literal["low", "medium", "high"], remark: Text
) -> Row:
    """Raise a fraud flag on a claim. A high one blocks approval until it is cleared."""
    _claim(db, claim_id)
    flag_id = db.insert(
        "fraud_flags",
        claim_id=claim_id,
        kind=kind,
        severity=severity,
        status="open",
        remark=remark,
        raised_by=db.user.id,
        raised_on=_today(db),
    )
    _log(db, "flag.raised", "fraud_flags", flag_id, claim_id)
    return {
        "flag_id": flag_id,
        "claim_id": claim_id,
        "kind": kind,
        "severity": severity,
        "status": "open",
    }


def add_note(db: Db, claim_id: Id, body: Text) -> Row:
    """Write a note on a claim's file."""
    _claim(db, claim_id)
    note_id = db.insert("notes", claim_id=claim_id, author=db.user.id, written_at=db.now, body=body)
    _log(db, "note.added", "notes", note_id, claim_id)
    return {"note_id": note_id, "claim_id": claim_id, "author": db.user.id, "written_at": db.now}


def add_diary_entry(db: Db, claim_id: Id, due_on: Day, task: Text) -> Row:
    """Put something to be done on a claim into the diary for a day from today on."""
    _claim(db, claim_id)
    if _day(due_on) < _today(db):
        raise ToolError(f"The day must not lie before today, {_today(db)}.")
    entry_id = db.insert(
        "diary_entries",
        claim_id=claim_id,
        due_on=due_on,
        task=task,
        status="open",
        created_by=db.user.id,
    )
    _log(db, "diary.added", "diary_entries", entry_id, claim_id)
    return {"diary_entry_id": entry_id, "claim_id": claim_id, "due_on": due_on, "status": "open"}


# Moving money.


def set_reserve(
    db: Db,
    claim_id: Id,
    kind: Literal["indemnity", "expense"],
    amount_cents: CentsOrZero,
    reason: Text,
) -> Row:
    """Set a claim's reserve of one kind to an amount (cents). It replaces the old figure."""
    _require_status(_claim(db, claim_id), "registered", "open", "referred", "approved")
    reserve = db.one(
        "SELECT id, amount_cents FROM reserves WHERE claim_id = ? AND kind = ?", claim_id, kind
    )
    before = reserve["amount_cents"] if reserve else 0
    if before == amount_cents:
        raise ToolError(f"The {kind} reserve of claim {claim_id} is {before} cents already.")
    if reserve is None:
        reserve_id = db.insert("reserves", claim_id=claim_id, kind=kind, amount_cents=amount_cents)
    else:
        reserve_id = reserve["id"]
        db.run("UPDATE reserves SET amount_cents = ? WHERE id = ?", amount_cents, reserve_id)
    db.insert(
        "reserve_changes",
        reserve_id=reserve_id,
        before_cents=before,
        after_cents=amount_cents,
        reason=reason,
        changed_by=db.user.id,
        changed_at=db.now,
    )
    _log(db, "reserve.set", "reserves", reserve_id, claim_id)
    return {
        "reserve_id": reserve_id,
        "claim_id": claim_id,
        "kind": kind,
        "before_cents": before,
        "after_cents": amount_cents,
    }


def create_payment(
    db: Db,
    claim_id: Id,
    payee_id: Id,
    bank_account_id: Id,
    kind: Literal["indemnity", "expense"],
    amount_cents: Cents,
) -> Row:
    """Schedule a payment (cents) to an active account of the payee, within your authority. All
    indemnity of a claim together stays within its approved amount."""
    claim = _claim(db, claim_id)
    account = db.one("SELECT payee_id, status FROM bank_accounts WHERE id = ?", bank_account_id)
    if account is None or account["payee_id"] != payee_id:
        raise ToolError(f"Payee {payee_id} has no bank account {bank_account_id}.")
    if account["status"] != "active":
        raise ToolError(f"Bank account {bank_account_id} is closed.")
    _require_authority(db, claim_id, amount_cents)
    if kind == "expense":
        _require_status(claim, "open", "referred", "approved")
    else:
        _require_status(claim, "approved")
        booked = db.value(
            "SELECT coalesce(sum(amount_cents), 0) FROM payments"
            " WHERE claim_id = ? AND kind = 'indemnity' AND status <> 'cancelled'",
            claim_id,
        )
        if booked + amount_cents > claim["approved_cents"]:
            left = claim["approved_cents"] - booked
            raise ToolError(f"Only {left} cents of the approved amount are left to pay.")
    payment_id = db.insert(
        "payments",
        claim_id=claim_id,
        payee_id=payee_id,
        bank_account_id=bank_account_id,
        kind=kind,
        amount_cents=amount_cents,
        status="scheduled",
        created_by=db.user.id,
        created_on=_today(db),
    )
    _log(db, "payment.created", "payments", payment_id, claim_id)
    return {
        "payment_id": payment_id,
        "claim_id": claim_id,
        "payee_id": payee_id,
        "bank_account_id": bank_account_id,
        "kind": kind,
        "amount_cents": amount_cents,
        "status": "scheduled",
    }


def cancel_payment(db: Db, payment_id: Id, reason: Text) -> Row:
    """Cancel a payment that is scheduled and has not gone out."""
    payment = db.one("SELECT claim_id, amount_cents, status FROM payments WHERE id = ?", payment_id)
    if payment is None:
        raise ToolError(f"There is no payment {payment_id}.")
    if payment["status"] != "scheduled":
        raise ToolError(f"Payment {payment_id} is {payment['status']}, not scheduled.")
    db.run(
        "UPDATE payments SET status = 'cancelled', cancel_reason = ? WHERE id = ?",
        reason,
        payment_id,
    )
    _log(db, "payment.cancelled", "payments", payment_id, payment["claim_id"])
    return {
        "payment_id": payment_id,
        "claim_id": payment["claim_id"],
        "amount_cents": payment["amount_cents"],
        "status": "cancelled",
    }


def add_bank_account(db: Db, payee_id: Id, iban: Word) -> Row:
    """Add an IBAN to a payee. It starts unverified: payments control verifies it by telephone."""
    _payee(db, payee_id)
    plain = iban.replace(" ", "").upper()
    if not _is_iban(plain):
        raise ToolError(f"{iban} is not a valid IBAN; check the digits.")
    if db.one("SELECT 1 FROM bank_accounts WHERE payee_id = ? AND iban = ?", payee_id, plain):
        raise ToolError(f"Payee {payee_id} has this account already.")
    account_id = db.insert(
        "bank_accounts",
        payee_id=payee_id,
        iban=plain,
        status="active",
        added_on=_today(db),
        added_by=db.user.id,
    )
    _log(db, "bank_account.added", "bank_accounts", account_id, None)
    return {
        "bank_account_id": account_id,
        "payee_id": payee_id,
        "iban": plain,
        "status": "active",
        "verified_on": None,
    }


def authorise_repair(db: Db, claim_id: Id, repair_shop_id: Id, amount_cents: Cents) -> Row:
    """Authorise a network shop to repair the damage of an open or approved claim up to an amount
    (cents). One repair at a time."""
    _require_status(_claim(db, claim_id), "open", "approved")
    shop = db.one("SELECT name, in_network FROM repair_shops WHERE id = ?", repair_shop_id)
    if shop is None:
        raise ToolError(f"There is no repair shop {repair_shop_id}.")
    if not shop["in_network"]:
        raise ToolError(f"{shop['name']} is not in our network.")
    running = "SELECT id FROM repair_orders WHERE claim_id = ? AND status = 'authorised'"
    if (order := db.value(running, claim_id)) is not None:
        raise ToolError(f"Repair order {order} is running for claim {claim_id}.")
    order_id = db.insert(
        "repair_orders",
        claim_id=claim_id,
        repair_shop_id=repair_shop_id,
        amount_cents=amount_cents,
        status="authorised",
        authorised_by=db.user.id,
        authorised_on=_today(db),
    )
    _log(db, "repair.authorised", "repair_orders", order_id, claim_id)
    return {
        "repair_order_id": order_id,
        "claim_id": claim_id,
        "repair_shop": shop["name"],
        "amount_cents": amount_cents,
        "status": "authorised",
    }


def open_recovery(
    db: Db, claim_id: Id, debtor: Word, debtor_reference: Word, demanded_cents: Cents
) -> Row:
    """Open a recovery against the insurer of the party at fault, under that insurer's own
    reference, for an amount (cents)."""
    _require_status(_claim(db, claim_id), "approved", "closed")
    if db.one("SELECT 1 FROM recoveries WHERE debtor_reference = ?", debtor_reference):
        raise ToolError(f"There is a recovery with the reference {debtor_reference} already.")
    recovery_id = db.insert(
        "recoveries",
        claim_id=claim_id,
        debtor=debtor,
        debtor_reference=debtor_reference,
        demanded_cents=demanded_cents,
        status="open",
        opened_by=db.user.id,
        opened_on=_today(db),
    )
    _log(db, "recovery.opened", "recoveries", recovery_id, claim_id)
    return {
        "recovery_id": recovery_id,
        "claim_id": claim_id,
        "debtor_reference": debtor_reference,
        "demanded_cents": demanded_cents,
        "status": "open",
    }


def set_recovery_demand(db: Db, recovery_id: Id, demanded_cents: Cents) -> Row:
    """Set the demand of an open recovery to another amount (cents). It replaces the old demand; a
    demand of just what was received so far ends the recovery."""
    recovery = _open_recovery(db, recovery_id)
    before, received = recovery["demanded_cents"], recovery["received_cents"]
    if demanded_cents == before:
        raise ToolError(f"The demand of recovery {recovery_id} is {before} cents already.")
    if demanded_cents < received:
        raise ToolError(f"{received} cents have come in on recovery {recovery_id} already.")
    status = "recovered" if demanded_cents == received else "open"
    db.run(
        "UPDATE recoveries SET demanded_cents = ?, status = ? WHERE id = ?",
        demanded_cents,
        status,
        recovery_id,
    )
    _log(db, "recovery.amended", "recoveries", recovery_id, recovery["claim_id"])
    return {
        "recovery_id": recovery_id,
        "before_cents": before,
        "demanded_cents": demanded_cents,
        "received_cents": received,
        "status": status,
    }


def record_recovery_receipt(db: Db, recovery_id: Id, amount_cents: Cents, received_on: Day) -> Row:
    """Book money (cents) that came in on a recovery on a day."""
    recovery = _open_recovery(db, recovery_id)
    if not recovery["opened_on"] <= _day(received_on) <= _today(db):
        raise ToolError(f"The day must lie between {recovery['opened_on']} and today.")
    received = recovery["received_cents"] + amount_cents
    if received > recovery["demanded_cents"]:
        left = recovery["demanded_cents"] - recovery["received_cents"]
        raise ToolError(f"Only {left} cents are outstanding on recovery {recovery_id}.")
    status = "recovered" if received == recovery["demanded_cents"] else "open"
    receipt_id = db.insert(
        "recovery_receipts",
        recovery_id=recovery_id,
        amount_cents=amount_cents,
        received_on=received_on,
        recorded_by=db.user.id,
    )
    db.run(
        "UPDATE recoveries SET received_cents = ?, status = ? WHERE id = ?",
        received,
        status,
        recovery_id,
    )
    _log(db, "recovery.received", "recovery_receipts", receipt_id, recovery["claim_id"])
    return {
        "receipt_id": receipt_id,
        "recovery_id": recovery_id,
        "demanded_cents": recovery["demanded_cents"],
        "received_cents": received,
        "status": status,
    }


# What the tools share.


def _filters(*pairs: tuple[str, SqlValue]) -> tuple[str, list[SqlValue]]:
    """The conditions whose value is given, each after an AND, and their values."""
    used = [(clause, value) for clause, value in pairs if value is not None]
    return "".join(f" AND {clause}" for clause, _ in used), [value for _, value in used]


def _page(
    db: Db, noun: str, columns: str, source: str, order: str, *values: SqlValue, size: int = 50
) -> Row:
    """The first rows of a query under `noun`, with the number of all of them.

    Example: {"total": 1, "truncated": False, "payees": [{"id": 401, ...}]}
    """
    rows = db.all(f"SELECT {columns} {source} ORDER BY {order} LIMIT {size + 1}", *values)
    total = len(rows) if len(rows) <= size else db.value(f"SELECT count(*) {source}", *values)
    return {"total": total, "truncated": total > size, noun: rows[:size]}


def _existing(db: Db, table: str, key: int, noun: str) -> None:
    if db.one(f"SELECT 1 FROM {table} WHERE id = ?", key) is None:
        raise ToolError(f"There is no {noun} {key}.")


def _policy(db: Db, policy_id: int) -> Row:
    policy = db.one(
        "SELECT p.*, h.name AS policyholder FROM policies p"
        " JOIN policyholders h ON h.id = p.policyholder_id WHERE p.id = ?",
        policy_id,
    )
    if policy is None:
        raise ToolError(f"There is no policy {policy_id}.")
    return policy


def _claim(db: Db, claim_id: int) -> Row:
    claim = db.one(
        "SELECT c.*, p.line FROM claims c JOIN policies p ON p.id = c.policy_id WHERE c.id = ?",
        claim_id,
    )
    if claim is None:
        raise ToolError(f"There is no claim {claim_id}.")
    return claim


def _document(db: Db, document_id: int) -> Row:
    document = db.one("SELECT * FROM documents WHERE id = ?", document_id)
    if document is None:
        raise ToolError(f"There is no document {document_id}.")
    return document


def _payee(db: Db, payee_id: int) -> None:
    _existing(db, "payees", payee_id, "payee")


def _open_recovery(db: Db, recovery_id: int) -> Row:
    recovery = db.one("SELECT * FROM recoveries WHERE id = ?", recovery_id)
    if recovery is None:
        raise ToolError(f"There is no recovery {recovery_id}.")
    if recovery["status"] != "open":
        raise ToolError(f"Recovery {recovery_id} is {recovery['status']}.")
    return recovery


def _me(db: Db) -> Row:
    me = db.one(
        "SELECT s.login, s.name, s.role, a.limit_cents FROM staff s"
        " JOIN authority_levels a ON a.role = s.role WHERE s.login = ? AND s.active = 1",
        db.user.id,
    )
    if me is None:
        raise ToolError(f"{db.user.name} is not on the staff list and may decide nothing.")
    return me


def _require_status(claim: dict[str, Any], *wanted: str) -> None:
    if claim["status"] not in wanted:
        raise ToolError(
            f"Claim {claim['id']} is {claim['status']}; it would have to be {' or '.join(wanted)}."
        )


def _require_authority(db: Db, claim_id: int, amount_cents: int) -> None:
    limit = _me(db)["limit_cents"]
    if amount_cents <= limit:
        return
    granted = db.value(
        "SELECT max(amount_cents) FROM approvals WHERE claim_id = ? AND status = 'granted'",
        claim_id,
    )
    if granted is None or granted < amount_cents:
        raise ToolError(
            f"{amount_cents} cents are above your authority of {limit} cents and no approval of"
            " that amount is granted; request one."
        )


def _require_no_reserve(db: Db, claim_id: int) -> None:
    reserve = db.one(
        "SELECT kind, amount_cents FROM reserves WHERE claim_id = ? AND amount_cents > 0"
        " ORDER BY id",
        claim_id,
    )
    if reserve is not None:
        raise ToolError(
            f"The {reserve['kind']} reserve of claim {claim_id} still is"
            f" {reserve['amount_cents']} cents; set it to 0 first."
        )


def _today(db: Db) -> str:
    return db.now[:10]


def _day(text: str) -> str:
    """The text, if it is a day of the calendar."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ToolError(f"{text} is not a day of the calendar.") from None


def _is_iban(iban: str) -> bool:
    """Whether length and check digits are right (ISO 13616; Irish accounts have 22 signs).

    Example: "IE18IPBS99060226018159" -> True
    """
    if not (iban.isascii() and iban.isalnum() and 15 <= len(iban) <= 34 and iban[:2].isalpha()):
        return False
    if iban.startswith("IE") and len(iban) != 22:
        return False
    return int("".join(str(int(sign, 36)) for sign in iban[4:] + iban[:4])) % 97 == 1


def _log(db: Db, action: str, entity: str, entity_id: int, claim_id: int | None) -> None:
    db.insert(
        "audit_log",
        at=db.now,
        actor=db.user.id,
        action=action,
        claim_id=claim_id,
        entity=entity,
        entity_id=entity_id,
    )
