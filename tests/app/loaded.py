"""Loaded last by the process that servers are forked from: no server looks through all of it again.

To look for garbage takes a quarter of a second of each start, and writes into pages that are shared
until then. What a server keeps of the migrations when it has read them is there from here too.
"""

from __future__ import annotations

import gc

from sqlalchemy import create_engine

from app.store.database.migrate import is_newest

with create_engine("sqlite://").connect() as _nothing:
    is_newest(_nothing)

gc.collect()
gc.freeze()
