"""Asks a running controller over its Unix socket (`northbound.socket`)."""

import json
import os
import pwd
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from controller.rpc import messages
from controller.rpc.messages import CallError, NonsenseError

_TIMEOUT_S = 30.0

Params = Mapping[str, object]


class AskError(Exception):
    """There is no answer, or it is an error; the message is for the user."""


class NoAnswerError(AskError):
    """The controller was asked, and may have done what it was asked for."""


class Client:
    """The controller that listens at a path. Methods raise AskError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self, method: str, params: Params | None = None) -> dict[str, Any]:
        """The whole answer."""
        answer = messages.Assembly()
        with self._asked(method, params) as lines:
            while not answer.take(_line(lines)):
                pass
            told: dict[str, Any] = json.loads(answer.body)
            return told

    def follow(self, method: str, params: Params | None = None) -> Iterator[dict[str, Any]]:
        """The rows of a stream as they come, until the controller ends."""
        with self._asked(method, params) as lines:
            messages.head(_line(lines))
            while True:
                yield from messages.rows(_line(lines))

    @contextmanager
    def _asked(self, method: str, params: Params | None) -> Iterator[BinaryIO]:
        """The lines of an answer."""
        is_asked = False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(_TIMEOUT_S)
                connection.connect(self._path)
                is_asked = True
                connection.sendall(messages.request(method, params))
                with connection.makefile("rb") as lines:
                    yield lines
        except CallError as error:
            raise AskError(error.detail) from None
        except NonsenseError:
            text = f"what listens at {self._path} is no weir-controller, or one of another version"
            raise AskError(text) from None
        except (OSError, EOFError) as error:
            told = self._told(error)
            raise (NoAnswerError(str(told)) if is_asked else told) from error

    def _told(self, error: OSError | EOFError) -> AskError:
        """What an error means to the user."""
        path = self._path
        where = "start one, or name its socket (northbound.socket) with --socket"
        match error:
            case FileNotFoundError():
                return AskError(f"no controller runs here: there is no socket {path}; {where}")
            case ConnectionRefusedError():
                return AskError(f"no controller runs here: nobody listens at {path}; {where}")
            case PermissionError():
                return AskError(f"only {_owner(path)} may open {path}; try again with sudo")
            case TimeoutError() | BlockingIOError():
                return AskError(f"the controller at {path} does not answer: too many ask it")
            case EOFError() | ConnectionResetError() | BrokenPipeError():
                return AskError(f"the controller at {path} has ended, or is none")
        return AskError(f"{path}: {error.strerror or error}")

    def change(self, method: str, params: Params) -> dict[str, Any]:
        """The whole answer of a method that changes something. An error says whether that is
        certain."""
        try:
            return self.ask(method, params)
        except NoAnswerError as error:
            raise AskError(f"{error}; whether it has done this is not known") from error


def _line(lines: BinaryIO) -> bytes:
    """The next line. Raises EOFError at the end."""
    line = lines.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line


def _owner(path: str) -> str:
    """Who may open a socket: its owner, or the owner of a directory that hides it."""
    for place in (Path(path), Path(path).parent):
        try:
            return pwd.getpwuid(os.stat(place).st_uid).pw_name  # noqa: PTH116 - of either kind
        except (OSError, KeyError):
            continue
    return "its owner"
