"""The controller's local API, asked over its Unix socket."""

import json
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import NamedTuple

import aiohttp

_CONNECTIONS = 256
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
        self._path = path
        self._made: aiohttp.ClientSession | None = None

    async def ask(
        self, method: str, resource: str, parameters: Mapping[str, object] | None = None
    ) -> Answer:
        """Raises UnavailableError."""
        given = {key: str(value) for key, value in (parameters or {}).items() if value is not None}
        try:
            asked = self._session().request(method, f"/v1/{resource}", params=given)
            async with asked as response:
                return Answer(response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnavailableError(str(error)) from error

    async def follow(
        self, resource: str, parameters: Mapping[str, str]
    ) -> AsyncIterator[dict[str, object] | None]:
        """The objects of a stream, and None now and then. Raises UnavailableError."""
        timeout = aiohttp.ClientTimeout(sock_connect=_TIMEOUT_S, sock_read=_SILENCE_S)
        given = {**parameters, "follow": "true"}
        try:
            async with self._session().get(
                f"/v1/{resource}", params=given, timeout=timeout
            ) as response:
                if response.status != HTTPStatus.OK:
                    raise UnavailableError(f"status {response.status}")
                async for line in response.content:
                    yield json.loads(line) if line.strip() else None
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise UnavailableError(str(error)) from error

    def _session(self) -> aiohttp.ClientSession:
        """One that belongs to the running loop."""
        if self._made is None:
            # Each request has a connection of its own: whoever waits does so in the kernel.
            connector = aiohttp.UnixConnector(self._path, limit=_CONNECTIONS, force_close=True)
            self._made = aiohttp.ClientSession(
                "http://controller",
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
            )
        return self._made

    async def close(self) -> None:
        """All connections."""
        if self._made is not None:
            await self._made.close()
