-- The schema of version 0.2.0 on PostgreSQL. An empty line ends a statement.

CREATE TABLE worker (
    id TEXT COLLATE "C" NOT NULL,
    lease_until_ms BIGINT NOT NULL,
    CONSTRAINT pk_worker PRIMARY KEY (id),
    CONSTRAINT ck_worker_lease CHECK (lease_until_ms >= 0)
)

CREATE TABLE pause (
    number BIGSERIAL NOT NULL,
    what TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    paused_by TEXT COLLATE "C" NOT NULL,
    paused_at TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_pause PRIMARY KEY (number),
    CONSTRAINT uq_pause_what UNIQUE (what, name),
    CONSTRAINT ck_pause_what CHECK (what IN ('person', 'dataset'))
)

CREATE TABLE turn (
    person TEXT COLLATE "C" NOT NULL,
    dataset TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    CONSTRAINT pk_turn PRIMARY KEY (person, dataset),
    CONSTRAINT ck_turn_number CHECK (number >= 1)
)

CREATE TABLE allowance (
    person TEXT COLLATE "C" NOT NULL,
    day TEXT COLLATE "C" NOT NULL,
    bytes BIGINT NOT NULL,
    CONSTRAINT pk_allowance PRIMARY KEY (person),
    CONSTRAINT ck_allowance_bytes CHECK (bytes >= 0)
)

CREATE TABLE rate (
    key_id TEXT COLLATE "C" NOT NULL,
    ends_at_ms BIGINT NOT NULL,
    taken BIGINT NOT NULL,
    CONSTRAINT pk_rate PRIMARY KEY (key_id),
    CONSTRAINT ck_rate_taken CHECK (taken >= 0)
)

CREATE TABLE upload (
    dataset TEXT COLLATE "C" NOT NULL,
    worker TEXT COLLATE "C" NOT NULL,
    begun_at TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_upload PRIMARY KEY (dataset)
)

CREATE TABLE desk_session (
    token_hash TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    began_at_s BIGINT NOT NULL,
    seen_at_s BIGINT NOT NULL,
    CONSTRAINT pk_desk_session PRIMARY KEY (token_hash),
    CONSTRAINT ck_desk_session_token_hash CHECK (length(token_hash) = 64)
)

CREATE TABLE desk_form (
    person TEXT COLLATE "C" NOT NULL,
    form TEXT COLLATE "C" NOT NULL,
    location TEXT COLLATE "C",
    at_s BIGINT NOT NULL,
    CONSTRAINT pk_desk_form PRIMARY KEY (person, form),
    CONSTRAINT ck_desk_form_form CHECK (length(form) <= 100)
)

CREATE TABLE log_part (
    number BIGSERIAL NOT NULL,
    account TEXT COLLATE "C" NOT NULL,
    after_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    leaves_before BIGINT NOT NULL,
    leaves_after BIGINT NOT NULL,
    seed TEXT COLLATE "C" NOT NULL,
    hashes BYTEA NOT NULL,
    CONSTRAINT pk_log_part PRIMARY KEY (number),
    CONSTRAINT uq_log_part_account UNIQUE (account, last_seq),
    CONSTRAINT uq_log_part_leaves_before UNIQUE (leaves_before),
    CONSTRAINT ck_log_part_hashes CHECK (length(seed) = 64 AND length(hashes) = 32 * (leaves_after - leaves_before) AND leaves_after > leaves_before AND leaves_after - leaves_before <= last_seq - after_seq AND (number > 1 OR leaves_before = 0))
)

CREATE TABLE log_checkpoint (
    size BIGSERIAL NOT NULL,
    note TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_log_checkpoint PRIMARY KEY (size)
)

CREATE TABLE log_stamp (
    size BIGSERIAL NOT NULL,
    stamp BYTEA NOT NULL,
    CONSTRAINT pk_log_stamp PRIMARY KEY (size)
)

CREATE TABLE ledger (
    number BIGSERIAL NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    epoch BIGINT NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_ledger PRIMARY KEY (number),
    CONSTRAINT ck_ledger_only_one CHECK (number = 1),
    CONSTRAINT ck_ledger_epoch CHECK (epoch >= 1)
)

CREATE TABLE entry (
    account TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    principal TEXT COLLATE "C" NOT NULL,
    release TEXT COLLATE "C",
    idem TEXT COLLATE "C",
    fingerprint TEXT COLLATE "C",
    note TEXT COLLATE "C",
    amount BIGINT NOT NULL,
    total_after BIGINT NOT NULL,
    spent_after BIGINT NOT NULL,
    reserved_after BIGINT NOT NULL,
    at TEXT COLLATE "C" NOT NULL,
    prev TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C",
    role TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_entry PRIMARY KEY (account, seq),
    CONSTRAINT uq_entry_idem UNIQUE (principal, idem),
    CONSTRAINT uq_entry_balance UNIQUE (account, seq, total_after, spent_after, reserved_after, hash),
    CONSTRAINT ck_entry_seq CHECK (seq >= 1),
    CONSTRAINT ck_entry_within_total CHECK (amount >= 0 AND spent_after >= 0 AND reserved_after >= 0 AND spent_after + reserved_after <= total_after),
    CONSTRAINT ck_entry_kind CHECK (CASE WHEN account = '0' THEN amount = 0 AND total_after = 0 AND kind NOT IN ('grant', 'expire', 'debit', 'reserve', 'unreserve', 'burn') ELSE kind IN ('open', 'grant', 'expire', 'debit', 'reserve', 'unreserve', 'burn') END),
    CONSTRAINT ck_entry_release CHECK ((idem IS NULL OR kind IN ('debit', 'reserve')) AND (kind NOT IN ('debit', 'reserve', 'unreserve') OR (release IS NOT NULL AND fingerprint IS NOT NULL))),
    CONSTRAINT ck_entry_hash CHECK (length(prev) = 64 AND length(hash) = 64)
)

CREATE INDEX ix_entry_acts ON entry (account, kind, seq) WHERE kind <> 'debit' AND kind <> 'reserve' AND kind <> 'unreserve' AND kind <> 'result' AND kind <> 'checkpoint'

CREATE INDEX ix_entry_at ON entry (at)

CREATE INDEX ix_entry_unreserve ON entry (release) WHERE kind = 'unreserve'

CREATE TABLE leaf (
    number BIGSERIAL NOT NULL,
    release BIGINT NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_leaf PRIMARY KEY (number),
    CONSTRAINT uq_leaf_release UNIQUE (release),
    CONSTRAINT ck_leaf_hash CHECK (length(hash) = 64)
)

CREATE TABLE api_key (
    number BIGSERIAL NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    secret_hash TEXT COLLATE "C" NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    expires_at TEXT COLLATE "C",
    revoked_at TEXT COLLATE "C",
    sorts_as TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_api_key PRIMARY KEY (number),
    CONSTRAINT uq_api_key_id UNIQUE (id),
    CONSTRAINT uq_api_key_secret_hash UNIQUE (secret_hash),
    CONSTRAINT ck_api_key_role CHECK (role IN ('metrics', 'auditor', 'analyst', 'reviewer', 'curator', 'admin'))
)

CREATE INDEX ix_api_key_sorted ON api_key (sorts_as, number)

CREATE TABLE key_use (
    key TEXT COLLATE "C" NOT NULL,
    used_at TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_key_use PRIMARY KEY (key),
    CONSTRAINT fk_key_use_key FOREIGN KEY(key) REFERENCES api_key (id)
)

CREATE TABLE account (
    id TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    total BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    reserved BIGINT NOT NULL,
    head TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_account PRIMARY KEY (id),
    CONSTRAINT ck_account_seq CHECK (seq >= 1),
    CONSTRAINT ck_account_within_total CHECK (spent >= 0 AND reserved >= 0 AND spent + reserved <= total),
    CONSTRAINT fk_account_last_entry FOREIGN KEY(id, seq, total, spent, reserved, head) REFERENCES entry (account, seq, total_after, spent_after, reserved_after, hash) DEFERRABLE INITIALLY DEFERRED
)

CREATE TABLE expiring (
    account TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    expires_at TEXT COLLATE "C" NOT NULL,
    expired_seq BIGINT,
    CONSTRAINT pk_expiring PRIMARY KEY (account, seq),
    CONSTRAINT fk_expiring_grant FOREIGN KEY(account, seq) REFERENCES entry (account, seq),
    CONSTRAINT fk_expiring_expired FOREIGN KEY(account, expired_seq) REFERENCES entry (account, seq),
    CONSTRAINT ck_expiring CHECK (amount > 0 AND expired_seq > seq)
)

CREATE INDEX ix_expiring_due ON expiring (account, expires_at) WHERE expired_seq IS NULL

CREATE TABLE cap (
    number BIGSERIAL NOT NULL,
    account TEXT COLLATE "C" NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    amount BIGINT,
    used BIGINT NOT NULL,
    CONSTRAINT pk_cap PRIMARY KEY (number),
    CONSTRAINT uq_cap_person UNIQUE (account, person),
    CONSTRAINT fk_cap_account FOREIGN KEY(account) REFERENCES account (id),
    CONSTRAINT ck_cap_amount CHECK (amount >= 0),
    CONSTRAINT ck_cap_used CHECK (used >= 0)
)

CREATE TABLE dataset (
    number BIGSERIAL NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    account TEXT COLLATE "C" NOT NULL,
    spec TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    rows BIGINT,
    created_by TEXT COLLATE "C" NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    archived_at TEXT COLLATE "C",
    sorts_as TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_dataset PRIMARY KEY (number),
    CONSTRAINT uq_dataset_id UNIQUE (id),
    CONSTRAINT fk_dataset_account FOREIGN KEY(account) REFERENCES account (id),
    CONSTRAINT ck_dataset_status CHECK ((status = 'active' AND archived_at IS NULL) OR (status IN ('archived', 'deleted') AND archived_at IS NOT NULL)),
    CONSTRAINT ck_dataset_rows CHECK (rows IS NULL OR rows >= 0)
)

CREATE INDEX ix_dataset_account ON dataset (account, number)

CREATE INDEX ix_dataset_sorted ON dataset (sorts_as, number)

CREATE UNIQUE INDEX ix_dataset_name ON dataset (name) WHERE status = 'active'

CREATE TABLE dataset_edit (
    seq BIGSERIAL NOT NULL,
    dataset TEXT COLLATE "C" NOT NULL,
    fields TEXT COLLATE "C" NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    at TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_dataset_edit PRIMARY KEY (seq),
    CONSTRAINT fk_dataset_edit_dataset FOREIGN KEY(dataset) REFERENCES dataset (id)
)

CREATE INDEX ix_dataset_edit_dataset ON dataset_edit (dataset, seq)

CREATE TABLE version (
    dataset TEXT COLLATE "C" NOT NULL,
    earlier TEXT COLLATE "C" NOT NULL,
    first TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    CONSTRAINT pk_version PRIMARY KEY (dataset),
    CONSTRAINT uq_version_number UNIQUE (first, number),
    CONSTRAINT fk_version_dataset FOREIGN KEY(dataset) REFERENCES dataset (id),
    CONSTRAINT fk_version_earlier FOREIGN KEY(earlier) REFERENCES dataset (id),
    CONSTRAINT fk_version_first FOREIGN KEY(first) REFERENCES dataset (id),
    CONSTRAINT ck_version_number CHECK (number >= 2)
)

CREATE TABLE lineage (
    dataset TEXT COLLATE "C" NOT NULL,
    sha256 TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_lineage PRIMARY KEY (dataset),
    CONSTRAINT fk_lineage_dataset FOREIGN KEY(dataset) REFERENCES dataset (id),
    CONSTRAINT ck_lineage_sha256 CHECK (length(sha256) = 64)
)

CREATE TABLE release (
    number BIGSERIAL NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    account TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    dataset TEXT COLLATE "C" NOT NULL,
    principal TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    request TEXT COLLATE "C" NOT NULL,
    plan TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    finished_at TEXT COLLATE "C",
    worker TEXT COLLATE "C",
    result_hash TEXT COLLATE "C",
    result BYTEA,
    CONSTRAINT pk_release PRIMARY KEY (number),
    CONSTRAINT uq_release_id UNIQUE (id),
    CONSTRAINT uq_release_charge UNIQUE (account, seq),
    CONSTRAINT fk_release_charge FOREIGN KEY(account, seq) REFERENCES entry (account, seq),
    CONSTRAINT fk_release_dataset FOREIGN KEY(dataset) REFERENCES dataset (id),
    CONSTRAINT ck_release_state CHECK (state IN ('reserved', 'debited', 'released', 'void', 'rejected', 'withdrawn', 'expired')),
    CONSTRAINT ck_release_result CHECK ((state = 'released') = (result IS NOT NULL) AND (result IS NULL) = (result_hash IS NULL)),
    CONSTRAINT ck_release_attempts CHECK (attempts >= 0 AND attempts <= 3)
)

CREATE INDEX ix_release_principal ON release (principal, number)

CREATE INDEX ix_release_reserved ON release (number) WHERE state = 'reserved'

CREATE INDEX ix_release_dataset ON release (dataset, number)

CREATE INDEX ix_release_debited ON release (number) WHERE state = 'debited'

CREATE INDEX ix_release_ended ON release (state, number) WHERE state <> 'reserved' AND state <> 'debited' AND state <> 'released'

CREATE TABLE job (
    number BIGINT NOT NULL,
    deadline_s BIGINT NOT NULL,
    CONSTRAINT pk_job PRIMARY KEY (number),
    CONSTRAINT fk_job_release FOREIGN KEY(number) REFERENCES release (number),
    CONSTRAINT ck_job_deadline CHECK (deadline_s >= 1)
)

CREATE TABLE publication (
    number BIGSERIAL NOT NULL,
    release TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    dataset TEXT COLLATE "C" NOT NULL,
    kinds TEXT COLLATE "C" NOT NULL,
    words TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    published_by TEXT COLLATE "C" NOT NULL,
    published_at TEXT COLLATE "C" NOT NULL,
    note TEXT COLLATE "C",
    withdrawn_by TEXT COLLATE "C",
    withdrawn_at TEXT COLLATE "C",
    CONSTRAINT pk_publication PRIMARY KEY (number),
    CONSTRAINT uq_publication_release UNIQUE (release),
    CONSTRAINT fk_publication_release FOREIGN KEY(release) REFERENCES release (id),
    CONSTRAINT ck_publication_withdrawn CHECK ((note IS NULL) = (withdrawn_at IS NULL) AND (withdrawn_by IS NULL) = (withdrawn_at IS NULL))
)

CREATE INDEX ix_publication_dataset ON publication (dataset, number)

CREATE TABLE review (
    release TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    version BIGINT NOT NULL,
    returned BIGINT NOT NULL,
    shown BIGINT NOT NULL,
    reason TEXT COLLATE "C",
    CONSTRAINT pk_review PRIMARY KEY (release),
    CONSTRAINT fk_review_release FOREIGN KEY(release) REFERENCES release (id)
)

CREATE TABLE revision (
    release TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    account TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    request TEXT COLLATE "C" NOT NULL,
    plan TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_revision PRIMARY KEY (release, version),
    CONSTRAINT uq_revision_reserve UNIQUE (account, seq),
    CONSTRAINT fk_revision_release FOREIGN KEY(release) REFERENCES release (id),
    CONSTRAINT fk_revision_reserve FOREIGN KEY(account, seq) REFERENCES entry (account, seq)
)

CREATE TABLE vote (
    seq BIGSERIAL NOT NULL,
    release TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    decision TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    at TEXT COLLATE "C" NOT NULL,
    salt TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_vote PRIMARY KEY (seq),
    CONSTRAINT fk_vote_release FOREIGN KEY(release) REFERENCES release (id)
)

CREATE INDEX ix_vote_release ON vote (release, seq)

CREATE TABLE study_plan (
    number BIGSERIAL NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    account TEXT COLLATE "C" NOT NULL,
    dataset TEXT COLLATE "C" NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    purpose TEXT COLLATE "C",
    questions TEXT COLLATE "C" NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    unsent TEXT COLLATE "C",
    seq BIGINT,
    requested_at TEXT COLLATE "C",
    decided_by TEXT COLLATE "C",
    decided_at TEXT COLLATE "C",
    reason TEXT COLLATE "C",
    expires_at TEXT COLLATE "C",
    ended_at TEXT COLLATE "C",
    sorts_as TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_study_plan PRIMARY KEY (number),
    CONSTRAINT uq_study_plan_id UNIQUE (id),
    CONSTRAINT fk_study_plan_account FOREIGN KEY(account) REFERENCES account (id),
    CONSTRAINT fk_study_plan_dataset FOREIGN KEY(dataset) REFERENCES dataset (id),
    CONSTRAINT ck_study_plan_state CHECK ((state = 'draft') = (requested_at IS NULL) AND (state = 'draft') = (seq IS NULL) AND (decided_by IS NULL) = (decided_at IS NULL) AND (expires_at IS NULL OR decided_at IS NOT NULL) AND (state <> 'approved' OR expires_at IS NOT NULL) AND (unsent IS NULL OR state = 'changes_requested'))
)

CREATE INDEX ix_study_plan_person ON study_plan (person, number)

CREATE INDEX ix_study_plan_state ON study_plan (state, number)

CREATE INDEX ix_study_plan_sorted ON study_plan (sorts_as, number)

CREATE TABLE plan_revision (
    study_plan TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    purpose TEXT COLLATE "C",
    questions TEXT COLLATE "C" NOT NULL,
    requested_at TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_plan_revision PRIMARY KEY (study_plan, turn),
    CONSTRAINT fk_plan_revision_study_plan FOREIGN KEY(study_plan) REFERENCES study_plan (id)
)

CREATE TABLE review_comment (
    number BIGSERIAL NOT NULL,
    release TEXT COLLATE "C",
    study_plan TEXT COLLATE "C",
    turn BIGINT NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    private BIGINT NOT NULL,
    text TEXT COLLATE "C" NOT NULL,
    at TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_review_comment PRIMARY KEY (number),
    CONSTRAINT fk_review_comment_release FOREIGN KEY(release) REFERENCES release (id),
    CONSTRAINT fk_review_comment_study_plan FOREIGN KEY(study_plan) REFERENCES study_plan (id),
    CONSTRAINT ck_review_comment_about CHECK ((release IS NULL) <> (study_plan IS NULL))
)

CREATE INDEX ix_review_comment_release ON review_comment (release, number)

CREATE INDEX ix_review_comment_study_plan ON review_comment (study_plan, number)

CREATE TABLE plan_vote (
    seq BIGSERIAL NOT NULL,
    study_plan TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    decision TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    at TEXT COLLATE "C" NOT NULL,
    salt TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_plan_vote PRIMARY KEY (seq),
    CONSTRAINT fk_plan_vote_study_plan FOREIGN KEY(study_plan) REFERENCES study_plan (id)
)

CREATE INDEX ix_plan_vote_study_plan ON plan_vote (study_plan, seq)

CREATE TABLE notice (
    number BIGSERIAL NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    event TEXT COLLATE "C" NOT NULL,
    audience TEXT COLLATE "C" NOT NULL,
    release TEXT COLLATE "C",
    study_plan TEXT COLLATE "C",
    requester TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C",
    at TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_notice PRIMARY KEY (number),
    CONSTRAINT uq_notice_id UNIQUE (id),
    CONSTRAINT fk_notice_release FOREIGN KEY(release) REFERENCES release (id),
    CONSTRAINT fk_notice_study_plan FOREIGN KEY(study_plan) REFERENCES study_plan (id),
    CONSTRAINT ck_notice_about CHECK ((release IS NULL) <> (study_plan IS NULL))
)

CREATE INDEX ix_notice_requester ON notice (requester, number)

CREATE INDEX ix_notice_at ON notice (at)

CREATE TABLE sight (
    number BIGSERIAL NOT NULL,
    release TEXT COLLATE "C" NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    how TEXT COLLATE "C" NOT NULL,
    day TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    at TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_sight PRIMARY KEY (number),
    CONSTRAINT uq_sight_day UNIQUE (release, person, how, day),
    CONSTRAINT fk_sight_release FOREIGN KEY(release) REFERENCES release (id)
)

CREATE TABLE notice_read (
    person TEXT COLLATE "C" NOT NULL,
    notice BIGINT NOT NULL,
    read_at TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_notice_read PRIMARY KEY (person, notice),
    CONSTRAINT fk_notice_read_notice FOREIGN KEY(notice) REFERENCES notice (number)
)

CREATE TABLE delivery (
    notice BIGINT NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    next_at TEXT COLLATE "C" NOT NULL,
    done_at TEXT COLLATE "C",
    CONSTRAINT pk_delivery PRIMARY KEY (notice, channel),
    CONSTRAINT fk_delivery_notice FOREIGN KEY(notice) REFERENCES notice (number)
)

CREATE FUNCTION ledger_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'ledger: its identity stays'; END$rule$

CREATE TRIGGER ledger_no_delete BEFORE DELETE ON public.ledger FOR EACH ROW EXECUTE FUNCTION ledger_no_delete()

ALTER TABLE ledger ENABLE ALWAYS TRIGGER ledger_no_delete

CREATE TRIGGER ledger_no_delete_truncate BEFORE TRUNCATE ON public.ledger FOR EACH STATEMENT EXECUTE FUNCTION ledger_no_delete()

ALTER TABLE ledger ENABLE ALWAYS TRIGGER ledger_no_delete_truncate

CREATE FUNCTION ledger_no_replace() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (NOT EXISTS (SELECT 1 FROM ledger)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'ledger: there is one already'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER ledger_no_replace BEFORE INSERT ON public.ledger FOR EACH ROW EXECUTE FUNCTION ledger_no_replace()

ALTER TABLE ledger ENABLE ALWAYS TRIGGER ledger_no_replace

CREATE FUNCTION ledger_epoch_forward() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.created_at = OLD.created_at
AND NEW.epoch > OLD.epoch) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'ledger: only the epoch moves, and only forward'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER ledger_epoch_forward BEFORE UPDATE ON public.ledger FOR EACH ROW EXECUTE FUNCTION ledger_epoch_forward()

ALTER TABLE ledger ENABLE ALWAYS TRIGGER ledger_epoch_forward

CREATE FUNCTION entry_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'entry: append-only'; END$rule$

CREATE TRIGGER entry_no_update BEFORE UPDATE ON public.entry FOR EACH ROW EXECUTE FUNCTION entry_no_update()

ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_no_update

CREATE FUNCTION entry_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'entry: append-only'; END$rule$

CREATE TRIGGER entry_no_delete BEFORE DELETE ON public.entry FOR EACH ROW EXECUTE FUNCTION entry_no_delete()

ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_no_delete

CREATE TRIGGER entry_no_delete_truncate BEFORE TRUNCATE ON public.entry FOR EACH STATEMENT EXECUTE FUNCTION entry_no_delete()

ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_no_delete_truncate

CREATE FUNCTION entry_no_replace() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NOT EXISTS (SELECT 1 FROM entry WHERE account = NEW.account AND seq = NEW.seq)
AND NOT EXISTS (SELECT 1 FROM entry WHERE principal = NEW.principal AND idem = NEW.idem)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'entry: exists already'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER entry_no_replace BEFORE INSERT ON public.entry FOR EACH ROW EXECUTE FUNCTION entry_no_replace()

ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_no_replace

CREATE FUNCTION entry_continues() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
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
) END) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'entry: does not continue its predecessor'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER entry_continues BEFORE INSERT ON public.entry FOR EACH ROW EXECUTE FUNCTION entry_continues()

ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_continues

CREATE FUNCTION entry_not_ahead() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
EXISTS (SELECT 1 FROM account WHERE id = NEW.account AND seq >= NEW.seq)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'entry: ahead of its account'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER entry_not_ahead BEFORE INSERT ON public.entry FOR EACH ROW EXECUTE FUNCTION entry_not_ahead()

ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_not_ahead

CREATE FUNCTION entry_epoch() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (NEW.epoch = (SELECT epoch FROM ledger)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'entry: not of this epoch'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER entry_epoch BEFORE INSERT ON public.entry FOR EACH ROW EXECUTE FUNCTION entry_epoch()

ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_epoch

CREATE FUNCTION entry_made_by() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
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
) END) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'entry: not made by a key in a role that allows it'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER entry_made_by BEFORE INSERT ON public.entry FOR EACH ROW EXECUTE FUNCTION entry_made_by()

ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_made_by

CREATE FUNCTION api_key_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'api_key: keys stay'; END$rule$

CREATE TRIGGER api_key_no_delete BEFORE DELETE ON public.api_key FOR EACH ROW EXECUTE FUNCTION api_key_no_delete()

ALTER TABLE api_key ENABLE ALWAYS TRIGGER api_key_no_delete

CREATE TRIGGER api_key_no_delete_truncate BEFORE TRUNCATE ON public.api_key FOR EACH STATEMENT EXECUTE FUNCTION api_key_no_delete()

ALTER TABLE api_key ENABLE ALWAYS TRIGGER api_key_no_delete_truncate

CREATE FUNCTION api_key_no_replace() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (NOT EXISTS (SELECT 1 FROM api_key WHERE id = NEW.id OR number = NEW.number OR secret_hash = NEW.secret_hash)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'api_key: exists already'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER api_key_no_replace BEFORE INSERT ON public.api_key FOR EACH ROW EXECUTE FUNCTION api_key_no_replace()

ALTER TABLE api_key ENABLE ALWAYS TRIGGER api_key_no_replace

CREATE FUNCTION api_key_revoked_once() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.name = OLD.name AND NEW.role = OLD.role
AND NEW.person = OLD.person AND NEW.secret_hash = OLD.secret_hash
AND NEW.created_by = OLD.created_by AND NEW.created_at = OLD.created_at
AND NEW.expires_at IS NOT DISTINCT FROM OLD.expires_at AND NEW.sorts_as = OLD.sorts_as
AND OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'api_key: only revoking changes it'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER api_key_revoked_once BEFORE UPDATE ON public.api_key FOR EACH ROW EXECUTE FUNCTION api_key_revoked_once()

ALTER TABLE api_key ENABLE ALWAYS TRIGGER api_key_revoked_once

CREATE FUNCTION account_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'account: accounts stay'; END$rule$

CREATE TRIGGER account_no_delete BEFORE DELETE ON public.account FOR EACH ROW EXECUTE FUNCTION account_no_delete()

ALTER TABLE account ENABLE ALWAYS TRIGGER account_no_delete

CREATE TRIGGER account_no_delete_truncate BEFORE TRUNCATE ON public.account FOR EACH STATEMENT EXECUTE FUNCTION account_no_delete()

ALTER TABLE account ENABLE ALWAYS TRIGGER account_no_delete_truncate

CREATE FUNCTION account_no_replace() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (NOT EXISTS (SELECT 1 FROM account WHERE id = NEW.id)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'account: exists already'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER account_no_replace BEFORE INSERT ON public.account FOR EACH ROW EXECUTE FUNCTION account_no_replace()

ALTER TABLE account ENABLE ALWAYS TRIGGER account_no_replace

CREATE FUNCTION account_opens_empty() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (NEW.seq = 1 AND NEW.spent = 0 AND NEW.reserved = 0) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'account: opens at its first entry'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER account_opens_empty BEFORE INSERT ON public.account FOR EACH ROW EXECUTE FUNCTION account_opens_empty()

ALTER TABLE account ENABLE ALWAYS TRIGGER account_opens_empty

CREATE FUNCTION account_forward() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (NEW.id = OLD.id AND NEW.seq > OLD.seq AND NEW.spent >= OLD.spent) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'account: spent never decreases and seq moves forward'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER account_forward BEFORE UPDATE ON public.account FOR EACH ROW EXECUTE FUNCTION account_forward()

ALTER TABLE account ENABLE ALWAYS TRIGGER account_forward

CREATE FUNCTION release_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'release: releases stay'; END$rule$

CREATE TRIGGER release_no_delete BEFORE DELETE ON public.release FOR EACH ROW EXECUTE FUNCTION release_no_delete()

ALTER TABLE release ENABLE ALWAYS TRIGGER release_no_delete

CREATE TRIGGER release_no_delete_truncate BEFORE TRUNCATE ON public.release FOR EACH STATEMENT EXECUTE FUNCTION release_no_delete()

ALTER TABLE release ENABLE ALWAYS TRIGGER release_no_delete_truncate

CREATE FUNCTION release_no_replace() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NOT EXISTS (SELECT 1 FROM release WHERE id = NEW.id OR number = NEW.number)
AND NOT EXISTS (SELECT 1 FROM release WHERE account = NEW.account AND seq = NEW.seq)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'release: exists already'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER release_no_replace BEFORE INSERT ON public.release FOR EACH ROW EXECUTE FUNCTION release_no_replace()

ALTER TABLE release ENABLE ALWAYS TRIGGER release_no_replace

CREATE FUNCTION release_charged() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
EXISTS (
    SELECT 1 FROM entry AS e
    WHERE e.account = NEW.account AND e.seq = NEW.seq AND e.release = NEW.id
    AND e.fingerprint = NEW.fingerprint AND e.kind = CASE NEW.state
    WHEN 'debited' THEN 'debit' WHEN 'reserved' THEN 'reserve' END)
AND EXISTS (SELECT 1 FROM dataset WHERE id = NEW.dataset AND status = 'active')
AND NEW.attempts = CASE NEW.state WHEN 'debited' THEN 1 ELSE 0 END) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'release: begins with its charge'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER release_charged BEFORE INSERT ON public.release FOR EACH ROW EXECUTE FUNCTION release_charged()

ALTER TABLE release ENABLE ALWAYS TRIGGER release_charged

CREATE FUNCTION release_forward() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
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
ELSE FALSE END) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'release: states only move forward'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER release_forward BEFORE UPDATE ON public.release FOR EACH ROW EXECUTE FUNCTION release_forward()

ALTER TABLE release ENABLE ALWAYS TRIGGER release_forward

CREATE FUNCTION dataset_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'dataset: data sets stay'; END$rule$

CREATE TRIGGER dataset_no_delete BEFORE DELETE ON public.dataset FOR EACH ROW EXECUTE FUNCTION dataset_no_delete()

ALTER TABLE dataset ENABLE ALWAYS TRIGGER dataset_no_delete

CREATE TRIGGER dataset_no_delete_truncate BEFORE TRUNCATE ON public.dataset FOR EACH STATEMENT EXECUTE FUNCTION dataset_no_delete()

ALTER TABLE dataset ENABLE ALWAYS TRIGGER dataset_no_delete_truncate

CREATE FUNCTION dataset_no_replace() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NOT EXISTS (SELECT 1 FROM dataset WHERE id = NEW.id OR number = NEW.number)
AND NOT EXISTS (SELECT 1 FROM dataset WHERE name = NEW.name AND status = 'active')) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'dataset: exists already'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER dataset_no_replace BEFORE INSERT ON public.dataset FOR EACH ROW EXECUTE FUNCTION dataset_no_replace()

ALTER TABLE dataset ENABLE ALWAYS TRIGGER dataset_no_replace

CREATE FUNCTION dataset_archived_once() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.name = OLD.name
AND NEW.account = OLD.account AND NEW.spec = OLD.spec AND NEW.rows IS NOT DISTINCT FROM OLD.rows
AND NEW.created_by = OLD.created_by AND NEW.created_at = OLD.created_at
AND NEW.sorts_as = OLD.sorts_as
AND (OLD.status = 'active' AND NEW.status = 'archived'
    OR OLD.status IN ('active', 'archived') AND NEW.status = 'deleted'
    AND (OLD.archived_at IS NULL OR NEW.archived_at = OLD.archived_at)
    AND NOT EXISTS (SELECT 1 FROM release WHERE dataset = NEW.id))) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'dataset: only archiving changes it, and deleting one without releases'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER dataset_archived_once BEFORE UPDATE ON public.dataset FOR EACH ROW EXECUTE FUNCTION dataset_archived_once()

ALTER TABLE dataset ENABLE ALWAYS TRIGGER dataset_archived_once

CREATE FUNCTION lineage_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'lineage: written once'; END$rule$

CREATE TRIGGER lineage_no_update BEFORE UPDATE ON public.lineage FOR EACH ROW EXECUTE FUNCTION lineage_no_update()

ALTER TABLE lineage ENABLE ALWAYS TRIGGER lineage_no_update

CREATE FUNCTION lineage_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'lineage: written once'; END$rule$

CREATE TRIGGER lineage_no_delete BEFORE DELETE ON public.lineage FOR EACH ROW EXECUTE FUNCTION lineage_no_delete()

ALTER TABLE lineage ENABLE ALWAYS TRIGGER lineage_no_delete

CREATE TRIGGER lineage_no_delete_truncate BEFORE TRUNCATE ON public.lineage FOR EACH STATEMENT EXECUTE FUNCTION lineage_no_delete()

ALTER TABLE lineage ENABLE ALWAYS TRIGGER lineage_no_delete_truncate

CREATE FUNCTION lineage_no_replace() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (NOT EXISTS (SELECT 1 FROM lineage WHERE dataset = NEW.dataset)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'lineage: written once'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER lineage_no_replace BEFORE INSERT ON public.lineage FOR EACH ROW EXECUTE FUNCTION lineage_no_replace()

ALTER TABLE lineage ENABLE ALWAYS TRIGGER lineage_no_replace

CREATE FUNCTION leaf_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'leaf: written once'; END$rule$

CREATE TRIGGER leaf_no_update BEFORE UPDATE ON public.leaf FOR EACH ROW EXECUTE FUNCTION leaf_no_update()

ALTER TABLE leaf ENABLE ALWAYS TRIGGER leaf_no_update

CREATE FUNCTION leaf_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'leaf: written once'; END$rule$

CREATE TRIGGER leaf_no_delete BEFORE DELETE ON public.leaf FOR EACH ROW EXECUTE FUNCTION leaf_no_delete()

ALTER TABLE leaf ENABLE ALWAYS TRIGGER leaf_no_delete

CREATE TRIGGER leaf_no_delete_truncate BEFORE TRUNCATE ON public.leaf FOR EACH STATEMENT EXECUTE FUNCTION leaf_no_delete()

ALTER TABLE leaf ENABLE ALWAYS TRIGGER leaf_no_delete_truncate

CREATE FUNCTION leaf_continues() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
(NEW.number = 1 OR EXISTS (SELECT 1 FROM leaf WHERE number = NEW.number - 1))
AND NOT EXISTS (SELECT 1 FROM leaf WHERE number = NEW.number OR release = NEW.release)
AND EXISTS (SELECT 1 FROM release WHERE number = NEW.release AND state = 'released')) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'leaf: not the next one'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER leaf_continues BEFORE INSERT ON public.leaf FOR EACH ROW EXECUTE FUNCTION leaf_continues()

ALTER TABLE leaf ENABLE ALWAYS TRIGGER leaf_continues

CREATE FUNCTION expiring_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'expiring: grants stay'; END$rule$

CREATE TRIGGER expiring_no_delete BEFORE DELETE ON public.expiring FOR EACH ROW EXECUTE FUNCTION expiring_no_delete()

ALTER TABLE expiring ENABLE ALWAYS TRIGGER expiring_no_delete

CREATE TRIGGER expiring_no_delete_truncate BEFORE TRUNCATE ON public.expiring FOR EACH STATEMENT EXECUTE FUNCTION expiring_no_delete()

ALTER TABLE expiring ENABLE ALWAYS TRIGGER expiring_no_delete_truncate

CREATE FUNCTION expiring_grant() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NEW.expired_seq IS NULL
AND NOT EXISTS (SELECT 1 FROM expiring WHERE account = NEW.account AND seq = NEW.seq)
AND EXISTS (
    SELECT 1 FROM entry AS g
    WHERE g.account = NEW.account AND g.seq = NEW.seq AND g.kind = 'grant'
    AND g.amount = NEW.amount AND g.fingerprint IS NOT NULL)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'expiring: begins as a grant'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER expiring_grant BEFORE INSERT ON public.expiring FOR EACH ROW EXECUTE FUNCTION expiring_grant()

ALTER TABLE expiring ENABLE ALWAYS TRIGGER expiring_grant

CREATE FUNCTION expiring_once() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NEW.account = OLD.account AND NEW.seq = OLD.seq AND NEW.amount = OLD.amount
AND NEW.expires_at = OLD.expires_at AND OLD.expired_seq IS NULL
AND EXISTS (
    SELECT 1 FROM entry AS e JOIN entry AS g ON g.account = e.account AND g.hash = e.fingerprint
    WHERE e.account = NEW.account AND e.seq = NEW.expired_seq AND e.kind = 'expire'
    AND g.seq = NEW.seq)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'expiring: a grant expires once, by its entry'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER expiring_once BEFORE UPDATE ON public.expiring FOR EACH ROW EXECUTE FUNCTION expiring_once()

ALTER TABLE expiring ENABLE ALWAYS TRIGGER expiring_once

CREATE FUNCTION cap_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'cap: slices stay'; END$rule$

CREATE TRIGGER cap_no_delete BEFORE DELETE ON public.cap FOR EACH ROW EXECUTE FUNCTION cap_no_delete()

ALTER TABLE cap ENABLE ALWAYS TRIGGER cap_no_delete

CREATE TRIGGER cap_no_delete_truncate BEFORE TRUNCATE ON public.cap FOR EACH STATEMENT EXECUTE FUNCTION cap_no_delete()

ALTER TABLE cap ENABLE ALWAYS TRIGGER cap_no_delete_truncate

CREATE FUNCTION cap_no_replace() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (NOT EXISTS (SELECT 1 FROM cap WHERE number = NEW.number) AND NOT EXISTS (SELECT 1 FROM cap WHERE account = NEW.account AND person = NEW.person)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'cap: exists already'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER cap_no_replace BEFORE INSERT ON public.cap FOR EACH ROW EXECUTE FUNCTION cap_no_replace()

ALTER TABLE cap ENABLE ALWAYS TRIGGER cap_no_replace

CREATE FUNCTION cap_same_slice() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NEW.number = OLD.number AND NEW.account = OLD.account AND NEW.person = OLD.person) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'cap: slices stay with their persons'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER cap_same_slice BEFORE UPDATE ON public.cap FOR EACH ROW EXECUTE FUNCTION cap_same_slice()

ALTER TABLE cap ENABLE ALWAYS TRIGGER cap_same_slice

CREATE FUNCTION review_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'review: reviews stay'; END$rule$

CREATE TRIGGER review_no_delete BEFORE DELETE ON public.review FOR EACH ROW EXECUTE FUNCTION review_no_delete()

ALTER TABLE review ENABLE ALWAYS TRIGGER review_no_delete

CREATE TRIGGER review_no_delete_truncate BEFORE TRUNCATE ON public.review FOR EACH STATEMENT EXECUTE FUNCTION review_no_delete()

ALTER TABLE review ENABLE ALWAYS TRIGGER review_no_delete_truncate

CREATE FUNCTION study_plan_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF TG_OP = 'TRUNCATE' THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'study_plan: what has been requested stays'; END IF; IF (OLD.state = 'draft') IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'study_plan: what has been requested stays'; END IF; RETURN OLD; END$rule$

CREATE TRIGGER study_plan_no_delete BEFORE DELETE ON public.study_plan FOR EACH ROW EXECUTE FUNCTION study_plan_no_delete()

ALTER TABLE study_plan ENABLE ALWAYS TRIGGER study_plan_no_delete

CREATE TRIGGER study_plan_no_delete_truncate BEFORE TRUNCATE ON public.study_plan FOR EACH STATEMENT EXECUTE FUNCTION study_plan_no_delete()

ALTER TABLE study_plan ENABLE ALWAYS TRIGGER study_plan_no_delete_truncate

CREATE FUNCTION study_plan_is_new() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NEW.state = 'draft' AND NEW.turn = 1
AND NOT EXISTS (SELECT 1 FROM study_plan WHERE id = NEW.id OR number = NEW.number)
AND EXISTS (SELECT 1 FROM dataset WHERE id = NEW.dataset AND account = NEW.account)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'study_plan: not a new draft'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER study_plan_is_new BEFORE INSERT ON public.study_plan FOR EACH ROW EXECUTE FUNCTION study_plan_is_new()

ALTER TABLE study_plan ENABLE ALWAYS TRIGGER study_plan_is_new

CREATE FUNCTION study_plan_forward() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
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
        WHEN 'expired' THEN 'study_plan_expired' END))) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'study_plan: states only move forward, each by its entry'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER study_plan_forward BEFORE UPDATE ON public.study_plan FOR EACH ROW EXECUTE FUNCTION study_plan_forward()

ALTER TABLE study_plan ENABLE ALWAYS TRIGGER study_plan_forward

CREATE FUNCTION revision_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'revision: written once'; END$rule$

CREATE TRIGGER revision_no_update BEFORE UPDATE ON public.revision FOR EACH ROW EXECUTE FUNCTION revision_no_update()

ALTER TABLE revision ENABLE ALWAYS TRIGGER revision_no_update

CREATE FUNCTION revision_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'revision: written once'; END$rule$

CREATE TRIGGER revision_no_delete BEFORE DELETE ON public.revision FOR EACH ROW EXECUTE FUNCTION revision_no_delete()

ALTER TABLE revision ENABLE ALWAYS TRIGGER revision_no_delete

CREATE TRIGGER revision_no_delete_truncate BEFORE TRUNCATE ON public.revision FOR EACH STATEMENT EXECUTE FUNCTION revision_no_delete()

ALTER TABLE revision ENABLE ALWAYS TRIGGER revision_no_delete_truncate

CREATE FUNCTION vote_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'vote: written once'; END$rule$

CREATE TRIGGER vote_no_update BEFORE UPDATE ON public.vote FOR EACH ROW EXECUTE FUNCTION vote_no_update()

ALTER TABLE vote ENABLE ALWAYS TRIGGER vote_no_update

CREATE FUNCTION vote_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'vote: written once'; END$rule$

CREATE TRIGGER vote_no_delete BEFORE DELETE ON public.vote FOR EACH ROW EXECUTE FUNCTION vote_no_delete()

ALTER TABLE vote ENABLE ALWAYS TRIGGER vote_no_delete

CREATE TRIGGER vote_no_delete_truncate BEFORE TRUNCATE ON public.vote FOR EACH STATEMENT EXECUTE FUNCTION vote_no_delete()

ALTER TABLE vote ENABLE ALWAYS TRIGGER vote_no_delete_truncate

CREATE FUNCTION plan_revision_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'plan_revision: written once'; END$rule$

CREATE TRIGGER plan_revision_no_update BEFORE UPDATE ON public.plan_revision FOR EACH ROW EXECUTE FUNCTION plan_revision_no_update()

ALTER TABLE plan_revision ENABLE ALWAYS TRIGGER plan_revision_no_update

CREATE FUNCTION plan_revision_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'plan_revision: written once'; END$rule$

CREATE TRIGGER plan_revision_no_delete BEFORE DELETE ON public.plan_revision FOR EACH ROW EXECUTE FUNCTION plan_revision_no_delete()

ALTER TABLE plan_revision ENABLE ALWAYS TRIGGER plan_revision_no_delete

CREATE TRIGGER plan_revision_no_delete_truncate BEFORE TRUNCATE ON public.plan_revision FOR EACH STATEMENT EXECUTE FUNCTION plan_revision_no_delete()

ALTER TABLE plan_revision ENABLE ALWAYS TRIGGER plan_revision_no_delete_truncate

CREATE FUNCTION plan_vote_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'plan_vote: written once'; END$rule$

CREATE TRIGGER plan_vote_no_update BEFORE UPDATE ON public.plan_vote FOR EACH ROW EXECUTE FUNCTION plan_vote_no_update()

ALTER TABLE plan_vote ENABLE ALWAYS TRIGGER plan_vote_no_update

CREATE FUNCTION plan_vote_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'plan_vote: written once'; END$rule$

CREATE TRIGGER plan_vote_no_delete BEFORE DELETE ON public.plan_vote FOR EACH ROW EXECUTE FUNCTION plan_vote_no_delete()

ALTER TABLE plan_vote ENABLE ALWAYS TRIGGER plan_vote_no_delete

CREATE TRIGGER plan_vote_no_delete_truncate BEFORE TRUNCATE ON public.plan_vote FOR EACH STATEMENT EXECUTE FUNCTION plan_vote_no_delete()

ALTER TABLE plan_vote ENABLE ALWAYS TRIGGER plan_vote_no_delete_truncate

CREATE FUNCTION review_comment_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'review_comment: written once'; END$rule$

CREATE TRIGGER review_comment_no_update BEFORE UPDATE ON public.review_comment FOR EACH ROW EXECUTE FUNCTION review_comment_no_update()

ALTER TABLE review_comment ENABLE ALWAYS TRIGGER review_comment_no_update

CREATE FUNCTION review_comment_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'review_comment: written once'; END$rule$

CREATE TRIGGER review_comment_no_delete BEFORE DELETE ON public.review_comment FOR EACH ROW EXECUTE FUNCTION review_comment_no_delete()

ALTER TABLE review_comment ENABLE ALWAYS TRIGGER review_comment_no_delete

CREATE TRIGGER review_comment_no_delete_truncate BEFORE TRUNCATE ON public.review_comment FOR EACH STATEMENT EXECUTE FUNCTION review_comment_no_delete()

ALTER TABLE review_comment ENABLE ALWAYS TRIGGER review_comment_no_delete_truncate

CREATE FUNCTION notice_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'notice: written once'; END$rule$

CREATE TRIGGER notice_no_update BEFORE UPDATE ON public.notice FOR EACH ROW EXECUTE FUNCTION notice_no_update()

ALTER TABLE notice ENABLE ALWAYS TRIGGER notice_no_update

CREATE FUNCTION notice_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'notice: written once'; END$rule$

CREATE TRIGGER notice_no_delete BEFORE DELETE ON public.notice FOR EACH ROW EXECUTE FUNCTION notice_no_delete()

ALTER TABLE notice ENABLE ALWAYS TRIGGER notice_no_delete

CREATE TRIGGER notice_no_delete_truncate BEFORE TRUNCATE ON public.notice FOR EACH STATEMENT EXECUTE FUNCTION notice_no_delete()

ALTER TABLE notice ENABLE ALWAYS TRIGGER notice_no_delete_truncate

CREATE FUNCTION sight_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'sight: written once'; END$rule$

CREATE TRIGGER sight_no_update BEFORE UPDATE ON public.sight FOR EACH ROW EXECUTE FUNCTION sight_no_update()

ALTER TABLE sight ENABLE ALWAYS TRIGGER sight_no_update

CREATE FUNCTION sight_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'sight: written once'; END$rule$

CREATE TRIGGER sight_no_delete BEFORE DELETE ON public.sight FOR EACH ROW EXECUTE FUNCTION sight_no_delete()

ALTER TABLE sight ENABLE ALWAYS TRIGGER sight_no_delete

CREATE TRIGGER sight_no_delete_truncate BEFORE TRUNCATE ON public.sight FOR EACH STATEMENT EXECUTE FUNCTION sight_no_delete()

ALTER TABLE sight ENABLE ALWAYS TRIGGER sight_no_delete_truncate

CREATE FUNCTION dataset_edit_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'dataset_edit: written once'; END$rule$

CREATE TRIGGER dataset_edit_no_update BEFORE UPDATE ON public.dataset_edit FOR EACH ROW EXECUTE FUNCTION dataset_edit_no_update()

ALTER TABLE dataset_edit ENABLE ALWAYS TRIGGER dataset_edit_no_update

CREATE FUNCTION dataset_edit_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'dataset_edit: written once'; END$rule$

CREATE TRIGGER dataset_edit_no_delete BEFORE DELETE ON public.dataset_edit FOR EACH ROW EXECUTE FUNCTION dataset_edit_no_delete()

ALTER TABLE dataset_edit ENABLE ALWAYS TRIGGER dataset_edit_no_delete

CREATE TRIGGER dataset_edit_no_delete_truncate BEFORE TRUNCATE ON public.dataset_edit FOR EACH STATEMENT EXECUTE FUNCTION dataset_edit_no_delete()

ALTER TABLE dataset_edit ENABLE ALWAYS TRIGGER dataset_edit_no_delete_truncate

CREATE FUNCTION log_part_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'log_part: append-only'; END$rule$

CREATE TRIGGER log_part_no_update BEFORE UPDATE ON public.log_part FOR EACH ROW EXECUTE FUNCTION log_part_no_update()

ALTER TABLE log_part ENABLE ALWAYS TRIGGER log_part_no_update

CREATE FUNCTION log_part_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'log_part: append-only'; END$rule$

CREATE TRIGGER log_part_no_delete BEFORE DELETE ON public.log_part FOR EACH ROW EXECUTE FUNCTION log_part_no_delete()

ALTER TABLE log_part ENABLE ALWAYS TRIGGER log_part_no_delete

CREATE TRIGGER log_part_no_delete_truncate BEFORE TRUNCATE ON public.log_part FOR EACH STATEMENT EXECUTE FUNCTION log_part_no_delete()

ALTER TABLE log_part ENABLE ALWAYS TRIGGER log_part_no_delete_truncate

CREATE FUNCTION log_part_continues() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NOT EXISTS (SELECT 1 FROM log_part WHERE number = NEW.number)
AND (NEW.number = 1 OR EXISTS (
    SELECT 1 FROM log_part AS p
    WHERE p.number = NEW.number - 1 AND p.leaves_after = NEW.leaves_before))
AND NOT EXISTS (
    SELECT 1 FROM log_part AS p WHERE p.account = NEW.account AND p.last_seq > NEW.after_seq)
AND (NEW.after_seq = 0 OR EXISTS (
    SELECT 1 FROM log_part AS p WHERE p.account = NEW.account AND p.last_seq = NEW.after_seq))
AND EXISTS (SELECT 1 FROM account WHERE id = NEW.account AND seq >= NEW.last_seq)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'log_part: not the next one'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER log_part_continues BEFORE INSERT ON public.log_part FOR EACH ROW EXECUTE FUNCTION log_part_continues()

ALTER TABLE log_part ENABLE ALWAYS TRIGGER log_part_continues

CREATE FUNCTION log_checkpoint_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'log_checkpoint: signed'; END$rule$

CREATE TRIGGER log_checkpoint_no_update BEFORE UPDATE ON public.log_checkpoint FOR EACH ROW EXECUTE FUNCTION log_checkpoint_no_update()

ALTER TABLE log_checkpoint ENABLE ALWAYS TRIGGER log_checkpoint_no_update

CREATE FUNCTION log_checkpoint_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'log_checkpoint: signed'; END$rule$

CREATE TRIGGER log_checkpoint_no_delete BEFORE DELETE ON public.log_checkpoint FOR EACH ROW EXECUTE FUNCTION log_checkpoint_no_delete()

ALTER TABLE log_checkpoint ENABLE ALWAYS TRIGGER log_checkpoint_no_delete

CREATE TRIGGER log_checkpoint_no_delete_truncate BEFORE TRUNCATE ON public.log_checkpoint FOR EACH STATEMENT EXECUTE FUNCTION log_checkpoint_no_delete()

ALTER TABLE log_checkpoint ENABLE ALWAYS TRIGGER log_checkpoint_no_delete_truncate

CREATE FUNCTION log_checkpoint_grows() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NOT EXISTS (SELECT 1 FROM log_checkpoint WHERE size >= NEW.size)
AND EXISTS (SELECT 1 FROM log_part WHERE leaves_after >= NEW.size)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'log_checkpoint: not of a larger log'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER log_checkpoint_grows BEFORE INSERT ON public.log_checkpoint FOR EACH ROW EXECUTE FUNCTION log_checkpoint_grows()

ALTER TABLE log_checkpoint ENABLE ALWAYS TRIGGER log_checkpoint_grows

CREATE FUNCTION log_stamp_no_update() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'log_stamp: append-only'; END$rule$

CREATE TRIGGER log_stamp_no_update BEFORE UPDATE ON public.log_stamp FOR EACH ROW EXECUTE FUNCTION log_stamp_no_update()

ALTER TABLE log_stamp ENABLE ALWAYS TRIGGER log_stamp_no_update

CREATE FUNCTION log_stamp_no_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'log_stamp: append-only'; END$rule$

CREATE TRIGGER log_stamp_no_delete BEFORE DELETE ON public.log_stamp FOR EACH ROW EXECUTE FUNCTION log_stamp_no_delete()

ALTER TABLE log_stamp ENABLE ALWAYS TRIGGER log_stamp_no_delete

CREATE TRIGGER log_stamp_no_delete_truncate BEFORE TRUNCATE ON public.log_stamp FOR EACH STATEMENT EXECUTE FUNCTION log_stamp_no_delete()

ALTER TABLE log_stamp ENABLE ALWAYS TRIGGER log_stamp_no_delete_truncate

CREATE FUNCTION log_stamp_grows() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $rule$BEGIN IF (
NOT EXISTS (SELECT 1 FROM log_stamp WHERE size >= NEW.size)
AND EXISTS (SELECT 1 FROM log_checkpoint WHERE size = NEW.size)) IS NOT TRUE THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'log_stamp: not of a later one'; END IF; RETURN NEW; END$rule$

CREATE TRIGGER log_stamp_grows BEFORE INSERT ON public.log_stamp FOR EACH ROW EXECUTE FUNCTION log_stamp_grows()

ALTER TABLE log_stamp ENABLE ALWAYS TRIGGER log_stamp_grows
