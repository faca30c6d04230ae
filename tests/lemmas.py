"""The machine-checked lemmas of ``proofs``: what each is about, and whether all of it still holds.

``proofs/lemmas.toml`` maps a lemma to the functions that it is about, each with a digest of its
source. A function that has changed since makes the table stale, until somebody has read the lemma
again and says so:

    python -m tests.lemmas                     check every proof by Coq, and the table: make proofs
    python -m tests.lemmas --looked-at Ledger  note that this lemma fits its functions as they are
    python -m tests.lemmas --tables            write what Coq computes to proofs/tables.json
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROOFS = ROOT / "proofs"
TABLE = PROOFS / "lemmas.toml"
COMPUTED = PROOFS / "tables.json"
AXIOMS = {
    "none": frozenset[str](),
    # What the standard library's real numbers stand on.
    "reals": frozenset(
        {
            "ClassicalDedekindReals.sig_forall_dec",
            "ClassicalDedekindReals.sig_not_dec",
            "Classical_Prop.classic",
            "FunctionalExtensionality.functional_extensionality_dep",
        }
    ),
}
"""What a lemma may take without a proof, by what the table says of it."""

Rows = list[list[int]]
Functions = Mapping[str, str]
_STATED = re.compile(r"^ *Theorem (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"\(\*.*?\*\)", re.DOTALL)
_ASSUMED = re.compile(r"^(?=Closed under the global context$|Axioms:$)", re.MULTILINE)
"""Where the answer for a lemma begins."""
_TIMEOUT_S = 240


@dataclass(frozen=True, slots=True)
class Lemma:
    """One file of proofs: its theorems in words, and what it is about.

    ``functions`` maps ``module:name`` to the digest its source had when somebody last compared it
    with the lemma. ``tables`` are definitions that Coq computes, and a test compares with Python.
    """

    name: str
    says: Mapping[str, str]
    axioms: str
    functions: Functions
    tables: tuple[str, ...]

    @property
    def source(self) -> str:
        """Return the file's text without comments."""
        return _COMMENT.sub("", (PROOFS / f"{self.name}.v").read_text("utf-8"))

    @property
    def theorems(self) -> list[str]:
        """Return the names of all theorems that the file states."""
        return _STATED.findall(self.source)


@cache
def lemmas() -> tuple[Lemma, ...]:
    """Return the table, in its order."""
    table = tomllib.loads(TABLE.read_text("utf-8"))
    return tuple(
        Lemma(
            name=name,
            says=row["says"],
            axioms=row["axioms"],
            functions=row["functions"],
            tables=tuple(row.get("tables", ())),
        )
        for name, row in table.items()
    )


def digest(function: str) -> str:
    """Return the digest of what a function, a property or a constant does, by its name.

    It is that of its syntax: formatting, comments and docstrings do not count, and every version
    of Python finds the same.

    Raises
    ------
    LookupError
        There is no such module, or no such name in it.
    """
    module, _, name = function.partition(":")
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not path.is_file():
        raise LookupError(f"there is no module {module}")
    return digest_in(path.read_text("utf-8"), name)


def digest_in(source: str, name: str) -> str:
    """Return the same of a name in a module's source."""
    node: ast.AST = ast.parse(source)
    for part in name.split("."):
        inside = getattr(node, "body", [])
        found = [each for each in inside if part in _names(each)]
        if len(found) != 1:
            raise LookupError(f"{len(found)} definitions of {name}")
        node = found[0]
    return hashlib.sha256(_shape(node).encode()).hexdigest()[:16]


def _names(node: ast.AST) -> list[str]:
    """Return what a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _shape(node: object) -> str:
    """Return a text of a piece of syntax; what is empty or None is left out, as versions differ."""
    if isinstance(node, list):
        return "[" + ",".join(map(_shape, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {
        name: value
        for name, value in ast.iter_fields(node)
        if name not in {"ctx", "kind", "type_comment"} and value is not None and value != []
    }
    named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    if named and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = fields["body"][1:]
    inside = ",".join(f"{name}={_shape(value)}" for name, value in sorted(fields.items()))
    return f"{type(node).__name__}({inside})"


def stale(functions: Functions) -> dict[str, str]:
    """Return what has changed since somebody looked, and what it is now."""
    now = {name: digest(name) for name in functions}
    return {name: now[name] for name, seen in functions.items() if seen != now[name]}


def looked_at(name: str) -> int:
    """Write the digests of one lemma's functions as they are, and return how many were others."""
    changed = {lemma.name: stale(lemma.functions) for lemma in lemmas()}[name]
    lines, inside = [], False
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("["):
            inside = line == f"[{name}.functions]"
        function = line.partition(" = ")[0].strip('"')
        lines.append(
            f'"{function}" = "{changed[function]}"' if inside and function in changed else line
        )
    TABLE.write_text("\n".join(lines) + "\n", "utf-8")
    return len(changed)


def has_coq() -> bool:
    """Return whether Coq is on this machine."""
    return shutil.which("coqc") is not None and shutil.which("coqchk") is not None


@dataclass(frozen=True, slots=True)
class Checked:
    """What Coq says of a lemma's file."""

    axioms: frozenset[str]
    tables: Mapping[str, Rows]


def compiled(place: Path) -> None:
    """Compile a copy of every file of proofs: the tree stays as it is.

    Raises
    ------
    subprocess.CalledProcessError
        Coq does not accept one of them; what it prints says where.
    """
    for path in sorted(PROOFS.glob("*.v")):
        shutil.copy(path, place)
    for name in project():
        _coq("coqc", place, "-q", name)
    # A second, smaller checker reads what the first has written.
    modules = (f"ReleaseDesk.{name.removesuffix('.v')}" for name in project())
    written = (argument for module in modules for argument in ("-norec", module))
    _coq("coqchk", place, "-silent", *written)


def project() -> list[str]:
    """Return the files of proofs as Coq's own list of them says, each after what it needs."""
    lines = (PROOFS / "_CoqProject").read_text("utf-8").split("\n")
    return [line for line in lines if line.endswith(".v")]


def checked(every: Sequence[Lemma], place: Path) -> dict[str, Checked]:
    """Return which axioms compiled lemmas use, and the contents of their tables.

    One process computes all: to load the library takes a second.
    """
    asked = [
        "From Coq Require Import ZArith List. Import ListNotations. Open Scope Z_scope.",
        "Set Printing Width 1000000. Set Printing Depth 10000000.",
    ]
    for lemma in every:
        theorems = ", ".join(f"@{lemma.name}.{theorem}" for theorem in lemma.theorems)
        asked += [
            f"From ReleaseDesk Require {lemma.name}.",
            # Asked of all theorems at once: each answer takes a walk through the library.
            f"Definition of_{lemma.name} := ({theorems}). Print Assumptions of_{lemma.name}.",
            *(f"Eval vm_compute in {lemma.name}.{table}." for table in lemma.tables),
        ]
    (place / "Asked.v").write_text("\n".join(asked), "utf-8")
    nothing, *answers = _ASSUMED.split(_coq("coqc", place, "-q", "Asked.v"))
    assert not nothing.strip(), nothing
    return {lemma.name: _read(lemma, answer) for lemma, answer in zip(every, answers, strict=True)}


def _read(lemma: Lemma, answer: str) -> Checked:
    """Return what Coq answers for one lemma."""
    proofs, *tables = answer.split("     = ")
    named = re.findall(r"^([\w.]+)(?=\s+:|$)", proofs.replace("Axioms:", ""), re.MULTILINE)
    rows = [json.loads(table.rpartition(":")[0].replace(";", ",")) for table in tables]
    return Checked(frozenset(named), dict(zip(lemma.tables, rows, strict=True)))


def _coq(tool: str, place: Path, *arguments: str) -> str:
    done = subprocess.run(
        [tool, "-Q", ".", "ReleaseDesk", *arguments],
        cwd=place,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
    )
    return done.stdout


def all_checked() -> dict[str, Checked]:
    """Return what Coq says of every lemma."""
    with tempfile.TemporaryDirectory(prefix="proofs-") as made:
        place = Path(made)
        compiled(place)
        return checked(lemmas(), place)


def computed() -> dict[str, Rows]:
    """Return the tables that are kept, such as ``Ledger.steps_table``, as Coq has computed them."""
    kept: dict[str, Rows] = json.loads(COMPUTED.read_text("utf-8"))
    return kept


def tables_text(found: Mapping[str, Checked]) -> str:
    """Return the file of tables, a row a line."""
    tables = {
        f"{name}.{table}": rows
        for name, each in found.items()
        for table, rows in each.tables.items()
    }
    parts = []
    for name, rows in tables.items():
        lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def faults(found: Mapping[str, Checked]) -> list[str]:
    """Return what is wrong with the proofs, in words."""
    wrong = []
    for lemma in lemmas():
        more = found[lemma.name].axioms - AXIOMS[lemma.axioms]
        wrong += [f"{lemma.name} takes {axiom} without a proof" for axiom in sorted(more)]
    if tables_text(found) != COMPUTED.read_text("utf-8"):
        wrong.append("proofs/tables.json is not what Coq computes: python -m tests.lemmas --tables")
    return wrong


def main() -> int:
    """Check everything, or do one of the other two things that the module's docstring names."""
    parser = argparse.ArgumentParser(prog="python -m tests.lemmas", description="Check the lemmas.")
    parser.add_argument("--looked-at", metavar="LEMMA", choices=[each.name for each in lemmas()])
    parser.add_argument("--tables", action="store_true")
    asked = parser.parse_args()
    if asked.looked_at:
        return _tell([], f"{looked_at(asked.looked_at)} digests of {asked.looked_at} are new")
    if not has_coq():
        return _tell(["there is no Coq here; on Debian: apt-get install coq"], "")
    try:
        found = all_checked()
    except subprocess.CalledProcessError as error:
        return _tell([f"{' '.join(error.cmd)}:", error.output], "")
    if asked.tables:
        COMPUTED.write_text(tables_text(found), "utf-8")
    wrong = faults(found)
    for lemma in lemmas():
        names = ", ".join(stale(lemma.functions))
        wrong += [f"{lemma.name}: has changed since: {names}"] if names else []
    theorems = sum(len(lemma.theorems) for lemma in lemmas())
    return _tell(wrong, f"{theorems} theorems in {len(found)} files hold")


def _tell(wrong: list[str], otherwise: str) -> int:
    """Print what is wrong, or else what is right, and return the status to leave with."""
    sys.stdout.write("\n".join(wrong or [otherwise]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
