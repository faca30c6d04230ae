"""The packages of the Python and the R client, as the service itself serves them.

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
import shlex
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from app.domain.ledger import sha256_hex

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
