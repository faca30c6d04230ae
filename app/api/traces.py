"""Traces: a span for each request that was answered, sent to a collector of the operator's.

Off unless the setting names a collector. A span says which route answered, with which status and
problem, and in which class of durations, and nothing else: no path, no id, no key, no address. The
ids of traces are our own, and those that clients send are not read.

**Privacy.** What a span says may leave for other machines, so the rule is that of the counts
(:class:`app.api.middleware.Counts`). A span begins and ends when its answer has left, for a release
a tick of the public clock: it has no length of its own. The class is said of routes that read
neither rows nor noise; how long the others take depends on both.
"""

from __future__ import annotations

import time
from bisect import bisect_left

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, StatusCode

_BOUNDS_S = (0.01, 0.1, 1.0, 10.0)
_CLASSES = ("to 10 ms", "to 100 ms", "to 1 s", "to 10 s", "above 10 s")
_PRIVATE = "not public"
_FAILURE = 500


def duration_class(seconds: float | None) -> str:
    """Return the class that a duration is in; None is one that is not public.

    >>> duration_class(0.004), duration_class(0.1), duration_class(60.0), duration_class(None)
    ('to 10 ms', 'to 100 ms', 'above 10 s', 'not public')
    """
    return _PRIVATE if seconds is None else _CLASSES[bisect_left(_BOUNDS_S, seconds)]


class Traces:
    """Makes a span of each request that has been answered."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("release-desk")

    def end(
        self,
        *,
        method: str,
        route: str | None,
        status: int,
        problem: str | None,
        seconds: float | None,
    ) -> None:
        """Make the span of a request; without a route its method is whatever the client chose."""
        said: dict[str, str | int] = {
            "http.response.status_code": status,
            "release_desk.duration": duration_class(seconds),
        }
        name = "no route"
        if route is not None:
            name = f"{method} {route}"
            said |= {"http.request.method": method, "http.route": route}
        if problem is not None:
            said["release_desk.problem"] = problem
        at = time.time_ns()
        span = self._tracer.start_span(
            name, Context(), kind=SpanKind.SERVER, attributes=said, start_time=at
        )
        if status >= _FAILURE:
            span.set_status(StatusCode.ERROR)
        span.end(at)

    def close(self) -> None:
        """Send what has not been sent yet, and no more after it."""
        self._provider.shutdown()


def traces_to(url: str, version: str) -> Traces:
    """Return what sends spans to a collector, by OTLP over HTTP."""
    # No detectors: they would add names of this machine and its command line.
    about = Resource({"service.name": "release-desk", "service.version": version})
    provider = TracerProvider(
        sampler=ALWAYS_ON, resource=about, span_limits=SpanLimits(), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    return Traces(provider)
