"""Programs that the service writes, run as a person would run them: apart from the service."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from app.services.scripts import client_packages


def pack_client(place: Path) -> Path:
    """Unpack the client that the service serves below a folder, and return the folder."""
    with zipfile.ZipFile(io.BytesIO(client_packages()["python"].content)) as wheel:
        wheel.extractall(place)
    return place


def run_python(program: str, packed: Path, *, url: str, key: str) -> str:
    """Return what a program prints that finds the client in a folder and nothing of the service."""
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "PYTHONPATH": str(packed),
        "PYTHONIOENCODING": "utf-8",
        "RELEASE_DESK_URL": url,
        "RELEASE_DESK_KEY": key,
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, encoding="utf-8", timeout=120, check=False, cwd="/", env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def program_of(notebook: str) -> str:
    """Return a notebook's cells of code as a program that shows what each cell would show.

    They are checked on the way to be what nbformat 4.5 asks for.
    """
    document = json.loads(notebook)
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert document["metadata"]["kernelspec"]["name"] == "python3"
    names = [cell["id"] for cell in document["cells"]]
    assert len(set(names)) == len(names)
    cells = []
    for cell in document["cells"]:
        assert isinstance(cell["metadata"], dict)
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            assert cell.keys() == {"id", "metadata", "cell_type", "source"}
            continue
        assert cell["cell_type"] == "code"
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        cells.append(text)
    return _SHELL.format(cells=cells)


_SHELL = """
import ast
names = {{}}
for cell in {cells!r}:
    parsed = ast.parse(cell)
    last = parsed.body.pop() if isinstance(parsed.body[-1], ast.Expr) else None
    exec(compile(parsed, "cell", "exec"), names)
    if last is not None:
        shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        print(shown._repr_html_() if hasattr(shown, "_repr_html_") else shown)
"""
