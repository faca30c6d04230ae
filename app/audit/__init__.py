"""``release-desk audit privacy``: whether a running desk keeps what it promises of epsilon.

The audit is a client like any other, and believes nothing. It uploads worst neighbours as
throw-away data sets, has each offer of the catalog drawn many times from both, and certifies from
the draws alone how much epsilon they lose at least. :mod:`app.audit.report` has the proof.

May enter: what an audit asks, counts and reports. It knows the service by its client alone, and
may import that and the bounds of :mod:`mechanisms.auditing`.
"""

from app.audit.report import Findings, Offer, Terms, as_html, as_json, as_text
from app.audit.running import OnDraws, audit

__all__ = ["Findings", "Offer", "OnDraws", "Terms", "as_html", "as_json", "as_text", "audit"]
