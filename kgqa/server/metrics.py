"""What whoever runs the server sees: a line for each request, and metrics for Prometheus."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from kgqa.errors import without_secrets
from kgqa.server.guard import ANYBODY, asking

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from kgqa.server.sessions import Sessions

_ACCESS = logging.getLogger("kgqa.access")
_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)  # seconds
request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that is being served: the client's ``X-Request-Id``, or a new one."""


class Metrics(Collector):
    """The server's metrics for Prometheus, at ``/metrics``."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "kgqa_requests", "Requests.", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "kgqa_request_seconds",
            "Seconds from a request to the end of its answer.",
            ["path"],
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def collect(self) -> Iterator[Any]:
        """Yield the metrics with the sessions' present counts."""
        sessions = self._sessions
        done = CounterMetricFamily(
            "kgqa_questions", "Questions by how they ended.", labels=["outcome"]
        )
        for outcome, count in sorted(sessions.done.items()):
            done.add_metric([outcome], count)
        yield done
        for name, value in (
            *sessions.counts.items(),
            ("workers", sessions.workers),
            ("ready", int(sessions.ready)),
        ):
            yield GaugeMetricFamily(f"kgqa_{name}", f"See /ready: {name}.", value=value)

    async def show(self, _: Request) -> Response:
        """Return the metrics in the text format of Prometheus."""
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)


class Observed:
    """The outermost middleware: gives each request an id, counts and logs it.

    ``form``: of the log, ``line``, ``json`` or ``none``. ``paths``: those counted by name.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, form: str, paths: Collection[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._form = form
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, then count and log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        name = given if _ID.fullmatch(given) else uuid.uuid4().hex
        request_id.set(name)
        began, status, size = time.monotonic(), 499, 0  # until it is answered, the client has left

        async def watched(message: Message) -> None:
            """Send a message, noting status and size, and add the request id."""
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = name
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            seconds = time.monotonic() - began
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.labels(path).observe(seconds)
            if self._form != "none":
                self._log(scope, name, status, size, seconds)

    def _log(self, scope: Scope, name: str, status: int, size: int, seconds: float) -> None:
        """Write a request's line to the access log."""
        client = asking.get()
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "address": (scope.get("client") or ("-",))[0],
            "client": "-" if client is ANYBODY else client.name,
            "method": scope["method"],
            # as it was sent, so that no line can be forged; a query may hold a question
            "path": without_secrets(scope["raw_path"].decode("ascii", "backslashreplace"))[:200],
            "status": status,
            "bytes": size,
            "seconds": round(seconds, 3),
            "id": name,
        }
        _ACCESS.info(
            json.dumps(line) if self._form == "json" else " ".join(map(str, line.values()))
        )


def log_access() -> None:
    """Configure the access log: plain lines on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    _ACCESS.addHandler(handler)
    _ACCESS.setLevel(logging.INFO)
    _ACCESS.propagate = False
