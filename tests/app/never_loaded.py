"""What a host of forked processes never comes to the end of loading."""

from __future__ import annotations

import time

time.sleep(600)
