"""A typed client of the HTTP contract; it knows nothing of the service's insides.

>>> from app.client import ReleaseDesk
>>> desk = ReleaseDesk("http://127.0.0.1:8000", key="...")            # doctest: +SKIP
>>> desk.release(dataset, {"kind": "mean", "columns": ["income"]}, epsilon="0.5").value
...                                                                   # doctest: +SKIP
{'income': 981.2}
"""

from app.client.desk import ReleaseDesk
from app.client.errors import ClientError, ProblemError, ReceiptError, UnreachableError
from app.client.models import (
    Balance,
    Budget,
    Cap,
    Dataset,
    Derivation,
    Entry,
    Key,
    Preview,
    Receipt,
    ReceiptCheck,
    Release,
    Verification,
)
from app.client.receipts import check_receipt

__all__ = [
    "Balance",
    "Budget",
    "Cap",
    "ClientError",
    "Dataset",
    "Derivation",
    "Entry",
    "Key",
    "Preview",
    "ProblemError",
    "Receipt",
    "ReceiptCheck",
    "ReceiptError",
    "Release",
    "ReleaseDesk",
    "UnreachableError",
    "Verification",
    "check_receipt",
]
