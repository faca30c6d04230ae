"""Loaded last by the process that servers are forked from: no server looks through all of it again.

To look for garbage takes a quarter of a second of each start, and writes into pages that are shared
until then.
"""

from __future__ import annotations

import gc

gc.collect()
gc.freeze()
