"""What a page says after an act: the address names it, the words are here."""

from __future__ import annotations

from collections.abc import Mapping

NOTICES: Mapping[str, str] = {
    "archived": "The data set is archived. Its rows are erased; its releases and ledger stay.",
    "capped": "The cap is set.",
    "granted": "The grant is in the ledger.",
    "published": "The release is public now.",
    "uncapped": "The cap is lifted.",
    "unpublished": "The release is withdrawn from the public. Its address says so.",
    "withdrawn": "The request is withdrawn. What was set aside for it is free again.",
}
"""The words for each value of ``?done=``; anything else says nothing."""
