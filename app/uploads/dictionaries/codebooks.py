"""DDI codebooks (XML, DDI 1.x and 2.x): what archives of surveys say of variables.

The reader knows elements and text alone. A document type, and with it every entity, is refused;
nothing is fetched. Frequencies and summaries, which many codebooks print, are counts of rows and
are not read: bounds come from ``valrng`` alone.

DDI Alliance, *DDI Codebook 2.5*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from app.uploads.dictionaries.described import (
    Described,
    Dictionary,
    DictionaryError,
    code_text,
    number_in,
)

_DEEPEST = 100
_MOST_ELEMENTS = 2_000_000
_MOST_CODES = 100  # of a range of codes for missing values


@dataclass(slots=True)
class Element:
    """An element: its name without a namespace, its attributes in lower case, and what is in it."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    def all(self, name: str) -> Iterator[Element]:
        """Yield the children of a name."""
        return (each for each in self.children if each.name == name)

    def text(self, name: str | None = None) -> str:
        """Return its own text, or that of its first child of a name."""
        if name is None:
            return " ".join("".join(self.pieces).split())
        return next((each.text() for each in self.all(name)), "")

    def walk(self, name: str) -> Iterator[Element]:
        """Yield every element of a name in it."""
        for each in self.children:
            if each.name == name:
                yield each
            yield from each.walk(name)


def read_xml(content: bytes) -> Element:
    """Return the root of a document.

    Raises
    ------
    DictionaryError
        It is not well-formed, has a document type or entities, or is too deep or too large.
    """
    root = Element("")
    stack, count = [root], 0

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(stack) > _DEEPEST or count > _MOST_ELEMENTS:
            raise DictionaryError("the dictionary is an XML document that is too deep or too large")
        named = {key.rpartition(":")[2].lower(): value for key, value in attributes.items()}
        made = Element(name.rpartition(":")[2], named)
        stack[-1].children.append(made)
        stack.append(made)

    def end(_: str) -> None:
        stack.pop()

    def refuse(*_: object) -> None:
        raise DictionaryError(
            "the dictionary is XML with a document type (<!DOCTYPE ...>) or entities, which are "
            "not read: remove that line"
        )

    def add(text: str) -> None:
        stack[-1].pieces.append(text)

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = add
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse  # type: ignore[assignment]
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise DictionaryError(
            f"the dictionary is no well-formed XML (line {error.lineno})"
        ) from None
    except (LookupError, ValueError):
        raise DictionaryError("the dictionary is XML in an unknown encoding") from None
    return root.children[0]


def codebook(content: bytes) -> Dictionary:
    """Return what a DDI codebook says.

    Raises
    ------
    DictionaryError
        It is no DDI codebook.
    """
    root = read_xml(content)
    variables = [each for each in root.walk("var") if each.attributes.get("name")]
    if root.name != "codeBook" or not variables:
        raise DictionaryError(
            "the dictionary is XML, but no DDI codebook with variables (codeBook, dataDscr, var)"
        )
    title = next((each.text() for each in root.walk("titl")), "")
    return Dictionary(
        columns={each.attributes["name"]: _variable(each) for each in variables},
        name=title[:100] or None,
        description=next((each.text() for each in root.walk("abstract")), "")[:2000],
    )


def _variable(variable: Element) -> Described:
    form = next(variable.all("varFormat"), Element("varFormat")).attributes
    values: list[str] = []
    labels: dict[str, str] = {}
    missing = [*_missing_codes(variable)]
    for each in variable.all("catgry"):
        value, label = each.text("catValu"), each.text("labl")
        if not value:
            continue
        if each.attributes.get("missing", "").upper() in ("Y", "YES", "TRUE"):
            missing.append(value)
        else:
            values.append(value)
            labels[value] = label
    kept = [each for each in values if each not in missing]
    continuous = variable.attributes.get("intrvl") == "contin"
    ranges = [each.attributes for each in _ranges(variable, "valrng")]
    character = form.get("type") == "character"
    notes: list[str] = []
    if form.get("category") in ("date", "time"):
        kind: str | None = "date" if form["category"] == "date" else None
    elif (kept and not continuous) or character:
        kind = "category"
    else:
        kind = "integer" if variable.attributes.get("dcml", "") == "0" else "number"
        if kept:
            notes.append(
                "some of its numbers have labels in the dictionary; where one stands for a missing "
                "value, put it into `na`"
            )
    numbers = kind in ("number", "integer")
    return Described(
        type=kind,
        label=variable.text("labl") or None,
        values=kept if kind == "category" else (),
        labels=labels if kind == "category" else {},
        na=[code_text(_plain(each)) for each in missing],
        unit=_unit(variable) if numbers else None,
        lower=_end([each.get("min") for each in ranges], min) if numbers else None,
        upper=_end([each.get("max") for each in ranges], max) if numbers else None,
        notes=notes,
    ).tidied()


def _plain(text: str) -> object:
    number = number_in(text)
    return text if number is None else number


def _ranges(variable: Element, name: str) -> Iterator[Element]:
    for each in variable.all(name):
        yield from each.all("range")


def _missing_codes(variable: Element) -> Iterator[str]:
    for each in variable.all("invalrng"):
        for item in each.all("item"):
            if value := item.attributes.get("value", ""):
                yield value
    for each in _ranges(variable, "invalrng"):
        low, high = (number_in(each.attributes.get(end)) for end in ("min", "max"))
        if isinstance(low, int) and isinstance(high, int) and 0 <= high - low < _MOST_CODES:
            yield from map(str, range(low, high + 1))


def _unit(variable: Element) -> str | None:
    found = variable.attributes.get("measunit", "")
    units = (each.attributes.get("units", "") for each in _ranges(variable, "valrng"))
    found = found or next((each for each in units if each not in ("", "INT", "REAL")), "")
    return found or None


def _end(
    texts: list[str | None], outermost: Callable[[list[int | float]], int | float]
) -> int | float | None:
    """Return the outermost end of the ranges, None where one of them is open."""
    found = [number_in(each) for each in texts]
    numbers = [each for each in found if each is not None]
    return outermost(numbers) if numbers and len(numbers) == len(found) else None
