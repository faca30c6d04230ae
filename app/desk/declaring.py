"""The form of a new data set: from a header to fields, from fields to a spec, and back to faults.

A column's fields are named by its place in the table, such as ``columns.0.lower``. What is wrong
with a spec comes back by the places of the spec; :func:`at_cells` says which field that is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

from app.desk.filled import derived_of, lines_of
from app.desk.forms import (
    FORM_KEY,
    TYPICAL,
    Form,
    label_in,
    lines_in,
    looks_read_off,
    number_of,
    numbers_by_name,
    typical_of,
)
from app.domain.datasets import ENCODINGS as ENCODINGS_OF_FILES
from app.domain.problems import Problem, invalid_requests
from app.services.plans.questions import POLICY_KINDS
from app.tidy.names import marked, words
from app.uploads.drafting.drafts import Draft

LEFT_OUT = "left out"
TYPES = ("number", "integer", "category", "boolean", "date", "datetime", LEFT_OUT)
REVIEWS = ("never", "always", "above")
PLACES = ("type", "lower", "upper", "values", "missing", "label", "unit_of_measure", "typical")
"""The fields of a column, in the table's order, by their names in the spec."""
READING: Mapping[str, Sequence[str]] = {
    "source": (),
    "true": ("boolean",),
    "false": ("boolean",),
    "format": ("date", "datetime"),
    "timezone": ("date", "datetime"),
    "labels": ("category",),
    "trim": ("category",),
    "within": ("category",),
    "of": ("category",),
    "na": (),
    "decimal": ("number", "integer"),
    "thousands": ("number", "integer"),
    "bare_number": ("number", "integer"),
    "other": ("category",),
    "unreadable": (),
}
"""The fields that say how a column's cells are read, and the types that have them; () is all."""
RARE = frozenset({"decimal", "thousands", "bare_number", "other", "unreadable"})
"""Those that a column's row has only where they are filled in: of all they are too many."""
FOLDED = (*READING, "typical")
"""The fields of a column that are shown once its row is opened."""

_NAME = re.compile(r"columns\.(\d{1,5})\.name", re.ASCII)
_PLACE = re.compile(
    r"columns(?:\[(?P<position>\d+)\](?P<rest>.*)|\.(?P<named>.*))", re.ASCII | re.DOTALL
)
_ABOUT = re.compile(r" \(column \".*\"\)$", re.DOTALL)
"""What a message says of its column, where the field says it already."""
_IN_DERIVE = re.compile(r"derive\b", re.ASCII)
_IN_LIST = re.compile(r"(?P<list>unit\.reduce|design\.replicates|design\.rscales)\b.*", re.DOTALL)
"""What a field has in lines, and is one field of the form."""
_IN_DESIGN = re.compile(r"(?:spec\.)?design\.(?P<list>\w+)\[(?P<position>\d{1,5})\].*", re.DOTALL)
_WITHIN = re.compile(r"\.typical\.(mean|std)$")
_OF_WITHIN = re.compile(r"^\.?within\.of\b", re.ASCII)
_NUMBERS = ("number", "integer")
_NO_SIGN = "none"
"""Says of a column that its numbers have no thousands separator, where those of others have one."""
_WRITTEN = ("delimiter", "encoding", "skip_rows", "decimal", "thousands")
"""What says how a file is written, and is the draft's whatever was filled in before."""
_ABOUT_ALL = ("name", "description", "na")
"""What a draft proposes of the whole file, where it was not filled in."""
_FIELDS: Mapping[str, str] = {
    "budget": "epsilon",
    "budget.epsilon": "epsilon",
    "budget.delta": "delta",
    "policy.review": "review",
    "policy.reviewers": "reviewers",
    "policy.max_epsilon_per_release": "max_epsilon_per_release",
    "policy": "allowed",
    "policy.allowed": "allowed",
    "unit": "unit_column",
    "unit.column": "unit_column",
    "unit.max_rows": "unit_max_rows",
    "unit.id": "unit_id",
    "unit.reduce": "unit_reduce",
    "design": "design_weight",
    "design.weight": "design_weight",
    "design.strata": "design_strata",
    "design.replicates": "design_replicates",
    "design.scale": "design_scale",
    "design.rscales": "design_rscales",
    "overlap": "overlap",
    "overlap.reason": "overlap",
}
"""Where a field of the form has another name than in the spec."""

_LABELS: Mapping[str, str] = {
    "source": marked("Address of the data"),
    "epsilon": marked("Epsilon budget"),
    "na": marked("Missing-value codes"),
    "allowed": marked("Statistics that may be asked"),
    "unit_column": marked("Person identifier"),
    "unit_max_rows": marked("Maximum rows per person"),
    "unit_id": marked("Person ids"),
    "unit_reduce": marked("One row per person"),
    "design_weight": marked("Weight"),
    "design_strata": marked("Strata"),
    "design_replicates": marked("Replicate weights"),
    "design_scale": marked("Scale"),
    "design_rscales": marked("Scale of each replicate"),
    "overlap": marked("Other people"),
    "reviewers": marked("Who decides"),
    "derive": marked("Derived columns"),
    "spec": marked("Spec as JSON"),
    "copied": marked("Earlier data set"),
    "delimiter": marked("Delimiter"),
    "decimal": marked("Decimal mark"),
    "thousands": marked("Thousands separator"),
}
"""What fields are called whose names say something else."""

DELIMITERS = (
    (",", marked("comma")),
    (";", marked("semicolon")),
    ("\t", marked("tab")),
    ("|", marked("bar")),
)
"""What may stand between the cells of a CSV file, and its name."""
ENCODINGS = tuple((each, each) for each in ENCODINGS_OF_FILES)
CHOICES: Mapping[str, Any] = {
    "types": TYPES,
    "reviews": [(each, each) for each in REVIEWS],
    "adjacencies": [
        ("replace_one", marked("replace_one: one row differs, the row count is public")),
        (
            "add_remove",
            marked("add_remove: one person is added or removed, the row count is private"),
        ),
    ],
    "delimiters": DELIMITERS,
    "encodings": ENCODINGS,
    "unit_ids": [
        ("", marked("numbers or texts: 7 and 7.0 are the same person, 007 is another")),
        ("number", marked("numbers: 7, 7.0 and 007 are the same person")),
        ("text", marked("texts: 7, 7.0 and 007 are three persons")),
    ],
    "reading": READING,
    "folded": FOLDED,
    "rare": RARE,
    "decimals": [(".", marked("point")), (",", marked("comma"))],
    "thousands": [
        ("", marked("none")),
        (",", marked("comma")),
        (".", marked("point")),
        (" ", marked("space, of any kind")),
        ("'", marked("apostrophe, of any kind")),
    ],
    "same_people": [
        ("", marked("choose an answer")),
        ("no", marked("no, as far as I know")),
        ("yes", marked("yes, or some of them")),
        ("unknown", marked("I do not know")),
    ],
    "kinds": [(kind, words(kind)) for kind in POLICY_KINDS],
    "one_fields": [
        (each, "unit" if each == "unit_of_measure" else each) for each in (*PLACES, *READING)
    ],
    "typical": TYPICAL,
    "typical_of": typical_of,
}
"""What the form offers at its fields, and what its page shows of them."""


_USUAL = frozenset({"trim yes", "bare_number yes"})


def set_of(form: Form, place: int) -> str:
    """Return what is filled in of a column's folded fields: a name and a first line each."""
    filled = {field: lines_in(form.text(f"columns.{place}.{field}")) for field in FOLDED}
    found = [f"{field} {lines[0]}" for field, lines in filled.items() if lines]
    return " · ".join(each for each in found if each not in _USUAL)


def rows_of(form: Form) -> Sequence[tuple[int, str]]:
    """Return the columns of a form's table, each with the place that names its fields."""
    return [(int(at[1]), value) for name, value in form.pairs if (at := _NAME.fullmatch(name))]


def labelled(form: Form) -> Mapping[str, str]:
    """Return what fields are called: those of the table by their column and place."""
    columns = {
        f"columns.{place}.{field}": f"{name} {field if field != 'unit_of_measure' else 'unit'}"
        for place, name in rows_of(form)
        for field in (*PLACES, *READING)
    }
    return {**_LABELS, **columns}


def with_draft(form: Form, draft: Draft, file_name: str, *, described: bool = False) -> Form:
    """Return a form whose table has a draft's columns; what was filled in of them stays.

    What an earlier draft has proposed was not filled in: a dictionary that is chosen after the
    file comes before what was guessed from the file alone. What a dictionary has said stays where
    the file alone is chosen again. The field ``drafted`` has digests of what was proposed.
    """
    kept, before = {name: place for place, name in rows_of(form)}, form.text("drafted").split()
    lasts = not described and _DESCRIBED in before
    digests = [_DESCRIBED] if described or lasts else []

    def of(column: str, field: str, earlier: str, proposed: str) -> str:
        """Return what a field says: what was filled in, else what is proposed now."""
        own = earlier.strip() and _digest(column, field, earlier) not in before
        said = earlier if own or (earlier.strip() and lasts) else proposed
        digests.extend([_digest(column, field, said)] if said and not own else [])
        return said

    usual = {"name": file_name.partition(".")[0]} | {
        name: text for name in _ABOUT_ALL if (text := _written(draft.spec.get(name)))
    }
    filled = [(name, of("", name, form.raw(name), usual.get(name, ""))) for name in _ABOUT_ALL]
    written = [(name, str(draft.spec[name])) for name in _WRITTEN if name in draft.spec]
    others = [
        pair
        for pair in form.pairs
        if not pair[0].startswith("columns.") and pair[0] not in ("drafted", *_ABOUT_ALL)
    ]
    table = list[tuple[str, str]]()
    drafted = draft.spec["columns"]
    for place, name in enumerate({**draft.headers, **drafted}):
        column = drafted.get(name) or _left_out(name, draft.headers[name])
        table.append((f"columns.{place}.name", name))
        for field in (*PLACES, *READING):
            earlier = form.raw(f"columns.{kept[name]}.{field}") if name in kept else ""
            said = of(name, field, earlier, _of_column(column, field))
            table.append((f"columns.{place}.{field}", said))
    return Form([*written, *filled, *others, *table, ("drafted", " ".join(digests))])


def _left_out(name: str, header: str) -> Mapping[str, str]:
    """Return a column that a draft leaves out: who knows better chooses a type for it."""
    return {"type": LEFT_OUT, "missing": "keep"} | ({"source": header} if header != name else {})


def _digest(column: str, field: str, text: str) -> str:
    """Return a short name of what a column's field says, whatever ends its lines."""
    said = f"{column} {field} {text.strip()}".replace("\r", "")
    return f"{crc32(said.encode()):x}"


# An earlier declaration, and one field of many columns


def with_columns(form: Form, columns: Mapping[str, Any]) -> Form:
    """Return a form with what an earlier declaration says of columns of the same names.

    Its other columns are added below those of the table.
    """
    known, names = [*rows_of(form)], {name for _, name in rows_of(form)}
    after = max((place for place, _ in known), default=-1) + 1
    known += enumerate([name for name in columns if name not in names], start=after)
    others = [pair for pair in form.pairs if not pair[0].startswith("columns.")]
    pairs: list[tuple[str, str]] = []
    for place, name in known:
        pairs.append((f"columns.{place}.name", name))
        own = columns.get(name)
        for field in (*PLACES, *READING):
            at = f"columns.{place}.{field}"
            said = _of_column(own, field) if isinstance(own, Mapping) else form.raw(at)
            # Numbers are read as before, and signs that only the next file has are no fault of it.
            pairs.append((at, form.raw(at) if field == "bare_number" and not said else said))
    return Form([*others, *pairs])


def with_own_signs(columns: Mapping[str, Any], form: Form) -> Mapping[str, Any]:
    """Return declared columns, each of numbers with what is not as a form says of all columns.

    Without it a column that was read with points would be read with the commas of the next file.
    """
    usual: Mapping[str, str | None] = {"decimal": ".", "thousands": None}
    file = {name: form.raw(name) or each for name, each in usual.items()}

    def own(column: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, said in {**usual, **column}.items():
            if name not in usual or (column["type"] in _NUMBERS and said != file[name]):
                yield name, said

    return {name: dict(own(column)) for name, column in columns.items()}


def _of_column(column: Mapping[str, Any], field: str) -> str:
    within = column.get("within")
    if field == "thousands" and field in column and column[field] is None:
        return _NO_SIGN
    if field == "of":
        return _written(within.get("of")) if isinstance(within, Mapping) else ""
    if field == "within" and isinstance(within, Mapping):
        return _written(within.get("column"))
    return _written(column.get(field))


def form_of(spec: Mapping[str, Any], form: Form) -> Form:
    """Return the form that is filled in as a spec says: what :func:`spec_of` reads again.

    The table has the spec's columns. ``form`` keeps what is sent with every form, such as its key.

    Raises
    ------
    Problem
        ``invalid-request``: it is none, or says what the form has no field for.
    """
    columns = spec.get("columns")
    if not (isinstance(columns, Mapping) and all(isinstance(e, Mapping) for e in columns.values())):
        raise invalid_requests([("spec", "must have columns, an object for each")])
    if unknown := [*_without_a_field(spec)]:
        name = ", ".join(unknown[:10])
        raise invalid_requests([("spec", f"has what the form has no field for: {name}")])
    filled = _filled(spec)
    pairs = [pair for pair in filled.items() if pair[1] and pair[0] != "allowed"]
    allowed = _inside(spec, "policy.allowed")
    pairs += [("allowed", str(each)) for each in allowed or ()]
    kept = [pair for pair in form.pairs if pair[0] == FORM_KEY]
    return with_columns(Form([*kept, *pairs]), columns)


def with_people(form: Form, spec: Mapping[str, Any]) -> Form:
    """Return a form with what an earlier spec says of people, bounds, sampling and derived columns.

    What is filled in of it stays, the adjacency apart: a form always has one.
    """
    copied = ("adjacency", "max_rows", "unit", "derive", "design")
    earlier = {name: spec.get(name) for name in copied}
    filled = {
        name: text
        for name, text in _filled(earlier).items()
        if text and name != "review" and (name == "adjacency" or not form.text(name))
    }
    return Form([*(pair for pair in form.pairs if pair[0] not in filled), *filled.items()])


def _filled(spec: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the fields of a form but those of columns as a spec fills them in."""
    plain = {name: _written(spec.get(name)) for name in _PLAIN}
    inner = {
        field: _written(_inside(spec, place))
        for place, field in _FIELDS.items()
        if "." in place and place != "policy.review"
    }
    review, _, above = _written(_inside(spec, "policy.review")).partition(":")
    derived = spec.get("derive")
    lines = lines_of(derived) if isinstance(derived, Mapping) else ""
    return {**plain, **inner, "review": review, "review_above": above, "derive": lines}


_PLAIN = (
    "name", "description", "adjacency", "max_rows", "delimiter", "encoding", "decimal",
    "thousands", "skip_rows", "same_people", "account", "na",
)  # fmt: skip
_OBJECTS: Mapping[str, set[str]] = {
    outer: {place.partition(".")[2] for place in _FIELDS if place.startswith(f"{outer}.")}
    for outer in ("budget", "policy", "unit", "overlap", "design")
}
"""The members of a spec that are objects, and the members of each that have a field."""
_OF_COLUMNS = {*PLACES, *READING} - {"of"}
_OF_SPECS = {*_PLAIN, *_OBJECTS, "columns", "derive"}
_DESCRIBED = "described"  # next to the digests of a draft: a dictionary was read for it


def _without_a_field(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the places of a spec that the form has no field for: an import would lose them."""
    yield from sorted(spec.keys() - _OF_SPECS)
    for outer, members in _OBJECTS.items():
        yield from _unknown(outer, spec.get(outer), members)
    for name, column in spec["columns"].items():
        yield from _unknown(f"columns.{name}", column, _OF_COLUMNS)
        yield from _unknown(f"columns.{name}.within", column.get("within"), {"column", "of"})
    derived = spec.get("derive")
    yield from _unknown("derive", derived, derived if isinstance(derived, Mapping) else ())
    for name, each in derived.items() if isinstance(derived, Mapping) else ():
        if isinstance(each, Mapping) and isinstance(each.get("expr"), str):
            yield from _unknown(f"derive.{name}", each, {"expr", "lower", "upper"})
        elif not isinstance(each, str):
            yield f"derive.{name}"
    if not isinstance(_inside(spec, "policy.allowed"), list | None):
        yield "policy.allowed"


def _unknown(place: str, found: Any, members: Collection[str]) -> Iterator[str]:
    """Yield what an object has but its members; the object itself where it is none."""
    if isinstance(found, Mapping):
        yield from (f"{place}.{name}" for name in sorted(set(found) - {*members}))
    elif found is not None:
        yield place


def _inside(spec: Mapping[str, Any], place: str) -> Any:
    outer, _, inner = place.partition(".")
    found = spec.get(outer)
    return found.get(inner) if isinstance(found, Mapping) else None


SET, FILL = "set", "fill"
"""What becomes of one field of the chosen columns: all get a value, or the first one's."""


def with_one_field(form: Form, change: str) -> Form:
    """Return a form in which one field of the chosen columns is the same.

    Without a chosen column it is that of all. Filled down is the first column's, and what is
    filled in further down stays.
    """
    field = form.text("one_field")
    chosen = [place for place, _ in rows_of(form) if form.text(f"columns.{place}.chosen")]
    places = chosen or [place for place, _ in rows_of(form)]
    if field not in (*PLACES, *READING) or not places:
        return form
    at = {place: f"columns.{place}.{field}" for place in places}
    value = form.text("one_value") if change == SET else form.text(at[places[0]])
    changed = {
        name: value
        for name in at.values()
        if change == SET or not form.text(name) or field == "type"
    }
    return Form([*(pair for pair in form.pairs if pair[0] not in changed), *changed.items()])


def _written(value: Any) -> str:
    """Return what a draft says, as a field has it: lists and labels a line each."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case Mapping():
            return "\n".join(f"{name} = {label}" for name, label in value.items())
        case list() | tuple():
            return "\n".join(map(str, value))
    return str(value)


def spec_of(form: Form) -> dict[str, Any]:
    """Return the spec that a form declares; what is not filled in is left out."""
    spec: dict[str, Any] = {
        "name": form.text("name"),
        "description": form.text("description"),
        "adjacency": form.text("adjacency"),
        "columns": dict(_columns(form)),
        "policy": _policy(form),
    }
    if epsilon := form.text("epsilon"):
        delta = form.text("delta")
        spec["budget"] = {"epsilon": epsilon} | ({"delta": delta} if delta else {})
    if most := form.text("max_rows"):
        spec["max_rows"] = number_of(most)
    if form.text("unit_column"):
        spec["unit"] = dict(_unit(form))
    if reason := form.text("overlap"):
        spec["overlap"] = {"reason": reason}
    for name in ("delimiter", "encoding", "decimal", "thousands"):
        if given := form.raw(name):
            spec[name] = given
    if skipped := form.text("skip_rows"):
        spec["skip_rows"] = number_of(skipped)
    if stated := form.text("same_people"):
        spec["same_people"] = stated
    if account := form.text("account"):
        spec["account"] = account
    if markers := lines_in(form.text("na")):
        spec["na"] = markers
    if lines := form.text("derive"):
        spec["derive"] = derived_of(lines)
    if design := dict(_design(form, [*spec["columns"], *spec.get("derive", ())])):
        spec["design"] = design
    return spec


def _unit(form: Form) -> Iterator[tuple[str, Any]]:
    yield "column", _header(form, "unit_column")
    if rows := form.text("unit_max_rows"):
        yield "max_rows", number_of(rows)
    if kind := form.text("unit_id"):
        yield "id", kind
    if reduced := lines_in(form.text("unit_reduce")):
        yield "reduce", dict(map(label_in, reduced))


def _design(form: Form, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield what a form says of how the rows of a survey were sampled."""
    weight = form.text("design_weight")
    for name in ("weight", "strata"):
        if column := form.text(f"design_{name}"):
            yield name, column
    if lines := lines_in(form.text("design_replicates")):
        others = [name for name in columns if name != weight]
        yield "replicates", [name for line in lines for name in _matching(line, others)]
    if scale := form.text("design_scale"):
        yield "scale", number_of(scale)
    if scales := lines_in(form.text("design_rscales")):
        yield "rscales", [*map(number_of, scales)]


def _matching(pattern: str, names: Sequence[str]) -> Sequence[str]:
    """Return the names that a text with one star stands for; without one, or none, the text.

    >>> [_matching(each, ["w", "rep_1", "rep_2"]) for each in ("rep_*", "rep_1", "x*")]
    [['rep_1', 'rep_2'], ['rep_1'], ['x*']]
    """
    head, star, tail = pattern.partition("*")
    shortest = len(head) + len(tail)
    fits = [each for each in names if each.startswith(head) and each.endswith(tail)]
    fits = [each for each in fits if len(each) >= shortest]
    return fits if star and fits and pattern not in names else [pattern]


def _header(form: Form, name: str) -> str:
    """Return the text of a header as it was filled in: it may begin and end with anything."""
    return form.raw(name).replace("\r\n", "\n")


def _columns(form: Form) -> Iterator[tuple[str, Mapping[str, Any]]]:
    levels = {form.text(f"columns.{place}.within") for place, _ in rows_of(form)}
    for place, name in rows_of(form):
        fields = {field: form.text(f"columns.{place}.{field}") for field in (*PLACES, *READING)}
        fields["source"] = _header(form, f"columns.{place}.source")
        fields["thousands"] = form.raw(f"columns.{place}.thousands")  # may be a space
        if name in levels and fields["missing"] == "keep":  # as the column below says
            fields["missing"] = ""
        if fields["type"] != LEFT_OUT:
            yield name, {**dict(_column(fields)), **dict(_reading(fields))}


def _column(fields: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the members of a column that its type has and that are filled in."""
    kind = fields["type"]
    yield "type", kind
    numbers = kind in _NUMBERS
    if kind == "category":
        yield "values", lines_in(fields["values"])
    elif kind != "boolean":
        for end in ("lower", "upper"):
            if fields[end]:
                yield end, number_of(fields[end]) if numbers else fields[end]
    if missing := fields["missing"]:
        yield "missing", _missing(kind, missing)
    if fields["label"]:
        yield "label", fields["label"]
    if fields["unit_of_measure"] and numbers:
        yield "unit_of_measure", fields["unit_of_measure"]
    if typical := fields["typical"]:
        yield "typical", number_of(typical) if kind == "boolean" else dict(numbers_by_name(typical))


def _reading(fields: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield what says how a column's cells are read, where its type has it and it is filled in."""
    for name, kinds in READING.items():
        text = fields[name]
        if not text or (kinds and fields["type"] not in kinds):
            continue
        match name:
            case "true" | "false" | "format" | "na":
                yield name, lines_in(text)
            case "labels":
                yield name, dict(map(label_in, lines_in(text)))
            case "within":
                yield name, {"column": text, "of": dict(map(label_in, lines_in(fields["of"])))}
            case "of":
                pass  # of "within"
            case "trim" | "bare_number":
                if text != "yes":
                    yield name, False if text == "no" else text
            case "thousands" if text == _NO_SIGN:
                yield name, None
            case _:
                yield name, text


def _missing(kind: str, text: str) -> object:
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    return number_of(text) if kind in _NUMBERS else text


def _policy(form: Form) -> dict[str, Any]:
    review, allowed = form.text("review"), form.texts("allowed")
    policy: dict[str, Any] = {"review": review or "never"}
    if review == "above":
        policy["review"] = f"above:{form.text('review_above')}"
    if most := form.text("max_epsilon_per_release"):
        policy["max_epsilon_per_release"] = most
    if allowed:
        policy["allowed"] = allowed
    if form.text("reviewers"):
        policy["reviewers"] = number_of(form.text("reviewers"))
    return policy


def doubts(form: Form) -> Mapping[str, str]:
    """Return what is odd in a declaration, by its fields: it is judged without the file.

    That are bounds that look as if they were read off the file, and years of two digits.
    """
    columns = [f"columns.{place}" for place, _ in rows_of(form)]
    bounds = [f"{column}.{end}" for column in columns for end in ("lower", "upper")]
    formats = [f"{column}.format" for column in columns]
    return {
        **{field: _PRECISE for field in bounds if looks_read_off(form.text(field))},
        **{field: _TWO_DIGITS for field in formats if "%y" in form.text(field)},
    }


_PRECISE = marked(
    "So precise a bound looks read off the file. It is shown to everyone: take a round one, from "
    "public knowledge."
)
_TWO_DIGITS = marked(
    "Years of two digits are read as 1970 to 2069: 55 is 2055. For earlier dates, such as those of "
    "birth, write years with four digits in the file."
)


def at_cells(problem: Problem, form: Form) -> Problem:
    """Return a refusal of a form's spec by the fields of the form."""
    if problem.code == "name-taken":
        return _named(problem, [("name", "is taken; choose another one")])
    errors = problem.extras.get("errors")
    if not isinstance(errors, list):
        return at_source(problem)
    names = [(p, n) for p, n in rows_of(form) if form.text(f"columns.{p}.type") != LEFT_OUT]
    above = {"review": "review_above"} if form.text("review") == "above" else {}
    faults = []
    for each in errors:
        place, words = str(each["field"]), str(each["message"])
        field = _field(place, names)
        words = _message(place, words)
        if match := _IN_DESIGN.fullmatch(place):
            listed = spec_of(form)["design"].get(match["list"], ())
            words = ": ".join([*map(str, listed[int(match["position"]) :][:1]), words])
        faults.append((above.get(field, field), words))
    return invalid_requests(faults)


def at_source(problem: Problem) -> Problem:
    """Return a refusal that is about a source by the field that names it."""
    limit = str(problem.extras.get("limit", ""))
    if problem.code.startswith("source-") or limit.startswith("max_source_"):
        return _named(problem, [("source", problem.detail)])
    return problem


def of_source(problem: Problem) -> Problem:
    """Return a refusal of a file by the field of the source that it is in."""
    errors = problem.extras.get("errors")
    if not isinstance(errors, list):
        return problem
    refused = [(str(each["field"]), str(each["message"])) for each in errors]
    return invalid_requests([("source" if f == "file" else f, text) for f, text in refused])


def _message(place: str, words: str) -> str:
    """Return what is wrong, as its field says it, which stands for all that is typical."""
    text = _ABOUT.sub("", words)
    return f"'{match[1]}': {text}" if (match := _WITHIN.search(place)) else text


def _named(problem: Problem, faults: Sequence[tuple[str, str]]) -> Problem:
    errors = [{"field": place, "message": words} for place, words in faults]
    return Problem(problem.code, problem.detail, errors=errors)


def _field(place: str, names: Sequence[tuple[int, str]]) -> str:
    """Return the field that a place of the spec is filled in by.

    A column is given by its position, or by its name where a field of specs has that name too.
    """
    place = _IN_LIST.sub(r"\g<list>", place.removeprefix("spec."))
    if _IN_DERIVE.match(place):
        return "derive"
    if (match := _PLACE.fullmatch(place)) is None:
        return _FIELDS.get(place, place)
    if match["position"] is not None:
        at, rest = int(match["position"]), match["rest"]
        row = names[at][0] if at < len(names) else None
    else:
        named = match["named"]
        fits = [each for each in names if f"{named}.".startswith(f"{each[1]}.")]
        row, name = max(fits, key=lambda each: len(each[1]), default=(None, ""))
        rest = named[len(name) + 1 :]
    field = re.split(r"[.\[]", _OF_WITHIN.sub("of", rest).removeprefix("."))[0]
    known = {*PLACES, *READING}
    return "columns" if row is None else f"columns.{row}.{field if field in known else 'type'}"
