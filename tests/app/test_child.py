"""What every process does first that works for the service."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import resource, sys
from app.processes.program import keep_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "kept":
    keep_memory()
for _ in range(2):
    before = faults()
    for _ in range(10):
        blocks = [bytearray(1 << 20) for _ in range(16)]
        del blocks
print(faults() - before)
"""


@pytest.mark.parametrize("memory", ["kept", "given back"])
def test_memory_that_is_kept_is_used_again(memory: str) -> None:
    reported = subprocess.run(
        [sys.executable, "-c", _PROGRAM, memory], capture_output=True, text=True, check=True
    )
    a_page_each = 10 * 16 * (1 << 20) // (1 << 12)
    assert (int(reported.stdout) < a_page_each / 10) == (memory == "kept")
