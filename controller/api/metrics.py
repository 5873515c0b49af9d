"""The application that serves the controller's metrics to Prometheus, without tokens."""

import json

from fastapi import FastAPI, Response

from controller.api import problems
from controller.api.upstream import Upstream


def make(upstream: Upstream) -> FastAPI:
    """The application."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    problems.install(app)

    @app.api_route("/metrics", methods=["GET", "HEAD"])
    async def metrics() -> Response:
        told = json.loads(await upstream.ask("metrics"))
        return Response("".join(told["text"]), media_type=told["content_type"])

    return app
