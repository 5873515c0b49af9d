"""The controller's local API, asked over its Unix socket."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

import httpx

_TIMEOUT_S = 10.0
# A stream says something at least that often.
_SILENCE_S = 30.0


class UnavailableError(Exception):
    """The controller does not answer."""


class Answer(NamedTuple):
    """JSON as the controller has written it."""

    status: int
    body: bytes


class Upstream:
    """The controller that listens at a path."""

    def __init__(self, path: str) -> None:
        # Each request has a connection of its own there: whoever waits does so in the kernel.
        limits = httpx.Limits(max_connections=256, max_keepalive_connections=0)
        transport = httpx.AsyncHTTPTransport(uds=path, limits=limits)
        self._client = httpx.AsyncClient(
            transport=transport, base_url="http://controller", timeout=_TIMEOUT_S
        )

    async def ask(
        self, method: str, resource: str, parameters: Mapping[str, object] | None = None
    ) -> Answer:
        """Raises UnavailableError."""
        given = {key: str(value) for key, value in (parameters or {}).items() if value is not None}
        try:
            response = await self._client.request(method, f"/v1/{resource}", params=given)
        except httpx.HTTPError as error:
            raise UnavailableError(str(error)) from error
        return Answer(response.status_code, response.content)

    async def follow(
        self, resource: str, parameters: Mapping[str, str]
    ) -> AsyncIterator[dict[str, object] | None]:
        """The objects of a stream, and None now and then. Raises UnavailableError."""
        timeout = httpx.Timeout(_TIMEOUT_S, read=_SILENCE_S)
        try:
            async with self._client.stream(
                "GET", f"/v1/{resource}", params={**parameters, "follow": "true"}, timeout=timeout
            ) as response:
                if response.status_code != httpx.codes.OK:
                    raise UnavailableError(f"status {response.status_code}")
                async for line in response.aiter_lines():
                    yield json.loads(line) if line.strip() else None
        except (httpx.HTTPError, ValueError) as error:
            raise UnavailableError(str(error)) from error

    async def close(self) -> None:
        """All connections."""
        await self._client.aclose()
