"""Make the package of the client's sources: the same modules, under the name that they have alone.

Next to the service the client is ``app.client``. On a machine of somebody who only asks, ``app``
would be in the way of their own. A source distribution has the package already. A copy of this
folder alone has neither, so it is refused: it would install a package without modules.
"""

import shutil
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = ROOT / "app" / "client"
NAME = "release_desk_client"
WITHOUT = f"""\
{HERE} has no sources: they are in app/client of the whole repository, and this is a copy of the \
folder alone. Install from a checkout, as with `pip install ./clients/python` in its root, or \
install the wheel that `make wheel` writes to dist/."""
SHARED = ("tidy",)
"""Packages of ``app`` that the client shares with the service; they need the standard library."""


def make_package() -> None:
    """Write the sources again, with their own name in place of the service's."""
    shutil.rmtree(HERE / NAME, ignore_errors=True)
    copy(SOURCES, HERE / NAME)
    for name in SHARED:
        copy(ROOT / "app" / name, HERE / NAME / name)
    shutil.copyfile(ROOT / "app" / "py.typed", HERE / NAME / "py.typed")
    shutil.copyfile(ROOT / "LICENSE", HERE / "LICENSE")


def copy(sources: Path, to: Path) -> None:
    """Write the modules of a package elsewhere, each import by its new name."""
    for source in sources.rglob("*.py"):
        target = to / source.relative_to(sources)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text("utf-8").replace("app.client", NAME)
        for name in SHARED:
            text = text.replace(f"app.{name}", f"{NAME}.{name}")
        target.write_text(text, "utf-8")


if SOURCES.is_dir():
    make_package()
elif not (HERE / NAME / "__init__.py").is_file():
    raise SystemExit(WITHOUT)
setup()
