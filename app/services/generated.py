"""Sources that follow from the classes of statistics, for programs that do not know them.

    python -m app.services.generated

writes them. The client is installed without the library, so it cannot ask a class: it has a method
for each kind (:mod:`app.client.methods`), and the names that tables need
(:mod:`app.tidy.names`). A test compares the files with what is generated.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from mechanisms.catalog import STATISTICS
from mechanisms.contract import Statistic
from mechanisms.statistics.questions import Question
from mechanisms.statistics.stack import Stack

ROOT = Path(__file__).resolve().parents[2]

_ALONE: Mapping[str, type[Statistic]] = {
    kind: each for kind, each in STATISTICS.items() if each is not Stack
}
"""The kinds that have a method; that of a stack is not generated."""
_HEAD = '''"""{title} Generated: do not edit.

``python -m app.services.generated`` writes this file from the classes of the statistics.
"""

from __future__ import annotations
'''
_POSITIONAL: Mapping[str, str] = {
    "formula": "formula: str | None = None",
    "columns": "*columns: str",
    "column": "column: str",
    "levels": "levels: Sequence[float | str] | float",
}
"""Fields that a method takes by position, and how."""
_KEYWORDS: Mapping[str, frozenset[str]] = {
    "Selected": frozenset(),
    "Summed": frozenset({"weights", "clip"}),
    "Ranked": frozenset({"base_measure", "weights"}),
    "Binned": frozenset({"edges", "outside"}),
    "LinearFit": frozenset(
        {
            "weights",
            "target",
            "features",
            "intercept",
            "bound",
            "loss",
            "threshold",
            "ridge",
            "base_measure",
        }
    ),
    "LogisticFit": frozenset({"weights", "target", "features", "intercept", "bound", "q"}),
    "QuantileFit": frozenset(
        {"weights", "target", "features", "intercept", "bound", "tau", "base_measure"}
    ),
}
"""Types of :mod:`app.client.questions`, by the fields that they add to those of every question."""
_TYPED = frozenset[str]({*_POSITIONAL, "parts"}).union(*_KEYWORDS.values())


_NAMES = "app/tidy/names.py"
_BY_HAND = "\n\n# Names of numbers"
"""Where that file goes on with what is not generated."""
_SHORT = 2
"""At most this many pairs are written on one line."""


def sources() -> Mapping[str, str]:
    """Return the text of each generated file, by its path in the repository."""
    return {
        _NAMES: _names(),
        "app/client/methods.py": _methods(),
    }


def _names() -> str:
    names = {kind: each.name for kind, each in STATISTICS.items() if each.name}
    diagonal = {
        kind: each.name_on_diagonal for kind, each in STATISTICS.items() if each.name_on_diagonal
    }
    new = sorted({name for each in _ALONE.values() for name in _own(each)} - _TYPED)
    lines = "".join(f"\n    {name}: object" for name in new)
    made = f'''NAMES: Mapping[str, str] = {_literal(names)}
"""Names of kinds that are not their kind in words."""

ON_DIAGONAL: Mapping[str, str] = {_literal(diagonal)}
"""The kind of a matrix's entries of a column with itself, where that has a name of its own."""


class OwnFields(TypedDict, total=False):
    """Fields that have no type in :mod:`app.client.questions`; the service says what they are."""
{lines}
'''
    # the rest of the file is written by hand
    written = (ROOT / _NAMES).read_text("utf-8")
    return written[: written.index("NAMES: ")] + made + written[written.index(_BY_HAND) :]


def _literal(texts: Mapping[str, str]) -> str:
    pairs = [f'"{name}": "{text}"' for name, text in texts.items()]
    if len(pairs) <= _SHORT:
        return "{" + ", ".join(pairs) + "}"
    return "{\n" + "".join(f"    {pair},\n" for pair in pairs) + "}"


def _methods() -> str:
    kinds = _ALONE.items()
    own = {kind: [name for name in _own(each) if name not in _POSITIONAL] for kind, each in kinds}
    found = {kind: _keywords(kind, names) for kind, names in own.items()}
    made = "".join(
        _typed_dict(found[kind], kind, names)
        for kind, names in own.items()
        if found[kind] not in _KEYWORDS
    )
    named = {*found.values()} & _KEYWORDS.keys()
    imported = sorted({"Amount", *named, *(["Options", "Selecting"] if made else [])})
    title = "A method of a data set for each kind of statistic."
    methods = "\n".join(_method(kind, each, found[kind]) for kind, each in kinds)
    lines = "".join(f"    {name},\n" for name in imported)
    return f'''{_HEAD.format(title=title)}
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from app.client.models import Release
from app.client.questions import (
{lines})
from app.client.releasing import Call, Steps

{made}
class Methods:
    """A method for each kind; ``_asked`` sends the question."""

    __slots__ = ()

{methods}
    def _asked(
        self, kind: str, epsilon: Amount, fields: Mapping[str, Any], **own: object
    ) -> Steps[Release]:
        raise NotImplementedError
'''


def _own(statistic: type[Statistic]) -> Sequence[str]:
    """Return the names of a statistic's fields but those that every question has."""
    common = {"kind", *(each.name for each in fields(Question))}
    every: Any = fields(statistic)  # type: ignore[arg-type]
    return [each.name for each in every if each.name not in common]


def _keywords(kind: str, names: Collection[str]) -> str:
    """Return the type of the keywords of a method."""
    known = [name for name, each in _KEYWORDS.items() if each == set(names)]
    return known[0] if known else f"{kind.title().replace('_', '')}Keywords"


def _typed_dict(name: str, kind: str, names: Sequence[str]) -> str:
    lines = "".join(f"    {each}: object\n" for each in names)
    return f'''
class {name}(Selecting, Options, total=False):
    """Keywords of ``{kind}``."""

{lines}
'''


def _method(kind: str, statistic: type[Statistic], keywords: str) -> str:
    """Return the method of a kind, formatted as the formatter does."""
    own = _own(statistic)
    # a formula stands for the fields that a regression is made of
    taken = ["formula"] if "formula" in own else [name for name in _POSITIONAL if name in own]
    starred = taken == ["columns"]
    parameters = ["self", "/", *(_POSITIONAL[name] for name in taken)]
    parameters += [*([] if starred else ["*"]), "epsilon: Amount", f"**fields: Unpack[{keywords}]"]
    given = "".join(f", {name}={name}" for name in taken)
    summary = (statistic.__doc__ or "").strip().splitlines()[0]
    return f'''    @Call
{_signature(kind, parameters)}
        """Release ``{kind}``.

        {summary}
        """
        return (yield from self._asked("{kind}", epsilon, fields{given}))
'''


def _signature(kind: str, parameters: Sequence[str]) -> str:
    """Return the head of a method: in one line, with its parameters in one, or in one each."""
    together = ", ".join(parameters)
    end = ") -> Steps[Release]:"
    line = f"    def {kind}({together}{end}"
    if len(line) <= _WIDTH:
        return line
    inner = f"        {together}"
    if len(inner) > _WIDTH:
        inner = "\n".join(f"        {each}," for each in parameters)
    return f"    def {kind}(\n{inner}\n    {end}"


_WIDTH = 100


def main() -> int:
    """Write the files."""
    for path, text in sources().items():
        (ROOT / path).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
