"""The kinds of refusals of uploads: of their files, and of whose rows they are."""

from __future__ import annotations

from app.domain.problem_kind import ProblemKind

OF_FILES = (
    ProblemKind(
        "invalid-upload",
        422,
        "The uploaded file does not fit its spec",
        "The file could not be read as declared, or some cells are missing or unknown in a column "
        "that rejects them. Nothing was stored.",
        "Read `problems`, each kind of fault once: how often it is in which columns, and its first "
        "rows, counted from 1 after the header. `source` says which header is a column's. "
        "`missing`, `na`, `unreadable` and a category's `other` say in the spec what becomes of "
        "such cells.",
        {
            "problems": "list of {reason, count, rows, columns}, and file where there are several: "
            "columns is a list of {column, count, rows}, empty for a fault of whole rows or of the "
            "file, and rows are the first ones; cell values are never repeated"
        },
    ),
    ProblemKind(
        "source-unreadable",
        422,
        "The files of the source cannot be had",
        "No file lies where the source says, or the service cannot open one of them. Symbolic "
        "links are not followed. Nothing was stored.",
        "Check the address and who may read the files. An operator may look at them from the "
        "service's machine, as its user.",
    ),
    ProblemKind(
        "source-changed",
        409,
        "The source was written to while it was read",
        "A file of the source has changed, come or gone since the reading began, so what was read "
        "may be half of each. Nothing was stored.",
        "Wait until nothing writes to the source, or copy it, and register it again.",
    ),
)
OF_VERSIONS = (
    ProblemKind(
        "newer-version",
        409,
        "The data set has a newer version",
        "Rows are added to the newest version of a data set only, so that versions follow one "
        "another. Only the newest version can be deleted, since later ones have its rows. Nothing "
        "was changed.",
        "Extend the newest version, or delete that first. `newer` is one that is newer than yours.",
        {"newer": "a newer version"},
    ),
    ProblemKind(
        "dataset-has-releases",
        409,
        "The data set has releases",
        "A data set can be deleted or replaced until its first release, or until the first "
        "reservation for one. After that its people have been asked about. Nothing was changed.",
        "Archive it: that erases its rows, and keeps its account and releases. For a corrected "
        "file, upload a new data set with the same `account`.",
    ),
    ProblemKind(
        "not-extendable",
        409,
        "The data set cannot be extended",
        "Its `unit` makes one row of all rows of a person. With more rows that row would be "
        "another one, and the rows it is made of are not kept. Nothing was stored.",
        "Upload all rows, old and new, as a data set that shares the account.",
    ),
)
OF_LINEAGE = (
    ProblemKind(
        "overlapping-dataset",
        409,
        "The rows largely belong to an earlier data set",
        "The same people would get a second budget.",
        "Attach the upload to the earlier data set's account (`account` in the spec), or ask an "
        "admin to upload it with `overlap` and a reason, which the ledger keeps. Into a new "
        "version of the data set send the rows of new people only.",
        {
            "dataset": "the earlier data set",
            "account": "its account",
            "accounts": "instead, accounts that reconciliations have opened again, when only the "
            "row digests of a forgotten data set are known: it may be in any of them",
        },
    ),
    ProblemKind(
        "too-few-rows",
        409,
        "Too few rows to be compared with other people's data",
        "An answer could reveal whether single persons are in it. Nothing was compared or stored.",
        "Upload more rows, or ask an admin to upload it with `overlap` and a reason.",
        {"minimum": "how many different rows are compared with what others have uploaded"},
    ),
    ProblemKind(
        "too-many-overlaps",
        429,
        "Too many of your uploads overlapped other people's data",
        "Each such refusal reveals something about that data, so there are few in 24 hours.",
        "Wait as long as `Retry-After` says, or ask an admin to upload it with a reason.",
        {"maximum": "how many", "retry_after": "the same number of seconds as in `Retry-After`"},
    ),
    ProblemKind(
        "lineage-lost",
        503,
        "It is unknown whether these rows belong to an earlier data set",
        "The row digests of an earlier data set are missing or altered, so an upload cannot be "
        "compared with it. Nothing was stored.",
        "Ask the operator, who may have a backup of them. Attach the upload to one of `accounts` "
        "if its people are that account's; else an admin can upload with `overlap` and a reason.",
        {
            "dataset": "the earlier data set",
            "accounts": "instead, accounts that a reconciliation has opened again, of which "
            "the people are unknown until a data set is attached to them",
        },
        retry_after_s=60,
    ),
)
