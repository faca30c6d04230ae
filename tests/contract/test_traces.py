"""Traces: a span for each request, and nothing of anyone or of any row in it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.api.traces import Traces
from app.main import create_app
from app.settings import Settings, SettingsError
from tests.contract.service import ADMIN_KEY, ask, make_key, running, settled, upload
from tests.desk.test_public import INVENTED

PLANTED = "86420.97531"
PERSON = "planted-person-5c1"
NAME = "planted-name-77d"
QUERY = "planted-query-0aa"
HEADER = "planted-header-e9e"
TRACE = "0af7651916cd43dd8448eb211c80319c"
ATTRIBUTES = {
    "http.request.method", "http.route", "http.response.status_code", "release_desk.duration",
    "release_desk.problem",
}  # fmt: skip


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Take what is sent by OTLP over HTTP."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()

        def log_message(self, *said: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces", bodies
        finally:
            server.shutdown()
            thread.join()


def test_spans_name_routes_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION"):
        monkeypatch.delenv(name, raising=False)
    with collector() as (url, bodies):
        with running(tmp_path / "data", traces_url=url) as service, service.client() as admin:
            rows = (
                f"income,food,region,owner\n{PLANTED},20,north,true\n" + "40,20,south,false\n" * 30
            )
            dataset = upload(admin, rows, name=NAME, overlap=INVENTED)["id"]
            make_key(admin, name=PERSON, role="analyst")
            release = settled(admin, ask(admin, dataset, epsilon="0.5")).json()["id"]
            sent = {"User-Agent": HEADER, "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
            admin.get("/v1/datasets", params={"cursor": QUERY}, headers=sent)
            admin.get(f"/v1/releases/{release}")
            httpx.get(f"{service.url}/nowhere/{QUERY}")
            admin.request(QUERY.upper(), "/v1/datasets")
        requests = [ExportTraceServiceRequest.FromString(each) for each in bodies]
    whole = b"".join(bodies) + "".join(map(str, requests)).encode()
    secrets = (PLANTED, PERSON, NAME, QUERY, HEADER, ADMIN_KEY, dataset, release, "127.0.0.1")
    for planted in (*secrets, QUERY.upper(), "0.5"):
        assert planted.encode() not in whole, planted
    assert bytes.fromhex(TRACE) not in whole
    resources = [each.resource for request in requests for each in request.resource_spans]
    named = {each.key for resource in resources for each in resource.attributes}
    assert named == {"service.name", "service.version"}
    spans = [
        span
        for request in requests
        for each in request.resource_spans
        for scope in each.scope_spans
        for span in scope.spans
    ]
    assert {each.key for span in spans for each in span.attributes} <= ATTRIBUTES
    assert all(not span.events and not span.links and not span.parent_span_id for span in spans)
    assert all(span.start_time_unix_nano == span.end_time_unix_nano for span in spans)
    names = [span.name for span in spans]
    assert "POST /v1/datasets/{dataset}/releases" in names
    assert "no route" in names
    taken = {
        span.name: each.value.string_value
        for span in spans
        for each in span.attributes
        if each.key == "release_desk.duration"
    }
    assert taken["POST /v1/datasets/{dataset}/releases"] == "not public"
    assert taken["GET /v1/datasets"].startswith("to ")


def test_a_failure_is_marked_as_one() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = Traces(provider)
    for status, problem in ((200, None), (404, "not-found"), (500, "internal")):
        traces.end(method="GET", route="/v1/keys", status=status, problem=problem, seconds=0.02)
    found = exporter.get_finished_spans()
    assert [span.status.is_ok for span in found] == [True, True, False]
    assert [span.attributes and span.attributes.get("release_desk.problem") for span in found] == [
        None, "not-found", "internal",
    ]  # fmt: skip
    traces.close()


def test_without_the_setting_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    said = "import sys, app.main as m, app.settings as s\nm.create_app(s.Settings(data_dir='{}'))\n"
    said += "print([each for each in sys.modules if 'opentelemetry.sdk' in each])"
    found = subprocess.run(
        [sys.executable, "-c", said.format(tmp_path / "data")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == "[]"


def test_an_extra_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "app.api.traces", None)
    with pytest.raises(SettingsError, match="opentelemetry-sdk"):
        create_app(Settings(data_dir=tmp_path, traces_url="http://127.0.0.1:1/v1/traces"))
