"""A public release as references have it: text, BibTeX, RIS and CSL-JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape

from app.services.publishing.linked_data import schema_org
from app.services.publishing.published import Published, badge_text, loss_of
from app.services.releases.public_moments import tidy_csv

_PUBLISHER = "Release Desk"
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\textbraceleft{}", "}": r"\textbraceright{}",
        "&": r"\&", "%": r"\%", "$": r"\$",
        "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    }
)  # fmt: skip


def citation(published: Published, address: str) -> str:
    """Return the answer's own sentence, and where it is."""
    return f"{published.answer['citation']} {address}"


def bibtex(published: Published, address: str) -> str:
    """Return an entry of BibTeX; what LaTeX would take for commands is escaped.

    BibTeX itself knows no escapes. It counts every brace to find where a text ends, so a name's
    own are none in the file.
    """
    members = {
        "title": f"{{{published.title.translate(_LATEX)}}}",
        "author": f"{{{_PUBLISHER}}}",
        "year": published.day[:4],
        "howpublished": r"\url{" + address + "}",
        "note": f"Differentially private release, {_told(published)}".translate(_LATEX),
    }
    lines = ",\n".join(f"  {name} = {{{text}}}" for name, text in members.items())
    return f"@misc{{{published.id},\n{lines}\n}}\n"


def ris(published: Published, address: str) -> str:
    """Return a record of RIS."""
    lines = (
        ("TY", "DATA"),
        ("ID", published.id),
        ("TI", published.title),
        ("AU", _PUBLISHER),
        ("PB", _PUBLISHER),
        ("PY", published.day[:4]),
        ("DA", published.day.replace("-", "/")),
        ("UR", address),
        ("N1", f"Differentially private release, {_told(published)}"),
        ("ER", ""),
    )
    return "".join(f"{tag}  - {text}\r\n" for tag, text in lines)


def csl_json(published: Published, address: str) -> str:
    """Return an item of CSL-JSON, in a list of one."""
    year, month, day = map(int, published.day.split("-"))
    item = {
        "id": published.id,
        "type": "dataset",
        "title": published.title,
        "author": [{"literal": _PUBLISHER}],
        "publisher": _PUBLISHER,
        "issued": {"date-parts": [[year, month, day]]},
        "URL": address,
        "note": f"Differentially private release, {_told(published)}",
    }
    return json.dumps([item], ensure_ascii=False, indent=1) + "\n"


def _told(published: Published) -> str:
    adjacency = published.answer["guarantee"]["adjacency"]
    return f"{' = '.join(loss_of(published.answer['guarantee']))} ({adjacency})"


# The formats of a public release: files, citations and pictures, by file extension

_LETTER = 6.6
"""The width of a letter of a badge, in pixels."""

Form = Callable[[Published, str], bytes]
"""Makes a form of a public release; ``base`` is where the service is."""


def _csv(published: Published, base: str) -> bytes:
    del base
    return tidy_csv(published.answer).encode()


def _linked(published: Published, base: str) -> bytes:
    return json.dumps(schema_org(published, base), ensure_ascii=False).encode()


def _badge(published: Published, base: str) -> bytes:
    del base
    return badge(*badge_text(published)).encode()


def badge(left: str, right: str) -> str:
    """Return a badge of two halves."""
    first, second = (round(_LETTER * len(text)) + 12 for text in (left, right))
    label = escape(f"{left}, {right}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{first + second}" height="20" role="img"'
        f' aria-label="{label}"><title>{label}</title>'
        f'<rect width="{first}" height="20" fill="#444"/>'
        f'<rect x="{first}" width="{second}" height="20" fill="#0b5cad"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"'
        ' text-anchor="middle">'
        f'<text x="{first / 2}" y="14">{escape(left)}</text>'
        f'<text x="{first + second / 2}" y="14">{escape(right)}</text></g></svg>'
    )


def _cited(make: Callable[[Published, str], str]) -> Form:
    return lambda published, base: make(published, f"{base}{published.path}").encode()


FORMS: Mapping[str, Form] = {
    "csv": _csv,
    "jsonld": _linked,
    "csl.json": _cited(csl_json),
    "bib": _cited(bibtex),
    "ris": _cited(ris),
    "txt": _cited(lambda published, address: f"{citation(published, address)}\n"),
    "svg": _badge,
}
"""Every form by how its address ends, but for the document itself, which is signed."""
