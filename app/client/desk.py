"""The client: one method per call of the contract.

A request that may be repeated safely is repeated when the connection fails or
the service says it is busy: reads always, releases because they carry an
``Idempotency-Key`` that stays the same over the attempts. Uploads, grants and
keys are sent once.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from app.client.errors import ProblemError, UnreachableError
from app.client.models import (
    Budget,
    Cap,
    Dataset,
    Derivation,
    Entry,
    Key,
    Pause,
    Preview,
    ReceiptCheck,
    Release,
    Verification,
)

_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_ACCEPTED = 202
_RUNNING = "running"
_TRY_AGAIN = "busy"

Question = Mapping[str, object]
OnWait = Callable[[Release, float], None]


class ReleaseDesk:
    """A connection to one service, as one person.

    Parameters
    ----------
    url
        Where the service is, e.g. ``http://127.0.0.1:8000``.
    key
        The person's API key.
    timeout_s
        How long to wait for one answer.
    attempts
        How often a repeatable request is sent at most.
    transport
        An httpx transport to use instead of the network.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = 60.0,
        attempts: int = 5,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Accept": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout_s, transport=transport
        )
        self._attempts = attempts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # Data sets

    def upload(self, file: Path | str, spec: Mapping[str, object]) -> Dataset:
        """Upload a CSV, CSV.gz or Parquet file under a public spec (curators)."""
        path = Path(file)
        with path.open("rb") as stream:
            response = self._send(
                "POST",
                "/v1/datasets",
                files={"file": (path.name, stream), "spec": (None, json.dumps(spec))},
            )
        return Dataset.model_validate_json(response.content)

    def datasets(self) -> Iterator[Dataset]:
        """Yield every data set's public facts."""
        return map(Dataset.model_validate, self._items("/v1/datasets"))

    def dataset(self, dataset: Dataset | str) -> Dataset:
        """Return one data set's public facts."""
        return Dataset.model_validate_json(self._read(_of(dataset)).content)

    def archive(self, dataset: Dataset | str) -> Dataset:
        """Erase a data set's rows; its ledger and releases stay (curators)."""
        response = self._send("POST", f"{_of(dataset)}/archive")
        return Dataset.model_validate_json(response.content)

    def budget(self, dataset: Dataset | str) -> Budget:
        """Return what is left of a data set's budget."""
        return Budget.model_validate_json(self._read(f"{_of(dataset)}/budget").content)

    def grant(
        self, dataset: Dataset | str, *, epsilon: str, reason: str, expires: str | None = None
    ) -> None:
        """Raise a data set's total budget, for good or until ``expires``, ISO 8601 (curators)."""
        body = {"epsilon": str(epsilon), "reason": reason, "expires": expires}
        self._send("POST", f"{_of(dataset)}/grants", json=body)

    def cap(self, dataset: Dataset | str, *, person: str, epsilon: str | None, reason: str) -> Cap:
        """Cap what one person may use of a data set's budget; None lifts the cap (curators)."""
        limit = None if epsilon is None else str(epsilon)
        body = {"person": person, "epsilon": limit, "reason": reason}
        response = self._repeatable("PUT", f"{_of(dataset)}/caps", json=body)
        return Cap.model_validate_json(response.content)

    def caps(self, dataset: Dataset | str) -> Iterator[Cap]:
        """Yield the caps on a data set's budget (curators)."""
        return map(Cap.model_validate, self._items(f"{_of(dataset)}/caps"))

    # Releases

    def preview(
        self,
        dataset: Dataset | str,
        statistic: Question,
        *,
        epsilon: str,
        mechanism: str = "auto",
        norm: str = "auto",
        **options: object,
    ) -> Preview:
        """Say what a release would cost and how noisy it would be; free, reads no data.

        ``options``: ``accuracy`` and ``assume_rows`` of the contract.
        """
        body = {**question(statistic, epsilon, mechanism, norm), **options}
        response = self._repeatable("POST", f"{_of(dataset)}/previews", json=body)
        return Preview.model_validate_json(response.content)

    def release(
        self,
        dataset: Dataset | str,
        statistic: Question,
        *,
        epsilon: str,
        mechanism: str = "auto",
        norm: str = "auto",
        idempotency_key: str | None = None,
        wait: bool = True,
        on_wait: OnWait | None = None,
    ) -> Release:
        """Release a statistic and charge its epsilon, once, however often it is sent.

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
            Its price, as decimal text.
        mechanism, norm
            ``"auto"`` leaves the choice to the service.
        idempotency_key
            Made when not given. The same key and question again give the same
            stored answer, uncharged.
        wait
            False returns a job at once, its ``status`` being ``running``;
            :meth:`released` shows it later.
        on_wait
            Called before each pause with the running release and the seconds.

        Raises
        ------
        ProblemError
            The service refused; nothing was charged (but for ``release-void``).
        UnreachableError
            No answer after every attempt; carries the key to ask again with.
        """
        key = idempotency_key or str(uuid.uuid4())
        path = f"{_of(dataset)}/releases"
        body = question(statistic, epsilon, mechanism, norm)
        headers = {"Idempotency-Key": key}
        response = self._repeatable("POST", path, json=body, headers=headers)
        if response.status_code == _ACCEPTED and wait and _release(response).status == _RUNNING:
            self._wait(response, key, on_wait)
            # the stored bytes, or the refusal that says it has none
            response = self._repeatable("POST", path, json=body, headers=headers)
        return _release(response)

    def _wait(self, response: httpx.Response, key: str, on_wait: OnWait | None) -> None:
        """Ask for a running release, whenever the service says it is worth it, until it is not."""
        path = response.headers["Location"]
        while (release := _release(response)).status == _RUNNING:
            pause_s = float(response.headers.get("Retry-After", _LONGEST_PAUSE_S))
            if on_wait is not None:
                on_wait(release, pause_s)
            time.sleep(pause_s)
            try:
                response = self._read(path)
            except UnreachableError as error:
                raise UnreachableError(str(error), idempotency_key=key) from error

    def derive(self, release: Release | str, statistic: Question) -> Derivation:
        """Compute a statistic from a release that is out; free, reads no data.

        From a release of ``moments``: any linear regression of its columns, and all that first
        and second moments determine, such as means, variances and correlations.
        """
        path, body = f"{_at(release)}/derivations", {"statistic": dict(statistic)}
        return Derivation.model_validate_json(self._repeatable("POST", path, json=body).content)

    def releases(self, *, status: str | None = None) -> Iterator[Release]:
        """Yield the caller's releases, of one status if it is named; a curator sees everybody's.

        ``status``: ``awaiting_review``, ``rejected``, ``withdrawn`` or ``expired``.
        """
        return map(Release.model_validate, self._items("/v1/releases", status=status))

    def released(self, release: str) -> Release:
        """Return one release by its id."""
        return _release(self._read(f"/v1/releases/{release}"))

    # Reviews

    def approve(self, release: Release | str, *, reason: str) -> Release:
        """Approve a release that awaits a review: it is charged and drawn (curators)."""
        return self._decide(release, "approve", reason)

    def reject(self, release: Release | str, *, reason: str) -> Release:
        """Reject a release that awaits a review; its budget is given back (curators)."""
        return self._decide(release, "reject", reason)

    def _decide(self, release: Release | str, decision: str, reason: str) -> Release:
        path = _at(release)
        seen = self._read(path).headers["ETag"]
        body, headers = {"decision": decision, "reason": reason}, {"If-Match": seen}
        return _release(self._send("POST", f"{path}/decision", json=body, headers=headers))

    def withdraw(self, release: Release | str) -> Release:
        """Withdraw a release of one's own that awaits a review."""
        return _release(self._repeatable("POST", f"{_at(release)}/withdrawal"))

    # The ledger

    def ledger(self, dataset: Dataset | str) -> Iterator[Entry]:
        """Yield the entries of a data set's account, oldest first (curators)."""
        return map(Entry.model_validate, self._items(f"{_of(dataset)}/ledger"))

    def verification(self) -> Verification:
        """Walk every chain and sum of the ledger (curators)."""
        return Verification.model_validate_json(self._read("/v1/ledger/verification").content)

    def check_receipt(self, answer: Release | bytes) -> ReceiptCheck:
        """Ask the service whether an answer's receipt is its own and fits its ledger.

        Offline, with a public key: :func:`app.client.check_receipt`.
        """
        body = answer.body if isinstance(answer, Release) else answer
        headers = {"Content-Type": "application/json"}
        path = "/v1/ledger/receipts"
        response = self._repeatable("POST", path, content=body, headers=headers)
        return ReceiptCheck.model_validate_json(response.content)

    def public_keys(self) -> bytes:
        """Return the keys that sign this ledger's receipts, as a JSON Web Key set."""
        return self._read("/v1/ledger/public-keys").content

    # Keys and the catalog

    def create_key(
        self, *, name: str, role: str, expires: str | None = None, person: str | None = None
    ) -> Key:
        """Make a key; its secret is in this answer and never again (admins).

        ``person`` gives it to the person of an earlier key.
        """
        body = {"name": name, "role": role, "expires": expires, "person": person}
        return Key.model_validate_json(self._send("POST", "/v1/keys", json=body).content)

    def keys(self) -> Iterator[Key]:
        """Yield every key without its secret (admins)."""
        return map(Key.model_validate, self._items("/v1/keys"))

    def revoke_key(self, key: str) -> None:
        """Revoke a key by its id (admins)."""
        self._send("DELETE", f"/v1/keys/{key}")

    def pause(self, what: str, name: str, *, reason: str, cancel_waiting: bool = False) -> int:
        """Pause a person (by name) or a data set (by id); return how many were cancelled (admins).

        Nothing is charged meanwhile, and jobs charged before wait. ``cancel_waiting`` rejects
        what waits for a review, which has not been charged.
        """
        body = {"what": what, "name": name, "paused": True, "reason": reason}
        body["cancel_waiting"] = cancel_waiting
        return int(self._repeatable("PUT", "/v1/pauses", json=body).json()["cancelled"])

    def resume(self, what: str, name: str, *, reason: str) -> None:
        """Let a paused person or data set go on (admins)."""
        body = {"what": what, "name": name, "paused": False, "reason": reason}
        self._repeatable("PUT", "/v1/pauses", json=body)

    def pauses(self) -> Iterator[Pause]:
        """Yield what is paused (admins)."""
        return map(Pause.model_validate, self._items("/v1/pauses"))

    def catalog(self) -> Iterator[dict[str, Any]]:
        """Yield every statistic and mechanism on offer, with its norms, theorem and limits."""
        return self._items("/v1/catalog")

    # Sending

    def _items(self, path: str, **filters: str | None) -> Iterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            wanted = {**filters, "cursor": cursor}
            params = {name: text for name, text in wanted.items() if text is not None}
            page = self._read(path, params=params).json()
            yield from page["items"]
            cursor = page.get("next")
            if not cursor:
                return

    def _read(self, path: str, *, params: Mapping[str, str] | None = None) -> httpx.Response:
        return self._repeatable("GET", path, params=params)

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **content)
        except httpx.TransportError as error:
            raise UnreachableError(_unreachable(error)) from error
        if response.is_error:
            raise ProblemError.from_response(response)
        return response

    def _repeatable(self, method: str, path: str, **content: Any) -> httpx.Response:
        for attempt in range(1, self._attempts + 1):
            pause_s = min(_PAUSE_S * 2 ** (attempt - 1), _LONGEST_PAUSE_S)
            try:
                return self._send(method, path, **content)
            except ProblemError as problem:
                if problem.code != _TRY_AGAIN or attempt == self._attempts:
                    raise
            except UnreachableError as error:
                if attempt == self._attempts:
                    key = content.get("headers", {}).get("Idempotency-Key")
                    raise UnreachableError(str(error), idempotency_key=key) from error
            time.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")


def question(
    statistic: Question, epsilon: str, mechanism: str = "auto", norm: str = "auto"
) -> dict[str, object]:
    """Return the body of a release or preview request."""
    return {
        "statistic": dict(statistic),
        "mechanism": mechanism,
        "norm": norm,
        "epsilon": str(epsilon),
    }


def _of(dataset: Dataset | str) -> str:
    return f"/v1/datasets/{dataset.id if isinstance(dataset, Dataset) else dataset}"


def _at(release: Release | str) -> str:
    return f"/v1/releases/{release.id if isinstance(release, Release) else release}"


def _release(response: httpx.Response) -> Release:
    release = Release.model_validate_json(response.content)
    return release.model_copy(update={"body": response.content})


def _unreachable(error: httpx.TransportError) -> str:
    return f"no answer from the service ({type(error).__name__})"
