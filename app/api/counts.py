"""Counts for Prometheus: of requests by route, status and problem, and nothing of any data.

**Privacy.** These counts may be sent on to the machines' monitoring. So
there is no label for a data set, a key or a person. Durations are those of
routes that read neither rows nor noise, by the rule of the log: how long a draw
takes depends on both. For the same reason there is no processor time, memory or
number of draws under way, which are durations in disguise. Requests
are counted when their answer leaves, for releases a tick of the public clock.

Several server processes may answer at one address, and a scrape reaches any of
them. So every series names its process, by an id made at its start: each is a
counter that never goes back, and their sum is the service's.
"""

from __future__ import annotations

import math
import secrets
import shutil
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

_UNROUTED = "none"
_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)


class _Durations:
    """How many requests took how long, and all of them together."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS_S)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """Return how many took no longer than each bound."""
        return [
            ("+Inf" if bound == math.inf else str(bound), count)
            for bound, count in zip(_BOUNDS_S, accumulate(self.counts), strict=True)
        ]


class Counts:
    """What one server process counts. The middleware calls it on the event loop alone."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._process = secrets.token_hex(8)
        self._started = time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._problems: Counter[str] = Counter()
        self._durations: defaultdict[tuple[str, str], _Durations] = defaultdict(_Durations)
        self._open = 0

    def begin(self) -> None:
        """Note that a request is being answered."""
        self._open += 1

    def end(
        self,
        *,
        method: str,
        route: str | None,
        status: int,
        problem: str | None,
        seconds: float | None = None,
    ) -> None:
        """Count a request; without a route its method is whatever the client chose.

        ``seconds`` are how long it took, where that depends on neither rows nor noise.
        """
        self._open -= 1
        # A method or path of a client's own making would be a label with which a client
        # can fill the memory with.
        labels = (method, route, status) if route is not None else (_UNROUTED, _UNROUTED, status)
        self._requests[labels] += 1
        if problem is not None:
            self._problems[problem] += 1
        if seconds is not None and route is not None:
            self._durations[method, route].add(seconds)

    def families(self, data_dir: Path) -> Iterator[Metric]:
        """Yield the present state."""
        yield self._gauge("info", "The version that runs.", 1, version=self._version)
        yield self._gauge(
            "start_time_seconds",
            "When this server process started, in seconds since 1970.",
            self._started,
        )
        requests = CounterMetricFamily(
            "release_desk_requests",
            "Requests answered.",
            labels=["process", "method", "route", "status"],
        )
        for (method, route, status), number in sorted(self._requests.items()):
            requests.add_metric([self._process, method, route, str(status)], number)
        yield requests
        problems = CounterMetricFamily(
            "release_desk_problems", "Refusals and failures by code.", labels=["process", "code"]
        )
        for code, number in sorted(self._problems.items()):
            problems.add_metric([self._process, code], number)
        yield problems
        durations = HistogramMetricFamily(
            "release_desk_request_duration_seconds",
            "How long requests took, of routes that read neither rows nor noise.",
            labels=["process", "method", "route"],
        )
        for (method, route), found in sorted(self._durations.items()):
            labels = [self._process, method, route]
            durations.add_metric(labels, found.buckets, found.total_s)
        yield durations
        yield self._gauge("requests_open", "Requests without an answer yet.", self._open)
        disk = shutil.disk_usage(data_dir)
        yield self._gauge(
            "disk_free_ratio",
            "Free part of the data directory's disk, in whole percents.",
            round(disk.free / disk.total, 2),
        )

    def _gauge(self, name: str, about: str, value: float, **labels: str) -> Metric:
        gauge = GaugeMetricFamily(f"release_desk_{name}", about, labels=["process", *labels])
        gauge.add_metric([self._process, *labels.values()], value)
        return gauge
