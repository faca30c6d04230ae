"""``release-desk demo``: real data in, sanitized numbers out, over HTTP, with every step shown.

The demo is a client like any other. It starts a service in a process of its
own over a fresh directory, makes a curator's and an analyst's key, uploads two
data sets with public bounds, and prints each request with its answer. May enter:
steps that are shown. May import: the client, and what starts a service.
"""

from app.demo.steps import run

__all__ = ["run"]
