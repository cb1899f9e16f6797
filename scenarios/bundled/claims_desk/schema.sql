-- The claims desk of Kestrel Mutual. Money is in euro cents, dates are ISO text (UTC).

-- People of the house and what they may decide.

CREATE TABLE authority_levels (
    id INTEGER PRIMARY KEY,
    role TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    limit_cents INTEGER NOT NULL UNIQUE CHECK (limit_cents > 0)
);

CREATE TABLE staff (
    id INTEGER PRIMARY KEY,
    login TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL REFERENCES authority_levels (role),
    active INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1))
);

CREATE TABLE adjusters (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    line TEXT NOT NULL CHECK (line IN ('home', 'motor')),
    region TEXT NOT NULL CHECK (region IN ('east', 'south', 'west')),
    max_claim_cents INTEGER NOT NULL CHECK (max_claim_cents > 0),
    active INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    away_until TEXT  -- last day of leave
);
CREATE INDEX adjusters_by_line ON adjusters (line, region);

-- Who is insured, for what, until when.

CREATE TABLE policyholders (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    born_on TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    phone TEXT NOT NULL,
    street TEXT NOT NULL,
    city TEXT NOT NULL,
    region TEXT NOT NULL CHECK (region IN ('east', 'south', 'west'))
);
CREATE INDEX policyholders_by_name ON policyholders (name);

CREATE TABLE policies (
    id INTEGER PRIMARY KEY,
    number TEXT NOT NULL UNIQUE,
    policyholder_id INTEGER NOT NULL REFERENCES policyholders (id),
    line TEXT NOT NULL CHECK (line IN ('home', 'motor')),
    status TEXT NOT NULL CHECK (status IN ('active', 'lapsed', 'cancelled', 'expired')),
    starts_on TEXT NOT NULL,
    ends_on TEXT NOT NULL,
    lapsed_on TEXT,  -- the first day without cover
    premium_cents INTEGER NOT NULL CHECK (premium_cents > 0),
    CHECK (starts_on < ends_on),
    CHECK (status <> 'lapsed' OR lapsed_on IS NOT NULL)
);
CREATE INDEX policies_by_policyholder ON policies (policyholder_id);

CREATE TABLE insured_items (
    id INTEGER PRIMARY KEY,
    policy_id INTEGER NOT NULL REFERENCES policies (id),
    kind TEXT NOT NULL CHECK (kind IN ('vehicle', 'building', 'contents')),
    identifier TEXT NOT NULL,  -- registration mark or Eircode
    description TEXT NOT NULL,
    value_cents INTEGER NOT NULL CHECK (value_cents > 0),
    UNIQUE (policy_id, kind, identifier)
);

CREATE TABLE coverage_types (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    line TEXT NOT NULL CHECK (line IN ('home', 'motor')),
    title TEXT NOT NULL
);

CREATE TABLE coverages (
    id INTEGER PRIMARY KEY,
    policy_id INTEGER NOT NULL REFERENCES policies (id),
    code TEXT NOT NULL REFERENCES coverage_types (code),
    limit_cents INTEGER NOT NULL CHECK (limit_cents > 0),  -- for all losses of the period
    excess_cents INTEGER NOT NULL CHECK (excess_cents >= 0),
    starts_on TEXT NOT NULL,
    ends_on TEXT NOT NULL,
    UNIQUE (policy_id, code),
    CHECK (starts_on < ends_on)
);

CREATE TABLE exclusions (
    id INTEGER PRIMARY KEY,
    coverage_id INTEGER NOT NULL REFERENCES coverages (id),
    wording TEXT NOT NULL
);
CREATE INDEX exclusions_by_coverage ON exclusions (coverage_id);

CREATE TABLE endorsements (
    id INTEGER PRIMARY KEY,
    policy_id INTEGER NOT NULL REFERENCES policies (id),
    coverage_id INTEGER NOT NULL REFERENCES coverages (id),
    effective_on TEXT NOT NULL,
    term TEXT NOT NULL CHECK (term IN ('limit', 'excess', 'cover_added')),
    old_cents INTEGER CHECK (old_cents >= 0),
    new_cents INTEGER CHECK (new_cents >= 0),
    description TEXT NOT NULL
);
CREATE INDEX endorsements_by_policy ON endorsements (policy_id);

CREATE TABLE invoices (
    id INTEGER PRIMARY KEY,
    policy_id INTEGER NOT NULL REFERENCES policies (id),
    number TEXT NOT NULL UNIQUE,
    period_from TEXT NOT NULL,
    period_to TEXT NOT NULL,
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    due_on TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'overdue', 'paid')),
    paid_on TEXT,
    CHECK ((status = 'paid') = (paid_on IS NOT NULL))
);
CREATE INDEX invoices_by_policy ON invoices (policy_id);

-- What happened.

CREATE TABLE loss_events (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('storm', 'flood', 'road')),
    happened_on TEXT NOT NULL,
    region TEXT NOT NULL CHECK (region IN ('east', 'south', 'west'))
);

CREATE TABLE claims (
    id INTEGER PRIMARY KEY,
    policy_id INTEGER NOT NULL REFERENCES policies (id),
    coverage_id INTEGER NOT NULL REFERENCES coverages (id),
    loss_event_id INTEGER REFERENCES loss_events (id),
    status TEXT NOT NULL CHECK (
        status IN ('registered', 'open', 'referred', 'approved', 'declined', 'closed')
    ),
    loss_on TEXT NOT NULL,
    reported_on TEXT NOT NULL,
    region TEXT NOT NULL CHECK (region IN ('east', 'south', 'west')),
    description TEXT NOT NULL,
    claimed_cents INTEGER NOT NULL CHECK (claimed_cents > 0),
    approved_cents INTEGER CHECK (approved_cents > 0),
    decline_reason TEXT CHECK (
        decline_reason IN ('before_cover', 'after_cover', 'excluded', 'below_excess')
    ),
    decided_by TEXT REFERENCES staff (login),
    decided_on TEXT,
    close_reason TEXT CHECK (
        close_reason IN ('settled', 'duplicate', 'withdrawn', 'no_response')
    ),
    closed_on TEXT,
    duplicate_of INTEGER REFERENCES claims (id),
    registered_by TEXT NOT NULL REFERENCES staff (login),
    CHECK (loss_on <= reported_on),
    CHECK (duplicate_of IS NULL OR duplicate_of <> id),
    CHECK ((status = 'declined') = (decline_reason IS NOT NULL)),
    CHECK ((status = 'closed') = (close_reason IS NOT NULL))
);
CREATE INDEX claims_by_policy ON claims (policy_id);
CREATE INDEX claims_by_coverage ON claims (coverage_id);
CREATE INDEX claims_by_event ON claims (loss_event_id);

CREATE TABLE claim_items (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    description TEXT NOT NULL,
    claimed_cents INTEGER NOT NULL CHECK (claimed_cents > 0),
    decision TEXT NOT NULL DEFAULT 'pending' CHECK (decision IN ('pending', 'accepted', 'rejected')),
    accepted_cents INTEGER CHECK (accepted_cents >= 0),
    CHECK ((decision = 'pending') = (accepted_cents IS NULL)),
    CHECK (accepted_cents IS NULL OR accepted_cents <= claimed_cents)
);
CREATE INDEX claim_items_by_claim ON claim_items (claim_id);

CREATE TABLE document_types (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL
);

CREATE TABLE document_requirements (
    coverage_code TEXT NOT NULL REFERENCES coverage_types (code),
    document_type TEXT NOT NULL REFERENCES document_types (code),
    from_claimed_cents INTEGER NOT NULL DEFAULT 0 CHECK (from_claimed_cents >= 0),
    PRIMARY KEY (coverage_code, document_type)
);

CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    document_type TEXT NOT NULL REFERENCES document_types (code),
    status TEXT NOT NULL CHECK (status IN ('requested', 'received', 'verified', 'rejected')),
    requested_on TEXT,
    due_on TEXT,
    received_on TEXT,
    checked_by TEXT REFERENCES staff (login),  -- who verified or rejected it
    checked_on TEXT,
    remark TEXT,
    CHECK (status = 'requested' OR received_on IS NOT NULL),
    CHECK (status <> 'requested' OR due_on IS NOT NULL)
);
CREATE INDEX documents_by_claim ON documents (claim_id);

CREATE TABLE assignments (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    adjuster_id INTEGER NOT NULL REFERENCES adjusters (id),
    assigned_by TEXT NOT NULL REFERENCES staff (login),
    assigned_on TEXT NOT NULL,
    ended_on TEXT
);
CREATE UNIQUE INDEX assignments_current ON assignments (claim_id) WHERE ended_on IS NULL;
CREATE INDEX assignments_by_adjuster ON assignments (adjuster_id);

CREATE TABLE assessments (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    adjuster_id INTEGER NOT NULL REFERENCES adjusters (id),
    assessed_on TEXT NOT NULL,
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),  -- the damage, before the excess
    status TEXT NOT NULL CHECK (status IN ('draft', 'final')),
    remark TEXT
);
CREATE INDEX assessments_by_claim ON assessments (claim_id);

CREATE TABLE fraud_flags (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    kind TEXT NOT NULL CHECK (
        kind IN ('bank_account_change', 'inconsistent_story', 'altered_document', 'prior_claims')
    ),
    severity TEXT NOT NULL CHECK (severity IN ('low', 'medium', 'high')),
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'cleared', 'confirmed')),
    remark TEXT NOT NULL,
    raised_by TEXT NOT NULL REFERENCES staff (login),
    raised_on TEXT NOT NULL
);
CREATE INDEX fraud_flags_by_claim ON fraud_flags (claim_id);

CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    author TEXT NOT NULL REFERENCES staff (login),
    written_at TEXT NOT NULL,
    body TEXT NOT NULL CHECK (body <> '')
);
CREATE INDEX notes_by_claim ON notes (claim_id);

CREATE TABLE diary_entries (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    due_on TEXT NOT NULL,
    task TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'done')),
    created_by TEXT NOT NULL REFERENCES staff (login)
);
CREATE INDEX diary_entries_by_claim ON diary_entries (claim_id);

-- Money.

CREATE TABLE reserves (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    kind TEXT NOT NULL CHECK (kind IN ('indemnity', 'expense')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents >= 0),
    UNIQUE (claim_id, kind)
);

CREATE TABLE reserve_changes (
    id INTEGER PRIMARY KEY,
    reserve_id INTEGER NOT NULL REFERENCES reserves (id),
    before_cents INTEGER NOT NULL CHECK (before_cents >= 0),
    after_cents INTEGER NOT NULL CHECK (after_cents >= 0),
    reason TEXT NOT NULL,
    changed_by TEXT NOT NULL REFERENCES staff (login),
    changed_at TEXT NOT NULL,
    CHECK (before_cents <> after_cents)
);
CREATE INDEX reserve_changes_by_reserve ON reserve_changes (reserve_id);

CREATE TABLE approvals (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    approver_role TEXT NOT NULL REFERENCES authority_levels (role),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    status TEXT NOT NULL DEFAULT 'requested' CHECK (
        status IN ('requested', 'granted', 'refused', 'withdrawn')
    ),
    reason TEXT NOT NULL,
    requested_by TEXT NOT NULL REFERENCES staff (login),
    requested_at TEXT NOT NULL,
    decided_by TEXT REFERENCES staff (login),
    decided_at TEXT
);
CREATE UNIQUE INDEX approvals_pending ON approvals (claim_id) WHERE status = 'requested';

CREATE TABLE repair_shops (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    city TEXT NOT NULL,
    speciality TEXT NOT NULL CHECK (speciality IN ('bodywork', 'glass', 'building')),
    in_network INTEGER NOT NULL CHECK (in_network IN (0, 1)),
    approved_until TEXT,  -- last day of the network contract
    CHECK ((in_network = 1) = (approved_until IS NOT NULL))
);
CREATE INDEX repair_shops_by_city ON repair_shops (city);

CREATE TABLE repair_orders (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    repair_shop_id INTEGER NOT NULL REFERENCES repair_shops (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    status TEXT NOT NULL DEFAULT 'authorised' CHECK (
        status IN ('authorised', 'completed', 'cancelled')
    ),
    authorised_by TEXT NOT NULL REFERENCES staff (login),
    authorised_on TEXT NOT NULL
);
CREATE INDEX repair_orders_by_claim ON repair_orders (claim_id);

CREATE TABLE payees (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('policyholder', 'repair_shop', 'expert')),
    policyholder_id INTEGER UNIQUE REFERENCES policyholders (id),
    repair_shop_id INTEGER UNIQUE REFERENCES repair_shops (id),
    CHECK ((kind = 'policyholder') = (policyholder_id IS NOT NULL)),
    CHECK ((kind = 'repair_shop') = (repair_shop_id IS NOT NULL))
);
CREATE INDEX payees_by_name ON payees (name);

CREATE TABLE bank_accounts (
    id INTEGER PRIMARY KEY,
    payee_id INTEGER NOT NULL REFERENCES payees (id),
    iban TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'closed')),
    added_on TEXT NOT NULL,
    added_by TEXT NOT NULL REFERENCES staff (login),
    verified_on TEXT,  -- when payments control confirmed it by telephone
    UNIQUE (payee_id, iban)
);

CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    payee_id INTEGER NOT NULL REFERENCES payees (id),
    bank_account_id INTEGER NOT NULL REFERENCES bank_accounts (id),
    kind TEXT NOT NULL CHECK (kind IN ('indemnity', 'expense')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    status TEXT NOT NULL CHECK (status IN ('scheduled', 'paid', 'cancelled')),
    created_by TEXT NOT NULL REFERENCES staff (login),
    created_on TEXT NOT NULL,
    paid_on TEXT,
    cancel_reason TEXT,
    CHECK ((status = 'paid') = (paid_on IS NOT NULL))
);
CREATE INDEX payments_by_claim ON payments (claim_id);
CREATE INDEX payments_by_payee ON payments (payee_id);

CREATE TABLE recoveries (
    id INTEGER PRIMARY KEY,
    claim_id INTEGER NOT NULL REFERENCES claims (id),
    debtor TEXT NOT NULL,
    debtor_reference TEXT NOT NULL UNIQUE,
    demanded_cents INTEGER NOT NULL CHECK (demanded_cents > 0),
    received_cents INTEGER NOT NULL DEFAULT 0 CHECK (received_cents BETWEEN 0 AND demanded_cents),
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'recovered', 'abandoned')),
    opened_by TEXT NOT NULL REFERENCES staff (login),
    opened_on TEXT NOT NULL
);
CREATE INDEX recoveries_by_claim ON recoveries (claim_id);

CREATE TABLE recovery_receipts (
    id INTEGER PRIMARY KEY,
    recovery_id INTEGER NOT NULL REFERENCES recoveries (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    received_on TEXT NOT NULL,
    recorded_by TEXT NOT NULL REFERENCES staff (login)
);
CREATE INDEX recovery_receipts_by_recovery ON recovery_receipts (recovery_id);

-- One row for every change made through the tools.

CREATE TABLE audit_log (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    actor TEXT NOT NULL REFERENCES staff (login),
    action TEXT NOT NULL,
    claim_id INTEGER REFERENCES claims (id),
    entity TEXT NOT NULL,
    entity_id INTEGER NOT NULL
);
CREATE INDEX audit_log_by_claim ON audit_log (claim_id);
