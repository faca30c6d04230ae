"""What a curator declares about the columns of a data set: all of it public.

Bounds, category values and the treatment of missing cells are declared before
a row is read. Nothing here is ever inferred from the data. One column is
:mod:`app.domain.columns`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

from app.domain.column_json import column_json, parse_column
from app.domain.columns import (
    MAX_NAME_LENGTH,
    CategorySpec,
    ColumnSpec,
    InvalidSpecError,
    NumberSpec,
    is_text,
    json_number,
    number_at,
    refuse,
    type_of,
)
from app.domain.units import UnitSpec, parse_unit
from mechanisms.domain import Design
from mechanisms.privacy import Adjacency
from mechanisms.words import header_text, worded

Encoding = Literal["utf-8", "windows-1252", "iso-8859-1", "utf-16"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
MAX_SKIPPED_ROWS = 100
SamePeople = Literal["no", "yes", "unknown"]
"""What a curator may state of the people in a file: whether they may be in an earlier data set."""
StatedPeople = Literal["no", "yes", "unknown", "not_stated"]
"""What is recorded of it; ``not_stated`` where an upload said nothing."""
SAME_PEOPLE: Mapping[StatedPeople, str] = {
    "no": worded("By the curator's statement, none of its people is in an earlier data set."),
    "yes": worded("By the curator's statement, its people may be in an earlier data set."),
    "unknown": worded("The curator does not know whether its people are in an earlier data set."),
    "not_stated": worded(
        "The curator has not stated whether its people are in an earlier data set."
    ),
}
"""What is shown of it, to reviewers too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """How a CSV file is written; it says nothing of a Parquet file.

    ``delimiter`` stands between cells, and ``skip_rows`` lines above the header are titles.
    """

    delimiter: str = ","
    encoding: Encoding = "utf-8"
    skip_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedSpec:
    """A column that is computed from others of its row while a file is read.

    ``expression`` is its canonical text, and the bounds are those that follow from it, or
    narrower ones; a ``boolean`` one has 0 and 1. ``optional`` says whether a row may have no value
    of it: where it is made of columns that keep their missing cells.
    """

    expression: str
    lower: Fraction
    upper: Fraction
    boolean: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsSpec:
    """The declared columns, in order, with the adjacency and the public row bound.

    ``derived`` are those computed from them, each from columns before it. ``unit`` says who a
    person is, where one may have several rows. ``text`` says how a CSV file is written, and
    ``design`` how the rows were sampled.

    A column that another is ``within`` is a *level*: a category that is neither read from the file
    nor stored, but made of the other whenever it is asked about.

    Raises
    ------
    InvalidSpecError
        No columns, a name that is not printable text of at most 100
        characters, ``"drop"`` under replace-one, a ``max_rows`` that is
        absent under add-remove or not positive, or a unit or design that does not fit.
    """

    columns: Mapping[str, ColumnSpec]
    adjacency: Adjacency
    max_rows: int | None = None
    derived: Mapping[str, DerivedSpec] = field(default_factory=dict)
    unit: UnitSpec | None = None
    text: TextFile = TextFile()
    design: Design | None = None

    @property
    def levels(self) -> Mapping[str, str]:
        """Return the columns that are levels above others, each with the one below it."""
        return _levels(self.columns)

    @property
    def own(self) -> Mapping[str, ColumnSpec]:
        """Return the declared columns that rows are stored with: all but levels."""
        levels = self.levels
        return {name: column for name, column in self.columns.items() if name not in levels}

    @property
    def in_file(self) -> Mapping[str, ColumnSpec]:
        """Return the columns that are read from the file: no counts of a person's rows."""
        counted = frozenset() if self.unit is None else self.unit.counted
        return {name: column for name, column in self.own.items() if name not in counted}

    @property
    def read(self) -> tuple[str, ...]:
        """Return the names of what is read from the file: those columns, and whose a row is."""
        return (*self.in_file, *(() if self.unit is None else (self.unit.column,)))

    @property
    def headers(self) -> Mapping[str, str]:
        """Return what the file's header says of each name that is read from it."""
        sources = {name: column.reading.source for name, column in self.in_file.items()}
        return {
            name: header_text(name if (source := sources.get(name)) is None else source)
            for name in self.read
        }

    @property
    def stored(self) -> Mapping[str, ColumnSpec | DerivedSpec]:
        """Return every column that rows are stored with, those that were declared first."""
        return {**self.own, **self.derived}

    @property
    def optional(self) -> frozenset[str]:
        """Return the columns in which a row may have no value."""
        kept = {name for name, column in self.columns.items() if column.missing == "keep"}
        kept |= {name for name, column in self.derived.items() if column.optional}
        for name in tuple(kept & self.columns.keys()):
            kept |= {*_levels_above(name, self.columns)}
        return frozenset(kept)

    def __post_init__(self) -> None:
        refuse(_level_faults(self.columns, self.derived, self.unit))
        faults = [*_faults(self.columns, self.stored, self.adjacency, self.max_rows)]
        if self.unit is not None:
            kinds = {name: type_of(each) for name, each in self.own.items()}
            faults += _unit_faults(self.unit, kinds, self.adjacency)
        if self.design is not None:
            faults += _design_faults(self.design, self.stored)
        refuse([*faults, *_source_faults(self.headers, self.unit)])


def _above(column: ColumnSpec) -> str | None:
    """Return the level above a column; often none."""
    within = column.within if isinstance(column, CategorySpec) else None
    return None if within is None else within.column


def _levels_above(name: str, columns: Mapping[str, ColumnSpec]) -> Iterator[str]:
    """Yield the levels above a column, the lowest first, each once even in a circle."""
    seen = set[str]()
    level = _above(columns[name])
    while level is not None and level not in seen:
        yield level
        seen.add(level)
        level = _above(columns[level]) if level in columns else None


def _levels(columns: Mapping[str, ColumnSpec]) -> dict[str, str]:
    found = ((_above(column), name) for name, column in columns.items())
    return {level: name for level, name in found if level is not None}


def with_levels(columns: Mapping[str, ColumnSpec]) -> dict[str, ColumnSpec]:
    """Return columns with a category for each level that is not declared itself."""
    found = dict[str, ColumnSpec]()
    for name, column in columns.items():
        found[name] = column
        if not isinstance(column, CategorySpec) or (within := column.within) is None:
            continue
        if within.column not in columns:
            found[within.column] = CategorySpec(values=within.values, trim=column.trim)
    return found


def _level_faults(
    columns: Mapping[str, ColumnSpec], derived: Collection[str], unit: UnitSpec | None
) -> Iterator[InvalidSpecError]:
    levels = _levels(columns)
    for name in levels.keys() & {*derived}:
        yield InvalidSpecError(f"derive.{name}", "a column has this name already")
    for name, column in columns.items():
        if not isinstance(column, CategorySpec) or column.within is None:
            continue
        level, place = column.within.column, f"columns.{name}.within"
        above = columns.get(level)
        if levels[level] != name:
            first = levels[level]
            yield InvalidSpecError(
                f"{place}.column", f"is a level above {first} already, and of one column"
            )
        elif unit is not None and level == unit.column:
            yield InvalidSpecError(f"{place}.column", "must not be the unit's column")
        elif name in _levels_above(name, columns):
            yield InvalidSpecError(f"{place}.column", "is within this column itself")
        elif not isinstance(above, CategorySpec):
            yield InvalidSpecError(f"{place}.column", "is a column that is no category")
        elif {*above.values} != {*column.within.values}:
            yield InvalidSpecError(
                f"{place}.of", f"must name every declared value of {level}, and no other"
            )
        elif above.missing != "reject" or above.other is not None or above.typical is not None:
            read = {"missing": above.missing != "reject", "other": above.other is not None}
            member = next((each for each, given in read.items() if given), "typical")
            yield InvalidSpecError(
                f"columns.{level}.{member}",
                f"must be left out: {level} is made from {name}, and not read from the file",
            )


def _source_faults(headers: Mapping[str, str], unit: UnitSpec | None) -> Iterator[InvalidSpecError]:
    """Yield where two columns are read from one of the file's."""
    seen = dict[str, str]()
    for name, header in headers.items():
        first = seen.setdefault(header, name)
        if first != name and (unit is None or name != unit.column):
            yield InvalidSpecError(
                f"columns.{name}.source", f"is the source of {first} too; one of both is enough"
            )
        elif first != name:
            yield InvalidSpecError(
                f"columns.{first}.source", "must not be the unit's column: ids are never stored"
            )


def _faults(
    columns: Mapping[str, ColumnSpec],
    stored: Collection[str],
    adjacency: Adjacency,
    max_rows: int | None,
) -> Iterator[InvalidSpecError]:
    if not stored:
        yield InvalidSpecError("columns", "declare at least one column")
    if not all(is_text(name, MAX_NAME_LENGTH) for name in stored):
        yield InvalidSpecError(
            "columns", f"a name must be printable text of 1 to {MAX_NAME_LENGTH} characters"
        )
    if max_rows is not None and max_rows < 1:
        yield InvalidSpecError("max_rows", "must be at least 1")
    if adjacency is Adjacency.ADD_REMOVE:
        if max_rows is None:
            yield InvalidSpecError("max_rows", "is required under add_remove")
        return
    for name, column in columns.items():
        if column.missing == "drop":
            yield InvalidSpecError(
                f"columns.{name}.missing", '"drop" is offered under add_remove only'
            )


def _unit_faults(
    unit: UnitSpec, kinds: Mapping[str, str], adjacency: Adjacency
) -> Iterator[InvalidSpecError]:
    if not unit.column:
        yield InvalidSpecError(
            "unit.column", 'must be the text of a header of the file, as in "person_id"'
        )
    for place, detail in unit.faults(kinds, adjacency):
        yield InvalidSpecError(place, detail)


# How rows were sampled

MOST_REPLICATES = 500
_WEIGHTS = "must be a number column with a lower bound of 0 or more, and without missing cells"


def _design_faults(
    design: Design, stored: Mapping[str, ColumnSpec | DerivedSpec]
) -> Iterator[InvalidSpecError]:
    if not _weighs(stored.get(design.weight)):
        yield InvalidSpecError("design.weight", _WEIGHTS)
    strata = None if design.strata is None else stored.get(design.strata)
    if design.strata is not None and not (
        isinstance(strata, CategorySpec) and strata.missing != "keep"
    ):
        yield InvalidSpecError(
            "design.strata", "must be a category that rows are stored with, without missing cells"
        )
    several = len(set(design.replicates))
    if design.replicates and not 2 <= several == len(design.replicates) <= MOST_REPLICATES:
        yield InvalidSpecError(
            "design.replicates", f"must be 2 to {MOST_REPLICATES} columns, each named once"
        )
    for place, name in enumerate(design.replicates):
        if not _weighs(stored.get(name)):
            yield InvalidSpecError(f"design.replicates[{place}]", _WEIGHTS)
    if design.scale is not None and not (design.replicates and design.scale > 0):
        yield InvalidSpecError("design.scale", "must be more than 0, and is that of replicates")
    if design.rscales and len(design.rscales) != len(design.replicates):
        yield InvalidSpecError("design.rscales", "must be one number for each of the replicates")
    for place, scale in enumerate(design.rscales):
        if scale <= 0:
            yield InvalidSpecError(f"design.rscales[{place}]", "must be more than 0")


def _weighs(column: ColumnSpec | DerivedSpec | None) -> bool:
    match column:
        case NumberSpec():
            return column.lower >= 0 and column.missing != "keep"
        case DerivedSpec():
            return column.lower >= 0 and not (column.boolean or column.optional)
    return False


def design_json(design: Design) -> dict[str, object]:
    """Return how rows were sampled as the spec has it, ready for JSON."""
    found: dict[str, object] = {"weight": design.weight}
    if design.strata is not None:
        found["strata"] = design.strata
    if design.replicates:
        found |= {"replicates": list(design.replicates), "scale": json_number(design.factor)}
    if design.rscales:
        found["rscales"] = [json_number(each) for each in design.rscales]
    return found


def parse_design(fields: Mapping[str, Any]) -> Design:
    """Return the inverse of :func:`design_json`; scales may be left out."""
    scale = fields.get("scale")
    return Design(
        weight=fields["weight"],
        strata=fields.get("strata"),
        replicates=tuple(fields.get("replicates") or ()),
        scale=None if scale is None else number_at("design.scale", scale),
        rscales=tuple(
            number_at(f"design.rscales[{place}]", each)
            for place, each in enumerate(fields.get("rscales") or ())
        ),
    )


def column_named(name: str) -> str:
    """Return which column a message is about, to be put behind it; a name is public if it is one.

    >>> column_named("income"), column_named("in\\ncome")
    (' (column "income")', '')
    """
    return f' (column "{name}")' if is_text(name, MAX_NAME_LENGTH) else ""


def parse_columns(
    columns: Mapping[str, Mapping[str, object]],
    *,
    adjacency: Adjacency,
    max_rows: int | None,
    derived: Mapping[str, Mapping[str, object]] | None = None,
    unit: Mapping[str, object] | None = None,
    text: Mapping[str, Any] | None = None,
    design: Mapping[str, Any] | None = None,
) -> ColumnsSpec:
    """Read the ``columns`` of a data set spec, as they stand in JSON.

    ``derived`` are those computed from them, as :func:`derived_json` returns them, and ``unit``
    is as :func:`app.domain.units.unit_json` returns it. ``text`` has the fields of
    :class:`TextFile` that are not the default, and ``design`` is as :func:`design_json` returns it.

    Raises
    ------
    InvalidSpecError
        All that is not sound in the declaration; each place names its column.
    """
    parsed: dict[str, ColumnSpec] = {}
    faults: list[InvalidSpecError] = []
    for name, column in columns.items():
        try:
            parsed[name] = parse_column(column)
        except InvalidSpecError as error:
            faults += error.within("columns", name)
    people = None if unit is None else parse_unit(unit)
    if faults:
        faults += _faults(parsed, columns, adjacency, max_rows)
        if people is not None:
            kinds = {name: str(column.get("type")) for name, column in columns.items()}
            faults += _unit_faults(people, kinds, adjacency)
        refuse(faults)
    made = {name: _parse_derived(column) for name, column in (derived or {}).items()}
    return ColumnsSpec(
        columns=with_levels(parsed),
        adjacency=adjacency,
        max_rows=max_rows,
        derived=made,
        unit=people,
        text=TextFile(**(text or {})),
        design=None if design is None else parse_design(design),
    )


def columns_json(spec: ColumnsSpec) -> dict[str, dict[str, object]]:
    """Return the inverse of :func:`parse_columns`, ready for JSON; those derived are apart."""
    return {name: column_json(column) for name, column in spec.columns.items()}


def derived_json(spec: ColumnsSpec) -> dict[str, dict[str, object]]:
    """Return the derived columns, ready for JSON."""
    return {name: _derived_json(column) for name, column in spec.derived.items()}


def _derived_json(column: DerivedSpec) -> dict[str, object]:
    described: dict[str, object] = {"type": "boolean", "expr": column.expression}
    if not column.boolean:
        described = {
            "type": "number",
            "lower": json_number(column.lower),
            "upper": json_number(column.upper),
            "expr": column.expression,
        }
    return {**described, "missing": "keep"} if column.optional else described


def _parse_derived(column: Mapping[str, object]) -> DerivedSpec:
    boolean = column["type"] == "boolean"
    return DerivedSpec(
        expression=str(column["expr"]),
        lower=Fraction(0) if boolean else number_at("lower", column["lower"]),
        upper=Fraction(1) if boolean else number_at("upper", column["upper"]),
        boolean=boolean,
        optional=column.get("missing") == "keep",
    )
