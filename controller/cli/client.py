"""Asks a running controller over its Unix socket (`northbound.socket`)."""

import http.client
import json
import os
import pwd
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

_TIMEOUT_S = 30.0

Parameters = Mapping[str, str | int | None]


class ApiError(Exception):
    """No answer, or that it cannot be given; the message is for whoever has asked."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """The controller that listens at a path. Methods raise ApiError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get(self, resource: str, parameters: Parameters | None = None) -> dict[str, Any]:
        """A resource, whole."""
        connection = _Connection(self._path)
        try:
            text = self._ask(connection, resource, parameters).read()
            return self._object(text)
        except (OSError, http.client.HTTPException) as error:
            raise self._told(error) from error
        finally:
            connection.close()

    def stream(self, resource: str, parameters: Parameters) -> Iterator[dict[str, Any]]:
        """Objects as they come, until the controller ends."""
        connection = _Connection(self._path)
        try:
            for line in self._ask(connection, resource, parameters):
                if line.strip():
                    yield self._object(line)
        except (OSError, http.client.HTTPException) as error:
            raise self._told(error) from error
        finally:
            connection.close()

    def _ask(
        self, connection: _Connection, resource: str, parameters: Parameters | None
    ) -> http.client.HTTPResponse:
        given = {key: value for key, value in (parameters or {}).items() if value is not None}
        connection.request("GET", f"/v1/{resource}?{urlencode(given)}")
        response = connection.getresponse()
        if response.status != http.HTTPStatus.OK:
            problem = self._object(response.read())
            raise ApiError(str(problem.get("detail", response.reason)))
        return response

    def _object(self, text: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ApiError(f"what listens at {self._path} is no weir-controller")
        return answer

    def _told(self, error: Exception) -> ApiError:
        """What an error means to whoever has asked."""
        path = self._path
        where = "start one, or name its socket (northbound.socket) with --socket"
        match error:
            case FileNotFoundError():
                return ApiError(f"no controller runs here: there is no socket {path}; {where}")
            case ConnectionRefusedError():
                return ApiError(f"no controller runs here: nobody listens at {path}; {where}")
            case PermissionError():
                return ApiError(f"only {_owner(path)} may open {path}; try again with sudo")
            case TimeoutError() | BlockingIOError():
                return ApiError(f"the controller at {path} does not answer: too many ask it")
            case OSError():
                return ApiError(f"{path}: {error.strerror or error}")
        return ApiError(f"the controller at {path} has ended, or is none")


def _owner(path: str) -> str:
    """Who may open a socket: its owner, or that of the directory that it cannot be seen in."""
    for place in (Path(path), Path(path).parent):
        try:
            return pwd.getpwuid(os.stat(place).st_uid).pw_name  # noqa: PTH116 - of either kind
        except (OSError, KeyError):
            continue
    return "its owner"
