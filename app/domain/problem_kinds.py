"""The kinds of refusals, in words that are public: what ``/problems/{code}`` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One sort of refusal: its code, HTTP status, title, meaning and remedy.

    ``extras`` names the additional members a problem of this kind carries,
    each with its meaning. ``retry_after_s`` is sent as ``Retry-After``.
    """

    code: str
    status: int
    title: str
    meaning: str
    remedy: str
    extras: Mapping[str, str] = field(default_factory=dict)
    retry_after_s: int | None = None


_LIMITED = {
    "limit": "the setting that was exceeded",
    "maximum": "its value",
    "retry_after": "the same number of seconds as in `Retry-After`",
}
_DECIDED = {
    "release_status": "of a release, its `status` now",
    "plan_status": "of a study plan, its `status` now",
    "by": "who brought it there, where somebody did",
    "at": "when (UTC)",
    "why": "the reason that was given, word for word",
}
_OF_FILES = (
    ProblemKind(
        "invalid-upload",
        422,
        "The uploaded file does not fit its spec",
        "The file could not be read as declared, or some cells are missing or unknown in a column "
        "that rejects them. Nothing was stored.",
        "Read `problems`, each kind of fault once: how often it is in which columns, and its first "
        "rows, counted from 1 after the header. `source` says which header is a column's. "
        "`missing`, `na`, `unreadable` and a category's `other` say in the spec what becomes of "
        "such cells; `decimal`, `thousands`, `format`, `true` and `false` say how they are "
        "written.",
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
_OF_VERSIONS = (
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
_OF_LINEAGE = (
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
KINDS = (
    ProblemKind(
        "invalid-request",
        422,
        "The request is not valid",
        "The request does not have the form this endpoint takes, or asks for something that does "
        "not fit the data set's public description. Nothing was charged.",
        "Read `errors`: each entry names the place in the request and what is wrong there.",
        {
            "errors": "list of {field, message}; of the input only numbers of conditions, and "
            "what is much like a known name, are repeated"
        },
    ),
    ProblemKind(
        "malformed-request",
        400,
        "The request could not be read",
        "The bytes of the request are not a well-formed request of their declared type.",
        "Check the framing and the Content-Type of what you send.",
    ),
    ProblemKind(
        "idempotency-key-missing",
        400,
        "The Idempotency-Key header is missing",
        "A release costs privacy budget, so it must be safe to send twice. Each release request "
        "carries an `Idempotency-Key` header of your choice: 1 to 200 printable ASCII characters.",
        "Send the header, with a fresh value (a UUID, say) for every new question.",
    ),
    ProblemKind(
        "idempotency-key-reused",
        422,
        "The Idempotency-Key was used for another request",
        "This person has already sent another request under the same key. A key belongs to the "
        "person and never expires.",
        "Send the first request again unchanged to get its answer, or choose a new key.",
    ),
    ProblemKind(
        "unauthorized",
        401,
        "A valid key is required",
        "The request carries no key, or one that is unknown, expired or revoked.",
        "Send `Authorization: Bearer <key>` with a key an admin has made for you.",
    ),
    ProblemKind(
        "sign-in-failed",
        403,
        "The sign-in failed",
        "The provider of identities did not sign this person in, or they have no role here.",
        "Begin again at the sign-in page. Where no group of yours has a role, ask an admin.",
    ),
    ProblemKind(
        "forbidden",
        403,
        "Your role does not allow this",
        "The key is valid, but its role may not use this endpoint.",
        "Ask a curator or an admin.",
    ),
    ProblemKind(
        "not-found",
        404,
        "There is nothing here",
        "Not found, or you have no permission to see it.",
        "Check the address and the id.",
    ),
    ProblemKind(
        "method-not-allowed",
        405,
        "This address does not take that method",
        "The address exists, but not for this HTTP method.",
        "See `/docs/reference` for the methods each address takes; the `Allow` header lists them.",
    ),
    ProblemKind(
        "unsupported-media-type",
        415,
        "The body has the wrong media type",
        "This endpoint takes another Content-Type.",
        "Send `application/json`, or `multipart/form-data` for an upload.",
    ),
    ProblemKind(
        "too-large",
        413,
        "The request is too large",
        "The body, or the data set in it, is above a limit of this service.",
        "Split the data or ask the operator to raise the limit named in `limit`.",
        {"limit": "the setting that was exceeded", "maximum": "its value"},
    ),
    *_OF_FILES,
    ProblemKind(
        "empty-dataset",
        422,
        "The data set has no rows",
        "Under replace_one a data set's row count is public, and with no rows there is nothing to "
        "release. Nothing was charged.",
        "Upload a data set with rows.",
    ),
    ProblemKind(
        "name-taken",
        409,
        "The name is taken",
        "Another object already has this name.",
        "Choose another name.",
    ),
    ProblemKind(
        "name-confusable",
        409,
        "The name looks like another person's",
        "Caps and reviews identify persons by their names, and this one could be mistaken.",
        "Give the key to that `person` if it is theirs, or choose a clearly different name.",
        {"person": "whose name it looks like"},
    ),
    ProblemKind(
        "last-admin-key",
        409,
        "This is the last admin key",
        "Without it, no one could make, list or revoke keys.",
        "Make another admin key first, and revoke this one with that.",
    ),
    ProblemKind(
        "target-fixed",
        409,
        "The account's target is fixed",
        "The account keeps zCDP. That all its releases together stay within its epsilon and delta "
        "is proved for a target chosen before the first answer. A grant could follow from answers, "
        "so none is taken, for a while neither. Nothing was changed.",
        "Open accounts with the most that may ever be spent, and hold back with caps, reviews and "
        "`max_epsilon_per_release`. For these people an admin can open a second account by "
        "`overlap` and a reason: its epsilon and its delta come on top of the first ones.",
    ),
    ProblemKind(
        "grant-too-large",
        422,
        "The grant is above the operator's limit",
        "The operator limits what one grant may add to a budget (`RELEASE_DESK_MAX_GRANT`), "
        "because a grant cannot be taken back. Nothing was granted.",
        "Check the amount: `1e3` is 1000. Grant at most `maximum`, or ask the operator to raise "
        "the limit.",
        {
            "requested": "the epsilon asked for, as decimal text",
            "maximum": "the most that one grant may add, as decimal text",
        },
    ),
    ProblemKind(
        "dataset-archived",
        409,
        "The data set is archived or deleted",
        "Its rows have been erased. Its ledger and past releases are kept, but nothing new can be "
        "released from it.",
        "Use another data set.",
    ),
    *_OF_VERSIONS,
    *_OF_LINEAGE,
    ProblemKind(
        "budget-exceeded",
        409,
        "The privacy budget does not cover this",
        "The release costs more than what remains of the data set's budget. Nothing was charged "
        "and nothing was drawn.",
        "Ask for a smaller epsilon. Where epsilons add up, a curator may grant more; the target of "
        "an account in zCDP is fixed.",
        {
            "requested": "the epsilon asked for, as decimal text",
            "remaining": "the epsilon that is left, as decimal text",
        },
    ),
    ProblemKind(
        "policy-refused",
        422,
        "The data set's policy does not allow this",
        "The curator has limited which statistics, or how large an epsilon, one release may have.",
        "See `policy` in the data set's description.",
        {"rule": "the rule of the policy that refused"},
    ),
    ProblemKind(
        "precondition",
        412,
        "The object has changed",
        "The `If-Match` header does not fit the object's present state.",
        "Read the object again and repeat the request with its new ETag.",
        _DECIDED,
    ),
    ProblemKind(
        "precondition-missing",
        428,
        "The If-Match header is missing",
        "A decision is about what the reviewer has seen, so it carries that state's ETag.",
        "Read the release and send its `ETag` as `If-Match`.",
    ),
    ProblemKind(
        "own-request",
        403,
        "You cannot review your own request",
        "The release or study plan was asked for by the same person, with any of their keys.",
        "Ask another curator, or withdraw the request.",
    ),
    ProblemKind(
        "not-awaiting-review",
        409,
        "The request does not wait for a review",
        "It never did, has been decided on or withdrawn, or has waited too long.",
        "Read the release or study plan: its `status` says what became of it.",
        _DECIDED,
    ),
    ProblemKind(
        "votes-complete",
        409,
        "Two reviewers have voted already",
        "This data set has two reviewers, and both votes are in. Where they are unlike, either of "
        "the two may revise theirs.",
        "Talk to the two reviewers.",
    ),
    ProblemKind(
        "not-your-turn",
        409,
        "The release does not wait for who asked",
        "A request can be revised while its reviewers want changes, and at no other time.",
        "Read the release: its `status` says whose turn it is.",
        _DECIDED,
    ),
    ProblemKind(
        "too-many-comments",
        409,
        "The release has too many comments",
        "What is said about a release is stored permanently, and reviewers cannot read that many.",
        "Decide on it, or talk to one another elsewhere.",
        {"maximum": "how many comments a release may have"},
    ),
    ProblemKind(
        "not-released",
        409,
        "The release has no result to publish",
        "Only a release that has its result, and whose moment has come, can be made public.",
        "Wait until its `status` is `released`. One that ended in another way has no result.",
    ),
    ProblemKind(
        "already-published",
        409,
        "The release is public already",
        "Somebody has published it before, and for another reason. Nothing was changed.",
        "Read who did, when and why at the release's `publication`.",
    ),
    ProblemKind(
        "not-published",
        409,
        "The release is not public",
        "It has never been published, so there is nothing to withdraw.",
        "Check the id, or publish it first.",
    ),
    ProblemKind(
        "publication-withdrawn",
        409,
        "The publication was withdrawn",
        "The release was public and has been withdrawn. What was withdrawn stays so, because its "
        "address says since when and why. Nothing was changed.",
        "Ask the question again with a new draw, and publish the new release.",
    ),
    ProblemKind(
        "withdrawn",
        410,
        "This publication was withdrawn",
        "A curator has withdrawn this release from the public. Its numbers are no longer shown.",
        "Read `note`, which says why.",
        {
            "withdrawn_by": "the person who withdrew it",
            "withdrawn_at": "when, in UTC",
            "note": "why",
        },
    ),
    ProblemKind(
        "plan-changed",
        409,
        "The release would be drawn otherwise than was reviewed",
        "The service has changed since the release or the study plan was asked for, and cannot "
        "draw as was reviewed. Nothing was charged.",
        "Reject or withdraw it; the same question, asked again, has a new plan to review.",
    ),
    ProblemKind(
        "plan-not-draft",
        409,
        "The study plan is no longer a draft",
        "A study plan can be changed and requested while it is a draft, and again while its "
        "reviewers want changes. Only a draft can be deleted. What reviewers decide on does not "
        "change.",
        "Withdraw it, and save another plan.",
        {"plan_status": "its `status` now"},
    ),
    ProblemKind(
        "plan-not-approved",
        409,
        "The study plan is not approved",
        "A question of a study plan can be drawn while the plan is approved, and until its "
        "approval expires. Where no reviewer had to approve the plan, it is drawn as long as the "
        "data set's policy asks for no review of the question. Nothing was charged.",
        "Read the plan: its `status` says where it stands. To ask again, save and request "
        "another plan.",
        {"plan_status": "its `status`, where that is the reason"},
    ),
    ProblemKind(
        "release-closed",
        409,
        "The release ended without a draw",
        "It waited for a review and was rejected or withdrawn, or no one decided in time. Nothing "
        "was charged, and its budget was given back.",
        "Read the release for the reason. To ask again, choose a new Idempotency-Key.",
        {"outcome": "rejected, withdrawn or expired", "release": "its id"},
    ),
    ProblemKind(
        "request-timeout",
        408,
        "The request took too long to arrive",
        "The request head or body did not arrive in the time this service waits for one.",
        "Send the request again over a faster connection; a release under the same "
        "Idempotency-Key is charged once.",
    ),
    ProblemKind(
        "rate-limited",
        429,
        "Too many requests",
        "This key, or without a key this address, has used up its requests for the moment.",
        "Wait as long as `Retry-After` says.",
        {"retry_after": "the same number of seconds as in `Retry-After`"},
    ),
    ProblemKind(
        "paused",
        409,
        "An operator has paused this",
        "Your releases, or the releases of this data set, have been paused. Nothing was charged. "
        "What had been charged before waits, and is drawn once they are resumed.",
        "Ask the operator.",
        {"what": "person or dataset: which of the two is paused"},
    ),
    ProblemKind(
        "too-much-stored",
        429,
        "You have had too much stored today",
        "Questions and answers are stored permanently, and each person has a daily limit in bytes. "
        "This release would exceed it. Nothing was charged.",
        "Ask again tomorrow (UTC), or ask the operator to raise the limit named in `limit`.",
        _LIMITED,
    ),
    ProblemKind(
        "too-many-jobs",
        429,
        "You have too many unfinished jobs",
        "This release would be a job, and as many of yours as may wait or be drawn at once do so "
        "already. Nothing was charged.",
        "Wait for one of them to end, or ask the operator to raise the limit named in `limit`. "
        "Releases that are no jobs are still answered.",
        _LIMITED,
    ),
    ProblemKind(
        "release-void",
        500,
        "The release could not be completed",
        "The charge was made, and no result was drawn that could be kept. This is final: the "
        "charge stands, because giving it back would say something about the data.",
        "Ask the operator to look in the log under this request id.",
    ),
    ProblemKind(
        "ledger-frozen",
        503,
        "The ledger is frozen",
        "The database is not the one that was last written, as far as its anchor knows, so "
        "nothing can be charged or changed until an operator has reconciled the two.",
        "Report this to the operator.",
        retry_after_s=60,
    ),
    ProblemKind(
        "not-ready",
        503,
        "The service is not ready",
        "The service runs, and something that releases need is missing: the newest schema, room "
        "on a disk, a disk that works, a file to open, or a data set's files.",
        "Report this to the operator. Send the request again under the same Idempotency-Key after "
        "`Retry-After` seconds.",
        {"unreadable_datasets": "of a probe, how many data sets cannot be read, if any"},
        retry_after_s=10,
    ),
    ProblemKind(
        "busy",
        503,
        "The service is busy",
        "Too many requests are waiting. Nothing was charged.",
        "Send the same request again after `Retry-After` seconds.",
        retry_after_s=1,
    ),
    ProblemKind(
        "dataset-unreadable",
        503,
        "The data set cannot be read",
        "The stored files of this data set cannot be opened, or are not those that were stored. "
        "Nothing was charged, and nothing is until they can be read again.",
        "Report this to the operator, who may have a backup of the files. Send the same request "
        "again after `Retry-After` seconds.",
        retry_after_s=10,
    ),
    ProblemKind(
        "clock-behind",
        503,
        "The server's clock is behind",
        "The clock of the server is behind the last entry of the ledger, so this would have a "
        "wrong date. Nothing was changed or charged, and nothing is until the clock is right.",
        "Report this to the operator, who sets the clock. Send the same request again after "
        "`Retry-After` seconds.",
        retry_after_s=60,
    ),
    ProblemKind(
        "internal",
        500,
        "Something went wrong here",
        "The service failed in a way that it did not expect.",
        "Report the request id to the operator. It is safe to repeat a release with the same "
        "Idempotency-Key.",
    ),
)
