"""The application that serves metrics to Prometheus, without tokens: the controller's, and whether
the API is up, which the controller does not know."""

import json
from collections.abc import Callable

from fastapi import FastAPI, Response
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from controller.api import problems
from controller.api.upstream import Upstream


def make(upstream: Upstream, api_up: Callable[[], bool] | None = None) -> FastAPI:
    """The application. `api_up` is None where no API is configured."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    problems.install(app)
    own = own_registry(api_up)

    @app.api_route("/metrics", methods=["GET", "HEAD"])
    async def metrics() -> Response:
        told = json.loads(await upstream.ask("metrics"))
        text = "".join(told["text"]) + generate_latest(own).decode()
        return Response(text, media_type=told["content_type"])

    return app


def own_registry(api_up: Callable[[], bool] | None) -> CollectorRegistry:
    """What this process knows by itself."""
    registry = CollectorRegistry()
    if api_up is not None:
        gauge = Gauge("weir_api_up", "1 if the HTTP API is served.", registry=registry)
        gauge.set_function(lambda: float(api_up()))
    return registry
