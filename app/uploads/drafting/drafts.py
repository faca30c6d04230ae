"""A spec to fill in, from a file's format, a guess of its columns' types, and a dictionary.

Types come from a Parquet file's own, else from how the first cells are spelt, else from names. A
unit in brackets behind a name is a unit of measure. Bounds and a category's values come from a
dictionary alone, where one states them: from rows neither is proposed, since both are public.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, BinaryIO

from app.domain.columns import MAX_NAME_LENGTH, is_text
from app.domain.problems import invalid_request
from app.uploads.dictionaries.described import Described, Dictionary, DictionaryError
from app.uploads.dictionaries.reading import dictionary_in
from app.uploads.drafting.guesses import (
    ID_NAME,
    Guess,
    guessed,
    markers_in,
    number_style,
    repeats,
    styled,
)
from app.uploads.drafting.samples import Sample, sample_of
from app.uploads.trouble import Limits, UnreadableError

NEVER = "bounds and values are left empty: fill them in from public knowledge, never from the rows"
_UNIT = re.compile(r"(?P<label>.*\S)\s*[\[(](?P<unit>[^\])]+)[\])]\s*", re.DOTALL)
_PLAIN = re.compile(r"[\w .,:/%°€$£#()\[\]+-]+")
"""What a column's name may be made of; any other header gets a short name, and is its source."""
_SHORT = 40
_IF_SEVERAL = "if a person may have several rows"
_BOUNDS = ("lower", "upper")


@dataclass(frozen=True, slots=True)
class Draft:
    """A spec with empty places, and notes about its columns and those that are not in it."""

    spec: Mapping[str, Any]
    notes: Sequence[str]


def drafted_file(
    stream: BinaryIO,
    *,
    name: str,
    dictionary: Dictionary | None = None,
    limits: Limits | None = None,
) -> Draft:
    """Return the draft of a file, of which the first megabyte or the first rows are looked at.

    Raises
    ------
    UnreadableError
        The file is no table, or has no header.
    """
    return drafted(sample_of(stream, limits), name=name, dictionary=dictionary)


def drafted(sample: Sample, *, name: str, dictionary: Dictionary | None = None) -> Draft:
    """Return the draft of a file by its first rows."""
    known = dictionary or Dictionary()
    style = known.style or number_style(sample.rows)
    markers = [*dict.fromkeys((*known.na, *markers_in(sample.rows)))]
    notes = [*sample.notes, *known.notes]
    if not sample.whole:
        notes.append(
            f"types are guessed from the first {sample.rows.height:,} rows of a longer file: check "
            "those that may look different further down"
        )
    columns: dict[str, Any] = {}
    seen: set[str] = set()
    for place, header in enumerate(sample.header):
        text, cells = header.strip(), sample.rows[str(place)]
        described = known.of(text)
        if not text:
            notes.append(f"column {place + 1} is left out: its header is empty")
        elif text in seen:
            notes.append(f"{_shown(text)} is in the file twice, and must be renamed to be declared")
        elif described.type is None and ID_NAME.fullmatch(text):
            several = repeats(cells)
            notes.append(
                f"{_shown(text)} is left out, since its name is that of an id; name it in `unit` "
                + ("since some have several rows" if several else _IF_SEVERAL)
            )
        else:
            found = _UNIT.fullmatch(text)
            label, unit = (text, None) if found is None else (found["label"], found["unit"].strip())
            guess = guessed(label, cells, style=style, unit=unit)
            notes += [f"{_shown(text)}: {note}" for note in (*guess.notes, *described.notes)]
            if (described.type or guess.type) is not None:
                key = _key(text, columns)
                columns[key] = dict(_members(key, text, guess, described, label=label, unit=unit))
                if described.na:  # in place of those of all columns
                    columns[key]["na"] = [*dict.fromkeys((*described.na, *markers))]
        seen.add(text)
    notes += [
        f"{_shown(each)} is in the dictionary and not in the file"
        for each in known.missing_from(sample.header)
    ]
    if columns:
        notes.append(NEVER)
    named = known.name or name
    spec = _spec(sample, named, style, known, markers=markers, columns=columns)
    return Draft(dict(spec), notes)


def _spec(
    sample: Sample,
    name: str,
    style: tuple[str, str | None],
    known: Dictionary,
    *,
    markers: Sequence[str],
    columns: Mapping[str, Any],
) -> Iterator[tuple[str, Any]]:
    yield "name", name
    yield "description", known.description
    yield "adjacency", None
    yield from {**known.dialect, **sample.dialect}.items()
    yield from styled(style)
    if markers:
        yield "na", markers
    yield "columns", columns
    yield "budget", {"epsilon": None}
    yield "same_people", None


def _members(
    key: str, header: str, guess: Guess, known: Described, *, label: str, unit: str | None
) -> Iterator[tuple[str, Any]]:
    kind = known.type or guess.type
    yield "type", kind
    yield "missing", "keep"
    if kind == "category":
        yield "values", list(known.values)
        if known.labels:
            yield "labels", dict(known.labels)
    elif kind != "boolean":
        for end in _BOUNDS:
            yield end, getattr(known, end)
    reading = guess.reading if kind == guess.type else {}
    yield from {**reading, **known.reading}.items()
    if key != header:
        yield "source", header
    known_label = known.label or (label if label != key and is_text(label, 200) else None)
    if known_label:
        yield "label", known_label[:200]
    measure = known.unit or unit
    if measure is not None and kind in ("number", "integer"):
        yield "unit_of_measure", measure[:200]


def _key(header: str, taken: Mapping[str, Any]) -> str:
    """Return the name of a column: its header, or a short one where that cannot be a name."""
    if is_text(header, MAX_NAME_LENGTH) and _PLAIN.fullmatch(header):
        return header
    words = "_".join(re.findall(r"\w+", header)).lower()
    short = words[:_SHORT].rpartition("_")[0] if len(words) > _SHORT else words
    short = short or words[:_SHORT] or "column"
    key, number = short, 1
    while key in taken:
        number += 1
        key = f"{short}_{number}"
    return key


def _shown(header: str) -> str:
    """Return a header as a note has it: in one line, and not too long."""
    line = " ".join(header.split())
    line = "".join(each if each.isprintable() else "?" for each in line)
    return line if len(line) <= 60 else f"{line[:57]}..."


# The request to the process that drafts a spec, and its answer

_MARK = "draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftingTask:
    """Draft a spec of a file under a name, with the bytes of a dictionary if there is one."""

    name: str
    limits: Limits
    dictionary: bytes = b""

    def to_json(self) -> bytes:
        """Return the task as it is sent."""
        limits = {each.name: getattr(self.limits, each.name) for each in fields(self.limits)}
        content = {"name": self.name, "dictionary": base64.b64encode(self.dictionary).decode()}
        return json.dumps({_MARK: {**content, "limits": limits}}).encode()

    @classmethod
    def found_in(cls, order: bytes) -> DraftingTask | None:
        """Return the task that an order is, None for any other."""
        fields = json.loads(order).get(_MARK)
        if fields is None:
            return None
        dictionary = base64.b64decode(fields["dictionary"])
        return cls(name=fields["name"], limits=Limits(**fields["limits"]), dictionary=dictionary)

    def done(self, file: BinaryIO) -> Draft:
        """Return the draft of a file.

        Raises
        ------
        Problem
            ``invalid-request``, about the file or the dictionary; ``too-large``.
        """
        try:
            known = dictionary_in(self.dictionary) if self.dictionary else None
        except DictionaryError as error:
            raise invalid_request("dictionary", str(error)) from None
        try:
            return drafted_file(file, name=self.name, dictionary=known, limits=self.limits)
        except UnreadableError as error:
            raise invalid_request("file", str(error)) from None


def draft_json(draft: Draft) -> bytes:
    """Return a draft as it is sent."""
    return json.dumps({"spec": draft.spec, "notes": list(draft.notes)}).encode()


def draft_in(content: bytes) -> Draft:
    """Return the inverse of :func:`draft_json`.

    Raises
    ------
    ValueError
        It is no draft: who sends it has read a file of an untrusted client.
    """
    order = json.loads(content)
    spec, notes = order["spec"], order["notes"]
    columns = spec["columns"] if isinstance(spec, Mapping) else None
    sound = isinstance(columns, Mapping) and all(
        isinstance(each, Mapping) and isinstance(each.get("type"), str) for each in columns.values()
    )
    if not sound or not all(isinstance(each, str) for each in notes):
        raise ValueError("not a draft")
    typed: dict[str, Any] = dict(spec)
    return Draft(typed, tuple(notes))
