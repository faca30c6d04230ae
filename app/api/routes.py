"""Every route of the service: an endpoint is its module, and its router's line here.

The role, body and refusals of an endpoint are read from its route (see ``app.api.endpoint``) by
whatever needs them: the OpenAPI document, the log, the tests of roles.
"""

from __future__ import annotations

from app.api.endpoints import (
    budgets,
    catalog,
    datasets,
    derivations,
    dry_runs,
    exports,
    health,
    inbox,
    keys,
    ledger,
    log,
    metrics,
    pauses,
    previews,
    publications,
    readings,
    releases,
    reviews,
    scripts,
    versions,
)
from app.api.pages import clients, documents, problems, public, reference

ROUTERS = (
    releases.direct,  # asked most: answered before a route is looked for
    releases.router,
    datasets.router,
    versions.router,
    readings.router,
    budgets.router,
    previews.router,
    dry_runs.router,
    derivations.router,
    scripts.router,
    reviews.router,
    inbox.router,
    publications.router,
    exports.router,
    ledger.router,
    log.router,
    keys.router,
    pauses.router,
    catalog.router,
    health.router,
    metrics.router,
    reference.router,  # before the documents, which answer for all of /docs
    documents.router,
    problems.router,
    clients.router,
    public.router,
)
