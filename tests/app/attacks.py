"""For every rule of the ledger, the statements that this rule alone refuses.

Each breaks one condition of one rule and is otherwise as the rules want it. They are written for
the ledger that :mod:`tests.app.rules_alone` makes: names that begin with ``$`` stand for its ids,
and ``$REPLACE`` is that verb on SQLite and INSERT on PostgreSQL, where nothing else keeps a row
from being there twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.domain.ledger import GENESIS
from tests.app.attack_parts import (
    ANSWERED,
    APPROVED,
    CHARGE,
    ENDED_ELSEWHERE,
    ENDING,
    GIVEN_BACK,
    GRANTED,
    HASHES,
    LAST,
    LAST_PART,
    LEAVES,
    LOGGED,
    NAMED_ELSEWHERE,
    REVISED,
    SET_ASIDE,
    Attack,
    attacks,
    entries,
    entry,
    hash_of,
    insert,
    leaf,
    log_part,
    move,
    release,
    revised,
)
from tests.app.ledgers import ANALYST, CURATOR


def approvals(amount: int = 30, **changes: object) -> Attack:
    """Return a debit of what is reserved, with some columns changed."""
    wanted: dict[str, object] = {
        "release": "'$reserved'", "reserved_after": f"p.reserved_after - {amount}",
    }  # fmt: skip
    return Attack(entry("debit", amount, **{**wanted, **changes}), (move(),))


def given_back(amount: int = 30, **changes: object) -> Attack:
    """Return what gives back what is reserved, with some columns changed."""
    return Attack(entry("unreserve", amount, **{"release": "'$reserved'", **changes}), (move(),))


OTHER_TOTAL = ["p.total_after + 1"]
OTHER_SPENT = ["p.spent_after + 1"]
OTHER_RESERVED = ["p.reserved_after + 1"]
_OPENED = (
    "INSERT INTO account (id, seq, total, spent, reserved, head)"
    f" VALUES ('acc_new', 1, 5, 0, 0, '{'f' * 64}')"
)


def opening(**changes: object) -> Attack:
    """Return the first entry of a new account, with some columns changed."""
    wanted: dict[str, object] = {
        "account": "'acc_new'", "seq": 1, "prev": f"'{GENESIS}'", "total_after": 5,
        "spent_after": 0, "reserved_after": 0,
    }  # fmt: skip
    return Attack(entry("open", 5, **{**wanted, **changes}), (_OPENED,))


_CONTINUES = [
    # The first entry.
    opening(kind="'grant'"),
    opening(prev=f"'{'e' * 64}'"),
    opening(total_after=6),
    opening(spent_after=1),
    opening(reserved_after=1),
    # The one before.
    *entries("grant", 5, prev=[f"'{'e' * 64}'", f"'{GENESIS}'"]),
    Attack(entry("grant", 5, seq="p.seq + 2"), (move(), move())),
    # what would continue the first entry of another account
    Attack(
        entry("grant", 5, account="'$third'").replace("ORDER BY", "AND p.seq = 1 ORDER BY"),
        (move("$third"),),
    ),
    Attack(entry("grant", 5, of="$later", epoch="p.epoch - 1"), (move("$later"),)),
    # What each kind does to the balance.
    *entries(
        "grant",
        5,
        total_after=["p.total_after + 6"],
        spent_after=OTHER_SPENT,
        reserved_after=OTHER_RESERVED,
    ),
    *entries(
        "expire",
        5,
        total_after=["p.total_after", "p.spent_after + p.reserved_after"],
        spent_after=OTHER_SPENT,
        reserved_after=OTHER_RESERVED,
    ),
    # more than remains
    *entries("expire", 9000, total_after=["p.total_after - 9000", "p.total_after"]),
    # A debit at once.
    *(
        Attack(entry("debit", amount, **{"idem": "'new'", **changes}), (move(),))
        for amount, changes in (
            (0, {}),
            (-5, {}),
            (5, {"total_after": "p.total_after + 5"}),
            (5, {"spent_after": "p.spent_after"}),
            (5, {"spent_after": "p.spent_after + 4"}),
            (5, {"reserved_after": "p.reserved_after - 5"}),
            (30, {"reserved_after": "p.reserved_after - 30", "release": "'$reserved'"}),
        )
    ),
    # The debit of something reserved.
    approvals(reserved_after="p.reserved_after"),
    approvals(total_after="p.total_after + 30"),
    approvals(spent_after="p.spent_after"),
    # what the entry of this number on another account granted
    Attack(
        entry(
            "debit",
            50,
            of="$other",
            release="'$foreign'",
            principal=f"'{CURATOR}'",
            reserved_after="p.reserved_after - 50",
        ),
        (move("$other"),),
    ),
    approvals(10),  # another entry's amount
    approvals(release="'rel_none'"),
    approvals(release="NULL"),
    approvals(29),
    approvals(7, release="'$foreign'"),  # on another account
    approvals(40, release="'$withdrawn'"),
    approvals(20, release="'$debited'"),
    approvals(principal="'person_bob'"),
    *entries(
        "burn",
        5,
        total_after=OTHER_TOTAL,
        spent_after=["p.spent_after"],
        reserved_after=OTHER_RESERVED,
    ),
    *(
        Attack(entry("reserve", amount, **{"idem": "'new'", **changes}), (move(),))
        for amount, changes in (
            (0, {}),
            (5, {"total_after": "p.total_after + 1"}),
            (5, {"spent_after": "p.spent_after + 1"}),
            (5, {"reserved_after": "p.reserved_after"}),
        )
    ),
    # Moving what is set aside to another version: only behind what gives the former back.
    *(
        Attack(entry("reserve", 5, **{"release": "'$reserved'", **changes}), (*before, move()))
        for before, changes in (
            (APPROVED, {}),
            (GIVEN_BACK, {"release": "'$waiting'"}),
            (GIVEN_BACK, {"principal": "'person_bob'"}),
        )
    ),
    # Giving back.
    given_back(total_after="p.total_after + 30"),
    given_back(spent_after="p.spent_after - 30"),
    given_back(reserved_after="p.reserved_after - 31"),
    given_back(release="'rel_none'"),
    given_back(release="NULL"),
    given_back(29),
    given_back(10),
    given_back(7, release="'$foreign'"),
    given_back(40, release="'$withdrawn'"),
    given_back(20, release="'$debited'"),
    Attack(entry("unreserve", 50, of="$other", release="'$foreign'"), (move("$other"),)),
    # The system account.
    *entries("key_created", 0, note=["NULL"]),
    *(
        Attack(entry(kind, 0, of="0", **changes), (move("0"),))
        for kind, changes in (
            ("open", {}),
            ("key_created", {"total_after": 1}),
            ("key_created", {"spent_after": 1}),
            ("key_created", {"reserved_after": 1}),
        )
    ),
]


def made_by(role: str, key: str, kind: str = "grant", **changes: object) -> Attack:
    """Return an entry by a key in a role."""
    of = "$main" if kind in ("grant", "debit") else "0"
    wanted: dict[str, object] = {"role": f"'{role}'", "key": key, "principal": f"'{CURATOR}'"}
    made = entry(kind, 0 if of == "0" else 5, of=of, **{**wanted, **changes})
    return Attack(made, (move(of),))


_MADE_BY = [
    made_by("system", "'$key'"),
    made_by("curator", "NULL"),
    made_by("curator", "'key_none'"),
    # an analyst's key, edited to be a curator's for as long as it takes
    made_by("curator", "'$analysts_key'", principal=f"'{ANALYST}'"),
    made_by("analyst", "'$analysts_key'", principal=f"'{ANALYST}'"),
    made_by("curator", "'$key'", principal="'person_bob'"),
    made_by("curator", "'$key'", "debit", principal="'person_bob'", idem="'new'"),
    made_by("curator", "'$key'", "key_created"),
    made_by("reviewer", "'$reviewers_key'", principal="'person_rev'"),
    made_by("reviewer", "'$reviewers_key'", "release_withdrawn", principal="'person_rev'"),
    made_by("analyst", "'$analysts_key'", "release_approved", principal=f"'{ANALYST}'"),
    made_by("elvis", "'$key'"),
]


def key(**changes: object) -> str:
    values: dict[str, object] = {
        "number": 99, "id": "'key_new'", "name": "'new'", "role": "'admin'", "person": "'new'",
        "secret_hash": "'new'", "created_by": "'mallory'", "created_at": "'now'",
        "expires_at": "NULL", "revoked_at": "NULL", "sorts_as": "'new'",
    }  # fmt: skip
    return insert("api_key", {**values, **changes}, verb="$REPLACE")


def revoked(setting: str, key_: str = "key") -> str:
    return f"UPDATE api_key SET {setting} WHERE id = '${key_}'"


def stepped(release_: str, *settings: str, before: tuple[str, ...] = ()) -> list[Attack]:
    """Return attacks each of which sets columns of a release."""
    return [
        Attack(f"UPDATE release SET {each} WHERE id = '${release_}'", before) for each in settings
    ]


_FACTS = (
    "number = 999", "id = 'rel_other'", "account = '$third'", "dataset = '$others'",
    "principal = 'person_bob'", "request = '[]'", "plan = '[]'", "fingerprint = 'other'",
    "created_at = 'then'",
)  # fmt: skip
_FORWARD = [
    *stepped("debited", *(f"attempts = attempts + 1, {fact}" for fact in _FACTS)),
    *stepped(
        "reserved", *(f"state = 'withdrawn', {fact}" for fact in _FACTS[3:]), before=GIVEN_BACK
    ),
    # Undecided, and what a decision must go with.
    *stepped("reserved", "state = 'withdrawn'", "state = 'debited', attempts = 1", "worker = 'w'"),
    *stepped("waiting", "state = 'rejected'", before=GIVEN_BACK),
    *stepped("reserved", "state = 'expired'", before=(*GIVEN_BACK, move(), entry("grant", 5))),
    *stepped("foreign", "state = 'debited', attempts = 1", before=NAMED_ELSEWHERE),
    *stepped(
        "reserved",
        "state = 'withdrawn', seq = 999",
        "state = 'withdrawn', attempts = 1",
        "state = 'debited'",
        "state = 'released'",
        "state = 'void'",
        f"state = 'debited', attempts = 1, seq = {LAST}",
        before=GIVEN_BACK,
    ),
    *stepped(
        "reserved",
        "state = 'withdrawn'",
        "state = 'debited', attempts = 1",
        f"state = 'debited', attempts = 0, seq = {LAST}",
        f"state = 'released', attempts = 1, seq = {LAST}",
        before=APPROVED,
    ),
    # Another version.
    *stepped(
        "reserved",
        f"seq = {LAST}, fingerprint = 'other'",
        "fingerprint = 'print'",
        f"seq = {LAST}, fingerprint = 'print', attempts = 1",
        before=REVISED,
    ),
    *stepped(
        "reserved",
        f"seq = {LAST}, state = 'withdrawn'",
        before=revised("(SELECT fingerprint FROM release WHERE id = '$reserved')"),
    ),
    *stepped(
        "reserved",
        f"seq = {LAST}, fingerprint = 'print'",
        before=(move(), entry("unreserve", 30, release="'$reserved'", fingerprint="'print'")),
    ),
    *stepped(
        "reserved",
        f"seq = {LAST}, fingerprint = 'print'",
        before=revised("'print'", idem="'new'"),
    ),
    # Being drawn.
    *stepped(
        "debited",
        "attempts = attempts + 1, seq = 999",
        "attempts = attempts + 1, state = 'void'",
        "attempts = attempts + 2",
        "attempts = attempts - 1",
        "attempts = attempts + 2, worker = 'w'",
        "attempts = attempts",
        "state = 'reserved', worker = 'w'",
        "state = 'reserved'",
        "state = 'withdrawn'",
        "state = 'released', attempts = attempts + 1",
    ),
    *stepped(
        "debited",
        "worker = 'mallory'",
        before=("UPDATE release SET worker = 'w' WHERE id = '$debited'",),
    ),
    # Final.
    *stepped(
        "released", "state = 'void'", "state = 'debited'", "result_hash = 'x'", "worker = 'w'"
    ),
    *stepped("withdrawn", "state = 'reserved'", "state = 'debited', attempts = 1"),
]


def dataset(**changes: object) -> str:
    values: dict[str, object] = {
        "number": 99, "id": "'ds_new'", "name": "'new'", "account": "'$main'", "spec": "'{}'",
        "status": "'active'", "rows": 3, "created_by": "'mallory'", "created_at": "'now'",
        "sorts_as": "'new'",
    }  # fmt: skip
    return insert("dataset", {**values, **changes}, verb="$REPLACE")


def archived(*settings: str) -> list[Attack]:
    return attacks(*(f"UPDATE dataset SET {each} WHERE id = '$dataset'" for each in settings))


def unasked(status: str) -> str:
    return f"UPDATE dataset SET status = '{status}', archived_at = 'then' WHERE id = '$unasked'"


def expiring(**changes: object) -> str:
    values: dict[str, object] = {
        "account": "'$main'", "seq": LAST, "amount": 5, "expires_at": "'later'",
        "expired_seq": "CAST(NULL AS integer)",
    }  # fmt: skip
    return insert("expiring", {**values, **changes})


def ended(setting: str = f"expired_seq = {LAST}", seq: int = 2) -> str:
    return f"UPDATE expiring SET {setting} WHERE account = '$main' AND seq = {seq}"


def cap(**changes: object) -> str:
    values: dict[str, object] = {
        "number": 99, "account": "'$main'", "person": "'person_eve'", "amount": 5, "used": 0,
    }  # fmt: skip
    return insert("cap", {**values, **changes}, verb="$REPLACE")


def study_plan(**changes: object) -> str:
    """Return a draft of a study plan, with some columns changed."""
    values: dict[str, object] = {
        "number": 99, "id": "'plan_new'", "account": "'$main'", "dataset": "'$dataset'",
        "person": f"'{ANALYST}'", "name": "'new'", "purpose": "NULL", "questions": "'[]'",
        "created_at": "'now'", "state": "'draft'", "turn": 1, "sorts_as": "'new'",
    }  # fmt: skip
    return insert("study_plan", {**values, **changes}, verb="$REPLACE")


def step_of(state: str) -> str:
    """Return the number of an entry of the system account about such a step."""
    kind = f"study_plan_{state}"
    return f"(SELECT max(seq) FROM entry WHERE account = '0' AND kind = '{kind}')"


def stepped(plan: str, state: str, *facts: str) -> str:
    """Return the step of a study plan by an entry that there is, with further changes."""
    changes = ", ".join((f"state = '{state}'", f"seq = {step_of(state)}", *facts))
    return f"UPDATE study_plan SET {changes} WHERE id = '${plan}'"


_ENDED_PLANS = {
    state: (
        move("0"),
        entry(f"study_plan_{state}", 0, of="0"),
        stepped("requested", state),
    )
    for state in ("approved", "rejected", "withdrawn", "expired")
}
_EXPIRED = _ENDED_PLANS["expired"][:2]
_AGAIN = "turn = turn + 1"


def kept_version(**changes: str) -> str:
    """Return the statement that keeps the version of the plan whose reviewers want changes."""
    names = ("study_plan", "turn", "name", "purpose", "questions", "requested_at")
    taken = {name: changes.get(name, "id" if name == "study_plan" else name) for name in names}
    return (
        f"INSERT INTO plan_revision ({', '.join(names)})"
        f" SELECT {', '.join(taken.values())} FROM study_plan WHERE id = '$returned'"
    )


_PLANS_FORWARD = [
    *attacks(
        *(
            f"UPDATE study_plan SET {fact} WHERE id = '$draft'"
            for fact in (
                "number = 999",
                "id = 'plan_other'",
                "account = '$other'",
                "dataset = '$others'",
                "person = 'person_eve'",
                "created_at = 'then'",
            )
        ),
        # by no entry, by one of another kind, and by another account's
        "UPDATE study_plan SET state = 'requested' WHERE id = '$draft'",
        f"UPDATE study_plan SET state = 'requested', seq = {step_of('approved')}"
        " WHERE id = '$draft'",
        "UPDATE study_plan SET state = 'requested', seq = 1 WHERE id = '$draft'",
        *(
            stepped("draft", "requested", fact)
            for fact in ("name = 'other'", "purpose = NULL", "questions = '[]'")
        ),
        # what there is no way to
        stepped("draft", "approved"),
        "UPDATE study_plan SET state = 'draft' WHERE id = '$requested'",
        stepped("requested", "requested"),
        stepped("approved", "approved"),
    ),
    *attacks(
        "UPDATE study_plan SET turn = 2 WHERE id = '$draft'",
        stepped("draft", "requested", _AGAIN),
        stepped("draft", "changes_requested"),
        stepped("returned", "approved"),
        stepped("returned", "changes_requested", _AGAIN),
        *(
            f"UPDATE study_plan SET {fact} WHERE id = '$returned'"
            for fact in ("name = 'other'", "purpose = NULL", "questions = '[]'")
        ),
        # without its version before, or with one that is not
        stepped("returned", "requested", _AGAIN),
    ),
    *(
        attack
        for name, value in (
            ("study_plan", "'$requested'"),
            ("turn", "turn + 1"),
            ("name", "'other'"),
            ("purpose", "NULL"),
            ("questions", "'[]'"),
        )
        for attack in attacks(
            stepped("returned", "requested", _AGAIN), before=(kept_version(**{name: value}),)
        )
    ),
    *attacks(
        stepped("returned", "requested"),
        stepped("returned", "requested", "turn = turn + 2"),
        f"UPDATE study_plan SET state = 'requested', {_AGAIN} WHERE id = '$returned'",
        before=(kept_version(),),
    ),
    *attacks(stepped("draft", "expired"), before=_EXPIRED),
    *attacks(
        stepped("approved", "expired", "expires_at = 'later'"),
        stepped("approved", "rejected"),
        before=(*_EXPIRED, *_ENDED_PLANS["rejected"][:2]),
    ),
    *(
        attack
        for state in ("rejected", "withdrawn", "expired")
        for attack in attacks(
            stepped("requested", "requested"),
            before=_ENDED_PLANS[state],
        )
    ),
]

ATTACKS: Mapping[str, Sequence[Attack]] = {
    "ledger_no_delete": attacks("DELETE FROM ledger"),
    "ledger_no_replace": attacks(
        "$REPLACE INTO ledger (number, id, epoch, created_at) VALUES (1, 'x', 1, 'now')",
        "INSERT INTO ledger (number, id, epoch, created_at) VALUES (2, 'x', 1, 'now')",
    ),
    "ledger_epoch_forward": attacks(
        "UPDATE ledger SET epoch = epoch + 1, number = 2",
        "UPDATE ledger SET epoch = epoch + 1, id = 'x'",
        "UPDATE ledger SET epoch = epoch + 1, created_at = 'then'",
        "UPDATE ledger SET epoch = epoch - 1",
        "UPDATE ledger SET epoch = epoch",
    ),
    "entry_no_update": attacks(
        "UPDATE entry SET note = 'x'",
        "UPDATE entry SET amount = 1 WHERE kind = 'debit'",
    ),
    "entry_no_delete": attacks(
        "DELETE FROM entry", f"DELETE FROM entry WHERE account = '$main' AND seq = {LAST}"
    ),
    "entry_no_replace": [
        # no key of its own, and continues its predecessor as it did
        Attack("$REPLACE INTO entry SELECT * FROM entry WHERE account = '$main' AND seq = 2"),
        Attack(entry("debit", 5, verb="$REPLACE", idem="'first'"), (move(),)),
    ],
    "entry_continues": _CONTINUES,
    "entry_not_ahead": [
        Attack(entry("grant", 5)),
        # other accounts are further on
        Attack(entry("grant", 5), ("UPDATE account SET seq = seq + 100 WHERE id <> '$main'",)),
    ],
    "entry_epoch": entries("grant", 5, epoch=["p.epoch + 1"]),
    "entry_made_by": _MADE_BY,
    "api_key_no_delete": attacks("DELETE FROM api_key", "DELETE FROM api_key WHERE id = '$key'"),
    "api_key_no_replace": attacks(
        key(number=1), key(id="'$key'"), key(secret_hash=f"'secret of {CURATOR}'")
    ),
    "api_key_revoked_once": attacks(
        *(
            revoked(f"revoked_at = 'now', {fact}")
            for fact in (
                "number = 999",
                "id = 'key_other'",
                "name = 'x'",
                "role = 'admin'",
                "person = 'person_bob'",
                "secret_hash = 'x'",
                "created_by = 'x'",
                "created_at = 'then'",
                "expires_at = 'never'",
                "sorts_as = 'x'",
            )
        ),
        revoked("role = 'admin'"),
        revoked("revoked_at = NULL"),
        revoked("revoked_at = 'later'", "revoked_key"),
    ),
    "account_no_delete": attacks("DELETE FROM account", "DELETE FROM account WHERE id = '$third'"),
    "account_no_replace": attacks(
        "$REPLACE INTO account (id, seq, total, spent, reserved, head)"
        " SELECT id, 1, total, 0, 0, head FROM account WHERE id = '$main'"
    ),
    "account_opens_empty": attacks(
        *(
            "INSERT INTO account (id, seq, total, spent, reserved, head)"
            f" VALUES ('acc_new', {opened_}, 'x')"
            for opened_ in ("2, 5, 0, 0", "0, 5, 0, 0", "1, 5, 1, 0", "1, 5, 0, 1")
        )
    ),
    "account_forward": attacks(
        *(
            f"UPDATE account SET {each} WHERE id = '$main'"
            for each in (
                "seq = seq + 1, id = 'acc_other'",
                "total = total + 1",
                "seq = seq - 1",
                "seq = seq + 1, spent = spent - 1",
            )
        )
    ),
    "release_no_delete": attacks("DELETE FROM release WHERE id = '$released'"),
    "release_no_replace": [
        Attack(
            release(verb="$REPLACE", id="'$released'"),
            (
                move(),
                entry("debit", 7, release="'$released'", idem="'new'", fingerprint="'print'"),
            ),
        ),
        Attack(
            release(verb="$REPLACE", number="(SELECT number FROM release WHERE id = '$released')"),
            CHARGE,
        ),
        # the charge of the release that goes by another name
        Attack(
            release(
                verb="$REPLACE",
                id="'$renamed'",
                **{
                    column: f"(SELECT {column} FROM release WHERE id = 'rel_renamed')"
                    for column in ("seq", "fingerprint")
                },
            )
        ),
    ],
    "release_charged": [
        *attacks(
            release(account="'$third'"),
            release(seq=999),
            release(id="'rel_other'"),
            release(fingerprint="'other'"),
            release(state="'reserved'", attempts=0),
            release(state="'released'", attempts=0),
            release(state="'void'", attempts=0),
            release(attempts=0),
            release(attempts=2),
            release(dataset="'ds_none'"),
            before=CHARGE,
        ),
        *attacks(
            release(),
            before=(
                *CHARGE,
                "UPDATE dataset SET status = 'archived', archived_at = 'now' WHERE id = '$dataset'",
            ),
        ),
        *attacks(
            release(state="'reserved'", attempts=1),
            release(),
            before=SET_ASIDE,
        ),
    ],
    "release_forward": _FORWARD,
    "dataset_no_delete": attacks("DELETE FROM dataset WHERE id = '$dataset'"),
    "dataset_no_replace": attacks(
        dataset(id="'$dataset'"),
        dataset(name="'people'"),
        dataset(number="(SELECT number FROM dataset WHERE id = '$dataset')"),
    ),
    "dataset_archived_once": [
        *archived(
            *(
                f"status = 'archived', archived_at = 'now', {fact}"
                for fact in (
                    "number = 999",
                    "id = 'ds_other'",
                    "name = 'other'",
                    "account = '$other'",
                    "spec = '[]'",
                    "rows = 4",
                    "rows = NULL",
                    "created_by = 'mallory'",
                    "created_at = 'then'",
                    "sorts_as = 'x'",
                )
            ),
            "status = 'active'",
        ),
        *attacks(
            "UPDATE dataset SET status = 'archived', archived_at = 'later'",
            "UPDATE dataset SET status = 'archived', archived_at = 'later' WHERE id = '$dataset'",
            before=("UPDATE dataset SET status = 'archived' WHERE id = '$dataset'",),
        ),
        *archived("status = 'deleted', archived_at = 'now'"),
        *attacks(
            "UPDATE dataset SET status = 'active' WHERE id = '$unasked'",
            "UPDATE dataset SET status = 'deleted', archived_at = 'later' WHERE id = '$unasked'",
            before=(unasked("archived"),),
        ),
        *attacks(
            "UPDATE dataset SET status = 'deleted' WHERE id = '$unasked'",
            before=(unasked("deleted"),),
        ),
    ],
    "lineage_no_update": attacks(f"UPDATE lineage SET sha256 = '{'b' * 64}'"),
    "lineage_no_delete": attacks("DELETE FROM lineage"),
    "lineage_no_replace": attacks(
        f"$REPLACE INTO lineage (dataset, sha256) VALUES ('$others', '{'b' * 64}')"
    ),
    "leaf_no_update": attacks(f"UPDATE leaf SET hash = '{'b' * 64}'"),
    "leaf_no_delete": attacks("DELETE FROM leaf"),
    "leaf_continues": [
        Attack(leaf(3, "$debited"), (ANSWERED,)),
        Attack(leaf(1, "$debited"), (ANSWERED,)),
        *attacks(leaf(2, "$released"), leaf(2, "rel_unknown"), leaf(2, "$debited")),
    ],
    "log_part_no_update": attacks(f"UPDATE log_part SET seed = '{'b' * 64}'"),
    "log_part_no_delete": attacks("DELETE FROM log_part"),
    "log_part_continues": attacks(
        log_part(number=1, leaves_before=0),
        log_part(number=f"{LAST_PART} + 2"),
        log_part(leaves_before=f"{LEAVES} + 1"),
        log_part(after_seq=0),
        log_part(after_seq=f"{LOGGED} + 1"),
        log_part(account="'$other'", after_seq=LOGGED, last_seq=1),
        log_part(last_seq=f"{LAST} + 1"),
        log_part(account="'acc_unknown'", after_seq=0),
    ),
    "log_checkpoint_no_update": attacks("UPDATE log_checkpoint SET note = 'mine'"),
    "log_checkpoint_no_delete": attacks("DELETE FROM log_checkpoint"),
    "log_checkpoint_grows": attacks(
        "INSERT INTO log_checkpoint (size, note) VALUES (1, 'smaller')",
        "INSERT INTO log_checkpoint (size, note) VALUES (999, 'more than there is')",
    ),
    "log_stamp_no_update": attacks(f"UPDATE log_stamp SET stamp = {HASHES}"),
    "log_stamp_no_delete": attacks("DELETE FROM log_stamp"),
    "log_stamp_grows": attacks(
        f"$REPLACE INTO log_stamp (size, stamp) SELECT size, {HASHES} FROM log_stamp",
        f"INSERT INTO log_stamp (size, stamp) VALUES (999, {HASHES})",
    ),
    "expiring_no_delete": attacks("DELETE FROM expiring"),
    "expiring_grant": [
        *attacks(
            expiring(expired_seq=999),
            expiring(account="'$other'"),
            expiring(seq=999),
            expiring(amount=6),
            before=GRANTED,
        ),
        # of a debit, of what was granted for good, and what ends already
        Attack(expiring(seq=3, amount=10)),
        Attack(expiring(), (move(), entry("grant", 5))),
        Attack(
            "$REPLACE INTO expiring SELECT * FROM expiring"
            " WHERE account = '$main' AND expired_seq IS NULL"
        ),
    ],
    "expiring_once": [
        *attacks(
            *(
                ended(f"expired_seq = {LAST}, {fact}")
                for fact in ("amount = 1", "expires_at = 'later'")
            ),
            ended("expired_seq = 999"),
            ended("expires_at = 'later'"),
            before=ENDING,
        ),
        # the end of a grant that has ended
        Attack(ended("expired_seq = expired_seq", 10)),
        # for another's grant, or by the end of another's
        Attack(ended("expired_seq = 3, account = '$third'"), ENDED_ELSEWHERE),
        Attack(ended("expired_seq = 3"), ENDED_ELSEWHERE),
        Attack(
            ended(),
            (*ENDED_ELSEWHERE, move(), entry("expire", 50, fingerprint=f"'{'d' * 64}'")),
        ),
        # for another grant, or by its end
        Attack(
            ended(f"expired_seq = {LAST}, seq = {LAST} - 1"),
            (*GRANTED, move(), entry("expire", 5, fingerprint="p.hash")),
        ),
        Attack(ended(), (move(), entry("expire", 60, fingerprint=hash_of(10)))),
        Attack(ended(), (move(), entry("expire", 50, fingerprint="'x'"))),
        # by an entry that ends nothing
        Attack(ended(), (move(), entry("grant", 50, fingerprint=hash_of(2)))),
    ],
    "cap_no_delete": attacks("DELETE FROM cap"),
    "cap_no_replace": attacks(
        cap(number="(SELECT min(number) FROM cap)"), cap(person=f"'{ANALYST}'")
    ),
    "cap_same_slice": attacks(
        *(
            f"UPDATE cap SET {each} WHERE person = '{ANALYST}'"
            for each in ("number = 999", "account = '$other'", "person = 'person_eve'")
        )
    ),
    "review_no_delete": attacks("DELETE FROM review"),
    "study_plan_no_delete": attacks("DELETE FROM study_plan WHERE id = '$approved'"),
    "study_plan_is_new": attacks(
        study_plan(state="'requested'"),
        study_plan(turn=2),
        study_plan(id="'$draft'"),
        study_plan(number="(SELECT number FROM study_plan WHERE id = '$draft')"),
        study_plan(dataset="'ds_none'"),
        study_plan(dataset="'$others'"),
        study_plan(account="'$other'"),
    ),
    "study_plan_forward": _PLANS_FORWARD,
    **{
        f"{table}_no_{verb}": attacks(statement.format(table))
        for table in ("revision", "vote", "review_comment", "notice", "sight", "dataset_edit")
        for verb, statement in (
            ("update", "UPDATE {} SET release = 'rel_other'"),
            ("delete", "DELETE FROM {}"),
        )
    },
    "plan_revision_no_update": attacks("UPDATE plan_revision SET questions = '[]'"),
    "plan_revision_no_delete": attacks("DELETE FROM plan_revision"),
    "plan_vote_no_update": attacks("UPDATE plan_vote SET decision = 'reject'"),
    "plan_vote_no_delete": attacks("DELETE FROM plan_vote"),
    "dataset_edit_no_update": attacks("UPDATE dataset_edit SET fields = '{}'"),
}
