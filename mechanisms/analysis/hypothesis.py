"""Tests of hypotheses: p-values and intervals read off released moments or counts.

A test is drawn as another question, and everything else is post-processing of its answer (Awan &
Slavkovic, Proposition 2.11):

- ``t``, ``welch``, ``anova``: the moments of one column in each group, or of all records;
- ``correlation``: the moments of two columns;
- ``chi_square``, ``proportion``: a histogram of two columns;
- ``rank_sum``: a histogram of groups by equal cells of one column;
- ``signed_rank``: a histogram of cells that lie symmetrically around a value.

How a p-value follows is described in :mod:`mechanisms.statistics.curves.hypotheses`. Any earlier
release of the same moments or histogram gives the test for free.

*Several tests, in the groups of* ``by``: the moments are of each of these groups, and the histogram
has them as further columns. A record is in one group, so all tests cost what one does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, cast

from mechanisms.analysis import null
from mechanisms.contract import (
    FieldHint,
    InvalidStatisticError,
    Json,
    Outcome,
    Statistic,
    meaning,
    require_column,
    require_numbers,
)
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.estimates.asked import Asked, Weight
from mechanisms.exact.floats import Floats
from mechanisms.grouped import Groups
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.additive import ADVICE
from mechanisms.statistics.cells.parting import Merged, columns_of
from mechanisms.statistics.curves.hypotheses import (
    TableBy,
    Tested,
    of_signs,
    of_table,
    ranks,
    shares,
    squares,
)
from mechanisms.statistics.facts.readings import Released
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.questions import Question, planning_ms, widened
from mechanisms.words import listed, worded

Name = Literal[
    "t",
    "welch",
    "anova",
    "chi_square",
    "proportion",
    "rank_sum",
    "signed_rank",
    "correlation",
]
_IN_WORDS: Mapping[str, str] = {
    "t": "one mean, or two means with one variance (Student’s t)",
    "welch": "two means (Welch’s t)",
    "anova": "means of several groups (analysis of variance)",
    "chi_square": "two categories are independent (chi-square)",
    "proportion": "two shares",
    "rank_sum": "two groups by ranks (Wilcoxon’s rank sum)",
    "signed_rank": "symmetry around a value (Wilcoxon’s signed ranks)",
    "correlation": "two columns are uncorrelated",
}
_NAMES: Mapping[str, str] = {
    "t": "Student’s t test",
    "welch": "Welch’s t test",
    "anova": "analysis of variance",
    "chi_square": "chi-square test",
    "proportion": "test of proportions",
    "rank_sum": "rank sum test",
    "signed_rank": "signed rank test",
    "correlation": "correlation test",
}
MOST_BINS = 200
_READING_MS, _MS_PER_GROUP, _MS_PER_CELL = 10.0, 5.0, 0.7
"""Measured: of a simulated law, of each group's sums or each test of counts, and of each cell."""
_TWO_COLUMNS = frozenset({"chi_square", "correlation"})
_GROUPED = frozenset({"welch", "anova", "proportion", "rank_sum"})
_TWO_GROUPS = frozenset({"t", "welch", "proportion", "rank_sum"})
_OF_MOMENTS = frozenset({"t", "welch", "anova", "correlation"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisTest(Question):
    """A test of a hypothesis: its statistic, p-value and interval, with the noise accounted for."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    advice: ClassVar[Mapping[str, str]] = ADVICE
    has_cells: ClassVar[bool] = True
    has_inference: ClassVar[bool] = True
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = dict.fromkeys(null.KNOWN, ())
    limits: ClassVar[Mapping[str, int]] = {"bins": MOST_BINS}
    most_rows_per_person: ClassVar[int] = 1
    example: ClassVar[Json] = {
        "kind": "test",
        "test": "correlation",
        "columns": ["median_income", "households"],
    }
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe({"kind": "test", "test": "t", "columns": ["x"]}, ENDS),
    )
    named_by: ClassVar[Mapping[str, Mapping[str, str]]] = {"test": _NAMES}
    hints: ClassVar[Mapping[str, FieldHint]] = {
        "test": FieldHint("Test", "Which hypothesis is tested, and how.", options=_IN_WORDS),
        "groups": FieldHint("Compared groups", "A category or boolean column.", columns="groups"),
        "value": FieldHint("Value", "The mean or centre of the hypothesis, without groups.", True),
        "bins": FieldHint("Cells", "Of tests by ranks: how many cells of equal width.", True),
    }
    noise_in_words: ClassVar[str] = (
        "in the p-value and the interval: both follow from a simulation of its law together with "
        "that of a sample"
    )

    kind: Literal["test"] = "test"
    test: Name = field(
        metadata=meaning(
            "`t`: one mean equals `value`, or the means of two groups with one variance are equal. "
            "`welch`: the means of two groups are equal. `anova`: the means of all groups are "
            "equal, with one variance. `chi_square`: two categories are independent. `proportion`: "
            "the shares of two groups are equal. `rank_sum`: values of two groups have one "
            "distribution. `signed_rank`: values are symmetric around `value`. `correlation`: two "
            "columns are uncorrelated."
        )
    )
    columns: tuple[str, ...] = field(
        metadata=meaning(
            "The column that is tested: a number, of `proportion` a boolean. Two columns for "
            "`correlation` (numbers) and for `chi_square` (categories or booleans)."
        )
    )
    groups: str | None = field(
        default=None,
        metadata=meaning(
            "A category or boolean column, whose values are the groups that are compared.",
            example="ocean_proximity",
        ),
    )
    value: float = field(
        default=0.0,
        metadata=meaning(
            "The mean that `t` without groups, or the centre that `signed_rank` tests.", example=50
        ),
    )
    bins: int = field(
        default=20,
        metadata=meaning(
            f"Of `rank_sum` and `signed_rank`: how many cells of equal width, between 4 and "
            f"{MOST_BINS}. Values in one cell are ties.",
            example=40,
        ),
    )

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        wanted = 2 if self.test in _TWO_COLUMNS else 1
        if len(self.columns) != wanted or len(set(self.columns)) != wanted:
            raise InvalidStatisticError(
                f"{self.test} takes 1 column"
                if wanted == 1
                else f"{self.test} takes {wanted} columns",
                field_name="columns",
            )
        columns = [require_column(schema, name, "columns") for name in self.columns]
        if self.test == "chi_square":
            _require_cells(self.columns, columns, "columns")
        elif self.test == "proportion":
            if not all(isinstance(each, NumberColumn) and each.boolean for each in columns):
                raise InvalidStatisticError(
                    "proportion takes a boolean column; derive one, as in "
                    '"derive": {"women": "sex == \'f\'"}',
                    field_name="columns",
                )
        else:
            require_numbers(schema, self.columns, "columns")
        self._check_groups(schema)
        if not 4 <= self.bins <= MOST_BINS:
            raise InvalidStatisticError(f"between 4 and {MOST_BINS} cells", field_name="bins")
        if self.test == "signed_rank":
            self.symmetric_cells(columns[0])

    def _check_groups(self, schema: Schema) -> None:
        if self.groups is None:
            if self.test in _GROUPED:
                raise InvalidStatisticError(
                    f"{self.test} compares groups: name their column", field_name="groups"
                )
            return
        if self.test not in _GROUPED | {"t"}:
            raise InvalidStatisticError(
                f"{self.test} compares no groups: leave it out", field_name="groups"
            )
        if self.groups in self.columns:
            raise InvalidStatisticError("the tested column makes no groups", field_name="groups")
        column = require_column(schema, self.groups, "groups")
        _require_cells([self.groups], [column], "groups")
        if self.test in _TWO_GROUPS and len(levels_of(column)) != 2:
            raise InvalidStatisticError(
                f"{self.test} compares two groups, and {self.groups} has "
                f"{len(levels_of(column))}: derive a boolean column, or ask for anova",
                field_name="groups",
            )

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return how many numbers an answer has."""
        return 3

    def planning_ms(self, schema: Schema, mechanism: str, /) -> float:
        """Return about how many milliseconds of one core the source's plan takes."""
        try:
            return planning_ms(self.source_question(schema), schema, mechanism)
        except InvalidStatisticError:  # it is refused where it is planned
            return 1.0

    # What it is read off

    def source_question(self, schema: Schema, /) -> Statistic:
        """Return the moments or the histogram that is drawn.

        Raises
        ------
        InvalidStatisticError
            Derived columns do not fit the schema; there are groups or people that a test does not
            take.
        """
        if self.missing != "complete":
            raise InvalidStatisticError(
                "a test is of the records that have all values it needs; leave it out",
                field_name="missing",
            )
        if schema.protects.rows > 1:
            raise InvalidStatisticError(
                "a test takes rows to be drawn independently, and here a person may have several: "
                "ask the curator to choose “One row per person”",
                field_name="test",
            )
        wider = widened(self, schema)
        self.check(wider)
        compared = () if self.groups is None else (self.groups,)
        if inside := {*self.columns, *compared} & set(columns_of(self.by)):
            names = listed(sorted(inside))
            raise InvalidStatisticError(f"{names} is tested, and makes no groups", field_name="by")
        common: dict[str, Any] = {"derive": self.derive, "where": self.where}
        if self.test in _OF_MOMENTS:
            return Moments(columns=self.columns, by=(*self.by, *compared), **common)
        own = Histogram(columns=(*compared, *self.columns), edges=self._edges(wider))
        return replace(own.over_groups(Merged.of(self.by)), **common)

    def _edges(self, wider: Schema) -> Mapping[str, tuple[float, ...]]:
        column = require_column(wider, self.columns[0], "columns")
        if self.test == "rank_sum" and isinstance(column, NumberColumn) and not column.boolean:
            width = (column.upper - column.lower) / self.bins
            ends = [column.lower + width * at for at in range(self.bins + 1)]
            return {self.columns[0]: tuple(float(end) for end in ends)}
        if self.test == "signed_rank":
            return {self.columns[0]: self.symmetric_cells(column)[0]}
        return {}

    def symmetric_cells(self, column: Column) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Return edges that are symmetric around the value, and the rank of each of their cells.

        The cell in the middle has rank 0: its values are neither above nor below. The cells of
        rank k and -k are as far from the value.
        """
        if not isinstance(column, NumberColumn) or column.boolean:
            raise InvalidStatisticError("signed_rank takes a number column", field_name="columns")
        centre = Fraction(self.value)
        if not column.lower < centre < column.upper:
            raise InvalidStatisticError(
                "a value lies within the bounds of the column", field_name="value"
            )
        half = self.bins // 2
        width = max(centre - column.lower, column.upper - centre) / (half + Fraction(1, 2))
        inner = [
            (k, centre + width * (k + Fraction(1, 2)))
            for k in range(-half - 1, half + 1)
            if column.lower < centre + width * (k + Fraction(1, 2)) < column.upper
        ]
        edges = (float(column.lower), *(float(end) for _, end in inner), float(column.upper))
        ranks = (inner[0][0], *(k + 1 for k, _ in inner))
        return edges, ranks

    def inference_share(self, _schema: Schema, /) -> Fraction | None:
        """Return None: intervals follow from the released numbers."""
        return None

    def reading_ms(self, schema: Schema, /) -> float:
        """Return about how many milliseconds of one core it takes to simulate its law."""
        source, wider = cast(Question, self.source_question(schema)), widened(self, schema)
        if self.test in _OF_MOMENTS:
            groups = source.parting(wider).cells if source.by else 1
            return _READING_MS + _MS_PER_GROUP * groups
        cells = source.answer_numbers(wider)
        return _READING_MS + _MS_PER_GROUP * self._tests(schema) + _MS_PER_CELL * cells

    def estimated(self, schema: Schema, /) -> str:
        """Return which difference the estimate is, or of what; empty for a test without one."""
        if self.test == "correlation":
            return _OF_TWO % {"one": self.columns[0], "other": self.columns[1]}
        if self.test not in _ESTIMATES:
            return ""
        if self.groups is None:
            return _OF_ONE % {"column": self.columns[0]}
        wider = widened(self, schema)
        first, second = levels_of(require_column(wider, self.groups, "groups"))
        return _ESTIMATES[self.test] % {
            "column": self.columns[0], "groups": self.groups, "first": first, "second": second
        }  # fmt: skip

    def _tests(self, schema: Schema) -> int:
        """Return how many tests there are: one in each group of ``by``."""
        return self.parting(widened(self, schema)).cells if self.by else 1

    def read(self, released: Released, schema: Schema, /) -> Outcome:
        """Return the test of each group, from the released moments or counts."""
        tested = [
            null.outcome_of(_TESTS[self.test](self, source, schema), self.test)
            for source in null.sources(released, self.columns, schema, tests=self._tests(schema))
        ]
        if not self.by:
            return tested[0]
        return Groups(self.parting(widened(self, schema)).labels).together(tested)

    def read_noise(self, _planned: Released, _schema: Schema, _rows: int | None, /) -> None:
        """Return None: what the noise does to a test is in its p-value."""
        return

    def derived(self, released: Released, schema: Schema, /) -> Outcome:
        """Return the test from an earlier release that determines its source.

        Raises
        ------
        InvalidStatisticError
            The release is not of the same moments or counts.
        """
        source = self.source_question(schema)
        for part in null.parts_alike(released, source, schema):
            return self.read(part, schema)
        raise InvalidStatisticError(
            f"{self.test} follows from a release of exactly this {source.kind}, "
            "with the same conditions and groups"
        )

    def weighed(self, asked: Asked, rows: int) -> Weight:
        """Return how much the noise takes of the power of the test, for this many rows.

        Values are assumed to spread evenly over their bounds, and groups to be equally large.
        """
        plan, tests = asked.plan(), self._tests(asked.schema)
        law = null.Law.of(
            self.source_question(asked.schema), asked.schema, plan.mechanism, str(plan.norm),
            asked.epsilon,
        )  # fmt: skip
        return null.weight(
            law, rows, tests, compared=self._compared(asked.schema),
            of_products=self.test == "correlation",
        )  # fmt: skip

    def _compared(self, schema: Schema) -> int:
        """Return how many groups a test compares."""
        if self.groups is None:
            return 1
        return len(levels_of(require_column(widened(self, schema), self.groups, "groups")))


def _require_cells(names: Sequence[str], columns: Sequence[Column], place: str) -> None:
    for name, column in zip(names, columns, strict=True):
        if not (isinstance(column, CategoryColumn) or column.boolean):
            raise InvalidStatisticError(
                f"{name} is a number: derive a boolean or name a category", field_name=place
            )


def levels_of(column: Column) -> Sequence[str]:
    """Return the values of a category, or false and true."""
    return column.values if isinstance(column, CategoryColumn) else ("false", "true")


def _means(asked: HypothesisTest, source: null.Source, _: Schema) -> Tested:
    return null.of_means(
        source, pooled=asked.test != "welch", several=asked.test == "anova", value=asked.value
    )


def _correlation(_: HypothesisTest, source: null.Source, __: Schema) -> Tested:
    return null.of_correlation(source)


def _table(asked: HypothesisTest, source: null.Source, schema: Schema) -> Tested:
    wider = widened(asked, schema)
    names = asked.columns if asked.groups is None else (asked.groups, *asked.columns)
    rows = len(levels_of(require_column(wider, names[0], "columns")))
    return of_table(source.table(rows, -1), _BY.get(asked.test, squares))


def _signed(asked: HypothesisTest, source: null.Source, schema: Schema) -> Tested:
    column = require_column(widened(asked, schema), asked.columns[0], "columns")
    return of_signs(source.counts, asked.symmetric_cells(column)[1])


_OF_ONE = worded("The estimate is the mean of %(column)s.")
_OF_TWO = worded("The estimate is the correlation of %(one)s and %(other)s.")
_OF_MEANS = worded(
    "The estimate is the mean of %(column)s where %(groups)s is %(second)s minus that where it is "
    "%(first)s."
)
_ESTIMATES: Mapping[str, str] = {
    "t": _OF_MEANS,
    "welch": _OF_MEANS,
    "proportion": worded(
        "The estimate is the share of %(column)s where %(groups)s is %(second)s minus that where "
        "it is %(first)s."
    ),
}
_BY: Mapping[str, Callable[[Floats], TableBy]] = {"rank_sum": ranks, "proportion": shares}
_TESTS: Mapping[str, Callable[[HypothesisTest, null.Source, Schema], Tested]] = {
    "t": _means,
    "welch": _means,
    "anova": _means,
    "correlation": _correlation,
    "chi_square": _table,
    "proportion": _table,
    "rank_sum": _table,
    "signed_rank": _signed,
}
