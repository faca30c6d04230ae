"""Whether R is on this machine, and what runs it."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from app.services.scripts import client_packages
from app.settings import PREFIX
from tests.documents import ROOT

PACKAGE = ROOT / "clients" / "r"


@cache
def has_r(*packages: str) -> bool:
    """Return whether R is there, with these packages."""
    if shutil.which("Rscript") is None:
        return False
    wanted = "; ".join(f"library({package})" for package in packages)
    asked = ["Rscript", "--vanilla", "-e", wanted]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@cache
def installed() -> Path:
    """Return a library with our package in it, made once, from the file that a service serves."""
    place = Path(tempfile.mkdtemp(prefix="r-library-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    served = client_packages()["r"]
    (place / served.name).write_bytes(served.content)
    (place / "library").mkdir()
    install = ("R", "CMD", "INSTALL", f"--library={place / 'library'}", place / served.name)
    done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return place / "library"


def run_r(program: Path | str, library: Path, settings: Mapping[str, str], place: Path) -> str:
    """Return what a file of R, or a line, prints in a folder, with packages from a library.

    The environment is this process's, but for the settings of a service that it may have.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    code = [program] if isinstance(program, Path) else ["-e", program]
    done = subprocess.run(
        ["Rscript", "--vanilla", *code], cwd=place, check=False, timeout=240, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**kept, "R_LIBS": str(library), **settings},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout
