"""A data set as an object to ask: its public facts, and a method for each statistic.

Every method takes ``where``, ``by`` and ``derive``, and what else the statistic has, as keywords;
then ``mechanism``, ``norm``, ``inference`` and ``purpose`` as the contract has them. Their types
are in :mod:`app.client.questions`, for an editor to complete. Conditions may be text:

>>> wages.mean("income", where="age >= 40 and sex in ['f', 'x']", epsilon=1)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

from app.client.answers import Answer
from app.client.methods import Methods
from app.client.models import Budget, DryRun, Preview, Release, StudyPlan
from app.client.questions import (
    Amount,
    Fields,
    OnWait,
    Options,
    Question,
    Selected,
    Weighed,
    key_to_send,
    parted,
    question,
)
from app.client.releasing import (
    Awaiting,
    Blocking,
    Call,
    Line,
    Steps,
    dry_running,
    planning,
    previewing,
    question_scripting,
    releasing,
)
from app.client.tables import html_of

_COLUMN = ("type", "lower", "upper", "values", "expr")
"""What a notebook shows of a column."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Facts(Answer):
    """The public facts of a data set; ``rows`` is None under add_remove.

    ``protects`` says in words who its releases protect; ``unit`` who a person is, None where one
    row is one person. ``report`` says how the file was read, in the answer to an upload alone.
    A ``version`` above 1 ``extends`` the data set before it, whose rows it has too.
    """

    id: str
    name: str
    adjacency: str
    status: str
    columns: dict[str, Any]
    rows: int | None = None
    max_rows: int | None = None
    unit: dict[str, Any] | None = None
    protects: str | None = None
    budget: Any = None
    policy: Any = None
    report: Any = None
    version: int = 1
    extends: str | None = None

    def __repr__(self) -> str:
        size = "" if self.rows is None else f", {self.rows} rows"
        facts = f"{self.adjacency}{size}, {len(self.columns)} columns, {self.status}"
        return f"<{type(self).__name__} {self.name!r} ({self.id}): {facts}>"

    def _repr_html_(self) -> str:
        size = "" if self.rows is None else f", {self.rows} rows"
        rows = [
            {"column": name, **{fact: column.get(fact) for fact in _COLUMN if fact in column}}
            for name, column in self.columns.items()
        ]
        return html_of(f"{self.name} ({self.id}), {self.adjacency}{size}, {self.status}", rows)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Asked(Methods, Facts):
    """What may be asked of a data set. ``desk`` is whom to ask."""

    desk: Any = field(default=None, repr=False, compare=False)

    @Call
    def budget_left(self) -> Steps[Budget]:
        """Return what is left of the budget."""
        response = yield from self._line.read(f"/v1/datasets/{self.id}/budget")
        return Budget.model_validate_json(response.content)

    @Call
    def preview(
        self,
        /,
        statistic: Question | str,
        *,
        epsilon: Amount | None = None,
        mechanism: str = "auto",
        norm: str = "auto",
        **fields: Unpack[Weighed],
    ) -> Steps[Preview]:
        """Say what a release would cost and how noisy it would be; free, reads no data.

        It is weighed at ``epsilon``, or at the smallest that reaches an ``accuracy``.

        >>> wages.preview("mean", columns=["income"], by=["sex"], epsilon="0.5")  # doctest: +SKIP
        >>> wages.preview("mean", columns=["income"], accuracy=50)  # doctest: +SKIP
        """
        asked, options = parted(statistic, fields)
        body = question(asked, epsilon, mechanism, norm, **options)
        return (yield from previewing(self._line, self.id, body))

    @Call
    def plan(self, questions: Sequence[Mapping[str, Any]]) -> Steps[StudyPlan]:
        """Say what several questions would cost together; free, reads no data.

        Each has a ``statistic``, and an ``epsilon`` or the ``accuracy`` that is wanted, like the
        body of a preview.

        >>> mean = {"kind": "mean", "columns": ["income"], "by": ["sex"]}  # doctest: +SKIP
        >>> plan = wages.plan([{"statistic": mean, "accuracy": 50}])  # doctest: +SKIP
        >>> plan.charge["amount"], plan.fits  # doctest: +SKIP
        ('0.8', True)
        """
        return (yield from planning(self._line, self.id, questions))

    @Call
    def release(
        self,
        /,
        statistic: Question | str,
        *,
        epsilon: Amount,
        mechanism: str = "auto",
        norm: str = "auto",
        fresh: bool = False,
        idempotency_key: str | None = None,
        wait: bool = True,
        on_wait: OnWait | None = None,
        **fields: Unpack[Fields],
    ) -> Steps[Release]:
        """Release a statistic and charge its epsilon; the same question again is free.

        ``statistic`` is a whole question or a kind, and ``fields`` are what belongs to
        it. The other parameters are those of :meth:`ReleaseDesk.release`.

        >>> wages.release("mean", columns=["income"], by=["sex"], epsilon="0.5")  # doctest: +SKIP
        """
        asked, options = parted(statistic, fields)
        body = question(asked, epsilon, mechanism, norm, **options)
        key = key_to_send(idempotency_key, fresh=fresh)
        steps = releasing(self._line, self.id, body, key=key, wait=wait, on_wait=on_wait)
        return (yield from steps)

    @Call
    def dry_run(
        self,
        /,
        statistic: Question | str,
        *,
        epsilon: Amount,
        mechanism: str = "auto",
        norm: str = "auto",
        **fields: Unpack[Weighed],
    ) -> Steps[DryRun]:
        """Ask the same of synthetic rows; free, and in the shape of a release.

        >>> wages.dry_run("mean", columns=["income"], by=["sex"], epsilon="0.5")  # doctest: +SKIP
        """
        asked, options = parted(statistic, fields)
        body = question(asked, epsilon, mechanism, norm, **options)
        return (yield from dry_running(self._line, self.id, body))

    @Call
    def script(
        self,
        /,
        statistic: Question | str,
        *,
        epsilon: Amount,
        mechanism: str = "auto",
        norm: str = "auto",
        language: str = "python",
        **fields: Unpack[Weighed],
    ) -> Steps[str]:
        """Return a question as a program: ``python``, ``r`` or a Jupyter ``notebook``; free.

        :meth:`ReleaseDesk.script` is for a release that there is.
        """
        asked, options = parted(statistic, fields)
        body = question(asked, epsilon, mechanism, norm, **options)
        return (yield from question_scripting(self._line, self.id, body, language))

    # Further methods: app.client.methods has one for each kind

    @Call
    def median(
        self, /, column: str, *, epsilon: Amount, **fields: Unpack[Selected]
    ) -> Steps[Release]:
        """Release the median of a column."""
        own = {"column": column, "levels": [0.5]}
        return (yield from self._asked("quantile", epsilon, fields, **own))

    @Call
    def stack(
        self,
        /,
        *parts: Question,
        shares: Sequence[int] | None = None,
        epsilon: Amount,
        **fields: Unpack[Options],
    ) -> Steps[Release]:
        """Release several statistics at once, for one epsilon that ``shares`` divide: evenly.

        >>> wages.stack({"kind": "count"}, means, shares=[1, 3], epsilon="1")  # doctest: +SKIP
        """
        weights = [1] * len(parts) if shares is None else shares
        both = zip(parts, weights, strict=True)
        own = [{"statistic": dict(part), "share": share} for part, share in both]
        return (yield from self._asked("stack", epsilon, fields, parts=own))

    def _asked(
        self, kind: str, epsilon: Amount, fields: Mapping[str, Any], **own: object
    ) -> Steps[Release]:
        ask: Callable[..., Steps[Release]] = Asked.release
        return ask(self, kind, epsilon=epsilon, **own, **fields)

    @property
    def _line(self) -> Line:
        line: Line = self.desk.line
        return line


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Dataset(Asked, Blocking):
    """A data set to ask."""

    def run(self, steps: Steps[Any]) -> Any:
        """Run the steps of a call."""
        return self.desk.run(steps)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AsyncDataset(Asked, Awaiting):
    """A data set to ask; its methods are awaited."""

    def run(self, steps: Steps[Any]) -> Any:
        """Run the steps of a call."""
        return self.desk.run(steps)
