"""Which account an upload belongs to, and what that account has fixed.

An account's charges add up to one epsilon for one person's rows in all its
data sets together. That needs one meaning of neighbours: a row replaced is
a row removed and one added, so under both at once the sum would promise
half of what it says. An account that a reconciliation has opened again has no
data set; what it has fixed is known from the digests of those it had, or else
from the first upload that is attached to it.
"""

from __future__ import annotations

import json
from fractions import Fraction

from app.domain.problems import invalid_request
from app.services.datasets.accounting import Meter, meter_of
from app.store import Findings, Reader, UnitOfWork, new_id, read_digest_history
from app.vault.lineage import Origin
from mechanisms.accounting import parse_delta
from mechanisms.exact.decimals import decimal_text
from mechanisms.privacy import Adjacency


def origin_of(
    reader: Reader | UnitOfWork,
    *,
    account: str | None,
    adjacency: Adjacency,
    delta: Fraction | None,
) -> Origin:
    """Return what an upload's account fixes: the one it names, or a new one.

    Raises
    ------
    Problem
        ``invalid-request``: there is no such account, or it has fixed something else.
    """
    asked = Origin(
        account=account or new_id("acc"),
        adjacency=str(adjacency),
        delta=None if delta is None else decimal_text(delta),
    )
    if account is None:
        return asked
    if reader.datasets.is_closed(account):
        raise invalid_request("spec.account", "is closed, since its data sets are deleted")
    fixed = _fixed(reader, account, asked)
    if fixed.adjacency != asked.adjacency:
        raise invalid_request(
            "spec.adjacency", f"must be {fixed.adjacency}, as in the account's other data sets"
        )
    if delta is not None and delta != delta_of(fixed.delta):
        raise invalid_request("spec.budget.delta", "is fixed when an account is opened")
    return fixed


def delta_of(text: object) -> Fraction | None:
    """Return the delta that an account's facts name."""
    return parse_delta(text) if isinstance(text, str) else None


def meter_of_lost(reader: Reader, found: Findings, account: str) -> Meter | None:
    """Return what an account counts in that is about to be charged for what was forgotten.

    Known from its data sets, or from the digests of those that are forgotten too;
    None where nothing shows it.
    """
    digests = (each.origin for each in found.forgotten if each.origin is not None)
    origin = (
        _first_origin(reader, account)
        or read_digest_history(reader).origin_of(account)
        or next((each for each in digests if each.account == account), None)
    )
    return None if origin is None else meter_of(delta_of(origin.delta))


def _first_origin(reader: Reader | UnitOfWork, account: str) -> Origin | None:
    """Return what the data set that an account was opened for has fixed, if there is one."""
    first = reader.datasets.first_of(account)
    if first is None:
        return None
    spec = json.loads(first.spec)
    return Origin(account=account, adjacency=spec["adjacency"], delta=spec.get("delta"))


def _fixed(reader: Reader | UnitOfWork, account: str, asked: Origin) -> Origin:
    first = _first_origin(reader, account)
    if first is not None:
        return first
    past = read_digest_history(reader)
    if account not in past.reopened:
        raise invalid_request("spec.account", "is not the account of a data set")
    return past.origin_of(account) or asked
