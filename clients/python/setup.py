"""Make the package of the client's sources: the same modules, under the name that they have alone.

Beside the service the client is ``app.client``. On a machine of somebody who only asks, ``app``
would be in the way of their own. A source distribution holds the package already.
"""

import shutil
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = ROOT / "app" / "client"
NAME = "release_desk_client"


def make_package() -> None:
    """Write the sources anew, with their own name in place of the service's."""
    shutil.rmtree(HERE / NAME, ignore_errors=True)
    for source in SOURCES.rglob("*.py"):
        target = HERE / NAME / source.relative_to(SOURCES)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text("utf-8").replace("app.client", NAME), "utf-8")
    shutil.copyfile(ROOT / "app" / "py.typed", HERE / NAME / "py.typed")
    shutil.copyfile(ROOT / "LICENSE", HERE / "LICENSE")


if SOURCES.is_dir():
    make_package()
setup()
