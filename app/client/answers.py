"""What every answer of the service is to a program: typed members, and room for others.

A service that is newer than the client answers more than the client knows. Such members
are attributes like the others: ``preview.usefulness`` is there if the service sent it.
Answers that hold numbers show as a table in a notebook, and become a data frame.

*Values as the service reads them: in the JSON of a question, and in the cells of a data frame.* An
instant is sent as an instant. A ``datetime`` with a time zone is written in UTC with a ``Z``, so
that no one has to know in which zone it was made, nor which clocks were changed in between. One
without a zone is sent without an offset: the service reads it in the column's ``timezone``, which
is UTC where the spec names none. A date stays a date.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, ClassVar, Self, TextIO

from app.client.errors import ClientError
from app.client.tables import (
    Row,
    cell,
    drawn_on,
    frame_of,
    html_of,
    lines_of,
    name_of,
    polars_of,
    rows_of,
    summary_of,
)
from app.tidy.names import said_of
from app.tidy.printed import Printed, printed_any

# Values as the service reads them: in the JSON of a question, and in the cells of a data frame

_SPECIAL = re.compile(r'[",\r\n]|^\s|\s$')
_EXACT = 2**53
"""Below it each whole number is a float of its own."""
_WRITTEN = {
    "delimiter": ",",
    "encoding": "utf-8",
    "skip_rows": 0,
    "decimal": ".",
    "thousands": None,
}
"""How a data frame is written, by the members of a spec that say so of a file."""


def plain(value: Any) -> Any:
    """Return a value as JSON has it: times as ISO 8601 text, and arrays as lists.

    >>> from datetime import timedelta, timezone
    >>> plain({"op": ">=", "value": datetime(2020, 3, 8, 20, tzinfo=timezone(timedelta(hours=-5)))})
    {'op': '>=', 'value': '2020-03-09T01:00:00Z'}
    """
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, date):
        return time_text(value)
    if type(value).__name__ == "datetime64":  # as a list it would be a number of nanoseconds
        return str(value)
    if hasattr(value, "tolist"):  # an array, a series of pandas, or a number of either
        return plain(value.tolist())
    return plain(value.to_list()) if hasattr(value, "to_list") else value


def time_text(value: date) -> str:
    """Return a date or a time as ISO 8601: an instant in UTC, and a time without a zone as it is.

    >>> time_text(date(2020, 3, 8)), time_text(datetime(2020, 3, 8, 20, 15))
    ('2020-03-08', '2020-03-08T20:15:00')
    """
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value.isoformat()


def is_frame(value: object) -> bool:
    """Return whether something is a data frame: of pandas, polars, or with their methods."""
    return hasattr(value, "columns") and (
        hasattr(value, "iter_rows") or hasattr(value, "itertuples")
    )


def write_frame(frame: Any, spec: Mapping[str, Any], file: TextIO) -> None:
    """Write a data frame as CSV that the service reads as it is: missing values as empty cells.

    Raises
    ------
    ValueError
        The spec says that the file is written otherwise than a data frame is.
    """
    refuse_dialect(spec)
    rows: Iterable[Iterable[object]]
    if hasattr(frame, "iter_rows"):
        rows = frame.iter_rows()
    else:
        rows = frame.itertuples(index=False, name=None)
    file.write(_line(map(str, frame.columns)))
    file.writelines(_line(map(_cell, row)) for row in rows)


def _line(cells: Iterable[str]) -> str:
    """Return a record as the service reads it: no cell is changed, as in files that people open."""
    line = ",".join(map(_quoted, cells))
    return (line or '""') + "\n"  # an empty line could be taken for none


def _quoted(cell: str) -> str:
    quoted = '"' + cell.replace('"', '""') + '"'
    return quoted if _SPECIAL.search(cell) else cell


def refuse_dialect(spec: Mapping[str, Any]) -> None:
    """Refuse a spec that has a data frame read with other signs than it is written with."""
    for place, members in [("", spec), *spec.get("columns", {}).items()]:
        for name, usual in _WRITTEN.items():
            if members.get(name, usual) != usual:
                where = f"column {place!r}" if place else "the spec"
                raise ValueError(
                    f"{where} has {name!r}: {members[name]!r}, which says how a text file is "
                    f"written. A data frame is sent with commas and decimal points: leave out "
                    f"{name!r}"
                )


def _cell(value: Any) -> str:
    if value is None or type(value).__name__ in ("NAType", "NaTType") or _is_nan(value):
        return ""
    if isinstance(value, date):
        return time_text(value)
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return str(bool(value)).lower()
    if isinstance(value, float) or type(value).__name__ in ("float16", "float32"):
        return _number_text(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _number_text(value: Any) -> str:
    """Return a float with all digits, never in scientific notation, as ids are compared.

    But a whole float that is not exact has an exponent: it may stand for several ids, and the
    service refuses such an id.
    """
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    if number.is_integer():
        return str(int(number)) if abs(number) < _EXACT else f"{number:.16e}"
    return f"{Decimal(repr(number) if isinstance(value, float) else str(value)):f}"


def _is_nan(value: Any) -> bool:
    numbers = isinstance(value, float | Decimal) or type(value).__name__ in ("float16", "float32")
    return bool(value != value) if numbers else False  # noqa: PLR0124


# What every answer of the service is to a program: typed members, and room for others

_NAMED = 3
"""How many numbers a representation shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of the service: immutable. ``members`` holds it as it came.

    The names of its methods are pydantic's, which earlier versions of this client were made with.
    """

    members: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    parts: ClassVar[Mapping[str, type[Answer]]] = {}
    """Members that are answers of their own."""

    @classmethod
    def model_validate(cls, members: Mapping[str, Any], **own: Any) -> Self:
        """Read an answer from its members; ``own`` are fields that no answer has.

        Raises
        ------
        ClientError
            A member that every such answer has is missing.
        """
        known = {each.name for each in fields(cls)} - {"members"}
        read = {name: cls._read(name, value) for name, value in members.items() if name in known}
        try:
            return cls(**{**read, **own}, members=dict(members))
        except TypeError as error:
            raise ClientError(f"this is no {cls.__name__} of a Release Desk: {error}") from None

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> Self:
        """Read an answer from its JSON text; raises as :meth:`model_validate` does."""
        return cls.model_validate(members_of(text))

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        part = cls.parts.get(name)
        return value if part is None or value is None else part.model_validate(value)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name != "members" and name in self.members:
            return self.members[name]
        raise AttributeError(f"this {type(self).__name__} has no {name!r}")

    @property
    def model_extra(self) -> dict[str, Any]:
        """The members that this client does not know."""
        known = {each.name for each in fields(self)}
        return {name: value for name, value in self.members.items() if name not in known}

    def model_dump(self) -> dict[str, Any]:
        """Return the answer's members as they came."""
        return dict(self.members)

    def model_dump_json(self) -> str:
        """Return the answer's members as JSON. Receipts sign other bytes: ``Release.body``."""
        return json.dumps(self.members, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers(Answer):
    """An answer that holds numbers: a release, a derivation, or the noise that a preview shows.

    ``excludes_missing`` are columns whose missing cells leave records out, ``fills`` what was
    filled in by column, and ``about_missing`` says both in sentences. ``about_weights`` says that
    records count once where the data set declares their weight. ``labels`` are what values
    of categories mean, by column. ``at_edge`` names numbers that cannot be said, as a variance
    that was clamped to 0, and ``at_most`` those that are upper bounds, as the smallest p-values.
    """

    value: dict[str, Any] | None = None
    noise: dict[str, Any] | None = None
    at_edge: Sequence[Mapping[str, Any]] = ()
    at_most: Sequence[Mapping[str, Any]] = ()
    excludes_missing: Sequence[str] = ()
    fills: Mapping[str, Any] | None = None
    about_missing: Sequence[str] = ()
    about_weights: Sequence[str] = ()
    labels: Mapping[str, Mapping[str, str]] | None = None

    @property
    def about_records(self) -> tuple[str, ...]:
        """Return what has to be shown with the numbers, a sentence each; often nothing."""
        return said_of(self.members)

    def rows(self) -> list[Row]:
        """Return the numbers as tidy rows, each a dictionary.

        First the columns of the groups or cells, each followed by the labels of its values where
        they have some (``sex label``), then ``term``, ``value`` and what is known
        of the noise: ``noise`` is its standard deviation, and 95% of it lies between
        ``noise_low`` and ``noise_high``. Inference adds ``std_error``,
        ``confidence_low`` and ``confidence_high``. Where a number cannot be said, ``value`` is
        None and ``note`` says why. A ``note`` next to a value says why it is an upper bound.
        """
        return rows_of(self.members)

    def to_frame(self) -> Any:
        """Return :meth:`rows` as a data frame of pandas.

        Raises
        ------
        MissingPackageError
            pandas is not installed.
        """
        return frame_of(self.rows())

    def to_text(self) -> str:
        """Return :meth:`rows` as lines of aligned columns; no text where there are no numbers."""
        rows = self.rows()
        return "\n".join([*lines_of(rows), *self.about_records]) if rows else ""

    def plot(self, axes: Any = None) -> Any:
        """Draw the numbers with matplotlib, and return the axes that they are on.

        Each number is a point with its 95% confidence interval, where it has one, else with the
        interval of its noise; all are on one axis. An answer with a curve shows its curves alone,
        each with its band.

        Parameters
        ----------
        axes
            Axes of matplotlib to draw on; new ones by default.

        Raises
        ------
        ClientError
            There are no numbers to draw yet.
        MissingPackageError
            matplotlib is not installed.
        """
        return drawn_on(self.members, self._caption(), axes)

    def to_table(self, form: str = "text") -> str:
        """Return the table that journals print, as ``text``, ``markdown`` or ``latex``.

        Of a summary it has a column for each group and a row for each measure, with confidence
        intervals; of any other answer a row for each number, with all that is known of it.

        Raises
        ------
        ValueError
            There are no numbers yet, or more than 10,000, or there is no such form.
        """
        table = self._printed()
        forms = {"text": table.text, "markdown": table.markdown, "latex": table.latex}
        if form not in forms:
            raise ValueError(f"form is one of {', '.join(forms)}")
        return forms[form]()

    def to_word(self) -> bytes:
        """Return the table of :meth:`to_table` as a Word document (.docx).

        Raises
        ------
        ValueError
            There are no numbers yet, or more than 10,000.
        """
        return self._printed().word()

    def _printed(self) -> Printed:
        table = printed_any(self.members)
        if table is None:
            raise ValueError("a table has between 1 and 10,000 released numbers: see rows()")
        return table

    def summary(self) -> str:
        """Return estimates, standard errors and intervals as a table, as R prints one.

        Without standard errors it is that of :meth:`to_text`, and how to get them.
        """
        return summary_of(self.members, self.to_text())

    def to_polars(self) -> Any:
        """Return :meth:`rows` as a data frame of Polars.

        Raises
        ------
        MissingPackageError
            polars is not installed.
        """
        return polars_of(self.rows())

    def __repr__(self) -> str:
        rows = self.rows()
        numbers = [f"{name_of(row)} {cell(row, 'value')}" for row in rows if "value" in row]
        more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
        words = [type(self).__name__, str(self.members.get("id") or "")]
        parts = [" ".join(filter(None, words)), self._caption(), ", ".join(numbers[:_NAMED]) + more]
        return f"<{': '.join(filter(None, parts))}>"

    def _repr_html_(self) -> str:
        usefulness = self.members.get("usefulness")
        sentence = usefulness.get("sentence") if isinstance(usefulness, Mapping) else None
        said = " ".join([str(sentence or ""), *self.about_records]).strip()
        return html_of(self._caption(), self.rows(), said)

    def _caption(self) -> str:
        statistic = self.members.get("statistic")
        kind = statistic.get("kind") if isinstance(statistic, Mapping) else None
        said = (kind, self.members.get("mechanism"), self.members.get("status"))
        epsilon = self.members.get("epsilon")
        words = [str(each) for each in said if each]
        return ", ".join([*words, f"epsilon {epsilon}"] if epsilon else words)


def members_of(text: str | bytes) -> dict[str, Any]:
    """Return the members of a JSON object.

    Raises
    ------
    ClientError
        The text is not a JSON object: perhaps it is not a Release Desk that has answered.
    """
    try:
        members = json.loads(text)
    except ValueError:
        members = None
    if not isinstance(members, dict):
        raise ClientError("the answer is no JSON object: is this the address of a Release Desk?")
    return members
