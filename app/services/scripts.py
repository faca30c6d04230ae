"""Scripts: a release or a question as a program that reads and asks it again, ready to run.

A writer of each language makes it from the same steps. Names, questions and prices are public or
the caller's own; a key is read from the environment, never written. A script is a function of the
request and of public facts: it is the same before and after a draw.

The packages of the Python and the R client, as the service itself serves them.

No package index has them: a name that is not registered there could be registered by anyone, who
would receive the keys of those who install it. So scripts and documents install from the service,
by an address that holds the digest of the file.

A package is a function of the sources next to the service: no time stamp, no order of a folder and
no version of a compressor is in it. Two installations of one version serve the same bytes.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import shlex
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from pprint import pformat
from textwrap import indent, wrap
from typing import Any, Literal

from app.domain.ledger import sha256_hex
from app.services.datasets.datasets import DatasetFacts, DatasetService
from app.services.people.keys import Caller
from app.services.plans.questions import Question, read_question
from app.services.releases.releases import ReleaseService
from app.store import DatasetStatus

_APP = Path(__file__).resolve().parents[1]
_CLIENTS = _APP.parent / "clients"
"""Next to ``app``, in a checkout and where a wheel is installed."""

_MODULE = "release_desk_client"
_SHARED = ("tidy",)
"""Packages of ``app`` that the client shares with the service, as in clients/python/setup.py."""

_R_PACKAGE = "releasedesk"
_R_NEEDS = ("httr2", "jsonlite")
"""What R installs before: the other packages that it imports come with these."""

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o644


@dataclass(frozen=True, slots=True)
class ClientPackage:
    """A file that installs a client, and what names it."""

    language: Literal["python", "r"]
    name: str
    version: str
    content: bytes
    media_type: str

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the file, in hexadecimal."""
        return sha256_hex(self.content)

    def address(self, base: str) -> str:
        """Return where the service at ``base`` serves these bytes, and never others."""
        return f"{base}/client/{self.digest}/{self.name}"

    def install(self, base: str) -> tuple[str, ...]:
        """Return the commands that install it: of a shell, or of R."""
        address = self.address(base)
        if self.language == "python":
            # pip compares the file with the digest after the mark
            return (f"pip install {shlex.quote(f'{address}#sha256={self.digest}')}",)
        needs = ", ".join(f'"{name}"' for name in _R_NEEDS)
        return (
            f"install.packages(c({needs}))",
            f'install.packages("{address}", repos = NULL, type = "source")',
        )


@cache
def client_packages() -> Mapping[str, ClientPackage]:
    """Return each package by its language; they are made once in a process."""
    return {"python": _wheel(), "r": _source_package()}


def _wheel() -> ClientPackage:
    """Return the wheel of the Python client: the binary distribution format, version 1.0."""
    project = tomllib.loads((_CLIENTS / "python" / "pyproject.toml").read_text("utf-8"))["project"]
    version = str(project["version"])
    about = f"{_MODULE}-{version}.dist-info"
    files = {
        **{f"{_MODULE}/{name}": content for name, content in _modules()},
        f"{about}/licenses/LICENSE": (_CLIENTS / "python" / "LICENSE").read_bytes(),
        f"{about}/METADATA": _metadata(project).encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: release-desk\n"
        b"Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{about}/RECORD"
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[record] = "\n".join((*lines, f"{record},,", "")).encode()
    packed = io.BytesIO()
    # Stored as they are: what a compressor writes differs from one of its versions to the next.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _ZIP_EPOCH)
            entry.create_system = 3  # as on Unix, wherever it is made
            entry.external_attr = (0o100000 | _FILE_MODE) << 16
            archive.writestr(entry, content)
    name = f"{_MODULE}-{version}-py3-none-any.whl"
    return ClientPackage("python", name, version, packed.getvalue(), "application/octet-stream")


def _modules() -> Iterator[tuple[str, bytes]]:
    """Yield the client's files by their paths in its package, imports by its own name."""
    own = _APP / "client"
    found = [(path.relative_to(own), path) for path in own.rglob("*.py")]
    for shared in _SHARED:
        found += [(path.relative_to(_APP), path) for path in (_APP / shared).rglob("*.py")]
    found.append((Path("py.typed"), _APP / "py.typed"))
    for to, path in sorted(found):
        text = path.read_text("utf-8").replace("app.client", _MODULE)
        for shared in _SHARED:
            text = text.replace(f"app.{shared}", f"{_MODULE}.{shared}")
        yield to.as_posix(), text.encode()


def _metadata(project: Mapping[str, Any]) -> str:
    """Return a project's core metadata, version 2.4."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
        "License-File: LICENSE",
        *(f"Requires-Dist: {need}" for need in project["dependencies"]),
    ]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {need}; extra == "{extra}"' for need in needs]
    readme = (_CLIENTS / "python" / project["readme"]).read_text("utf-8")
    return "\n".join((*lines, "", readme))


def _digest(content: bytes) -> str:
    """Return a digest as RECORD has it."""
    digest = bytes.fromhex(sha256_hex(content))
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _source_package() -> ClientPackage:
    """Return the source package of the R client, without what .Rbuildignore leaves out."""
    root = _CLIENTS / "r"
    described = (root / "DESCRIPTION").read_text("utf-8").splitlines()
    (version,) = (line.split()[1] for line in described if line.startswith("Version:"))
    kept = [root / name for name in ("DESCRIPTION", "LICENSE", "NAMESPACE")]
    kept += [*root.glob("R/*.R"), *root.glob("man/*.Rd")]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(kept):
            content = path.read_bytes()
            entry = tarfile.TarInfo(f"{_R_PACKAGE}/{path.relative_to(root).as_posix()}")
            entry.size, entry.mode = len(content), _FILE_MODE
            archive.addfile(entry, io.BytesIO(content))
    # R asks for this ending. Level 0 stores, as above.
    zipped = io.BytesIO()
    with gzip.GzipFile("", "wb", compresslevel=0, fileobj=zipped, mtime=0) as file:
        file.write(packed.getvalue())
    name = f"{_R_PACKAGE}_{version}.tar.gz"
    return ClientPackage("r", name, version, zipped.getvalue(), "application/gzip")


# Scripts: a release or a question as a program that reads and asks it again, ready to run


URL, KEY = "RELEASE_DESK_URL", "RELEASE_DESK_KEY"
"""The environment variables that say where the service is, and who asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as JSON has it. ``dataset`` is a name, or an id where that alone is sure.

    ``service`` is where the request reached the service, which serves the packages.

    ``choice`` is next to the statistic in a release, ``assumed`` in a preview alone.
    """

    service: str
    dataset: str
    statistic: Mapping[str, object]
    choice: Mapping[str, object]
    assumed: Mapping[str, object] = field(default_factory=dict)
    release: str | None = None

    @property
    def title(self) -> str:
        """Return a line that says what it is, for a comment."""
        kind = self.statistic["kind"]
        of = f"release {self.release}" if self.release else f"a question of kind {kind}"
        return f"Release Desk: {of}, data set {json.dumps(self.dataset)}"

    @property
    def epsilon(self) -> str:
        """Return its price."""
        return str(self.choice["epsilon"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A piece of a program: what it does in words, its code, and a name that is then shown."""

    words: str
    code: str
    shown: str = ""


CONNECT = f"The environment says where the service is and who asks: {URL} and {KEY}. Keep it so."
QUESTION = "The data set, found by its name, and the question."
STORED = "The stored answer, read by its id. That is free."
RECEIPT = "Whether the answer is the one that the ledger charged for, as the service sees it."
WEIGH = "What it would cost, and what it would be worth. That is free, and reads no data."
REHEARSE = "The same on synthetic rows: free, without real people, and in the shape of the release."
_SAME_KEY = (
    "The Idempotency-Key follows from the data set, the question and the price. So the same person"
    " asks once and is charged once, however often this is run."
)


def asking(asked: Asked) -> str:
    """Return what is said where a release is asked for."""
    paid = f"Asking costs epsilon {asked.epsilon}: set ASK to do it. {_SAME_KEY}"
    if asked.release is None:
        return paid
    return f"{paid} The release above may have had another key: then this is a new draw and charge."


_WIDTH = 88


# In Python, by the package `release_desk_client`


def python_script(asked: Asked) -> str:
    """Return the program."""
    (install,) = client_packages()["python"].install(asked.service)
    parts = [f"# {asked.title}\n# Needs: {install}"]
    for step in python_steps(asked):
        shown = f"\nprint({step.shown}.to_text())" if step.shown else ""
        parts.append(f"{_python_comment(step.words)}\n{step.code}{shown}")
    return "\n\n".join(parts) + "\n"


def python_steps(asked: Asked) -> Iterator[Step]:
    """Yield its steps."""
    yield Step(
        words=CONNECT,
        code="import os\n\nfrom release_desk_client import ReleaseDesk\n\n"
        f'desk = ReleaseDesk(os.environ["{URL}"], os.environ["{KEY}"])',
    )
    yield Step(
        words=QUESTION,
        code=f"dataset = desk.dataset({asked.dataset!r})\n"
        f"question = {_python_literal(asked.statistic)}\nchoice = {_python_literal(asked.choice)}",
    )
    yield from _python_seen(asked) if asked.release is None else _python_stored(asked.release)
    call = "answer = dataset.release(question, **choice)\nprint(answer.to_text())"
    yield Step(words=asking(asked), code=f"ASK = False\nif ASK:\n{indent(call, '    ')}")


def _python_stored(release: str) -> Iterator[Step]:
    yield Step(words=STORED, code=f"release = desk.released({release!r})", shown="release")
    yield Step(
        words=RECEIPT,
        code='if release.status == "released":\n    print(desk.check_receipt(release).ok)\n'
        "else:\n    print(release.status)",
    )


def _python_seen(asked: Asked) -> Iterator[Step]:
    assumed = asked.assumed
    yield Step(
        words=WEIGH,
        code=f"assumed = {_python_literal(assumed)}\n"
        "preview = dataset.preview(question, **choice, **assumed)\n"
        'print(preview.usefulness["sentence"])',
        shown="preview",
    )
    population = {name: each for name, each in assumed.items() if name == "assume"}
    yield Step(
        words=REHEARSE,
        code=f"population = {_python_literal(population)}\n"
        "dry_run = dataset.dry_run(question, **choice, **population)",
        shown="dry_run",
    )


def _python_literal(value: Mapping[str, object]) -> str:
    return pformat(dict(value), width=_WIDTH, sort_dicts=False)


def _python_comment(words: str) -> str:
    return indent("\n".join(wrap(words, _WIDTH)), "# ")


# A question as a Jupyter notebook in Python (nbformat 4.5): the script's steps as cells

_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebook(asked: Asked) -> str:
    """Return the notebook's JSON, with no output in it."""
    cells = [
        {"id": f"cell-{number}", "metadata": {}, **cell}
        for number, cell in enumerate(_cells(asked))
    ]
    document = {
        "cells": cells,
        "metadata": {"kernelspec": _KERNEL, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _cells(asked: Asked) -> Iterator[dict[str, object]]:
    (install,) = client_packages()["python"].install(asked.service)
    yield _words(f"# {asked.title}\n\nNeeds: `{install}`")
    for step in python_steps(asked):
        yield _words(step.words)
        yield _code("\n".join(filter(None, (step.code, step.shown))))


def _words(text: str) -> dict[str, object]:
    return {"cell_type": "markdown", "source": _lines(text)}


def _code(text: str) -> dict[str, object]:
    return {"cell_type": "code", "execution_count": None, "outputs": [], "source": _lines(text)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


# In R, by the package `releasedesk`

_BMP = 0xFFFF
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_RESERVED = frozenset({"function", "repeat", "while", "break", "next", "else", "for", "if", "in"})
_ESCAPED = {"\\": "\\\\", '"': '\\"'}


def r_script(asked: Asked) -> str:
    """Return the program."""
    needs = "".join(f"\n# Needs: {line}" for line in client_packages()["r"].install(asked.service))
    parts = [f"# {_r_ascii(asked.title)}{_r_ascii(needs)}"]
    for step in _r_steps(asked):
        shown = f"\nprint({step.shown})\nplot({step.shown})" if step.shown else ""
        parts.append(f"{_r_comment(step.words)}\n{step.code}{shown}")
    return "\n\n".join(parts) + "\n"


def _r_steps(asked: Asked) -> Iterator[Step]:
    yield Step(words=CONNECT, code="library(releasedesk)\n\ndesk <- release_desk()")
    yield Step(
        words=QUESTION,
        code=f"dataset <- dataset(desk, {r_literal(asked.dataset)})\n"
        f"question <- {r_literal(asked.statistic)}\nchoice <- {r_literal(asked.choice)}",
    )
    yield from _r_seen(asked) if asked.release is None else _r_stored(asked.release)
    call = f"answer <- {_r_call('release')}\nprint(answer)"
    yield Step(words=asking(asked), code=f"ASK <- FALSE\nif (ASK) {{\n{indent(call, '  ')}\n}}")


def _r_stored(release: str) -> Iterator[Step]:
    yield Step(words=STORED, code=f"stored <- released(desk, {r_literal(release)})", shown="stored")
    yield Step(
        words=RECEIPT,
        code='if (stored$status == "released") {\n  print(check_receipt(stored)$ok)\n}',
    )


def _r_seen(asked: Asked) -> Iterator[Step]:
    yield Step(
        words=WEIGH,
        code=f"assumed <- {r_literal(asked.assumed)}\n"
        f"seen <- {_r_call('preview', 'assumed')}\ncat(seen$usefulness$sentence, fill = TRUE)",
        shown="seen",
    )
    population = {name: each for name, each in asked.assumed.items() if name == "assume"}
    yield Step(
        words=REHEARSE,
        code=f"population <- {r_literal(population)}\n"
        f"rehearsed <- {_r_call('dry_run', 'population')}",
        shown="rehearsed",
    )


def _r_call(function: str, *more: str) -> str:
    given = ", ".join(("list(dataset, question)", "choice", *more))
    return f'do.call("{function}", c({given}))'


def r_literal(value: object, *, room: int = _WIDTH) -> str:
    """Return a value of JSON as R writes it: objects and lists are lists, null is NULL.

    >>> r_literal({"kind": "mean", "columns": ["age"], "by": [], "edges": {}})
    'list(kind = "mean", columns = list("age"), by = list(), edges = named_list())'
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return _r_text(value)
    if isinstance(value, Mapping):
        inner = [(f"{_r_name(name)} = ", each) for name, each in value.items()]
        return _r_listed(inner, room) if inner else "named_list()"
    if isinstance(value, list | tuple):
        return _r_listed([("", each) for each in value], room)
    return repr(value)


def _r_listed(items: list[tuple[str, object]], room: int) -> str:
    parts = [f"{name}{r_literal(each, room=room - 2)}" for name, each in items]
    line = f"list({', '.join(parts)})"
    if len(line) <= room and "\n" not in line:
        return line
    return "list(\n" + ",\n".join(indent(part, "  ") for part in parts) + "\n)"


def _r_name(name: str) -> str:
    plain = _PLAIN_NAME.fullmatch(name) and name not in _RESERVED
    return name if plain else _r_text(name)


def _r_text(text: str) -> str:
    return f'"{"".join(map(_r_character, text))}"'


def _r_character(each: str) -> str:
    """Return a character as it stands in a text of R, whatever the machine's encoding."""
    code = ord(each)
    if each.isascii() and each.isprintable():
        return _ESCAPED.get(each, each)
    return f"\\u{{{code:04x}}}" if code <= _BMP else f"\\U{{{code:08x}}}"


def _r_ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()


def _r_comment(words: str) -> str:
    return indent("\n".join(wrap(_r_ascii(words), _WIDTH)), "# ")


Language = Literal["python", "r", "notebook"]


@dataclass(frozen=True, slots=True)
class Script:
    """A program: its text, what kind of text that is, and a name for its file."""

    text: str
    media_type: str
    name: str


@dataclass(frozen=True, slots=True)
class _Writer:
    write: Callable[[Asked], str]
    media_type: str
    ending: str


_WRITERS: Mapping[Language, _Writer] = {
    "python": _Writer(python_script, "text/x-python", "py"),
    "r": _Writer(r_script, "text/x-r", "R"),
    "notebook": _Writer(notebook, "application/x-ipynb+json", "ipynb"),
}


class ScriptService:
    """Writes programs that read a release or ask a question."""

    def __init__(self, datasets: DatasetService, releases: ReleaseService) -> None:
        self._datasets = datasets
        self._releases = releases

    async def of_release(
        self, release: str, language: Language, *, caller: Caller, service: str
    ) -> Script:
        """Return a program that reads a release, and could ask its question again.

        ``service`` is the address of this service, for the packages that the program needs.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown releases alike.
        """
        record = await self._releases.get(release, caller=caller)
        facts = await self._datasets.present(record.dataset)
        asked = _asked(facts, read_question(record.request), {}, record.id, service)
        return _written(asked, language, record.id)

    def of_question(
        self,
        dataset: str,
        question: Question,
        assumed: Mapping[str, object],
        language: Language,
        *,
        service: str,
    ) -> Script:
        """Return a program that weighs a question, rehearses it, and could ask it.

        ``assumed`` are the members of a preview that a release has not.

        Raises
        ------
        Problem
            ``not-found``.
        """
        facts = self._datasets.facts(dataset)
        return _written(_asked(facts, question, assumed, None, service), language, "question")


def _asked(
    facts: DatasetFacts,
    question: Question,
    assumed: Mapping[str, object],
    release: str | None,
    service: str,
) -> Asked:
    fields = json.loads(json.dumps(question.to_json()))
    # the name of an archived data set may have become another one's
    active = facts.record.status is DatasetStatus.ACTIVE
    return Asked(
        service=service,
        dataset=facts.record.name if active else facts.id,
        statistic=fields.pop("statistic"),
        choice=fields,
        assumed=assumed,
        release=release,
    )


def _written(asked: Asked, language: Language, name: str) -> Script:
    writer = _WRITERS[language]
    return Script(writer.write(asked), writer.media_type, f"{name}.{writer.ending}")
