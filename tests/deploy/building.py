"""Building the image without a container engine, and running it as one would.

Debian's ``buildah`` builds it with chroot isolation and the vfs store. No registry is asked: in
place of the base image stands a tree that ``debootstrap`` makes of Debian's packages.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.recipes import DOCKERFILE, ROOT

BASE = "localhost/stand-in"
NAME = "localhost/release-desk"
_TOOLS = ("buildah", "debootstrap", "unshare", "setpriv")
_NEEDED_BYTES = 8 * 2**30
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_NO_NETWORK = re.compile(
    "Failed getting release file|Couldn't download|Temporary failure|Network is unreachable"
    "|NewConnectionError|ConnectTimeout"
)
_ENTER = """
set -e
root=$1 volumes=$2; shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
for place in "$volumes"/*; do mount --bind "$place" "$root/${place##*/}"; done
exec setpriv --no-new-privs chroot --userspec="$1" --groups= "$root" /usr/bin/env -i "${@:2}"
"""
"""Enters an image: its root read-only, its volumes and /tmp writable, as its user."""


class NotBuiltHereError(Exception):
    """This machine has not what building takes; the message says what is missing."""


def missing(place: Path) -> str | None:
    """Return what this machine lacks, or None."""
    if os.geteuid() != 0:
        return "building takes root"
    lacking = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"there is no {', '.join(lacking)} here"
    if shutil.disk_usage(place).free < _NEEDED_BYTES:
        return f"building takes {_NEEDED_BYTES >> 30} GiB of disk"
    alone = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return None if alone.returncode == 0 else "mounts of its own are not allowed here"


@dataclass(frozen=True, slots=True)
class Builder:
    """A store of images below one directory, which leaves nothing anywhere else."""

    home: Path

    def run(self, *arguments: str | Path) -> str:
        """Run ``buildah`` on the store and return what it prints."""
        store = ("--root", self.home / "store", "--runroot", self.home / "run")
        done = subprocess.run(
            ["buildah", *store, "--storage-driver", "vfs", *arguments],
            env=os.environ | {"BUILDAH_ISOLATION": "chroot", "TMPDIR": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
        )
        _judge(done)
        return done.stdout.strip()

    def build(self) -> Any:
        """Make the stand-in and the image, and return what the image says of itself.

        Raises
        ------
        NotBuiltHereError
            Packages cannot be fetched here.
        """
        self._make_base()
        recipe = self.home / "Dockerfile"
        text, places = re.subn(r"^FROM python:\S+", f"FROM {BASE}", DOCKERFILE, flags=re.MULTILINE)
        assert places == 2
        recipe.write_text(text, "utf-8")
        self.run("build", "--format", "docker", "--tag", NAME, "--file", recipe, ROOT)
        return json.loads(self.run("inspect", "--type", "image", NAME))["Docker"]["config"]

    def mounted(self) -> Path:
        """Return where the image's root is."""
        return Path(self.run("mount", self.run("from", NAME)))

    def remove(self) -> None:
        """Remove all that was made."""
        # Mounts, if a killed build has left any, are not ours to follow.
        subprocess.run(["rm", "-rf", "--one-file-system", self.home], check=True)

    def _make_base(self) -> None:
        tree = self.home / "base"
        _bootstrap(tree)
        # What the base image has and Debian's packages lack: the name, and this machine's way out.
        (tree / "usr" / "bin" / "python").symlink_to("python3")
        if _CERTIFICATES.exists():
            shutil.copyfile(_CERTIFICATES, tree / _CERTIFICATES.relative_to("/"))
        _copy_pip_settings(tree)
        container = self.run("from", "scratch")
        self.run("copy", "--quiet", container, tree, "/")
        for name, value in os.environ.items():
            if name.startswith("PIP_") and _holds_there(value):
                self.run("config", "--env", f"{name}={value}", container)
        self.run("commit", "--quiet", "--rm", container, BASE)
        shutil.rmtree(tree)


def _bootstrap(tree: Path) -> None:
    """Make a Debian of this machine's version, with Python."""
    about = Path("/etc/os-release").read_text("utf-8")
    found = re.search(r"^VERSION_CODENAME=(\w+)$", about, re.MULTILINE)
    if "ID=debian" not in about or found is None:
        raise NotBuiltHereError("the stand-in for the base image is made of Debian's packages")
    packages = "--include=ca-certificates,python3,python3-venv"
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", packages, found[1], tree],
        capture_output=True,
        text=True,
        check=False,
    )
    _judge(done)


def _judge(done: subprocess.CompletedProcess[str]) -> None:
    """Tell a command that failed from one that found no network."""
    said = done.stdout + done.stderr
    if done.returncode != 0 and _NO_NETWORK.search(said):
        raise NotBuiltHereError("packages cannot be fetched here")
    assert done.returncode == 0, said[-4000:]


def _copy_pip_settings(tree: Path) -> None:
    """Let ``pip`` find packages in the tree as it does here."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    found = re.findall(r"^global\.([\w-]+)='(.*)'$", listed.stdout, re.MULTILINE)
    lines = [f"{name} = {value}" for name, value in found if _holds_there(value)]
    (tree / "etc" / "pip.conf").write_text("\n".join(["[global]", *lines, ""]), "utf-8")


def _holds_there(setting: str) -> bool:
    """Return whether a setting of ``pip`` is of use in the tree: one line, no file of ours."""
    named = setting.startswith("/") and setting != str(_CERTIFICATES)
    return not named and "\\n" not in setting


@dataclass(frozen=True, slots=True)
class Entered:
    """An image's root with volumes, ready to run commands in."""

    root: Path
    volumes: Path
    user: str
    environment: list[str]

    def command(self, *words: str) -> list[str]:
        """Return a command that runs one of the image's, on a read-only root."""
        own = ["unshare", "--mount", "--propagation", "private", "bash", "-c", _ENTER, "enter"]
        return [*own, str(self.root), str(self.volumes), self.user, *self.environment, *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of the image's commands to its end."""
        return subprocess.run(self.command(*words), capture_output=True, text=True, check=False)


def files_of(root: Path) -> Iterator[Path]:
    """Yield every file of a tree, links left out."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink():
                yield path
