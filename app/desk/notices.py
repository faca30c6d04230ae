"""What a page says after an act: the address names it, the words are here."""

from __future__ import annotations

from collections.abc import Mapping

NOTICES: Mapping[str, str] = {
    "archived": "The data set is archived. Its rows are erased and its name is free; its releases "
    "and ledger stay.",
    "capped": "The cap is set.",
    "deleted": "The data set is deleted. Its rows are erased and its account is closed, unless "
    "another data set shares it; its ledger stays.",
    "discarded": "The upload is deleted. Nothing of it is stored.",
    "edited": "The edit is in the ledger.",
    "extended": "The rows are added. This is the new version; those before it stay as they were.",
    "granted": "The grant is in the ledger.",
    "approve": "Your vote is in the ledger: approved.",
    "reject": "Your vote is in the ledger: rejected.",
    "request_changes": "Your vote is in the ledger: changes are wanted.",
    "commented": "Your comment is there.",
    "read": "Marked as read.",
    "revised": "The new version waits for its reviewers.",
    "made": (
        "The key is made. Its secret was shown then, and is not shown again. If it is lost,"
        " revoke the key and make another one."
    ),
    "published": "The release is public now.",
    "revoked": "The key is revoked.",
    "uncapped": "The cap is lifted.",
    "unpublished": "The release is withdrawn from the public. Its address says so.",
    "uploaded": "Data set created. The rows are stored; the uploaded file was deleted.",
    "withdrawn": "The request is withdrawn. What was set aside for it is free again.",
}
"""The words for each value of ``?done=``; anything else says nothing."""
