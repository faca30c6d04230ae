"""The public document of a release: what strangers need to check it, and a signature over it all.

Behind the stored answer and what is said of its publication come two members::

    "proof":     that the entry which charged for it is in the public log, against a checkpoint,
                 and the time stamp of that checkpoint, once it has one
    "signature": a JSON Web Signature over the SHA-256 of every byte before it

The signature is made by the key of receipts. Its payload has the members ``ledger``, ``release``
and ``page``, and no ``answer``, so that neither passes for the other.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from app.domain.errors import SignerLostError
from app.domain.problems import Problem
from app.services.publishing.published import Published
from app.services.releases.receipts import Receipts
from app.services.transparency.log import EntryProof, LogService

_MEMBER = b',"signature":"'


class PublicDocuments:
    """Makes public documents, with their proofs and signatures."""

    def __init__(self, log: LogService, receipts: Receipts) -> None:
        self._log = log
        self._receipts = receipts

    def document(self, published: Published) -> bytes:
        """Return the public document of a release.

        Its proof is against the first checkpoint that covers it, so it stays as it is; it is left
        out until there is one, as is the time stamp of that checkpoint.

        Raises
        ------
        Problem
            ``busy`` while the key is not at hand.
        """
        proof = self._log.prove(published.release.account, published.release.seq)
        content = published.to_json(None if proof is None else proof_json(self._log, proof))
        try:
            signature = self._receipts.sign_page(published.id, content)
        except SignerLostError:
            raise Problem("busy", "The signing key is not at hand.") from None
        return b'%s%s%s"}' % (content[:-1], _MEMBER, signature)


def proof_json(log: LogService, proof: EntryProof) -> Mapping[str, Any]:
    """Return a proof: what is shown of the entry, and the way from its leaf to a signed root."""
    entry = proof.entry
    stamped = {} if proof.stamp is None else {"stamp": base64.b64encode(proof.stamp).decode()}
    return {
        "entry": {
            "ledger": log.ledger,
            "account": entry.account,
            "seq": entry.seq,
            "epoch": entry.epoch,
            "kind": entry.kind,
            "release": entry.release,
            "amount": entry.amount,
            "at": entry.at,
            "hash": entry.hash,
            "hidden": proof.hidden,
        },
        "index": proof.inclusion.index,
        "path": [each.hex() for each in proof.inclusion.path],
        "checkpoint": proof.checkpoint,
    } | stamped
