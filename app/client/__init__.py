"""A typed client of the HTTP contract; it knows nothing of the service's insides.

>>> from app.client import ReleaseDesk
>>> desk = ReleaseDesk("http://127.0.0.1:8000", key="...")            # doctest: +SKIP
>>> desk.dataset("engel").mean("income", epsilon="0.5").value                # doctest: +SKIP
{'income': 981.2}

May enter: calls of the contract, and what is checked without the service. May import: nothing of
``app`` or ``mechanisms`` but ``app.tidy``, since it is a package of its own too.
"""

from app.client.datasets import AsyncDataset, Dataset
from app.client.desk import AsyncDesk, ReleaseDesk
from app.client.errors import (
    ClientError,
    MissingPackageError,
    ProblemError,
    ReceiptError,
    UnreachableError,
)
from app.client.models import (
    Access,
    Balance,
    Budget,
    Cap,
    Derivation,
    DryRun,
    Entry,
    Group,
    Key,
    Preview,
    Publication,
    Receipt,
    ReceiptCheck,
    Release,
    SavedPlan,
    StudyPlan,
    SyntheticRows,
    Verification,
)
from app.client.offline import (
    Checkpoint,
    check_checkpoint,
    check_growth,
    check_receipt,
    check_stamp,
)
from app.client.public_pages import Consistency, Inclusion, PageCheck, check_page
from app.client.reviewing import Comment, Notice, PlanSheet, Sheet, Version, View
from app.client.uploads import DatasetVersion

__all__ = [
    "Access",
    "AsyncDataset",
    "AsyncDesk",
    "Balance",
    "Budget",
    "Cap",
    "Checkpoint",
    "ClientError",
    "Comment",
    "Consistency",
    "Dataset",
    "DatasetVersion",
    "Derivation",
    "DryRun",
    "Entry",
    "Group",
    "Inclusion",
    "Key",
    "MissingPackageError",
    "Notice",
    "PageCheck",
    "PlanSheet",
    "Preview",
    "ProblemError",
    "Publication",
    "Receipt",
    "ReceiptCheck",
    "ReceiptError",
    "Release",
    "ReleaseDesk",
    "SavedPlan",
    "Sheet",
    "StudyPlan",
    "SyntheticRows",
    "UnreachableError",
    "Verification",
    "Version",
    "View",
    "check_checkpoint",
    "check_growth",
    "check_page",
    "check_receipt",
    "check_stamp",
]
