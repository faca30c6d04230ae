"""A warm release stays as short as it is: how many files it visits, how many calls it makes.

Who shortens it further lowers these figures; who must lengthen it says why where they are raised.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MOST_FILES = 34
MOST_HOPS = 128  # the last ones ask for the data set's access, a study plan, weights


@pytest.mark.slow
def test_a_warm_release_takes_no_longer_way() -> None:
    command = [sys.executable, "-m", "studies.hops", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found = json.loads(done.stdout)
    # what must be there, or nothing was counted
    assert {"app/store/writer.py", "app/api/endpoints/releases.py"} <= set(found["files"])
    assert len(found["files"]) <= MOST_FILES, found["files"]
    assert found["hops"] <= MOST_HOPS
