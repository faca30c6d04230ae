"""What tables are made of: their registry, and the types of their columns."""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import BigInteger, Integer, MetaData

metadata = MetaData()

Int = BigInteger().with_variant(Integer(), "sqlite")
# Bytes decide, not a language: a new version of the operating system's collations would
# leave unique indexes of text in the wrong order, and let an Idempotency-Key in twice.
Text = sqlalchemy.Text().with_variant(sqlalchemy.Text(collation="C"), "postgresql")
