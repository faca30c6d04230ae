"""The controls of a statistic's form: what each of its fields is filled in with.

A field's type decides: one of several words is a list, several are boxes to check, numbers are
written with commas between them. What it is called, its help, and which columns it may name are the
statistic's own :class:`~mechanisms.contract.FieldHint`. So a new field needs no line here. The
fields that nearly all statistics have are the table :data:`CONTROLS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from app.tidy.names import Phrase, marked
from mechanisms.catalog import STATISTICS
from mechanisms.contract import FieldHint
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.expressions.tree import FUNCTIONS

OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "in")
EDGES, OUTSIDE, PARTS = "edges", "outside", "parts"
"""What a request calls the edges of all its columns, each of which has a field of its own; what
becomes of values outside them; and the questions that are asked as one."""
DATE_PARTS = ("years", "quarters", "months")
"""Edges of a column of times that the calendar gives."""

Shape = Literal[
    "text", "words", "area", "lines", "numbers", "tables", "select", "checks", "check",
    "conditions", "parts",
]  # fmt: skip
Options = Sequence[tuple[str, str]]

_NONE: tuple[str, str] = ("", "–")
_OUTSIDE: Options = (("", marked("counted in cells of their own")), ("drop", marked("left out")))
_OWN_OUTSIDE: Options = (("", marked("groups of their own")), ("drop", marked("dropped")))
_EACH_OUTSIDE: Options = (
    ("", marked("as for all columns")),
    ("cells", marked("cells of their own")),
    ("drop", marked("dropped")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of the form; ``options`` are pairs of a value and what is shown for it.

    ``within`` are fields that say more of an option, by its value. ``always`` says of a box that
    it is on unless it is cleared.
    """

    name: str
    label: str
    shape: Shape
    help: str = ""
    options: Options = ()
    more: bool = False
    """Whether few questions need it."""
    of_columns: bool = False
    """Whether its options are columns; those that are derived are options too."""
    decides: bool = False
    """Whether other fields depend on what is chosen: with script the form then shows them."""
    undecided: bool = False
    """Whether nothing is chosen yet that it depends on: only a page without script has it then."""
    within: Mapping[str, Sequence[Field]] = field(default_factory=dict)
    always: bool = False


def all_of(found: Sequence[Field]) -> list[Field]:
    """Return fields together with those that are within them."""
    inner = [each for every in found for some in every.within.values() for each in some]
    return [*found, *inner]


def controls_of(name: str, kind: str, schema: Schema) -> list[Field]:
    """Return the controls of a field of a statistic, for the columns of a data set."""
    return CONTROLS.get(name, _by_type)(name, kind, schema)


# A field by its hint and its type


def _by_type(name: str, kind: str, schema: Schema) -> list[Field]:
    hint = hint_of(name, kind)
    if hint.columns:
        options = [_NONE, *_named(_COLUMNS[hint.columns](schema))]
        return [_hinted(hint, name, "select", options, of_columns=True)]
    default, kinds = _declared(kind)[name]
    one = _choices(kinds)
    if one and (hint.members or all(get_origin(each) is Literal for each in kinds)):
        options = [(each, _in_words(each, hint)) for each in one if each != default]
        first = [] if default is MISSING else [("", _in_words(str(default), hint))]
        chosen = _hinted(hint, name, "select", [*first, *options])
        return [chosen, *_members(name, hint)]
    return [_written(name, hint, default, kinds)]


def _written(name: str, hint: FieldHint, default: Any, kinds: tuple[Any, ...]) -> Field:
    several = [get_args(each)[0] for each in kinds if get_origin(each) is tuple]
    if many := _choices(several):
        return _hinted(hint, name, "checks", [(each, _in_words(each, hint)) for each in many])
    if bool in kinds:
        return _hinted(hint, name, "check", always=default is True)
    lines = any(get_origin(each) is Mapping for each in kinds)
    plain: Shape = "words" if kinds == (str,) else "text"
    return _hinted(hint, name, "numbers" if several else "lines" if lines else plain)


def _hinted(hint: FieldHint, name: str, shape: Shape, options: Options = (), **more: bool) -> Field:
    return Field(
        name=name,
        label=hint.label,
        shape=shape,
        help=hint.help,
        options=options,
        more=hint.rare,
        of_columns=more.get("of_columns", False),
        always=more.get("always", False),
    )


def _members(name: str, hint: FieldHint) -> list[Field]:
    return [
        Field(name=f"{name} {member}", label=label, shape="text", more=hint.rare)
        for member, label in hint.members.items()
    ]


def hint_of(name: str, kind: str) -> FieldHint:
    """Return what a statistic says of its field, or its name in words."""
    usual = FieldHint(name.replace("_", " ").capitalize(), "")
    return STATISTICS[kind].hints.get(name, usual)


def _in_words(choice: str, hint: FieldHint) -> str:
    usual = "automatic" if choice == "auto" else choice.replace("_", " ")
    return Phrase(hint.options.get(choice, usual))


@cache
def _declared(kind: str) -> Mapping[str, tuple[Any, tuple[Any, ...]]]:
    """Return the default of each field of a statistic, and the kinds of its values."""
    statistic: Any = STATISTICS[kind]
    types = get_type_hints(statistic)
    return {each.name: (each.default, _kinds(types[each.name])) for each in fields(statistic)}


def _kinds(declared: Any) -> tuple[Any, ...]:
    alone = get_origin(declared) not in (Union, UnionType)
    members = (declared,) if alone else get_args(declared)
    return tuple(each for each in members if each is not NoneType)


def _choices(kinds: Sequence[Any]) -> list[str]:
    words = [get_args(each) for each in kinds if get_origin(each) is Literal]
    return [str(each) for some in words for each in some]


def switched_on(kind: str) -> list[tuple[str, str]]:
    """Return the boxes of a statistic's form that are on unless they are cleared."""
    return [(name, "yes") for name, (default, _) in _declared(kind).items() if default is True]


# Columns as choices


def _named(names: Sequence[str]) -> Options:
    return [(name, name) for name in names]


def _categories(schema: Schema) -> list[str]:
    return [name for name, each in schema.columns.items() if isinstance(each, CategoryColumn)]


def _numbers(schema: Schema) -> list[str]:
    return [name for name, each in schema.columns.items() if isinstance(each, NumberColumn)]


def _parted(schema: Schema) -> list[str]:
    """Return the columns whose values make groups without edges."""
    return [
        name
        for name, each in schema.columns.items()
        if isinstance(each, CategoryColumn) or each.boolean
    ]


def _amounts(schema: Schema) -> list[str]:
    parted = set(_parted(schema))
    return [each for each in _numbers(schema) if each not in parted]


def _flags(schema: Schema) -> list[str]:
    numbers = set(_numbers(schema))
    return [each for each in _parted(schema) if each in numbers]


_COLUMNS: Mapping[str, Callable[[Schema], list[str]]] = {
    "numbers": _numbers,
    "amounts": _amounts,
    "flags": _flags,
    "groups": _parted,
}
"""The columns that a field may name, by what its hint says."""


# The fields that nearly all statistics have


def _columns(name: str, kind: str, schema: Schema) -> list[Field]:
    names = list(schema.columns) if STATISTICS[kind].has_cells else _numbers(schema)
    options = _named(names)
    return [
        Field(name=name, label=marked("Columns"), shape="checks", options=options, of_columns=True)
    ]


def _column(name: str, _: str, schema: Schema) -> list[Field]:
    options = _named(_numbers(schema))
    return [
        Field(name=name, label=marked("Column"), shape="select", options=options, of_columns=True)
    ]


def _edges(_: str, kind: str, schema: Schema) -> list[Field]:
    return [each for name in _amounts(schema) for each in edges_fields(name, kind, schema)]


def edges_fields(name: str, kind: str, schema: Schema) -> list[Field]:
    """Return the fields of a counted column's edges; a column that is derived has them too."""
    edges = Field(
        name=f"{EDGES} {name}",
        label=marked("%(column)s edges", column=name),
        shape="text",
        help=_edges_help(name, schema),
    )
    if OUTSIDE not in _declared(kind):
        return [edges]
    label = marked("%(column)s outside the edges", column=name)
    own = Field(name=f"{OUTSIDE} {name}", label=label, shape="select", options=_EACH_OUTSIDE)
    return [edges, own]


def _edges_help(name: str, schema: Schema) -> str:
    column = schema.columns.get(name)
    if isinstance(column, NumberColumn) and column.timed is not None:
        day = column.shown(float(column.lower))
        return marked(
            "Such as %(day)s, with commas; or “years”, “quarters”, “months”, “step 30”.", day=day
        )
    return marked("Such as 0, 18, 65; or “step 5”; or “values” for each whole number.")


def _outside(name: str, _: str, __: Schema) -> list[Field]:
    label = marked("Values outside the edges")
    return [Field(name=name, label=label, shape="select", options=_OUTSIDE, more=True)]


def _target(name: str, kind: str, schema: Schema) -> list[Field]:
    own = _categories(schema) if STATISTICS[kind].explains_category else _numbers(schema)
    options = [_NONE, *_named(own)]
    if not STATISTICS[kind].compares_target:
        return [
            Field(
                name=name, label=marked("Target"), shape="select", options=options, of_columns=True
            )
        ]
    return [
        Field(
            name=name,
            label=marked("Target"),
            shape="select",
            options=[_NONE, *_named(list(schema.columns))],
            help=marked(
                "A boolean column; any other with a comparison that makes it true or false."
            ),
            of_columns=True,
        ),
        Field(
            name="target op",
            label=marked("Target comparison"),
            shape="select",
            options=[("", marked("is true")), *_named(OPERATORS)],
        ),
        Field(name="target value", label=marked("Target value"), shape="text"),
    ]


def _features(name: str, _: str, schema: Schema) -> list[Field]:
    usual = marked(
        "A category is compared with its first value. For interactions, logs and other reference "
        "values use the formula: food ~ age * log(income) + C(region, ref=south)."
    )
    options = _named(list(schema.columns))
    return [
        Field(
            name=name, label=marked("Features"), shape="checks", options=options, help=usual,
            of_columns=True,
        )
    ]  # fmt: skip


def _margins(name: str, _: str, __: Schema) -> list[Field]:
    usual = marked(
        "In place of all: one a line, its columns with commas between them, such as age, sex."
    )
    options = [
        ("all_two_way", marked("of every two columns")),
        ("all_one_way", marked("of every column")),
        ("all_three_way", marked("of every three columns")),
    ]
    listed = Field(
        name=f"{name} listed", label=marked("List of tables"), shape="area", help=usual, more=True
    )
    return [Field(name=name, label=marked("Tables"), shape="select", options=options), listed]


def _hierarchy(name: str, _: str, schema: Schema) -> list[Field]:
    """Return the choice of a column with levels above it; nothing where there is none."""
    below = {each.source for each in schema.nested.values()}
    named = _named([each for each in schema.columns if each in below])
    usual = marked("Counts of these places, and of every level above them, which agree.")
    options = [("", marked("no levels")), *named]
    field = Field(
        name=name, label=marked("Hierarchy"), shape="select", options=options, help=usual, more=True
    )
    return [field] if named else []


def _known(name: str, _: str, schema: Schema) -> list[Field]:
    usual = marked(
        "Totals of places that are published elsewhere, and never read off the data, one a line: "
        "north of region = 5120. Whole counts keep them exactly."
    )
    field = Field(name=name, label=marked("Public totals"), shape="area", help=usual, more=True)
    return [field] if schema.nested else []


def _missing(name: str, kind: str, schema: Schema) -> list[Field]:
    if not schema.optional:
        return []
    options = [("", marked("Leave out records without all values"))]
    if STATISTICS[kind].column_by_column:
        options.append(("available", marked("Each column’s own records")))
    options.append(("cell", marked("Count missing values of categories")))
    return [
        Field(name=name, label=marked("Missing values"), shape="select", options=options, more=True)
    ]


EACH_ONCE = "\N{ZERO WIDTH SPACE}null"
"""The choice that says null of weights; no column has this name, as names are printable."""


def _weights(name: str, _: str, schema: Schema) -> list[Field]:
    weighing = [
        each
        for each, column in schema.columns.items()
        if isinstance(column, NumberColumn) and column.lower >= 0 and not column.boolean
    ]
    once, design = marked("each record counts once"), schema.design
    usual = [("", once)]
    if design is not None:
        declared = marked("by the declared weight, %(weight)s", weight=design.weight)
        usual = [("", declared), (EACH_ONCE, once)]
    options = [*usual, *_named(weighing)]
    return [
        Field(
            name=name,
            label=marked("Weights"),
            shape="select",
            options=options,
            more=True,
            of_columns=True,
        )
    ]


def _derive(name: str, _: str, __: Schema) -> list[Field]:
    usual = marked(
        "One a line: log_income = log(income + 1), with narrower bounds if you know them: "
        "rest = income - food from 0 to 500. A comparison makes a boolean: rich = income > 900. "
        "There are + - * / ^, %(functions)s, and, or, not, in. A preview shows them among the "
        "columns.",
        functions=", ".join(FUNCTIONS),
    )
    return [Field(name=name, label=marked("Derived columns"), shape="area", help=usual, more=True)]


def _where(name: str, kind: str, schema: Schema) -> list[Field]:
    usual = marked(
        'Only records that meet all of these count. For "in", separate values with commas.'
    )
    return [
        Field(
            name=name,
            label=marked("Conditions"),
            shape="conditions",
            help=usual,
            options=[_NONE, *_named(list(schema.columns))],
            more=not STATISTICS[kind].usually_conditioned,
            of_columns=True,
        )
    ]


def _by(name: str, _: str, schema: Schema) -> list[Field]:
    usual = marked(
        "An answer for each combination of their values; number columns are cut at edges."
    )
    return [
        Field(
            name=name,
            label=marked("Groups"),
            shape="checks",
            help=usual,
            options=_named(list(schema.columns)),
            within={each: band_fields(each, schema) for each in _amounts(schema)},
            more=True,
            of_columns=True,
        )
    ]


def band_fields(name: str, schema: Schema) -> list[Field]:
    """Return the fields that cut a number column into groups."""
    return [
        Field(
            name=f"by {EDGES} {name}",
            label=marked("%(column)s group edges", column=name),
            shape="text",
            help=_edges_help(name, schema),
        ),
        Field(
            name=f"by {OUTSIDE} {name}",
            label=marked("%(column)s outside its groups", column=name),
            shape="select",
            options=_OWN_OUTSIDE,
        ),
    ]


def _parts(name: str, _: str, __: Schema) -> list[Field]:
    usual = marked("Several questions as one table: they share one epsilon, each by its share.")
    return [Field(name=name, label=marked("Parts"), shape="parts", help=usual)]


CONTROLS: Mapping[str, Callable[[str, str, Schema], list[Field]]] = {
    "columns": _columns,
    "column": _column,
    EDGES: _edges,
    OUTSIDE: _outside,
    "target": _target,
    "features": _features,
    "weights": _weights,
    "derive": _derive,
    "margins": _margins,
    "hierarchy": _hierarchy,
    "known": _known,
    "missing": _missing,
    "where": _where,
    "by": _by,
    PARTS: _parts,
}
