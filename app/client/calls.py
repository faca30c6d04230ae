"""The calls of the contract, each written once, as steps.

A request that may be repeated safely is repeated when the connection fails or
the service says it is busy: reads always, releases because they carry an
``Idempotency-Key`` that stays the same over the attempts. Uploads, grants and
keys are sent once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from app.client.answers import members_of
from app.client.datasets import Facts
from app.client.errors import ProblemError
from app.client.models import (
    Access,
    Budget,
    Cap,
    Derivation,
    DryRun,
    Entry,
    Group,
    Key,
    Pause,
    Preview,
    Publication,
    ReceiptCheck,
    Release,
    StudyPlan,
    SyntheticRows,
    Verification,
)
from app.client.public_pages import LogCalls
from app.client.questions import Amount, OnWait, Question, amount, key_to_send, question
from app.client.releasing import (
    Call,
    CellPages,
    Line,
    Listing,
    Pages,
    Steps,
    deriving,
    dry_running,
    planning,
    previewing,
    publishing,
    release_in,
    releasing,
    scripting,
    synthesizing,
)
from app.client.reviewing import ReviewCalls, at
from app.client.uploads import UploadCalls

D = TypeVar("D", bound=Facts)

_ID = re.compile(r"[\w.~-]+", re.ASCII)
_NOT_THERE = {404, 422}
"""What the service answers to an id that names nothing, or cannot be one."""
_ACTIVE = "active"
_MOST_NAMES = 10
"""How many names of data sets a refusal mentions."""


class Calls(ReviewCalls, LogCalls, UploadCalls[D], Generic[D]):
    """The methods of both desks. ``D`` is the kind of data set that they return."""

    line: Line

    # Data sets

    @Listing
    def datasets(self) -> Pages[D]:
        """Yield every data set, newest first."""
        return Pages("/v1/datasets", self.dataset_of)

    @Call
    def dataset(self, name: Facts | str) -> Steps[D]:
        """Return a data set by its name or id: its public facts, and what may be asked of it.

        A name is that of the data set which has it now. An archived or deleted one has its id
        alone.

        Raises
        ------
        ProblemError
            ``not-found``: no data set has this id or name.
        """
        wanted = name.id if isinstance(name, Facts) else name
        if _ID.fullmatch(wanted):
            try:
                response = yield from self.line.read(f"/v1/datasets/{wanted}")
            except ProblemError as problem:
                if problem.status not in _NOT_THERE:
                    raise
            else:
                return self.dataset_of(response.json())
        return (yield from self._named(wanted))

    def _named(self, name: str) -> Steps[D]:
        pages: Pages[D] | None = Pages("/v1/datasets", self.dataset_of)
        names: list[str] = []
        while pages is not None:
            found, pages = yield from pages.turned(self.line)
            for dataset in found:
                if dataset.name == name and dataset.status == _ACTIVE:
                    return dataset
            names += [each.name for each in found if each.status == _ACTIVE]
        there = ", ".join(map(repr, names[:_MOST_NAMES])) or "none"
        detail = f"No data set has the id or the name {name!r}. There are: {there}."
        raise ProblemError(status=404, body={"code": "not-found", "detail": detail})

    @Call
    def edit(self, /, dataset: Facts | str, *, reason: str, **changes: object) -> Steps[D]:
        """Change what is said of a data set, never its bounds (curators).

        ``changes``: ``policy``, ``description``, ``notices``, ``labels`` or ``checklist``.
        """
        body = {"reason": reason, **changes}
        response = yield from self.line.repeatable("PATCH", _of(dataset), json=body)
        return self.dataset_of(response.json())

    @Call
    def archive(self, dataset: Facts | str) -> Steps[D]:
        """Erase a data set's rows; its ledger and releases stay (curators)."""
        response = yield from self.line.send("POST", f"{_of(dataset)}/archive")
        return self.dataset_of(response.json())

    @Call
    def delete(self, dataset: Facts | str) -> Steps[D]:
        """Delete a data set that has no releases, and close its account (curators).

        Its rows are erased, and the same people can be uploaded again with a full budget.

        Raises
        ------
        ProblemError
            ``dataset-has-releases``; ``newer-version``: delete that one first.
        """
        response = yield from self.line.send("DELETE", _of(dataset))
        return self.dataset_of(response.json())

    @Call
    def budget(self, dataset: Facts | str) -> Steps[Budget]:
        """Return what is left of a data set's budget."""
        response = yield from self.line.read(f"{_of(dataset)}/budget")
        return Budget.model_validate_json(response.content)

    @Call
    def grant(
        self, dataset: Facts | str, *, epsilon: Amount, reason: str, expires: str | None = None
    ) -> Steps[None]:
        """Raise a data set's total budget, for good or until ``expires``, ISO 8601 (curators)."""
        body = {"epsilon": amount(epsilon), "reason": reason, "expires": expires}
        yield from self.line.send("POST", f"{_of(dataset)}/grants", json=body)

    @Call
    def cap(
        self, dataset: Facts | str, *, person: str, epsilon: Amount | None, reason: str
    ) -> Steps[Cap]:
        """Cap what one person may use of a data set's budget; None removes the limit (curators)."""
        limit = None if epsilon is None else amount(epsilon)
        body = {"person": person, "epsilon": limit, "reason": reason}
        response = yield from self.line.repeatable("PUT", f"{_of(dataset)}/caps", json=body)
        return Cap.model_validate_json(response.content)

    @Listing
    def caps(self, dataset: Facts | str) -> Pages[Cap]:
        """Yield the caps on a data set's budget (curators)."""
        return Pages(f"{_of(dataset)}/caps", Cap.model_validate)

    @Call
    def access(self, dataset: Facts | str) -> Steps[Access | None]:
        """Return who may see a data set; None: everyone whose role allows it (curators)."""
        response = yield from self.line.read(f"{_of(dataset)}/access")
        return _access_in(response.content)

    @Call
    def restrict(
        self,
        dataset: Facts | str,
        *,
        persons: Sequence[str] = (),
        groups: Sequence[str] = (),
        reason: str,
    ) -> Steps[Access | None]:
        """Let only these persons and groups, admins and auditors see a data set (curators).

        So it is with all data sets that share its budget account. For everyone else they and
        their releases do not exist.
        """
        access = {"persons": [*persons], "groups": [*groups]}
        return (yield from self._set_access(dataset, access, reason))

    @Call
    def unrestrict(self, dataset: Facts | str, *, reason: str) -> Steps[None]:
        """Open a data set to everyone whose role allows it (curators)."""
        yield from self._set_access(dataset, None, reason)

    def _set_access(
        self, dataset: Facts | str, access: Mapping[str, Any] | None, reason: str
    ) -> Steps[Access | None]:
        body = {"access": access, "reason": reason}
        response = yield from self.line.repeatable("PUT", f"{_of(dataset)}/access", json=body)
        return _access_in(response.content)

    @Call
    def set_group(self, name: str, *, persons: Sequence[str], reason: str) -> Steps[Group]:
        """Say who is in a group; without persons it is empty (admins)."""
        body = {"name": name, "persons": [*persons], "reason": reason}
        response = yield from self.line.repeatable("PUT", "/v1/groups", json=body)
        return Group.model_validate_json(response.content)

    @Listing
    def groups(self) -> Pages[Group]:
        """Yield the groups that admins have made (curators)."""
        return Pages("/v1/groups", Group.model_validate)

    # Releases

    @Call
    def preview(
        self,
        /,
        dataset: Facts | str,
        statistic: Question,
        *,
        epsilon: Amount | None = None,
        mechanism: str = "auto",
        norm: str = "auto",
        **options: object,
    ) -> Steps[Preview]:
        """Say what a release would cost and how noisy it would be; free, reads no data.

        ``options``: further members of the request, such as ``accuracy`` and ``assume``. With an
        ``accuracy`` and no ``epsilon`` it is weighed at the smallest that reaches it.
        """
        body = question(statistic, epsilon, mechanism, norm, **options)
        return (yield from previewing(self.line, _id(dataset), body))

    @Call
    def plan(
        self, dataset: Facts | str, questions: Sequence[Mapping[str, Any]]
    ) -> Steps[StudyPlan]:
        """Say what several questions would cost together; free, reads no data.

        Each has a ``statistic``, and an ``epsilon`` or the ``accuracy`` that is wanted, like the
        body of a preview.
        """
        return (yield from planning(self.line, _id(dataset), questions))

    @Call
    def dry_run(
        self,
        /,
        dataset: Facts | str,
        statistic: Question,
        *,
        epsilon: Amount,
        mechanism: str = "auto",
        norm: str = "auto",
        **options: object,
    ) -> Steps[DryRun]:
        """Ask the same of synthetic rows: free, and an answer to try a program with.

        ``options``: further members of the request, such as ``assume``.
        """
        body = question(statistic, epsilon, mechanism, norm, **options)
        return (yield from dry_running(self.line, _id(dataset), body))

    @Call
    def synthetic_rows(self, dataset: Facts | str) -> Steps[bytes]:
        """Return synthetic rows, as a CSV file of the data set's form; free."""
        response = yield from self.line.read(f"{_of(dataset)}/dry-runs/rows")
        return response.content

    @Call
    def release(
        self,
        /,
        dataset: Facts | str,
        statistic: Question,
        *,
        epsilon: Amount,
        mechanism: str = "auto",
        norm: str = "auto",
        fresh: bool = False,
        idempotency_key: str | None = None,
        wait: bool = True,
        on_wait: OnWait | None = None,
        **options: object,
    ) -> Steps[Release]:
        """Release a statistic and charge its epsilon, once, however often it is sent.

        The same question of the same person to the same data set at the same epsilon is one
        release: asked again, tomorrow or on another machine, it gives the stored answer,
        uncharged. So a cell of a notebook may be run twice. It is the same question in another
        spelling too, such as 40.0 for 40, and with another ``purpose``. ``fresh=True`` draws new
        noise and charges the budget again.

        A release that is drawn in the background is waited for, however long
        that takes: it is charged already. One that needs a review is not: it
        comes back with the ``status`` ``awaiting_review``.

        Parameters
        ----------
        dataset
            The data set or its id.
        statistic
            The question, e.g. ``{"kind": "mean", "columns": ["income"]}``.
        epsilon
            Its price: decimal text, or a number.
        mechanism, norm
            ``"auto"`` leaves the choice to the service.
        fresh
            Draw again what was released before: new noise, and a new charge. Asked so, a question
            that was not approved is put to the curator again.
        idempotency_key
            A name for the question, in place of the one that it has by itself, ``"auto"``.
        wait
            False returns a job at once, its ``status`` being ``running``;
            :meth:`released` shows it later.
        on_wait
            Called before each pause with the running release and the seconds. By default a line
            on the terminal or in the notebook shows them.
        options
            Further members of the request, such as ``purpose``.

        Raises
        ------
        ProblemError
            The service refused; nothing was charged (but for ``release-void``).
        UnreachableError
            No answer after every attempt; carries the key to ask again with.
        """
        asked = _id(dataset)
        body = question(statistic, epsilon, mechanism, norm, **options)
        key = key_to_send(idempotency_key, fresh=fresh)
        steps = releasing(self.line, asked, body, key=key, wait=wait, on_wait=on_wait)
        return (yield from steps)

    @Call
    def derive(
        self,
        release: Release | str,
        statistic: Question,
        *,
        together_with: Sequence[Release | str] = (),
    ) -> Steps[Derivation]:
        """Compute a statistic from a release that is out; free, reads no data.

        From a release of ``moments``: any linear regression of its columns, and all that first
        and second moments determine, such as means, variances and correlations. ``together_with``
        names further releases of the same data set: their counts, histograms, sums, means or
        moments are combined, weighted by what is known of their noise.
        """
        return (yield from deriving(self.line, at(release), statistic, together_with))

    @Call
    def synthetic(
        self, release: Release | str, *, rows: int = 10_000, seed: int = 0, format: str = "csv"
    ) -> Steps[SyntheticRows]:
        """Make synthetic rows of a release of tables; free, reads no data.

        They are drawn from a graphical model of the released tables: ``to_frame()``,
        ``to_polars()`` or ``records()`` of the answer. The same ``seed`` makes the same file.
        ``format``: ``csv``, or ``parquet`` for its ``body`` alone.
        """
        body = {"rows": rows, "seed": seed, "format": format}
        return (yield from synthesizing(self.line, at(release), body))

    @Listing
    def cells(self, release: Release | str, *, table: int | None = None) -> Pages[dict[str, Any]]:
        """Yield the cells of a release of tables, or the numbers of one of groups, each a dict.

        They are read page by page, so that large answers need little memory. ``table``: only the
        cells of this table, counted from 0.
        """
        only = None if table is None else str(table)
        return CellPages(f"{at(release)}/cells", dict, {"table": only})

    @Listing
    def releases(self, *, status: str | None = None) -> Pages[Release]:
        """Yield the caller's releases, of one status if it is named; a curator sees everyone's.

        ``status``: ``awaiting_review``, ``changes_requested``, ``rejected``, ``withdrawn`` or
        ``expired``.
        """
        return Pages("/v1/releases", Release.model_validate, {"status": status})

    @Call
    def released(self, release: str) -> Steps[Release]:
        """Return one release by its id."""
        return release_in((yield from self.line.read(at(release))))

    @Call
    def script(self, release: Release | str, *, language: str = "python") -> Steps[str]:
        """Return a release as a program: ``python``, ``r`` or a Jupyter ``notebook``; free."""
        name = release.id if isinstance(release, Release) else release
        return (yield from scripting(self.line, name, language))

    # Publication

    @Call
    def publish(self, release: Release | str, *, reason: str) -> Steps[Publication]:
        """Make a release readable without a key, at the publication's ``address`` (curators)."""
        return (yield from publishing(self.line, at(release), reason))

    @Call
    def unpublish(self, release: Release | str, *, note: str) -> Steps[Publication]:
        """Withdraw a public release, permanently; its address shows the reason (curators)."""
        body, path = {"note": note}, f"{at(release)}/publication/withdrawal"
        response = yield from self.line.repeatable("POST", path, json=body)
        return Publication.model_validate_json(response.content)

    @Call
    def publication(self, release: Release | str) -> Steps[Publication]:
        """Return who made a release public, and who withdrew it."""
        response = yield from self.line.read(f"{at(release)}/publication")
        return Publication.model_validate_json(response.content)

    @Call
    def export(self, dataset: Facts | str, form: str) -> Steps[dict[str, Any]]:
        """Return what is public of a data set, as a catalogue reads it.

        ``form``: ``registry`` (Deployments Registry), ``datacite`` or ``croissant``.
        """
        response = yield from self.line.read(f"{_of(dataset)}/exports/{form}")
        return members_of(response.content)

    # The ledger

    @Listing
    def ledger(self, dataset: Facts | str) -> Pages[Entry]:
        """Yield the entries of a data set's account, oldest first (curators)."""
        return Pages(f"{_of(dataset)}/ledger", Entry.model_validate)

    @Call
    def verification(self, *, full: bool = False) -> Steps[Verification]:
        """Walk every chain and sum of the ledger (curators).

        Unless ``full``, a large ledger is walked from where the service last found it sound.
        """
        query = "?full=true" if full else ""
        response = yield from self.line.read(f"/v1/ledger/verification{query}")
        return Verification.model_validate_json(response.content)

    @Call
    def check_receipt(self, answer: Release | bytes) -> Steps[ReceiptCheck]:
        """Ask the service whether an answer's receipt is its own and fits its ledger.

        Offline, with a public key: :func:`app.client.check_receipt`.
        """
        body = answer.body if isinstance(answer, Release) else answer
        headers = {"Content-Type": "application/json"}
        path = "/v1/ledger/receipts"
        response = yield from self.line.repeatable("POST", path, content=body, headers=headers)
        return ReceiptCheck.model_validate_json(response.content)

    @Call
    def public_keys(self) -> Steps[bytes]:
        """Return the keys that sign this ledger's receipts, as a JSON Web Key set."""
        response = yield from self.line.read("/v1/ledger/public-keys")
        return response.content

    # Keys and the catalog

    @Call
    def create_key(
        self, *, name: str, role: str, expires: str | None = None, person: str | None = None
    ) -> Steps[Key]:
        """Make a key; its secret is in this answer and never again (admins).

        ``person`` gives it to the person of an earlier key.
        """
        body = {"name": name, "role": role, "expires": expires, "person": person}
        response = yield from self.line.send("POST", "/v1/keys", json=body)
        return Key.model_validate_json(response.content)

    @Listing
    def keys(self) -> Pages[Key]:
        """Yield every key without its secret (admins)."""
        return Pages("/v1/keys", Key.model_validate)

    @Call
    def revoke_key(self, key: str) -> Steps[None]:
        """Revoke a key by its id (admins)."""
        yield from self.line.send("DELETE", f"/v1/keys/{key}")

    @Call
    def allow_sign_in(self, key: str) -> Steps[None]:
        """Let a person sign in at their provider again, whose key of a sign-in, by its id, is
        revoked (admins)."""
        yield from self.line.repeatable("POST", f"/v1/keys/{key}/sign-in")

    @Call
    def pause(
        self, what: str, name: str, *, reason: str, cancel_waiting: bool = False
    ) -> Steps[int]:
        """Pause a person (by name) or a data set (by id); return how many were cancelled (admins).

        During the pause nothing is charged, and jobs that are already charged wait.
        ``cancel_waiting`` rejects what waits for a review, which has not been charged.
        """
        body = {"what": what, "name": name, "paused": True, "reason": reason}
        body["cancel_waiting"] = cancel_waiting
        response = yield from self.line.repeatable("PUT", "/v1/pauses", json=body)
        return int(response.json()["cancelled"])

    @Call
    def resume(self, what: str, name: str, *, reason: str) -> Steps[None]:
        """Let a paused person or data set go on (admins)."""
        body = {"what": what, "name": name, "paused": False, "reason": reason}
        yield from self.line.repeatable("PUT", "/v1/pauses", json=body)

    @Listing
    def pauses(self) -> Pages[Pause]:
        """Yield what is paused (admins)."""
        return Pages("/v1/pauses", Pause.model_validate)

    @Listing
    def catalog(self) -> Pages[dict[str, Any]]:
        """Yield every statistic and mechanism on offer, with its norms, theorem and limits."""
        return Pages("/v1/catalog", dict)


def _access_in(content: bytes) -> Access | None:
    found = members_of(content)["access"]
    return None if found is None else Access.model_validate(found)


def _id(dataset: Facts | str) -> str:
    return dataset.id if isinstance(dataset, Facts) else dataset


def _of(dataset: Facts | str) -> str:
    return f"/v1/datasets/{_id(dataset)}"
