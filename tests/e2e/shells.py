"""Interpreters that run one block of a document after another and keep what it defines.

Each runs in the page's project directory. What Bash exports, the others find in
their environment, as a reader's do that are started from that shell.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

_DONE = "the block is done"
_TIMEOUT_S = 120.0
_PYTHON = """
import sys
space = {"__name__": "__main__"}
for name in sys.stdin:
    exec(compile(open(name.strip()).read(), name.strip(), "exec"), space)
"""
_R = """
names <- file("stdin", "r")
while (length(name <- readLines(names, 1)) > 0) source(name, print.eval = TRUE)
"""


class Shell:
    """A language's interpreter, started when its first block comes."""

    command: tuple[str, ...]
    ending: str

    def __init__(self, project: Path, environment: dict[str, str]) -> None:
        self._project = project
        self._environment = dict(environment)
        self._process: subprocess.Popen[str] | None = None
        self._number = 0

    def run(self, block: str, environment: dict[str, str]) -> str:
        """Run a block and return what it printed; raise AssertionError if it fails."""
        self._number += 1
        changed = dict(environment.items() - self._environment.items())
        self._environment.update(changed)
        file = self._project / f".block-{self._number}.{type(self).__name__.lower()}"
        settings = "".join(self.setting(name, value) for name, value in changed.items())
        file.write_text(f"{settings}{block}\n{self.ending}\n", "utf-8")
        return self._answer(self.line(file))

    def line(self, file: Path) -> str:
        """Return what tells the interpreter to run a file."""
        return f"{file}\n"

    def setting(self, name: str, value: str) -> str:
        """Return a statement that sets a variable of the environment."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the interpreter."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _answer(self, line: str) -> str:
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        late = threading.Timer(_TIMEOUT_S, process.kill)
        late.start()
        printed: list[str] = []
        try:
            for each in process.stdout:
                if each.rstrip("\n") == _DONE:
                    return "".join(printed)
                printed.append(each)
        finally:
            late.cancel()
        raise AssertionError("".join(printed)[-4000:] or "it failed and printed nothing")

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command,
            cwd=self._project,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


class Bash(Shell):
    """One shell; a command that fails ends it."""

    command = ("bash", "-euo", "pipefail")
    ending = f"env -0 > .environment\necho; echo {shlex.quote(_DONE)}"

    def line(self, file: Path) -> str:
        """Return a line that keeps the shell's own input from the block's commands."""
        return f"source {shlex.quote(str(file))} < /dev/null\n"

    def setting(self, name: str, value: str) -> str:
        return f"export {name}={shlex.quote(value)}\n"

    def run(self, block: str, environment: dict[str, str]) -> str:
        """Run a block; what it exports is added to ``environment``."""
        printed = super().run(block, environment)
        exported = (self._project / ".environment").read_text("utf-8").split("\0")
        pairs = (each.split("=", 1) for each in exported if each)
        environment.update(
            {name: value for name, value in pairs if name.isupper() and name not in ("SHLVL", "_")}
        )
        return printed


class Python(Shell):
    """One interpreter, in which a warning is an error."""

    command = (sys.executable, "-u", "-W", "error", "-c", _PYTHON)
    ending = f"print({json.dumps(_DONE)}, flush=True)"

    def setting(self, name: str, value: str) -> str:
        return f"import os; os.environ[{name!r}] = {value!r}\n"


class R(Shell):
    """One interpreter of R."""

    command = ("Rscript", "--vanilla", "-e", _R)
    ending = f'cat({json.dumps(_DONE)}, "\\n", sep = ""); flush(stdout())'

    def setting(self, name: str, value: str) -> str:
        return f"Sys.setenv({name} = {json.dumps(value)})\n"


class Shells:
    """Every language's interpreter over one project directory."""

    def __init__(self, project: Path, environment: dict[str, str]) -> None:
        self._environment = dict(environment)
        kinds: dict[str, type[Shell]] = {"bash": Bash, "python": Python, "r": R}
        self._shells = {name: kind(project, environment) for name, kind in kinds.items()}

    def run(self, language: str, block: str) -> str:
        """Run a block and return what it printed."""
        return self._shells[language].run(block, self._environment)

    def __enter__(self) -> Shells:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for shell in self._shells.values():
            shell.stop()
