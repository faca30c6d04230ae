-- The schema of version 0.2.0 on SQLite. An empty line ends a statement.

CREATE TABLE worker (
    id TEXT NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    CONSTRAINT pk_worker PRIMARY KEY (id),
    CONSTRAINT ck_worker_lease CHECK (lease_until_ms >= 0)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE pause (
    number INTEGER NOT NULL,
    what TEXT NOT NULL,
    name TEXT NOT NULL,
    reason TEXT NOT NULL,
    paused_by TEXT NOT NULL,
    paused_at TEXT NOT NULL,
    CONSTRAINT pk_pause PRIMARY KEY (number),
    CONSTRAINT uq_pause_what UNIQUE (what, name),
    CONSTRAINT ck_pause_what CHECK (what IN ('person', 'dataset'))
)
 STRICT

CREATE TABLE turn (
    person TEXT NOT NULL,
    dataset TEXT NOT NULL,
    number INTEGER NOT NULL,
    CONSTRAINT pk_turn PRIMARY KEY (person, dataset),
    CONSTRAINT ck_turn_number CHECK (number >= 1)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE allowance (
    person TEXT NOT NULL,
    day TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    CONSTRAINT pk_allowance PRIMARY KEY (person),
    CONSTRAINT ck_allowance_bytes CHECK (bytes >= 0)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE rate (
    key_id TEXT NOT NULL,
    ends_at_ms INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    CONSTRAINT pk_rate PRIMARY KEY (key_id),
    CONSTRAINT ck_rate_taken CHECK (taken >= 0)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE upload (
    dataset TEXT NOT NULL,
    worker TEXT NOT NULL,
    begun_at TEXT NOT NULL,
    CONSTRAINT pk_upload PRIMARY KEY (dataset)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE desk_session (
    token_hash TEXT NOT NULL,
    key_id TEXT NOT NULL,
    began_at_s INTEGER NOT NULL,
    seen_at_s INTEGER NOT NULL,
    CONSTRAINT pk_desk_session PRIMARY KEY (token_hash),
    CONSTRAINT ck_desk_session_token_hash CHECK (length(token_hash) = 64)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE desk_form (
    person TEXT NOT NULL,
    form TEXT NOT NULL,
    location TEXT,
    at_s INTEGER NOT NULL,
    CONSTRAINT pk_desk_form PRIMARY KEY (person, form),
    CONSTRAINT ck_desk_form_form CHECK (length(form) <= 100)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE log_part (
    number INTEGER NOT NULL,
    account TEXT NOT NULL,
    after_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    leaves_before INTEGER NOT NULL,
    leaves_after INTEGER NOT NULL,
    seed TEXT NOT NULL,
    hashes BLOB NOT NULL,
    CONSTRAINT pk_log_part PRIMARY KEY (number),
    CONSTRAINT uq_log_part_account UNIQUE (account, last_seq),
    CONSTRAINT uq_log_part_leaves_before UNIQUE (leaves_before),
    CONSTRAINT ck_log_part_hashes CHECK (length(seed) = 64 AND length(hashes) = 32 * (leaves_after - leaves_before) AND leaves_after > leaves_before AND leaves_after - leaves_before <= last_seq - after_seq AND (number > 1 OR leaves_before = 0))
)
 STRICT

CREATE TABLE log_checkpoint (
    size INTEGER NOT NULL,
    note TEXT NOT NULL,
    CONSTRAINT pk_log_checkpoint PRIMARY KEY (size)
)
 STRICT

CREATE TABLE log_stamp (
    size INTEGER NOT NULL,
    stamp BLOB NOT NULL,
    CONSTRAINT pk_log_stamp PRIMARY KEY (size)
)
 STRICT

CREATE TABLE ledger (
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    CONSTRAINT pk_ledger PRIMARY KEY (number),
    CONSTRAINT ck_ledger_only_one CHECK (number = 1),
    CONSTRAINT ck_ledger_epoch CHECK (epoch >= 1)
)
 STRICT

CREATE TABLE entry (
    account TEXT NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    kind TEXT NOT NULL,
    principal TEXT NOT NULL,
    release TEXT,
    idem TEXT,
    fingerprint TEXT,
    note TEXT,
    amount INTEGER NOT NULL,
    total_after INTEGER NOT NULL,
    spent_after INTEGER NOT NULL,
    reserved_after INTEGER NOT NULL,
    at TEXT NOT NULL,
    prev TEXT NOT NULL,
    hash TEXT NOT NULL,
    "key" TEXT,
    role TEXT NOT NULL,
    CONSTRAINT pk_entry PRIMARY KEY (account, seq),
    CONSTRAINT uq_entry_idem UNIQUE (principal, idem),
    CONSTRAINT uq_entry_balance UNIQUE (account, seq, total_after, spent_after, reserved_after, hash),
    CONSTRAINT ck_entry_seq CHECK (seq >= 1),
    CONSTRAINT ck_entry_within_total CHECK (amount >= 0 AND spent_after >= 0 AND reserved_after >= 0 AND spent_after + reserved_after <= total_after),
    CONSTRAINT ck_entry_kind CHECK (CASE WHEN account = '0' THEN amount = 0 AND total_after = 0 AND kind NOT IN ('grant', 'expire', 'debit', 'reserve', 'unreserve', 'burn') ELSE kind IN ('open', 'grant', 'expire', 'debit', 'reserve', 'unreserve', 'burn') END),
    CONSTRAINT ck_entry_release CHECK ((idem IS NULL OR kind IN ('debit', 'reserve')) AND (kind NOT IN ('debit', 'reserve', 'unreserve') OR (release IS NOT NULL AND fingerprint IS NOT NULL))),
    CONSTRAINT ck_entry_hash CHECK (length(prev) = 64 AND length(hash) = 64)
)
 WITHOUT ROWID,
 STRICT

CREATE INDEX ix_entry_acts ON entry (account, kind, seq) WHERE kind <> 'debit' AND kind <> 'reserve' AND kind <> 'unreserve' AND kind <> 'result' AND kind <> 'checkpoint'

CREATE INDEX ix_entry_at ON entry (at)

CREATE INDEX ix_entry_unreserve ON entry (release) WHERE kind = 'unreserve'

CREATE TABLE leaf (
    number INTEGER NOT NULL,
    release INTEGER NOT NULL,
    hash TEXT NOT NULL,
    CONSTRAINT pk_leaf PRIMARY KEY (number),
    CONSTRAINT uq_leaf_release UNIQUE (release),
    CONSTRAINT ck_leaf_hash CHECK (length(hash) = 64)
)
 STRICT

CREATE TABLE api_key (
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    person TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT,
    sorts_as TEXT NOT NULL,
    CONSTRAINT pk_api_key PRIMARY KEY (number),
    CONSTRAINT uq_api_key_id UNIQUE (id),
    CONSTRAINT uq_api_key_secret_hash UNIQUE (secret_hash),
    CONSTRAINT ck_api_key_role CHECK (role IN ('metrics', 'auditor', 'analyst', 'reviewer', 'curator', 'admin'))
)
 STRICT

CREATE INDEX ix_api_key_sorted ON api_key (sorts_as, number)

CREATE TABLE key_use (
    "key" TEXT NOT NULL,
    used_at TEXT NOT NULL,
    CONSTRAINT pk_key_use PRIMARY KEY ("key"),
    CONSTRAINT fk_key_use_key FOREIGN KEY("key") REFERENCES api_key (id)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE account (
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    total INTEGER NOT NULL,
    spent INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    head TEXT NOT NULL,
    CONSTRAINT pk_account PRIMARY KEY (id),
    CONSTRAINT ck_account_seq CHECK (seq >= 1),
    CONSTRAINT ck_account_within_total CHECK (spent >= 0 AND reserved >= 0 AND spent + reserved <= total),
    CONSTRAINT fk_account_last_entry FOREIGN KEY(id, seq, total, spent, reserved, head) REFERENCES entry (account, seq, total_after, spent_after, reserved_after, hash) DEFERRABLE INITIALLY DEFERRED
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE expiring (
    account TEXT NOT NULL,
    seq INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    expires_at TEXT NOT NULL,
    expired_seq INTEGER,
    CONSTRAINT pk_expiring PRIMARY KEY (account, seq),
    CONSTRAINT fk_expiring_grant FOREIGN KEY(account, seq) REFERENCES entry (account, seq),
    CONSTRAINT fk_expiring_expired FOREIGN KEY(account, expired_seq) REFERENCES entry (account, seq),
    CONSTRAINT ck_expiring CHECK (amount > 0 AND expired_seq > seq)
)
 WITHOUT ROWID,
 STRICT

CREATE INDEX ix_expiring_due ON expiring (account, expires_at) WHERE expired_seq IS NULL

CREATE TABLE cap (
    number INTEGER NOT NULL,
    account TEXT NOT NULL,
    person TEXT NOT NULL,
    amount INTEGER,
    used INTEGER NOT NULL,
    CONSTRAINT pk_cap PRIMARY KEY (number),
    CONSTRAINT uq_cap_person UNIQUE (account, person),
    CONSTRAINT fk_cap_account FOREIGN KEY(account) REFERENCES account (id),
    CONSTRAINT ck_cap_amount CHECK (amount >= 0),
    CONSTRAINT ck_cap_used CHECK (used >= 0)
)
 STRICT

CREATE TABLE dataset (
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    account TEXT NOT NULL,
    spec TEXT NOT NULL,
    status TEXT NOT NULL,
    rows INTEGER,
    created_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    archived_at TEXT,
    sorts_as TEXT NOT NULL,
    CONSTRAINT pk_dataset PRIMARY KEY (number),
    CONSTRAINT uq_dataset_id UNIQUE (id),
    CONSTRAINT fk_dataset_account FOREIGN KEY(account) REFERENCES account (id),
    CONSTRAINT ck_dataset_status CHECK ((status = 'active' AND archived_at IS NULL) OR (status IN ('archived', 'deleted') AND archived_at IS NOT NULL)),
    CONSTRAINT ck_dataset_rows CHECK (rows IS NULL OR rows >= 0)
)
 STRICT

CREATE INDEX ix_dataset_account ON dataset (account, number)

CREATE INDEX ix_dataset_sorted ON dataset (sorts_as, number)

CREATE UNIQUE INDEX ix_dataset_name ON dataset (name) WHERE status = 'active'

CREATE TABLE dataset_edit (
    seq INTEGER NOT NULL,
    dataset TEXT NOT NULL,
    fields TEXT NOT NULL,
    person TEXT NOT NULL,
    reason TEXT NOT NULL,
    at TEXT NOT NULL,
    CONSTRAINT pk_dataset_edit PRIMARY KEY (seq),
    CONSTRAINT fk_dataset_edit_dataset FOREIGN KEY(dataset) REFERENCES dataset (id)
)
 WITHOUT ROWID,
 STRICT

CREATE INDEX ix_dataset_edit_dataset ON dataset_edit (dataset, seq)

CREATE TABLE version (
    dataset TEXT NOT NULL,
    earlier TEXT NOT NULL,
    first TEXT NOT NULL,
    number INTEGER NOT NULL,
    CONSTRAINT pk_version PRIMARY KEY (dataset),
    CONSTRAINT uq_version_number UNIQUE (first, number),
    CONSTRAINT fk_version_dataset FOREIGN KEY(dataset) REFERENCES dataset (id),
    CONSTRAINT fk_version_earlier FOREIGN KEY(earlier) REFERENCES dataset (id),
    CONSTRAINT fk_version_first FOREIGN KEY(first) REFERENCES dataset (id),
    CONSTRAINT ck_version_number CHECK (number >= 2)
)
 STRICT

CREATE TABLE lineage (
    dataset TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    CONSTRAINT pk_lineage PRIMARY KEY (dataset),
    CONSTRAINT fk_lineage_dataset FOREIGN KEY(dataset) REFERENCES dataset (id),
    CONSTRAINT ck_lineage_sha256 CHECK (length(sha256) = 64)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE release (
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    account TEXT NOT NULL,
    seq INTEGER NOT NULL,
    dataset TEXT NOT NULL,
    principal TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    request TEXT NOT NULL,
    "plan" TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    created_at TEXT NOT NULL,
    finished_at TEXT,
    worker TEXT,
    result_hash TEXT,
    result BLOB,
    CONSTRAINT pk_release PRIMARY KEY (number),
    CONSTRAINT uq_release_id UNIQUE (id),
    CONSTRAINT uq_release_charge UNIQUE (account, seq),
    CONSTRAINT fk_release_charge FOREIGN KEY(account, seq) REFERENCES entry (account, seq),
    CONSTRAINT fk_release_dataset FOREIGN KEY(dataset) REFERENCES dataset (id),
    CONSTRAINT ck_release_state CHECK (state IN ('reserved', 'debited', 'released', 'void', 'rejected', 'withdrawn', 'expired')),
    CONSTRAINT ck_release_result CHECK ((state = 'released') = (result IS NOT NULL) AND (result IS NULL) = (result_hash IS NULL)),
    CONSTRAINT ck_release_attempts CHECK (attempts >= 0 AND attempts <= 3)
)
 STRICT

CREATE INDEX ix_release_principal ON release (principal, number)

CREATE INDEX ix_release_reserved ON release (number) WHERE state = 'reserved'

CREATE INDEX ix_release_dataset ON release (dataset, number)

CREATE INDEX ix_release_debited ON release (number) WHERE state = 'debited'

CREATE INDEX ix_release_ended ON release (state, number) WHERE state <> 'reserved' AND state <> 'debited' AND state <> 'released'

CREATE TABLE job (
    number INTEGER NOT NULL,
    deadline_s INTEGER NOT NULL,
    CONSTRAINT pk_job PRIMARY KEY (number),
    CONSTRAINT fk_job_release FOREIGN KEY(number) REFERENCES release (number),
    CONSTRAINT ck_job_deadline CHECK (deadline_s >= 1)
)
 STRICT

CREATE TABLE publication (
    number INTEGER NOT NULL,
    release TEXT NOT NULL,
    seq INTEGER NOT NULL,
    dataset TEXT NOT NULL,
    kinds TEXT NOT NULL,
    words TEXT NOT NULL,
    reason TEXT NOT NULL,
    published_by TEXT NOT NULL,
    published_at TEXT NOT NULL,
    note TEXT,
    withdrawn_by TEXT,
    withdrawn_at TEXT,
    CONSTRAINT pk_publication PRIMARY KEY (number),
    CONSTRAINT uq_publication_release UNIQUE (release),
    CONSTRAINT fk_publication_release FOREIGN KEY(release) REFERENCES release (id),
    CONSTRAINT ck_publication_withdrawn CHECK ((note IS NULL) = (withdrawn_at IS NULL) AND (withdrawn_by IS NULL) = (withdrawn_at IS NULL))
)
 STRICT

CREATE INDEX ix_publication_dataset ON publication (dataset, number)

CREATE TABLE review (
    release TEXT NOT NULL,
    turn INTEGER NOT NULL,
    version INTEGER NOT NULL,
    returned INTEGER NOT NULL,
    shown INTEGER NOT NULL,
    reason TEXT,
    CONSTRAINT pk_review PRIMARY KEY (release),
    CONSTRAINT fk_review_release FOREIGN KEY(release) REFERENCES release (id)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE revision (
    release TEXT NOT NULL,
    version INTEGER NOT NULL,
    account TEXT NOT NULL,
    seq INTEGER NOT NULL,
    request TEXT NOT NULL,
    "plan" TEXT NOT NULL,
    CONSTRAINT pk_revision PRIMARY KEY (release, version),
    CONSTRAINT uq_revision_reserve UNIQUE (account, seq),
    CONSTRAINT fk_revision_release FOREIGN KEY(release) REFERENCES release (id),
    CONSTRAINT fk_revision_reserve FOREIGN KEY(account, seq) REFERENCES entry (account, seq)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE vote (
    seq INTEGER NOT NULL,
    release TEXT NOT NULL,
    turn INTEGER NOT NULL,
    person TEXT NOT NULL,
    decision TEXT NOT NULL,
    reason TEXT NOT NULL,
    at TEXT NOT NULL,
    salt TEXT NOT NULL,
    CONSTRAINT pk_vote PRIMARY KEY (seq),
    CONSTRAINT fk_vote_release FOREIGN KEY(release) REFERENCES release (id)
)
 WITHOUT ROWID,
 STRICT

CREATE INDEX ix_vote_release ON vote (release, seq)

CREATE TABLE study_plan (
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    account TEXT NOT NULL,
    dataset TEXT NOT NULL,
    person TEXT NOT NULL,
    name TEXT NOT NULL,
    purpose TEXT,
    questions TEXT NOT NULL,
    created_at TEXT NOT NULL,
    state TEXT NOT NULL,
    turn INTEGER NOT NULL,
    unsent TEXT,
    seq INTEGER,
    requested_at TEXT,
    decided_by TEXT,
    decided_at TEXT,
    reason TEXT,
    expires_at TEXT,
    ended_at TEXT,
    sorts_as TEXT NOT NULL,
    CONSTRAINT pk_study_plan PRIMARY KEY (number),
    CONSTRAINT uq_study_plan_id UNIQUE (id),
    CONSTRAINT fk_study_plan_account FOREIGN KEY(account) REFERENCES account (id),
    CONSTRAINT fk_study_plan_dataset FOREIGN KEY(dataset) REFERENCES dataset (id),
    CONSTRAINT ck_study_plan_state CHECK ((state = 'draft') = (requested_at IS NULL) AND (state = 'draft') = (seq IS NULL) AND (decided_by IS NULL) = (decided_at IS NULL) AND (expires_at IS NULL OR decided_at IS NOT NULL) AND (state <> 'approved' OR expires_at IS NOT NULL) AND (unsent IS NULL OR state = 'changes_requested'))
)
 STRICT

CREATE INDEX ix_study_plan_person ON study_plan (person, number)

CREATE INDEX ix_study_plan_state ON study_plan (state, number)

CREATE INDEX ix_study_plan_sorted ON study_plan (sorts_as, number)

CREATE TABLE plan_revision (
    study_plan TEXT NOT NULL,
    turn INTEGER NOT NULL,
    name TEXT NOT NULL,
    purpose TEXT,
    questions TEXT NOT NULL,
    requested_at TEXT NOT NULL,
    CONSTRAINT pk_plan_revision PRIMARY KEY (study_plan, turn),
    CONSTRAINT fk_plan_revision_study_plan FOREIGN KEY(study_plan) REFERENCES study_plan (id)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE review_comment (
    number INTEGER NOT NULL,
    release TEXT,
    study_plan TEXT,
    turn INTEGER NOT NULL,
    person TEXT NOT NULL,
    private INTEGER NOT NULL,
    text TEXT NOT NULL,
    at TEXT NOT NULL,
    CONSTRAINT pk_review_comment PRIMARY KEY (number),
    CONSTRAINT fk_review_comment_release FOREIGN KEY(release) REFERENCES release (id),
    CONSTRAINT fk_review_comment_study_plan FOREIGN KEY(study_plan) REFERENCES study_plan (id),
    CONSTRAINT ck_review_comment_about CHECK ((release IS NULL) <> (study_plan IS NULL))
)
 STRICT

CREATE INDEX ix_review_comment_release ON review_comment (release, number)

CREATE INDEX ix_review_comment_study_plan ON review_comment (study_plan, number)

CREATE TABLE plan_vote (
    seq INTEGER NOT NULL,
    study_plan TEXT NOT NULL,
    turn INTEGER NOT NULL,
    person TEXT NOT NULL,
    decision TEXT NOT NULL,
    reason TEXT NOT NULL,
    at TEXT NOT NULL,
    salt TEXT NOT NULL,
    CONSTRAINT pk_plan_vote PRIMARY KEY (seq),
    CONSTRAINT fk_plan_vote_study_plan FOREIGN KEY(study_plan) REFERENCES study_plan (id)
)
 WITHOUT ROWID,
 STRICT

CREATE INDEX ix_plan_vote_study_plan ON plan_vote (study_plan, seq)

CREATE TABLE notice (
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    event TEXT NOT NULL,
    audience TEXT NOT NULL,
    release TEXT,
    study_plan TEXT,
    requester TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT,
    at TEXT NOT NULL,
    CONSTRAINT pk_notice PRIMARY KEY (number),
    CONSTRAINT uq_notice_id UNIQUE (id),
    CONSTRAINT fk_notice_release FOREIGN KEY(release) REFERENCES release (id),
    CONSTRAINT fk_notice_study_plan FOREIGN KEY(study_plan) REFERENCES study_plan (id),
    CONSTRAINT ck_notice_about CHECK ((release IS NULL) <> (study_plan IS NULL))
)
 STRICT

CREATE INDEX ix_notice_requester ON notice (requester, number)

CREATE INDEX ix_notice_at ON notice (at)

CREATE TABLE sight (
    number INTEGER NOT NULL,
    release TEXT NOT NULL,
    person TEXT NOT NULL,
    how TEXT NOT NULL,
    day TEXT NOT NULL,
    "key" TEXT NOT NULL,
    at TEXT NOT NULL,
    CONSTRAINT pk_sight PRIMARY KEY (number),
    CONSTRAINT uq_sight_day UNIQUE (release, person, how, day),
    CONSTRAINT fk_sight_release FOREIGN KEY(release) REFERENCES release (id)
)
 STRICT

CREATE TABLE notice_read (
    person TEXT NOT NULL,
    notice INTEGER NOT NULL,
    read_at TEXT NOT NULL,
    CONSTRAINT pk_notice_read PRIMARY KEY (person, notice),
    CONSTRAINT fk_notice_read_notice FOREIGN KEY(notice) REFERENCES notice (number)
)
 WITHOUT ROWID,
 STRICT

CREATE TABLE delivery (
    notice INTEGER NOT NULL,
    channel TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_at TEXT NOT NULL,
    done_at TEXT,
    CONSTRAINT pk_delivery PRIMARY KEY (notice, channel),
    CONSTRAINT fk_delivery_notice FOREIGN KEY(notice) REFERENCES notice (number)
)
 WITHOUT ROWID,
 STRICT

CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'ledger: its identity stays'); END

CREATE TRIGGER ledger_no_replace BEFORE INSERT ON ledger WHEN (NOT EXISTS (SELECT 1 FROM ledger)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'ledger: there is one already'); END

CREATE TRIGGER ledger_epoch_forward BEFORE UPDATE ON ledger WHEN (
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.created_at = OLD.created_at
AND NEW.epoch > OLD.epoch) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'ledger: only the epoch moves, and only forward'); END

CREATE TRIGGER entry_no_update BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entry: append-only'); END

CREATE TRIGGER entry_no_delete BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entry: append-only'); END

CREATE TRIGGER entry_no_replace BEFORE INSERT ON entry WHEN (
NOT EXISTS (SELECT 1 FROM entry WHERE account = NEW.account AND seq = NEW.seq)
AND NOT EXISTS (SELECT 1 FROM entry WHERE principal = NEW.principal AND idem = NEW.idem)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'entry: exists already'); END

CREATE TRIGGER entry_continues BEFORE INSERT ON entry WHEN (
CASE NEW.seq WHEN 1 THEN
    NEW.kind = 'open'
    AND NEW.prev = '0000000000000000000000000000000000000000000000000000000000000000'
    AND NEW.total_after = NEW.amount AND NEW.spent_after = 0 AND NEW.reserved_after = 0
ELSE EXISTS (
    SELECT 1 FROM entry AS p
    WHERE p.account = NEW.account AND p.seq = NEW.seq - 1 AND p.hash = NEW.prev
    AND p.epoch <= NEW.epoch
    AND CASE NEW.kind
    WHEN 'grant' THEN
        NEW.total_after = p.total_after + NEW.amount
        AND NEW.spent_after = p.spent_after AND NEW.reserved_after = p.reserved_after
    WHEN 'expire' THEN
        NEW.total_after = CASE
            WHEN p.total_after - NEW.amount > p.spent_after + p.reserved_after
            THEN p.total_after - NEW.amount ELSE p.spent_after + p.reserved_after END
        AND NEW.spent_after = p.spent_after AND NEW.reserved_after = p.reserved_after
    WHEN 'debit' THEN
        NEW.amount > 0 AND NEW.total_after = p.total_after
        AND NEW.spent_after = p.spent_after + NEW.amount
        AND NEW.reserved_after = CASE WHEN NEW.idem IS NOT NULL THEN p.reserved_after
            WHEN EXISTS (
                SELECT 1 FROM release AS r
                JOIN entry AS e ON e.account = r.account AND e.seq = r.seq
                WHERE r.id = NEW.release AND r.account = NEW.account AND r.state = 'reserved'
                AND e.amount = NEW.amount AND e.principal = NEW.principal
            ) THEN p.reserved_after - NEW.amount END
    WHEN 'burn' THEN
        NEW.total_after = p.total_after AND NEW.spent_after = p.spent_after + NEW.amount
        AND NEW.reserved_after = p.reserved_after
    WHEN 'reserve' THEN
        NEW.amount > 0 AND NEW.total_after = p.total_after
        AND NEW.spent_after = p.spent_after
        AND NEW.reserved_after = p.reserved_after + NEW.amount
        AND (NEW.idem IS NOT NULL
            OR p.kind = 'unreserve' AND p.release = NEW.release AND p.principal = NEW.principal)
    WHEN 'unreserve' THEN
        NEW.total_after = p.total_after AND NEW.spent_after = p.spent_after
        AND NEW.reserved_after = p.reserved_after - NEW.amount
        AND EXISTS (
            SELECT 1 FROM release AS r
            JOIN entry AS e ON e.account = r.account AND e.seq = r.seq
            WHERE r.id = NEW.release AND r.account = NEW.account AND r.state = 'reserved'
            AND e.amount = NEW.amount)
    ELSE
        NEW.account = '0' AND NEW.kind <> 'open' AND NEW.total_after = p.total_after
        AND NEW.spent_after = p.spent_after AND NEW.reserved_after = p.reserved_after
    END
) END) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'entry: does not continue its predecessor'); END

CREATE TRIGGER entry_not_ahead BEFORE INSERT ON entry WHEN (
EXISTS (SELECT 1 FROM account WHERE id = NEW.account AND seq >= NEW.seq)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'entry: ahead of its account'); END

CREATE TRIGGER entry_epoch BEFORE INSERT ON entry WHEN (NEW.epoch = (SELECT epoch FROM ledger)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'entry: not of this epoch'); END

CREATE TRIGGER entry_made_by BEFORE INSERT ON entry WHEN (
CASE WHEN NEW.role = 'system' THEN NEW.key IS NULL
ELSE EXISTS (
    SELECT 1 FROM api_key AS k
    WHERE k.id = NEW.key AND k.role = NEW.role
    AND (k.person = NEW.principal OR NEW.kind = 'debit' AND NEW.idem IS NULL)
) AND (
    NEW.role = 'admin'
    OR NEW.role = 'curator'
    AND NOT (NEW.kind IN ('key_created', 'key_revoked', 'overlap_override', 'group_set',
        'groups_given', 'sign_in_allowed'))
    OR NEW.role = 'reviewer' AND NEW.kind IN ('unreserve', 'review_vote', 'release_approved',
        'release_rejected', 'release_changes_requested', 'study_plan_vote', 'study_plan_approved',
        'study_plan_rejected', 'study_plan_changes_requested')
    OR NEW.role = 'analyst' AND NEW.kind IN ('debit', 'reserve', 'unreserve', 'release_withdrawn',
        'release_returned', 'study_plan_requested', 'study_plan_withdrawn')
) END) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'entry: not made by a key in a role that allows it'); END

CREATE TRIGGER api_key_no_delete BEFORE DELETE ON api_key BEGIN SELECT RAISE(ABORT, 'api_key: keys stay'); END

CREATE TRIGGER api_key_no_replace BEFORE INSERT ON api_key WHEN (NOT EXISTS (SELECT 1 FROM api_key WHERE id = NEW.id OR number = NEW.number OR secret_hash = NEW.secret_hash)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'api_key: exists already'); END

CREATE TRIGGER api_key_revoked_once BEFORE UPDATE ON api_key WHEN (
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.name = OLD.name AND NEW.role = OLD.role
AND NEW.person = OLD.person AND NEW.secret_hash = OLD.secret_hash
AND NEW.created_by = OLD.created_by AND NEW.created_at = OLD.created_at
AND NEW.expires_at IS NOT DISTINCT FROM OLD.expires_at AND NEW.sorts_as = OLD.sorts_as
AND OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'api_key: only revoking changes it'); END

CREATE TRIGGER account_no_delete BEFORE DELETE ON account BEGIN SELECT RAISE(ABORT, 'account: accounts stay'); END

CREATE TRIGGER account_no_replace BEFORE INSERT ON account WHEN (NOT EXISTS (SELECT 1 FROM account WHERE id = NEW.id)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'account: exists already'); END

CREATE TRIGGER account_opens_empty BEFORE INSERT ON account WHEN (NEW.seq = 1 AND NEW.spent = 0 AND NEW.reserved = 0) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'account: opens at its first entry'); END

CREATE TRIGGER account_forward BEFORE UPDATE ON account WHEN (NEW.id = OLD.id AND NEW.seq > OLD.seq AND NEW.spent >= OLD.spent) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'account: spent never decreases and seq moves forward'); END

CREATE TRIGGER release_no_delete BEFORE DELETE ON release BEGIN SELECT RAISE(ABORT, 'release: releases stay'); END

CREATE TRIGGER release_no_replace BEFORE INSERT ON release WHEN (
NOT EXISTS (SELECT 1 FROM release WHERE id = NEW.id OR number = NEW.number)
AND NOT EXISTS (SELECT 1 FROM release WHERE account = NEW.account AND seq = NEW.seq)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'release: exists already'); END

CREATE TRIGGER release_charged BEFORE INSERT ON release WHEN (
EXISTS (
    SELECT 1 FROM entry AS e
    WHERE e.account = NEW.account AND e.seq = NEW.seq AND e.release = NEW.id
    AND e.fingerprint = NEW.fingerprint AND e.kind = CASE NEW.state
    WHEN 'debited' THEN 'debit' WHEN 'reserved' THEN 'reserve' END)
AND EXISTS (SELECT 1 FROM dataset WHERE id = NEW.dataset AND status = 'active')
AND NEW.attempts = CASE NEW.state WHEN 'debited' THEN 1 ELSE 0 END) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'release: begins with its charge'); END

CREATE TRIGGER release_forward BEFORE UPDATE ON release WHEN (
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.account = OLD.account
AND NEW.dataset = OLD.dataset AND NEW.principal = OLD.principal
AND NEW.created_at = OLD.created_at
AND (NEW.request = OLD.request AND NEW.plan = OLD.plan AND NEW.fingerprint = OLD.fingerprint
    OR NEW.state = 'reserved')
AND CASE OLD.state
WHEN 'reserved' THEN
    EXISTS (
        SELECT 1 FROM account AS a JOIN entry AS e ON e.account = a.id AND e.seq = a.seq
        WHERE a.id = NEW.account AND e.release = NEW.id AND (
            NEW.seq = e.seq AND NEW.attempts = 0 AND e.kind = 'reserve' AND e.idem IS NULL
                AND e.fingerprint = NEW.fingerprint AND NEW.state = 'reserved'
            OR NEW.seq = OLD.seq AND NEW.attempts = 0 AND e.kind = 'unreserve'
                AND NEW.state IN ('rejected', 'withdrawn', 'expired')
            OR NEW.seq = e.seq AND NEW.attempts = 1 AND e.kind = 'debit'
                AND NEW.state = 'debited'))
WHEN 'debited' THEN
    NEW.seq = OLD.seq AND (
        NEW.state = 'debited' AND NEW.attempts = OLD.attempts + 1
        OR NEW.state = 'debited' AND NEW.attempts = OLD.attempts
            AND (OLD.worker IS NULL) <> (NEW.worker IS NULL)
        OR NEW.state IN ('released', 'void') AND NEW.attempts = OLD.attempts)
ELSE FALSE END) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'release: states only move forward'); END

CREATE TRIGGER dataset_no_delete BEFORE DELETE ON dataset BEGIN SELECT RAISE(ABORT, 'dataset: data sets stay'); END

CREATE TRIGGER dataset_no_replace BEFORE INSERT ON dataset WHEN (
NOT EXISTS (SELECT 1 FROM dataset WHERE id = NEW.id OR number = NEW.number)
AND NOT EXISTS (SELECT 1 FROM dataset WHERE name = NEW.name AND status = 'active')) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'dataset: exists already'); END

CREATE TRIGGER dataset_archived_once BEFORE UPDATE ON dataset WHEN (
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.name = OLD.name
AND NEW.account = OLD.account AND NEW.spec = OLD.spec AND NEW.rows IS NOT DISTINCT FROM OLD.rows
AND NEW.created_by = OLD.created_by AND NEW.created_at = OLD.created_at
AND NEW.sorts_as = OLD.sorts_as
AND (OLD.status = 'active' AND NEW.status = 'archived'
    OR OLD.status IN ('active', 'archived') AND NEW.status = 'deleted'
    AND (OLD.archived_at IS NULL OR NEW.archived_at = OLD.archived_at)
    AND NOT EXISTS (SELECT 1 FROM release WHERE dataset = NEW.id))) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'dataset: only archiving changes it, and deleting one without releases'); END

CREATE TRIGGER lineage_no_update BEFORE UPDATE ON lineage BEGIN SELECT RAISE(ABORT, 'lineage: written once'); END

CREATE TRIGGER lineage_no_delete BEFORE DELETE ON lineage BEGIN SELECT RAISE(ABORT, 'lineage: written once'); END

CREATE TRIGGER lineage_no_replace BEFORE INSERT ON lineage WHEN (NOT EXISTS (SELECT 1 FROM lineage WHERE dataset = NEW.dataset)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'lineage: written once'); END

CREATE TRIGGER leaf_no_update BEFORE UPDATE ON leaf BEGIN SELECT RAISE(ABORT, 'leaf: written once'); END

CREATE TRIGGER leaf_no_delete BEFORE DELETE ON leaf BEGIN SELECT RAISE(ABORT, 'leaf: written once'); END

CREATE TRIGGER leaf_continues BEFORE INSERT ON leaf WHEN (
(NEW.number = 1 OR EXISTS (SELECT 1 FROM leaf WHERE number = NEW.number - 1))
AND NOT EXISTS (SELECT 1 FROM leaf WHERE number = NEW.number OR release = NEW.release)
AND EXISTS (SELECT 1 FROM release WHERE number = NEW.release AND state = 'released')) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'leaf: not the next one'); END

CREATE TRIGGER expiring_no_delete BEFORE DELETE ON expiring BEGIN SELECT RAISE(ABORT, 'expiring: grants stay'); END

CREATE TRIGGER expiring_grant BEFORE INSERT ON expiring WHEN (
NEW.expired_seq IS NULL
AND NOT EXISTS (SELECT 1 FROM expiring WHERE account = NEW.account AND seq = NEW.seq)
AND EXISTS (
    SELECT 1 FROM entry AS g
    WHERE g.account = NEW.account AND g.seq = NEW.seq AND g.kind = 'grant'
    AND g.amount = NEW.amount AND g.fingerprint IS NOT NULL)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'expiring: begins as a grant'); END

CREATE TRIGGER expiring_once BEFORE UPDATE ON expiring WHEN (
NEW.account = OLD.account AND NEW.seq = OLD.seq AND NEW.amount = OLD.amount
AND NEW.expires_at = OLD.expires_at AND OLD.expired_seq IS NULL
AND EXISTS (
    SELECT 1 FROM entry AS e JOIN entry AS g ON g.account = e.account AND g.hash = e.fingerprint
    WHERE e.account = NEW.account AND e.seq = NEW.expired_seq AND e.kind = 'expire'
    AND g.seq = NEW.seq)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'expiring: a grant expires once, by its entry'); END

CREATE TRIGGER cap_no_delete BEFORE DELETE ON cap BEGIN SELECT RAISE(ABORT, 'cap: slices stay'); END

CREATE TRIGGER cap_no_replace BEFORE INSERT ON cap WHEN (NOT EXISTS (SELECT 1 FROM cap WHERE number = NEW.number) AND NOT EXISTS (SELECT 1 FROM cap WHERE account = NEW.account AND person = NEW.person)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'cap: exists already'); END

CREATE TRIGGER cap_same_slice BEFORE UPDATE ON cap WHEN (
NEW.number = OLD.number AND NEW.account = OLD.account AND NEW.person = OLD.person) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'cap: slices stay with their persons'); END

CREATE TRIGGER review_no_delete BEFORE DELETE ON review BEGIN SELECT RAISE(ABORT, 'review: reviews stay'); END

CREATE TRIGGER study_plan_no_delete BEFORE DELETE ON study_plan WHEN (OLD.state = 'draft') IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'study_plan: what has been requested stays'); END

CREATE TRIGGER study_plan_is_new BEFORE INSERT ON study_plan WHEN (
NEW.state = 'draft' AND NEW.turn = 1
AND NOT EXISTS (SELECT 1 FROM study_plan WHERE id = NEW.id OR number = NEW.number)
AND EXISTS (SELECT 1 FROM dataset WHERE id = NEW.dataset AND account = NEW.account)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'study_plan: not a new draft'); END

CREATE TRIGGER study_plan_forward BEFORE UPDATE ON study_plan WHEN (
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.account = OLD.account
AND NEW.dataset = OLD.dataset AND NEW.person = OLD.person AND NEW.created_at = OLD.created_at
AND CASE OLD.state
WHEN 'draft' THEN NEW.state IN ('draft', 'requested')
WHEN 'requested' THEN
    NEW.state IN ('changes_requested', 'approved', 'rejected', 'withdrawn', 'expired')
WHEN 'changes_requested' THEN
    NEW.state IN ('changes_requested', 'requested', 'withdrawn', 'expired')
WHEN 'approved' THEN NEW.state IN ('withdrawn', 'expired') AND NEW.expires_at = OLD.expires_at
ELSE FALSE END
AND CASE WHEN OLD.state = 'changes_requested' AND NEW.state = 'requested' THEN
    NEW.turn = OLD.turn + 1 AND EXISTS (
        SELECT 1 FROM plan_revision AS r
        WHERE r.study_plan = OLD.id AND r.turn = OLD.turn AND r.name = OLD.name
        AND r.purpose IS NOT DISTINCT FROM OLD.purpose AND r.questions = OLD.questions)
ELSE
    NEW.turn = OLD.turn AND (NEW.state = 'draft'
        OR NEW.name = OLD.name AND NEW.purpose IS NOT DISTINCT FROM OLD.purpose
        AND NEW.questions = OLD.questions)
END
AND (NEW.state = 'draft' OR EXISTS (
        SELECT 1 FROM entry AS e
        WHERE e.account = '0' AND e.seq = NEW.seq AND e.kind = CASE NEW.state
        WHEN 'requested' THEN 'study_plan_requested' WHEN 'approved' THEN 'study_plan_approved'
        WHEN 'changes_requested' THEN 'study_plan_changes_requested'
        WHEN 'rejected' THEN 'study_plan_rejected' WHEN 'withdrawn' THEN 'study_plan_withdrawn'
        WHEN 'expired' THEN 'study_plan_expired' END))) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'study_plan: states only move forward, each by its entry'); END

CREATE TRIGGER revision_no_update BEFORE UPDATE ON revision BEGIN SELECT RAISE(ABORT, 'revision: written once'); END

CREATE TRIGGER revision_no_delete BEFORE DELETE ON revision BEGIN SELECT RAISE(ABORT, 'revision: written once'); END

CREATE TRIGGER vote_no_update BEFORE UPDATE ON vote BEGIN SELECT RAISE(ABORT, 'vote: written once'); END

CREATE TRIGGER vote_no_delete BEFORE DELETE ON vote BEGIN SELECT RAISE(ABORT, 'vote: written once'); END

CREATE TRIGGER plan_revision_no_update BEFORE UPDATE ON plan_revision BEGIN SELECT RAISE(ABORT, 'plan_revision: written once'); END

CREATE TRIGGER plan_revision_no_delete BEFORE DELETE ON plan_revision BEGIN SELECT RAISE(ABORT, 'plan_revision: written once'); END

CREATE TRIGGER plan_vote_no_update BEFORE UPDATE ON plan_vote BEGIN SELECT RAISE(ABORT, 'plan_vote: written once'); END

CREATE TRIGGER plan_vote_no_delete BEFORE DELETE ON plan_vote BEGIN SELECT RAISE(ABORT, 'plan_vote: written once'); END

CREATE TRIGGER review_comment_no_update BEFORE UPDATE ON review_comment BEGIN SELECT RAISE(ABORT, 'review_comment: written once'); END

CREATE TRIGGER review_comment_no_delete BEFORE DELETE ON review_comment BEGIN SELECT RAISE(ABORT, 'review_comment: written once'); END

CREATE TRIGGER notice_no_update BEFORE UPDATE ON notice BEGIN SELECT RAISE(ABORT, 'notice: written once'); END

CREATE TRIGGER notice_no_delete BEFORE DELETE ON notice BEGIN SELECT RAISE(ABORT, 'notice: written once'); END

CREATE TRIGGER sight_no_update BEFORE UPDATE ON sight BEGIN SELECT RAISE(ABORT, 'sight: written once'); END

CREATE TRIGGER sight_no_delete BEFORE DELETE ON sight BEGIN SELECT RAISE(ABORT, 'sight: written once'); END

CREATE TRIGGER dataset_edit_no_update BEFORE UPDATE ON dataset_edit BEGIN SELECT RAISE(ABORT, 'dataset_edit: written once'); END

CREATE TRIGGER dataset_edit_no_delete BEFORE DELETE ON dataset_edit BEGIN SELECT RAISE(ABORT, 'dataset_edit: written once'); END

CREATE TRIGGER log_part_no_update BEFORE UPDATE ON log_part BEGIN SELECT RAISE(ABORT, 'log_part: append-only'); END

CREATE TRIGGER log_part_no_delete BEFORE DELETE ON log_part BEGIN SELECT RAISE(ABORT, 'log_part: append-only'); END

CREATE TRIGGER log_part_continues BEFORE INSERT ON log_part WHEN (
NOT EXISTS (SELECT 1 FROM log_part WHERE number = NEW.number)
AND (NEW.number = 1 OR EXISTS (
    SELECT 1 FROM log_part AS p
    WHERE p.number = NEW.number - 1 AND p.leaves_after = NEW.leaves_before))
AND NOT EXISTS (
    SELECT 1 FROM log_part AS p WHERE p.account = NEW.account AND p.last_seq > NEW.after_seq)
AND (NEW.after_seq = 0 OR EXISTS (
    SELECT 1 FROM log_part AS p WHERE p.account = NEW.account AND p.last_seq = NEW.after_seq))
AND EXISTS (SELECT 1 FROM account WHERE id = NEW.account AND seq >= NEW.last_seq)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'log_part: not the next one'); END

CREATE TRIGGER log_checkpoint_no_update BEFORE UPDATE ON log_checkpoint BEGIN SELECT RAISE(ABORT, 'log_checkpoint: signed'); END

CREATE TRIGGER log_checkpoint_no_delete BEFORE DELETE ON log_checkpoint BEGIN SELECT RAISE(ABORT, 'log_checkpoint: signed'); END

CREATE TRIGGER log_checkpoint_grows BEFORE INSERT ON log_checkpoint WHEN (
NOT EXISTS (SELECT 1 FROM log_checkpoint WHERE size >= NEW.size)
AND EXISTS (SELECT 1 FROM log_part WHERE leaves_after >= NEW.size)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'log_checkpoint: not of a larger log'); END

CREATE TRIGGER log_stamp_no_update BEFORE UPDATE ON log_stamp BEGIN SELECT RAISE(ABORT, 'log_stamp: append-only'); END

CREATE TRIGGER log_stamp_no_delete BEFORE DELETE ON log_stamp BEGIN SELECT RAISE(ABORT, 'log_stamp: append-only'); END

CREATE TRIGGER log_stamp_grows BEFORE INSERT ON log_stamp WHEN (
NOT EXISTS (SELECT 1 FROM log_stamp WHERE size >= NEW.size)
AND EXISTS (SELECT 1 FROM log_checkpoint WHERE size = NEW.size)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'log_stamp: not of a later one'); END
