"""A summary: the first table of a report, per group and column, in one release.

A summary is drawn as a stack with one part for each measure of each column, and its rows are read
off the stack's answer:

- ``n``: a count of each group;
- ``mean_sd``: moments of one column, which give its mean and its standard deviation;
- ``median_iqr``: the three quartiles of one column, and the neighbours that are their intervals;
- ``share``: a histogram of a category or boolean column.

**Privacy.** The stack is epsilon-DP (:mod:`mechanisms.composition`), and the rows are functions of
its answer and of public facts: post-processing (Awan & Slavkovic, Proposition 2.11).

*The split of epsilon.* A part at epsilon_i has noise whose 95% interval in a group of n records has
the half-width

    h_i = c_i / (epsilon_i n),

relative to n for counts and shares, to the width of the bounds for means, and in ranks relative to
n for quartiles. The constant c_i depends on the measure and on public facts alone, as noise is in
inverse proportion to epsilon. The largest of the h_i is least where all are equal: at
``epsilon_i = epsilon c_i / (c_1 + ... + c_k)``. :data:`WIDTHS` holds these constants, in records at
epsilon 1, and a test compares them with the laws of the parts' noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, cast

from mechanisms.analysis import rows
from mechanisms.contract import (
    FieldHint,
    InvalidStatisticError,
    Json,
    Noise,
    Outcome,
    Statistic,
    meaning,
    require_column,
)
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.privacy import Adjacency
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.cells.parting import columns_of
from mechanisms.statistics.count import Count
from mechanisms.statistics.facts.readings import Released
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.questions import Question, planning_ms, widened
from mechanisms.statistics.stack import (
    LARGEST_SHARE,
    MAX_PARTS,
    SMALLEST_SHARE,
    Part,
    Stack,
)
from mechanisms.statistics.std import Std
from mechanisms.words import listed, meant

Measure = Literal["n", "mean_sd", "median_iqr", "share"]
_IN_WORDS: Mapping[str, str] = {
    "n": "number of records",
    "mean_sd": "mean and standard deviation",
    "median_iqr": "median and quartiles",
    "share": "count and share of each value",
}
SHOWN: tuple[Measure, ...] = ("n", "mean_sd", "median_iqr", "share")
QUARTILES = (0.25, 0.5, 0.75)
INTERVALS = Fraction(1, 2)
"""The share of the epsilon of quartiles that their confidence intervals cost."""

_MS_PER_MEAN, _MS_PER_ROW = 8.0, 0.05  # of a simulated interval, and of a row
WIDTHS: Mapping[tuple[Adjacency, bool], Mapping[Measure, float]] = {
    (Adjacency.ADD_REMOVE, False): {"n": 3.0, "share": 3.0, "mean_sd": 3.4, "median_iqr": 14.5},
    (Adjacency.ADD_REMOVE, True): {"n": 3.0, "share": 3.0, "mean_sd": 3.4, "median_iqr": 14.5},
    (Adjacency.REPLACE_ONE, False): {"n": 3.0, "share": 4.0, "mean_sd": 3.5, "median_iqr": 19.3},
    (Adjacency.REPLACE_ONE, True): {"n": 4.0, "share": 5.5, "mean_sd": 6.9, "median_iqr": 29.0},
}
"""The constants c, by adjacency and whether there are groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Question):
    """Count, mean, standard deviation, quartiles and shares per group: a Table 1 in one release."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    has_cells: ClassVar[bool] = True
    has_inference: ClassVar[bool] = True
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {"composition": ()}
    limits: ClassVar[Mapping[str, int]] = {"parts": MAX_PARTS}
    example: ClassVar[Json] = {
        "kind": "summary",
        "columns": ["median_income", "households", "ocean_proximity"],
    }
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe({"kind": "summary", "columns": ["group"], "show": ["share"]}, ENDS),
    )
    hints: ClassVar[Mapping[str, FieldHint]] = {
        "show": FieldHint("Rows", "Which rows the table has. None chosen: all.", options=_IN_WORDS),
        "shares": FieldHint(
            "Split of epsilon", "One a line: mean_sd = 2. Measures not named keep theirs.", True
        ),
        "differences": FieldHint("Differences", "Of each group from the first one."),
    }

    noise_in_words: ClassVar[str] = (
        "of counts, shares, means and standard deviations as in releases of these; null for "
        "quartiles, whose noise depends on the data; in a preview also null for standard "
        "deviations and differences"
    )

    kind: Literal["summary"] = "summary"
    columns: tuple[str, ...] = field(
        metadata=meaning(
            "Number, boolean and category columns, each named once. Together they make at most "
            f"{MAX_PARTS} parts: one for each measure of each column, and one for the counts."
        )
    )
    show: tuple[Measure, ...] = field(
        default=SHOWN,
        metadata=meaning(
            "Which rows there are: `n`, the records of each group; `mean_sd` and `median_iqr`, of "
            "each number column; `share`, the count and share of each value of each category or "
            "boolean column.",
            example=["n", "mean_sd", "share"],
        ),
    )
    shares: Mapping[str, float] = field(
        default_factory=dict,
        metadata=meaning(
            "The share of epsilon of each part of a measure relative to the other parts', by "
            "measure. Measures that are not named keep the share that balances relative "
            "half-widths.",
            example={"mean_sd": 2},
        ),
    )
    differences: bool = field(
        default=False,
        metadata=meaning(
            "Whether there are also the differences of each group's means, medians and shares "
            "from those of the first group, with intervals.",
            example=True,
        ),
    )

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        if not self.columns:
            raise InvalidStatisticError("name at least one column", field_name="columns")
        if len(set(self.columns)) != len(self.columns):
            raise InvalidStatisticError("a column is named twice", field_name="columns")
        if not self.show or len(set(self.show)) != len(self.show):
            raise InvalidStatisticError("name each row to show once", field_name="show")
        for name in self.columns:
            column = require_column(schema, name, "columns")
            if isinstance(column, NumberColumn) and column.timed is not None:
                raise InvalidStatisticError(
                    f"{name} holds dates, which a summary has no rows for: ask for its quantiles",
                    field_name="columns",
                )
            if not any(measure in self.show for measure in _measures(column)):
                names = listed(_measures(column), last="or")
                raise InvalidStatisticError(
                    f"of {name} nothing is shown: add {names}", field_name="show"
                )
        for name, share in self.shares.items():
            if name not in self.show:
                close = meant(self.show, name)
                raise InvalidStatisticError(
                    f"{name} is not among the rows to show{close}", field_name="shares"
                )
            if not SMALLEST_SHARE <= share <= LARGEST_SHARE:  # also refuses NaN
                raise InvalidStatisticError(
                    "a share must lie between 0.000001 and 1000000", field_name="shares"
                )

    def answer_numbers(self, schema: Schema, /) -> int:
        """Return about how many numbers an answer has in each group."""
        sizes = [_numbers_of(schema.columns.get(name)) for name in self.columns]
        return (1 + sum(sizes)) * (2 if self.differences else 1)

    def planning_ms(self, schema: Schema, mechanism: str, /) -> float:
        """Return about how many milliseconds of one core the parts' plans take together."""
        try:
            stack = self.source_question(schema)
        except InvalidStatisticError:  # it is refused where it is planned
            return 1.0
        return sum(planning_ms(part.statistic, schema, mechanism) for part in stack.parts)

    # How it is drawn

    def source_question(self, schema: Schema, /) -> Stack:
        """Return the stack whose answer the rows are read off.

        Raises
        ------
        InvalidStatisticError
            Derived columns, conditions or groups do not fit the schema; there are too many parts.
        """
        if self.missing != "complete":
            raise InvalidStatisticError(
                "each row is about the records that have the value it needs; leave it out",
                field_name="missing",
            )
        if self.differences and not self.by:
            raise InvalidStatisticError(
                'differences are between groups: name their column in "by"', field_name="by"
            )
        wider = widened(self, schema)
        if inside := set(columns_of(self.by)) & set(self.columns):
            names = listed(sorted(inside))
            raise InvalidStatisticError(
                f"{names} makes the groups, and has no rows", field_name="columns"
            )
        found = [self._part(*each, wider) for each in self._measured(wider)]
        if len(found) > MAX_PARTS:
            raise InvalidStatisticError(
                f"these rows make {len(found)} parts, and there are at most {MAX_PARTS}: name "
                "fewer columns, or show fewer rows",
                field_name="columns",
            )
        if not found:
            raise InvalidStatisticError(
                "the number of rows is public: show more than n", field_name="show"
            )
        return Stack(parts=tuple(found))

    def inference_share(self, schema: Schema, /) -> Fraction | None:
        """Return which share of the epsilon of quartiles their intervals cost, if there are any."""
        measures = [measure for measure, _ in self._measured(widened(self, schema))]
        return INTERVALS if "median_iqr" in measures else None

    def _measured(self, wider: Schema) -> Sequence[tuple[Measure, str]]:
        """Return the measure and the column of each part; the count has no column."""
        counted = "n" in self.show and not self._is_counted_publicly(wider)
        found: list[tuple[Measure, str]] = [("n", "")] if counted else []
        for name in self.columns:
            column = require_column(wider, name, "columns")
            found += [(each, name) for each in _measures(column) if each in self.show]
        return found

    def _is_counted_publicly(self, schema: Schema) -> bool:
        return self.is_of_all_rows and schema.known_rows is not None

    def _part(self, measure: Measure, name: str, schema: Schema) -> Part:
        widths = WIDTHS[schema.adjacency, bool(self.by)]
        share = float(self.shares.get(measure, widths[measure]))
        return Part(statistic=self._asked(_QUESTIONS[measure](name)), share=share)

    def _asked(self, statistic: Any) -> Any:
        """Return a question about the records and groups of this one."""
        return replace(statistic, derive=self.derive, where=self.where, by=self.by)

    # How the rows follow

    def layout(self, schema: Schema, /) -> rows.Layout:
        """Return which rows an answer has, and which part of the stack each is read off."""
        wider = widened(self, schema)
        labels = self.parting(wider).labels if self.by else [{}]
        stack = self.source_question(schema)
        known = wider.known_rows if self._is_counted_publicly(wider) else None
        return rows.Layout.of(
            stack,
            self._measured(wider),
            counted=self.counted_records(),
            schema=schema,
            labels=labels,
            columns={name: require_column(wider, name, "columns") for name in self.columns},
            shows_count="n" in self.show,
            known_rows=known,
            differences=self.differences,
        )

    def reading_ms(self, schema: Schema, /) -> float:
        """Return about how many milliseconds of one core it takes to read the rows off."""
        layout = self.layout(schema)
        means = sum(slot.measure == "mean" for slot in layout.slots)
        return _MS_PER_MEAN * means + _MS_PER_ROW * len(layout.slots)

    def estimated(self, _schema: Schema, /) -> str:
        """Return nothing: its numbers say what they are."""
        return ""

    def read(self, released: Released, schema: Schema, /) -> Outcome:
        """Return the rows of a released stack."""
        return rows.outcome(self.layout(schema), released, schema)

    def derived(self, _released: Released, _schema: Schema, /) -> Outcome:
        """Raise :class:`InvalidStatisticError`: no other release has all rows of a summary."""
        raise InvalidStatisticError("a summary is not derived from other releases: release it")

    def read_noise(self, planned: Released, schema: Schema, assumed: int | None, /) -> Noise | None:
        """Return what a preview of the stack says of the rows' noise."""
        if planned.noise is None:
            return None
        known = schema.known_rows
        return self.layout(schema).previewed(planned.noise, assumed if known is None else known)

    def counted_records(self) -> Statistic:
        """Return the count of the records that its rows are about, drawn or public."""
        return cast(Statistic, self._asked(Count()))

    def estimated_as(self, schema: Schema, /) -> Sequence[tuple[int, Statistic]]:
        """Return the questions whose expected errors the rows have, each with its part's place.

        The standard deviation that follows from one column's moments errs as one that is released
        by itself: both have the same noisy sums.
        """
        return [(place, each) for place, _, each in self._estimated(schema)]

    def _estimated(self, schema: Schema) -> Sequence[tuple[int, bool, Statistic]]:
        """Return each part's place and question, and with moments that of the deviation."""
        found: list[tuple[int, bool, Statistic]] = []
        parts = self.source_question(schema).parts
        for place, (measure, name) in enumerate(self._measured(widened(self, schema))):
            found.append((place, False, parts[place].statistic))
            if measure == "mean_sd":
                found.append((place, True, self._asked(Std(columns=(name,)))))
        return found

    def with_rows_alone(self, tree: Json, /) -> Json:
        """Return the errors of a part without the second moments, and the count with them."""
        if "groups" in tree:
            groups = [
                {**group, "value": self.with_rows_alone(group["value"])}
                for group in cast(Sequence[Any], tree["groups"])
            ]
            return {"groups": groups}
        return {"means": tree["means"]} if "means" in tree else tree

    def rows_of_errors(
        self, trees: Sequence[Json | None], sizes: Sequence[float], schema: Schema, /
    ) -> Json:
        """Return the rows' errors from those of :meth:`estimated_as`.

        ``sizes`` are the expected sizes of the groups.
        """
        return self.layout(schema).of_errors(self._by_part(trees, schema), sizes)

    def rows_of_ranges(self, trees: Sequence[Json | None], schema: Schema, /) -> Json:
        """Return the ranges of the rows' numbers from those of :meth:`estimated_as`."""
        return self.layout(schema).of_ranges(self._by_part(trees, schema))

    def _by_part(
        self, trees: Sequence[Json | None], schema: Schema
    ) -> Mapping[tuple[int, bool], Json | None]:
        """Return trees by part, and by whether they are of a standard deviation."""
        return {
            (place, spread): tree
            for (place, spread, _), tree in zip(self._estimated(schema), trees, strict=True)
        }


def _measures(column: Column) -> tuple[Measure, ...]:
    """Return the measures that a column may have."""
    if isinstance(column, CategoryColumn) or column.boolean:
        return ("share",)
    return ("mean_sd", "median_iqr")


def _numbers_of(column: Column | None) -> int:
    if isinstance(column, CategoryColumn):
        return 2 * len(column.values)
    return 5


_QUESTIONS: Mapping[Measure, Any] = {
    "n": lambda _name: Count(),
    "mean_sd": lambda name: Moments(columns=(name,)),
    "median_iqr": lambda name: Quantile(column=name, levels=QUARTILES),
    "share": lambda name: Histogram(columns=(name,)),
}
